"""Heartbeats: kept in memory, written only when something changes (compute-node-api.md §5.1).

Every service instance remembers when it heard from which server. A check of that memory (every 5 s)
writes an entry for servers that are new to the instance and marks those that fell silent. The entry
in the database says which instance heard from a server and since when; an instance that finds a
newer entry of another is *usurped* and forgets the server: a stale instance never overwrites.

Entries are not renewed with each heartbeat (10,000 nodes would be 2,000 writes a second). So an
instance that has not heard from a server for a while first *asks* the others: an instance that does
writes its entry, and the asking one finds itself usurped before the server's time is over.

Servers whose entry names a dead instance have no instance that would notice their silence: the
others adopt them, as a starting instance adopts all running servers.

What is remembered is a moment of the monotonic clock, so that a wall clock that jumps neither silences
every server at once nor keeps a silent one running. Entries need a time that instances share: they carry
that moment in the database's steady time. By their own wall clocks, an instance whose clock is ahead would
call a server silent that another one hears, and set it to unknown again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
import structlog
from sqlalchemy import ColumnElement, insert, or_, select, update

from vetro.compute.tables import instances, servers, status
from vetro.compute.values.records import without
from vetro.compute.values.silence import FENCED
from vetro.compute.wire import HEARTBEAT_LIFETIME_SECONDS, RECONCILE_SECONDS
from vetro.http import counter, gauge
from vetro.storage import Database, StorageError, Transaction, watch

log = structlog.get_logger(__name__)

LIFETIME = timedelta(seconds=HEARTBEAT_LIFETIME_SECONDS)
#: A node that is not set up has no agent that sends heartbeats yet.
UNSETUP_LIFETIME = timedelta(seconds=90)
#: An instance that was not seen for this long is considered dead.
INSTANCE_LIFETIME = timedelta(seconds=20)
#: One heartbeat was missed: time to ask the other instances.
ASK_AFTER = timedelta(seconds=6)
ASKS_BETWEEN_LOOKS = 3
ASK_CHANNEL = "compute/who-hears"
SERVERS_CHANNEL = "compute/servers"
#: Two readings of one moment, and the clocks of two machines, differ by less than this.
SLACK = timedelta(milliseconds=100)
CHUNK = 200
GATHER_SECONDS = 0.2
ASK_LIMIT = 150  # a notification carries at most 7900 bytes

SERVERS = gauge("heartbeating_servers_count", "Servers that this service hears from.")
NEW = counter("reconciler_new_heartbeaters", "Servers that were new to this service.")
STALE = counter("reconciler_stale_heartbeaters", "Servers that fell silent.")
USURPED = counter("reconciler_usurped_heartbeaters", "Servers that another service hears from now.")
SERVER_PUT = counter("reconciler_server_put", "Writes of a server's status.")
SERVER_PUT_ETAG_FAILURES = counter(
    "reconciler_server_put_etag_failures", "Such writes that another overtook."
)
SERVER_PUT_FAILURES = counter("reconciler_server_put_failures", "Such writes that failed.")
STATUS_PUT = counter("reconciler_status_put", "Writes of a status entry.")
STATUS_PUT_ETAG_FAILURES = counter(
    "reconciler_status_put_etag_failures", "Such writes that another overtook."
)
STATUS_PUT_FAILURES = counter("reconciler_status_put_failures", "Such writes that failed.")
#: The seed's name of the same.
STATUS_FAILURES = counter(
    "reconciler_status_failures", "The same as `reconciler_status_put_failures_total`."
)


@dataclass(slots=True)
class Beat:
    """When a server was heard last (``at``, monotonic), whether its entry is ours, whether others
    were asked.

    ``heard`` is false for what the instance only read at its start: ``at`` is then no heartbeat.
    """

    at: float
    written: bool = False
    asked: bool = False
    heard: bool = True
    lifetime: timedelta = LIFETIME

    def stale(self, now: float) -> bool:
        """Whether the server was silent for too long at a moment of the monotonic clock."""
        return self.at < now - self.lifetime.total_seconds()

    def quiet(self, now: float) -> bool:
        """Whether a heartbeat was missed."""
        return self.at <= now - ASK_AFTER.total_seconds()


class Heartbeats:
    """The memory of one service instance, and its looks at it."""

    def __init__(self, database: Database, instance: str) -> None:
        self.database = database
        self.instance = instance
        self._observed: dict[str, Beat] = {}
        self._checked = -math.inf
        self._wake = asyncio.Event()
        self._looking = asyncio.Lock()

    def beat(self, uuid: str) -> None:
        """Record a heartbeat; changes memory only."""
        now = self.database.clock.monotonic()
        beat = self._observed.get(uuid)
        if beat is None:
            self._observed[uuid] = Beat(now)
            self._wake.set()
        else:
            beat.at = now
            beat.asked = False
            beat.lifetime = LIFETIME
            if not beat.heard:
                beat.heard, beat.written = True, False
                self._wake.set()

    def registered(self, uuid: str, *, setup: bool) -> None:
        """Record a sysinfo, which also proves that the server is alive.

        A node that is not set up may have no agent yet that sends heartbeats: it is given 90 s (§5).
        """
        if self.alive(uuid):
            return
        self.forget(uuid)
        self.beat(uuid)
        if not setup:
            self._observed[uuid].lifetime = UNSETUP_LIFETIME

    def last(self, uuid: str) -> datetime | None:
        """When this instance last heard from a server; ``None`` if never."""
        beat = self._observed.get(uuid)
        if beat is None or not beat.heard:
            return None
        return self.database.clock.now() - self._age(beat)

    def _age(self, beat: Beat) -> timedelta:
        return timedelta(seconds=self.database.clock.monotonic() - beat.at)

    def _moment(self, beat: Beat) -> datetime:
        """When that was, for entries."""
        return self.database.steady_now() - self._age(beat)

    def alive(self, uuid: str) -> bool:
        """Whether a heartbeat arrived within the lifetime."""
        beat = self._observed.get(uuid)
        return beat is not None and beat.heard and not beat.stale(self.database.clock.monotonic())

    def forget(self, uuid: str) -> None:
        """Forget a server."""
        self._observed.pop(uuid, None)

    def __len__(self) -> int:
        return len(self._observed)

    async def load(self) -> None:
        """At start: a server marked as running must send a heartbeat or becomes ``unknown``."""
        async with self.database.read() as tx:
            running = list(
                await tx.execute(
                    select(servers.c.uuid, status.c.last_heartbeat)
                    .outerjoin(status, status.c.server_uuid == servers.c.uuid)
                    .where(servers.c.status == "running")
                )
            )
        for row in running:
            self._adopt(row.uuid, row.last_heartbeat)

    def _adopt(self, uuid: str, entry: datetime | None) -> None:
        """Watch a server that only other instances hear from: without a heartbeat it becomes
        ``unknown``."""
        # Entries are not renewed, so an old one says nothing: others are asked before the time is
        # over. A later entry than this one is from an instance that hears from the server.
        age = ASK_AFTER
        if entry is not None:
            age = min(age, max(self.database.steady_now() - entry, timedelta()))
        at = self.database.clock.monotonic() - age.total_seconds()
        self._observed.setdefault(uuid, Beat(at, written=True, heard=False))

    async def look(self) -> list[str]:
        """Check the memory once; the servers that became ``unknown``.

        An error with some servers does not keep the others from being checked; an error of the
        database is raised without loss: the next check finds everything again.
        """
        async with self._looking:
            now = self.database.clock.monotonic()
            new: list[str] = []
            stale: list[str] = []
            for uuid, beat in self._observed.items():
                if beat.stale(now):
                    stale.append(uuid)
                elif not beat.written:
                    new.append(uuid)
            await self.ask()
            gone: list[str] = []
            for chunk in _chunks([*new, *stale]):
                gone += await self._settle(chunk, now)
            await self._reassert(now)
            SERVERS.set(len(self._observed))
            return gone

    async def ask(self) -> None:
        """Ask the others about servers that are silent here, once each.

        Between looks too: a look every 5 s alone may come just before a server is quiet and then just
        after its time is over, and would call a server silent that another instance hears.
        """
        now = self.database.clock.monotonic()
        await self._ask(
            [
                uuid
                for uuid, beat in self._observed.items()
                if beat.quiet(now) and not beat.asked and not beat.stale(now)
            ]
        )

    async def _ask(self, quiet: Sequence[str]) -> None:
        for chunk in _chunks(quiet, ASK_LIMIT):
            body = msgspec.json.encode([self.instance, chunk]).decode()
            await self.database.notify(ASK_CHANNEL, body)
            for uuid in chunk:
                if uuid in self._observed:
                    self._observed[uuid].asked = True

    async def _settle(self, chunk: Sequence[str], now: float) -> list[str]:
        try:
            return await self._write(chunk, now)
        except StorageError as error:
            if isinstance(error, OSError | TimeoutError):
                raise  # the database is unavailable
            failure: Exception = error
        except Exception as error:  # noqa: BLE001 - one server's trouble must not stop the look
            failure = error
        if len(chunk) > 1:
            gone: list[str] = []
            for uuid in chunk:
                gone += await self._settle([uuid], now)
            return gone
        log.error("heartbeat_not_stored", server=chunk[0], exc_info=failure)
        STATUS_PUT_FAILURES.inc()
        STATUS_FAILURES.inc()
        self.forget(chunk[0])
        return []

    async def _write(self, chunk: Sequence[str], now: float) -> list[str]:
        """One transaction for many servers: their entries, then their status."""
        new: list[str] = []
        stale: list[str] = []
        usurped: list[str] = []
        async with self.database.transaction() as tx:
            found = await tx.execute(
                select(status).where(status.c.server_uuid.in_(chunk)).with_for_update()
            )
            stored = {row.server_uuid: row for row in found}
            for uuid in sorted(chunk):
                beat = self._observed.get(uuid)
                if beat is None:
                    continue
                entry = stored.get(uuid)
                if entry is not None and self._newer(entry.last_heartbeat, beat):
                    if entry.instance != self.instance:
                        usurped.append(uuid)
                        continue
                    if not beat.stale(now):
                        log.error("status_entry_ahead", server=uuid)
                        beat.written = True
                        continue
                await self._put(tx, uuid, beat, entry is not None)
                (stale if beat.stale(now) else new).append(uuid)
            back = await self._set_running(tx, new)
            gone = await self._set_unknown(tx, stale)
        # The memory is updated only after the commit.
        for uuid in new:
            if uuid in self._observed:
                self._observed[uuid].written = True
        for uuid in stale:
            self.forget(uuid)
        for uuid in usurped:
            log.info("server_reports_to_other_instance", server=uuid)
            self.forget(uuid)
        NEW.inc(len(new))
        STALE.inc(len(stale))
        USURPED.inc(len(usurped))
        for uuid in back:
            log.info("server_returned", server=uuid)
        for uuid in gone:
            log.warning("server_silent", server=uuid)
        return gone

    def _newer(self, entry: datetime, beat: Beat) -> bool:
        """Whether an entry has a later heartbeat than ours."""
        if entry > self.database.steady_now() + LIFETIME:
            return False  # of the future: of an earlier run of a machine whose clock was ahead
        return entry > self._moment(beat) + SLACK

    async def _put(self, tx: Transaction, uuid: str, beat: Beat, known: bool) -> None:
        if not beat.heard:
            return  # without a heartbeat there is no time to compare
        STATUS_PUT.inc()
        values = {"instance": self.instance, "last_heartbeat": self._moment(beat)}
        if known:
            await tx.execute(update(status).where(status.c.server_uuid == uuid).values(**values))
        else:
            await tx.execute(insert(status).values(server_uuid=uuid, **values))

    async def _set_running(self, tx: Transaction, uuids: Sequence[str]) -> list[str]:
        """Mark servers with heartbeats as running; returns those that were not before."""
        if not uuids:
            return []
        found = await tx.execute(
            select(servers.c.uuid, servers.c.extra, servers.c.status)
            .where(servers.c.uuid.in_(uuids), servers.c.status != "running")
            .with_for_update()
        )
        back: list[str] = []
        for row in found.all():
            # Who said that the machine is off was speaking of what is over.
            extra = without(row.extra, FENCED)
            if row.status == "unknown" and extra.get("transitional_status") == "rebooting":
                del extra["transitional_status"]
            SERVER_PUT.inc()
            await tx.execute(
                update(servers)
                .where(servers.c.uuid == row.uuid)
                .values(status="running", extra=extra)
            )
            tx.notify(SERVERS_CHANNEL, row.uuid)
            back.append(row.uuid)
        return back

    async def _set_unknown(self, tx: Transaction, uuids: Sequence[str]) -> list[str]:
        if not uuids:
            return []
        changed = await tx.execute(
            update(servers)
            .where(servers.c.uuid.in_(uuids), servers.c.status == "running")
            .values(status="unknown")
            .returning(servers.c.uuid)
        )
        gone = [row.uuid for row in changed]
        for uuid in gone:
            SERVER_PUT.inc()
            tx.notify(SERVERS_CHANNEL, uuid)
        return gone

    async def _reassert(self, now: float) -> None:
        """Mark a server that is heard here as running, whatever another instance has written.

        Also adopt running servers whose instance is dead.
        """
        if now - self._checked < LIFETIME.total_seconds():
            return
        self._checked = now
        living = select(instances.c.name).where(seen_lately(self.database.steady_now()))
        async with self.database.read() as tx:
            rows = await tx.execute(select(servers.c.uuid).where(servers.c.status != "running"))
            wrong = [row.uuid for row in rows if self.alive(row.uuid)]
            orphans = await tx.execute(
                select(servers.c.uuid, status.c.last_heartbeat)
                .outerjoin(status, status.c.server_uuid == servers.c.uuid)
                .where(
                    servers.c.status == "running",
                    or_(status.c.instance.is_(None), status.c.instance.not_in(living)),
                )
            )
            for row in orphans:
                self._adopt(row.uuid, row.last_heartbeat)
        for chunk in _chunks(wrong):
            async with self.database.transaction() as tx:
                await self._set_running(tx, chunk)

    async def watch(self) -> None:
        """Look every 5 s, and at once when another instance's question needs an answer."""
        answering = asyncio.create_task(self._answer(), name="heartbeat questions")
        try:
            while True:
                try:
                    for _ in range(ASKS_BETWEEN_LOOKS):
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(RECONCILE_SECONDS / ASKS_BETWEEN_LOOKS):
                                await self._wake.wait()
                            break
                        await self.ask()
                    # Cleared before the check: a question that arrives during it needs another
                    # check.
                    self._wake.clear()
                    await self.look()
                except (OSError, TimeoutError) as error:
                    log.warning("heartbeats_wait_for_database", error=str(error))
                # Many servers that are new at once are written together.
                await asyncio.sleep(GATHER_SECONDS)
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)

    async def _answer(self) -> None:
        """Queue servers another instance asks about: the next check writes their entries."""

        async def answer(questions: set[str] | None) -> None:
            for question in questions or ():
                self.answer(question)

        await watch(self.database, ASK_CHANNEL, answer)

    def answer(self, question: str) -> None:
        """Take a question; servers that are heard here are written at the next look."""
        try:
            asker, uuids = msgspec.json.decode(question, type=tuple[str, list[str]])
        except msgspec.DecodeError:
            return
        if asker == self.instance:
            return
        now = self.database.clock.monotonic()
        for uuid in uuids:
            beat = self._observed.get(uuid)
            if beat is not None and beat.heard and not beat.quiet(now):
                beat.written = False
                self._wake.set()


def seen_lately(now: datetime) -> ColumnElement[bool]:
    """Whether an instance lives, by the steady time; a time in the future is of an earlier start of the
    machine."""
    return instances.c.seen.between(now - INSTANCE_LIFETIME, now + INSTANCE_LIFETIME)


def _chunks(uuids: Iterable[str], size: int = CHUNK) -> list[list[str]]:
    listed = list(uuids)
    return [listed[at : at + size] for at in range(0, len(listed), size)]
