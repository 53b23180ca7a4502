"""VMs over HTTP: their making, actions and queries (compute-node-api.md §8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import update
from tests.compute.conftest import IMAGE, MASTER, NODE, OTHER, PAYLOAD, PROJECT, VM, World

from vetro.compute.tables import vms
from vetro.compute.work.agents import NodeTaskError


async def test_a_vm_is_made_and_known_at_once(any_world: World) -> None:
    """200 {id}; the task says complete, the VM object of the node is in the server's vms."""
    world = any_world
    await world.image()
    answer = await world.call("POST", f"/servers/{NODE}/vms", PAYLOAD)
    assert answer.status == 200
    task = await world.ended(answer.json()["id"])
    assert task["status"] == "complete"
    assert task["task"] == "machine_create"
    assert task["req_id"] == answer.headers["x-request-id"]
    (finish,) = task["history"]
    assert finish["name"] == "finish"
    assert finish["event"]["vm"]["uuid"] == VM
    one = await world.ok("GET", f"/servers/{NODE}")
    assert one["vms"][VM]["state"] == "running"
    assert one["vms"][VM]["max_physical_memory"] == 512
    (listed,) = await world.ok("GET", f"/servers/{NODE}/vms")
    assert listed["uuid"] == VM
    assert listed["owner_uuid"] == PROJECT
    assert listed["quota"] == 10
    assert (await world.ok("GET", f"/servers/{NODE}/vms/{VM}"))["image_uuid"] == IMAGE
    assert (await world.ok("GET", f"/servers/default/vms/{VM}"))["server_uuid"] == NODE


async def test_a_creation_that_is_repeated_makes_one_vm(any_world: World) -> None:
    """While it is being made the same task, after that a task that finds it."""
    world = any_world
    await world.image()
    gate = asyncio.Event()

    async def slowly(call: Any) -> dict[str, Any]:
        await gate.wait()
        world.nodes.vms[VM] = {**call.params, "state": "running"}
        return {"vm": world.nodes.vms[VM]}

    world.nodes.answers["machine_create"] = slowly
    made = [await world.ok("POST", f"/servers/{NODE}/vms", PAYLOAD) for _ in range(3)]
    assert len({one["id"] for one in made}) == 1
    assert (await world.ok("GET", f"/servers/{NODE}/vms/{VM}"))["state"] == "creating"
    gate.set()
    assert (await world.ended(made[0]["id"]))["status"] == "complete"
    again = await world.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)
    assert (await world.ended(again["id"]))["status"] == "complete"
    assert world.nodes.tasks.count("machine_create") == 1


async def test_a_creation_that_breaks_off_is_failed_until_it_is_repeated(world: World) -> None:
    """An agent killed in the middle: never shown as running, whatever its node reports then."""
    await world.image()
    world.nodes.answers["machine_create"] = NodeTaskError("the agent broke off")
    made = await world.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)
    ended = await world.ended(made["id"])
    assert ended["status"] == "failure"
    assert ended["history"][0]["event"]["error"]["message"] == "the agent broke off"
    assert [one["name"] for one in ended["history"]] == ["error", "finish"]
    sample = {"vms": {VM: {"uuid": VM, "state": "running"}}}
    await world.ok("POST", f"/servers/{NODE}/events/status", sample)
    one = await world.ok("GET", f"/servers/{NODE}")
    assert one["vms"][VM]["state"] == "failed"
    # Why, for those who look at the VM and not at the task.
    assert one["vms"][VM]["failure"] == "the agent broke off"
    shown = await world.ok("GET", f"/servers/{NODE}/vms/{VM}")
    assert (shown["state"], shown["failure"]) == ("failed", "the agent broke off")
    del world.nodes.answers["machine_create"]
    again = await world.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)
    assert (await world.ended(again["id"]))["status"] == "complete"
    made_now = (await world.ok("GET", f"/servers/{NODE}"))["vms"][VM]
    assert made_now["state"] == "running"
    assert "failure" not in made_now


#: What is done to a VM, the task of its node, and whether the VM has another root disk after it.
RENEWED = [
    ("POST /start", "machine_boot", False),
    ("POST /stop", "machine_shutdown", False),
    ("POST /reboot", "machine_reboot", False),
    ("POST /update", "machine_update", False),
    ("POST /reprovision", "machine_reprovision", True),
    ("PUT /snapshots/a/rollback", "machine_rollback_snapshot", True),
]


async def test_another_disk_is_another_incarnation(any_world: World) -> None:
    """It stays when a VM is changed or restarted; a disk that was made anew or went back has another one."""
    world = any_world
    vm = await world.vm()

    async def incarnation() -> str:
        (listed,) = await world.ok("GET", f"/incarnations?project_id={PROJECT}")
        shown = await world.ok("GET", f"/servers/{NODE}/vms/{vm}")
        assert listed == {"uuid": vm, "incarnation": shown["incarnation"]}
        return str(shown["incarnation"])

    seen = {await incarnation()}
    for call, task, is_renewed in RENEWED:
        world.nodes.answers[task] = {"vm": {"uuid": vm, "state": "running"}}
        method, path = call.split()
        body = {"image_uuid": IMAGE} if path == "/reprovision" else {}
        made = await world.ok(method, f"/servers/{NODE}/vms/{vm}{path}", body)
        await world.ended(made["id"])
        assert (await incarnation() not in seen) is is_renewed, call
        seen.add(await incarnation())
    destroyed = await world.ok("DELETE", f"/servers/{NODE}/vms/{vm}")
    await world.ended(destroyed["id"])
    again = await world.ok("POST", f"/servers/{NODE}/vms", {**PAYLOAD, "uuid": vm})
    await world.ended(again["id"])
    assert await incarnation() not in seen
    # Of a VM of an earlier release it is the uuid.
    async with world.database.transaction() as tx:
        await tx.execute(update(vms).values(incarnation=None))
    assert await incarnation() == vm
    assert await world.ok("GET", "/incarnations?project_id=another") == []


@pytest.mark.parametrize(("owner", "status"), [(PROJECT, "complete"), ("another", "failure")])
async def test_a_vm_that_exists_counts_when_it_is_the_same(
    world: World, owner: str, status: str
) -> None:
    """VmAlreadyExists with the same payload is a creation that worked; with another it is not."""
    await world.image()
    world.nodes.vms[VM] = {**PAYLOAD, "owner_uuid": owner, "state": "running"}
    made = await world.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)
    assert (await world.ended(made["id"]))["status"] == status


async def test_the_image_of_a_vm(world: World) -> None:
    """image_uuid of the VM or its first disk, a manifest with files, or one the service has."""
    post = f"/servers/{NODE}/vms"

    async def field(body: dict[str, Any]) -> str:
        answer = await world.call("POST", post, body)
        assert answer.status == 500
        assert answer.json()["code"] == "InvalidParameters"
        return answer.json()["errors"][0]["field"]

    assert await field({"uuid": VM}) == "image_uuid"
    assert await field({**PAYLOAD, "image_uuid": 5}) == "image_uuid"
    assert await field({**PAYLOAD, "image": {}}) == "image.files"
    assert await field({**PAYLOAD, "image": {"files": "x"}}) == "image.files"
    assert await field(PAYLOAD) == "image"
    await world.image()
    image = {"files": [{"compression": "gzip"}], "origin": IMAGE}
    made = await world.ok("POST", post, {**PAYLOAD, "brand": "kvm", "image": image,
                                         "disks": [{"image_uuid": OTHER}]})  # fmt: skip
    await world.ended(made["id"])
    sent = world.nodes.last("machine_create").params
    assert sent["dataset_url"].endswith(f"/images/{OTHER}/file")
    assert sent["dataset_url_compression"] == "gzip"
    assert sent["dataset_origin_uuid"] == IMAGE
    assert sent["origin"]["name"] == "debian"


async def test_an_old_node_is_told_the_default_gateway(world: World) -> None:
    """Nodes before 7.0 need it as a property of the VM."""
    await world.server(**{"SDC Version": "6.5"})
    await world.vm(nics=[{"gateway": "10.0.0.1"}, {"primary": True, "gateway": "10.0.0.2"}])
    assert world.nodes.last("machine_create").params["default_gateway"] == "10.0.0.2"


ACTIONS = [
    ("POST", "/start", {}, "machine_boot"),
    ("POST", "/start", {"update": {"set_internal_metadata": {"a": "b"}}}, "machine_boot"),
    ("POST", "/stop", {"force": True, "timeout": 5}, "machine_shutdown"),
    ("POST", "/kill", {"signal": 9}, "machine_kill"),
    ("POST", "/kill", {"signal": "SIGTERM", "idempotent": "true"}, "machine_kill"),
    ("POST", "/reboot", {"idempotent": True}, "machine_reboot"),
    ("POST", "/update", {"alias": "new", "set_tags": {"a": 1}}, "machine_update"),
    ("POST", "/reprovision", {"image_uuid": IMAGE}, "machine_reprovision"),
    ("PUT", "/snapshots", {"snapshot_name": "one"}, "machine_create_snapshot"),
    ("PUT", "/snapshots/one/rollback", None, "machine_rollback_snapshot"),
    ("DELETE", "/snapshots/one", None, "machine_delete_snapshot"),
    (
        "POST",
        "/images",
        {"manifest": {"uuid": OTHER, "owner": PROJECT, "name": "n", "version": "1"}},
        "machine_create_image",
    ),
    (
        "POST",
        "/migrate",
        {"migrationTask": {"action": "estimate", "record": {}}},
        "machine_migrate",
    ),
    ("DELETE", "", None, "machine_destroy"),
]


@pytest.mark.parametrize(("verb", "path", "body", "task"), ACTIONS)
async def test_each_action_is_a_task_with_its_parameters(
    world: World, verb: str, path: str, body: dict[str, Any] | None, task: str
) -> None:
    """200 {id} at once; the agent gets what was given, the VM's and the server's uuid."""
    vm = await world.vm()
    answer = await world.call(verb, f"/servers/{NODE}/vms/{vm}{path}", body)
    assert answer.status == 200
    ended = await world.ended(answer.json()["id"])
    assert (ended["task"], ended["status"]) == (task, "complete")
    sent = world.nodes.last(task)
    assert sent.params["uuid"] == vm
    assert sent.params["server_uuid"] == NODE
    assert sent.key == ended["id"]
    assert {name: sent.params[name] for name in body or {}} == (body or {})


@pytest.mark.parametrize(
    ("verb", "path", "body", "said"),
    [
        ("POST", "/start", {"update": {"alias": "x"}}, "Vm.start update param only allows"),
        ("POST", "/reboot", {"update": {"alias": "x"}}, "Vm.reboot update param only allows"),
        ("POST", "/kill", {"signal": []}, "Request parameters failed"),
        ("POST", "/reprovision", {}, "Request parameters failed"),
        ("POST", "/migrate", {}, "Request parameters failed"),
        ("POST", "/migrate", {"migrationTask": {"action": 1}}, "Request parameters failed"),
        ("POST", "/images", {"manifest": {"uuid": OTHER}}, "Request parameters failed"),
        ("POST", "/docker-exec", {}, "Request parameters failed"),
        ("POST", "/docker-exec", {"command": "ls"}, "Request parameters failed"),
    ],
)
async def test_actions_with_bad_parameters(
    world: World, verb: str, path: str, body: dict[str, Any], said: str
) -> None:
    """500 with the words of the document, and nothing is sent."""
    vm = await world.vm()
    before = len(world.nodes.calls)
    status, _, message = await world.refused(verb, f"/servers/{NODE}/vms/{vm}{path}", body)
    assert status == 500
    assert message.startswith(said)
    assert len(world.nodes.calls) == before


async def test_a_vm_that_is_not_there_is_a_failed_task(world: World) -> None:
    """Asynchronous calls cannot know; synchronous ones answer 404."""
    made = await world.ok("POST", f"/servers/{NODE}/vms/{VM}/start", {})
    ended = await world.ended(made["id"])
    assert ended["status"] == "failure"
    assert ended["history"][0]["event"]["details"] == {"restCode": "VmNotFound"}
    for path in ("", "/proc", "/info", "/vnc"):
        refused = await world.refused("GET", f"/servers/{NODE}/vms/{VM}{path}")
        assert refused == (404, "ResourceNotFound", f"VM {VM} not found")
    assert (await world.refused("GET", f"/servers/default/vms/{VM}"))[0] == 404


async def test_state_changes_are_known_before_the_next_status(world: World) -> None:
    """The VM object a task answers with is applied at once, to VMs we made and to others."""
    vm = await world.vm()
    made = await world.ok("POST", f"/servers/{NODE}/vms/{vm}/stop", {})
    await world.ended(made["id"])
    shown = (await world.ok("GET", f"/servers/{NODE}"))["vms"]
    assert shown[vm]["state"] == "stopped"
    world.nodes.vms[VM] = {"uuid": VM, "state": "running", "owner_uuid": "x"}
    sample = {"vms": {VM: {"uuid": VM, "state": "running"}, vm: {"state": "stopped"}}}
    await world.ok("POST", f"/servers/{NODE}/events/status", sample)
    made = await world.ok("POST", f"/servers/{NODE}/vms/{VM}/stop", {})
    await world.ended(made["id"])
    assert (await world.ok("GET", f"/servers/{NODE}"))["vms"][VM]["state"] == "stopped"
    for one in (vm, VM):
        made = await world.ok("DELETE", f"/servers/{NODE}/vms/{one}")
        await world.ended(made["id"])
    assert (await world.ok("GET", f"/servers/{NODE}"))["vms"] == {}
    made = await world.ok("DELETE", f"/servers/{NODE}/vms/{VM}")
    assert (await world.ended(made["id"]))["status"] == "complete"


async def test_queries_answer_with_what_the_agent_says(world: World) -> None:
    """proc, info (object or JSON text), vnc, docker streams, images."""
    vm = await world.vm()
    path = f"/servers/{NODE}/vms/{vm}"
    answers = world.nodes.answers
    answers["machine_proc"] = {"1": {"pid": 1}}
    assert await world.ok("GET", f"{path}/proc") == {"1": {"pid": 1}}
    answers["machine_info"] = {"result": '{"vnc": {"host": "h", "port": 5, "display": 0}}'}
    assert await world.ok("GET", f"{path}/vnc") == {"host": "h", "port": 5}
    assert world.nodes.last("machine_info").params["types"] == ["vnc"]
    answers["machine_info"] = {"status": {"state": "running"}}
    assert await world.ok("GET", f"{path}/info?info=status,cpus") == answers["machine_info"]
    assert world.nodes.last("machine_info").params["types"] == ["status", "cpus"]
    for name in ("exec", "copy", "stats", "build"):
        answers[f"docker_{name}"] = {"host": "10.0.0.1", "port": 7}
        body = {"command": {"Cmd": ["ls"]}} if name == "exec" else {"path": "/", "mode": "read"}
        told = await world.ok("POST", f"{path}/docker-{name}", body)
        assert told == {"host": "10.0.0.1", "port": 7, "address": "10.0.0.1:7"}
    answers["image_get"] = {"uuid": IMAGE, "name": "debian"}
    assert (await world.ok("GET", f"/servers/{NODE}/images/{IMAGE}"))["name"] == "debian"
    answers["image_get"] = NodeTaskError("Image.get error", {"restCode": "ImageNotInstalled"})
    assert (await world.refused("GET", f"/servers/{NODE}/images/{IMAGE}"))[0] == 404


@pytest.mark.parametrize(
    ("rest_code", "status", "code"),
    [
        ("VmNotFound", 404, "ResourceNotFound"),
        ("FileNotFound", 404, "FileNotFound"),
        ("PathNotDirectory", 400, "PathNotDirectory"),
        ("VmNotRunning", 409, "VmNotRunning"),
        (
            "DockerCopyStoppedContainerNoPlatformSupport",
            409,
            "DockerCopyStoppedContainerNoPlatformSupport",
        ),
        ("Something", 500, "InternalError"),
    ],
)
async def test_docker_copy_errors(world: World, rest_code: str, status: int, code: str) -> None:
    """Each restCode of the agent has a status and a code."""
    world.nodes.answers["docker_copy"] = NodeTaskError("no", {"restCode": rest_code})
    body = {"path": "/x", "mode": "read"}
    refused = await world.refused("POST", f"/servers/{NODE}/vms/{VM}/docker-copy", body)
    assert refused[:2] == (status, code)


async def test_a_query_that_takes_too_long(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 with the task's name when its time is over."""

    async def never(_call: Any) -> None:
        await asyncio.Event().wait()

    world.nodes.answers["machine_proc"] = never
    ask = world.service.machines.ask

    async def impatient(*args: Any, seconds: float, **more: Any) -> Any:
        assert seconds == 20
        return await ask(*args, seconds=0.01, **more)

    monkeypatch.setattr(world.service.machines, "ask", impatient)
    refused = await world.refused("GET", f"/servers/{NODE}/vms/{VM}/proc")
    assert refused == (
        500, "InternalError", "Time-out reached waiting for machine_proc request to return",
    )  # fmt: skip


async def test_snapshots_get_names_of_their_own(world: World) -> None:
    """Without a name the time, made unique."""
    vm = await world.vm()
    names = []
    for _ in range(3):
        made = await world.ok("PUT", f"/servers/{NODE}/vms/{vm}/snapshots", {})
        await world.ended(made["id"])
        name = world.nodes.last("machine_create_snapshot").params["snapshot_name"]
        names.append(name)
        async with world.database.transaction() as tx:
            record = {"snapshots": [{"name": one} for one in names]}
            await tx.execute(update(vms).where(vms.c.uuid == vm).values(vm=record))
    assert len(set(names)) == 3
    assert all(len(name.split("-")[0]) == 16 for name in names)


async def test_nics_of_vms_need_a_node_that_can(world: World) -> None:
    """Without SDC Version in its sysinfo a node cannot change NICs in bulk."""
    path = f"/servers/{NODE}/vms/nics/update"
    made = await world.ok("POST", path, {"networks": [], "original_network": {}})
    await world.ended(made["id"])
    assert "machine_update_nics" in world.nodes.tasks
    await world.server(**{"SDC Version": ""})
    refused = await world.refused("POST", path, {"networks": []})
    assert refused == (400, "InvalidVersion", "Unsupported compute node version")


async def test_a_vm_its_server_has_no_more_is_missing(any_world: World) -> None:
    """Only one that was there: until its server has reported it once, a report without it says nothing."""
    world = any_world
    vm, hidden = await world.vm(), await world.vm(do_not_inventory=True)
    path = f"/servers/{NODE}/events/status"

    async def told(number: int, **held: Any) -> list[str]:
        stamp = f"2026-01-01T00:00:0{number}.000Z"
        await world.ok("POST", path, {"vms": held, "timestamp": stamp})
        written = ""
        while written != stamp:  # the answer need not wait for it
            async with world.database.read() as tx:
                written = (await world.service.servers.row(tx, NODE)).extra.get("sample_time")
        rows = {row["uuid"]: row["state"] for row in await world.ok("GET", f"/servers/{NODE}/vms")}
        return [rows[vm], rows[hidden]]

    there = {vm: {"uuid": vm, "state": "running"}, hidden: {"uuid": hidden, "state": "running"}}
    assert await told(1) == ["running", "running"]
    assert await told(2, **there) == ["running", "running"]
    assert await told(3) == ["missing", "running"]
    there[vm]["state"] = "stopped"
    assert await told(4, **there) == ["stopped", "running"]


async def test_a_node_is_told_who_has_the_image(world: World) -> None:
    """Another server that made a VM of it and runs; never itself, and nothing it would have to keep."""
    for number, server in enumerate((NODE, OTHER), 1):
        await world.server(server, **{"Admin IP": f"192.0.2.{number}", "CN Agent Port": 5309})
    await world.vm()
    assert "imgapiPeers" not in world.nodes.last("machine_create").params
    moved = await world.vm(OTHER)
    told = world.nodes.last("machine_create").params
    assert told["imgapiPeers"] == ["http://192.0.2.1:5309"]
    row = await world.service.machines.find(moved)
    assert row is not None
    assert "imgapiPeers" not in row.payload
    await world.vm(OTHER, image_uuid=await world.image(NODE))
    assert "imgapiPeers" not in world.nodes.last("machine_create").params


@pytest.mark.parametrize("key", ["own", "shared"])
async def test_a_node_publishes_the_image_that_its_task_asks_for(world: World, key: str) -> None:
    """With its key, while the task runs, this image and no other, as the task says: then it is there."""
    mine = world.key_of(NODE) if key == "own" else {"Authorization": f"Bearer {MASTER}"}
    strange = {"headers": world.key_of(OTHER), "token": ""}
    node = {"headers": mine, "token": ""}
    asked = {"uuid": OTHER, "owner": PROJECT, "name": "golden", "version": "1.2"}
    said = {**asked, "owner": "me", "name": "mine", "public": True, "type": "lxc-rootfs",
            "origin": IMAGE, "size": 4}  # fmt: skip
    statuses: list[int] = []

    async def publish(_call: Any) -> dict[str, Any]:
        for method, path, more in (
            ("POST", "/images", {"body": said, **strange}),
            ("POST", "/images", {"body": {**said, "uuid": IMAGE}, **node}),
            ("POST", "/images", {"body": said, **node}),
            ("PUT", f"/images/{IMAGE}/file", {"content": b"data", **node}),
            ("PUT", f"/images/{OTHER}/file", {"content": b"data", **strange}),
            ("PUT", f"/images/{OTHER}/file", {"content": b"data", **node}),
            ("PUT", f"/images/{OTHER}/file", {"content": b"late", **node}),
            ("DELETE", f"/images/{OTHER}", node),
        ):
            statuses.append((await world.call(method, path, **more)).status)
        return {}

    world.nodes.answers["machine_create_image"] = publish
    vm = await world.vm()
    task = await world.ok("POST", f"/servers/{NODE}/vms/{vm}/images", {"manifest": asked})
    assert (await world.ended(task["id"]))["status"] == "complete"
    assert statuses == [403, 403, 200, 403, 403, 200, 409, 403]
    shown = await world.ok("GET", f"/images/{OTHER}", token="user")
    assert {name: shown[name] for name in (*asked, "public", "state", "origin", "size")} == {
        **asked, "public": False, "state": "active", "origin": IMAGE, "size": 4,
    }  # fmt: skip
    # The task is over, and what it was asked for with it.
    assert (await world.call("POST", "/images", said, **node)).status == 403
