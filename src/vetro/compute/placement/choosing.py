"""Choosing a server: the allocator on the index of the database (allocation.md §1, §2).

The choice is made in memory and without any lock; the chosen room may be taken a moment later. So
``reserving.py`` checks it again when it is written.
"""

from __future__ import annotations

import asyncio
import uuid as uuids
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import structlog

from vetro.compute.allocation import (
    Allocator,
    Defaults,
    DefaultsError,
    Demand,
    InvalidRequest,
    Outcome,
    candidates_of,
    check_request,
    growth_description,
    named,
    read_defaults,
    seeded,
)
from vetro.compute.allocation.columns import Mask
from vetro.compute.placement.index import PlacementIndex, ServerViews, project_uuid
from vetro.compute.placement.neighbours import Homes, apart, wanted_by
from vetro.compute.settings import PlacementSettings
from vetro.compute.values.faults import invalid_parameters
from vetro.compute.values.records import Json, Record, is_reached, mapping, tunnel_address, without
from vetro.storage import Database, Transaction

log = structlog.get_logger(__name__)
#: The members of a VM that are logged: those that placement uses, never its metadata.
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
#: Whose a part of a VM is: room does not depend on it.
_NOBODY = "00000000-0000-0000-0000-000000000000"
MetadataSource = Callable[[Transaction], Awaitable[Mapping[str, Any]]]


@dataclass
class Placed:
    """A choice: the outcome, the VM's uuid, the server's record with what was computed for it."""

    outcome: Outcome
    vm_uuid: str
    server: Record | None
    #: The VM was there before: nothing was chosen.
    known: bool = False
    #: Servers that are excluded for every VM, and why: reported only when no server was chosen.
    left_out: dict[str, str] = field(default_factory=dict[str, str])


class Chooser:
    """The allocator of one service process, with the index it asks.

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
        self.allocator = self._make({})
        self.random = seeded(self.settings.seed) if self.settings.seed is not None else None
        #: One refresh at a time: the index changes across several awaits.
        self.turn = asyncio.Lock()

    def _make(self, metadata: Mapping[str, object]) -> Allocator:
        defaults = read_defaults(
            self.settings.change_defaults, metadata, profile=self.settings.profile
        )
        return Allocator(defaults, self.settings.description)

    @property
    def defaults(self) -> Defaults:
        """The defaults in force at the last request."""
        return self.allocator.defaults

    async def refresh(self, tx: Transaction) -> None:
        """Update the index and the defaults; the caller holds ``turn``."""
        await self.index.refresh(tx)
        if self._metadata is None:
            return
        given = await self._metadata(tx)
        if given != self._known:
            self._known = dict(given)
            try:
                self.allocator = self._make(given)
            except DefaultsError as error:
                # Checked when written; an invalid value from elsewhere must not stop the service.
                log.error("service_metadata_invalid", key=error.key, error=str(error))

    # --- choosing --------------------------------------------------------------------------

    def choose(
        self, body: Record, homes: Homes | None = None, *, reserve: bool, random: Json
    ) -> Outcome:
        """Choose for a request: among its `servers_only`, else its `servers_first`, else all.

        ``homes``: where its subnets are. Errors: 500 InvalidParameters.
        """
        barred = self.apart(body, homes)
        if barred:
            known = self.index.fleet.uuids if body.get("servers") is None else body["servers"]
            body = {
                **body,
                "servers": [one for one in map(str, known) if one.lower() not in barred],
            }
        only: list[str] = body.get("servers_only") or []
        outcome = None
        for first in (only,) if only else (body.get("servers_first") or [], None):
            if first is None or first:
                outcome = self._choose(body, first, reserve=reserve, random=random)
                if outcome.chosen is not None:
                    break
        assert outcome is not None
        self._log(body, outcome)
        return outcome

    def no_growth(self, server: str, uuid: str, brand: str, more: Demand) -> str:
        """Why a server has no room for a VM to grow by ``more``; empty: it has."""
        description = growth_description(
            memory=more.memory > 0, min_disk=self.defaults.filter_min_disk
        )
        vm: Record = {
            "vm_uuid": uuid, "owner_uuid": _NOBODY, "brand": brand,
            "ram": more.memory, "quota": more.disk / 1024, "cpu_cap": more.cpu or None,
        }  # fmt: skip
        outcome = Allocator(self.defaults, description).allocate(
            self.index.fleet,
            checked({"vm": vm, "image": {}}, reserve=True),
            tickets=self.index.tickets,
            candidates=named(self.index.fleet, [server]),
        )
        if outcome.chosen is not None:
            return ""
        return outcome.steps[-1].texts().get(server) or str(outcome.error)

    def _choose(
        self, body: Record, among: Sequence[str] | None, *, reserve: bool, random: Json
    ) -> Outcome:
        fleet = self.index.fleet
        servers: Json = body.get("servers")
        if among is not None:
            wanted = None if servers is None else {str(one).lower() for one in servers}
            servers = [one for one in among if wanted is None or one.lower() in wanted]
        outcome = None
        for batch in self._batches(servers, random):
            outcome = self.allocator.allocate(
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

    def apart(
        self, body: Record, homes: Homes | None, servers: Collection[str] | None = None
    ) -> dict[str, str]:
        """The servers (of some) that a request's subnets leave out, and why."""
        subnets = wanted_by(body)
        if not homes or not subnets:
            return {}
        known = self.index.fleet.position
        return apart(known if servers is None else servers, subnets, homes, self._is_reached)

    def _is_reached(self, uuid: str) -> bool:
        """Whether other servers reach one, for the tunnels of networks; an unknown one is no hindrance."""
        at = self.index.fleet.position.get(uuid)
        if at is None:
            return True
        return is_reached(
            tunnel_address(mapping(self.index.fleet.records[at].server.get("sysinfo")))
        )

    def placed(
        self, outcome: Outcome, uuid: str, body: Record, homes: Homes | None = None
    ) -> Placed:
        """The meaning of a choice, read while the index is unchanged."""
        if outcome.chosen is None:
            left_out = {**self.apart(body, homes), **self._left_out()}
            return Placed(outcome, uuid, None, left_out=left_out)
        record = self.index.fleet.records[self.index.fleet.position[outcome.chosen]]
        server = without(record.server, "vms")
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

    def _log(self, body: Record, outcome: Outcome) -> None:
        vm = cast("Record", body["vm"])
        candidates = outcome.steps[0].count
        short: Record = {"vm": vm.get("vm_uuid") or vm.get("uuid"), "candidates": candidates}
        if outcome.chosen is None:
            log.info("allocation_failed", error=outcome.error, **short)
        else:
            log.info("allocated", server=outcome.chosen, **short)
        log.debug(
            "allocation_steps",
            request={name: vm[name] for name in LOGGED if vm.get(name) is not None},
            package=body.get("package"),
            nic_tags=body.get("nic_tags"),
            tickets=sum(len(listed) for listed in self.index.tickets.values()),
            steps={step.title: step.count for step in outcome.steps},
        )


def checked(body: Record, *, reserve: bool) -> Json:
    """The request of a body, for one run (runs change it). Errors: 500 InvalidParameters.

    Room is reserved only where it was checked: a reservation without package counts as one of a
    package of the VM's own size.
    """
    vm = cast("Record", body["vm"])
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
            named=True,
        )
    except InvalidRequest as error:
        raise invalid_parameters({error.field: str(error)}) from error
