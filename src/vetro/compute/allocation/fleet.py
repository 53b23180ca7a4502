"""All servers, column by column, updated change by change.

A ``Fleet`` is built once and then updated with changed servers; allocating reads its columns and
parses nothing. ``with_tickets`` returns the fleet as it will be once the open provisioning tickets
have become VMs (allocation.md §8); it shares every column that tickets do not affect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vetro.compute.allocation.capacity import CapacityRule, unreserved
from vetro.compute.allocation.columns import POSITION_BITS, Column, Floats, Indices, Mask
from vetro.compute.allocation.record import FACETS, VM_FACETS, Record, Vm
from vetro.compute.allocation.rendering import Names

SERVERS_LIMIT = 2**POSITION_BITS
RULES_LIMIT = 8
Server = Mapping[str, Any]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Room:
    """The free resources of every server: CPU (100 a core), memory and disk (MiB)."""

    cpu: Ints
    ram: Ints
    disk: Ints

    def patched(self, where: Indices, rows: Sequence[tuple[int, int, int]]) -> Room:
        """With other numbers at some places."""
        table = np.array(rows, np.int64).reshape(len(rows), 3)
        columns: list[Ints] = []
        for old, new in zip((self.cpu, self.ram, self.disk), table.T, strict=True):
            if np.array_equal(old[where], new):
                columns.append(old)
            else:
                changed = old.copy()
                changed[where] = new
                columns.append(changed)
        return Room(*columns)


class Fleet:
    """Servers and their VMs, indexed; positions are stable until a server is added or removed."""

    records: list[Record]
    uuids: NDArray[np.object_]
    names: Names
    position: dict[str, int]
    columns: dict[str, Column]
    vm_counts: Ints
    free_disk: Ints
    platform_times: Floats
    next_reboots: Floats
    last_boots: Floats
    _rooms: dict[CapacityRule, Room]
    _places: dict[str, int | tuple[int, ...]]
    _owners: dict[str, dict[int, int]]

    def __init__(self, servers: Iterable[Server] = ()) -> None:
        #: Incremented by every change.
        self.version = 0
        self._build([Record(server) for server in servers])

    def _build(self, records: list[Record]) -> None:
        if len(records) >= SERVERS_LIMIT:
            raise ValueError(f"{len(records)} servers are more than {SERVERS_LIMIT - 1}")
        self.records = records
        self.uuids = np.array([r.uuid for r in records], dtype=object)
        self.names = Names(self.uuids)
        self.position = {record.uuid: at for at, record in enumerate(records)}
        facets = zip(*(record.facets for record in records), strict=True) if records else None
        vm_facets = zip(*(record.vm_facets for record in records), strict=True) if records else None
        self.columns = {
            name: Column.of(items)
            for names, table in ((FACETS, facets), (VM_FACETS, vm_facets))
            for name, items in zip(names, table or [()] * len(names), strict=True)
        }
        self.vm_counts = np.array([r.vm_count for r in records], np.int64)
        self.free_disk = np.array([r.free_disk for r in records], np.int64)
        self.platform_times = np.array([r.platform_time for r in records], np.float64)
        self.next_reboots = np.array([r.next_reboot for r in records], np.float64)
        self.last_boots = np.array([r.last_boot for r in records], np.float64)
        self._rooms = {}
        # A VM is on one server; while it moves, or by mistake, on several.
        self._places = {}
        self._owners = {}
        for at, record in enumerate(records):
            self._add_vms(at, record)
        self._changed: dict[int, None] = {}
        self._ticketed: TicketedFleet | None = None
        self.version += 1

    def __len__(self) -> int:
        return len(self.records)

    # --- changes ---------------------------------------------------------------------------

    def update(self, changed: Iterable[Server] = (), removed: Iterable[str] = ()) -> None:
        """Add new and changed records; remove those of removed servers."""
        fresh: dict[int, Record] = {}
        added: dict[str, Record] = {}
        for server in changed:
            record = Record(server)
            at = self.position.get(record.uuid)
            if at is None:
                added[record.uuid] = record
            else:
                fresh[at] = record
        gone = {uuid for uuid in removed if uuid in self.position}
        if added or gone:
            kept = [
                fresh.get(at, record)
                for at, record in enumerate(self.records)
                if record.uuid not in gone
            ]
            self._build([*kept, *added.values()])
        elif fresh:
            self._patch(fresh)

    def _patch(self, fresh: Mapping[int, Record]) -> None:
        where = np.fromiter(fresh, np.int64, len(fresh))
        new = list(fresh.values())
        old = [self.records[at] for at in fresh]
        self.records = self.records.copy()
        for at, record in fresh.items():
            self._remove_vms(at, self.records[at])
            self.records[at] = record
            self._add_vms(at, record)
        for slot, name in enumerate(FACETS):
            if any(a.facets[slot] != b.facets[slot] for a, b in zip(old, new, strict=True)):
                items = [record.facets[slot] for record in new]
                self.columns[name] = self.columns[name].patched(where, items)
        for slot, name in enumerate(VM_FACETS):
            items = [record.vm_facets[slot] for record in new]
            self.columns[name] = self.columns[name].patched(where, items)
        self._patch_numbers(where, old, new)
        self._rooms = {
            rule: room.patched(where, [unreserved(record, rule) for record in new])
            for rule, room in self._rooms.items()
        }
        self._changed.update(dict.fromkeys(fresh))
        self.version += 1

    def _patch_numbers(self, where: Indices, old: list[Record], new: list[Record]) -> None:
        for name, attribute in (
            ("vm_counts", "vm_count"),
            ("free_disk", "free_disk"),
            ("platform_times", "platform_time"),
            ("next_reboots", "next_reboot"),
            ("last_boots", "last_boot"),
        ):
            values = [getattr(record, attribute) for record in new]
            if values != [getattr(record, attribute) for record in old]:
                column = getattr(self, name).copy()
                column[where] = values
                setattr(self, name, column)

    def _add_vms(self, at: int, record: Record) -> None:
        for uuid in record.vms:
            known = self._places.get(uuid)
            if known is None:
                self._places[uuid] = at
            else:
                before = known if isinstance(known, tuple) else (known,)
                self._places[uuid] = (*before, at)
        for owner, count in record.owners.items():
            self._owners.setdefault(owner, {})[at] = count

    def _remove_vms(self, at: int, record: Record) -> None:
        for uuid in record.vms:
            known = self._places.get(uuid)
            if known == at:
                del self._places[uuid]
            elif isinstance(known, tuple):
                left = [one for one in known if one != at]
                self._places[uuid] = tuple(left) if len(left) > 1 else left[0]
        for owner in record.owners:
            places = self._owners[owner]
            del places[at]
            if not places:
                del self._owners[owner]

    # --- questions -------------------------------------------------------------------------

    def everyone(self) -> Mask:
        """A mask of all servers."""
        return np.ones(len(self.records), np.bool_)

    def room(self, rule: CapacityRule) -> Room:
        """The free resources of every server under ``rule``; kept up to date from then on."""
        room = self._rooms.get(rule)
        if room is None:
            rows = [unreserved(record, rule) for record in self.records]
            table = np.array(rows, np.int64).reshape(len(rows), 3)
            if len(self._rooms) >= RULES_LIMIT:
                self._rooms.clear()
            room = self._rooms[rule] = Room(*(column.copy() for column in table.T))
        return room

    def hosts_of(self, vm_uuid: str) -> tuple[int, ...]:
        """The servers of a VM: their positions."""
        known = self._places.get(vm_uuid)
        if known is None:
            return ()
        return known if isinstance(known, tuple) else (known,)

    def vm_on(self, at: int, vm_uuid: str) -> Vm:
        """A VM on a server that ``hosts_of`` returned."""
        return self.records[at].vms[vm_uuid]

    def owned(self, owner: str) -> Mapping[int, int]:
        """How many VMs of ``owner`` each server has; servers without one are absent."""
        return self._owners.get(owner, {})

    def vms_of(self, owner: str) -> Iterator[tuple[str, Vm]]:
        """Every VM of ``owner``, server by server."""
        for at in sorted(self.owned(owner)):
            for uuid, vm in self.records[at].vms.items():
                if vm.get("owner_uuid") == owner:
                    yield uuid, vm

    # --- tickets ---------------------------------------------------------------------------

    def with_tickets(
        self, tickets: Mapping[str, Sequence[Mapping[str, object]]], overheads: Mapping[str, float]
    ) -> Fleet:
        """The fleet with the VMs of open tickets added. See ``reservations.ticketed_record``."""
        if not any(uuid in self.position for uuid in tickets):
            return self
        if self._ticketed is None or self._ticketed.overheads != overheads:
            self._ticketed = TicketedFleet(self, overheads)
        self._ticketed.refresh(tickets, self._changed)
        self._changed = {}
        return self._ticketed


class TicketedFleet(Fleet):
    """A fleet with the effects of its open tickets.

    The tickets' VMs are few, so they are an overlay: columns of the underlying fleet are patched at
    servers with tickets, and the maps of owners and VMs are looked up in the underlying fleet
    first.
    """

    def __init__(self, below: Fleet, overheads: Mapping[str, float]) -> None:
        self.below = below
        self.overheads = dict(overheads)
        self._held: dict[int, tuple[Sequence[Mapping[str, Any]], Record]] = {}
        self._signature: tuple[int, Any] | None = None
        self.version = 0

    def refresh(
        self, tickets: Mapping[str, Sequence[Mapping[str, object]]], changed: Mapping[int, None]
    ) -> None:
        """Process ``tickets``; ``changed`` servers of the underlying fleet have new records."""
        from vetro.compute.allocation.reservations import ticketed_record

        below = self.below
        position = below.position
        held: dict[int, tuple[Sequence[Mapping[str, object]], Record]] = {}
        same = self._signature == (below.version, len(self._held))
        for uuid, listed in tickets.items():
            at = position.get(uuid)
            if at is None or not listed:
                continue
            before = self._held.get(at)
            if before is not None and before[0] is listed and at not in changed:
                held[at] = before
            else:
                same = False
                held[at] = (listed, ticketed_record(below.records[at], listed, self.overheads))
        if same and len(held) == len(self._held):
            return
        self._held = held
        self._overlay()
        self._signature = (below.version, len(held))
        self.version += 1

    def _overlay(self) -> None:
        below = self.below
        where = np.fromiter(self._held, np.int64, len(self._held))
        new = [record for _, record in self._held.values()]
        self.uuids, self.names, self.position = below.uuids, below.names, below.position
        self.records = below.records.copy()
        self.columns = dict(below.columns)
        for at, record in zip(where.tolist(), new, strict=True):
            self.records[at] = record
        for slot, name in enumerate(VM_FACETS):
            items = [record.vm_facets[slot] for record in new]
            self.columns[name] = self.columns[name].patched(where, items)
        self.vm_counts = below.vm_counts.copy()
        self.vm_counts[where] = [record.vm_count for record in new]
        self.free_disk = below.free_disk
        self.platform_times = below.platform_times
        self.next_reboots, self.last_boots = below.next_reboots, below.last_boots
        self._where, self._new = where, new
        self._rooms = {}
        self._owners = {}
        self._places = {}
        for at, (_, record) in self._held.items():
            known = below.records[at]
            for uuid in record.vms:
                if uuid not in known.vms:
                    self._places[uuid] = at
            for owner, count in record.owners.items():
                extra = count - known.owners.get(owner, 0)
                if extra:
                    self._owners.setdefault(owner, {})[at] = extra

    def room(self, rule: CapacityRule) -> Room:
        """The resources that remain free once the tickets' VMs exist."""
        room = self._rooms.get(rule)
        if room is None:
            rows = [unreserved(record, rule) for record in self._new]
            room = self._rooms[rule] = self.below.room(rule).patched(self._where, rows)
        return room

    def hosts_of(self, vm_uuid: str) -> tuple[int, ...]:
        """Where a VM is or will be."""
        extra = self._places.get(vm_uuid)
        below = self.below.hosts_of(vm_uuid)
        if extra is None:
            return below
        return (*below, *((extra,) if isinstance(extra, int) else extra))

    def owned(self, owner: str) -> Mapping[int, int]:
        """How many VMs of ``owner`` each server has or will have."""
        extra = self._owners.get(owner)
        below = self.below.owned(owner)
        if not extra:
            return below
        return {at: below.get(at, 0) + extra.get(at, 0) for at in (*below, *extra)}

    def update(self, changed: Iterable[Server] = (), removed: Iterable[str] = ()) -> None:
        """Not supported: update the underlying fleet."""
        raise TypeError("a fleet with tickets is a view: update the fleet below")
