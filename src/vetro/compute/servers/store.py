"""Server records in the database: registration, status samples, changes (compute-node-api.md §3).

A change reads the row for update, merges and writes it in one transaction: concurrent changes by
other services or nodes are never lost, so no caller needs to retry.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

import structlog
from sqlalchemy import delete, insert, select, update

from vetro.compute.servers.heartbeats import Heartbeats
from vetro.compute.servers.tombstones import bury, dig_up
from vetro.compute.tables import image_copies, moves, nics, servers, settings, status, tickets, vms
from vetro.compute.values.faults import invalid_argument, not_found, not_running
from vetro.compute.values.parameters import UUID
from vetro.compute.values.records import (
    Json,
    Record,
    agent_address,
    api_time,
    is_headnode,
    is_setup,
    mapping,
    moment_of,
    record_of,
    reported_vm,
    text_of,
    without,
)
from vetro.compute.values.silence import FENCED, MISSING, MOVED, is_silent, nothing_known
from vetro.compute.wire import node_key
from vetro.storage import Database, StoredRow, Transaction

log = structlog.get_logger(__name__)

CHANNEL = "compute/servers"
BOOT_DEFAULT = "boot-default"
#: In ``extra``: volumes that were on the server when it was evacuated (lost_volumes.py).
LOST = "lost_volumes"
#: In ``extra``: machines the node reports that no record knows, with when it did first (strays.py).
STRAYS = "unknown_vms"
STRAYS_CHANNEL = "compute/unknown-vms"
#: In ``extra``: the node's time of its newest sample, and of the newest that listed all VMs.
_SAMPLE_TIMES = ("sample_time", "whole_sample_time")
#: What ServerUpdate keeps as columns; the rest goes to ``extra``.
_COLUMNS = ("reserved", "reservoir", "setup", "agents", "hostname")
_NEXT_REBOOT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
__all__ = ["CHANNEL", "Agent", "ServerStore", "api_time"]


#: Kernel arguments that the service generates when none are stored.
Generated = Callable[[Transaction], Awaitable[Record]]


@dataclass(frozen=True)
class Agent:
    """Where a node's agent listens, the key it takes, and the version of its protocol.

    ``pull``: it cannot be reached and asks for its tasks (sysinfo ``CN Agent Pull``).
    """

    server_uuid: str
    url: str
    key: str = ""
    version: tuple[int, ...] = ()
    pull: bool = False

    def at_least(self, *version: int) -> bool:
        """Whether the agent's protocol is at least of this version."""
        return self.version >= version


def agent_version(agents: Json) -> tuple[int, ...]:
    """The version of ``cn-agent`` among a server's agents; empty when it is unknown."""
    for one in cast("list[object]", agents) if isinstance(agents, list) else []:
        entry = mapping(one)
        if entry.get("name") == "cn-agent":
            parts = re.match(r"(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?", str(entry.get("version")))
            return tuple(int(part) for part in parts.groups("0")) if parts else ()
    return ()


class ServerStore:
    """Server records and what their agents say."""

    def __init__(
        self,
        database: Database,
        heartbeats: Heartbeats | None = None,
        *,
        datacenter: str = "local",
        master_key: str = "",
        generated: Generated | None = None,
    ) -> None:
        """``generated``: kernel arguments that a new record gets when the default has none stored."""
        self.database = database
        self._generated = generated
        # Not "or": a store that is still empty is falsy.
        self.heartbeats = heartbeats if heartbeats is not None else Heartbeats(database, "alone")
        self._datacenter = datacenter
        self._master_key = master_key

    # What agents say

    async def of_project(self, tx: Transaction, project: str) -> set[str]:
        """The servers that have VMs of a project."""
        held = await tx.execute(select(vms.c.server_uuid).where(vms.c.owner_uuid == project))
        return {row.server_uuid for row in held}

    async def register(self, uuid: str, sysinfo: Record, *, shared_key: bool = True) -> None:
        """Create or renew a server from its sysinfo. Errors: 409 when the sysinfo is another's."""
        given = sysinfo.get("UUID")
        if given is not None and str(given).lower() != uuid:
            raise invalid_argument("sysinfo UUID is not the server's")
        now = self.database.clock.now()
        listed = sysinfo.get("SDC Agents")
        values: Record = {
            "sysinfo": sysinfo,
            "setup": is_setup(sysinfo),
            "headnode": is_headnode(sysinfo),
            "agent_url": agent_address(sysinfo),
            "last_boot": moment_of(sysinfo.get("Boot Time")),
            "shared_key": shared_key,
        }
        async with self.database.transaction() as tx:
            row = await self._locked(tx, uuid)
            created = moment_of(sysinfo.get("Zpool Creation"))
            if row is None:
                boot = await self._boot_default(tx)
                hostname = text_of(sysinfo.get("Hostname")) or uuid
                await tx.execute(
                    insert(servers).values(
                        uuid=uuid,
                        hostname=hostname,
                        status="running",
                        reserved=False,
                        reservoir=False,
                        sample={},
                        agents=listed if isinstance(listed, list) else [],
                        extra={**boot, "datacenter": self._datacenter},
                        network_version=0,
                        created=created or now,
                        **values,
                    )
                )
                log.info("server_registered", server=uuid, hostname=hostname)
            else:
                if isinstance(listed, list) and listed and not row.agents:
                    values["agents"] = listed
                values["status"] = "running"
                if row.created.timestamp() < 86400:
                    # From a node that once sent 0 for an unknown time.
                    values["created"] = created or now
                # Samples are ordered by the node's clock, which may have been set back meanwhile.
                kept = self._settled(row, values["last_boot"])
                values["extra"] = {k: one for k, one in kept.items() if k not in _SAMPLE_TIMES}
                await tx.execute(update(servers).where(servers.c.uuid == uuid).values(**values))
            left = await dig_up(tx, uuid)
            if left:
                await change_extra(tx, uuid, MOVED, lambda moved: {**left, **mapping(moved)})
            await self._register_nics(tx, uuid, sysinfo)
            tx.notify(CHANNEL, uuid)
        # Without this sign of life, a node that falls silent at once would stay marked as running.
        self.heartbeats.registered(uuid, setup=is_setup(sysinfo))

    async def _boot_default(self, tx: Transaction) -> Record:
        """What a new record takes over from ``GET /boot/default``."""
        boot = await stored_boot_default(tx)
        if self._generated is not None:
            stored = mapping(boot.get("boot_params"))
            boot = {**boot, "boot_params": {**await self._generated(tx), **stored}}
        return {
            name: boot[name]
            for name in ("boot_params", "kernel_flags", "boot_modules", "default_console", "serial")
            if name in boot
        } | ({"boot_platform": boot["boot_platform"]} if boot.get("boot_platform") else {})

    def _settled(self, row: StoredRow, last_boot: datetime | None) -> Record:
        """``extra`` without what has ended: a transitional status (§3.4), and that it is given up."""
        extra = without(row.extra, FENCED)
        rebooted = last_boot != row.last_boot or row.status == "unknown"
        if extra.get("transitional_status") == "rebooting" and rebooted:
            del extra["transitional_status"]
        return extra

    async def _register_nics(self, tx: Transaction, uuid: str, sysinfo: Record) -> None:
        """Add the NICs of a sysinfo to the registry; unknown tags are created."""
        from vetro.compute.servers.nics import ensure_tags

        names: list[str] = []
        for name, one in mapping(sysinfo.get("Network Interfaces")).items():
            interface = mapping(one)
            mac = text_of(interface.get("MAC Address"), 17).lower()
            given: Json = interface.get("NIC Names")
            tags = (
                [text_of(tag, 64) for tag in cast("list[object]", given)]
                if isinstance(given, list)
                else []
            )
            tags = [tag for tag in tags if tag]
            names.extend(tags)
            if not re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", mac):
                continue
            values: Record = {
                "server_uuid": uuid,
                "interface": text_of(name, 64),
                "ip": text_of(interface.get("ip4addr"), 64) or None,
                "nic_tags_provided": tags,
            }
            changed = await tx.execute(update(nics).where(nics.c.mac == mac).values(**values))
            if changed.rowcount == 0:
                await tx.execute(insert(nics).values(mac=mac, **values))
        await ensure_tags(tx, names)

    async def heartbeat(self, uuid: str) -> None:
        """The agent is alive; the service's own clock counts, the database is not touched."""
        self.heartbeats.beat(uuid)

    async def status(self, uuid: str, sample: Record) -> None:
        """Apply a status sample. Errors: 404."""
        async with self.database.transaction() as tx:
            if not await self.apply_sample(tx, uuid, sample):
                raise not_found(f"Server {uuid} not found")

    async def apply_sample(
        self, tx: Transaction, uuid: str, sample: Record, *, only_vms: bool = False
    ) -> bool:
        """Merge a sample into the record; ``False`` when there is none.

        Values that meminfo and diskinfo lack stay, and so do the other VMs when it is ``partial``.
        A sample that is older than the last one is ignored. VMs that the service created take the
        state that the node reports, except while they are being created.
        """
        row = await self._locked(tx, uuid)
        if row is None:
            return False
        stamp = str(sample.get("timestamp") or "")
        extra: Record = row.extra
        # A whole sample takes longer than a partial one, which may overtake it: the rest of the
        # older one is still news.
        overtaken = bool(stamp) and stamp < str(extra.get("sample_time") or "")
        if overtaken and (only_vms or stamp <= str(extra.get("whole_sample_time") or "")):
            log.info("old_status_sample_ignored", server=uuid, timestamp=stamp)
            return True
        reported: Record = {
            key: reported_vm(key, mapping(one))
            for key, one in mapping(sample.get("vms")).items()
            if isinstance(one, dict)
        }
        before: Record = row.sample or {}
        if only_vms and sample.get("partial") is True:
            reported = {**mapping(before.get("vms")), **reported}
        if overtaken:
            reported = mapping(before.get("vms"))
        merged: Record = {**before, "vms": reported}
        if not only_vms:
            for name in ("meminfo", "diskinfo"):
                given = mapping(sample.get(name))
                merged[name] = {**mapping(before.get(name)), **given}
        strays = await self._strays(tx, uuid, reported, mapping(extra.get(STRAYS)))
        if strays != mapping(extra.get(STRAYS)):
            extra = {**extra, STRAYS: strays}
            if not strays:
                del extra[STRAYS]
            tx.notify(STRAYS_CHANNEL, uuid)
        if stamp:
            extra = {**extra, **({} if only_vms else {"whole_sample_time": stamp})}
            extra |= {} if overtaken else {"sample_time": stamp}
        if merged != before or extra != row.extra:
            await tx.execute(
                update(servers).where(servers.c.uuid == uuid).values(sample=merged, extra=extra)
            )
        await self._follow(tx, uuid, reported, mapping(before.get("vms")))
        if merged.get("vms") != before.get("vms"):
            tx.notify(CHANNEL, uuid)
        return True

    async def _strays(self, tx: Transaction, uuid: str, reported: Record, before: Record) -> Record:
        """The machines among those reported that should not be there, with when each was first reported."""
        named = sorted({one.lower() for one in reported if UUID.match(one)})
        known = await known_of(tx, uuid, named)
        # Whoever removes them counts from it, so it must not depend on whose clock it was.
        now = api_time(self.database.steady_now())
        strays = {one: before.get(one, now) for one in named if one not in known}
        for one in sorted(set(strays) - set(before)):
            log.info("unknown_vm_found", server=uuid, vm=one)
        return strays

    async def _follow(self, tx: Transaction, uuid: str, reported: Record, before: Record) -> None:
        """Set VMs to the state their node reports; a VM that it no longer reports is missing."""
        query = select(vms.c.uuid, vms.c.state, vms.c.vm).where(vms.c.server_uuid == uuid)
        for vm in (await tx.execute(query)).all():
            # During its creation, its task determines the state: half a VM is never shown as
            # running.
            if vm.state in ("allocated", "creating", "failed"):
                continue
            if vm.uuid in reported:
                state = text_of(mapping(reported[vm.uuid]).get("state"), 20) or vm.state
            elif vm.uuid in before and not vm.vm.get("do_not_inventory"):
                state = MISSING
            else:
                continue
            if state != vm.state:
                if state == MISSING:
                    log.warning("vm_missing_on_server", server=uuid, vm=vm.uuid)
                await tx.execute(update(vms).where(vms.c.uuid == vm.uuid).values(state=state))

    # What clients ask

    async def row(self, tx: Transaction, uuid: str) -> StoredRow:
        """A server. Errors: 404."""
        row = await self.known(tx, uuid)
        if row is None:
            raise not_found(f"Server {uuid} not found")
        return row

    async def known(self, tx: Transaction, uuid: str) -> StoredRow | None:
        """A server, if it has a record."""
        return (await tx.execute(select(servers).where(servers.c.uuid == uuid))).first()

    async def _locked(self, tx: Transaction, uuid: str) -> StoredRow | None:
        query = select(servers).where(servers.c.uuid == uuid).with_for_update()
        return (await tx.execute(query)).first()

    def agent_of(self, row: StoredRow) -> Agent:
        """Where the agent of a server listens; its ``url`` is '' when that is unknown."""
        key = self._master_key if row.shared_key else node_key(self._master_key, row.uuid)
        pull = row.sysinfo.get("CN Agent Pull") in (True, "true")
        return Agent(row.uuid, row.agent_url, key, agent_version(row.agents), pull)

    async def agent(self, tx: Transaction, uuid: str, what: str = "") -> Agent:
        """The agent of a running server. Errors: 404; 409, which says ``what`` of it is wanted."""
        row = await self.row(tx, uuid)
        agent = self.agent_of(row)
        if row.status != "running" or not (agent.url or agent.pull):
            raise nothing_known(what, row) if what and is_silent(row) else not_running()
        return agent

    async def views(self, tx: Transaction, uuids: list[str] | None = None) -> list[Record]:
        """Whole server records, of all or some servers, by uuid."""
        query = select(servers).order_by(servers.c.uuid)
        if uuids is not None:
            query = query.where(servers.c.uuid.in_(uuids))
        return await self.records(tx, list(await tx.execute(query)))

    async def records(self, tx: Transaction, rows: list[StoredRow]) -> list[Record]:
        """The records of rows, with their VMs and the last heartbeat any service saw."""
        wanted = [row.uuid for row in rows]
        held: dict[str, list[StoredRow]] = {}
        some = len(wanted) <= 500
        vms_query = select(vms).where(vms.c.server_uuid.in_(wanted)) if some else select(vms)
        for vm in await tx.execute(vms_query):
            held.setdefault(vm.server_uuid, []).append(vm)
        seen_query = select(status)
        if some:
            seen_query = seen_query.where(status.c.server_uuid.in_(wanted))
        seen = {one.server_uuid: one.last_heartbeat for one in await tx.execute(seen_query)}
        return [
            record_of(
                row,
                held.get(row.uuid, []),
                self.heartbeats.last(row.uuid) or seen.get(row.uuid),
                self._datacenter,
            )
            for row in rows
        ]

    async def find(
        self,
        tx: Transaction,
        *,
        uuids: list[str] | None = None,
        hostname: str | None = None,
        status: str | None = None,
        flags: Mapping[str, bool | None] | None = None,
        limit: int = 1000,
        offset: int = 0,
    ) -> list[StoredRow]:
        """A page of the rows that meet every condition given, by uuid. ``flags``: boolean columns."""
        query = select(servers).order_by(servers.c.uuid).limit(limit).offset(offset)
        if uuids:
            query = query.where(servers.c.uuid.in_(uuids))
        if hostname:
            query = query.where(servers.c.hostname == hostname)
        if status:
            query = query.where(servers.c.status == status)
        for name, wanted in (flags or {}).items():
            query = query.where(servers.c[name].is_(bool(wanted)))
        return list(await tx.execute(query))

    async def change(self, uuid: str, values: Record) -> StoredRow:
        """Set properties; ``transitional_status`` '' and ``None`` values remove. Errors: 404, 409.

        Returns the row as it was.
        """
        check_changes(values)
        async with self.database.transaction() as tx:
            return await self.change_in(tx, uuid, values)

    async def change_in(self, tx: Transaction, uuid: str, values: Record) -> StoredRow:
        """`change` within a transaction, of values that are checked."""
        row = await self._locked(tx, uuid)
        if row is None:
            raise not_found(f"Server {uuid} not found")
        columns = {name: value for name, value in values.items() if name in _COLUMNS}
        extra = dict(row.extra)
        for name, value in values.items():
            if name in _COLUMNS:
                continue
            if value is None or (name == "transitional_status" and not value):
                extra.pop(name, None)
            else:
                extra[name] = value
        before = {name: getattr(row, name) for name in columns}
        if extra != row.extra or columns != before:
            await tx.execute(
                update(servers).where(servers.c.uuid == uuid).values(extra=extra, **columns)
            )
            tx.notify(CHANNEL, uuid)
        return row

    async def forget(self, uuid: str) -> None:
        """Remove a server's record, status entry and tickets; its machine is not touched. Errors: 404.

        What left the server is not forgotten: it is destroyed there if the server registers again.
        """
        async with self.database.transaction() as tx:
            row = await self.row(tx, uuid)
            await bury(tx, uuid, mapping(row.extra.get(MOVED)))
            await tx.execute(delete(servers).where(servers.c.uuid == uuid))
            await tx.execute(delete(status).where(status.c.server_uuid == uuid))
            await tx.execute(delete(nics).where(nics.c.server_uuid == uuid))
            await tx.execute(delete(image_copies).where(image_copies.c.server_uuid == uuid))
            gone = await tx.execute(
                delete(tickets).where(tickets.c.server_uuid == uuid).returning(tickets.c.uuid)
            )
            for ticket in gone.all():
                tx.notify(f"ticket/{ticket.uuid}", "deleted")
            tx.notify(CHANNEL, uuid)
        self.heartbeats.forget(uuid)


async def stored_boot_default(tx: Transaction, *, to_change: bool = False) -> Record:
    """The boot parameters that new servers get; empty before there are any."""
    query = select(settings.c.value).where(settings.c.name == BOOT_DEFAULT)
    row = (await tx.execute(query.with_for_update() if to_change else query)).first()
    return mapping(row.value) if row is not None else {}


async def change_extra(
    tx: Transaction, server_uuid: str, name: str, change: Callable[[Json], Json]
) -> None:
    """Change one entry of a server's ``extra``; nothing left of it: it goes.

    Of a server that has no record any more only the VMs that left it are kept.
    """
    query = select(servers.c.extra).where(servers.c.uuid == server_uuid).with_for_update()
    row = (await tx.execute(query)).first()
    if row is None:
        if name == MOVED:
            await bury(tx, server_uuid, mapping(change(await dig_up(tx, server_uuid))))
        return
    extra: Record = dict(row.extra)
    left = change(extra.pop(name, None))
    if left:
        extra[name] = left
    await tx.execute(update(servers).where(servers.c.uuid == server_uuid).values(extra=extra))


async def known_of(tx: Transaction, server_uuid: str, uuids: list[str]) -> set[str]:
    """The machines among these that a server may have: its own by their records, and those on the move."""
    if not uuids:
        return set()
    here = (vms.c.server_uuid == server_uuid) | vms.c.uuid.in_(select(moves.c.vm_uuid))
    query = select(vms.c.uuid).where(vms.c.uuid.in_(uuids), here)
    return {row.uuid for row in await tx.execute(query)}


def check_changes(values: Record) -> None:
    """What the declared types do not say of ServerUpdate's values. Errors: 409."""
    ratio = values.get("reservation_ratio")
    if ratio is not None and not 0 <= ratio <= 1:
        raise invalid_argument("Invalid value for reservation_ratio; must be from 0 to 1")
    for name, value in mapping(values.get("overprovision_ratios")).items():
        if name not in ("cpu", "ram", "disk", "io", "net"):
            raise invalid_argument(f"Invalid key {name}")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise invalid_argument(f"Invalid type for {name}")
        if value < 0:
            raise invalid_argument(f"Invalid value for {name}")
    check_next_reboot(values.get("next_reboot"))


def check_next_reboot(value: Json) -> None:
    """An exact ISO time, or '' to clear (§4.3). Errors: 409."""
    if value in (None, ""):
        return
    try:
        good = bool(_NEXT_REBOOT.fullmatch(str(value)))
        if good:
            moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
            good = api_time(moment) == value
    except ValueError:
        good = False
    if not good:
        raise invalid_argument("Invalid date for next_reboot; not an ISO date format")
