"""What a node is asked beside its VMs: storage, commands, agents, recovery (compute-node-api.md §10)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compute.conftest import IMAGE, NODE, OTHER, MakeWorld, World

from vetro.compute.work.agents import NodeTaskError

RECOVERY = "00112233-4455-5677-a899-aabbccddeeff"


STORAGE = [
    ("GET", "/datasets", None, "zfs_list_datasets", {}, 200),
    ("POST", "/datasets", {"dataset": "zones/a"}, "zfs_create_dataset", {"dataset": "zones/a"}, 204),
    ("DELETE", "/datasets/zones%2Fa@s", None, "zfs_destroy_dataset", {"dataset": "zones/a@s"}, 204),
    ("POST", "/datasets/zones%2Fa/snapshot", {"name": "s"}, "zfs_snapshot_dataset",
     {"dataset": "zones/a@s"}, 204),
    ("POST", "/datasets/zones%2Fa/rollback", {"name": "s"}, "zfs_rollback_dataset",
     {"dataset": "zones/a@s"}, 204),
    ("GET", "/datasets/zones%2Fa/snapshots", None, "zfs_list_snapshots", {"dataset": "zones/a"}, 200),
    ("GET", "/dataset-properties?prop1=used&prop2=quota", None, "zfs_get_properties",
     {"properties": ["used", "quota"]}, 200),
    ("GET", "/datasets/zones%2Fa/properties?prop1=used", None, "zfs_get_properties",
     {"dataset": "zones/a", "properties": ["used"]}, 200),
    ("POST", "/datasets/zones%2Fa/properties", {"properties": {"quota": "1G"}},
     "zfs_set_properties", {"dataset": "zones/a", "properties": {"quota": "1G"}}, 204),
    ("GET", "/zpools", None, "zfs_list_pools", {}, 200),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "path", "body", "task", "params", "status"), STORAGE)
async def test_storage_calls(
    world: World, verb: str, path: str, body: Any, task: str, params: dict[str, Any], status: int
) -> None:
    """Each call is one task with the dataset as one name; a failure names the attempted call."""
    answer = await world.call(verb, f"/servers/{NODE}{path}", body)
    assert answer.status == status
    sent = world.nodes.last(task).params
    assert {name: sent[name] for name in params} == params
    details = {"restCode": "NotImplemented"}
    world.nodes.answers[task] = NodeTaskError("no ZFS here", details)
    answer = await world.call(verb, f"/servers/{NODE}{path}", body)
    assert (answer.status, answer.json()["code"]) == (500, "InternalError")
    assert answer.json()["message"].startswith("cannot ")
    assert answer.json()["message"].endswith(": no ZFS here")
    assert answer.json()["details"] == details


async def test_storage_lists_are_arrays(world: World) -> None:
    """The agent wraps them in objects."""
    pools = [{"name": "zones", "health": "ONLINE"}]
    world.nodes.answers["zfs_list_pools"] = {"pools": pools}
    assert await world.ok("GET", f"/servers/{NODE}/zpools") == pools
    world.nodes.answers["zfs_list_datasets"] = {"result": [{"name": "zones"}]}
    assert await world.ok("GET", f"/servers/{NODE}/datasets") == [{"name": "zones"}]


@pytest.mark.parametrize("path", ["/datasets", "/datasets/a/snapshot", "/datasets/a/properties"])
async def test_storage_calls_without_their_parameter(world: World, path: str) -> None:
    """500 InvalidParameters; nothing is sent."""
    refused = await world.refused("POST", f"/servers/{NODE}{path}", {})
    assert refused[:2] == (500, "InvalidParameters")
    assert not [task for task in world.nodes.tasks if task.startswith("zfs")]


async def test_remote_execution(world: World) -> None:
    """Trimmed output as a JSON text or plain; json gives everything; a failure is 500."""
    path = f"/servers/{NODE}/execute"
    answers = world.nodes.answers
    answers["command_execute"] = {"exitCode": 0, "stdout": " hi\n", "stderr": ""}
    assert await world.ok("POST", path, {"script": "#!/bin/sh\necho hi"}) == "hi"
    plain = await world.call("POST", path, {"script": "x"}, headers={"Accept": "text/plain"})
    assert plain.content == b"hi"
    assert plain.headers["content-type"] == "text/plain; charset=utf-8"
    answers["command_execute"] = {"exitCode": 3, "stdout": "", "stderr": "bad"}
    assert (await world.ok("POST", path, {"script": "x", "json": True}))["exitCode"] == 3
    refused = await world.refused("POST", path, {"script": "x", "timeout": 1000, "args": ["a"]})
    assert refused == (500, "InternalError", "Error executing on remote system")
    sent = world.nodes.last("command_execute").params
    assert (sent["timeout"], sent["args"]) == (1000, ["a"])
    assert (await world.refused("POST", path, {}))[:2] == (500, "InvalidParameters")


async def test_remote_execution_can_be_switched_off(make_world: MakeWorld) -> None:
    """403, and nothing is sent."""
    world = await make_world(remote_execution=False)
    await world.server()
    assert (await world.refused("POST", f"/servers/{NODE}/execute", {"script": "x"}))[0] == 403
    assert world.nodes.tasks == []


async def test_agents_calls(world: World) -> None:
    """History, pause, resume (both verbs), images, installs and removals."""
    world.nodes.history = [{"task": "nop", "status": "finished"}]
    path = f"/servers/{NODE}"
    assert await world.ok("GET", f"{path}/task-history") == world.nodes.history
    for verb in ("POST", "GET"):
        assert (await world.call(verb, f"{path}/cn-agent/pause")).status == 204
        assert (await world.call(verb, f"{path}/cn-agent/resume")).status == 204
    assert world.nodes.requests[1:] == [("POST", "/pause"), ("POST", "/resume")] * 2
    world.nodes.history = NodeTaskError("does not answer")
    assert (await world.refused("GET", f"{path}/task-history"))[0] == 500
    for verb in ("POST", "GET"):
        body = {"image_uuid": IMAGE} if verb == "POST" else None
        query = "" if verb == "POST" else f"?image_uuid={IMAGE}"
        made = await world.ok(verb, f"{path}/ensure-image{query}", body)
        assert (await world.ended(made["id"]))["task"] == "image_ensure_present"
    assert (await world.refused("POST", f"{path}/ensure-image", {"x": 1}))[0] == 409
    made = await world.ok("POST", f"{path}/install-agent", {"image_uuid": IMAGE})
    assert (await world.ended(made["id"]))["task"] == "agent_install"
    made = await world.ok("POST", f"{path}/uninstall-agents", {"agents": ["a"]})
    assert (await world.ended(made["id"]))["task"] == "agents_uninstall"
    old = [{"name": "cn-agent", "version": "2.7.9"}]
    await world.ok("POST", path, {"agents": old})
    assert (await world.refused("POST", f"{path}/uninstall-agents", {"agents": ["a"]}))[:2] == (
        412, "PreconditionFailed",
    )  # fmt: skip
    assert (await world.refused("POST", f"{path}/reboot", {"nojob": True}))[:2] == (
        503, "ServiceUnavailable",
    )  # fmt: skip


async def test_sysinfo_refresh(world: World) -> None:
    """The record is renewed when it returns; failures have one message."""
    info = {"UUID": NODE, "Hostname": "x", "Setup": True, "MiB of Memory": "1", "Admin IP": "::1"}
    world.nodes.answers["server_sysinfo"] = {"sysinfo": info}
    assert await world.ok("POST", f"/servers/{NODE}/sysinfo-refresh", {}) == {}
    one = await world.ok("GET", f"/servers/{NODE}")
    assert one["ram"] == 1
    assert one["hostname"] == "node-1"  # the first registration's
    world.nodes.answers["server_sysinfo"] = NodeTaskError("no")
    refused = await world.refused("POST", f"/servers/{NODE}/sysinfo-refresh", {})
    assert refused == (500, "InternalError", "Unable to gather latest sysinfo")


HEX = "00112233445566778899aabbccddeeff0011"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, '"recovery_uuid", "pivtoken" and "action" params must be provided'),
        ({"action": "drop"}, '"action" must be one of'),
        ({"action": "stage"}, '"template" and "token" params must be provided'),
        ({"action": "activate"}, "is already active"),
        ({"action": "activate", "recovery_uuid": OTHER}, "is not staged"),
    ],
)
async def test_recovery_configurations_that_are_refused(
    world: World, body: dict[str, Any], said: str
) -> None:
    """Each rule is a 412 with its words."""
    await world.server(**{"Zpool Encrypted": True, "Zpool Recovery": {"active": HEX}})
    given = {"recovery_uuid": RECOVERY, "pivtoken": "p", **body} if body else {}
    status, code, message = await world.refused("POST", f"/servers/{NODE}/recovery-config", given)
    assert (status, code) == (412, "PreconditionFailed")
    assert said in message


async def test_a_recovery_configuration_is_staged(world: World) -> None:
    """On an encrypted pool, with a new agent."""
    body = {
        "action": "stage", "recovery_uuid": RECOVERY, "pivtoken": "p", "template": "t", "token": "k",
    }  # fmt: skip
    path = f"/servers/{NODE}/recovery-config"
    assert "not encrypted" in (await world.refused("POST", path, body))[2]
    await world.server(**{"Zpool Encrypted": True, "Zpool Recovery": {"staged": HEX}})
    made = await world.ok("POST", path, body)
    assert (await world.ended(made["id"]))["task"] == "recovery_config"
    made = await world.ok("POST", path, {**body, "action": "activate"})
    assert (await world.ended(made["id"]))["status"] == "complete"
