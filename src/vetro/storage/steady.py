"""A time for deadlines that nobody can set (docs/decisions/0170).

A wall clock is set forward and back, by time servers and by people. A stored deadline that is compared with
it then ends early, or never. So deadlines are compared with the time since the machine was started, which
all processes of a machine share and nobody sets. To make it comparable between machines, and with
deadlines stored before a restart of the machine, the database remembers for each run of a machine when it
began by the clock of that moment (on PostgreSQL: the server's): the first process that migrates the
database in that run writes it, all others read it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, inspect, select, update

from vetro.storage.clock import Clock, SystemClock
from vetro.storage.tables import boots, leased_work

if TYPE_CHECKING:
    from vetro.storage.database import Transaction


class SteadyTime:
    """The steady clock of one database. Until it was agreed on, the wall clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: datetime | None = None

    def now(self) -> datetime:
        """The time, for deadlines only: after the wall clock was set, it differs from that."""
        if self._began is None:
            return self._clock.now()
        return self._began + timedelta(seconds=self._clock.since_boot())

    def read(self, connection: Connection) -> None:
        """Read when this run of the machine began, if that was agreed on."""
        if not inspect(connection).has_table(boots.name):
            return
        mine = select(boots.c.began_at).where(boots.c.boot_id == self._clock.boot_id())
        row = connection.execute(mine).first()
        self._began = row.began_at if row is not None else None

    async def agree(self, tx: Transaction) -> None:
        """Agree with the other processes of this machine on when it was started."""
        await tx.connection.run_sync(self.read)
        if self._began is not None:
            return
        server = tx.connection.dialect.name == "postgresql" and isinstance(self._clock, SystemClock)
        now = self._clock.now()
        if server:
            now = (await tx.execute(select(func.clock_timestamp()))).scalar_one()
        began = now - timedelta(seconds=self._clock.since_boot())
        await tx.execute(insert(boots).values(boot_id=self._clock.boot_id(), began_at=began))
        if not server and isinstance(self._clock, SystemClock):
            # A file belongs to one machine: whoever held work before it was started is dead.
            await tx.execute(update(leased_work).values(owner=None, expires_at=None))
        self._began = began
