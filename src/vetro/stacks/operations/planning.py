"""Predicting an operation without doing it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from vetro.stacks.compute_service.port import ComputePort
from vetro.stacks.doors import Doors
from vetro.stacks.errors import StackError
from vetro.stacks.flavors import Flavor
from vetro.stacks.model import Change, ChangeKind, Json
from vetro.stacks.operations.changes import Decision, judge
from vetro.stacks.resources import resource_type
from vetro.stacks.resources.base import ResourceContext, ResourceType
from vetro.stacks.state.records import ResourceRow, StackRow
from vetro.stacks.template.evaluation import Evaluation
from vetro.stacks.template.functions import Unknown
from vetro.stacks.template.templates import Template


@dataclass(frozen=True, slots=True)
class Planned:
    """What an operation would do to one resource."""

    name: str
    type: str
    row: ResourceRow | None
    """What there is."""
    decision: Decision
    properties: Mapping[str, Json]
    """As wanted, with `Unknown` values; none for a resource that the template does not have."""


@dataclass(eq=False, repr=False)
class Planner:
    """Decides for every resource as an operation would, with placeholders for what is unknown."""

    template: Template
    row: StackRow | None
    project_id: str
    name: str
    compute: ComputePort
    doors: Doors
    flavors: Mapping[str, Flavor]
    forgiving: bool = False
    """Leave out a resource whose properties cannot be evaluated now, instead of raising."""

    def __post_init__(self) -> None:
        self._rows = (
            {one.name: one for one in self.row.resources if one.current} if self.row else {}
        )
        self._new: dict[str, Json] = {}
        """Resources that are made: what refers to them gets."""
        self._wanted: dict[str, Mapping[str, Json]] = {}

    async def changes(self, altered: Collection[str] = ()) -> list[Change]:
        """What would happen to each resource; of those ``altered`` something is put back."""
        planned = await self.planned()
        return [
            Change(
                one.name,
                one.type,
                one.decision.kind,
                one.decision.reason,
                tuple(sorted(one.decision.changed)),
            )
            if one.decision.kind is not ChangeKind.KEEP or one.name not in altered
            else Change(one.name, one.type, ChangeKind.UPDATE, "what is missing of it is put back")
            for one in planned
        ]

    async def planned(self) -> list[Planned]:
        """The same with what each decision was made of."""
        evaluation = Evaluation(
            self.template,
            stack_id=self.row.id if self.row else "",
            stack_name=self.name,
            project_id=self.project_id,
            reference=self._reference,
            attribute=self._attribute,
        )
        result: list[Planned] = []
        for name in self.template.order:
            wanted = self.template.resources[name]
            kind = resource_type(wanted.type, name)
            row = self._rows.get(name)
            try:
                properties = await evaluation.value(wanted.properties, wanted.references)
            except StackError:
                if not self.forgiving:
                    raise
                self._wanted[name] = {} if row is None else row.properties
                if row is None:
                    self._new[name] = Unknown(name)
                continue
            decision = await judge(row, wanted.type, kind, properties, self._context)
            self._wanted[name] = properties
            if row is None or decision.kind in (ChangeKind.CREATE, ChangeKind.REPLACE):
                self._new[name] = self._id_of_new(name, kind, properties)
            result.append(Planned(name, wanted.type, row, decision, properties))
        gone = Decision(ChangeKind.DELETE, "it is not in the template")
        result += [
            Planned(one.name, one.type, one, gone, {})
            for one in self._rows.values()
            if one.name not in self.template.resources
        ]
        return result

    def _id_of_new(self, name: str, kind: ResourceType, properties: Mapping[str, Json]) -> Json:
        """What refers to a resource that is made gets, if that is known before: a key pair's name."""
        row = ResourceRow(name=name, type=kind.name, physical_id="")
        given = kind.new_id(self._context(row), properties)
        return given or Unknown(name)

    def _reference(self, name: str) -> Json:
        if name in self._new:
            return self._new[name]
        row = self._rows[name]
        return resource_type(row.type, name).reference(row.physical_id, row.data)

    async def _attribute(self, name: str, attribute: str) -> Json:
        if name in self._new:
            return Unknown(name)
        row = self._rows[name]
        kind = resource_type(row.type, name)
        # An operation asks for it when the resource has been changed.
        return await kind.attribute(self._context(row), self._wanted[name], attribute)

    def _context(self, row: ResourceRow) -> ResourceContext:
        context = looking(
            row,
            self.compute,
            self.flavors,
            project_id=self.project_id,
            stack_id=self.row.id if self.row else "",
            stack_name=self.name,
            doors=self.doors,
        )
        if self.row is not None:
            context.own = self.row.types_of
        return context


def looking(
    row: ResourceRow,
    compute: ComputePort,
    flavors: Mapping[str, Flavor],
    *,
    project_id: str,
    stack_id: str,
    stack_name: str,
    doors: Doors | None = None,
) -> ResourceContext:
    """The context in which a resource is looked at; nothing is changed in it."""

    async def no_config(_physical_id: str) -> dict[str, Json] | None:
        return None

    async def no_saving(_data: dict[str, Json]) -> None:
        raise AssertionError("a look at a stack cannot change anything")

    return ResourceContext(
        project_id=project_id,
        stack_id=stack_id,
        stack_name=stack_name,
        name=row.name,
        physical_id=row.physical_id,
        compute=compute,
        doors=doors or Doors(),
        flavors=flavors,
        config=no_config,
        group=lambda _group: None,
        save=no_saving,
        data=row.data,
    )
