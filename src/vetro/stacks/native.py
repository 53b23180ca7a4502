"""The native back end: stacks on the project's own compute service."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import structlog

from vetro.stacks.changes import decide
from vetro.stacks.compute_port import ComputePort
from vetro.stacks.errors import OperationLost, StackExists, StackNotFound
from vetro.stacks.evaluation import Evaluation
from vetro.stacks.flavors import DEFAULT_FLAVORS, Flavor
from vetro.stacks.functions import Unknown
from vetro.stacks.model import (
    Change,
    ChangeKind,
    ProgressCallback,
    Stack,
    StackPlan,
    StackStatus,
)
from vetro.stacks.operation import Failure, Operation, describe
from vetro.stacks.owner import process_owner
from vetro.stacks.records import Hold, ResourceRow, StackRow, StackStore
from vetro.stacks.resources import resource_type
from vetro.stacks.resources.base import ResourceContext
from vetro.stacks.store import DatabaseStore
from vetro.stacks.templates import Template, parse
from vetro.storage import Database

Json = Any
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSettings:
    """Settings of the native back end. Times in seconds."""

    flavors: Mapping[str, Flavor] = field(default_factory=lambda: dict(DEFAULT_FLAVORS))
    hold_seconds: float = 30.0
    """How long after a process was last heard of its operation may be taken over by another
    machine's (on the same machine a dead process is recognised at once)."""
    waiting_seconds: float = 1.0
    """How often `waiting_on` is written while an operation runs."""


class StackEngine:
    """`Stacks` over any store and compute service."""

    def __init__(
        self,
        store: StackStore,
        compute: ComputePort,
        *,
        settings: NativeSettings | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._compute = compute
        self._settings = settings or NativeSettings()
        self._now = now

    async def get(self, project_id: str, name: str) -> Stack | None:
        """The stack, or None."""
        row = await self._store.find(project_id, name)
        return None if row is None else row.snapshot()

    async def create(
        self,
        project_id: str,
        name: str,
        template: Mapping[str, Json],
        *,
        parameters: Mapping[str, Json] | None = None,
        files: Mapping[str, str] | None = None,
        environment: str | None = None,
        tags: Sequence[str] = (),
        rollback: bool = False,
        timeout: float | None = None,
        progress: ProgressCallback | None = None,
    ) -> Stack:
        """Create a stack; see `Stacks.create`."""
        parsed = check(template, parameters=parameters, files=files, environment=environment)
        row = StackRow(
            id=str(uuid.uuid4()),
            project_id=project_id,
            name=name,
            status=StackStatus.CREATE_IN_PROGRESS,
            template=dict(template),
            parameters=dict(parameters or {}),
            files=dict(files or {}),
            environment=environment,
            tags=list(tags),
            created=self._now(),
        )
        if await self._store.find(project_id, name) is not None:
            raise StackExists(name)
        hold = await self._store.create(row, process_owner(), self._settings.hold_seconds)
        async with self._working(hold, row, "CREATE", progress) as operation:
            outputs = await self._converge(operation, parsed, timeout)
            if operation.failure is None:
                await self._settle(hold, StackStatus.CREATE_COMPLETE, "", outputs)
            elif rollback:
                await self._roll_back_create(hold, row, operation.failure, progress)
            else:
                await self._settle(hold, StackStatus.CREATE_FAILED, _failed(operation.failure), {})
        return await self._snapshot(project_id, name)

    async def update(
        self,
        project_id: str,
        name: str,
        template: Mapping[str, Json],
        *,
        parameters: Mapping[str, Json] | None = None,
        files: Mapping[str, str] | None = None,
        environment: str | None = None,
        tags: Sequence[str] = (),
        rollback: bool = False,
        timeout: float | None = None,
        progress: ProgressCallback | None = None,
    ) -> Stack:
        """Change a stack; see `Stacks.update`."""
        parsed = check(template, parameters=parameters, files=files, environment=environment)
        found = await self._store.find(project_id, name)
        if found is None:
            raise StackNotFound(name)
        given = {
            "template": dict(template),
            "parameters": dict(parameters or {}),
            "files": dict(files or {}),
            "environment": environment,
        }
        former = {key: getattr(found, key) for key in given}
        hold = await self._take(
            found, {"status": StackStatus.UPDATE_IN_PROGRESS, "tags": list(tags), **given}
        )
        row = await self._reread(project_id, name)
        async with self._working(hold, row, "UPDATE", progress) as operation:
            outputs = await self._converge(operation, parsed, timeout)
            if operation.failure is None:
                await self._settle(hold, StackStatus.UPDATE_COMPLETE, "", outputs)
            elif rollback:
                await self._roll_back_update(hold, row, former, operation.failure, progress)
            else:
                await self._settle(
                    hold, StackStatus.UPDATE_FAILED, _failed(operation.failure), None
                )
        return await self._snapshot(project_id, name)

    async def delete(
        self, project_id: str, name: str, *, progress: ProgressCallback | None = None
    ) -> Stack | None:
        """Remove a stack; see `Stacks.delete`. Needs nothing but the database and the service."""
        found = await self._store.find(project_id, name)
        if found is None:
            return None
        hold = await self._take(found, {"status": StackStatus.DELETE_IN_PROGRESS})
        row = await self._reread(project_id, name)
        async with self._working(hold, row, "DELETE", progress) as operation:
            await operation.remove_all()
            if operation.failure is None:
                await self._store.remove(hold)
                return None
            await self._settle(hold, StackStatus.DELETE_FAILED, _failed(operation.failure), None)
        return await self._snapshot(project_id, name)

    async def plan(
        self,
        project_id: str,
        name: str,
        template: Mapping[str, Json],
        *,
        parameters: Mapping[str, Json] | None = None,
        files: Mapping[str, str] | None = None,
        environment: str | None = None,
    ) -> StackPlan:
        """What create or update would do; touches nothing."""
        parsed = check(template, parameters=parameters, files=files, environment=environment)
        row = await self._store.find(project_id, name)
        planner = _Planner(parsed, row, project_id, name, self._compute, self._settings)
        return StackPlan(row is not None, await planner.changes())

    # --- inside ------------------------------------------------------------------------

    async def _converge(
        self, operation: Operation, template: Template, timeout: float | None
    ) -> dict[str, Json]:
        try:
            async with asyncio.timeout(timeout):
                return await operation.converge(template)
        except TimeoutError:
            waited = operation.waiting_on or "nothing"
            operation.failure = operation.failure or Failure(
                "", f"The operation did not end within {timeout:g} s; it waited on {waited}"
            )
            return {}

    async def _roll_back_create(
        self, hold: Hold, row: StackRow, failure: Failure, progress: ProgressCallback | None
    ) -> None:
        await self._store.change(hold, {"status": StackStatus.ROLLBACK_IN_PROGRESS})
        operation = self._operation(hold, row, progress)
        await operation.remove_all()
        if operation.failure is None:
            await self._settle(hold, StackStatus.ROLLBACK_COMPLETE, _failed(failure), {})
        else:
            reason = f"{_failed(failure)}; undoing it failed: {_failed(operation.failure)}"
            await self._settle(hold, StackStatus.ROLLBACK_FAILED, reason, {})

    async def _roll_back_update(
        self,
        hold: Hold,
        row: StackRow,
        former: Mapping[str, Any],
        failure: Failure,
        progress: ProgressCallback | None,
    ) -> None:
        await self._store.change(hold, {"status": StackStatus.ROLLBACK_IN_PROGRESS, **former})
        operation = self._operation(hold, row, progress)
        parsed = check(
            former["template"],
            parameters=former["parameters"],
            files=former["files"],
            environment=former["environment"],
        )
        outputs = await operation.converge(parsed)
        if operation.failure is None:
            await self._settle(hold, StackStatus.ROLLBACK_COMPLETE, _failed(failure), outputs)
        else:
            reason = f"{_failed(failure)}; going back failed: {_failed(operation.failure)}"
            await self._settle(hold, StackStatus.ROLLBACK_FAILED, reason, None)

    def _operation(self, hold: Hold, row: StackRow, progress: ProgressCallback | None) -> Operation:
        return Operation(
            store=self._store,
            compute=self._compute,
            flavors=self._settings.flavors,
            hold=hold,
            stack=row,
            progress=progress,
        )

    @asynccontextmanager
    async def _working(
        self, hold: Hold, row: StackRow, action: str, progress: ProgressCallback | None
    ) -> AsyncGenerator[Operation]:
        """An operation whose hold is renewed as long as the block runs.

        When the hold is lost the block is cancelled and `OperationLost` raised. When the block is
        cancelled from outside, the stack says so instead of staying in progress.
        """
        operation = self._operation(hold, row, progress)
        worker = asyncio.current_task()
        over = asyncio.Event()
        lost = False

        async def keep() -> None:
            nonlocal lost
            try:
                await self._keep(hold, operation, over)
            except OperationLost:
                lost = True
                if worker is not None:
                    worker.cancel()

        keeper = asyncio.create_task(keep(), name=f"stack {hold.name}")
        try:
            yield operation
        except asyncio.CancelledError:
            if lost:
                if worker is not None:
                    worker.uncancel()
                raise OperationLost(hold.name) from None
            await self._interrupted(hold, action, "The operation was cancelled before it was done")
            raise
        except OperationLost:
            raise
        except Exception as error:
            await self._interrupted(hold, action, f"The operation broke off: {describe(error)}")
            raise
        finally:
            over.set()
            await asyncio.gather(keeper, return_exceptions=True)

    async def _keep(self, hold: Hold, operation: Operation, over: asyncio.Event) -> None:
        """Renew the hold and write down what the operation waits on, until it is over."""
        said: str | None = None
        waited = 0.0
        while True:
            try:
                async with asyncio.timeout(self._settings.waiting_seconds):
                    await over.wait()
                return
            except TimeoutError:
                waited += self._settings.waiting_seconds
            if operation.waiting_on != said:
                said = operation.waiting_on
                await self._store.change(hold, {"waiting_on": said})
            if waited >= self._settings.hold_seconds / 3:
                waited = 0.0
                await self._store.renew(hold, self._settings.hold_seconds)

    async def _interrupted(self, hold: Hold, action: str, reason: str) -> None:
        """Say so in the stack, instead of leaving it in progress."""
        try:
            await self._store.settle(
                hold,
                {
                    "status": StackStatus(f"{action}_FAILED"),
                    "reason": reason,
                    "updated": self._now(),
                },
            )
        except OperationLost:
            _log.warning("operation_lost", stack=hold.name)

    async def _take(self, found: StackRow, values: Mapping[str, Any]) -> Hold:
        return await self._store.take(
            found.id,
            found.name,
            {"reason": "", **values},
            process_owner(),
            self._settings.hold_seconds,
        )

    async def _reread(self, project_id: str, name: str) -> StackRow:
        row = await self._store.find(project_id, name)
        if row is None:
            raise StackNotFound(name)
        return row

    async def _settle(
        self, hold: Hold, status: StackStatus, reason: str, outputs: dict[str, Json] | None
    ) -> None:
        values: dict[str, Any] = {"status": status, "reason": reason, "updated": self._now()}
        if outputs is not None:
            values["outputs"] = outputs
        await self._store.settle(hold, values)

    async def _snapshot(self, project_id: str, name: str) -> Stack:
        return (await self._reread(project_id, name)).snapshot()


def check(
    template: Mapping[str, Json],
    *,
    parameters: Mapping[str, Json] | None = None,
    files: Mapping[str, str] | None = None,
    environment: str | None = None,
) -> Template:
    """Parse and validate a template for this back end. Raises `TemplateError`."""
    parsed = parse(template, parameters=parameters, files=files, environment=environment)
    for definition in parsed.resources.values():
        kind = resource_type(definition.type, definition.name)
        kind.check(definition.name, definition.properties)
    used = [ref for one in parsed.resources.values() for ref in one.references]
    used += [ref for one in parsed.outputs.values() for ref in one.references]
    for reference in used:
        if reference.kind == "attribute":
            target = parsed.resources[reference.name]
            resource_type(target.type, target.name).check_attribute(
                reference.name, str(reference.path[0])
            )
    return parsed


def _failed(failure: Failure) -> str:
    if not failure.resource:
        return failure.text
    return f"Resource {failure.resource!r} failed: {failure.text}"


class _Planner:
    """Decides for every resource as an operation would, with placeholders for what is unknown."""

    def __init__(
        self,
        template: Template,
        row: StackRow | None,
        project_id: str,
        name: str,
        compute: ComputePort,
        settings: NativeSettings,
    ) -> None:
        self._template = template
        self._row = row
        self._project_id = project_id
        self._name = name
        self._compute = compute
        self._settings = settings
        self._rows = {one.name: one for one in row.resources if one.current} if row else {}
        self._new: set[str] = set()

    async def changes(self) -> list[Change]:
        evaluation = Evaluation(
            self._template,
            stack_id=self._row.id if self._row else "",
            stack_name=self._name,
            project_id=self._project_id,
            reference=self._reference,
            attribute=self._attribute,
        )
        result: list[Change] = []
        for name in self._template.order:
            wanted = self._template.resources[name]
            kind = resource_type(wanted.type, name)
            properties = await evaluation.value(wanted.properties, wanted.references)
            decision = decide(self._rows.get(name), wanted.type, kind, properties)
            if decision.kind in (ChangeKind.CREATE, ChangeKind.REPLACE):
                self._new.add(name)
            result.append(
                Change(
                    name,
                    wanted.type,
                    decision.kind,
                    decision.reason,
                    tuple(sorted(decision.changed)),
                )
            )
        gone = [one for one in self._rows.values() if one.name not in self._template.resources]
        result.extend(
            Change(one.name, one.type, ChangeKind.DELETE, "it is not in the template")
            for one in gone
        )
        return result

    def _reference(self, name: str) -> Json:
        if name in self._new:
            return Unknown(name)
        row = self._rows[name]
        return resource_type(row.type, name).reference(self._context(row))

    async def _attribute(self, name: str, attribute: str) -> Json:
        if name in self._new:
            return Unknown(name)
        row = self._rows[name]
        kind = resource_type(row.type, name)
        return await kind.attribute(self._context(row), row.properties, attribute)

    def _context(self, row: ResourceRow) -> ResourceContext:
        async def no_text(_physical_id: str) -> str | None:
            return None

        async def no_saving(_data: dict[str, Json]) -> None:
            raise AssertionError("planning changes nothing")

        return ResourceContext(
            project_id=self._project_id,
            stack_id=self._row.id if self._row else "",
            stack_name=self._name,
            name=row.name,
            physical_id=row.physical_id,
            compute=self._compute,
            flavors=self._settings.flavors,
            config_text=no_text,
            save=no_saving,
            data=row.data,
        )


class NativeStacks(StackEngine):
    """Stacks on the project's own compute service, kept in the database.

    `compute` is a `ComputePort`; `vetro.stacks.compute_adapter.adapt(client)` makes one of a
    `ComputeClient`.
    """

    def __init__(
        self, db: Database, compute: ComputePort, *, settings: NativeSettings | None = None
    ) -> None:
        super().__init__(DatabaseStore(db), compute, settings=settings, now=db.clock.now)
