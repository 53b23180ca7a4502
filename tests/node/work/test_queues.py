"""Tasks over the task API: queues, locks, history, idempotency, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.node.conftest import SERVER

from vetro.node.errors import DriverError
from vetro.node.tasks.parameters import signal_number
from vetro.node.tasks.scripts import run_script
from vetro.node.work.history import RESTARTED, History, masked
from vetro.node.work.queues import TaskContext, TaskKind, TaskRunner


class Gate:
    """A task that waits until it is let go, and knows how many run at once."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.running = 0
        self.most = 0
        self.started = asyncio.Condition()

    async def __call__(self, context: TaskContext) -> Mapping[str, Any]:
        self.running += 1
        self.most = max(self.most, self.running)
        async with self.started:
            self.started.notify_all()
        try:
            await self.open.wait()
        finally:
            self.running -= 1
        return {"n": context.params.get("n")}

    async def until_running(self, count: int) -> None:
        """Wait until that many run."""
        async with asyncio.timeout(240), self.started:
            await self.started.wait_for(lambda: self.running >= count)


def runner_with(gate: Gate, tmp_path: Path, **options: Any) -> TaskRunner:
    """A runner with one gated kind of task, at most two at a time."""
    history = History(tmp_path / "tasks")
    history.open()
    runner = TaskRunner(history, concurrency={"gated": 2}, **options)
    runner.register(TaskKind("gate", "gated", gate))
    return runner


async def test_a_task_answers_when_it_has_ended(node: Any) -> None:
    """200 with the result, `{}` when there is none."""
    assert await node.task("nop") == (200, {})
    assert await node.task("server_sysinfo") == (200, {"sysinfo": {"UUID": SERVER}})


async def test_a_failing_task_answers_500_with_text_and_details(node: Any) -> None:
    """The text is the driver's with the call before it; details carry the restCode."""
    assert await node.task("nop", error="boom") == (500, {"error": "boom"})
    status, body = await node.task("machine_load", uuid=SERVER)
    assert status == 500
    assert body["error"] == f"VM.load error: VM {SERVER} not found"
    assert body["details"]["restCode"] == "VmNotFound"


@pytest.mark.parametrize(
    ("body", "status", "code", "message"),
    [
        ({"params": {}}, 409, "InvalidArgument", "Missing key 'task'"),
        ({"task": "nop"}, 409, "InvalidArgument", "Missing key 'params'"),
        ({"task": "nop", "params": []}, 409, "InvalidArgument", "'params' must be an object"),
        ({"task": "fly", "params": {}}, 404, "ResourceNotFound", "Unknown task, 'fly'"),
        ([], 409, "InvalidArgument", "The body must be an object"),
    ],
)
async def test_bad_requests(node: Any, body: object, status: int, code: str, message: str) -> None:
    """The documented codes and texts."""
    answer = await node.client.request("POST", "/tasks", json=body)
    assert (answer.status, answer.json()) == (status, {"code": code, "message": message})


async def test_a_body_that_is_not_json(node: Any) -> None:
    """400, not a crash."""
    answer = await node.client.request("POST", "/tasks", content=b"{")
    assert (answer.status, answer.json()["code"]) == (400, "InvalidContent")


async def test_the_task_may_be_named_in_the_query(node: Any) -> None:
    """As older callers do."""
    assert (await node.client.request("POST", "/tasks?task=nop", json={"params": {}})).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nothing", 404), ("GET", "/tasks", 405)]
)
async def test_unknown_paths_and_methods(node: Any, method: str, path: str, status: int) -> None:
    """404 and 405 with a body."""
    answer = await node.client.request(method, path)
    assert answer.status == status
    assert answer.json()["message"]


async def test_nobody_gets_in_without_the_key(node: Any) -> None:
    """The task API is root on the node: every route but /ping wants the bearer key."""
    for value in ("", "Bearer wrong", "Basic secret", "Bearer"):
        answer = await node.client.request(
            "POST", "/tasks", json={"task": "nop", "params": {}}, headers={"Authorization": value}
        )
        assert answer.status == 401
    ping = await node.client.request("GET", "/ping", headers={"Authorization": ""})
    assert ping.json() == {"ready": True, "paused": False, "version": "1.0"}


async def test_a_request_for_another_server_is_refused(node: Any) -> None:
    """The service may have an old address: the task must not run here."""
    status, body = await node.task("nop", headers={"x-server-uuid": SERVER.replace("9", "8")})
    assert status == 404
    assert "wrong server" in body["message"]
    assert (await node.task("nop", headers={"x-server-uuid": SERVER}))[0] == 200


async def test_a_paused_node_takes_no_tasks(node: Any) -> None:
    """503 until it is resumed; history and ping go on."""
    assert (await node.client.request("POST", "/pause")).status == 204
    assert (await node.client.request("POST", "/pause")).status == 204
    status, body = await node.task("nop")
    assert (status, body["code"]) == (503, "ServiceUnavailable")
    assert body["message"] == "CN Agent is not accepting tasks for maintenance"
    assert (await node.client.request("GET", "/history")).status == 200
    await node.client.request("POST", "/resume")
    assert (await node.task("nop"))[0] == 200


async def test_the_life_of_a_vm(node: Any, kit: SimpleNamespace) -> None:
    """Create, load, stop, start, reboot, kill, update, list, destroy by their task names."""
    uuid = await node.create(kit, alias="web")
    assert (await node.task("machine_load", uuid=uuid))[1]["state"] == "running"
    assert (await node.task("machine_shutdown", uuid=uuid))[1]["vm"]["state"] == "stopped"
    assert (await node.task("machine_boot", uuid=uuid))[1]["vm"]["state"] == "running"
    assert (await node.task("machine_reboot", uuid=uuid))[1]["vm"]["state"] == "running"
    assert (await node.task("machine_kill", uuid=uuid, signal="KILL"))[1]["vm"][
        "state"
    ] == "stopped"
    update = await node.task("machine_update", uuid=uuid, set_tags={"a": 1}, server_uuid=SERVER)
    assert update[1]["vm"]["tags"] == {"a": 1}
    assert [vm["alias"] for vm in (await node.task("machine_list"))[1]["vms"]] == ["web"]
    assert await node.task("machine_destroy", uuid=uuid) == (200, {})
    assert await node.task("machine_destroy", uuid=uuid) == (200, {})
    assert (await node.task("machine_load", uuid=uuid))[0] == 500


async def test_create_twice_is_refused(node: Any, kit: SimpleNamespace) -> None:
    """The second create of a uuid says that it exists."""
    uuid = await node.create(kit)
    status, body = await node.task("machine_create", uuid=uuid, image_uuid=kit.image, brand="lx")
    assert status == 500
    assert body["error"] == f"vmadm.create error: Machine {uuid} exists."
    assert body["details"]["restCode"] == "VmAlreadyExists"


async def test_create_without_its_image_fails_and_leaves_nothing(node: Any) -> None:
    """The image service does not know it: the error names it, no VM remains."""
    status, body = await node.task("machine_create", image_uuid=SERVER, brand="lx")
    assert status == 500
    assert (
        body["error"] == f"vmadm.create error: Image {SERVER} does not exist in the image service"
    )
    assert body["details"]["restCode"] == "ImageNotFound"
    assert (await node.task("machine_list", include_dni=True))[1] == {"vms": []}


async def test_idempotent_requests_take_the_wanted_state_for_success(
    node: Any, kit: SimpleNamespace
) -> None:
    """Starting a running VM is an error, unless the caller says it does not mind."""
    uuid = await node.create(kit)
    assert (await node.task("machine_boot", uuid=uuid))[1]["details"]["code"] == "EALREADYRUNNING"
    assert (await node.task("machine_boot", uuid=uuid, idempotent="true"))[0] == 200
    await node.task("machine_shutdown", uuid=uuid)
    assert (await node.task("machine_shutdown", uuid=uuid))[0] == 500
    assert (await node.task("machine_shutdown", uuid=uuid, idempotent=True))[0] == 200
    assert (await node.task("machine_reboot", uuid=uuid, idempotent=True))[0] == 200
    assert (await node.task("machine_kill", uuid=uuid, idempotent=True))[0] == 200


async def test_boot_applies_an_update_first(node: Any, kit: SimpleNamespace) -> None:
    """`update` of machine_boot changes metadata before the start."""
    uuid = await node.create(kit, autoboot=False)
    _, body = await node.task(
        "machine_boot", uuid=uuid, update={"set_internal_metadata": {"a": "b"}}
    )
    assert body["vm"]["internal_metadata"] == {"a": "b"}
    assert body["vm"]["state"] == "running"


async def test_hidden_vms_are_shown_only_on_request(node: Any, kit: SimpleNamespace) -> None:
    """`do_not_inventory` hides from list and load unless include_dni."""
    uuid = await node.create(kit, do_not_inventory=True)
    assert (await node.task("machine_load", uuid=uuid))[0] == 500
    assert (await node.task("machine_load", uuid=uuid, include_dni="true"))[0] == 200
    assert (await node.task("machine_list"))[1] == {"vms": []}


async def test_an_indestructible_vm_is_not_destroyed(node: Any, kit: SimpleNamespace) -> None:
    """Until the flag is cleared by an update."""
    uuid = await node.create(kit, indestructible_zoneroot=True)
    assert (await node.task("machine_destroy", uuid=uuid))[1]["details"]["restCode"] == (
        "VmIndestructible"
    )
    await node.task("machine_update", uuid=uuid, indestructible_zoneroot=False)
    assert (await node.task("machine_destroy", uuid=uuid))[0] == 200


async def test_images_in_use_are_not_deleted(node: Any, kit: SimpleNamespace) -> None:
    """The error names the VM; afterwards it goes."""
    uuid = await node.create(kit)
    assert (await node.task("image_get", uuid=kit.image))[1]["name"] == "tiny"
    status, body = await node.task("image_delete", uuid=kit.image)
    assert (status, body["details"]["restCode"]) == (500, "ImageInUse")
    await node.task("machine_destroy", uuid=uuid)
    assert (await node.task("image_delete", uuid=kit.image))[0] == 200
    assert (await node.task("image_get", uuid=kit.image))[1]["details"]["restCode"] == (
        "ImageNotInstalled"
    )
    assert (await node.task("image_list"))[1] == {"images": []}


async def test_known_tasks_this_driver_lacks_say_so(node: Any, kit: SimpleNamespace) -> None:
    """Not "unknown": the caller can tell a missing feature from a misspelt name."""
    uuid = await node.create(kit)
    status, body = await node.task("machine_screenshot", uuid=uuid)
    assert (status, body["details"]["restCode"]) == (500, "NotImplemented")


async def test_bad_parameters_of_tasks(node: Any, kit: SimpleNamespace) -> None:
    """Wrong types end in a text, never in a broken task."""
    uuid = await node.create(kit)
    for name, params in {
        "machine_shutdown": {"uuid": uuid, "timeout": []},
        "machine_kill": {"uuid": uuid, "signal": "SIGNOTHING"},
        "machine_load": {"uuid": "x"},
        "machine_execute": {"uuid": uuid, "command": "ls"},
        "command_execute": {},
        "server_overprovision_ratio": {},
        "image_ensure_present": {},
    }.items():
        status, body = await node.task(name, **params)
        assert status == 500, name
        assert body["details"]["restCode"] in ("InvalidPayload", "NotImplemented"), name


async def test_scripts_run_with_arguments_and_their_own_environment(node: Any) -> None:
    """A failing script is a success of the task."""
    _, body = await node.task(
        "command_execute",
        script="#!/bin/sh\necho $1 $NAME\necho bad >&2\nexit 3\n",
        args=["one"],
        env={"NAME": "two"},
    )
    assert body == {"exitCode": 3, "signal": None, "stdout": "one two\n", "stderr": "bad\n"}


async def test_a_script_that_takes_too_long_is_killed() -> None:
    """With everything it started; the result says so."""
    result = await run_script("#!/bin/sh\nsleep 60 & wait\n", [], {"PATH": "/bin:/usr/bin"}, 0.2)
    assert result["signal"] == "SIGKILL"
    assert "killed after 0.2 s" in result["err"]


async def test_a_script_without_an_interpreter_line_reports_why() -> None:
    """The kernel refuses it; that is the result, not a broken task."""
    result = await run_script("echo hi", [], {}, 5)
    assert result["exitCode"] is None
    assert "Exec format error" in result["err"]


async def test_output_is_cut_at_five_mebibytes() -> None:
    """An endless script does not fill the agent's memory."""
    result = await run_script(
        "#!/bin/sh\nhead -c 7000000 /dev/zero | tr '\\0' x\n", [], {"PATH": "/bin:/usr/bin"}, 60
    )
    assert len(result["stdout"]) == 5 * 2**20
    assert result["exitCode"] == 0


def test_signals_by_name_and_number() -> None:
    """With or without SIG."""
    assert (signal_number("TERM"), signal_number("SIGHUP"), signal_number(9)) == (15, 1, 9)


async def test_a_queue_runs_no_more_than_it_may(tmp_path: Path) -> None:
    """Two at a time; the third waits and is active in the history."""
    gate = Gate()
    runner = runner_with(gate, tmp_path)
    tasks = [asyncio.create_task(runner.submit("gate", {"n": n})) for n in range(3)]
    await gate.until_running(2)
    assert runner.history.active() == 3
    gate.open.set()
    results = await asyncio.gather(*tasks)
    assert [body["n"] for _, body in results] == [0, 1, 2]
    assert gate.most == 2


async def test_tasks_of_one_vm_come_one_after_another(tmp_path: Path) -> None:
    """Whatever the queue allows: the second waits for the first."""
    gate = Gate()
    runner = runner_with(gate, tmp_path)
    tasks = [asyncio.create_task(runner.submit("gate", {"uuid": SERVER, "n": n})) for n in (1, 2)]
    other = asyncio.create_task(runner.submit("gate", {"uuid": "other", "n": 3}))
    await gate.until_running(2)
    gate.open.set()
    await asyncio.gather(*tasks, other)
    assert gate.most == 2
    assert runner._locks == {}  # pyright: ignore[reportPrivateUsage]


async def test_a_caller_that_goes_away_does_not_stop_the_task(tmp_path: Path) -> None:
    """The task ends on its own, and a repeated request gets its result."""
    gate = Gate()
    runner = runner_with(gate, tmp_path)
    caller = asyncio.create_task(runner.submit("gate", {"n": 1}, key="k"))
    await gate.until_running(1)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    again = asyncio.create_task(runner.submit("gate", {"n": 1}, key="k"))
    gate.open.set()
    assert await again == (200, {"n": 1})
    assert gate.most == 1


async def test_repeated_requests_run_once(node: Any, kit: SimpleNamespace) -> None:
    """The same key, or the same request id with the same task and parameters."""
    headers = {"Idempotency-Key": "one"}
    params = {"image_uuid": kit.image, "brand": "lx"}
    first = await node.task("machine_create", headers=headers, **params)
    assert await node.task("machine_create", headers=headers, **params) == first
    request = {"x-request-id": "req-1"}
    second = await node.task("machine_create", headers=request, **params)
    assert await node.task("machine_create", headers=request, **params) == second
    assert len((await node.task("machine_list"))[1]["vms"]) == 2
    other = await node.task("machine_create", headers=request, alias="x", **params)
    assert other[1]["vm"]["uuid"] != second[1]["vm"]["uuid"]


async def test_a_task_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """With the documented text, and the VM's lock is free again."""
    gate = Gate()
    runner = runner_with(gate, tmp_path, limit_seconds=0.05)
    status, body = await runner.submit("gate", {"uuid": SERVER})
    assert status == 500
    assert body["error"] == "child task process timed out after 0.05 seconds"
    [entry] = runner.history.shown()
    assert (entry["status"], entry["errorCount"]) == ("failed", 1)


async def test_an_unforeseen_error_ends_the_task_not_the_agent(tmp_path: Path) -> None:
    """The answer names the task; the history says it died."""

    async def broken(_context: TaskContext) -> Mapping[str, Any]:
        raise RuntimeError("oops")

    runner = runner_with(Gate(), tmp_path)
    runner.register(TaskKind("broken", "nop", broken))
    status, body = await runner.submit("broken", {})
    assert status == 500
    assert "did not terminate cleanly" in body["error"]
    assert "oops" in body["error"]


async def test_history_shows_events_in_order(node: Any, kit: SimpleNamespace) -> None:
    """Validated, started, progress, finished; times and counts as documented."""
    await node.create(kit)
    [entry] = (await node.client.request("GET", "/history")).json()
    names = [message["name"] for message in entry["messages"]]
    assert names[:2] == ["task_validated", "start"]
    assert names[-1] == "finish"
    values = [m["event"]["value"] for m in entry["messages"] if m["name"] == "progress"]
    assert values == sorted(values)
    assert values[-1] == 100
    assert entry["status"] == "finished"
    assert entry["started_at"] <= entry["finished_at"]


async def test_history_keeps_active_entries_and_the_last_sixteen(tmp_path: Path) -> None:
    """Drain may look at the history: what runs is never missing."""
    gate = Gate()
    runner = runner_with(gate, tmp_path)

    async def nothing(_context: TaskContext) -> Mapping[str, Any]:
        return {}

    runner.register(TaskKind("nothing", "nop", nothing))
    waiting = [asyncio.create_task(runner.submit("gate", {"n": n})) for n in range(2)]
    await gate.until_running(2)
    for _ in range(30):
        await runner.submit("nothing", {})
    shown = runner.history.shown()
    assert [entry["status"] for entry in shown].count("active") == 2
    assert len(shown) == 16
    gate.open.set()
    await asyncio.gather(*waiting)


async def test_tasks_of_a_killed_agent_have_failed(tmp_path: Path) -> None:
    """The next agent shows them as failed, and a repeated request runs."""
    first = History(tmp_path)
    first.open()
    first.add("machine_create", {"uuid": SERVER}, "key", persistent=True)
    second = History(tmp_path)
    second.open()
    [entry] = second.shown()
    assert entry["status"] == "failed"
    assert entry["messages"][-1]["event"]["error"] == {"message": RESTARTED}
    assert second.find("key") is None


async def test_results_are_remembered_over_a_restart(tmp_path: Path) -> None:
    """A request that is repeated after the restart gets the first run's result."""
    first = History(tmp_path)
    first.open()
    entry = first.add("machine_create", {}, "key", persistent=True)
    entry.finish({"vm": 1})
    first.save(entry)
    second = History(tmp_path)
    second.open()
    found = second.find("key")
    assert found is not None
    assert tuple(found.outcome or ()) == (200, {"vm": 1})


async def test_stopping_the_agent_fails_what_still_runs(tmp_path: Path) -> None:
    """After the grace period; the caller gets an answer."""
    gate = Gate()
    runner = runner_with(gate, tmp_path)
    caller = asyncio.create_task(runner.submit("gate", {}))
    await gate.until_running(1)
    await runner.close(0)
    status, body = await caller
    assert (status, body["error"]) == (500, RESTARTED)


def test_secrets_do_not_reach_the_history() -> None:
    """Passwords, tokens, keys and user data are masked, at any depth."""
    params = {
        "root_pw": "a",
        "customer_metadata": {"user-data": "token=1", "greeting": "hello"},
        "list": [{"api_token": "x", "name": "y"}],
        "vnc_password": "z",
        "password": "",
    }
    assert masked(params) == {
        "root_pw": "***",
        "customer_metadata": {"user-data": "***", "greeting": "hello"},
        "list": [{"api_token": "***", "name": "y"}],
        "vnc_password": "***",
        "password": "",
    }


@pytest.mark.parametrize("method", ["make", "start"])
async def test_a_failed_create_is_rolled_back(node: Any, kit: SimpleNamespace, method: str) -> None:
    """Wherever it fails, nothing is left, and the same uuid can be used again."""
    node.simulation.hypervisor.faults[method] = DriverError(
        "no room", rest_code="ResourceExhausted"
    )
    status, body = await node.task("machine_create", uuid=SERVER, image_uuid=kit.image, brand="lx")
    assert (status, body["details"]["restCode"]) == (500, "ResourceExhausted")
    node.simulation.hypervisor.faults.clear()
    await node.create(kit, uuid=SERVER)


async def test_a_create_that_cannot_be_rolled_back_is_failed(
    node: Any, kit: SimpleNamespace
) -> None:
    """It is shown as failed, refuses everything, and can be destroyed when the cause is gone."""
    faults = node.simulation.hypervisor.faults
    faults["start"] = DriverError("no")
    faults["remove"] = DriverError("stuck")
    await node.task("machine_create", uuid=SERVER, image_uuid=kit.image, brand="lx")
    assert (await node.task("machine_load", uuid=SERVER))[1]["state"] == "failed"
    assert (await node.task("machine_boot", uuid=SERVER))[1]["details"]["restCode"] == "VmNotUsable"
    faults.clear()
    assert (await node.task("machine_destroy", uuid=SERVER))[0] == 200
    assert (await node.task("machine_list"))[1] == {"vms": []}


async def test_an_interrupted_destroy_is_finished_by_the_next_agent(
    node: Any, kit: SimpleNamespace, tmp_path: Path
) -> None:
    """A VM whose removal failed half way is gone after a restart."""
    uuid = await node.create(kit)
    node.simulation.hypervisor.faults["remove"] = DriverError("interrupted")
    assert (await node.task("machine_destroy", uuid=uuid))[0] == 500
    assert await (await kit.simulate(tmp_path)).driver.list() == []
    assert not (tmp_path / "vms" / uuid).exists()


async def test_autoboot_starts_what_should_run(
    node: Any, kit: SimpleNamespace, tmp_path: Path
) -> None:
    """After a restart of the machine: VMs with autoboot run, others do not."""
    wanted, unwanted = await node.create(kit), await node.create(kit, autoboot=False)
    await node.task("machine_kill", uuid=wanted, signal="SIGKILL")
    again = await kit.simulate(tmp_path)
    assert await again.driver.autoboot() == []
    states = {vm["uuid"]: vm["state"] for vm in await again.driver.list()}
    assert states == {wanted: "running", unwanted: "stopped"}


@pytest.mark.parametrize(
    ("waiting", "other", "left"),
    [
        ("machine_shutdown", {"task": "machine_destroy"}, None),
        ("machine_reboot", {"task": "machine_destroy"}, None),
        ("machine_shutdown", {"task": "machine_shutdown", "force": True}, "stopped"),
        ("machine_shutdown", {"task": "machine_reboot", "force": "true"}, "running"),
    ],
)
async def test_who_waits_for_no_guest_does_not_wait_for_one_that_does(
    node: Any, kit: SimpleNamespace, waiting: str, other: dict[str, Any], left: str | None
) -> None:
    """A destruction and a stop by force cut in, also with more tasks behind the one that waits."""
    uuid = await node.create(kit)
    asked = asyncio.Event()
    stop = node.simulation.hypervisor.stop

    async def deaf(vm: str, *, force: bool, timeout: float) -> None:
        if not force:
            asked.set()
            await asyncio.Event().wait()
        await stop(vm, force=force, timeout=timeout)

    node.simulation.hypervisor.stop = deaf
    first = asyncio.create_task(node.task(waiting, uuid=uuid))
    async with asyncio.timeout(240):
        await asked.wait()
        task = other.pop("task")
        assert (await node.task(task, uuid=uuid, **other))[0] == 200
        status, body = await first
    assert (status, body["details"]["restCode"]) == (500, "TaskCutShort")
    assert f"{task} cut in" in body["error"]
    found = await node.simulation.driver.list()
    assert [vm["state"] for vm in found] == ([] if left is None else [left])


async def test_an_ordinary_task_waits_for_the_one_before(node: Any, kit: SimpleNamespace) -> None:
    """A second polite stop does not end the first one."""
    uuid = await node.create(kit)
    asked, may = asyncio.Event(), asyncio.Event()
    stop = node.simulation.hypervisor.stop

    async def slow(vm: str, *, force: bool, timeout: float) -> None:
        asked.set()
        await may.wait()
        await stop(vm, force=force, timeout=timeout)

    node.simulation.hypervisor.stop = slow
    first = asyncio.create_task(node.task("machine_shutdown", uuid=uuid))
    await asked.wait()
    second = asyncio.create_task(node.task("machine_shutdown", uuid=uuid, idempotent=True))
    for _ in range(3):
        await node.task("nop")
    may.set()
    assert ((await first)[0], (await second)[0]) == (200, 200)


async def test_an_image_is_looked_for_where_the_caller_says(
    node: Any, kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses and URLs of other nodes reach the image store; what is neither is left out."""
    asked: list[Any] = []
    ensure = node.parts.images.ensure

    async def remember(uuid: str, peers: Any = ()) -> Any:
        asked.append((uuid, list(peers)))
        return await ensure(uuid, peers)

    monkeypatch.setattr(node.parts.images, "ensure", remember)
    vm = await node.create(
        kit, imgapiPeers=["http://192.0.2.1:5309", {"ip": "192.0.2.2"}, "ftp://x", 5]
    )
    assert asked == [(kit.image, ["http://192.0.2.1:5309", "http://192.0.2.2:5309"])]
    assert "imgapiPeers" not in await node.good("machine_load", uuid=vm)
