"""Receives PostgreSQL notifications on a connection of its own, and reconnects when it is lost."""

from __future__ import annotations

import asyncio

import psycopg
import structlog
from psycopg import sql

from vetro.storage.notify import Switchboard, decode
from vetro.storage.urls import patience

log = structlog.get_logger(__name__)
RETRY_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)

Connection = psycopg.AsyncConnection[tuple[object, ...]]


class PostgresListener:
    """``LISTEN`` on one channel; passes notifications to the switchboard."""

    def __init__(self, url: str, channel: str, switchboard: Switchboard) -> None:
        self._url = url
        self._channel = channel
        self._switchboard = switchboard
        self._task: asyncio.Task[None] | None = None
        self._connection: Connection | None = None

    async def start(self) -> None:
        """Connect and listen; returns once notifications are received."""
        self._connection = await self._connect()
        self._task = asyncio.create_task(self._run(), name="postgres-listener")

    async def stop(self) -> None:
        """Stop receiving and close the connection; stopping again does nothing."""
        task, self._task = self._task, None
        # The driver uses wait_for, which before Python 3.12 swallows a cancellation that comes
        # together with a notification: one cancellation may not be enough.
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=1.0)
        # Close it here: a task that is cancelled before its first step closes nothing.
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _connect(self) -> Connection:
        connection = await psycopg.AsyncConnection.connect(
            self._url,
            autocommit=True,
            application_name="vetro-listener",
            # Without keep-alives a connection that only listens never notices that the server is
            # gone.
            keepalives=1,
            keepalives_idle=30,
            keepalives_interval=10,
            **patience(self._url),
        )
        try:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _run(self) -> None:
        while True:
            assert self._connection is not None
            try:
                async for notification in self._connection.notifies():
                    message = decode(notification.payload)
                    if message is not None:
                        self._switchboard.deliver(*message)
            except psycopg.Error as error:
                log.warning("notification_connection_lost", error=str(error))
            await self._connection.close()
            await self._reconnect()
            # Notifications sent meanwhile are lost: all subscribers re-read the database once.
            self._switchboard.wake_all()

    async def _reconnect(self) -> None:
        attempt = 0
        while True:
            await asyncio.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])
            try:
                self._connection = await self._connect()
                return
            except psycopg.Error as error:
                attempt += 1
                log.warning("notification_database_unreachable", error=str(error))
