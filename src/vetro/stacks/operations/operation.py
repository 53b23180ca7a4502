"""One operation on a stack: bring its resources to what a template wants, in parallel.

Work on a resource starts as soon as everything it requires is done. Each action is written to the
database before it is done (the row with the physical id that will be used), and its success
afterwards; so after a crash there is a row for everything that may exist. The first failure stops
new work; running work is completed.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Collection, Coroutine, Mapping, Set
from dataclasses import dataclass
from typing import Any

import structlog

from vetro.stacks.compute_service.port import ComputePort
from vetro.stacks.compute_service.snapshot import snapshot_of
from vetro.stacks.doors import Doors
from vetro.stacks.errors import OperationLost, ResourceFailure, StackError
from vetro.stacks.flavors import Flavor
from vetro.stacks.losses import LossRefused, unnamed
from vetro.stacks.model import ChangeKind, Json, ProgressCallback, StackFailure, StackStatus
from vetro.stacks.operations.attached_volumes import AttachedVolumes
from vetro.stacks.operations.changes import Decision, decide, judge
from vetro.stacks.operations.losing import Losses
from vetro.stacks.operations.room import KEPT, NOTHING_CHANGED, Room
from vetro.stacks.operations.wholly import stop
from vetro.stacks.resources import resource_type
from vetro.stacks.resources.base import (
    PlacementGroup,
    Relation,
    ResourceContext,
    ResourceType,
    entries,
    hidden,
    unknown_in,
)
from vetro.stacks.resources.machines import Machine
from vetro.stacks.state.records import Hold, ResourceRow, StackRow, StackStore
from vetro.stacks.template import dependencies as graph
from vetro.stacks.template.evaluation import Evaluation
from vetro.stacks.template.functions import Unknown
from vetro.stacks.template.templates import ResourceDefinition, Template

_log = structlog.get_logger(__name__)
_AT_ONCE = 64
_OUTPUTS_AT_ONCE = 8
_BEFORE_OTHERS = 200
"""Resources that are compared before other tasks of the process have their turn."""


class _Undeletable(ResourceFailure):
    """A resource could not be removed; the cause says why."""


@dataclass(kw_only=True, eq=False, repr=False)
class Operation:
    """Works on one stack under a hold."""

    store: StackStore
    compute: ComputePort
    doors: Doors
    flavors: Mapping[str, Flavor]
    hold: Hold
    stack: StackRow
    progress: ProgressCallback | None
    may_lose: Collection[str] | None = None
    """See `WorkOptions`. What goes is refused before; this keeps what only now turns out to be replaced."""

    def __post_init__(self) -> None:
        self._waiting: dict[str, str] = {}
        self._rows = {row.name: row for row in self.stack.resources if row.current}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._group_locks: dict[str, asyncio.Lock] = {}
        self._wanted: frozenset[str] = frozenset()
        self._left: list[ResourceRow] = []
        self._going: set[str] = set()
        self._attached: AttachedVolumes | None = None
        self._failed = asyncio.Event()
        self.failure: StackFailure | None = None
        """The first thing that went wrong."""
        self.warnings: list[str] = []
        """What somebody had taken and could not be put back wholly, in words."""
        self.refused: LossRefused | None = None
        """What would have been lost, if that is what went wrong."""

    @property
    def waiting_on(self) -> str | None:
        """What the operation waits for now, resource by resource."""
        if not self._waiting:
            return None
        return "; ".join(f"{name}: {text}" for name, text in sorted(self._waiting.items()))

    # --- to a template -----------------------------------------------------------------

    async def converge(self, template: Template) -> dict[str, Json]:
        """Create, change and replace what `template` wants, then remove what it does not.

        Returns the outputs. `failure` says whether everything went well.
        """
        evaluation = self._evaluation(template)
        self._wanted = frozenset(template.resources)
        self._left = [row for row in self.stack.resources if not row.current]
        self._attached = AttachedVolumes(template, evaluation)
        await self._look(template)
        if self.failure is not None:
            return {}
        await self._release(template)
        kept = await self._keep(template, evaluation)
        restored = {name for name in kept if self._kind_of(name).restores}
        await self._each(
            {name: template.resources[name].requires & restored for name in restored},
            lambda name: self._restore(self._rows[name]),
        )
        await self._each(
            {
                name: one.requires | self._attached.made_first(name)
                for name, one in template.resources.items()
                if name not in kept
            },
            lambda name: self._bring(template.resources[name], evaluation),
            lambda name: resource_type(template.resources[name].type, name).waits,
        )
        if self.failure is None:
            for name, row in list(self._rows.items()):
                if name not in template.resources:
                    await self._abandon(row)
            await self._clean_up([row for row in self.stack.resources if not row.current])
        if self.failure is not None:
            return {}
        return await self._outputs(template, evaluation)

    async def remove_all(self) -> None:
        """Remove every resource that the stack has or may have."""
        await self._clean_up(list(self.stack.resources))

    def _evaluation(
        self, template: Template, reference: Callable[[str], Json] | None = None
    ) -> Evaluation:
        return Evaluation(
            template,
            stack_id=self.stack.id,
            stack_name=self.stack.name,
            project_id=self.stack.project_id,
            reference=reference or self._reference,
            attribute=self._attribute,
        )

    async def _look(self, template: Template) -> None:
        """Look at what the template's new resources name before a machine goes that makes way for them: what
        is not there ends the operation, and nothing is lost for it."""
        evaluation = self._evaluation(template, self._foreseen)
        machines = [row for row in self._rows.values() if self._kind_of(row.name).whole_first]
        if not any(self._goes(row, template, evaluation) for row in machines):
            return
        made = set(template.resources)
        for one in template.resources.values():
            with contextlib.suppress(StackError):  # its task will say so
                name = evaluation.known(one.properties.get("name"))
                made |= {name} if isinstance(name, str) else set[str]()
        # Of what is the stack's own nothing is looked for: another operation may not have made it yet.
        apart = self._evaluation(template, Unknown)
        context = self._context(ResourceRow(name="", type="", physical_id=""))
        seen: set[str] = set()

        async def look(name: str) -> None:
            kind = resource_type(template.resources[name].type, name)
            # What has its name from this template may be made, or get this name, before it is needed.
            known = apart.known(template.resources[name].properties)
            known = entries(hidden(known, made))
            like = repr([known.get(key) for keys in kind.named for key in keys])
            if like not in seen:
                seen.add(like)
                await kind.look(context, known)

        for name in template.order:
            row = self._rows.get(name)
            is_new = row is None or self._goes(row, template, evaluation)
            if is_new and self.failure is None:
                await self._guarded(name, look)
        await self._look_for_room(template, evaluation)

    async def _look_for_room(self, template: Template, evaluation: Evaluation) -> None:
        """Ask for room for all machines that are made, before others go for them: without it none goes."""
        made: dict[str, tuple[Machine, ResourceRow, dict[str, Json]]] = {}
        gone = [*self._released(template, evaluation)]
        gone += [row for row in self._left if row.name in template.resources]

        async def find(name: str) -> None:
            wanted, row = template.resources[name], self._rows.get(name)
            kind = resource_type(wanted.type, name)
            if not isinstance(kind, Machine):
                return
            with contextlib.suppress(StackError):  # its task will say so
                properties = evaluation.known(wanted.properties)
                decision = await judge(row, wanted.type, kind, properties, self._context)
                if row is None or _is_foreseen(decision, properties):
                    gone.extend([] if row is None else [row])
                    # Volumes that are attached to the machine that goes are to be attached to the new one.
                    there = "" if row is None else row.physical_id
                    made[name] = (
                        kind,
                        ResourceRow(name=name, type="", physical_id=there),
                        properties,
                    )

        for name in template.resources:
            await self._unless_failed(name, find)
        self._going = {row.physical_id for row in gone if _leaves_room(row)}
        if not self._going or self.failure is not None:
            return
        room = Room(self.compute, self._going, NOTHING_CHANGED)

        async def want(name: str) -> None:
            kind, row, properties = made[name]
            await room.want(name, kind, self._context(row), properties)

        for name in made:
            await self._unless_failed(name, want)
        for name in room.names():
            await self._unless_failed(name, room.take)

    async def _unless_failed(self, name: str, work: Callable[[str], Any]) -> None:
        if self.failure is None:
            await self._guarded(name, work)

    async def _look_for_room_again(
        self, row: ResourceRow, kind: ResourceType, properties: Mapping[str, Json]
    ) -> None:
        """The same for one machine just before it goes, with what was not known before.

        Raises `ResourceFailure`."""
        if isinstance(kind, Machine) and _leaves_room(row):
            room = Room(self.compute, {*self._going, row.physical_id}, KEPT)
            await room.want(row.name, kind, self._context(row), properties)
            for name in room.names():
                await room.take(name)

    def _goes(self, row: ResourceRow, template: Template, evaluation: Evaluation) -> bool:
        """Whether a resource leaves, or is replaced for a reason that is known before anything is made."""
        wanted = template.resources.get(row.name)
        if wanted is None:
            return True
        try:
            properties = evaluation.known(wanted.properties)
        except StackError:
            return False  # its task will say so
        decision = decide(row, wanted.type, resource_type(wanted.type, row.name), properties)
        return _is_foreseen(decision, properties)

    async def _release(self, template: Template) -> None:
        """Remove first what holds something that new resources may take: a volume's former attachment."""
        gone = self._released(template, self._evaluation(template, self._foreseen))
        for row in gone:
            await self._abandon(row)
        await self._clean_up(gone)

    def _released(self, template: Template, evaluation: Evaluation) -> list[ResourceRow]:
        """What is removed first. What other resources require is left for the end."""
        needed = {need for row in self.stack.resources for need in row.requires}
        return [
            row
            for row in self._rows.values()
            if row.id not in needed and self._gives_up(row, template, evaluation)
        ]

    def _gives_up(self, row: ResourceRow, template: Template, evaluation: Evaluation) -> bool:
        """Whether what only this resource can have is free for others in the template."""
        kind, wanted = resource_type(row.type, row.name), template.resources.get(row.name)
        if wanted is None:
            return kind.delete_first
        if kind.takes(row.properties) is None or wanted.needs_attributes:
            return False
        try:
            properties = evaluation.known(wanted.properties)
        except StackError:
            return False  # its task will say so
        kind = resource_type(wanted.type, row.name)
        return decide(row, wanted.type, kind, properties).kind is ChangeKind.REPLACE

    async def _make_room(self, kind: ResourceType, properties: Mapping[str, Json]) -> None:
        """Remove what leaves the template and has what a new resource takes, whatever requires it."""
        taken = kind.takes(properties)
        if taken is None:
            return
        for row in list(self.stack.resources):
            other = resource_type(row.type, row.name)
            if self._is_leaving(row) and not row.retain and other.takes(row.properties) == taken:
                if row.current:
                    await self._abandon(row)
                await self._delete(row)

    def _is_leaving(self, row: ResourceRow) -> bool:
        return not (row.current and row.name in self._wanted)

    async def _keep(self, template: Template, evaluation: Evaluation) -> set[str]:
        """The resources that stay as they are, as do all that they require.

        Most of a large stack does. These are found one after another: a task for each takes longer
        than the comparison. What uses attributes is left to the tasks, since those ask the service.
        """
        kept: set[str] = set()
        for count, name in enumerate(template.order):
            if count % _BEFORE_OTHERS == 0:
                await asyncio.sleep(0)
            wanted, row = template.resources[name], self._rows.get(name)
            if row is None or wanted.needs_attributes or not wanted.requires <= kept:
                continue
            try:
                properties = evaluation.known(wanted.properties)
            except StackError:
                continue  # its task will say so
            kind = resource_type(wanted.type, name)
            if decide(row, wanted.type, kind, properties).kind is ChangeKind.KEEP:
                await self._note_dependencies(row, self._requires(wanted), wanted.retain)
                kept.add(name)
        return kept

    def _requires(self, wanted: ResourceDefinition) -> list[int]:
        return sorted(self._rows[name].id for name in wanted.requires)

    async def _bring(self, wanted: ResourceDefinition, evaluation: Evaluation) -> None:
        """Change one resource to match the template; everything it requires is done."""
        kind = resource_type(wanted.type, wanted.name)
        properties = await evaluation.value(wanted.properties, wanted.references)
        kind.check(wanted.name, properties)
        if kind.wants(properties):
            kind.check_needs(wanted.name, properties, await self.doors.offered(self.compute))
        requires = self._requires(wanted)
        row = self._rows.get(wanted.name)
        decision = await judge(row, wanted.type, kind, properties, self._context)
        if decision.kept and row is not None:
            _log.info(
                "kept_as_made",
                stack=self.stack.name,
                resource=wanted.name,
                properties=sorted(decision.kept),
            )
            properties = decision.settled(row, properties)
        if decision.kind is ChangeKind.KEEP and row is not None:
            await self._note_dependencies(row, requires, wanted.retain)
            await self._restore(row)
        elif decision.kind is ChangeKind.UPDATE and row is not None:
            if kind.whole_first:
                await self._restore(row)
            await self._update(row, properties, decision, requires, wanted.retain)
        elif decision.resume and row is not None:
            row.requires, row.retain = requires, wanted.retain
            await self._create(row, properties)
        else:
            if row is not None:
                await self._refuse_loss(row, properties, decision)
                await kind.look(self._context(row), properties)
                await self._look_for_room_again(row, kind, properties)
                await self._abandon(row)
                if kind.delete_first:
                    await self._delete(row)
                    if self.failure is not None:
                        return
            for former in [one for one in self._left if one.name == wanted.name]:
                # An operation before this one has abandoned it, and could not remove it.
                if resource_type(former.type, former.name).delete_first:
                    await self._delete(former)
            await self._make_room(kind, properties)
            await self._create(self._fresh(wanted, properties, requires), properties)

    async def _refuse_loss(
        self, row: ResourceRow, properties: dict[str, Json], decision: Decision
    ) -> None:
        """Raises `LossRefused` before a replacement that the plan has not seen: it depends on what this
        operation has made of other resources."""
        if self.may_lose is None:
            return
        losses = Losses(self.compute, self.stack)
        lost = unnamed(await losses.of_replaced(row, properties, decision), self.may_lose)
        if lost:
            self.refused = LossRefused(self.stack.name, lost, begun=True)
            raise self.refused

    def _fresh(
        self, wanted: ResourceDefinition, properties: dict[str, Json], requires: list[int]
    ) -> ResourceRow:
        chosen = str(uuid.uuid4())
        row = ResourceRow(
            name=wanted.name,
            type=wanted.type,
            physical_id=chosen,
            retain=wanted.retain,
            properties=properties,
            requires=requires,
            claim=chosen,
        )
        kind = resource_type(row.type, row.name)
        row.physical_id = kind.new_id(self._context(row), properties)
        return row

    async def _create(self, row: ResourceRow, properties: dict[str, Json]) -> None:
        kind = resource_type(row.type, row.name)
        self._say(row, "being created")
        row.status, row.reason, row.properties = StackStatus.CREATE_IN_PROGRESS, "", properties
        row.claim = row.claim if row.claim is not None else str(uuid.uuid4())
        is_first = row.id == 0
        if is_first:
            await self.store.add_resource(self.hold, row)
            self.stack.resources.append(row)
            self._rows[row.name] = row
        else:
            await self.store.change_resource(self.hold, row)
        making = self._made(kind, kind.create(self._context(row), properties))
        if is_first and isinstance(kind, Relation):
            making = self._or_disowned(row, making)
        await self._or_failed(row, making, StackStatus.CREATE_FAILED)
        row.status = StackStatus.CREATE_COMPLETE
        await self.store.change_resource(self.hold, row)

    async def _update(
        self,
        row: ResourceRow,
        properties: dict[str, Json],
        decision: Decision,
        requires: list[int],
        retain: bool,
    ) -> None:
        kind = resource_type(row.type, row.name)
        self._say(row, "being changed")
        is_whole = row.status not in (StackStatus.UPDATE_FAILED, StackStatus.UPDATE_IN_PROGRESS)
        row.status, row.reason = StackStatus.UPDATE_IN_PROGRESS, decision.reason
        # Until the change is done, it still needs its former requirements, too.
        row.requires, row.retain = sorted({*row.requires, *requires}), retain
        await self.store.change_resource(self.hold, row)
        context = self._context(row, decision.changed)
        context.former = row.properties if is_whole else None
        making = self._made(kind, kind.update(context, properties))
        await self._or_failed(row, making, StackStatus.UPDATE_FAILED)
        row.status, row.reason = StackStatus.UPDATE_COMPLETE, ""
        row.properties, row.requires = properties, requires
        await self.store.change_resource(self.hold, row)

    async def _or_disowned(self, row: ResourceRow, making: Coroutine[Any, Any, None]) -> None:
        """Make a relation for the first time: what was refused is not the stack's, and never removed."""
        try:
            await making
        except ResourceFailure as error:
            if not error.uncertain:
                row.claim = None
            raise

    async def _or_failed(
        self, row: ResourceRow, work: Coroutine[Any, Any, None], failed: StackStatus
    ) -> None:
        """Do something with a resource, and record why it could not be done."""
        try:
            await work
        except Exception as error:
            row.status, row.reason = failed, describe(error)
            if not isinstance(error, OperationLost):
                await self.store.change_resource(self.hold, row)
            raise

    async def _made(self, kind: ResourceType, making: Coroutine[Any, Any, None]) -> None:
        """Make something; what only waits is given up when something else has failed."""
        if not kind.waits:
            await making
            return
        work, failed = asyncio.ensure_future(making), asyncio.ensure_future(self._failed.wait())
        try:
            await asyncio.wait({work, failed}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and self.failure is not None:
                raise ResourceFailure(f"It was given up because {self.failure.resource!r} failed")
            await work
        finally:
            await stop(work, failed)

    def _kind_of(self, name: str) -> ResourceType:
        return resource_type(self._rows[name].type, name)

    async def _restore(self, row: ResourceRow) -> None:
        """Put back what somebody has taken from a resource that stays as it is."""
        kind = self._kind_of(row.name)
        # What is not whole is made, not mended; but what a change in place needs has to be there.
        if kind.restores and (kind.whole_first or row.status.value.endswith("_COMPLETE")):
            said = await kind.restore(self._context(row), row.properties)
            if said:
                self.warnings.append(said)

    async def _note_dependencies(self, row: ResourceRow, requires: list[int], retain: bool) -> None:
        if (row.requires, row.retain) != (requires, retain):
            row.requires, row.retain = requires, retain
            await self.store.change_resource(self.hold, row)

    async def _abandon(self, row: ResourceRow) -> None:
        """Mark the row for removal only."""
        row.current = False
        await self.store.change_resource(self.hold, row)
        if self._rows.get(row.name) is row:
            del self._rows[row.name]

    # --- away --------------------------------------------------------------------------

    async def _clean_up(self, rows: list[ResourceRow]) -> None:
        """Remove rows, each before what it requires."""
        by_id = {row.id: row for row in rows}
        needs = {row.id: frozenset(row.requires) & by_id.keys() for row in rows}
        await self._each(graph.reverse(needs), lambda number: self._delete(by_id[number]))

    async def _delete(self, row: ResourceRow) -> None:
        kind = resource_type(row.type, row.name)
        self._say(row, "being removed")
        try:
            if not row.retain and row.claim is not None:
                row.status, row.reason = StackStatus.DELETE_IN_PROGRESS, ""
                await self.store.change_resource(self.hold, row)
                await kind.delete(self._context(row), row.properties)
        except Exception as error:
            row.status, row.reason = StackStatus.DELETE_FAILED, describe(error)
            if not isinstance(error, OperationLost):
                await self.store.change_resource(self.hold, row)
            raise _Undeletable(f"it could not be removed: {describe(error)}") from error
        await self.store.remove_resource(self.hold, row)
        if row in self.stack.resources:  # not when what takes its place has removed it, too
            self.stack.resources.remove(row)

    # --- the schedule ------------------------------------------------------------------

    async def _each(
        self,
        requires: Mapping[Any, Set[Any]],
        work: Callable[[Any], Any],
        waits: Callable[[Any], bool] = lambda _node: False,
    ) -> None:
        """Run `work(node)` for every node, each after what it requires, side by side.

        Nodes that only wait take no place from those that work: what they wait for needs one.
        After a failure nothing new begins. `OperationLost` and cancellation end everything.
        """
        done = {node: asyncio.Event() for node in requires}

        async def one(node: Any) -> None:
            for need in requires[node]:
                if need in done:
                    await done[need].wait()
            async with contextlib.nullcontext() if waits(node) else self._slots:
                if self.failure is None:
                    await self._guarded(node, work)
            # Not when this was cancelled: waiting nodes must not begin then.
            done[node].set()

        try:
            async with asyncio.TaskGroup() as group:
                for node in requires:
                    group.create_task(one(node))
        except BaseExceptionGroup as group_error:
            # Only errors that `_guarded` passes on arrive here, and they have one common cause.
            raise group_error.exceptions[0] from None

    async def _guarded(self, node: object, work: Callable[[Any], Any]) -> None:
        name = node if isinstance(node, str) else self._name_of(node)
        try:
            await work(node)
        except OperationLost:
            raise
        except Exception as error:  # noqa: BLE001 whatever a resource meets is the stack's failure
            if not isinstance(error, StackError):
                _log.exception("resource_failed", stack=self.stack.name, resource=name)
            if self.failure is None:
                cause = error.__cause__ if isinstance(error, _Undeletable) else error
                details = cause.details if isinstance(cause, ResourceFailure) else None
                self.failure = StackFailure(name, type(cause).__name__, describe(error), details)
                self._failed.set()
        finally:
            self._waiting.pop(name, None)
            self._report_progress()

    def _name_of(self, number: object) -> str:
        for row in self.stack.resources:
            if row.id == number:
                return row.name
        return str(number)

    # --- values ------------------------------------------------------------------------

    def _context(self, row: ResourceRow, changed: frozenset[str] = frozenset()) -> ResourceContext:
        async def save(data: dict[str, Json]) -> None:
            row.data = data
            context.data = data
            if row.id:
                await self.store.change_resource(self.hold, row)

        async def adopt() -> None:
            row.claim = None
            await self.store.change_resource(self.hold, row)

        context = ResourceContext(
            project_id=self.stack.project_id,
            stack_id=self.stack.id,
            stack_name=self.stack.name,
            name=row.name,
            physical_id=row.physical_id,
            compute=self.compute,
            doors=self.doors,
            flavors=self.flavors,
            config=self._config,
            group=lambda group: self._group(group, row),
            own=self.stack.types_of,
            known=self._known,
            save=save,
            leaving=lambda: [
                one.physical_id
                for one in self.stack.resources
                if one.type == row.type and self._is_leaving(one) and not one.retain
            ],
            volumes=lambda: self._attached.of(row) if self._attached else (),
            say=lambda text: self._say(row, f"waiting for {text}"),
            data=row.data,
            changed=changed,
            claim=row.claim or "",
            adopt=adopt,
        )
        return context

    def _group(self, group: str, server: ResourceRow) -> PlacementGroup | None:
        """A server group of the stack, as `server` sees it."""
        found = next((one for one in self._rows.values() if one.physical_id == group), None)
        if found is None or "policy" not in found.data:
            return None

        def placed() -> list[str]:
            return [
                one.physical_id
                for one in self.stack.resources
                if one is not server
                and one.data.get("host")
                and (one.properties.get("scheduler_hints") or {}).get("group") == group
            ]

        lock = self._group_locks.setdefault(group, asyncio.Lock())
        return PlacementGroup(found.data["policy"], lock, placed)

    async def _config(self, physical_id: str) -> dict[str, Json] | None:
        if len(physical_id) > 64:
            return None  # a text, not an id
        for row in self.stack.resources:
            if row.physical_id == physical_id and "config" in row.data:
                return row.data
        others = await self.store.resources(self.stack.project_id, physical_id)
        return next((row.data for row in others if "config" in row.data), None)

    async def _known(self, physical_id: str) -> frozenset[str]:
        own = self.stack.types_of(physical_id)
        if own or len(physical_id) > 64:
            return own
        others = await self.store.resources(self.stack.project_id, physical_id)
        return frozenset(row.type for row in others)

    def _foreseen(self, name: str) -> Json:
        """A reference before anything is made: what is not there yet is another one."""
        return self._reference(name) if name in self._rows else Unknown(name)

    def _reference(self, name: str) -> Json:
        row = self._rows[name]
        return resource_type(row.type, name).reference(row.physical_id, row.data)

    async def _attribute(self, name: str, attribute: str) -> Json:
        row = self._rows[name]
        kind = resource_type(row.type, name)
        return await kind.attribute(self._context(row), row.properties, attribute)

    async def _outputs(self, template: Template, evaluation: Evaluation) -> dict[str, Json]:
        self.compute = snapshot_of(self.compute, self.stack.project_id)
        values: dict[str, Json] = dict.fromkeys(template.outputs)
        left = iter(template.outputs.items())

        async def evaluate() -> None:
            for name, output in left:
                try:
                    values[name] = await evaluation.value(output.value, output.references)
                except StackError as error:
                    _log.warning(
                        "output_failed", stack=self.stack.name, output=name, error=str(error)
                    )

        await asyncio.gather(*(evaluate() for _ in range(_OUTPUTS_AT_ONCE)))
        return values

    # --- progress ----------------------------------------------------------------------

    def _say(self, row: ResourceRow, text: str) -> None:
        self._waiting[row.name] = text
        self._report_progress()

    def _report_progress(self) -> None:
        if self.progress is not None:
            self.progress(self.waiting_on or "")


def _is_foreseen(decision: Decision, properties: Mapping[str, Json]) -> bool:
    """Whether a resource is replaced for a reason that is known before anything is made."""
    changed = decision.changed
    unknown = bool(changed) and all(unknown_in(properties.get(key)) for key in changed)
    return decision.kind is ChangeKind.REPLACE and not unknown


def _leaves_room(row: ResourceRow) -> bool:
    """Whether a machine is removed when its row is."""
    is_machine = isinstance(resource_type(row.type, row.name), Machine)
    return is_machine and not row.retain and row.claim is not None


def describe(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, StackError):
        return str(error)
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
