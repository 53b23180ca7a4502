"""`StackStore` in memory: what is stored is copied in and out."""

from __future__ import annotations

import marshal
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from vetro.stacks.errors import OperationLost, StackBusy, StackExists, StackNotFound
from vetro.stacks.state.records import Hold, ResourceRow, StackRow


class MemoryStore:
    """`StackStore` in a dictionary. What is stored is copied in and out."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.stacks: dict[str, StackRow] = {}
        self._now = now
        self._next = 0

    async def find(self, project_id: str, name: str) -> StackRow | None:
        row = self._row(project_id, name)
        return None if row is None else _copied(row).judged(self._now())

    async def head(self, project_id: str, name: str) -> StackRow | None:
        row = self._row(project_id, name)
        if row is None:
            return None
        bare = replace(row, template={}, parameters={}, files={}, resources=[])
        return _copied(bare).judged(self._now())

    def _row(self, project_id: str, name: str) -> StackRow | None:
        for row in self.stacks.values():
            if (row.project_id, row.name) == (project_id, name):
                return row
        return None

    async def create(self, row: StackRow, owner: str, seconds: float) -> Hold:
        if await self.find(row.project_id, row.name) is not None:
            raise StackExists(row.name)
        stored = _copied(row)
        stored.fence, stored.owner = 1, owner
        stored.owner_until = self._now() + timedelta(seconds=seconds)
        self.stacks[row.id] = stored
        return Hold(row.id, row.name, 1, owner)

    async def take(
        self,
        stack_id: str,
        name: str,
        values: Mapping[str, object],
        owner: str,
        seconds: float,
        *,
        fence: int | None = None,
    ) -> Hold:
        row = self.stacks.get(stack_id)
        if row is None:
            raise StackNotFound(name)
        if row.is_held(self._now()) or fence not in (None, row.fence):
            raise StackBusy(name, row.status.value)
        row.fence += 1
        row.owner, row.owner_until = owner, self._now() + timedelta(seconds=seconds)
        self._set(row, values)
        return Hold(stack_id, name, row.fence, owner)

    async def renew(self, hold: Hold, seconds: float) -> None:
        self._held(hold).owner_until = self._now() + timedelta(seconds=seconds)

    async def change(self, hold: Hold, values: Mapping[str, object]) -> None:
        self._set(self._held(hold), values)

    async def settle(self, hold: Hold, values: Mapping[str, object]) -> None:
        row = self._held(hold)
        self._set(row, values)
        row.owner = row.owner_until = row.waiting_on = None

    async def remove(self, hold: Hold) -> None:
        self._held(hold)
        del self.stacks[hold.stack_id]

    async def add_resource(self, hold: Hold, row: ResourceRow) -> None:
        stack = self._held(hold)
        self._next += 1
        row.id = self._next
        stack.resources.append(_copied_resource(row))

    async def change_resource(self, hold: Hold, row: ResourceRow) -> None:
        stack = self._held(hold)
        # In the order in which they were added: their numbers rise.
        place = bisect_left(stack.resources, row.id, key=lambda one: one.id)
        if place < len(stack.resources) and stack.resources[place].id == row.id:
            stack.resources[place] = _copied_resource(row)

    async def remove_resource(self, hold: Hold, row: ResourceRow) -> None:
        stack = self._held(hold)
        stack.resources = [one for one in stack.resources if one.id != row.id]

    async def resources(self, project_id: str, physical_id: str) -> list[ResourceRow]:
        return [
            _copied_resource(row)
            for stack in self.stacks.values()
            for row in stack.resources
            if stack.project_id == project_id and row.physical_id == physical_id
        ]

    def _held(self, hold: Hold) -> StackRow:
        row = self.stacks.get(hold.stack_id)
        if row is None or (row.fence, row.owner) != (hold.fence, hold.owner):
            raise OperationLost(hold.name)
        return row

    @staticmethod
    def _set(row: StackRow, values: Mapping[str, object]) -> None:
        for key, value in values.items():
            setattr(row, key, _json(value))


def _copied(row: StackRow) -> StackRow:
    """A copy that shares nothing which can change."""
    return replace(
        row,
        template=_json(row.template),
        parameters=_json(row.parameters),
        files=dict(row.files),
        tags=list(row.tags),
        outputs=_json(row.outputs),
        resources=[_copied_resource(one) for one in row.resources],
    )


def _copied_resource(row: ResourceRow) -> ResourceRow:
    # Operations give a row other properties and data, they do not change them: these are shared.
    return replace(row, requires=list(row.requires))


def _json(value: object) -> Any:
    """A copy of a JSON value; a walk in Python takes four times as long."""
    if not isinstance(value, dict | list):
        return value
    written = marshal.dumps(cast("Any", value))
    return marshal.loads(written)  # noqa: S302 nobody else has had the bytes
