"""Holding room for VMs: several requests, one transaction (allocation.md §1).

Requests that arrive while one round is written wait for the next, which handles them all: it reads
the changes once, chooses for one request after another (each sees the room taken by the previous
ones) and writes the choices in one transaction. That transaction first checks that every chosen
server is unchanged since it was chosen. A request whose server has changed chooses again in the
next round; after several failures it chooses under a lock. So any number of processes allocate side
by side, and none hands out room that is taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

import structlog
from sqlalchemy import bindparam, delete, insert, select, text

from vetro.compute.allocation import Outcome, request_of
from vetro.compute.placement.choosing import Chooser, Json, Placed
from vetro.compute.placement.index import VM_DETAILS, Supposed, changes
from vetro.compute.placement.neighbours import SUBNETS, Homes, homes_of, wanted_by
from vetro.compute.tables import vms
from vetro.compute.values.project_use import cores_of, held_by
from vetro.compute.values.records import Record, text_of
from vetro.quotas import Gate, QuotaExceeded, Quotas
from vetro.storage import Transaction

log = structlog.get_logger(__name__)
#: Choices made without a lock before one is made under it.
FREE_TRIES = 4
#: Requests of one round: some tens of milliseconds of choosing.
MOST = 64
LOCK = 7239152311
_SHARED = text("SELECT pg_advisory_xact_lock_shared(:number)")
_ALONE = text("SELECT pg_advisory_xact_lock(:number)")
# Locked in one order, so that two rounds never wait for each other in a circle.
_STAMPS = (
    select(changes)
    .where(changes.c.server_uuid.in_(bindparam("servers", expanding=True)))
    .order_by(changes.c.server_uuid)
    .with_for_update()
)
_HOMES = select(vms.c.uuid, vms.c.server_uuid).where(
    vms.c.uuid.in_(bindparam("uuids", expanding=True))
)
_HOLD = insert(vms)


@dataclass
class _Asked:
    """A request for room, and the future of its answer."""

    body: Record
    uuid: str
    until: datetime | None
    random: Json
    answer: asyncio.Future[Placed]
    #: The asker's: what is logged while choosing is about this request.
    context: Context = field(default_factory=copy_context)
    tries: int = 0

    def resolve(self, placed: Placed) -> None:
        """Answer, if the caller still waits."""
        if not self.answer.done():
            self.answer.set_result(placed)

    def fail(self, error: BaseException) -> None:
        """Answer with an error, if the caller still waits."""
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(frozen=True)
class _Choice:
    """A choice of this round: the row it becomes, the stamp its server had."""

    asked: _Asked
    placed: Placed
    server: str
    stamp: int
    row: Record


class Reservations:
    """Room held by this service process."""

    def __init__(self, chooser: Chooser, quotas: Quotas | None = None) -> None:
        self.chooser = chooser
        self.quotas = quotas
        self.database = chooser.database
        self._waiting: list[_Asked] = []
        self._worker: asyncio.Task[None] | None = None

    async def reserve(
        self, body: Record, uuid: str, until: datetime | None, random: Json = None
    ) -> Placed:
        """Choose a server and hold the room under the VM's uuid, for a time or until its creation.

        A VM that has its place keeps it. A caller who is cancelled before the room is written holds
        nothing; later, asking again gives the same place. Errors: 403 for a quota, 500
        InvalidParameters, storage's.
        """
        loop = asyncio.get_running_loop()
        asked = _Asked(body, uuid, until, random, loop.create_future())
        self._waiting.append(asked)
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work(), name="reservations", context=Context())
        return await asked.answer

    async def settled(self) -> None:
        """Wait until nothing is under way."""
        while self._worker is not None and not self._worker.done():
            await asyncio.wait({self._worker})

    async def _work(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            try:
                later = await self._round(asked)
            except asyncio.CancelledError:
                for one in (*asked, *self._waiting):
                    one.answer.cancel()
                raise
            except Exception as error:  # noqa: BLE001 - reported to the caller
                for one in asked:
                    one.fail(error)
            else:
                # They arrived first.
                self._waiting[:0] = later

    async def _round(self, asked: list[_Asked]) -> list[_Asked]:
        """Answer these requests; returns those that must try again."""
        for one in asked:
            if one.tries >= FREE_TRIES:
                try:
                    one.resolve(await self._reserve_alone(one))
                except Exception as error:  # noqa: BLE001 - the caller gets it
                    one.fail(error)
        asked = [one for one in asked if not one.answer.done()]
        if not asked:
            return []
        async with self.chooser.turn:
            await self._drop_overdue()
            async with self.database.read() as tx:
                await self.chooser.refresh(tx)
                hosts_of = self.chooser.index.fleet.hosts_of
                known = await self._homes(tx, [one.uuid for one in asked if hosts_of(one.uuid)])
                # A choice that a quota would refuse waits for no other; `_write` decides.
                new = [one for one in asked if one.uuid not in known]
                gate = await self._gate(tx, new, waiting=False)
                for one in new:
                    _admitted(gate, one)
                homes = await homes_of(tx, _subnets(new))
            choices, later = await self._choose(asked, known, homes)
        if choices:
            later += await self._write(choices)
        return later

    async def _choose(
        self, asked: Iterable[_Asked], known: Mapping[str, Placed], homes: Homes
    ) -> tuple[list[_Choice], list[_Asked]]:
        """Choose for one after another; also returns those that must wait for the next round."""
        choices: list[_Choice] = []
        later: list[_Asked] = []
        chosen: set[str] = set()
        for one in asked:
            if one.uuid in known:
                one.resolve(known[one.uuid])
            elif one.uuid in chosen:
                later.append(one)  # asked twice at once: the second finds what the first gets
            elif not one.answer.done():
                try:
                    choice = one.context.run(self._choice, one, homes)
                except Exception as error:  # noqa: BLE001 - the caller gets it
                    one.fail(error)
                    continue
                if isinstance(choice, _Choice):
                    choices.append(choice)
                    _settle(homes, choice)
                    chosen.add(one.uuid)
                elif choices:
                    # There may be room if other requests of this round do not get theirs.
                    later.append(one)
                else:
                    one.resolve(choice)
                await asyncio.sleep(0)  # others are served between two choices
        return choices, later

    def _choice(self, one: _Asked, homes: Homes) -> _Choice | Placed:
        """Choose for a request and count it in; without a server, the answer to return."""
        index = self.chooser.index
        outcome = self.chooser.choose(one.body, homes, reserve=True, random=one.random)
        placed = self.chooser.placed(outcome, one.uuid, one.body, homes)
        if outcome.chosen is None:
            return placed
        choice = _Choice(
            one,
            placed,
            outcome.chosen,
            index.stamps[outcome.chosen],
            self._row(one, outcome.chosen),
        )
        index.hold(choice.row)
        return choice

    async def _write(self, choices: Sequence[_Choice]) -> list[_Asked]:
        """Write the choices that are still valid; returns the requests that must choose again."""
        index = self.chooser.index
        good: list[_Choice] = []
        try:
            async with self.database.transaction() as tx:
                if not self.database.is_sqlite:
                    await tx.execute(_SHARED, {"number": LOCK})
                subnets = _subnets(one.asked for one in choices)
                await tx.exclude(
                    *(f"vm {one.asked.uuid}" for one in choices),
                    *(f"placement in {subnet}" for subnet in subnets),
                )
                known = await self._homes(tx, [one.asked.uuid for one in choices])
                homes = await homes_of(tx, subnets)
                gate = await self._gate(tx, [one.asked for one in choices])
                before = await self._stamps(tx, choices)
                for one in choices:
                    if (
                        one.asked.uuid not in known
                        and before.get(one.server) == one.stamp
                        and not self.chooser.apart(one.asked.body, homes, [one.server])
                        and _admitted(gate, one.asked)
                    ):
                        good.append(one)
                        _settle(homes, one)
                after: dict[str, int] = {}
                if good:
                    await tx.execute(_HOLD, [one.row for one in good])
                    after = await self._stamps(tx, good)
        except BaseException as error:
            index.mistrust({one.server for one in choices})
            if len(choices) == 1 or not isinstance(error, Exception) or _is_outage(error):
                raise
            # One of them cannot be written: it must not fail the others.
            log.warning("reservations_written_singly", error=str(error))
            for one in choices:
                one.asked.tries = FREE_TRIES
            return [one.asked for one in choices]
        written = {id(one) for one in good}
        kept = {one.server for one in good}
        index.mistrust({one.server for one in choices if id(one) not in written})
        for server in kept:
            index.settle(server, before[server], after[server])
        later: list[_Asked] = []
        for one in choices:
            asked = one.asked
            if id(one) in written:
                if asked.until is not None:
                    index.reserved_until[asked.uuid] = asked.until
                asked.resolve(one.placed)
            elif asked.uuid in known:
                asked.resolve(known[asked.uuid])
            elif not asked.answer.done():
                log.debug("chosen_server_changed", server=one.server)
                asked.tries += 1
                later.append(asked)
        return later

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[Transaction, None]:
        """A transaction during which no other one, of any process, reserves room."""
        async with self.chooser.turn, self.database.transaction() as tx:
            if not self.database.is_sqlite:
                await tx.execute(_ALONE, {"number": LOCK})
            yield tx

    async def _reserve_alone(self, one: _Asked) -> Placed:
        """Choose while no other process reserves: earlier choices were always outdated."""
        chooser = self.chooser
        index = chooser.index
        async with self.alone() as tx:
            await tx.exclude(f"vm {one.uuid}")
            known = await self._homes(tx, [one.uuid])
            if known:
                return known[one.uuid]
            (await self._gate(tx, [one])).admit(*_asks(one.body))
            homes = await homes_of(tx, wanted_by(one.body))
            while True:
                await chooser.refresh(tx)
                outcome: Outcome = one.context.run(
                    chooser.choose, one.body, homes, reserve=True, random=one.random
                )
                placed = chooser.placed(outcome, one.uuid, one.body, homes)
                if outcome.chosen is None:
                    return placed
                row = self._row(one, outcome.chosen)
                stamps = await self._stamps(tx, [outcome.chosen])
                # Nodes and tickets may still change the server; no other reservation can.
                if stamps.get(outcome.chosen) == index.stamps[outcome.chosen]:
                    await tx.execute(_HOLD, [row])
                    return placed
                index.doubt()

    async def check_quotas(self, tx: Transaction, body: Record, supposed: Supposed) -> None:
        """Refuse a request that would exceed a quota; nothing is held. Errors: 403."""
        if self.quotas is None:
            return
        owner, asks = _asks(body)
        gate = await self.quotas.gate(tx, [owner], waiting=False)
        if supposed.without:
            gate.give_back(owner, await held_by(tx, owner, supposed.without))
        for _, vm in supposed.beside:
            gate.admit(*_asks({"vm": vm}))
        gate.admit(owner, asks)

    async def _gate(
        self, tx: Transaction, asked: Iterable[_Asked], *, waiting: bool = True
    ) -> Gate:
        """The remaining quota of the projects of these requests."""
        if self.quotas is None:
            return Gate()
        owners = {_asks(one.body)[0] for one in asked}
        return await self.quotas.gate(tx, owners, waiting=waiting)

    async def _stamps(self, tx: Transaction, chosen: Iterable[_Choice | str]) -> dict[str, int]:
        """The stamps of servers, locked until the transaction ends."""
        servers = {one if isinstance(one, str) else one.server for one in chosen}
        rows = await tx.execute(_STAMPS, {"servers": sorted(servers)})
        return {row.server_uuid: int(row.stamp) for row in rows}

    async def _homes(self, tx: Transaction, uuids: Sequence[str]) -> dict[str, Placed]:
        """The places of VMs that have one."""
        if not uuids:
            return {}
        rows = list(await tx.execute(_HOMES, {"uuids": uuids}))
        if not rows:
            return {}
        views = await self.chooser.index.servers.views(
            tx, sorted({row.server_uuid for row in rows})
        )
        records = {record["uuid"]: record for record in views}
        return {
            row.uuid: Placed(
                Outcome(row.server_uuid, []), row.uuid, records.get(row.server_uuid), True
            )
            for row in rows
        }

    def _row(self, one: _Asked, server: str) -> Record:
        vm = cast("Record", one.body["vm"])
        demand = request_of(vm, cast("Record | None", one.body.get("package")))
        assert not isinstance(demand, tuple), "the request was checked"
        details: Record = {name: vm[name] for name in VM_DETAILS if vm.get(name) is not None}
        if wanted_by(one.body):
            details[SUBNETS] = wanted_by(one.body)
        if one.until is not None:
            details["reserved_until"] = one.until.isoformat()
        return {
            "uuid": one.uuid,
            "server_uuid": server,
            "owner_uuid": demand.owner_uuid,
            "alias": text_of(vm.get("alias")) or None,
            "state": "allocated",
            "memory_mib": demand.memory,
            "quota_gib": -(-demand.disk // 1024),
            "cpu_cap": demand.cpu,
            "vm": details,
            "created": self.database.clock.now(),
            "counted": bool(one.body.get("counted", True)),
        }

    async def _drop_overdue(self) -> None:
        index = self.chooser.index
        overdue = index.overdue(self.database.steady_now())
        if not overdue:
            return
        async with self.database.transaction() as tx:
            rows = await tx.execute(
                select(vms.c.uuid, vms.c.vm)
                .where(vms.c.uuid.in_(overdue), vms.c.state == "allocated")
                .with_for_update()
            )
            # Checked again: it may have been renewed or turned into a VM meanwhile.
            ended = [row.uuid for row in rows if (row.vm or {}).get("reserved_until")]
            await tx.execute(delete(vms).where(vms.c.uuid.in_(ended)))
        for uuid in overdue:
            index.reserved_until.pop(uuid, None)


def _subnets(asked: Iterable[_Asked]) -> set[str]:
    """The subnets that requests name."""
    return {subnet for one in asked for subnet in wanted_by(one.body)}


def _settle(homes: Homes, choice: _Choice) -> None:
    """Count in a choice: those after it agree with it."""
    for subnet in wanted_by(choice.asked.body):
        homes[subnet].add(choice.server)


def _asks(body: Record) -> tuple[str, dict[str, int]]:
    """The project of a request, and what it asks for of the resources that quotas limit."""
    demand = request_of(cast("Record", body["vm"]), cast("Record | None", body.get("package")))
    if isinstance(demand, tuple) or not body.get("counted", True):
        return "", {}  # what is wrong with it is said when a server is chosen
    asks = {"instances": 1, "cores": cores_of(demand.cpu), "memory": demand.memory}
    return demand.owner_uuid, asks


def _admitted(gate: Gate, one: _Asked) -> bool:
    """Whether a request that still waits is within its project's quotas; else its caller gets the refusal."""
    if one.answer.done():
        return False
    try:
        gate.admit(*_asks(one.body))
    except QuotaExceeded as error:
        one.fail(error)
        return False
    return True


def _is_outage(error: Exception) -> bool:
    """Whether the error concerns the database and not the values to write."""
    return isinstance(error, (OSError, TimeoutError))
