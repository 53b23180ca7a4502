"""The allocator's view of the database: servers, VMs and tickets in memory, followed change by change.

Every service process keeps an index of its own. Before it allocates it asks the database which
servers have a newer stamp than it knows (one indexed query) and reads those again; nothing is
pushed, so a process that slept for an hour is as current as any other. The transaction that
reserves a choice checks its stamp again (``Placement``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Protocol, cast

from sqlalchemy import bindparam, column, select, table, text

from vetro.compute.allocation.fleet import Fleet
from vetro.compute.allocation.reservations import Ticket, open_tickets, relieved
from vetro.compute.tables import tickets, vms
from vetro.compute.values.records import MIB, Json, Record, shown_vms
from vetro.storage import Database, Transaction

#: Servers read at once.
CHUNK = 400
#: Properties of a VM that filters ask and the server's record does not show.
VM_DETAILS = ("brand", "tags", "docker", "internal_metadata")
#: The stamp of a server whose record is not trusted: it equals no real stamp.
DOUBTFUL = -1
changes = table("compute_placement_changes", column("server_uuid"), column("stamp"))
# Built once: building them for each request would cost as much as running them.
_NEWER = select(changes).where(changes.c.stamp > bindparam("horizon"))
_SINCE = select(changes).where(changes.c.stamp >= bindparam("horizon"))
_OLDEST = text("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")


class ServerViews(Protocol):
    """Where whole server records come from."""

    async def views(self, tx: Transaction, uuids: list[str] | None = None) -> list[Record]:
        """Records as the API shows them, VMs included."""
        ...


def project_uuid(value: Json) -> Json:
    """A project's id as a UUID: identity services write it without dashes."""
    if isinstance(value, str) and len(value) == 32:
        return "-".join((value[:8], value[8:12], value[12:16], value[16:20], value[20:])).lower()
    return value


@dataclass(frozen=True)
class Supposed:
    """What a question supposes that reserves nothing: some VMs are gone, others have their place."""

    without: frozenset[str] = frozenset()
    """The uuids of VMs."""
    beside: tuple[tuple[str, Record], ...] = ()
    """Servers, each with a VM that has its room there: as in a request."""


class PlacementIndex:
    """A ``Fleet`` and the open tickets, as of the last ``refresh``."""

    def __init__(self, database: Database, servers: ServerViews) -> None:
        self.database = database
        self.servers = servers
        self.fleet = Fleet()
        self.tickets: dict[str, tuple[Ticket, ...]] = {}
        self.stamps: dict[str, int] = {}
        #: Until when reservations hold, by the VM's uuid.
        self.reserved_until: dict[str, datetime] = {}
        self._horizon = 0

    async def refresh(self, tx: Transaction) -> None:
        """Read the changed servers again. ``tx`` sees one moment, so the records are consistent."""
        query, horizon = _NEWER, self._horizon
        if not self.database.is_sqlite:
            # Transactions that are open now may commit stamps below those seen here.
            query, horizon = _SINCE, int((await tx.execute(_OLDEST)).scalar_one())
        found: dict[str, int] = {}
        for row in await tx.execute(query, {"horizon": self._horizon}):
            if self.stamps.get(row.server_uuid) != row.stamp:
                found[row.server_uuid] = row.stamp
            if self.database.is_sqlite:
                horizon = max(horizon, row.stamp)
        uuids = sorted(found)
        changed: list[Record] = []
        for start in range(0, len(uuids), CHUNK):
            changed += await self._read(tx, uuids[start : start + CHUNK])
        gone = set(uuids) - {record["uuid"] for record in changed}
        self.fleet.update(changed, gone)
        self.stamps.update(found)
        for uuid in gone:
            # Its stamp stays in the database; here it is unknown until it comes back.
            del self.stamps[uuid]
        self._horizon = horizon

    async def _read(self, tx: Transaction, uuids: list[str]) -> list[Record]:
        records = await self.servers.views(tx, uuids)
        details: dict[str, Record] = {}
        rows = await tx.execute(
            select(vms.c.uuid, vms.c.vm, vms.c.state).where(vms.c.server_uuid.in_(uuids))
        )
        for row in rows:
            vm = cast("Record", row.vm or {})
            details[row.uuid] = _details(vm)
            until = vm.get("reserved_until")
            if row.state == "allocated" and isinstance(until, str):
                self.reserved_until[row.uuid] = datetime.fromisoformat(until)
            else:
                self.reserved_until.pop(row.uuid, None)
        await self._read_tickets(tx, uuids)
        return [as_candidate(record, details) for record in records]

    async def _read_tickets(self, tx: Transaction, uuids: Iterable[str]) -> None:
        rows = await tx.execute(
            select(tickets)
            .where(
                tickets.c.server_uuid.in_(uuids),
                tickets.c.scope == "vm",
                tickets.c.action == "provision",
                tickets.c.status.in_(("queued", "active")),
            )
            .order_by(tickets.c.fence)
        )
        found: list[Ticket] = []
        for row in rows:
            extra = cast("Record", row.extra or {})
            if "owner_uuid" in extra:
                extra = {**extra, "owner_uuid": project_uuid(extra["owner_uuid"])}
            found.append({"server_uuid": row.server_uuid, "id": row.id, "extra": extra})
        for uuid in uuids:
            self.tickets.pop(uuid, None)
        self.tickets.update(open_tickets(found))

    # --- what this process writes itself ----------------------------------------------------

    def hold(self, held: Mapping[str, Any]) -> None:
        """Count in a VM that is about to be written; ``held``: its row.

        The record becomes what it would be if it were read again afterwards. ``settle`` says that it
        was written, ``mistrust`` that it was not.
        """
        fleet = self.fleet
        server = fleet.records[fleet.position[held["server_uuid"]]].server
        row = cast("Any", SimpleNamespace(**held))
        [shown] = shown_vms({}, [row]).values()
        vm = candidate_vm(shown, _details(held["vm"]))
        changed: Record = {**server, "vms": {**server["vms"], held["uuid"]: vm}}
        free = server.get("memory_provisionable_bytes")
        if free is not None:
            changed["memory_provisionable_bytes"] = free - MIB * max(0, held["memory_mib"])
        fleet.update([changed])

    @contextmanager
    def supposing(self, supposed: Supposed) -> Generator[None]:
        """Be as what is supposed would leave it, for a choice that awaits nothing."""
        fleet, tickets, without = self.fleet, self.tickets, supposed.without
        places = sorted({at for uuid in without for at in fleet.hosts_of(uuid)})
        before = [fleet.records[at] for at in places]
        self.tickets = {
            server: tuple(one for one in listed if one["id"] not in without)
            if any(one["id"] in without for one in listed)
            else listed
            for server, listed in tickets.items()
        }
        for server, vm in supposed.beside:
            self.tickets[server] = (*self.tickets.get(server, ()), _announced(server, vm))
        fleet.update([relieved(record, without) for record in before])
        try:
            yield
        finally:
            fleet.update([record.server for record in before])
            self.tickets = tickets

    def settle(self, server: str, before: int, after: int) -> None:
        """A VM held on a server was written: its stamp went from ``before`` to ``after``.

        If the server was read again meanwhile, its record and stamp are newer than this.
        """
        if self.stamps.get(server) == before:
            self.stamps[server] = after

    def mistrust(self, servers: Iterable[str]) -> None:
        """Read these servers again at the next refresh."""
        known = [uuid for uuid in servers if uuid in self.stamps]
        if known:
            self.stamps.update(dict.fromkeys(known, DOUBTFUL))
            self.doubt()

    def doubt(self) -> None:
        """Compare every stamp at the next refresh: an unknown stamp was found."""
        self._horizon = 0

    def overdue(self, now: datetime) -> list[str]:
        """VMs whose reservation has ended."""
        return [uuid for uuid, until in self.reserved_until.items() if until <= now]


def _announced(server: str, vm: Record) -> Ticket:
    """The ticket of a VM that is not there."""
    extra: Record = {
        "owner_uuid": project_uuid(vm.get("owner_uuid")),
        "max_physical_memory": vm.get("ram"),
        **{name: vm.get(name) for name in ("cpu_cap", "quota", "brand")},
    }
    return {"server_uuid": server, "id": vm.get("vm_uuid") or vm.get("uuid"), "extra": extra}


def _details(vm: Mapping[str, Any]) -> Record:
    return {name: vm[name] for name in VM_DETAILS if vm.get(name) is not None}


def candidate_vm(shown: Record, details: Record) -> Record:
    """A VM as the allocator takes it: what its server's record shows, and what filters ask more."""
    vm = {**shown, **details}
    if not vm.get("cpu_cap"):
        vm.pop("cpu_cap", None)
    vm["quota"] = vm.get("quota") or 0
    vm["owner_uuid"] = project_uuid(vm.get("owner_uuid"))
    return vm


def as_candidate(record: Record, details: Mapping[str, Record]) -> Record:
    """A server record as the allocator takes it: numbers that mean "none" are absent."""
    held: dict[str, Record] = {}
    for uuid, shown in cast("dict[str, Record]", record.get("vms") or {}).items():
        vm = candidate_vm(shown, details.get(uuid, {}))
        if vm.get("state") != "destroyed":
            held[uuid] = vm
    ratios = record.get("overprovision_ratios")
    candidate = {name: value for name, value in record.items() if value is not None}
    if not ratios:
        candidate.pop("overprovision_ratios", None)
    return {**candidate, "vms": held}
