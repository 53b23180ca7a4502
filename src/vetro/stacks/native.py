"""The native back end: stacks on the project's own compute service."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from vetro.stacks.compute_service.port import LOAD_BALANCERS, ComputePort
from vetro.stacks.compute_service.snapshot import snapshot_of
from vetro.stacks.doors import Doors
from vetro.stacks.errors import (
    InvalidProperty,
    ResourceFailure,
    StackBusy,
    StackExists,
    StackNotFound,
    UnsupportedResource,
)
from vetro.stacks.flavors import DEFAULT_FLAVORS, Flavor
from vetro.stacks.losses import Loss, LossRefused, unnamed
from vetro.stacks.model import (
    Json,
    ProgressCallback,
    Stack,
    StackFailure,
    StackPlan,
    StackStatus,
    TemplateOptions,
    WorkOptions,
)
from vetro.stacks.operations.altered import altered
from vetro.stacks.operations.constraints import check_constraints
from vetro.stacks.operations.hold import Work, within
from vetro.stacks.operations.losing import Losses
from vetro.stacks.operations.operation import Operation
from vetro.stacks.operations.planning import Planner
from vetro.stacks.resources import resource_type
from vetro.stacks.resources.base import as_static
from vetro.stacks.state.records import Hold, StackRow, StackStore, process_owner
from vetro.stacks.template.balancers import BALANCING, FLAVOR, IMAGE
from vetro.stacks.template.families import check_floating
from vetro.stacks.template.functions import function_of
from vetro.stacks.template.known_values import KnownValues
from vetro.stacks.template.templates import ResourceDefinition, Template, parse

if TYPE_CHECKING:
    from vetro.compute.client import ComputeClient
    from vetro.storage import Database

_WHOLE = ("template", "parameters", "files", "environment")
"""What a stack was made of; `head` leaves it out."""

SERVER_TYPES = ("OS::Nova::Server", "AWS::EC2::Instance")
FLOATING_TYPES = ("OS::Neutron::FloatingIP", "OS::Neutron::FloatingIPAssociation")
DEPLOYMENT_TYPES = ("OS::Heat::SoftwareDeployment", "OS::Heat::StructuredDeployment")
LOST_STATES = ("stopped", "failed", "destroyed", "incomplete", "missing")
"""States of a server that does not come back by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSettings:
    """Settings of the native back end. Times in seconds."""

    flavors: Mapping[str, Flavor] = field(default_factory=lambda: dict(DEFAULT_FLAVORS))
    hold_seconds: float = 30.0
    """How long after the last sign of life of a process its operation may be taken over by another
    machine's (on the same machine a dead process is recognised at once)."""
    balancer_image: str = IMAGE
    """The image of load balancers, by name or uuid: it has HAProxy and what the guest agent needs."""
    balancer_flavor: str = FLAVOR
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
        doors: Doors | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._doors = doors or Doors()
        self._compute = compute
        self._settings = settings or NativeSettings()
        self._now = now

    async def offers(self) -> frozenset[str]:
        """The optional parts of the compute service that templates may use now."""
        return (await self._doors.offered(self._compute)).parts

    async def get(self, project_id: str, name: str) -> Stack | None:
        """The stack, or None."""
        row = await self._store.find(project_id, name)
        return None if row is None else row.snapshot()

    async def head(self, project_id: str, name: str) -> Stack | None:
        """State and outputs; see `Stacks.head`."""
        row = await self._store.head(project_id, name)
        return None if row is None else row.snapshot()

    async def lost(self, project_id: str, name: str) -> list[str]:
        """See `Stacks.lost`."""
        row = await self._store.find(project_id, name)
        lost: list[str] = []
        for one in [] if row is None else row.resources:
            if one.type not in SERVER_TYPES or not one.physical_id or one.status.in_progress:
                continue
            server = await self._compute.server(one.physical_id)
            if server is None or server.state in LOST_STATES:
                lost.append(one.name)
        return lost

    async def incarnations(self, project_id: str, name: str) -> dict[str, str]:
        """See `KnowsIncarnations`."""
        row = await self._store.find(project_id, name)
        servers = {
            one.name: one.physical_id
            for one in ([] if row is None else row.resources)
            if one.type in SERVER_TYPES and one.current and one.physical_id
        }
        known = await self._compute.incarnations(project_id) if servers else {}
        return {one: known[uuid] for one, uuid in servers.items() if uuid in known}

    async def altered(self, project_id: str, name: str) -> list[str]:
        """See `KnowsAlterations`."""
        row = await self._store.find(project_id, name)
        return [] if row is None else await altered(row, self._compute, self._settings.flavors)

    async def create(
        self,
        project_id: str,
        name: str,
        template: Mapping[str, Json],
        **options: Unpack[WorkOptions],
    ) -> Stack:
        """Create a stack; see `Stacks.create`."""
        whole = _whole(template, options)
        parsed = await self._check(**whole)
        await self._check_named(project_id, parsed)
        await self._check_balancers(parsed, None)
        row = StackRow(
            id=str(uuid.uuid4()),
            project_id=project_id,
            name=name,
            status=StackStatus.CREATE_IN_PROGRESS,
            tags=list(options.get("tags", ())),
            created=self._now(),
            **whole,
        )
        if await self._store.find(project_id, name) is not None:
            raise StackExists(name)

        async def made(_hold: Hold) -> StackRow:
            return row

        def take() -> Coroutine[Any, Any, Hold]:
            return self._store.create(row, process_owner(), self._settings.hold_seconds)

        async with self._work(take, made, "CREATE", options.get("progress")) as work:
            outputs = await self._converge(work, parsed, options.get("timeout"))
            failure = work.operation.failure
            if failure is None:
                await work.settle(StackStatus.CREATE_COMPLETE, "", outputs)
            elif options.get("rollback"):
                await self._roll_back(work, failure, {})
            else:
                await work.settle(StackStatus.CREATE_FAILED, _failed(failure), {})
        return await self._snapshot(row, failure)

    async def update(
        self,
        project_id: str,
        name: str,
        template: Mapping[str, Json],
        **options: Unpack[WorkOptions],
    ) -> Stack:
        """Change a stack; see `Stacks.update`."""
        whole = _whole(template, options)
        parsed = await self._check(**whole)
        found = await self._store.find(project_id, name)
        if found is None:
            raise StackNotFound(name)
        await self._check_named(project_id, parsed)
        await self._check_balancers(parsed, found)
        may_lose = options.get("may_lose")
        await self._guard(found, may_lose, parsed)
        former = {key: getattr(found, key) for key in whole}
        tags = list(options.get("tags", ()))
        changes = {"status": StackStatus.UPDATE_IN_PROGRESS, "tags": tags, **whole}
        progress = options.get("progress")
        async with self._work_on(found, changes, "UPDATE", progress, may_lose) as work:
            outputs = await self._converge(work, parsed, options.get("timeout"))
            refused, warnings = work.operation.refused, work.operation.warnings
            failure = work.operation.failure
            if failure is None:
                await work.settle(StackStatus.UPDATE_COMPLETE, "", outputs)
            elif options.get("rollback"):
                await self._roll_back(work, failure, former)
                for key, value in former.items():
                    setattr(work.stack, key, value)
            else:
                await work.settle(StackStatus.UPDATE_FAILED, _failed(failure), None)
        if refused is not None:
            raise refused
        done = await self._snapshot(work.stack, failure)
        return replace(done, warnings=warnings)

    async def delete(
        self,
        project_id: str,
        name: str,
        *,
        progress: ProgressCallback | None = None,
        may_lose: Collection[str] | None = None,
    ) -> Stack | None:
        """Remove a stack; see `Stacks.delete`. Needs nothing but the database and the service."""
        found = await self._store.find(project_id, name)
        if found is None:
            return None
        await self._guard(found, may_lose, None)
        changes = {"status": StackStatus.DELETE_IN_PROGRESS}
        async with self._work_on(found, changes, "DELETE", progress, may_lose) as work:
            await work.operation.remove_all()
            failure = work.operation.failure
            if failure is None:
                await work.remove()
                return None
            await work.settle(StackStatus.DELETE_FAILED, _failed(failure), None)
        return await self._snapshot(work.stack, failure)

    async def would_lose(
        self, project_id: str, name: str, resources: Collection[str]
    ) -> list[Loss]:
        """See `Stacks.would_lose`."""
        found = await self._store.find(project_id, name)
        return [] if found is None else await self._losses(found).of_removal(resources)

    async def would_lose_with(
        self, project_id: str, name: str, template: Mapping[str, Json]
    ) -> list[Loss]:
        """See `Stacks.would_lose_with`."""
        found = await self._store.find(project_id, name)
        if found is None:
            return []
        parsed = await self._check(
            template,
            parameters=found.parameters,
            files=found.files,
            environment=found.environment,
        )
        return await self._lost_by(found, parsed)

    async def plan(
        self,
        project_id: str,
        name: str,
        template: Mapping[str, Json],
        **options: Unpack[TemplateOptions],
    ) -> StackPlan:
        """What create or update would do; touches nothing."""
        parsed = await self._check(template, **options)
        await self._check_named(project_id, parsed)
        row = await self._store.find(project_id, name)
        await self._check_balancers(parsed, row)
        planner = Planner(
            parsed, row, project_id, name, self._compute, self._doors, self._settings.flavors
        )
        return StackPlan(
            row is not None, await planner.changes(await self.altered(project_id, name))
        )

    # --- inside ------------------------------------------------------------------------

    async def _guard(
        self, found: StackRow, may_lose: Collection[str] | None, wanted: Template | None
    ) -> None:
        """Raises `LossRefused` when an operation towards `wanted` would lose what may not be lost.

        None: the operation removes the stack. Raises `StackBusy` while another operation goes on: what
        that one leaves is not known yet.
        """
        if may_lose is None:
            return
        lost = (
            await self._losses(found).of_all()
            if wanted is None
            else await self._lost_by(found, wanted)
        )
        refused = unnamed(lost, may_lose)
        if refused:
            raise LossRefused(found.name, refused)

    async def _lost_by(self, found: StackRow, wanted: Template) -> list[Loss]:
        """What an update to `wanted` would lose. Raises `StackBusy`."""
        losses = self._losses(found)
        planner = Planner(
            wanted,
            found,
            found.project_id,
            found.name,
            snapshot_of(self._compute, found.project_id),
            self._doors,
            self._settings.flavors,
            forgiving=True,  # the operation says what is wrong with it
        )
        return await losses.of_plan(await planner.planned())

    def _losses(self, found: StackRow) -> Losses:
        if found.status.in_progress:
            raise StackBusy(found.name, found.status.value)
        return Losses(self._compute, found)

    async def _check(
        self, template: Mapping[str, Json], **options: Unpack[TemplateOptions]
    ) -> Template:
        parsed = check(template, settings=self._settings, **options)
        wanting = [
            (kind, one)
            for one in parsed.resources.values()
            if (kind := resource_type(one.type, one.name)).wants(one.properties)
        ]
        if wanting:
            offers = await self._doors.offered(self._compute)
            for kind, one in wanting:
                kind.check_needs(one.name, one.properties, offers)
        return parsed

    async def _check_named(self, project_id: str, parsed: Template) -> None:
        """Raises `TemplateError` when there is not what parameters name (their custom constraints)."""
        await check_constraints(parsed, project_id, self._compute, self._settings.flavors)

    async def lacks_balancers(self) -> str | None:
        """Why no stack can have a load balancer now; ``None`` when it can."""
        missing = (await self._doors.offered(self._compute)).lacks(LOAD_BALANCERS)
        return missing or await self._lacks_balancer_image()

    async def _lacks_balancer_image(self) -> str | None:
        try:
            await self._compute.image("", self._settings.balancer_image)
        except ResourceFailure as error:
            return (
                f"load balancers run on an image with HAProxy. {error}. Build it (docs/stacks.md) or name"
                " another in the setting engine.balancer_image"
            )
        return None

    async def _check_balancers(self, parsed: Template, row: StackRow | None) -> None:
        """Raises `UnsupportedResource` when a new load balancer's server would have no image; one that is
        there keeps its own."""
        made = {one.name for one in row.resources} if row is not None else set[str]()
        _keep_balancers(parsed, row)
        for one in parsed.resources.values():
            if one.type == BALANCING and one.name not in made:
                missing = await self._lacks_balancer_image()
                if missing:
                    raise UnsupportedResource(missing, resource=one.name)

    async def _converge(
        self, work: Work, template: Template, timeout: float | None
    ) -> dict[str, Json]:
        converging = asyncio.ensure_future(work.operation.converge(template))
        return await within(work.operation, converging, timeout)

    async def _roll_back(
        self, work: Work, failure: StackFailure, former: Mapping[str, Any]
    ) -> None:
        """Return to what the stack was made of before; a creation's was nothing."""
        work.renew_operation()
        await work.change({"status": StackStatus.ROLLBACK_IN_PROGRESS, **former})
        outputs: dict[str, Json] = {}
        if former:
            parsed = await self._check(**former)
            _keep_balancers(parsed, work.stack)
            outputs = await work.operation.converge(parsed)
        else:
            await work.operation.remove_all()
        second = work.operation.failure
        if second is None:
            await work.settle(StackStatus.ROLLBACK_COMPLETE, _failed(failure), outputs)
        else:
            reason = f"{_failed(failure)}; rolling back failed: {_failed(second)}"
            await work.settle(StackStatus.ROLLBACK_FAILED, reason, None if former else {})

    def _work(
        self,
        take: Callable[[], Coroutine[Any, Any, Hold]],
        stack_of: Callable[[Hold], Awaitable[StackRow]],
        action: str,
        progress: ProgressCallback | None,
        may_lose: Collection[str] | None = None,
    ) -> Work:
        def operation_of(hold: Hold, stack: StackRow) -> Operation:
            return Operation(
                store=self._store,
                compute=self._compute,
                doors=self._doors,
                flavors=self._settings.flavors,
                hold=hold,
                stack=stack,
                progress=progress,
                may_lose=may_lose,
            )

        return Work(
            self._store,
            take,
            stack_of,
            operation_of,
            action=action,
            hold_seconds=self._settings.hold_seconds,
            waiting_seconds=self._settings.waiting_seconds,
            now=self._now,
        )

    def _work_on(
        self,
        found: StackRow,
        values: Mapping[str, object],
        action: str,
        progress: ProgressCallback | None,
        may_lose: Collection[str] | None,
    ) -> Work:
        """Work on a stack that there is: it is held and changed, and then read as it is.

        A guarded operation begins only on the stack that was judged: another one since is `StackBusy`.
        """
        changes = {"reason": "", **values}
        fence = None if may_lose is None else found.fence

        def take() -> Coroutine[Any, Any, Hold]:
            seconds = self._settings.hold_seconds
            return self._store.take(
                found.id, found.name, changes, process_owner(), seconds, fence=fence
            )

        async def stack_of(hold: Hold) -> StackRow:
            if found.owner is None and hold.fence == found.fence + 1:
                # It was not held when it was read, nor since: its resources are still as read.
                for key, value in changes.items():
                    setattr(found, key, value)
                return found
            row = await self._store.find(found.project_id, found.name)
            if row is None:
                raise StackNotFound(found.name)
            return row

        return self._work(take, stack_of, action, progress, may_lose)

    async def _snapshot(self, row: StackRow, failure: StackFailure | None) -> Stack:
        """The stack after an operation on `row`, which knows all that the operation has changed."""
        head = await self._store.head(row.project_id, row.name)
        if head is None:
            raise StackNotFound(row.name)
        for key in (*_WHOLE, "resources"):
            setattr(head, key, getattr(row, key))
        stack = head.snapshot()
        return stack if failure is None else replace(stack, failure=failure)


def _keep_balancers(parsed: Template, row: StackRow | None) -> None:
    """Balancers run on what they were made of, whatever the settings name today."""
    servers = {
        one.name: one
        for one in (row.resources if row is not None else ())
        if one.current and one.status is not StackStatus.CREATE_FAILED
    }
    for one in parsed.resources.values():
        name = one.name.removesuffix(".balancing") + ".server"
        if one.type == BALANCING and name in servers:
            stored = servers[name].properties
            kept = {key: stored[key] for key in ("image", "flavor") if key in stored}
            parsed.resources[name].properties.update(kept)


def check(
    template: Mapping[str, Json],
    *,
    settings: NativeSettings | None = None,
    **options: Unpack[TemplateOptions],
) -> Template:
    """Parse and validate a template, whatever the service offers. Raises `TemplateError`."""
    known = settings or NativeSettings()
    balancer = (known.balancer_image, known.balancer_flavor)
    parsed = parse(template, balancer=balancer, **options)
    values = KnownValues(parsed)
    settled = {name: values.properties(one) for name, one in parsed.resources.items()}
    for name, definition in parsed.resources.items():
        resource_type(definition.type, name).check(name, settled[name])

    def properties_of(name: str) -> Mapping[str, Json]:
        return settled.get(name, {})

    for name, definition in parsed.resources.items():
        _check_deployment(definition, parsed)
        if definition.type in FLOATING_TYPES:
            check_floating(name, settled[name].get("port_id"), properties_of)
    used = [ref for one in parsed.resources.values() for ref in one.references]
    used += [ref for one in parsed.outputs.values() for ref in one.references]
    for reference in used:
        if reference.kind == "attribute":
            target = parsed.resources[reference.name]
            resource_type(target.type, target.name).check_attribute(
                reference.name, str(reference.path[0])
            )
    return parsed


def _check_deployment(definition: ResourceDefinition, parsed: Template) -> None:
    """Raises `InvalidProperty` when the server of a deployment has no agent that takes any."""
    if definition.type not in DEPLOYMENT_TYPES:
        return
    given = definition.properties.get("server")
    call = function_of(given)
    target = parsed.resources.get(str(call[1])) if call and call[0] == "get_resource" else None
    if target is None or target.type != "OS::Nova::Server":
        return
    wanted = as_static(target.properties.get("user_data_format", ""))
    if wanted is not None and wanted != "SOFTWARE_CONFIG":
        raise InvalidProperty(
            f"the server {target.name!r} has no agent for deployments: give it"
            " user_data_format: SOFTWARE_CONFIG",
            resource=definition.name,
        )


def _whole(template: Mapping[str, Json], options: TemplateOptions) -> dict[str, Json]:
    """What a stack is made of, as it is stored."""
    return {
        "template": dict(template),
        "parameters": dict(options.get("parameters") or {}),
        "files": dict(options.get("files") or {}),
        "environment": options.get("environment"),
    }


def _failed(failure: StackFailure) -> str:
    if not failure.resource:
        return failure.text
    return f"Resource {failure.resource!r} failed: {failure.text}"


class NativeStacks(StackEngine):
    """Stacks on the project's own compute service, kept in the database.

    `compute` is a `ComputeClient` (it stays the caller's to close) or any `ComputePort`.
    """

    def __init__(
        self,
        db: Database,
        compute: ComputeClient | ComputePort,
        *,
        settings: NativeSettings | None = None,
        doors: Doors | None = None,
    ) -> None:
        # Only here: the twin in memory needs neither a database nor a client.
        from vetro.stacks.compute_service.adapter import port_of
        from vetro.stacks.state.store import DatabaseStore

        super().__init__(
            DatabaseStore(db), port_of(compute), settings=settings, doors=doors, now=db.clock.now
        )
