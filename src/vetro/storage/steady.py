"""A time for deadlines that nobody can set (docs/decisions/0170).

A wall clock is set forward and back, by time servers and by people. A stored deadline that is compared with
it then ends early, or never. So deadlines are compared with the time since the machine was started, which
all processes of a machine share and nobody sets. To make it comparable between machines, and with
deadlines stored before a restart of the machine, the database remembers for each run of a machine when it
began by the clock of that moment (on PostgreSQL: the server's): the first process that migrates the
database in that run writes it, all others read it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, inspect, select, update

from vetro.storage.clock import Clock, SystemClock
from vetro.storage.tables import boots, leased_work

if TYPE_CHECKING:
    from vetro.storage.units import Transaction


class SteadyTime:
    """The steady time of one database. Until it was agreed on with a clock, that clock's wall time."""

    def __init__(self) -> None:
        self._clock: Clock | None = None
        self._began = datetime.now(UTC)

    def now(self, clock: Clock) -> datetime:
        """The time, for deadlines only: after the wall clock was set, it differs from that."""
        if self._clock is not clock:
            return clock.now()
        return self._began + timedelta(seconds=clock.since_boot())

    def read(self, connection: Connection, clock: Clock) -> None:
        """Read when this run of the machine began, if that was agreed on."""
        if not inspect(connection).has_table(boots.name):
            return
        mine = select(boots.c.began_at).where(boots.c.boot_id == clock.boot_id())
        row = connection.execute(mine).first()
        if row is not None:
            self._clock, self._began = clock, row.began_at

    async def agree(self, tx: Transaction, clock: Clock) -> None:
        """Agree with the other processes of this machine on when it was started."""
        await tx.connection.run_sync(self.read, clock)
        if self._clock is clock:
            return
        server = tx.connection.dialect.name == "postgresql" and isinstance(clock, SystemClock)
        now = clock.now()
        if server:
            now = (await tx.execute(select(func.clock_timestamp()))).scalar_one()
        began = now - timedelta(seconds=clock.since_boot())
        await tx.execute(insert(boots).values(boot_id=clock.boot_id(), began_at=began))
        if not server and isinstance(clock, SystemClock):
            # A file belongs to one machine: every holder of work from before its start is dead.
            await tx.execute(update(leased_work).values(owner=None, expires_at=None))
        self._clock, self._began = clock, began
