"""Deaths of workers, of the zygote and of the service; draining and taking over."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import insert, select
from tests.engine.pool.yard import ANN, Yard, zygote_of
from tests.waiting import eventually

from vetro import engine
from vetro.engine import EngineSettings, NetworkSection
from vetro.engine.tables import journal
from vetro.messaging import Guest, Mailboxes
from vetro.repository import Repository, RepositorySection
from vetro.repository.changes import put_service, store_file


async def test_a_killed_worker_fails_its_task_only(yard: Yard) -> None:
    """The error names the environment; others are not affected. What it began to install is not done."""
    yard.start()
    victim, other = await yard.submit("Sleeper"), await yard.submit("Sleeper")
    await yard.reported(victim, "asleep")
    await yard.reported(other, "asleep")
    os.kill(yard.pool._workers[victim], signal.SIGKILL)
    (error,) = await yard.errors(victim)
    assert "was killed while deploying e1" in error
    ((_, _, name, record),) = (await yard.stored(victim))["Attributes"]
    assert (name, record) == ("install", {"begun": True})
    assert await yard.ended(await yard.submit("Greeter")) == {"result": None, "isException": False}
    assert not any(level == "error" for level, _, _ in await yard.reports(other))


@pytest.mark.thorough
async def test_a_dead_zygote_is_replaced_while_nothing_runs(yard: Yard) -> None:
    """The next two tasks run as usual."""
    yard.start()
    await yard.ended(await yard.submit("Greeter"))
    before = zygote_of(yard.pool)
    os.kill(before, signal.SIGKILL)
    for _ in range(2):
        task = await yard.submit("Greeter")
        assert await yard.ended(task) == {"result": None, "isException": False}
    assert zygote_of(yard.pool) != before


async def test_a_zygote_that_dies_takes_its_workers_and_their_tasks_end_at_once(
    yard: Yard,
) -> None:
    """The tasks do not wait for the end of their leases, and the pool gets a new zygote."""
    yard.start()
    task = await yard.submit("Sleeper")
    await yard.reported(task, "asleep")
    os.kill(zygote_of(yard.pool), signal.SIGKILL)
    (error,) = await yard.errors(task)
    assert "was killed while deploying" in error
    assert await yard.ended(await yard.submit("Greeter")) == {"result": None, "isException": False}


@pytest.mark.thorough
async def test_a_zygote_that_cannot_be_started_fails_tasks(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task fails with that reason, and tasks run again once a zygote starts."""
    yard.start()
    await yard.ended(await yard.submit("Greeter"))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        os.kill(zygote_of(yard.pool), signal.SIGKILL)
        (error,) = await yard.errors(await yard.submit("Greeter"))
        assert "ended before they started" in error
    assert await yard.ended(await yard.submit("Greeter")) == {"result": None, "isException": False}


@pytest.mark.thorough
async def test_a_drained_pool_ends_what_it_runs(yard: Yard) -> None:
    """It takes nothing more, and returns when its deployments have ended; others take what waits."""
    running = yard.start()
    task = await yard.submit("Napper")
    await yard.reported(task, "asleep")
    yard.pool.drain()
    waiting = await yard.submit("Greeter")
    await running
    assert not (await yard.ended(task))["isException"]
    async with yard.database.read() as tx:
        assert await yard.rooms.tasks.queue.keys(tx) == {waiting}


@pytest.mark.thorough
async def test_a_stopped_pool_fails_what_it_runs(yard: Yard) -> None:
    """The user sees the reason; waiting tasks are left for the next engine."""
    running = yard.start()
    tasks = [await yard.submit("Sleeper") for _ in range(2)]
    for task in tasks:
        await yard.reported(task, "asleep")
    waiting = await yard.submit("Greeter")
    workers = dict(yard.pool._workers)
    await yard.stop(running)
    for task in tasks:
        assert await yard.errors(task) == [engine.pool.STOPPED]
    assert len(workers) == 2
    assert await yard.journal_rows() == 0
    yard.start()
    assert await yard.ended(waiting) == {"result": None, "isException": False}


@pytest.mark.thorough
async def test_an_interrupted_task_is_failed_although_others_wait_before_it(yard: Yard) -> None:
    """After a crash only the running tasks are failed; waiting ones run, however old."""
    older = await yard.submit("Greeter")
    interrupted = await yard.submit("Greeter")
    younger = await yard.submit("Greeter")
    dead = f"{yard.pool.owner_prefix}1-dead"
    assert await yard.rooms.tasks.claim(dead, 3600, task_id=interrupted) is not None
    yard.start()
    assert await yard.errors(interrupted) == [engine.pool.CUT_OFF]
    for task in (older, younger):
        assert await yard.ended(task) == {"result": None, "isException": False}


@pytest.mark.sampled(only=["True"])
@pytest.mark.parametrize("had_begun", [True, False])
async def test_a_task_of_a_dead_engine_elsewhere_is_taken_over(yard: Yard, had_begun: bool) -> None:
    """It runs if it had no effect yet, else it fails."""
    task = await yard.submit("Greeter")
    claimed = await yard.rooms.tasks.claim("another-host/x/1", 0.001)
    assert claimed is not None
    if had_begun:
        row = {
            "task_id": task,
            "sequence": 1,
            "fence": claimed[0].fence,
            "thread": "0",
            "kind": "report",
            "request_digest": "0" * 64,
            "state": "started",
            "started": yard.database.clock.now(),
        }
        async with yard.database.transaction() as tx:
            await tx.execute(insert(journal).values(**row))
    yard.start()
    if had_begun:
        assert await yard.errors(task) == [engine.pool.CUT_OFF]
    else:
        assert await yard.ended(task) == {"result": None, "isException": False}
    await eventually(yard.journal_is_empty, "the journal is removed after the end is stored")


@pytest.mark.thorough
async def test_journals_of_ended_tasks_are_swept_at_the_start(yard: Yard) -> None:
    """Rows that a dead engine left are removed; rows of waiting tasks are kept."""
    waiting = await yard.submit("Greeter")
    async with yard.database.transaction() as tx:
        for task in ("ended", waiting):
            await tx.execute(
                insert(journal).values(
                    task_id=task,
                    sequence=1,
                    fence=1,
                    thread="0",
                    kind="report",
                    request_digest="0" * 64,
                    state="done",
                    started=yard.database.clock.now(),
                )
            )
    await yard.pool.recover(yard.rooms)
    async with yard.database.read() as tx:
        rows = (await tx.execute(select(journal.c.task_id))).all()
    assert [row.task_id for row in rows] == [waiting]


def test_settings_reach_a_restarted_zygote_unchanged(settings: EngineSettings) -> None:
    """Settings written as JSON are read back equal, including paths and lists."""
    for one in (
        settings,
        replace(
            settings, signing_key=Path("/k"), network=NetworkSection(default_dns=["192.0.2.1"])
        ),
    ):
        assert EngineSettings.from_json(one.as_json()) == one


STEPS = """<workflow>
  <rule match="$.services[*].units[?(not @.state.first)]">
    <send-command template="First" service="s1" unit="u1">
      <success><set path="state.first"><true/></set></success>
    </send-command>
  </rule>
  <rule match="$.services[*].units[?(@.state.first and not @.state.second)]">
    <send-command template="Second" service="s1" unit="u1">
      <success><set path="state.second"><true/></set></success>
    </send-command>
  </rule>
</workflow>"""


async def submit_steps(yard: Yard) -> tuple[str, str]:
    """Deploy a v0.3 environment whose workflow sends two plans, one after the other: task, queue."""
    definitions = Repository(yard.database, RepositorySection(), yard.settings.data_dir / "none")
    (yard.settings.data_dir / "none").mkdir()
    await definitions.prepare()
    await store_file(definitions, "p", "workflows", "", "Steps.xml", STEPS.encode())
    for name in ("First", "Second"):
        body = f'{{"Commands": [{{"Name": "{name}"}}]}}'.encode()
        await store_file(definitions, "p", "agent", "", f"{name}.template", body)
    files = {"workflows": ["Steps.xml"], "agent": ["First.template", "Second.template"]}
    await put_service(definitions, "p", "steps", {"service_display_name": "Steps", **files})
    made = await yard.rooms.store.create_workflow(ANN, {"name": "old"})
    session = await yard.rooms.sessions.configure(ANN, made["id"])
    service = {"id": "s1", "type": "steps", "name": "s", "units": [{"id": "u1"}]}
    await yard.rooms.sessions.change_objects(
        ANN, made["id"], session["id"], lambda objects: objects["services"].append(service)
    )
    task = await yard.rooms.tasks.deploy(ANN, made["id"], session["id"])
    assert task is not None
    return task, f"e{made['id']}-s1-u1"


async def test_a_workflow_goes_on_after_worker_and_service_have_died(yard: Yard) -> None:
    """The worker is killed in a command, then the service stops: each plan is sent once, and its late
    answer, which came while nobody ran, counts.
    """
    running = yard.start()
    task, queue = await submit_steps(yard)
    mailboxes, guest = Mailboxes(yard.database), Guest(queue)
    await mailboxes.declare(queue)
    names: list[str] = []

    async def take() -> str:
        message = None
        while message is None:
            message = await mailboxes.next_plan(guest, None, 60.0)
        names.append(json.loads(message.body)["Commands"][0]["Name"])
        await mailboxes.acknowledge(guest, message.message_id)
        return message.message_id

    async def answer(plan: str) -> None:
        result = {"IsException": False, "Result": [{"IsException": False, "Result": [None]}]}
        await mailboxes.accept_result(guest, json.dumps(result).encode(), plan)

    await answer(await take())
    second = await take()
    os.kill(yard.pool._workers[task], signal.SIGKILL)
    await yard.reported(task, "The deployment was cut off in round 2")
    await yard.stop(running)
    await answer(second)
    yard.start()
    assert await yard.ended(task) == {"result": None, "isException": False}
    state = (await yard.model(task))["services"][0]["units"][0]["state"]
    assert state == {"first": True, "second": True}
    assert names == ["First", "Second"]
    assert len([one for one in await yard.reports(task) if "cut off in round 2" in one[1]]) == 2
    await eventually(yard.journal_is_empty, "the journal is removed after the end is stored")
