"""VMs, tasks, storage and remote execution over HTTP (compute-node-api.md §7, §8, §10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import select, update

from vetro.compute.agents import NodeTaskError
from vetro.compute.tables import instances, servers, tasks, vms

NODE = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a001"
OTHER = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a002"
PROJECT = "9f7c1b3a4a0e4c0d8a3cf4f4b7c1f111"
IMAGE = "11111111-2222-4333-8444-555555555555"
VM = "22222222-2222-4333-8444-555555555555"
World = Any  # the fixtures' types: conftest.py
MakeWorld = Any
PAYLOAD = {
    "uuid": VM,
    "image_uuid": IMAGE,
    "brand": "lx",
    "owner_uuid": PROJECT,
    "max_physical_memory": 512,
    "quota": 10,
    "cpu_cap": 100,
}


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
    loaded = await world.ok("GET", f"/servers/{NODE}/vms/{VM}")
    assert loaded["image_uuid"] == IMAGE
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
    del world.nodes.answers["machine_create"]
    again = await world.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)
    assert (await world.ended(again["id"]))["status"] == "complete"
    assert (await world.ok("GET", f"/servers/{NODE}"))["vms"][VM]["state"] == "running"


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


async def test_a_job_named_in_a_call_is_told_of_the_task(world: World) -> None:
    """jobid: start and end are appended to that job's info; an unknown job changes nothing."""
    job = (await world.ok("POST", f"/servers/{NODE}/reboot", {}))["job_uuid"]
    await world.job(job)
    made = await world.ok("POST", f"/servers/{NODE}/vms/{VM}/start", {"jobid": job})
    await world.ended(made["id"])
    async with asyncio.timeout(5):
        while len(told := await world.ok("GET", f"/jobs/{job}/info")) < 4:
            await asyncio.sleep(0)
    mine = [one for one in told if one.get("task_id") == made["id"]]
    assert [one["name"] for one in mine] == ["start", "error"]
    made = await world.ok("POST", f"/servers/{NODE}/vms/{VM}/start", {"jobid": OTHER})
    assert (await world.ended(made["id"]))["status"] == "failure"


# Tasks


async def test_waiting_for_tasks(any_world: World) -> None:
    """Any number of waiters; the time-out gives the task as it is; unknown ones are 404."""
    world = any_world
    gate = asyncio.Event()

    async def slowly(_call: Any) -> dict[str, Any]:
        await gate.wait()
        return {"slow": True}

    world.nodes.answers["nop"] = slowly
    made = await world.ok("POST", f"/servers/{NODE}/nop", {"sleep": 1})
    path = f"/tasks/{made['id']}"
    active = await world.ok("GET", f"{path}/wait?timeout=0.05")
    assert active["status"] == "active"
    assert NODE in active["waiting_on"]
    waiting = [
        asyncio.create_task(world.ok("GET", f"{path}/wait?timeout={given}"))
        for given in ("x", "0", "-1", "30", "")
    ]
    await asyncio.sleep(0)
    gate.set()
    for one in waiting:
        assert (await one)["history"][0]["event"] == {"slow": True}
    assert (await world.ok("GET", path))["status"] == "complete"
    for unknown in (OTHER, "nonsense", "x" * 100):
        for suffix in ("", "/wait"):
            refused = await world.refused("GET", f"/tasks/{unknown}{suffix}")
            assert refused == (404, "ResourceNotFound", "no such task found")


async def test_a_task_without_an_agents_address_fails_at_once(world: World) -> None:
    """It is stored and ends; nobody hangs."""
    await world.server(**{"Admin IP": "dhcp", "Network Interfaces": {}})
    made = await world.ok("POST", f"/servers/{NODE}/nop", {})
    ended = await world.ended(made["id"])
    assert ended["status"] == "complete"  # the stand-in needs no address
    world.nodes.answers["nop"] = NodeTaskError("the address of the agent is not known")
    made = await world.ok("POST", f"/servers/{NODE}/nop", {})
    assert (await world.ended(made["id"]))["status"] == "failure"


async def test_another_service_takes_up_a_dead_ones_tasks(make_world: MakeWorld) -> None:
    """The task is sent again under its own key; waiters at either service see its end."""
    first = await make_world()
    await first.server()
    await first.image()
    gate = asyncio.Event()

    async def never(_call: Any) -> None:
        await gate.wait()

    first.nodes.answers["machine_create"] = never
    made = await first.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)
    waiting = asyncio.create_task(first.ok("GET", f"/tasks/{made['id']}/wait?timeout=30"))
    second = await make_world()
    assert await second.service.work.take_over() == []
    mine = select(tasks.c.instance).where(tasks.c.id == made["id"])
    owner = first.service.instance
    while owner == first.service.instance:
        async with second.database.transaction() as tx:
            # The first service died: it shows no life. (Here it lives, and may say so once more.)
            await tx.execute(
                update(instances)
                .where(instances.c.name == first.service.instance)
                .values(seen=second.database.clock.now().replace(year=2000))
            )
        # The second's own watch may be faster than this.
        await second.service.work.take_over()
        async with second.database.read() as tx:
            owner = (await tx.execute(mine)).one().instance
    assert owner == second.service.instance
    assert (await waiting)["status"] == "complete"
    assert second.nodes.last("machine_create").key == made["id"]
    async with second.database.read() as tx:
        row = (await tx.execute(select(tasks).where(tasks.c.id == made["id"]))).one()
        state = (await tx.execute(select(vms.c.state).where(vms.c.uuid == VM))).one().state
    assert row.params is None  # secrets are kept only while they are needed
    assert state == "running"
    gate.set()


async def test_a_restarted_service_takes_up_its_own_tasks(make_world: MakeWorld) -> None:
    """With a name of its own an instance need not wait until it is dead."""
    first = await make_world(instance="me")
    await first.server()
    async with first.database.transaction() as tx:
        row = (await tx.execute(select(servers).where(servers.c.uuid == NODE))).one()
        agent = first.service.servers.agent_of(row)
        await first.service.work.store(tx, OTHER, agent, "nop", {})
    second = await make_world(instance="me")
    assert (await second.ended(OTHER))["status"] == "complete"


async def test_old_tasks_are_forgotten(world: World) -> None:
    """After 30 days."""
    made = await world.ok("POST", f"/servers/{NODE}/nop", {})
    await world.ended(made["id"])
    assert await world.service.work.forget_old() == 0
    async with world.database.transaction() as tx:
        old = world.database.clock.now().replace(year=2000)
        await tx.execute(update(tasks).values(created=old))
    assert await world.service.work.forget_old() > 0
    assert (await world.refused("GET", f"/tasks/{made['id']}"))[0] == 404


async def _pull(
    world: World, path: str, query: str = "timeout=20", **own: Any
) -> dict[str, Any] | None:
    """The next task that is not about networks, or none; those come when they like, and are answered."""
    while True:
        answer = await world.call("GET", f"{path}/next-task?{query}", **own)
        if answer.status == 204:
            return None
        taken: dict[str, Any] = answer.json()
        if taken["task"] != "network_apply":
            return taken
        result = {"status": 200, "body": {}}
        await world.ok("POST", f"{path}/tasks/{taken['id']}", result, **own)


async def test_an_agent_in_pull_mode_asks_for_its_tasks(any_world: World) -> None:
    """It gets each task once, again after its restart, and its answer ends the task."""
    world = any_world
    await world.server(**{"CN Agent Pull": True, "Admin IP": "dhcp", "Network Interfaces": {}})
    path = f"/servers/{NODE}/agent"
    own = {"token": "", "headers": world.key_of(NODE)}
    asking = asyncio.create_task(_pull(world, path, **own))
    made = await world.ok("POST", f"/servers/{NODE}/nop", {"sleep": 2})
    taken = await asking
    assert taken is not None
    assert (taken["id"], taken["task"], taken["params"]["sleep"]) == (made["id"], "nop", 2)
    assert await _pull(world, path, "timeout=0", **own) is None
    again = await _pull(world, path, "timeout=0&restarted=true", **own)
    assert again is not None
    assert again["id"] == made["id"]
    result = {"status": 200, "body": {"done": True}}
    await world.ok("POST", f"{path}/tasks/{made['id']}", result, **own)
    ended = await world.ended(made["id"])
    assert ended["history"][0]["event"] == {"done": True}
    await world.ok("POST", f"{path}/tasks/{made['id']}", result, **own)
    assert (await world.refused("POST", f"{path}/tasks/{OTHER}", result, **own))[0] == 404
    stranger = {"token": "", "headers": world.key_of(OTHER)}
    assert (await world.call("GET", f"{path}/next-task", **stranger)).status == 403


async def test_a_query_of_an_agent_in_pull_mode(world: World) -> None:
    """Synchronous calls wait for what the agent answers; its failures keep their status."""
    await world.server(**{"CN Agent Pull": True})
    path = f"/servers/{NODE}/agent"
    asking = asyncio.create_task(world.call("GET", f"/servers/{NODE}/vms/{VM}/proc"))
    taken = await _pull(world, path)
    assert taken is not None
    assert taken["task"] == "machine_proc"
    body = {"error": "VM.load error", "details": {"restCode": "VmNotFound"}}
    await world.ok("POST", f"{path}/tasks/{taken['id']}", {"status": 500, "body": body})
    assert (await asking).status == 404


# Storage, agents, execution


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
    """Each call is one task with the dataset as one name; a failure is told with what was tried."""
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
    assert plain.headers["content-type"].startswith("text/plain")
    answers["command_execute"] = {"exitCode": 3, "stdout": "", "stderr": "bad"}
    shown = await world.ok("POST", path, {"script": "x", "json": True})
    assert shown["exitCode"] == 3
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


RECOVERY = "00112233-4455-5677-a899-aabbccddeeff"
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


async def test_a_ticket_named_in_a_call_is_its_fence(world: World) -> None:
    """Only its holder may act, and the node is told the number it compares."""
    vm = await world.vm()
    body = {"scope": "vm", "id": vm, "expires_at": "3000"}
    first = await world.ok("POST", f"/servers/{NODE}/tickets", body)
    second = await world.ok("POST", f"/servers/{NODE}/tickets", body)
    path = f"/servers/{NODE}/vms/{vm}/stop"
    refused = await world.refused("POST", path, {"ticket": second["uuid"]})
    assert refused[:2] == (409, "TicketNotActive")
    await world.ok("POST", path, {"ticket": first["uuid"]})
    await world.ok("PUT", f"/tickets/{first['uuid']}/release")
    made = await world.ok("POST", path, {"ticket": second["uuid"]})
    await world.ended(made["id"])
    fences = [call.fence for call in world.nodes.calls if call.task == "machine_shutdown"]
    assert [one["id"] for one in fences] == [vm, vm]
    assert fences[0]["number"] < fences[1]["number"]
    assert "ticket" not in world.nodes.last("machine_shutdown").params


async def test_a_task_is_its_vms_owners_business(world: World) -> None:
    """Its result holds what the VM was made from: other projects' users find no such task."""
    vm = await world.vm(owner_uuid=PROJECT)
    mine = await world.ok("POST", f"/servers/{NODE}/vms/{vm}/stop", {})
    await world.ended(mine["id"])
    assert (await world.ok("GET", f"/tasks/{mine['id']}", token="user"))["id"] == mine["id"]
    theirs = await world.vm(owner_uuid="somebody-else")
    other = await world.ok("POST", f"/servers/{NODE}/vms/{theirs}/stop", {})
    nop = await world.ok("POST", f"/servers/{NODE}/nop", {})
    for task in (other["id"], nop["id"], OTHER):
        for suffix in ("", "/wait?timeout=1"):
            refused = await world.refused("GET", f"/tasks/{task}{suffix}", token="user")
            assert refused == (404, "ResourceNotFound", "no such task found")


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
