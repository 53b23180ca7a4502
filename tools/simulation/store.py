"""The database as a process sees it: real SQL on a real SQLite file, with virtual delays.

A statement runs at once, where it stands, and takes some virtual time before that, so that tasks of
all processes interleave there as the seed says. Writers take turns, readers see one moment, as on
SQLite. Notifications reach the own process at once and the others a little later, in any order.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.engine import Connection
from sqlalchemy.pool import NullPool

from simulation.loop import VirtualClock
from vetro.storage import DatabaseUnavailable
from vetro.storage.notify import Switchboard


class Files:
    """Connections to the file of the history at hand. The engine is shared: it knows its statements."""

    def __init__(self, template: Path, work: Path) -> None:
        self.template = template
        self.path = work / "history.db"
        self.engine = create_engine("sqlite://", poolclass=NullPool, creator=self._open)
        self._open_ones: list[Connection] = []

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA foreign_keys=ON")
        return connection

    def begin(self) -> None:
        """A new history, from the template."""
        self.end()
        shutil.copyfile(self.template, self.path)

    def end(self) -> None:
        """Close what is open and remove the file."""
        for connection in self._open_ones:
            connection.close()
        self._open_ones = []
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def connect(self) -> Connection:
        """A connection that lasts until the history ends."""
        connection = self.engine.connect()
        self._open_ones.append(connection)
        return connection


class Site:
    """What all processes share: the file, the turn to write, outages, who is notified."""

    def __init__(self, files: Files, chance: random.Random, clock: VirtualClock) -> None:
        self.files = files
        self.chance = chance
        self.clock = clock
        self.turn = asyncio.Lock()
        self.writer = files.connect()
        self.readers: list[Connection] = []
        self.databases: list[TwinDatabase] = []
        self.away_until = 0.0
        #: Told after every commit.
        self.on_commit: Callable[[Connection], None] = lambda _connection: None

    def away(self) -> bool:
        """Whether the database is unreachable now."""
        return self.clock.monotonic() < self.away_until

    async def pause(self) -> None:
        """The way to the database and back."""
        seconds = self.chance.expovariate(500)
        if self.chance.random() < 0.01:
            seconds += self.chance.random() * 0.3
        await asyncio.sleep(seconds)
        if self.away():
            raise DatabaseUnavailable("the simulated database is away")


class TwinTransaction:
    """One unit of work."""

    def __init__(self, site: Site, connection: Connection, *, read_only: bool) -> None:
        self.connection = connection
        self.read_only = read_only
        self.notifications: list[tuple[str, str]] = []
        self._site = site

    async def execute(self, statement: Any, parameters: Any = None) -> Any:
        """Run a statement."""
        await self._site.pause()
        return self.connection.execute(statement, parameters)

    async def exclude(self, *names: str) -> None:
        """A writer is alone."""

    def notify(self, channel: str, payload: str = "") -> None:
        """Wake listeners after the commit."""
        self.notifications.append((channel, payload))


class TwinDatabase:
    """The part of ``vetro.storage.Database`` that the stores use, for one process."""

    is_sqlite = True
    name = url = "sqlite:///simulated"

    def __init__(self, site: Site) -> None:
        self.site = site
        self.clock = site.clock
        self.switchboard = Switchboard()
        site.databases.append(self)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[TwinTransaction, None]:
        """A writing unit: alone, seen by others when it is committed."""
        async with self.site.turn:
            await self.site.pause()
            connection = self.site.writer
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            tx = TwinTransaction(self.site, connection, read_only=False)
            try:
                yield tx
                await self.site.pause()
            except BaseException:
                connection.rollback()
                raise
            connection.commit()
            self.site.on_commit(connection)
        self._deliver(tx.notifications)

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[TwinTransaction, None]:
        """A reading unit: one moment."""
        await self.site.pause()
        readers = self.site.readers
        connection = readers.pop() if readers else self.site.files.connect()
        connection.exec_driver_sql("BEGIN")
        try:
            yield TwinTransaction(self.site, connection, read_only=True)
        finally:
            connection.rollback()
            readers.append(connection)

    def steady_now(self) -> datetime:
        """The time for deadlines: the simulation's own, which nobody sets."""
        return self.clock.now()

    def listen(self, channel: str) -> Any:
        """Subscribe for a block."""
        return self.switchboard.listen(channel)

    async def notify(self, channel: str, payload: str = "") -> None:
        """Wake listeners without writing."""
        self._deliver([(channel, payload)])

    def _deliver(self, notifications: list[tuple[str, str]]) -> None:
        loop = asyncio.get_running_loop()
        for channel, payload in dict.fromkeys(notifications):
            for database in self.site.databases:
                if database is self:
                    database.switchboard.deliver(channel, payload)
                else:
                    delay = self.site.chance.expovariate(100)
                    loop.call_later(delay, database.switchboard.deliver, channel, payload)
