"""Placement: the allocator on the service's database (allocation.md §1).

Choosing is done in memory and without any lock; reserving is done in a transaction that first looks
whether the chosen server is still as it was when it was chosen. If it is not, the choice is made
again. So any number of processes allocate side by side, and none gives away room that is gone.
"""

from __future__ import annotations

import asyncio
import uuid as uuids
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import structlog
from sqlalchemy import delete, insert, select, text

from vetro.compute.allocation import (
    Allocator,
    CapacityOutcome,
    Defaults,
    DefaultsError,
    DescriptionError,
    InvalidRequest,
    Outcome,
    candidates_of,
    check_request,
    named,
    read_defaults,
    request_of,
    seeded,
)
from vetro.compute.allocation.columns import Mask
from vetro.compute.faults import invalid_parameters
from vetro.compute.placement_index import PlacementIndex, ServerViews, changes, project_uuid
from vetro.compute.tables import vms
from vetro.http import Fault
from vetro.storage import Database, Transaction

log = structlog.get_logger(__name__)
Body = dict[str, Any]
Json = Any
#: Choices made without a lock before one is made under it.
FREE_TRIES = 4
LOCK = 7239152311
#: What of a VM is logged: what it is placed by, never its metadata.
LOGGED = (
    "vm_uuid",
    "uuid",
    "owner_uuid",
    "brand",
    "ram",
    "quota",
    "cpu_cap",
    "vcpus",
    "traits",
    "locality",
    "affinity",
    "nic_tags",
    "nic_tag_requirements",
)
MetadataSource = Callable[[Transaction], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True)
class PlacementSettings:
    """``dapi.*`` of the configuration.

    ``change_defaults`` as ``dapi.changeDefaults``; ``description`` as ``dapi.allocationDescription``;
    ``batch_size`` servers are considered at once (0: all); ``seed`` makes choices repeatable.
    """

    change_defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    description: Sequence[Any] | None = None
    profile: str = "seed"
    batch_size: int = 0
    seed: int | str | None = None

    def problem(self) -> str:
        """Why a service cannot start with these; empty when it can (allocation.md §2, §4)."""
        try:
            Allocator(read_defaults(self.change_defaults, profile=self.profile), self.description)
        except (DefaultsError, DescriptionError) as error:
            return str(error)
        return ""


@dataclass
class Placed:
    """A choice: the outcome, the VM's uuid, the server's record with what was computed for it."""

    outcome: Outcome
    vm_uuid: str
    server: Body | None
    #: The VM was there before: nothing was chosen.
    known: bool = False
    #: Servers that are not considered for any VM, and why: said only when nothing was chosen.
    left_out: dict[str, str] = field(default_factory=dict[str, str])


class Placement:
    """Allocation and capacity for one service process.

    Errors at construction: ``DefaultsError``, ``DescriptionError``: the service does not start.
    """

    def __init__(
        self,
        database: Database,
        servers: ServerViews,
        settings: PlacementSettings | None = None,
        metadata: MetadataSource | None = None,
    ) -> None:
        """``metadata`` gives the service's ``ALLOC_…`` keys; it is asked for every request."""
        self.database = database
        self.settings = settings or PlacementSettings()
        self.index = PlacementIndex(database, servers)
        self._metadata = metadata
        self._known: Mapping[str, Any] = {}
        self._allocator = self._make({})
        self._random = seeded(self.settings.seed) if self.settings.seed is not None else None
        # One refresh at a time: the index is changed in several awaits.
        self._turn = asyncio.Lock()

    def _make(self, metadata: Mapping[str, Any]) -> Allocator:
        defaults = read_defaults(
            self.settings.change_defaults, metadata, profile=self.settings.profile
        )
        return Allocator(defaults, self.settings.description)

    @property
    def defaults(self) -> Defaults:
        """The defaults in force at the last request."""
        return self._allocator.defaults

    async def _refresh(self, tx: Transaction) -> None:
        await self.index.refresh(tx)
        if self._metadata is None:
            return
        given = await self._metadata(tx)
        if given != self._known:
            self._known = dict(given)
            try:
                self._allocator = self._make(given)
            except DefaultsError as error:
                # Checked when it was written; what got there another way must not stop everything.
                log.error("the service's metadata cannot be used", key=error.key, error=str(error))

    # --- allocate --------------------------------------------------------------------------

    async def allocate(self, body: Body) -> Placed:
        """Choose a server; with ``reserve`` hold the room under the VM's uuid.

        ``reserve`` true holds it until the VM is made or destroyed; ``reserve_seconds`` for that
        long. Asked again for a VM that has its place, the answer is that place. Errors:
        500 InvalidParameters.
        """
        vm = cast("Body", body["vm"])
        uuid = str(vm.get("vm_uuid") or vm.get("uuid") or uuids.uuid4())
        seconds = body.get("reserve_seconds")
        reserve = bool(body.get("reserve")) or seconds is not None
        if seconds is not None and (
            isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0
        ):
            raise invalid_parameters({"reserve_seconds": "value was not a number greater than 0"})
        random = self._random
        if body.get("seed") is not None:
            random = seeded(body["seed"])
        if not reserve:
            async with self._turn:
                async with self.database.read() as tx:
                    await self._refresh(tx)
                outcome = self._choose(body, reserve=False, random=random)
                return self._placed(outcome, uuid)
        until = None
        if seconds is not None:
            until = self.database.clock.now() + timedelta(seconds=float(seconds))
        return await self._reserve(body, uuid, until, random)

    async def _reserve(self, body: Body, uuid: str, until: datetime | None, random: Json) -> Placed:
        for tried in range(FREE_TRIES + 1):
            async with self._turn:
                await self._drop_overdue()
                if tried < FREE_TRIES:
                    async with self.database.read() as tx:
                        await self._refresh(tx)
                        placed_before = self.index.fleet.hosts_of(uuid)
                        known = await self._home(tx, uuid) if placed_before else None
                    if known is not None:
                        return known
                    outcome = self._choose(body, reserve=True, random=random)
                    if outcome.chosen is None:
                        return self._placed(outcome, uuid)
                    stamp = self.index.stamps[outcome.chosen]
                    placed = self._placed(outcome, uuid)
                else:
                    # Others are always quicker: choose while nobody else may.
                    return await self._reserve_alone(body, uuid, until, random)
            async with self.database.transaction() as tx:
                if not self.database.is_sqlite:
                    await tx.execute(text(f"SELECT pg_advisory_xact_lock_shared({LOCK})"))
                await tx.exclude(f"vm {uuid}")
                known = await self._home(tx, uuid)
                if known is not None:
                    return known
                if await self._stamp(tx, outcome.chosen) == stamp:
                    await self._hold(tx, uuid, outcome.chosen, body, until)
                    return placed
            log.debug("a chosen server has changed: choosing again", server=outcome.chosen)
            self.index.doubt()
        raise AssertionError("the last try returns")

    async def _reserve_alone(
        self, body: Body, uuid: str, until: datetime | None, random: Json
    ) -> Placed:
        async with self.database.transaction() as tx:
            if not self.database.is_sqlite:
                await tx.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
            await tx.exclude(f"vm {uuid}")
            known = await self._home(tx, uuid)
            if known is not None:
                return known
            while True:
                await self._refresh(tx)
                outcome = self._choose(body, reserve=True, random=random)
                if outcome.chosen is None:
                    return self._placed(outcome, uuid)
                stamp = self.index.stamps[outcome.chosen]
                # Nodes and tickets may still change the server; no other reservation can.
                if await self._stamp(tx, outcome.chosen) == stamp:
                    await self._hold(tx, uuid, outcome.chosen, body, until)
                    return self._placed(outcome, uuid)
                self.index.doubt()

    async def _stamp(self, tx: Transaction, server: str) -> int | None:
        query = select(changes.c.stamp).where(changes.c.server_uuid == server).with_for_update()
        row = (await tx.execute(query)).first()
        return None if row is None else int(row.stamp)

    async def _home(self, tx: Transaction, uuid: str) -> Placed | None:
        row = (await tx.execute(select(vms.c.server_uuid).where(vms.c.uuid == uuid))).first()
        if row is None:
            return None
        records = await self.index.servers.views(tx, [row.server_uuid])
        return Placed(Outcome(row.server_uuid, []), uuid, records[0] if records else None, True)

    async def _hold(
        self, tx: Transaction, uuid: str, server: str, body: Body, until: datetime | None
    ) -> None:
        vm = cast("Body", body["vm"])
        demand = request_of(vm, cast("Body | None", body.get("package")))
        assert not isinstance(demand, tuple), "the request was checked"
        details: Body = {
            name: vm[name]
            for name in ("brand", "tags", "docker", "internal_metadata")
            if vm.get(name) is not None
        }
        if until is not None:
            details["reserved_until"] = until.isoformat()
        await tx.execute(
            insert(vms).values(
                uuid=uuid,
                server_uuid=server,
                owner_uuid=demand.owner_uuid,
                alias=vm.get("alias"),
                state="allocated",
                memory_mib=demand.memory,
                quota_gib=-(-demand.disk // 1024),
                cpu_cap=demand.cpu,
                vm=details,
                created=self.database.clock.now(),
            )
        )

    async def _drop_overdue(self) -> None:
        overdue = self.index.overdue(self.database.clock.now())
        if not overdue:
            return
        async with self.database.transaction() as tx:
            rows = await tx.execute(
                select(vms.c.uuid, vms.c.vm)
                .where(vms.c.uuid.in_(overdue), vms.c.state == "allocated")
                .with_for_update()
            )
            # Looked at again: it may have been renewed or made into a VM meanwhile.
            ended = [row.uuid for row in rows if (row.vm or {}).get("reserved_until")]
            await tx.execute(delete(vms).where(vms.c.uuid.in_(ended)))
        for uuid in overdue:
            self.index.reserved_until.pop(uuid, None)

    # --- choosing --------------------------------------------------------------------------

    def _choose(self, body: Body, *, reserve: bool, random: Json) -> Outcome:
        fleet = self.index.fleet
        servers: Json = body.get("servers")
        outcome = None
        for batch in self._batches(servers, random):
            outcome = self._allocator.allocate(
                fleet,
                checked(body, reserve=reserve),
                tickets=self.index.tickets,
                candidates=batch,
                shuffle=True,
                random=random,
            )
            if outcome.chosen is not None:
                break
        assert outcome is not None
        self._log(body, outcome)
        return outcome

    def _batches(self, servers: Json, random: Json) -> list[Mask]:
        fleet = self.index.fleet
        wanted = None if servers is None else [str(one).lower() for one in servers]
        mask = candidates_of(fleet, headnodes=not self.defaults.filter_headnode, servers=wanted)
        size = self.settings.batch_size
        if size <= 0 or int(mask.sum()) <= size:
            return [mask]
        source = random or seeded(uuids.uuid4().int)
        order = source.permutation(len(fleet))
        order = order[mask[order]].tolist()
        uuid_of = fleet.uuids
        return [
            named(fleet, [str(uuid_of[at]) for at in order[start : start + size]])
            for start in range(0, len(order), size)
        ]

    def _placed(self, outcome: Outcome, uuid: str) -> Placed:
        if outcome.chosen is None:
            return Placed(outcome, uuid, None, left_out=self._left_out())
        record = self.index.fleet.records[self.index.fleet.position[outcome.chosen]]
        server = {name: value for name, value in record.server.items() if name != "vms"}
        return Placed(outcome, uuid, {**server, **outcome.properties()})

    def _left_out(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for record in self.index.fleet.records:
            server = record.server
            if not server.get("setup"):
                found[record.uuid] = "Server has not been set up"
            elif server.get("reserved"):
                found[record.uuid] = "Server is reserved"
            elif server.get("headnode") and self.defaults.filter_headnode:
                found[record.uuid] = "Server is a headnode"
        return found

    def _log(self, body: Body, outcome: Outcome) -> None:
        vm = cast("Body", body["vm"])
        candidates = outcome.steps[0].count
        short: Body = {"vm": vm.get("vm_uuid") or vm.get("uuid"), "candidates": candidates}
        if outcome.chosen is None:
            log.info("nothing to allocate", error=outcome.error, **short)
        else:
            log.info("allocated", server=outcome.chosen, **short)
        log.debug(
            "how it was allocated",
            request={name: vm[name] for name in LOGGED if vm.get(name) is not None},
            package=body.get("package"),
            nic_tags=body.get("nic_tags"),
            tickets=sum(len(listed) for listed in self.index.tickets.values()),
            steps={step.title: step.count for step in outcome.steps},
        )

    # --- capacity --------------------------------------------------------------------------

    async def capacity(self, servers: Sequence[str] | None = None) -> CapacityOutcome:
        """What is left on the servers that are set up (§1.2), reserved ones and headnodes too."""
        async with self._turn:
            async with self.database.read() as tx:
                await self._refresh(tx)
            fleet = self.index.fleet
            mask = fleet.columns["setup"].judge("flag", lambda flag: None if flag else "").mask
            if servers is not None:
                mask = mask & named(fleet, [one.lower() for one in servers])
            return self._allocator.capacity(fleet, mask)

    async def with_capacity(self, records: Sequence[Body]) -> list[Body]:
        """Server records with what a capacity run leaves on them (compute-node-api.md §3)."""
        found = await self.capacity([str(record["uuid"]) for record in records])
        shown: list[Body] = []
        for record in records:
            left = found.capacities.get(str(record["uuid"]))
            whole: Body = {**record, "score": 0}
            if left is not None:
                whole |= {f"unreserved_{name}": value for name, value in left.items()}
                if found.ratios is not None:
                    whole["overprovision_ratios"] = dict(found.ratios)
            shown.append(whole)
        return shown


def checked(body: Body, *, reserve: bool) -> Json:
    """The request of a body, for one run (runs change it). Errors: 500 InvalidParameters.

    Room is reserved only where it was checked: a reservation without package counts as one of a
    package of the VM's own size.
    """
    vm = cast("Body", body["vm"])
    vm = {**vm, "owner_uuid": project_uuid(vm.get("owner_uuid"))}
    package: Json = body.get("package")
    if reserve and package is None:
        package = {"max_physical_memory": vm.get("ram"), "cpu_cap": vm.get("cpu_cap")}
    try:
        return check_request(
            vm=vm,
            image=body.get("image"),
            package=package,
            servers=body.get("servers"),
            nic_tags=body.get("nic_tags"),
            nic_tag_requirements=body.get("nic_tag_requirements"),
        )
    except InvalidRequest as error:
        raise invalid_parameters({error.field: str(error)}) from error


def no_place(placed: Placed) -> Fault:
    """409 with the reason and the steps (§1.1); ours: who was not considered at all, and why."""
    outcome = placed.outcome
    return Fault(
        str(outcome.error),
        status=409,
        type_=str(outcome.code),
        extra={"steps": outcome.steps_json(), "not_considered": placed.left_out},
    )
