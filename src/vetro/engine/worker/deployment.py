"""Running one task: packages, model, action, result."""

from __future__ import annotations

import asyncio
import importlib
import json
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

import structlog

from vetro.engine.errors import OverLimit
from vetro.engine.journal import JournalEffects, begun
from vetro.engine.settings import EngineSettings
from vetro.engine.system import library_path, system_runtime
from vetro.engine.worker.back_ends import back_ends
from vetro.engine.worker.foreseen import refused_before, with_foreseen
from vetro.engine.worker.messages import orders_to
from vetro.engine.worker.refusal import message_of, result_of_refusal
from vetro.engine.worker.result_size import exceeds
from vetro.engine.worker.upgraded import keep_unsaid, silent_upgrades
from vetro.environments import (
    EngineTask,
    Environments,
    FormSecrets,
    LeakedObject,
    TaskResult,
    Tracked,
    pinned_packages,
    shortened,
)
from vetro.json_values import Json, JsonObject
from vetro.muranopl import (
    DirectEffects,
    MuranoError,
    Runtime,
    Session,
    SessionInfo,
    TaskReply,
    wait,
)
from vetro.packages import is_enabled, open_package
from vetro.secrecy import SHORTEST, Cover, hide_in_logs, secrets_in
from vetro.storage import Database, StorageError

WAITING_SECONDS = 0.5
MOST_WARNINGS = 100
log = structlog.get_logger(__name__)
USED_BY_EVERY_TASK = (
    "anyio._backends._asyncio",
    "anyio.streams.tls",
    "httpcore2",
    "vetro.muranopl.host.tasks",
    "vetro.muranopl.model.edits",
    "vetro.stacks.state.store",
)
"""Modules that are imported late elsewhere; a worker would spend 90 ms on them."""
UNTOUCHED = ("<validate>", "<load>", "<GC>")
"""Stages whose failure leaves the model unchanged: nothing ran."""


def preload(code_cache: Path | None = None) -> Runtime:
    """A runtime with the core library compiled, from which a worker starts."""
    runtime = system_runtime(code_cache)
    runtime.add_package(open_package(library_path() / "io.murano"))
    runtime.compile_all()
    try:
        runtime.load_plugins(is_enabled=is_enabled)
    except Exception:
        # Packages that need them fail with the class's name; all others are deployed.
        log.exception("plugins_not_loaded")
    for module in USED_BY_EVERY_TASK:
        importlib.import_module(module)
    return runtime


def preload_workflows() -> None:
    """Import what tasks of XML workflows use besides."""
    importlib.import_module("vetro.engine.worker.workflow_run")


class KnownSecrets:
    """The secrets of a run: ``cover`` takes them out of messages."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = set(secrets)
        self.cover = Cover(self._secrets)

    def learn(self, secret: str) -> None:
        """Mask a secret that the program has read, from now on; the log does so too."""
        if len(secret) >= SHORTEST:
            self._secrets.add(secret)
            self.cover = Cover(self._secrets)
            hide_in_logs(self.cover)


def reading(
    secrets: FormSecrets, project_id: str, learn: Callable[[str], None]
) -> Callable[[object], str]:
    """``decryptData()`` of a task (muranopl.md §20), for ``Runtime.session(secrets=…)``; ``learn`` is
    called with each secret that is read.

    A read is not recorded as an effect: the journal would keep the secret, and a replay can read it again.
    """

    def decrypt(reference: object) -> str:
        found = None
        if isinstance(reference, str):
            found = wait(secrets.read(project_id, reference))
        if found is None:
            raise MuranoError(
                f"decryptData(): the project has no secret {reference!r:.60}",
                hint="its component was made in another project, or its environment was deleted:"
                " fill in its form again",
            )
        learn(found)
        return found

    return decrypt


class TaskReports(KnownSecrets):
    """Reports of one task, kept in order by sending one at a time."""

    def __init__(self, rooms: Environments, task: EngineTask) -> None:
        # The user's values, the last run's result, and the arguments of the action.
        super().__init__(secrets_in([task.model, task.action]))
        self.rooms = rooms
        self.task = task
        self._records: list[Callable[[], Awaitable[None]]] = []

    async def report(
        self,
        entity_id: str | None,
        level: str,
        text: str,
        details: str | None = None,
        *,
        entity: str | None = None,
    ) -> None:
        """Add a report, with the secrets of the model masked."""
        if details is not None:
            details = self.cover(details)
        await self.rooms.tasks.reports.add(
            self.task.id, entity_id, level, self.cover(text), details, entity=entity
        )

    async def track(self, values: Tracked) -> None:
        """Record that an instance exists; failing statistics must never fail a deployment.

        Of a guarded task when it has not been refused, as that an instance is gone.
        """
        instances = self.rooms.tasks.instances
        await self._record(lambda: instances.track(self.task.environment_id, values))

    async def untrack(self, instance_id: str) -> None:
        """Record that an instance is gone."""
        instances = self.rooms.tasks.instances
        await self._record(lambda: instances.untrack(self.task.environment_id, instance_id))

    async def _record(self, record: Callable[[], Awaitable[None]]) -> None:
        self._records.append(record)
        if self.task.may_lose is None:
            await self.store_records()

    async def store_records(self) -> None:
        """Store what was recorded."""
        records, self._records = self._records, []
        for record in records:
            try:
                await record()
            except Exception as error:  # noqa: BLE001 - §4.5: failure must never fail a deployment
                log.warning("statistics_not_stored", error=str(error))


class WaitingReports:
    """Stores what a task waits on, at most twice a second: most waits are short."""

    def __init__(self, reports: TaskReports) -> None:
        self._reports = reports
        self._text = ""
        self._stored = ""
        self._writing: asyncio.Task[None] | None = None

    def set(self, text: str) -> None:
        """Store later that the task waits on ``text`` now."""
        self._text = text
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        await asyncio.sleep(WAITING_SECONDS)
        while self._text != self._stored:
            text = self._text
            try:
                await self._reports.rooms.tasks.reports.say_waiting(
                    self._reports.task.id, self._reports.cover(text)
                )
            except StorageError as error:
                # This is information only; the next change is stored again.
                log.warning("waiting_on_not_stored", error=str(error))
                return
            self._stored = text
            await asyncio.sleep(WAITING_SECONDS)

    async def close(self) -> None:
        """Store nothing more."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)


async def run_task(
    settings: EngineSettings,
    runtime: Runtime,
    task: EngineTask,
    fence: int,
    orders: socket.socket | None = None,
) -> TaskResult:
    """Run a task to its result; failures of the program are in the result and in a report.

    ``orders``: the socket over which the pool may cancel the task.
    """
    database = await Database.open(
        settings.database_url,
        data_dir=settings.data_dir,
        keyring=settings.keyring,
        use=settings.database_use,
    )
    try:
        reports = TaskReports(Environments(database), task)
        hide_in_logs(reports.cover)
        async with back_ends(
            settings,
            runtime,
            project_id=str(task.model.get("project_id") or task.project_id),
            user_id=str(task.model.get("user_id") or task.user_id),
            environment_id=task.environment_id,
            reports=reports,
            database=database,
            pinned=pinned_packages(task.model),
            delegation=task.delegation,
        ) as world:
            services = world.services
            services.may_lose = task.may_lose
            info = SessionInfo(
                project_id=task.project_id,
                user_id=task.user_id,
                environment_owner_project_id=services.project_id,
                environment_owner_user_id=services.user_id,
                task_id=task.id,
            )
            effects = JournalEffects(database, task.id, fence)
            waiting = WaitingReports(reports)
            services.waiting.notify = waiting.set
            if is_flat(task.model):
                # Imported late: most tasks run no workflows.
                from vetro.engine.checkpoints import Checkpoints
                from vetro.engine.worker.workflow_run import run_workflows

                kept = Checkpoints(database, task.id, fence)
                try:
                    return await run_workflows(services, database, task, effects, kept, orders)
                finally:
                    await waiting.close()
            if settings.engine.enable_model_policy_enforcer and task.is_deployment:
                # Imported late: few installations have rules.
                from vetro.engine.worker.model_policy import judged

                objects, refusal = await judged(settings, runtime, info, services, task)
                if refusal:
                    await waiting.close()
                    await reports.report(task.environment_id, "error", refusal)
                    refused = TaskReply(
                        task.model, None, is_exception=True, stage="<validate>", message=refusal
                    )
                    return to_result(task, refused, reports.cover)
                task = replace(task, model={**task.model, "Objects": objects})
            secrets = reading(reports.rooms.form_secrets, task.project_id, reports.learn)
            if await is_guarded(task, database):
                lost = await refused_before(services, task)

                def trial(effects: DirectEffects) -> Session:
                    return runtime.session(
                        effects=effects, info=info, services=services, secrets=secrets
                    )

                # Nobody is asked about changes that fail anyway: the run says what is wrong with them.
                if lost is not None and not await is_unsound(trial, task.model):
                    await waiting.close()
                    result = result_of_refusal(lost, (), model=task.model, cover=reports.cover)
                    await reports.report(task.environment_id, "error", message_of(result))
                    return result
            session = runtime.session(
                effects=effects, info=info, services=services, secrets=secrets
            )
            try:
                with orders_to(session.cancel, orders, settings.engine.task_seconds):
                    reply = await session.run_task_async(
                        {"action": task.action, "model": task.model}
                    )
                    if reply.limit == "memory":
                        raise MemoryError  # of the worker, not of the program
                    try:
                        await session.in_green_thread_async(
                            lambda: describe_actions(session, reply.model)
                        )
                    except MuranoError as error:
                        # The run was cancelled; then calls of actions are checked when they run.
                        log.debug("action_arguments_not_stored", error=error.message)
                    if task.is_delete:
                        keep_what_is_left(reply, services.left)
                    for warning in [*reply.warnings][:MOST_WARNINGS]:
                        await reports.report(task.environment_id, "warning", warning)
                    if task.is_deployment:
                        called = services.guests_called
                        silent = [*silent_upgrades(task.model, reply.model, called)]
                        keep_unsaid(reply.model, silent if reply.is_exception else ())
                        for one in () if reply.is_exception else silent:
                            await reports.report(one.component, "warning", one.warning)
                    limit_result(reply, settings.engine.action_result_limit)
                    limit_model(reply.model, settings.engine.model_limit)
                    if services.refused is not None:
                        # Whatever the program made of it: a refusal in `.destroy` is muted, too.
                        result = result_of_refusal(
                            await with_foreseen(services.refused, services, task),
                            effects.changed,
                            model=stored_model(reply, task.model),
                            cover=reports.cover,
                            is_action=not task.is_deployment,
                        )
                        await reports.report(task.environment_id, "error", message_of(result))
                        return result
                    await reports.store_records()
                    if reply.is_exception:
                        text = reply.message or "The deployment failed"
                        await reports.report(task.environment_id, "error", text, reply.details)
            finally:
                await session.close_async()
                await waiting.close()
        return to_result(task, reply, reports.cover)
    finally:
        hide_in_logs(None)
        await database.close()


async def is_guarded(task: EngineTask, database: Database) -> bool:
    """Whether to look for what a task would lose before it begins; after a crash it has begun."""
    return task.may_lose is not None and task.is_deployment and not await begun(database, task.id)


async def is_unsound(trial: Callable[[DirectEffects], Session], model: JsonObject) -> bool:
    """Whether a model cannot be loaded, as when a contract refuses a value; nothing is done for it."""
    # Imported late: few deployments lose something.
    from vetro.engine.worker.upgrade_check import load_problem

    error, _ = await load_problem(trial, model)
    return bool(error)


def is_flat(model: dict[str, object]) -> bool:
    """Whether a model has the flat services of the v0.3 API, which XML workflows deploy: objects of
    MuranoPL have a header ``?``."""
    objects = model.get("Objects")
    if objects is None:
        objects = model.get("ObjectsCopy")
    return isinstance(objects, dict) and "?" not in objects


def describe_actions(session: Session, model: JsonObject) -> None:
    """Write the arguments of each action into the model, by which the API checks calls."""
    pending = [model.get("Objects")]
    while pending:
        value: Json = pending.pop()
        if isinstance(value, list):
            pending.extend(cast("list[Json]", value))
        elif isinstance(value, dict):
            node = cast("JsonObject", value)
            header = node.get("?")
            actions = header.get("_actions") if isinstance(header, dict) else None  # pyright: ignore
            if actions:
                item = session.find(str(node["?"].get("id")))
                if item is not None:
                    known = session.runtime.action_arguments(item.type)
                    for details in cast("JsonObject", actions).values():
                        if details.get("name") in known:
                            details["arguments"] = {**known[details["name"]]}
            pending.extend(node.values())


def keep_what_is_left(reply: TaskReply, left: dict[str, str]) -> None:
    """Fail a deletion when a stack could not be removed: an error in a `.destroy` is only a
    warning, and an environment whose machines still run must not be forgotten."""
    if left and not reply.is_exception:
        reply.is_exception = True
        reply.stage = "<destroy>"
        reply.message = "; ".join(
            f"The stack {name} could not be deleted: {why}" for name, why in sorted(left.items())
        )
        reply.details = "Remove the cause, then delete the environment again."


def limit_result(reply: TaskReply, limit_bytes: int) -> None:
    """Replace a result that is too large to store with a failure (catalog-api.md §5.6)."""
    if reply.is_exception or reply.result is None:
        return
    said = too_large(reply.result, limit_bytes)
    if said:
        reply.is_exception = True
        reply.stage = "<result>"
        reply.message = f"The result has {said}; engine.action_result_limit is {limit_bytes}"


def too_large(value: object, limit_bytes: int) -> str:
    """The size of a value as JSON when it is above the limit, else an empty text."""
    if exceeds(value, limit_bytes):
        return f"more than {limit_bytes} bytes"
    size = len(json.dumps(value))
    return f"{size} bytes" if size > limit_bytes else ""


def limit_model(model: JsonObject, limit_bytes: int) -> None:
    """Refuse objects that are too large to be stored. Errors: ``OverLimit`` naming the largest."""
    objects: JsonObject = model.get("Objects") or {}
    said = too_large(objects, limit_bytes)
    if said:
        largest = ""
        services: object = objects.get("applications") or []
        for one in cast("list[JsonObject]", services):
            if exceeds(one, limit_bytes // 2):
                header = one.get("?", {})
                largest = f"; most of it is {header.get('name') or header.get('id')}"
        raise OverLimit(
            f"The objects of the environment have {said}{largest}; engine.model_limit is {limit_bytes}"
        )


def to_result(task: EngineTask, reply: TaskReply, cover: Cover) -> TaskResult:
    """The result to store: the model after the run and, of a failure, the message and the trace.

    Secrets in a failure are masked (``cover``); the value that an action returns is not masked.
    """
    result = reply.result
    if reply.is_exception:
        # Mask first, then shorten: a secret that is cut in two would not be recognised.
        details = None if reply.details is None else shortened(cover(reply.details))
        result = {"message": shortened(cover(reply.message or "")), "details": details}
    leaked = tuple(
        LeakedObject(one.object_id, one.type_name, one.name, shortened(cover(one.message)))
        for one in reply.leaks
    )
    model = stored_model(reply, task.model)
    return TaskResult(model, result, reply.is_exception, leaked=leaked)


def stored_model(reply: TaskReply, given: dict[str, object]) -> dict[str, object]:
    """The model to store: ``ObjectsCopy`` is the model after this run (catalog-api.md §8).

    The next run compares with the copy: it finds the objects that a user has removed and the
    changed values that only the program may set. The reply's own copy is from before the action:
    with it the next run would undo the changes of this one. A successful deletion leaves no
    objects; a failed one keeps the objects it was ``given``, because some of them may still have to
    be removed.
    """
    model = dict(reply.model)
    if given.get("Objects") is None:
        model["Objects"] = None
        model["ObjectsCopy"] = given.get("ObjectsCopy") if reply.is_exception else None
    elif reply.stage not in UNTOUCHED and model.get("Objects") is not None:
        model["ObjectsCopy"] = model["Objects"]
    return model
