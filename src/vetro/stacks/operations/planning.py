"""Predicting an operation without doing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vetro.stacks.compute_service.port import ComputePort
from vetro.stacks.doors import Doors
from vetro.stacks.flavors import Flavor
from vetro.stacks.model import Change, ChangeKind, Json
from vetro.stacks.operations.changes import decide
from vetro.stacks.resources import resource_type
from vetro.stacks.resources.base import ResourceContext
from vetro.stacks.state.records import ResourceRow, StackRow
from vetro.stacks.template.evaluation import Evaluation
from vetro.stacks.template.functions import Unknown
from vetro.stacks.template.templates import Template


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

    def __post_init__(self) -> None:
        self._rows = (
            {one.name: one for one in self.row.resources if one.current} if self.row else {}
        )
        self._new: set[str] = set()

    async def changes(self) -> list[Change]:
        evaluation = Evaluation(
            self.template,
            stack_id=self.row.id if self.row else "",
            stack_name=self.name,
            project_id=self.project_id,
            reference=self._reference,
            attribute=self._attribute,
        )
        result: list[Change] = []
        for name in self.template.order:
            wanted = self.template.resources[name]
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
        gone = [one for one in self._rows.values() if one.name not in self.template.resources]
        result.extend(
            Change(one.name, one.type, ChangeKind.DELETE, "it is not in the template")
            for one in gone
        )
        return result

    def _reference(self, name: str) -> Json:
        if name in self._new:
            return Unknown(name)
        row = self._rows[name]
        return resource_type(row.type, name).reference(row.physical_id, row.data)

    async def _attribute(self, name: str, attribute: str) -> Json:
        if name in self._new:
            return Unknown(name)
        row = self._rows[name]
        kind = resource_type(row.type, name)
        return await kind.attribute(self._context(row), row.properties, attribute)

    def _context(self, row: ResourceRow) -> ResourceContext:
        async def no_config(_physical_id: str) -> dict[str, Json] | None:
            return None

        async def no_saving(_data: dict[str, Json]) -> None:
            raise AssertionError("a preview cannot change anything")

        return ResourceContext(
            project_id=self.project_id,
            stack_id=self.row.id if self.row else "",
            stack_name=self.name,
            name=row.name,
            physical_id=row.physical_id,
            compute=self.compute,
            doors=self.doors,
            flavors=self.flavors,
            config=no_config,
            group=lambda _group: None,
            save=no_saving,
            data=row.data,
        )
