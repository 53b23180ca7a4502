"""Signals: what a guest reports to a handle over a signed address (core-library.md §9).

A handle has one address, `…/agents/v1/signals/HANDLE?signature=…`; everybody who knows it may signal, which
is why a template can hand it to a machine that has no other credential. The signature is a keyed
digest of the handle's name, so the address is the same however often it is asked for; the database
has its hash only. It ends with the handle.

Channel: `signals/<handle>` (a signal has come).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import delete, func, insert, select, update

from vetro.documents import DocumentError, read_json
from vetro.json_values import Json
from vetro.messaging import tables
from vetro.messaging.credentials import Credentials, token_hash
from vetro.messaging.errors import MalformedSignal, TooManySignals
from vetro.storage import Database, Transaction, await_until, insert_if_new

PATH = "/agents/v1/signals"
SIGNAL_LIMIT = 65_536
"""Bytes that a signal may have."""
MOST_SIGNALS = 1_000
"""Signals that a handle keeps: those with an id that it has replace the former one."""
STATUSES = ("SUCCESS", "FAILURE")


@dataclass(frozen=True, slots=True)
class Signal:
    """What a guest has reported. ``id`` distinguishes several guests of one handle."""

    id: str
    status: str
    reason: str
    data: Json


class Signals:
    """The handles of an installation, in its database; any process may wait.

    ``service_url``: the service as guests reach it.
    """

    def __init__(self, db: Database, credentials: Credentials, service_url: str = "") -> None:
        self._db = db
        self._credentials = credentials
        self._service_url = service_url.rstrip("/")

    def at(self, service_url: str) -> Signals:
        """The same handles, with addresses at ``service_url``."""
        return Signals(self._db, self._credentials, service_url)

    async def open(self, handle: str, project_id: str) -> str:
        """The handle's address, always the same; makes the handle if it does not exist."""
        async with self._db.transaction() as tx:
            signature = _signature(await self._credentials.key(tx), handle)
            fresh = {
                "handle": handle,
                "project_id": project_id,
                "token_hash": token_hash(signature),
                "created_at": self._db.clock.now(),
            }
            await insert_if_new(tx, tables.handles, fresh)
        return f"{self._service_url}{PATH}/{handle}?signature={signature}"

    async def close(self, handle: str) -> None:
        """Forget a handle with its signals. Idempotent."""
        async with self._db.transaction() as tx:
            for table in (tables.signals, tables.handles):
                await tx.execute(delete(table).where(table.c.handle == handle))

    async def admits(self, handle: str, signature: str) -> bool:
        """Whether there is such a handle and the signature is its own."""
        async with self._db.read() as tx:
            found = await tx.execute(
                select(tables.handles.c.token_hash).where(tables.handles.c.handle == handle)
            )
            known = found.scalar_one_or_none()
        return known is not None and hmac.compare_digest(known, token_hash(signature))

    async def take(self, handle: str, body: bytes) -> Signal:
        """Store a signal. Raises `MalformedSignal`, `TooManySignals`."""
        given = _read(body)
        table = tables.signals
        async with self._db.transaction() as tx:
            # One signal of a handle at a time, so that each gets its own number.
            await tx.execute(
                select(tables.handles.c.handle)
                .where(tables.handles.c.handle == handle)
                .with_for_update()
            )
            counted = await tx.execute(
                select(func.count()).select_from(table).where(table.c.handle == handle)
            )
            number = counted.scalar_one()
            signal_id = given.id or str(number + 1)
            mine = (table.c.handle == handle) & (table.c.signal_id == signal_id)
            values = {
                "status": given.status,
                "reason": given.reason,
                "data": given.data,
                "received_at": self._db.clock.now(),
            }
            changed = await tx.execute(update(table).where(mine).values(**values))
            if not changed.rowcount:
                if number >= MOST_SIGNALS:
                    raise TooManySignals(
                        f"The handle has {MOST_SIGNALS} signals, which is as many as it keeps;"
                        " signal again with an id that it knows"
                    )
                await tx.execute(insert(table).values(handle=handle, signal_id=signal_id, **values))
            tx.notify(_channel(handle))
        return Signal(signal_id, given.status, given.reason, given.data)

    async def received(self, handle: str) -> list[Signal]:
        """The signals of a handle, oldest first."""
        table = tables.signals
        async with self._db.read() as tx:
            rows = await tx.execute(
                select(table)
                .where(table.c.handle == handle)
                .order_by(table.c.received_at, table.c.signal_id)
            )
            return [Signal(row.signal_id, row.status, row.reason, row.data) for row in rows]

    async def wait(
        self, handle: str, enough: Callable[[Sequence[Signal]], bool], timeout: float
    ) -> list[Signal]:
        """The signals as soon as they are ``enough``, or those there are after ``timeout`` seconds."""

        async def look() -> list[Signal] | None:
            found = await self.received(handle)
            return found if enough(found) else None

        found = await await_until(self._db, _channel(handle), look, timeout)
        return await self.received(handle) if found is None else found

    async def forget_failures(self, handle: str) -> None:
        """Drop the failures that were reported to a handle: they have been handled."""
        table = tables.signals
        async with self._db.transaction() as tx:
            await tx.execute(
                delete(table).where(table.c.handle == handle, table.c.status == "FAILURE")
            )


async def forget_of_project(tx: Transaction, project_id: str) -> None:
    """Delete a project's handles with their signals."""
    mine = select(tables.handles.c.handle).where(tables.handles.c.project_id == project_id)
    await tx.execute(delete(tables.signals).where(tables.signals.c.handle.in_(mine)))
    await tx.execute(delete(tables.handles).where(tables.handles.c.project_id == project_id))


def _channel(handle: str) -> str:
    return f"signals/{handle}"


def _signature(key: bytes, handle: str) -> str:
    digest = hmac.new(key, f"signal\n{handle}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _read(body: bytes) -> Signal:
    """A signal in either spelling: `status, reason, data, id` or CFN's `Status, …, UniqueId`.

    An empty body is a success.
    """
    try:
        found = read_json(body or b"{}")
    except DocumentError as error:
        raise MalformedSignal(f"The signal is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise MalformedSignal("The signal is not a map with status, reason, data and id")
    given = cast("dict[str, Json]", found)
    status = given.get("status", given.get("Status", "SUCCESS"))
    if status not in STATUSES:
        raise MalformedSignal(
            f"The status of the signal is {status!s:.40}; use one of {', '.join(STATUSES)}"
        )
    identifier = given.get("id", given.get("UniqueId"))
    name = "" if identifier is None else str(identifier)
    if len(name) > 255:
        raise MalformedSignal("The id of the signal has more than 255 characters")
    reason = given.get("reason", given.get("Reason"))
    data = given.get("data", given.get("Data", ""))
    return Signal(
        name, str(status), "" if reason is None else str(reason), "" if data is None else data
    )
