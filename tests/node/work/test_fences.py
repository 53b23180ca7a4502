"""Fence numbers and pull mode."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from tests.tracing.collector import collecting

from vetro import tracing
from vetro.compute.wire import Fence
from vetro.http.client import TransportError
from vetro.node.work.fences import Fences
from vetro.tracing import TracingSection


def test_the_highest_number_counts_and_is_remembered(tmp_path: Path) -> None:
    """The same number again is fine, a lower one is over; other queues have their own."""
    fences = Fences(tmp_path / "fences.json")
    assert fences.overtaken_by(Fence("vm", "a", 5)) is None
    assert fences.overtaken_by(Fence("vm", "a", 5)) is None
    assert fences.overtaken_by(Fence("vm", "b", 1)) is None
    assert fences.overtaken_by(Fence("vm", "a", 9)) is None
    again = Fences(tmp_path / "fences.json")
    assert again.overtaken_by(Fence("vm", "a", 8)) == 9
    assert again.overtaken_by(Fence("server", "a", 1)) is None


async def test_a_task_under_an_overtaken_ticket_is_refused(node: Any, kit: SimpleNamespace) -> None:
    """With 409 and nothing done; a repeated request still gets its first answer."""
    uuid = await node.create(kit)

    async def post(task: str, number: int, key: str = "", **params: Any) -> Any:
        answer = await node.client.request(
            "POST", "/tasks",
            json={"task": task, "params": {"uuid": uuid, **params},
                  "fence": {"scope": "vm", "id": uuid, "number": number}},
            headers={"idempotency-key": key} if key else {},
        )  # fmt: skip
        return answer.status, answer.json()

    assert (await post("machine_update", 7, key="one", alias="new"))[0] == 200
    status, body = await post("machine_destroy", 6)
    assert (status, body["code"], body["details"]["restCode"]) == (
        409, "FenceOvertaken", "FenceOvertaken",
    )  # fmt: skip
    assert node.driver.exists(uuid)
    assert (await post("machine_update", 6, key="one", alias="new"))[0] == 200
    assert (await post("machine_destroy", 8))[0] == 200
    answer = await node.client.request(
        "POST", "/tasks", json={"task": "nop", "params": {}, "fence": {"number": "x"}}
    )
    assert answer.status == 409


class Queue:
    """A service that gives tasks and takes results; it fails now and then."""

    def __init__(self) -> None:
        self.tasks: asyncio.Queue[Any] = asyncio.Queue()
        self.results: list[tuple[str, int, Any]] = []
        self.arrived = asyncio.Event()
        self.refuse_results = 0
        self.asked_again: list[bool] = []

    async def next_task(self, wait_seconds: float, *, again: bool) -> Any:
        assert wait_seconds > 0
        self.asked_again.append(again)
        task = await self.tasks.get()
        if isinstance(task, Exception):
            raise task
        return task

    async def task_done(self, task_id: str, status: int, body: Any) -> bool:
        if self.refuse_results:
            self.refuse_results -= 1
            raise TransportError("gone")
        self.results.append((task_id, status, body))
        self.arrived.set()
        return True


async def test_a_node_behind_nat_asks_for_its_tasks(
    node: Any, kit: SimpleNamespace, monkeypatch: Any
) -> None:
    """Same semantics: idempotent by id, fenced, unknown ones answered, lost connections survived."""
    from vetro.compute.wire import PulledTask
    from vetro.node.work import pull

    monkeypatch.setattr(pull, "_FIRST_DELAY", 0.01)
    service = Queue()
    puller = asyncio.create_task(pull.Puller(service, node.runner).run())  # type: ignore[arg-type]

    async def result_of(task: PulledTask) -> tuple[int, Any]:
        service.arrived.clear()
        await service.tasks.put(task)
        async with asyncio.timeout(240):
            await service.arrived.wait()
        id_, status, body = service.results[-1]
        assert id_ == task.id
        return status, body

    params = {"image_uuid": kit.image, "brand": "lx"}
    status, body = await result_of(PulledTask("t1", "machine_create", params))
    assert (status, body["vm"]["state"]) == (200, "running")
    await service.tasks.put(TransportError("cut off"))
    service.refuse_results = 2
    assert await result_of(PulledTask("t1", "machine_create", params)) == (status, body)
    # At its start, and after an answer that did not come: a task may have been in it.
    assert service.asked_again == [True, False, True, False]
    assert len(await node.driver.list()) == 1
    assert (await result_of(PulledTask("t2", "nonsense", {})))[0] == 404
    uuid = body["vm"]["uuid"]
    for number, wanted in ((4, 200), (3, 409)):
        fence = Fence("vm", uuid, number)
        task = PulledTask(f"f{number}", "machine_update", {"uuid": uuid}, fence=fence)
        assert (await result_of(task))[0] == wanted
    # It continues the trace that it was given.
    with collecting() as collector:
        tracing.configure(TracingSection(endpoint=collector.url), "node")
        try:
            trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
            traced = PulledTask("t6", "nonsense", {}, traceparent=f"00-{trace}-{parent}-01")
            assert (await result_of(traced))[0] == 404
            traced = PulledTask(
                "t7", "machine_update", {"uuid": uuid}, traceparent=f"00-{trace}-{parent}-01"
            )
            assert (await result_of(traced))[0] == 200
            tracing.flush(60)
        finally:
            tracing.configure(TracingSection(), "")
    [span] = collector.spans
    assert (span.name, span.trace, span.parent) == ("node task machine_update", trace, parent)
    # A paused node takes no new ones.
    node.runner.paused = True
    await asyncio.sleep(0)
    puller.cancel()
    await asyncio.gather(puller, return_exceptions=True)
    assert msgspec.json.encode(body)
