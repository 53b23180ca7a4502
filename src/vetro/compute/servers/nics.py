"""The registry of servers' NICs and nic tags (compute-node-api.md §9)."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Sequence
from typing import cast

import structlog
from sqlalchemy import delete, insert, select, update

from vetro.compute.tables import nic_tags, nics, vms
from vetro.compute.values.faults import internal_error, invalid_parameters, precondition_failed
from vetro.compute.values.records import Json, Record, mapping
from vetro.http.parameters import FieldError
from vetro.storage import Database, StoredRow, Transaction

log = structlog.get_logger(__name__)

ACTIONS = ("update", "replace", "delete")


async def ensure_tags(tx: Transaction, names: Sequence[str]) -> None:
    """Make the nic tags that are not there yet."""
    wanted = sorted(set(names))
    if not wanted:
        return
    query = select(nic_tags.c.name).where(nic_tags.c.name.in_(wanted))
    known = {row.name for row in await tx.execute(query)}
    if known.issuperset(wanted):
        return
    await tx.exclude("nic tags")
    known = {row.name for row in await tx.execute(query)}
    for name in wanted:
        if name not in known:
            await tx.execute(insert(nic_tags).values(name=name, uuid=str(uuids.uuid4()), mtu=1500))


def check_request(action: Json, given: Json) -> None:
    """What NicUpdate declares beyond types. Errors: 500 InvalidParameters."""
    if action not in ACTIONS:
        raise invalid_parameters(
            [FieldError("action", "action must be 'update', 'replace', or 'delete'")]
        )
    if not isinstance(given, list):
        raise invalid_parameters([FieldError("nics", "value was not an array")])


def wanted_nics(given: Json) -> list[Record]:
    """The elements that say something: a mac and the tags it provides. Errors: 500."""
    if not isinstance(given, list):
        raise internal_error("nics is not an array")
    result: list[Record] = []
    for one in cast("list[object]", given):
        if not isinstance(one, dict):
            raise internal_error("nics is not an array of objects")
        nic = mapping(one)
        tags = nic.get("nic_tags_provided")
        if isinstance(nic.get("mac"), str) and isinstance(tags, list):
            names = [str(tag)[:64] for tag in cast("list[object]", tags) if tag]
            result.append({"mac": nic["mac"].lower(), "nic_tags_provided": names})
    return result


class NicRegistry:
    """NICs of servers, by mac."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def view(self, row: StoredRow) -> Record:
        """A NIC as the API and the agent's task show it."""
        return {
            "mac": row.mac,
            "interface": row.interface,
            "ip": row.ip,
            "belongs_to_type": "server",
            "belongs_to_uuid": row.server_uuid,
            "nic_tags_provided": row.nic_tags_provided,
        }

    async def of(self, server_uuid: str) -> list[Record]:
        """The NICs of a server, by mac."""
        query = select(nics).where(nics.c.server_uuid == server_uuid).order_by(nics.c.mac)
        async with self.database.read() as tx:
            return [self.view(row) for row in await tx.execute(query)]

    async def tags(self) -> list[Record]:
        """All nic tags."""
        async with self.database.read() as tx:
            rows = await tx.execute(select(nic_tags).order_by(nic_tags.c.name))
            return [{"uuid": row.uuid, "name": row.name, "mtu": row.mtu} for row in rows]

    async def apply(
        self, server_uuid: str, action: str, given: list[Record], *, force: bool = False
    ) -> list[Record]:
        """Merge a request into the registry; the list the agent is sent.

        ``update`` appends missing tags, ``delete`` removes the listed ones, ``replace`` takes the list as
        it is. Errors: 412 when a tag that goes is used by VMs of the server, unless ``force``.
        """
        async with self.database.transaction() as tx:
            query = select(nics).where(nics.c.server_uuid == server_uuid).with_for_update()
            known = {row.mac: row for row in await tx.execute(query)}
            before = {tag for row in known.values() for tag in row.nic_tags_provided}
            after: dict[str, list[str]] = {
                mac: list(row.nic_tags_provided) for mac, row in known.items()
            }
            for one in given:
                mac, tags = one["mac"], one["nic_tags_provided"]
                if mac not in known:
                    log.warning("nic_unknown", server=server_uuid, mac=mac)
                    continue
                if action == "update":
                    after[mac] = [*after[mac], *(tag for tag in tags if tag not in after[mac])]
                elif action == "delete":
                    after[mac] = [tag for tag in after[mac] if tag not in tags]
                else:
                    after[mac] = list(dict.fromkeys(tags))
            lost = before - {tag for tags in after.values() for tag in tags}
            if lost and not force:
                await self._refuse_used(tx, server_uuid, lost)
            for mac, tags in after.items():
                if tags != known[mac].nic_tags_provided:
                    await tx.execute(
                        update(nics).where(nics.c.mac == mac).values(nic_tags_provided=tags)
                    )
            await ensure_tags(tx, [tag for tags in after.values() for tag in tags])
        if action == "replace":
            return given
        return [{"mac": mac, "nic_tags_provided": tags} for mac, tags in sorted(after.items())]

    async def _refuse_used(self, tx: Transaction, server_uuid: str, lost: set[str]) -> None:
        users: dict[str, str] = {}
        for row in await tx.execute(select(vms).where(vms.c.server_uuid == server_uuid)):
            for nic in cast("list[object]", row.vm.get("nics") or []):
                tag = str(mapping(nic).get("nic_tag") or "").split("/")[0]
                if tag in lost:
                    users.setdefault(tag, row.uuid)
        if users:
            said = "; ".join(f"{tag} is used by VM {vm}" for tag, vm in sorted(users.items()))
            raise precondition_failed(f"nic tags in use: {said}. Use force to remove them")

    async def remove(self, server_uuid: str) -> None:
        """Forget the NICs of a server."""
        async with self.database.transaction() as tx:
            await tx.execute(delete(nics).where(nics.c.server_uuid == server_uuid))
