"""Placement: what is asked of the allocator on the service's database (allocation.md §1)."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import cast

from vetro.compute.allocation import CapacityOutcome, Defaults, Demand, named, seeded
from vetro.compute.allocation.wording import UUID_ANY
from vetro.compute.placement.choosing import (
    Chooser,
    MetadataSource,
    Placed,
    PlacementSettings,
    checked,
)
from vetro.compute.placement.disk_sizes import has_disks, refuse_small_disks
from vetro.compute.placement.index import PlacementIndex, ServerViews, Supposed
from vetro.compute.placement.neighbours import SUBNETS, homes_of, subnets_of
from vetro.compute.placement.reserving import Reservations
from vetro.compute.values.faults import conflict, invalid_parameters
from vetro.compute.values.records import Record, mapping
from vetro.http import Fault
from vetro.quotas import Quotas
from vetro.storage import Database, Transaction

__all__ = ["Placed", "Placement", "PlacementSettings", "Supposed", "checked", "no_place"]


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
        quotas: Quotas | None = None,
    ) -> None:
        """``metadata`` gives the service's ``ALLOC_…`` keys; it is asked for every request.

        ``quotas``: how much projects may have; without them any amount.
        """
        self.database = database
        self.chooser = Chooser(database, servers, settings, metadata)
        self.reservations = Reservations(self.chooser, quotas)

    @property
    def index(self) -> PlacementIndex:
        """What choices are made from."""
        return self.chooser.index

    @property
    def defaults(self) -> Defaults:
        """The defaults in force at the last request."""
        return self.chooser.defaults

    async def allocate(
        self,
        body: Record,
        *,
        near: Sequence[str] = (),
        only: Sequence[str] = (),
        ports: Sequence[str] = (),
        counted: bool = True,
        supposed: Supposed | None = None,
    ) -> Placed:
        """Choose a server; with ``reserve`` hold the room under the VM's uuid.

        ``reserve`` true holds it until the VM is made or destroyed; ``reserve_seconds`` for that
        long. Asked again for a VM that has its place, the answer is that place. ``near``: servers
        to choose from if one of them has room, ``only``: servers to choose from alone. ``ports``: the
        VM's, whose networks leave servers out that cannot be in them. ``counted``
        false: the room is for a VM that its project's quotas count already: it has its disks.
        ``supposed``: what a question that reserves nothing supposes of other VMs, for servers and quotas
        alike. Errors: 403 for a quota, 422 for a disk smaller than its image's, 500 InvalidParameters.
        """
        subnets: list[str] = []
        if ports:
            async with self.database.read() as tx:
                subnets = await subnets_of(tx, ports)
        if counted and has_disks(cast("Record", body["vm"])):
            async with self.database.read() as tx:
                image = mapping(body.get("image")).get("uuid")
                await refuse_small_disks(tx, cast("Record", body["vm"]), image)
        body = {
            **body,
            SUBNETS: subnets,
            "servers_first": list(near),
            "servers_only": list(only),
            "counted": counted,
        }
        vm = cast("Record", body["vm"])
        uuid = str(vm.get("vm_uuid") or vm.get("uuid") or uuids.uuid4())
        seconds = body.get("reserve_seconds")
        if seconds is not None and (
            isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0
        ):
            raise invalid_parameters({"reserve_seconds": "value was not a number greater than 0"})
        random = self.chooser.random
        if body.get("seed") is not None:
            random = seeded(body["seed"])
        if not body.get("reserve") and seconds is None:
            # It is about room for a VM that is made later, and is answered as its reservation will be.
            as_held, supposed = supposed is not None, supposed or Supposed()
            async with self.chooser.turn:
                async with self.database.read() as tx:
                    await self.chooser.refresh(tx)
                    await self.reservations.check_quotas(tx, body, supposed)
                    homes = await homes_of(tx, subnets, supposed.without)
                with self.index.supposing(supposed):
                    outcome = self.chooser.choose(body, homes, reserve=as_held, random=random)
                    return self.chooser.placed(outcome, uuid, body, homes)
        if supposed is not None:
            raise invalid_parameters(
                {"reserve": "room cannot be held for what is only supposed: leave out"
                 " 'without' and 'beside', or 'reserve' and 'reserve_seconds'"}
            )  # fmt: skip
        if not UUID_ANY.match(uuid):
            raise invalid_parameters({"vm": '"vm.uuid" is an invalid UUID'})
        until = None
        if seconds is not None:
            try:
                until = self.database.steady_now() + timedelta(seconds=float(seconds))
            except OverflowError:
                raise invalid_parameters({"reserve_seconds": "value was too large"}) from None
        return await self.reservations.reserve(body, uuid.lower(), until, random)

    def alone(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction during which nobody else reserves room: for `check_growth`, and what it allows."""
        return self.reservations.alone()

    async def check_growth(
        self, tx: Transaction, server: str, uuid: str, brand: str, more: Demand
    ) -> None:
        """Refuse what a VM on a server is to grow by when there is no room; ``tx`` is of `alone`.

        Errors: 409.
        """
        await self.chooser.refresh(tx)
        why = self.chooser.no_growth(server, uuid, brand, more)
        if why:
            raise conflict(
                f"VM {uuid} cannot grow on server {server}: {why}. Ask for less, move the VM"
                " to a server with room ('vetro vm migrate'), or make room there"
            )

    # --- capacity --------------------------------------------------------------------------

    async def capacity(self, servers: Sequence[str] | None = None) -> CapacityOutcome:
        """The free resources of the servers that are set up (§1.2), reserved ones and headnodes too."""
        async with self.chooser.turn:
            async with self.database.read() as tx:
                await self.chooser.refresh(tx)
            fleet = self.index.fleet
            mask = fleet.columns["setup"].judge("flag", lambda flag: None if flag else "").mask
            if servers is not None:
                mask = mask & named(fleet, [one.lower() for one in servers])
            return self.chooser.allocator.capacity(fleet, mask)

    async def with_capacity(self, records: Sequence[Record]) -> list[Record]:
        """Server records with what a capacity run leaves on them (compute-node-api.md §3)."""
        found = await self.capacity([str(record["uuid"]) for record in records])
        shown: list[Record] = []
        for record in records:
            left = found.capacities.get(str(record["uuid"]))
            whole: Record = {**record, "score": 0}
            if left is not None:
                whole |= {f"unreserved_{name}": value for name, value in left.items()}
                if found.ratios is not None:
                    whole["overprovision_ratios"] = dict(found.ratios)
            shown.append(whole)
        return shown


def no_place(placed: Placed, why: str = "") -> Fault:
    """409 with the reason and the steps (§1.1); ours: who was not considered at all, and why."""
    outcome = placed.outcome
    return Fault(
        f"{outcome.error}; {why}" if why else str(outcome.error),
        status=409,
        type_=str(outcome.code),
        extra={"steps": outcome.steps_json(), "not_considered": placed.left_out},
    )
