"""Results: stored, kept aside as dead letters, or refused and answered with an error.

The waiter for a result that cannot be stored gets an error at once: the guest will not send a
better one, and waiting would only end with the time-out.
"""

from __future__ import annotations

import asyncio
import uuid
from datetime import datetime
from typing import Any, cast

import msgspec
import structlog
from sqlalchemy import delete, insert, or_, select, update

from vetro.documents import DocumentError, read_json
from vetro.json_texts import NotJson, decode_json
from vetro.messaging import tables
from vetro.messaging.errors import MessageTooLarge
from vetro.messaging.transport import Progress, Unfinished
from vetro.storage import Database, Transaction

_log = structlog.get_logger(__name__)
_LETTER_BYTES = 65_536
_KEPT_CHARACTERS = 8_192
_READ_BYTES = 64 << 20
"""A larger result is not even parsed for its error message."""

ADVICE = "have the plan return less, or raise the setting mailbox.result_limit"


class MalformedResult(ValueError):
    """A result that is no JSON map or does not name its plan."""


class _Envelope(msgspec.Struct):
    """The members of a result that are parsed; the body is stored as it came."""

    SourceID: str | None = None
    Body: msgspec.Raw = msgspec.Raw(b"null")
    ErrorCode: Any = 0


class Results:
    """Stores results of at most ``limit`` bytes for the calls in the database."""

    def __init__(self, db: Database, limit: int) -> None:
        self._db = db
        self._limit = limit

    async def take(self, queue: str, body: bytes, message_id: str | None) -> None:
        """Store a guest's result; see `Mailboxes.accept_result`."""
        if len(body) > self._limit:
            raise MessageTooLarge("The result", len(body), self._limit, ADVICE)
        try:
            source = _read(body).SourceID or message_id
            if not source:
                raise MalformedResult("the result has no SourceID")
        except MalformedResult as error:
            _log.warning("result_malformed", queue=queue, error=str(error))
            text = f"The agent sent a result that cannot be read: {error}"
            await self._refuse(queue, message_id, "malformed", body, _failure(message_id, text))
            raise
        reason = await self._store(queue, source, body)
        if reason is not None:
            await self._bury(queue, source, reason, body)
            _log.warning("result_unused", queue=queue, message_id=source, reason=reason)

    async def take_large(self, queue: str, body: bytes, message_id: str | None) -> None:
        """Refuse a result over the limit; the waiter gets an error with the essential parts."""
        source, failure = await asyncio.to_thread(_too_large, body, message_id, self._limit)
        _log.warning("result_too_large", queue=queue, message_id=source, size=len(body))
        await self._refuse(queue, source, "too large", body, failure)

    async def _refuse(
        self, queue: str, source: str | None, reason: str, body: bytes, failure: dict[str, object]
    ) -> None:
        await self._bury(queue, source, reason, body)
        if source:
            await self._store(queue, source, msgspec.json.encode(failure))

    async def _store(self, queue: str, source: str, body: bytes) -> str | None:
        """Store a call's result (a second one is ignored); else the reason it cannot be used."""
        table = tables.calls
        async with self._db.transaction() as tx:
            found = await tx.execute(
                select(table.c.queue, table.c.result_at, table.c.discarded_at)
                .where(table.c.message_id == source)
                .with_for_update()
            )
            row = found.first()
            if row is None:
                return "unknown"
            if row.queue != queue:
                return "foreign"
            if row.result_at is None:
                await tx.execute(
                    update(table)
                    .where(table.c.message_id == source)
                    .values(
                        # A late result also shows that the plan has ended.
                        result=body if row.discarded_at is None else None,
                        result_at=self._db.steady_now(),
                    )
                )
                # A result proves that the plan arrived, even if its acknowledgement was lost.
                await tx.execute(delete(tables.plans).where(tables.plans.c.message_id == source))
                tx.notify(results_channel(source))
            return None if row.discarded_at is None else "late"

    async def _bury(self, queue: str, message_id: str | None, reason: str, body: bytes) -> None:
        async with self._db.transaction() as tx:
            await tx.execute(
                insert(tables.dead_letters).values(
                    queue=queue,
                    message_id=message_id[:255] if message_id else None,
                    reason=reason,
                    body=body[:_LETTER_BYTES],
                    received_at=self._db.clock.now(),
                )
            )


def results_channel(message_id: str) -> str:
    """The channel of the notification that a call has its result."""
    return f"mailbox/results/{message_id}"


def source_of(body: bytes, message_id: str | None) -> str | None:
    """The id of the plan that a result names; the message's id if it names none."""
    try:
        return _read(body).SourceID or message_id
    except MalformedResult:
        return message_id


def _read(body: bytes) -> _Envelope:
    try:
        return decode_json(body, _Envelope)
    except NotJson as error:
        raise MalformedResult(f"the result is not a JSON map with a SourceID: {error}") from error


def _failure(
    source: str | None, message: str, code: int = 1, additional: object = None
) -> dict[str, object]:
    """An error result as an agent would have sent it."""
    return {
        "FormatVersion": "2.0.0",
        "ID": uuid.uuid4().hex,
        "SourceID": source,
        "Action": "Execution:Result",
        "ErrorCode": code,
        "Body": {"Message": message, "AdditionalInfo": additional},
    }


def _too_large(
    body: bytes, message_id: str | None, limit: int
) -> tuple[str | None, dict[str, object]]:
    """The id of the plan of a large result, and the error result in its place.

    It keeps the error code, the message, the exit code and the ends of the outputs.
    """
    text = f"The result has {len(body)} bytes, more than the limit of {limit}: {ADVICE}"
    if len(body) > _READ_BYTES:
        return message_id, _failure(message_id, text)
    try:
        envelope = _read(body)
    except MalformedResult:
        return message_id, _failure(message_id, text)
    source = envelope.SourceID or message_id
    code = envelope.ErrorCode if isinstance(envelope.ErrorCode, int) else 1
    try:
        content: object = read_json(bytes(envelope.Body))
    except DocumentError:
        return source, _failure(source, text, code or 1)
    if not isinstance(content, dict):
        return source, _failure(source, text, code or 1)
    values = cast("dict[str, object]", content)
    if code and values.get("Message"):
        text = f"{_end(str(values['Message']))} ({text})"
    outcome: object = values.get("AdditionalInfo") if code else values
    return source, _failure(source, text, code or 1, _ends(outcome))


def _ends(outcome: object) -> dict[str, object] | None:
    """Exit code and ends of the outputs of a script's outcome; None for anything else."""
    if not isinstance(outcome, dict) or "exitCode" not in outcome:
        return None
    values = cast("dict[str, object]", outcome)
    kept = {key: values.get(key) for key in ("exitCode", "stdout", "stderr")}
    return {key: _end(value) if isinstance(value, str) else value for key, value in kept.items()}


def _end(text: str) -> str:
    left_out = len(text) - _KEPT_CHARACTERS
    return (
        text
        if left_out <= 0
        else f"[the first {left_out} characters are left out]\n" + text[left_out:]
    )


async def progress_of(tx: Transaction, message_id: str, now: datetime) -> Progress:
    """See `MessageTransport.progress`. An unknown message counts as in its mailbox."""
    calls = tables.calls
    found = await tx.execute(select(calls).where(calls.c.message_id == message_id))
    call = found.first()
    if call is None:
        return Progress("mailbox")
    before = await unfinished_of(tx, call.queue, now, before=call.sent_at)
    return Progress("mailbox" if call.acknowledged_at is None else "guest", tuple(before))


async def unfinished_of(
    tx: Transaction, queue: str, now: datetime, *, before: datetime | None = None
) -> list[Unfinished]:
    """The plans that a guest has not answered, oldest first; only those sent ``before``."""
    calls, plans = tables.calls, tables.plans
    unfetched = select(plans.c.message_id).where(plans.c.queue == queue)
    wanted = select(calls).where(
        calls.c.queue == queue,
        calls.c.result_at.is_(None),
        # A plan withdrawn from the mailbox has not reached the guest and will not.
        or_(calls.c.acknowledged_at.is_not(None), calls.c.message_id.in_(unfetched)),
    )
    if before is not None:
        wanted = wanted.where(calls.c.sent_at < before)
    rows = await tx.execute(wanted.order_by(calls.c.sent_at))
    return [_unfinished(row, now) for row in rows]


def _unfinished(row: Any, now: datetime) -> Unfinished:
    awaited = row.discarded_at is None and row.expires_at is not None and row.expires_at > now
    return Unfinished(row.message_id, row.name or row.message_id, row.sent_at, awaited)
