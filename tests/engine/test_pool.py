"""The pool with real worker processes: results, deaths of workers and of the zygote, restarts."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, insert, select
from structlog.contextvars import bound_contextvars
from tests.waiting import eventually

import vetro.engine.pool as pool_module
from vetro import catalog, engine, environments, identity, messaging, repository, stacks
from vetro.engine import EnginePool, EngineSection, EngineSettings, NetworkSection
from vetro.engine.tables import journal
from vetro.engine.worker.deployment import TaskReports, WaitingReports
from vetro.environments import Environments, TaskStore, task_channel
from vetro.http import Conflict, Principal
from vetro.messaging import Guest, Mailboxes
from vetro.packages import build_archive
from vetro.repository import Repository, RepositorySection
from vetro.repository.changes import put_service, store_file
from vetro.storage import Database, DatabaseFull, LeaseQueue, migrate

ANN = Principal("id-ann", "ann", "p", roles=frozenset({"member"}))
MANIFEST = """
Format: '1.4'
Type: Application
FullName: test.apps
Classes:
  test.Greeter: all.yaml
  test.Sleeper: all.yaml
  test.Napper: all.yaml
  test.Thrower: all.yaml
  test.Curious: all.yaml
  test.Hoarder: all.yaml
  test.Chatterer: all.yaml
  test.Keeper: all.yaml
"""
CLASSES = """
Namespaces: {=: test, std: io.murano}
Name: Greeter
Extends: std:Application
Properties:
  said: {Contract: $.string(), Usage: Out}
Methods:
  deploy:
    Body:
      - $reporter: $this.find(std:Environment).reporter
      - $reporter.report($this, one)
      - $reporter.report($this, two)
      - $.said: hello
---
Name: Keeper
Extends: std:Application
Properties:
  key: {Contract: $.string()}
  size: {Contract: $.int(), Usage: Out}
Methods:
  deploy:
    Body:
      - $text: decryptData($.key)
      - $this.find(std:Environment).reporter.report($this, 'got ' + $text)
      - $.size: len($text)
---
Name: Sleeper
Extends: std:Application
Methods:
  deploy:
    Body:
      - $this.find(std:Environment).reporter.report($this, asleep)
      - sleep(3600)
---
Name: Napper
Extends: std:Application
Methods:
  deploy:
    Body:
      - $this.find(std:Environment).reporter.report($this, asleep)
      - sleep(1)
---
Name: Hoarder
Extends: std:Application
Properties:
  kept: {Contract: [$.string()], Usage: Out}
  times: {Contract: $.int(), Default: 0}
Methods:
  deploy:
    Body:
      - $unit: x
      - $text: $unit * 60000
      - $.kept: range(20).select($text)
      - $left: $.times
      - $all: []
      - While: $left > 0
        Do:
          - $all: $all + list($text + str($left))
          - $left: $left - 1
---
Name: Chatterer
Extends: std:Application
Methods:
  deploy:
    Body:
      - $unit: x
      - $text: begin + $unit * 100000 + end
      - $this.find(std:Environment).reporter.report($this, $text)
---
Name: Thrower
Extends: std:Application
Methods:
  deploy:
    Body:
      - Throw: Trouble
        Message: it broke
---
Name: Curious
Extends: std:Application
Methods:
  deploy:
    Body:
      - $text: format('{0} of {1}', std:User.getCurrent().name, std:Project.getCurrent().name)
      - $this.find(std:Environment).reporter.report($this, $text)
"""


@dataclass
class Yard:
    """An engine's surroundings: a database, users' requests, the pool."""

    database: Database
    rooms: Environments
    settings: EngineSettings
    pool: EnginePool
    running: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    made: int = 0

    def start(self, pool: EnginePool | None = None) -> asyncio.Task[None]:
        """Run the pool."""
        task = asyncio.create_task((pool or self.pool).run(self.database))
        self.running.append(task)
        return task

    async def stop(self, task: asyncio.Task[None]) -> None:
        """Cancel a running pool, as a service that stops does."""
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def submit(
        self,
        class_name: str,
        request_id: str = "req-1",
        version: str = "0",
        user: Principal = ANN,
        **properties: Any,
    ) -> str:
        """Deploy an environment with one application; the task's id."""
        self.made += 1
        header = {"id": f"app-{self.made}", "type": f"test.{class_name}", "classVersion": version}
        body = {
            "name": f"e{self.made}",
            "defaultNetworks": {"environment": None, "flat": None},
            "services": [{"?": header, **properties}],
        }
        made = await self.rooms.store.create(user, body)
        session = await self.rooms.sessions.configure(user, made["id"])
        with bound_contextvars(request_id=request_id):
            task = await self.rooms.tasks.deploy(user, made["id"], session["id"])
        assert task is not None
        return task

    async def reports(self, task: str) -> list[tuple[str, str, str | None]]:
        """Level, text and details of a task's reports."""
        async with self.database.read() as tx:
            rows = await self.rooms.tasks.history.reports(tx, task)
        return [(row.level, row.text, row.details) for row in rows]

    async def reported(self, task: str, text: str) -> None:
        """Wait for a report that begins like this."""
        async with self.database.listen(task_channel(task)) as subscription:
            while not any(one[1].startswith(text) for one in await self.reports(task)):
                await subscription.wait(60)

    async def ended(self, task: str) -> dict[str, Any]:
        """Wait for the end of a task; the stored result."""
        await self.reported(task, "Deployment finished")
        tasks = environments.tables.tasks
        async with self.database.read() as tx:
            row = (await tx.execute(select(tasks).where(tasks.c.id == task))).one()
        return row.result

    async def gone(self, task: str) -> None:
        """Wait until the environment of a deletion is gone."""
        tasks = environments.tables.tasks
        async with self.database.listen(task_channel(task)) as subscription:
            while True:
                async with self.database.read() as tx:
                    found = await tx.execute(select(tasks).where(tasks.c.id == task))
                    if found.one().environment_gone is not None:
                        return
                await subscription.wait(60)

    async def errors(self, task: str) -> list[str]:
        """The texts of error reports, of a task that has ended."""
        assert (await self.ended(task))["isException"]
        return [text for level, text, _ in await self.reports(task) if level == "error"]

    async def model(self, task: str) -> dict[str, Any]:
        """The objects of the task's environment now."""
        tasks = environments.tables.tasks
        rows = environments.tables.environments
        async with self.database.read() as tx:
            row = (await tx.execute(select(tasks).where(tasks.c.id == task))).one()
            found = await tx.execute(select(rows).where(rows.c.id == row.environment_id))
            return found.one().model["Objects"]

    async def journal_is_empty(self) -> bool:
        """Whether no task has left a journal."""
        return not await self.journal_rows()

    async def journal_rows(self) -> int:
        """How many rows the journal has."""
        async with self.database.read() as tx:
            return (await tx.execute(select(func.count()).select_from(journal))).scalar_one()


@pytest.fixture
def yard_settings(request: pytest.FixtureRequest, settings: EngineSettings) -> EngineSettings:
    """The pool's settings; a test may change some."""
    return replace(settings, engine=replace(settings.engine, **getattr(request, "param", {})))


@pytest.fixture
def settings(tmp_path: Path) -> EngineSettings:
    """Settings of an engine that needs nothing but its database."""
    package = tmp_path / "installed" / "test.apps"
    (package / "Classes").mkdir(parents=True)
    (package / "manifest.yaml").write_text(MANIFEST)
    (package / "Classes" / "all.yaml").write_text(CLASSES)
    return EngineSettings(
        database_url=f"sqlite:///{tmp_path}/test.db",
        data_dir=tmp_path,
        compute_url="http://127.0.0.1:9",
        service_key="key",
        mailbox_url="http://mailbox.example",
        package_dir=tmp_path / "packages",
        engine=EngineSection(
            packages_directories=[str(tmp_path / "installed")], workers=2, project_workers=2
        ),
    )


@pytest.fixture
def pool(yard_settings: EngineSettings) -> Iterator[EnginePool]:
    """A pool whose zygote is there."""
    made = EnginePool(yard_settings)
    made.prepare()
    yield made
    made.close()


@pytest.fixture
async def yard(settings: EngineSettings, pool: EnginePool) -> AsyncIterator[Yard]:
    """The pool's surroundings; the pool does not run yet."""
    database = await Database.open(settings.database_url, data_dir=settings.data_dir)
    rooms = (catalog, environments, messaging, stacks, engine, identity, repository)
    await migrate(database, [room.MIGRATIONS for room in rooms])
    made = Yard(database, Environments(database), settings, pool)
    yield made
    for task in made.running:
        await made.stop(task)
    await database.close()


def zygote_of(pool: EnginePool) -> int:
    """The zygote's process id."""
    assert pool._zygote is not None
    return pool._zygote.pid


@pytest.mark.parametrize(
    "yard_settings",
    [
        {
            "enable_model_policy_enforcer": True,
            "model_policy_file": str(Path(__file__).with_name("model.rules")),
        }
    ],
    indirect=True,
)
async def test_rules_about_models_refuse_and_change_what_is_deployed(yard: Yard) -> None:
    """A refused deployment runs nothing and says why; a changed one runs as it was changed."""
    yard.start()
    refused, sleeper, good = [await yard.submit(name) for name in ("Thrower", "Hoarder", "Greeter")]
    text = "Murano object model validation failed: \n    No Thrower here: app-1"
    assert await yard.errors(refused) == [text]
    assert not (await yard.ended(sleeper))["isException"]
    assert (await yard.model(sleeper))["services"][0]["times"] == 1
    assert not (await yard.ended(good))["isException"]


async def test_an_environment_lives_on_with_packages_that_were_deleted(
    yard: Yard, tmp_path: Path
) -> None:
    """After a forced deletion it deploys and is destroyed; then the archive is removed."""
    source = tmp_path / "kept"
    (source / "Classes").mkdir(parents=True)
    (source / "manifest.yaml").write_text(
        "{Format: '1.4', Type: Application, FullName: test.kept, Version: 1.2.0,"
        " Classes: {test.Kept: a.yaml}}"
    )
    (source / "Classes/a.yaml").write_text(
        "{Name: test.Kept, Extends: io.murano.Application, Methods: {deploy: {Body: []}}}"
    )
    build_archive(source, tmp_path / "kept.zip")
    packages = catalog.Catalog(yard.database, yard.settings.package_dir)
    row = await packages.upload(ANN, tmp_path / "kept.zip", catalog.UploadMetadata())
    yard.start()
    task = await yard.submit("Kept", version="1.2.0")
    assert not (await yard.ended(task))["isException"]
    uses = environments.EnvironmentUses(yard.database)
    with pytest.raises(Conflict, match="is used by 1 environment: e1"):
        await packages.delete(ANN, row["id"], uses)
    await packages.delete(ANN, row["id"], uses, force=True)
    ([environment], _) = await yard.rooms.store.listing(ANN)
    session = await yard.rooms.sessions.configure(ANN, environment["id"])
    again = await yard.rooms.tasks.deploy(ANN, environment["id"], session["id"])
    assert again is not None
    assert not (await yard.ended(again))["isException"]
    removal = await yard.rooms.tasks.delete_environment(ANN, environment["id"], abandon=False)
    assert removal is not None
    assert len(list(yard.settings.package_dir.iterdir())) == 1
    await yard.gone(removal)
    assert await packages.drop_unused_packages(uses) == 1
    assert list(yard.settings.package_dir.iterdir()) == []


async def test_a_task_runs_in_a_worker_and_leaves_no_journal(yard: Yard) -> None:
    """Reports keep their order; the model is saved with the result; the journal is removed."""
    yard.start()
    task = await yard.submit("Greeter")
    assert await yard.ended(task) == {"result": None, "isException": False}
    texts = [text for _, text, _ in await yard.reports(task)]
    assert texts == ["Action deploy is scheduled", "one", "two", "Deployment finished"]
    assert (await yard.model(task))["services"][0]["said"] == "hello"
    await eventually(yard.journal_is_empty, "the journal is removed after the end is stored")


async def test_a_program_reads_what_a_form_encrypted(yard: Yard) -> None:
    """It has the text behind the reference; reports do not; another project's is not there."""
    secrets = yard.rooms.form_secrets
    await secrets.keep("p", None, {"own": "open sesame"})
    await secrets.keep("q", None, {"theirs": "shibboleth"})
    yard.start()
    task = await yard.submit("Keeper", key="own")
    assert not (await yard.ended(task))["isException"]
    assert (await yard.model(task))["services"][0]["size"] == len("open sesame")
    assert "got ***" in [text for _, text, _ in await yard.reports(task)]
    (refused,) = await yard.errors(await yard.submit("Keeper", key="theirs"))
    assert "the project has no secret 'theirs'" in refused


async def test_a_failing_program_leaves_no_journal(yard: Yard) -> None:
    """The report carries the message and the program's stack trace."""
    yard.start()
    task = await yard.submit("Thrower")
    assert await yard.errors(task) == ["it broke"]
    details = [details for level, _, details in await yard.reports(task) if level == "error"]
    assert "test.Thrower" in str(details[0])
    assert "all.yaml" in str(details[0])
    await eventually(yard.journal_is_empty, "the journal is removed after the end is stored")


async def test_a_killed_worker_fails_its_task_only(yard: Yard) -> None:
    """The error names the environment; other tasks, before and after, are not affected."""
    yard.start()
    victim, other = await yard.submit("Sleeper"), await yard.submit("Sleeper")
    await yard.reported(victim, "asleep")
    await yard.reported(other, "asleep")
    os.kill(yard.pool._workers[victim], signal.SIGKILL)
    (error,) = await yard.errors(victim)
    assert "was killed while deploying e1" in error
    assert await yard.ended(await yard.submit("Greeter")) == {"result": None, "isException": False}
    assert not any(level == "error" for level, _, _ in await yard.reports(other))


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


async def test_a_failure_inside_the_engine_is_reported_with_the_request(
    yard: Yard, settings: EngineSettings
) -> None:
    """The report has the reason and the id to find in the log; the model is unchanged."""
    settings.signing_key_file.write_text("no key")
    yard.start()
    task = await yard.submit("Greeter", request_id="req-quoted")
    (error,) = await yard.errors(task)
    assert "SigningKeyError" in error
    assert "req-quoted" in error
    assert "said" not in (await yard.model(task))["services"][0]
    settings.signing_key_file.unlink()
    assert await yard.ended(await yard.submit("Greeter")) == {"result": None, "isException": False}


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


async def test_an_interrupted_task_is_failed_although_others_wait_before_it(yard: Yard) -> None:
    """After a crash only the running tasks are failed; waiting ones run, however old."""
    older = await yard.submit("Greeter")
    interrupted = await yard.submit("Greeter")
    younger = await yard.submit("Greeter")
    dead = f"{yard.pool.owner_prefix}1-dead"
    claimed = await yard.rooms.tasks.claim(dead, 3600, task_id=interrupted)
    assert claimed is not None
    yard.start()
    assert await yard.errors(interrupted) == [engine.pool.CUT_OFF]
    for task in (older, younger):
        assert await yard.ended(task) == {"result": None, "isException": False}


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


@pytest.mark.parametrize("yard_settings", [{"task_seconds": 0.5}], indirect=True)
async def test_a_deployment_that_takes_too_long_is_cancelled(
    yard: Yard, yard_settings: EngineSettings
) -> None:
    """The report has the reason; the worker ends, and the next task runs."""
    yard.start()
    (error,) = await yard.errors(await yard.submit("Sleeper"))
    assert error == "The deployment took longer than 0.5 seconds and was cancelled"
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


@pytest.mark.parametrize("yard_settings", [{"worker_memory": 256}], indirect=True)
async def test_a_worker_has_memory_of_its_own(yard: Yard, yard_settings: EngineSettings) -> None:
    """A program above the limit fails with the reason; service and other tasks are unaffected."""
    yard.start()
    (error,) = await yard.errors(await yard.submit("Hoarder", times=20000))
    assert error.startswith("The program used more than 256 MiB of memory")
    assert await yard.ended(await yard.submit("Hoarder")) == {"result": None, "isException": False}


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


async def test_what_is_waited_on_is_stored(yard: Yard) -> None:
    """The newest text is stored, including the last one; a withdrawn text is removed."""
    task_id = await yard.submit("Sleeper")
    claimed = await yard.rooms.tasks.claim("engine", 60, task_id=task_id)
    assert claimed is not None
    told = WaitingReports(TaskReports(yard.rooms, claimed[1]))
    try:
        async with yard.database.listen(task_channel(task_id)) as subscription:
            for text in ("one", "two"):
                told.tell(text)
            while await waiting_on(yard, task_id) != "two":
                await subscription.wait(60)
            told.tell("")
            while await waiting_on(yard, task_id) is not None:
                await subscription.wait(60)
    finally:
        await told.close()


async def waiting_on(yard: Yard, task_id: str) -> str | None:
    """What a task waits on, as its user sees it."""
    rows, _ = await yard.rooms.tasks.history.deployments(ANN, None)
    return next(row["waiting_on"] for row in rows if row["id"] == task_id)


async def test_a_user_is_known_by_name(yard: Yard) -> None:
    """Programs see the deploying user's name; without an account, the id."""
    yard.start()
    task = await yard.submit("Curious")
    assert await yard.ended(task) == {"result": None, "isException": False}
    assert ("info", "id-ann of p", None) in await yard.reports(task)


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
