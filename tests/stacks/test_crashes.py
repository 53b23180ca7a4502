"""A process that dies in the middle: nothing is orphaned, and the work can go on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.clouds import is_empty
from tests.stacks.conftest import PROJECT

from vetro.stacks import MIGRATIONS, OperationLost, StackBusy, StackEngine, StackStatus
from vetro.stacks import native as native_module
from vetro.stacks.memory import MemoryCompute, MemoryStore
from vetro.stacks.native import NativeSettings
from vetro.stacks.state.records import StackRow, is_gone, process_owner
from vetro.stacks.state.store import DatabaseStore
from vetro.storage import Database, ManualClock, migrate


class Death(BaseException):
    """The process is gone."""


class DyingStore:
    """A store whose process can die: from then on nothing is written."""

    def __init__(self, store: MemoryStore, dead: Callable[[], bool]) -> None:
        self._store = store
        self._dead = dead

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if self._dead():
                raise Death
            return await method(*args, **kwargs)

        return call


class Process:
    """An engine that dies at its n-th call to the compute service, before or after its effect."""

    def __init__(self, store: MemoryStore, compute: MemoryCompute, dies_at: int) -> None:
        self.steps = 0
        self.dies_at = dies_at
        self.dead = False
        compute.before = compute.after = self._step
        self.stacks = StackEngine(
            DyingStore(store, lambda: self.dead),  # type: ignore[arg-type]
            compute,
            settings=NativeSettings(waiting_seconds=30),
        )

    def _step(self, _call: str) -> None:
        self.steps += 1
        if self.dead or self.steps == self.dies_at:
            self.dead = True
            raise Death


@pytest.fixture(autouse=True)
def _dead_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operation belongs to a process that does not run (any more)."""
    boot, _, _, _ = process_owner().split(":")
    monkeypatch.setattr(native_module, "process_owner", lambda: f"{boot}:4194305:1:dead")


async def _alive(store: MemoryStore, compute: MemoryCompute) -> StackEngine:
    compute.before = compute.after = lambda call: None
    return StackEngine(store, compute)


async def _create(stacks: StackEngine, template: Any) -> None:
    await stacks.create(PROJECT, "env", template)


async def test_death_at_every_step_of_a_create_leaves_nothing_after_delete(
    application_template: Any,
) -> None:
    """Whenever the creating process dies, deleting with nothing but the store removes it all."""
    step = 0
    while True:
        step += 1
        store, compute = MemoryStore(), MemoryCompute()
        process = Process(store, compute, step)
        with contextlib.suppress(Death):
            await _create(process.stacks, application_template(2))
        if not process.dead:
            break
        stacks = await _alive(store, compute)
        stack = await stacks.get(PROJECT, "env")
        assert stack is not None
        assert stack.status is StackStatus.CREATE_FAILED, step
        assert "interrupted" in stack.reason
        assert await stacks.delete(PROJECT, "env") is None, step
        assert is_empty(compute), (step, compute)
    assert step > 30


async def test_death_at_every_step_of_a_create_can_be_gone_on_from(
    application_template: Any,
) -> None:
    """Whenever the creating process dies, an update with the same template completes the stack."""
    step = 0
    while True:
        step += 1
        store, compute = MemoryStore(), MemoryCompute()
        process = Process(store, compute, step)
        with contextlib.suppress(Death):
            await _create(process.stacks, application_template(2))
        if not process.dead:
            break
        stacks = await _alive(store, compute)
        stack = await stacks.update(PROJECT, "env", application_template(2))
        assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, ""), step
        assert len(compute.server_list) == len(compute.port_list) == 2, step
        assert len(compute.network_list) == 2, step
        assert compute.tickets == {}, step
        assert (await stacks.plan(PROJECT, "env", application_template(2))).empty
        assert await stacks.delete(PROJECT, "env") is None
        assert is_empty(compute), step


async def test_death_at_every_step_of_an_update_or_delete(application_template: Any) -> None:
    """Also an update with replacements and a delete can be cut anywhere."""
    changed = application_template(3)
    changed["resources"]["subnet-1"]["properties"]["cidr"] = "10.0.9.0/24"
    for action in ("update", "delete"):
        step = 0
        while True:
            step += 1
            store, compute = MemoryStore(), MemoryCompute()
            await _create(await _alive(store, compute), application_template(2))
            process = Process(store, compute, step)
            with contextlib.suppress(Death):
                if action == "update":
                    await process.stacks.update(PROJECT, "env", changed)
                else:
                    await process.stacks.delete(PROJECT, "env")
            if not process.dead:
                break
            stacks = await _alive(store, compute)
            if step % 2:
                stack = await stacks.update(PROJECT, "env", changed)
                assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, ""), step
                assert len(compute.server_list) == len(compute.port_list) == 3, step
            assert await stacks.delete(PROJECT, "env") is None, (action, step)
            assert is_empty(compute), (action, step, compute)


async def test_a_cancelled_operation_says_so(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """A cancelled create is a failed stack at once, and can be deleted at once."""
    there, never = asyncio.Event(), asyncio.Event()

    async def hang(*_args: Any) -> None:
        there.set()
        await never.wait()

    compute.ensure_image = hang  # type: ignore[method-assign]
    creating = asyncio.create_task(stacks.create(PROJECT, "env", application_template()))
    await there.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    stack = await stacks.get(PROJECT, "env")
    assert stack is not None
    assert (stack.status, stack.reason) == (
        StackStatus.CREATE_FAILED,
        "The operation was cancelled before it finished",
    )
    assert await stacks.delete(PROJECT, "env") is None
    assert is_empty(compute)


async def test_a_process_that_lost_its_hold_stops(
    make_stacks: Callable[[], StackEngine], compute: MemoryCompute, application_template: Any
) -> None:
    """A process whose hold expired gets `OperationLost` and changes nothing more."""
    there, gate = asyncio.Event(), asyncio.Event()

    async def hang(*_args: Any) -> None:
        there.set()
        await gate.wait()

    compute.ensure_image = hang  # type: ignore[method-assign]
    sleeping = asyncio.create_task(make_stacks().create(PROJECT, "env", application_template()))
    await there.wait()
    assert await make_stacks().delete(PROJECT, "env") is None
    gate.set()
    with pytest.raises(OperationLost):
        await sleeping
    assert is_empty(compute)


def test_the_death_of_a_process_is_seen() -> None:
    """A living process is not gone, a dead one is, one of another machine is not known to be."""
    mine = process_owner()
    assert not is_gone(mine)
    boot, pid, started, _ = mine.split(":")
    assert is_gone(f"{boot}:{pid}:{int(started) + 1}:x")
    assert is_gone(f"{boot}:4194305:1:x")
    assert not is_gone(f"other-boot:{pid}:1:x")


@pytest.mark.parametrize("jump", [86_400, -86_400], ids=["forward", "back"])
async def test_a_clock_that_is_set_ends_no_hold(tmp_path: Path, jump: float) -> None:
    """A process on another machine keeps its stack for the time of its hold, and no longer."""
    clock = ManualClock()
    database = await Database.open(f"sqlite:///{tmp_path}/holds.db", clock=clock)
    await migrate(database, [MIGRATIONS])
    store = DatabaseStore(database)
    row = StackRow(
        id="1", project_id=PROJECT, name="env",
        status=StackStatus.CREATE_IN_PROGRESS, created=clock.now(),
    )  # fmt: skip
    await store.create(row, "elsewhere:1:1:x", 30)
    clock.jump(jump)
    clock.advance(29)
    with pytest.raises(StackBusy):
        await store.take(row.id, "env", {}, "here", 30)
    clock.advance(1)
    assert (await store.take(row.id, "env", {}, "here", 30)).fence == 2
    await database.close()
