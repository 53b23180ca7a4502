"""Limits on tasks: workers, time, memory, sizes, disk; cancelling."""

from __future__ import annotations

import errno
import os
import signal
from typing import Any

import pytest
from sqlalchemy import select
from tests.engine.pool.yard import ANN, Yard
from tests.waiting import eventually

import vetro.engine.pool as pool_module
from vetro import environments
from vetro.engine import EngineSettings
from vetro.environments import TaskStore
from vetro.http import Principal
from vetro.storage import DatabaseFull, LeaseQueue


@pytest.mark.thorough
async def test_a_full_disk_fails_deployments_with_that_reason(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work and failures wait for room; the report has the reason; the pool keeps running."""
    refused: list[str] = []

    def once_full(owner: type, name: str) -> None:
        given = getattr(owner, name)

        async def full_at_first(*args: Any, **more: Any) -> Any:
            if name not in refused:
                refused.append(name)
                raise DatabaseFull("the database: the disk is full")
            return await given(*args, **more)

        monkeypatch.setattr(owner, name, full_at_first)

    async def no_room(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/data/signing")

    monkeypatch.setattr(pool_module, "FULL_PAUSE_SECONDS", 0.0)
    once_full(LeaseQueue, "claim")
    once_full(TaskStore, "fail_task")
    with monkeypatch.context() as patch:
        patch.setattr(pool_module.EnginePool, "_run", no_room)
        yard.start()
        task = await yard.submit("Greeter")
        (error,) = await yard.errors(task)
    assert "The service's disk is full" in error
    assert "/data/signing" in error
    assert refused == ["claim", "fail_task"]


@pytest.mark.thorough
async def test_no_more_tasks_run_than_there_are_workers(yard: Yard) -> None:
    """The third task begins when one of two has ended."""
    yard.start()
    first, second = await yard.submit("Sleeper"), await yard.submit("Sleeper")
    await yard.reported(first, "asleep")
    await yard.reported(second, "asleep")
    third = await yard.submit("Greeter")
    assert [text for _, text, _ in await yard.reports(third)] == ["Action deploy is scheduled"]
    os.kill(yard.pool._workers[first], signal.SIGKILL)
    assert await yard.ended(third) == {"result": None, "isException": False}


@pytest.mark.parametrize("yard_settings", [{"task_seconds": 3.0}], indirect=True)
async def test_a_deployment_that_takes_too_long_is_cancelled(
    yard: Yard, yard_settings: EngineSettings
) -> None:
    """The report has the reason; the worker ends, and the next task runs."""
    yard.start()
    (error,) = await yard.errors(await yard.submit("Sleeper"))
    assert error == "The deployment took longer than 3 seconds and was cancelled"
    assert await yard.ended(await yard.submit("Greeter")) == {"result": None, "isException": False}


@pytest.mark.parametrize("yard_settings", [{"project_workers": 0}], indirect=True)
async def test_one_project_does_not_hold_all_workers(
    yard: Yard, yard_settings: EngineSettings
) -> None:
    """Its second deployment waits while another project's runs, and runs afterwards."""
    yard.start()
    first = await yard.submit("Sleeper")
    await yard.reported(first, "asleep")
    second = await yard.submit("Sleeper")
    eve = Principal("id-eve", "eve", "q", roles=frozenset({"member"}))
    for _ in range(2):
        other = await yard.submit("Greeter", user=eve)
        assert await yard.ended(other) == {"result": None, "isException": False}
    assert [text for _, text, _ in await yard.reports(second)] == ["Action deploy is scheduled"]
    await cancel(yard, first, "enough")
    await yard.reported(second, "asleep")
    await cancel(yard, second, "enough")
    await yard.ended(second)


@pytest.mark.parametrize("yard_settings", [{"model_limit": 1_000_000}], indirect=True)
async def test_a_model_that_is_too_large_is_refused(
    yard: Yard, yard_settings: EngineSettings
) -> None:
    """The report has the size and the setting of the limit; the model is unchanged."""
    yard.start()
    task = await yard.submit("Hoarder")
    (error,) = await yard.errors(task)
    assert "more than 1000000 bytes; most of it is app-1; engine.model_limit is 1000000" in error
    assert "kept" not in (await yard.model(task))["services"][0]
    assert await yard.ended(await yard.submit("Greeter")) == {"result": None, "isException": False}


@pytest.mark.thorough
@pytest.mark.parametrize("yard_settings", [{"worker_memory": 256}], indirect=True)
async def test_a_worker_has_memory_of_its_own(yard: Yard, yard_settings: EngineSettings) -> None:
    """A program above the limit fails with the reason; service and other tasks are unaffected."""
    yard.start()
    (error,) = await yard.errors(await yard.submit("Hoarder", times=20000))
    assert error.startswith("The program used more than 256 MiB of memory")
    assert await yard.ended(await yard.submit("Hoarder")) == {"result": None, "isException": False}


@pytest.mark.thorough
async def test_long_reports_are_cut_in_the_middle(yard: Yard) -> None:
    """The report keeps beginning and end, and the number of missing characters."""
    yard.start()
    task = await yard.submit("Chatterer")
    assert await yard.ended(task) == {"result": None, "isException": False}
    (text,) = [text for _, text, _ in await yard.reports(task) if text.startswith("beginxxx")]
    assert text.endswith("xxxend")
    assert "characters are left out" in text
    assert len(text) <= environments.task_values.REPORT_LENGTH


async def cancel(yard: Yard, task: str, reason: str) -> None:
    """Cancel a task as its user does."""
    tasks = environments.tables.tasks
    async with yard.database.read() as tx:
        row = (await tx.execute(select(tasks).where(tasks.c.id == task))).one()
    await yard.rooms.tasks.cancel(ANN, row.environment_id, task, reason)


async def test_a_running_deployment_is_cancelled(yard: Yard) -> None:
    """Its wait is interrupted with the reason and its journal removed; other tasks run on."""
    yard.start()
    one, other = await yard.submit("Sleeper"), await yard.submit("Sleeper")
    for task in (one, other):
        await yard.reported(task, "asleep")
    await cancel(yard, one, "wrong image")
    (error,) = await yard.errors(one)
    assert error == "Cancelled by ann: wrong image"
    assert not any(
        text.startswith("Deployment finished") for _, text, _ in await yard.reports(other)
    )
    await cancel(yard, other, "")
    assert await yard.errors(other) == ["Cancelled by ann"]
    assert await yard.ended(await yard.submit("Greeter")) == {"result": None, "isException": False}

    await eventually(yard.journal_is_empty)  # it is removed after the end is told


@pytest.mark.thorough
async def test_a_worker_that_does_not_end_is_killed(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled program is killed after a delay, and the report has the reason."""
    monkeypatch.setattr("vetro.engine.pool.CANCEL_SECONDS", 0.05)
    yard.start()
    task = await yard.submit("Sleeper")
    await yard.reported(task, "asleep")
    (pid,) = yard.pool._workers.values()
    async with yard.database.transaction():  # so that it does not stop in one of its own
        os.kill(pid, signal.SIGSTOP)
    await cancel(yard, task, "stuck")
    (error,) = await yard.errors(task)
    assert error.startswith("Cancelled by ann: stuck (The engine worker")
