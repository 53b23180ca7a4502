"""Which objects a call may use: the project's own and, for each kind, the parents it refers to.

A call that is limited to a project (`Call.project`) may use that project's objects. It may read
shared networks and refer to them where one is expected; only operators change them. Another
project's objects are answered as if they did not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import Table, select

from vetro.compute.networks.fabric import Fabric, Object
from vetro.compute.tables import networks
from vetro.compute.values.faults import conflict, not_allowed, not_found
from vetro.compute.values.records import Json, Record
from vetro.storage import Transaction


def itself(value: Json) -> list[str]:
    """The single object that a parameter names."""
    return [str(value)] if value else []


def each(value: Json) -> list[str]:
    """The objects that a parameter lists."""
    return [str(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


def groups_of_rules(value: Json) -> list[str]:
    """The security groups whose members the rules admit."""
    rules = cast("list[object]", value) if isinstance(value, list) else []
    given = [cast("Record", one) for one in rules if isinstance(one, dict)]
    return [str(one["remote_group_id"]) for one in given if one.get("remote_group_id")]


@dataclass(frozen=True)
class Reference:
    """A parameter that names objects. ``external``: it means a shared network, by name or uuid.

    ``or_gone``: it may also name objects that do not exist (any more).
    """

    param: str
    table: Table
    what: str
    named: Callable[[Json], list[str]] = itself
    external: bool = False
    or_gone: bool = False


def may_change(view: Object, what: str, project: str | None) -> None:
    """Refuse changes of shared objects, except by operators. Errors: 403."""
    if project is not None and view.project_id != project:
        raise not_allowed(f"The {what} {view.uuid} is shared: only operators change it")


async def check_new(tx: Transaction, table: Table, uuid: str, project: str | None) -> None:
    """Refuse a uuid that another project's object has. Errors: 409."""
    row = (await tx.execute(select(table.c.owner_uuid).where(table.c.uuid == uuid))).first()
    if row is not None and project is not None and row.owner_uuid != project:
        raise conflict(f"the uuid {uuid} is taken: choose another one")


async def check_references(
    fabric: Fabric, references: Sequence[Reference], params: Record, project: str | None, own: str
) -> Record:
    """The parameters, with shared networks replaced by their uuid.

    ``own`` is the object's own uuid, which it may name. Errors: 404 for objects that do not exist
    or are another project's; 403 for a shared network where one of the project's own is required.
    """
    checked = dict(params)
    async with fabric.database.read() as tx:
        for one in references:
            value = params.get(one.param)
            if one.external:
                if value is not None:
                    checked[one.param] = await _external(fabric, tx, str(value))
            else:
                for uuid in one.named(value):
                    if uuid != own:
                        await _check_one(tx, one, uuid, project)
    return checked


async def _check_one(tx: Transaction, reference: Reference, uuid: str, project: str | None) -> None:
    table = reference.table
    row = (await tx.execute(select(table).where(table.c.uuid == uuid[:64]))).first()
    if row is None and reference.or_gone:
        return
    if row is not None and project in (None, row.owner_uuid):
        return
    if row is not None and table is networks and row.external:
        raise not_allowed(f"The network {uuid} is shared: only operators add to it")
    raise not_found(f"{reference.what} {uuid[:64]} not found")


async def _external(fabric: Fabric, tx: Transaction, wanted: str) -> str:
    uuid = fabric.external.uuid if wanted == fabric.external.name else wanted
    found = await tx.execute(select(networks).where(networks.c.uuid == uuid[:64]))
    row = found.first()
    if row is None or not row.external:
        raise not_found(f"external network {wanted[:64]} not found")
    return uuid
