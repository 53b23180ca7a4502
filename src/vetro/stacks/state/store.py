"""Stacks in the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import timedelta
from functools import wraps
from types import CoroutineType
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from vetro.stacks import tables
from vetro.stacks.errors import OperationLost, StackBusy, StackExists, StackNotFound
from vetro.stacks.model import StackStatus
from vetro.stacks.state.records import Hold, ResourceRow, StackRow
from vetro.stacks.tables import resources, stacks
from vetro.storage import Database, Transaction, carried_through

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[P, "CoroutineType[Any, Any, T]"]


def _uncut(method: Method[P, T]) -> Method[P, T]:
    """Finish a write that has begun: a cancelled caller is cancelled after it.

    An operation is cancelled when its time is over or its process shuts down; a transaction cut
    in the middle would leave the connection in an unknown state.
    """

    @wraps(method)
    async def whole(*args: P.args, **kwargs: P.kwargs) -> T:
        work = asyncio.ensure_future(method(*args, **kwargs))
        try:
            await carried_through(asyncio.wait({work}))
        except asyncio.CancelledError:
            if not work.cancelled():
                work.exception()  # the caller is being cancelled: it does not need it
            raise
        return work.result()

    return whole


class DatabaseStore:
    """`StackStore` on SQLite or PostgreSQL."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @_uncut
    async def find(self, project_id: str, name: str) -> StackRow | None:
        """A stack with its resources; one whose operation died shows as failed."""
        table = tables.stacks
        async with self._db.read() as tx:
            found = await tx.execute(
                select(table).where(table.c.project_id == project_id, table.c.name == name)
            )
            row = found.first()
            if row is None:
                return None
            resources = await tx.execute(
                select(tables.resources)
                .where(tables.resources.c.stack_id == row.id)
                .order_by(tables.resources.c.id)
            )
            stack = _stack(row, [_resource(one) for one in resources])
        return stack.judged(self._db.steady_now())

    @_uncut
    async def head(self, project_id: str, name: str) -> StackRow | None:
        """A stack without its template, parameters, files and resources."""
        table = tables.stacks
        left_out = ("template", "parameters", "files", "environment")
        columns = [column for column in table.c if column.name not in left_out]
        async with self._db.read() as tx:
            found = await tx.execute(
                select(*columns).where(table.c.project_id == project_id, table.c.name == name)
            )
            row = found.first()
        return None if row is None else _stack(row, []).judged(self._db.steady_now())

    @_uncut
    async def create(self, row: StackRow, owner: str, seconds: float) -> Hold:
        """Store a new stack, held by `owner`."""
        hold = Hold(row.id, row.name, 1, owner)
        try:
            async with self._db.transaction() as tx:
                await tx.execute(
                    insert(tables.stacks).values(
                        {
                            **_columns({name: getattr(row, name) for name in _STACK}),
                            "fence": hold.fence,
                            "owner": owner,
                            "owner_until": self._until(seconds),
                        }
                    )
                )
        except IntegrityError as error:
            raise StackExists(row.name) from error
        return hold

    @_uncut
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
        """Hold a stack that is free, or whose holder is dead or overdue."""
        table = tables.stacks
        async with self._db.transaction() as tx:
            found = await tx.execute(select(table).where(table.c.id == stack_id).with_for_update())
            row = found.first()
            if row is None:
                raise StackNotFound(name)
            stack = _stack(row, [])
            if stack.is_held(self._db.steady_now()) or fence not in (None, stack.fence):
                raise StackBusy(name, stack.status.value)
            hold = Hold(stack_id, name, stack.fence + 1, owner)
            await tx.execute(
                update(table)
                .where(table.c.id == stack_id)
                .values(
                    **_columns(values),
                    fence=hold.fence,
                    owner=owner,
                    owner_until=self._until(seconds),
                )
            )
        return hold

    @_uncut
    async def renew(self, hold: Hold, seconds: float) -> None:
        """Hold it for `seconds` from now."""
        async with self._db.transaction() as tx:
            await self._write(tx, hold, {"owner_until": self._until(seconds)})

    @_uncut
    async def change(self, hold: Hold, values: Mapping[str, Any]) -> None:
        """Change columns of the stack."""
        async with self._db.transaction() as tx:
            await self._write(tx, hold, values)

    @_uncut
    async def settle(self, hold: Hold, values: Mapping[str, object]) -> None:
        """Change the stack and release it."""
        async with self._db.transaction() as tx:
            released = {"owner": None, "owner_until": None, "waiting_on": None}
            await self._write(tx, hold, {**values, **released})

    @_uncut
    async def remove(self, hold: Hold) -> None:
        """Remove the stack and its rows."""
        async with self._db.transaction() as tx:
            await self._check(tx, hold)
            await tx.execute(
                delete(tables.resources).where(tables.resources.c.stack_id == hold.stack_id)
            )
            await tx.execute(delete(tables.stacks).where(tables.stacks.c.id == hold.stack_id))

    @_uncut
    async def add_resource(self, hold: Hold, row: ResourceRow) -> None:
        """Insert a resource row."""
        async with self._db.transaction() as tx:
            await self._check(tx, hold)
            inserted = await tx.execute(
                insert(tables.resources)
                .values(stack_id=hold.stack_id, **_resource_columns(row))
                .returning(tables.resources.c.id)
            )
            row.id = inserted.scalar_one()

    @_uncut
    async def change_resource(self, hold: Hold, row: ResourceRow) -> None:
        """Write a resource row as it is."""
        async with self._db.transaction() as tx:
            await self._check(tx, hold)
            await tx.execute(
                update(tables.resources)
                .where(tables.resources.c.id == row.id)
                .values(**_resource_columns(row))
            )

    @_uncut
    async def remove_resource(self, hold: Hold, row: ResourceRow) -> None:
        """Delete a resource row."""
        async with self._db.transaction() as tx:
            await self._check(tx, hold)
            await tx.execute(delete(tables.resources).where(tables.resources.c.id == row.id))

    @_uncut
    async def resources(self, project_id: str, physical_id: str) -> list[ResourceRow]:
        """The resources with this id in all stacks of the project."""
        async with self._db.read() as tx:
            found = await tx.execute(
                select(tables.resources)
                .join(tables.stacks, tables.stacks.c.id == tables.resources.c.stack_id)
                .where(
                    tables.resources.c.physical_id == physical_id,
                    tables.stacks.c.project_id == project_id,
                )
            )
            return [_resource(row) for row in found]

    # --- inside ------------------------------------------------------------------------

    def _until(self, seconds: float) -> object:
        return self._db.steady_now() + timedelta(seconds=seconds)

    async def _write(self, tx: Transaction, hold: Hold, values: Mapping[str, object]) -> None:
        changed = await tx.execute(
            update(tables.stacks).where(*_held(hold)).values(**_columns(values))
        )
        if changed.rowcount != 1:
            raise OperationLost(hold.name)

    async def _check(self, tx: Transaction, hold: Hold) -> None:
        found = await tx.execute(
            select(tables.stacks.c.id).where(*_held(hold)).with_for_update(read=True)
        )
        if found.first() is None:
            raise OperationLost(hold.name)


_STACK = tuple(one.name for one in fields(StackRow) if one.name != "resources")
_RESOURCE = tuple(one.name for one in fields(ResourceRow))
_RENAMED = {"created": "created_at", "updated": "updated_at"}


def _held(hold: Hold) -> tuple[Any, ...]:
    """The stack, as long as the hold is valid."""
    stack = tables.stacks.c
    return stack.id == hold.stack_id, stack.fence == hold.fence, stack.owner == hold.owner


def _columns(values: Mapping[str, object]) -> dict[str, object]:
    return {
        _RENAMED.get(key, key): value.value if isinstance(value, StackStatus) else value
        for key, value in values.items()
    }


def _resource_columns(row: ResourceRow) -> dict[str, object]:
    return _columns({name: getattr(row, name) for name in _RESOURCE if name != "id"})


def _stack(row: Any, resources: list[ResourceRow]) -> StackRow:
    known = row._mapping
    columns = {name: _RENAMED.get(name, name) for name in _STACK}
    # The head of a stack is read without some of them.
    values = {name: known[column] for name, column in columns.items() if column in known}
    values["status"] = StackStatus(row.status)
    return StackRow(**values, resources=resources)


def _resource(row: Any) -> ResourceRow:
    values = {name: row._mapping[name] for name in _RESOURCE}
    values["status"] = StackStatus(row.status)
    return ResourceRow(**values)


async def forget_of_project(tx: Transaction, project_id: str) -> None:
    """Delete a project's remaining stacks: those of abandoned environments, without resources."""
    mine = select(stacks.c.id).where(stacks.c.project_id == project_id)
    await tx.execute(delete(resources).where(resources.c.stack_id.in_(mine)))
    await tx.execute(delete(stacks).where(stacks.c.project_id == project_id))
