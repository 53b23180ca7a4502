"""The AMQP transport: plans and results go over a broker (guest-agent.md §2).

The mailbox in the service's database stays authoritative, as for guests on HTTP: a plan is written
there first, then published, and removed from the mailbox when the broker has confirmed it; a result
is written there before it is acknowledged to the broker. So an engine that dies at any point loses
nothing: a plan that may not have reached the broker is published again (the guest recognises it by
its stamp), a result waits in its queue for the next engine that consumes it, and a waiter for a
result is woken in whichever process it is.

A door has one connection, which is opened at the first use and opened again when it is lost. Queues,
exchanges and users are then made again, those of guests that work on a plan at once and others at their
next use: the broker may have been replaced.
"""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import quote

import structlog

from vetro.messaging.credentials import Guest
from vetro.messaging.errors import BrokerUnreachable
from vetro.messaging.mailboxes import Mailboxes, PlanMessage
from vetro.messaging.settings import BrokerSettings
from vetro.messaging.transport import Progress, Sending, Told, Unfinished
from vetro.storage import StorageError

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage


class GuestAccounts:
    """Makes and removes the users of one broker's guests, through its management API (guest-agent.md,
    "Beyond upstream").

    A guest's user has the name of its queue. It may read that queue and write to the exchange of the
    same name, which brings results to the region's result queue; it may declare nothing, and reaches
    neither the queues of other guests nor the default exchange, through which it could send them plans.

    Errors of every method: ``BrokerUnreachable`` when the API refuses, which a repetition would not
    change; ``ConnectionError`` when it does not answer now.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings

    async def grant(self, queue: str, password: str) -> None:
        """Make the guest's user, or give it this password and these permissions again."""
        user, place = quote(queue, safe=""), quote(self.settings.virtual_host, safe="")
        own = f"^{re.escape(queue)}$"
        await self._call("PUT", f"/api/users/{user}", {"password": password, "tags": ""})
        rights = {"configure": "^$", "write": own, "read": own}
        await self._call("PUT", f"/api/permissions/{place}/{user}", rights)

    async def remove(self, queue: str) -> None:
        """Remove the guest's user, which closes its connections. Idempotent."""
        await self._call("DELETE", f"/api/users/{quote(queue, safe='')}", None)

    async def _call(self, method: str, path: str, document: object) -> None:
        from vetro.http.client import HttpClient, TransportError  # guests on HTTP do not need it

        settings = self.settings
        address = settings.management_url.rstrip("/")
        login = f"{settings.login}:{settings.password}".encode()
        headers = {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
        tls = settings.trust() if address.startswith("https:") else None
        try:
            async with HttpClient(timeout_seconds=settings.patience, tls=tls) as client:
                answer = await client.request(
                    method, f"{address}{path}", headers=headers, json=document
                )
        except TransportError as error:
            raise ConnectionError(f"its management API does not answer: {error}") from error
        if answer.status >= 500:
            raise ConnectionError(
                f"its management API answers {answer.status}: {answer.text[:200]}"
            )
        if answer.status == 404 and method == "DELETE":
            return
        if answer.status >= 400:
            advice = ""
            if answer.status in (401, 403):
                advice = f"; the user {settings.login} needs the tag administrator there"
            raise BrokerUnreachable(
                repr(settings),
                f"its management API {address} answers {answer.status}: {answer.text[:200]}{advice}",
            )


_log = structlog.get_logger(__name__)
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 15.0
_PREFETCH = 16
_SHORT = 10.0
"""How long to try the broker for work that may be left undone."""
RESULT_LIMIT_HEADER = "result-limit"
"""The limit of a result in bytes: guests cut outputs of scripts to fit it."""


class BrokerDoor:
    """``MessageTransport`` for the guests of one region: ``results`` is their result queue.

    With ``settings.management_url`` each guest has a user of its own, whose password is its credential;
    else guests log in with the service's account and have none. Errors: ``ValueError`` for invalid TLS
    settings.
    """

    def __init__(self, mailboxes: Mailboxes, settings: BrokerSettings, results: str) -> None:
        self.mailboxes = mailboxes
        self.settings = settings
        self.results = results
        self._tls = settings.tls()  # an error here is permanent: raise it at once
        self._accounts = GuestAccounts(settings) if settings.management_url else None
        self._granted: set[str] = set()
        # Messages whose results may still come, and their guests.
        self._awaited: dict[str, str] = {}
        self._serving: asyncio.Task[None] | None = None
        self._connection: AbstractConnection | None = None
        self._up = asyncio.Event()
        self._refused = False
        self._problem = "no connection was tried yet"

    # --- the engine's side -------------------------------------------------------------

    async def declare(self, queue: str) -> None:
        """Make the mailbox, and its queue at the broker. Errors: ``BrokerUnreachable``."""
        await self.mailboxes.declare(queue)
        await self._insist(lambda connection: self._provide(connection, queue))

    async def issue_credential(self, queue: str) -> str:
        """Make what the guest needs at the broker; the password of its user, "" without one."""
        self._granted.discard(queue)
        await self.declare(queue)
        return "" if self._accounts is None else await self.mailboxes.issue_credential(queue)

    def broker_user(self, queue: str) -> str:
        """The guest's own user; "" when guests share the service's."""
        return "" if self._accounts is None else queue

    async def rotate_credential(self, queue: str) -> str:
        """A new password; connections with the former one are closed. "" without an own user."""
        if self._accounts is None:
            return ""
        await self.revoke(queue)
        return await self.issue_credential(queue)

    async def revoke(self, queue: str) -> None:
        """Remove the guest's user, which closes its connections. Errors: ``BrokerUnreachable``."""
        if self._accounts is not None:
            await self.mailboxes.revoke(queue)
            self._granted.discard(queue)
            accounts = self._accounts
            await self._insist(lambda _: accounts.remove(queue))

    async def delete(self, queue: str) -> None:
        """Remove the mailbox, its queue and its user. An unreachable broker is not waited for: a queue
        without a consumer expires there, and its user reaches nothing else."""
        await self.mailboxes.delete(queue)
        self._granted.discard(queue)
        try:
            await self._insist(lambda connection: self._remove(connection, queue), attempts=2)
        except BrokerUnreachable as error:
            _log.warning("guest_left_at_broker", queue=queue, error=str(error))

    async def queues_of(self, prefix: str) -> list[str]:
        """The guests' queues whose names begin with a text, sorted."""
        return await self.mailboxes.queues_of(prefix)

    async def send(self, queue: str, message_id: str, body: bytes, **how: Unpack[Sending]) -> None:
        """Write a plan to the mailbox and publish it to the broker; see `MessageTransport.send`.

        The broker drops it when the guest has not fetched it after ``lifetime`` seconds. Additional
        error: ``BrokerUnreachable``.
        """
        await self.mailboxes.send(queue, message_id, body, **how)
        self._awaited[message_id] = queue
        if not await self.mailboxes.is_unsent(message_id):
            return  # a repeated effect: the broker or the guest has the plan
        plan, lifetime = PlanMessage(message_id, body, how.get("signature")), how.get("lifetime")
        await self._insist(lambda connection: self._publish(connection, queue, plan, lifetime))
        await self.mailboxes.acknowledge(Guest(queue), message_id)

    async def wait_result(self, message_id: str, timeout: float) -> bytes | None:
        """The result of a sent plan; None when it has not come after ``timeout`` seconds."""
        self._serve()
        try:
            return await self.mailboxes.wait_result(message_id, timeout)
        finally:
            self._awaited.pop(message_id, None)

    async def discard(self, message_id: str) -> bool:
        """Stop waiting. ``False`` for a published plan: the guest may get it and must be notified."""
        self._awaited.pop(message_id, None)
        return await self.mailboxes.discard(message_id)

    async def progress(self, message_id: str) -> Progress:
        """How far a plan is, as seen from here: a plan at the broker may have been fetched."""
        seen = await self.mailboxes.progress(message_id)
        return replace(seen, place="broker") if seen.place == "guest" else seen

    async def unfinished(self, queue: str) -> list[Unfinished]:
        """The plans that the guest has not answered, oldest first."""
        return await self.mailboxes.unfinished(queue)

    async def last_stamp(self, queue: str) -> int:
        """The highest stamp that the guest was sent."""
        return await self.mailboxes.last_stamp(queue)

    async def told(self, queue: str) -> Told:
        """What the guest knows of where to come."""
        return await self.mailboxes.told(queue)

    async def note_told(self, queue: str, digest: str, door: str) -> None:
        """Record which settings the guest has. Raises `UnknownMailbox`."""
        await self.mailboxes.note_told(queue, digest, door)

    async def last_contact(self, queue: str) -> datetime | None:
        """When the last result came; over a broker a guest sends nothing in between."""
        return await self.mailboxes.last_contact(queue)

    async def forget_results(self) -> None:
        """Remove the result queue of a removed region. An unreachable broker is not waited for."""
        await self.close()  # a consumer would declare it again
        try:
            async with asyncio.timeout(_SHORT), await self._connect() as connection:
                await _remove_queue(connection, self.results)
        except _failures() as error:
            _log.warning("result_queue_left", queue=self.results, error=str(error))

    async def close(self) -> None:
        """Close the connection."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
            self._serving = None

    # --- the connection ----------------------------------------------------------------

    def _serve(self) -> None:
        if self._serving is None or self._serving.done():
            self._refused = False
            self._up.clear()
            self._serving = asyncio.create_task(self._stay_connected(), name=f"{self.settings!r}")

    async def _stay_connected(self) -> None:
        """Keep a connection open on which results are received."""
        pause = _FIRST_PAUSE
        while True:
            try:
                async with await self._connect() as connection:
                    self._granted.clear()
                    await self._declare(connection, self.results)
                    await self._provide_awaited(connection)
                    self._connection = connection
                    self._up.set()
                    pause = _FIRST_PAUSE
                    await self._receive(connection)
                self._problem = "the connection was closed"
            except _failures() as error:
                self._problem = str(error) or type(error).__name__
                if isinstance(error, _refusals()):
                    # A retry would not help: the waiters get the error.
                    self._refused = True
                    return
            finally:
                self._connection = None
                (self._up.set if self._refused else self._up.clear)()
            _log.warning("broker_lost", broker=repr(self.settings), error=self._problem)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _connect(self) -> AbstractConnection:
        return await self.settings.connect(self._tls, "vetro engine")

    async def _receive(self, connection: AbstractConnection) -> None:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=_PREFETCH)
        queue = await channel.get_queue(self.results, ensure=False)
        async with queue.iterator() as messages:
            async for message in messages:
                await self._take(message)

    async def _take(self, message: AbstractIncomingMessage) -> None:
        """Store a result, then acknowledge it to the broker."""
        try:
            await self.mailboxes.accept_brokered(
                self.results,
                message.body,
                message.message_id,
                # Only the guest itself may write to the exchange of its name.
                (message.exchange or "") if self._accounts is not None else "",
                self.settings.door,
            )
        except StorageError as error:
            _log.warning("result_not_stored", error=str(error))
            await asyncio.sleep(_FIRST_PAUSE)
            await message.reject(requeue=True)
        else:
            await message.ack()

    async def _insist(
        self, work: Callable[[AbstractConnection], Awaitable[None]], *, attempts: int = 0
    ) -> None:
        """Run ``work(connection)``, retrying when the connection is lost, until the time-out.

        ``attempts`` limits the tries (0: no limit). Errors: ``BrokerUnreachable``.
        """
        self._serve()
        patience = self.settings.patience
        deadline = time.monotonic() + (min(_SHORT, patience) if attempts else patience)
        while True:
            attempts -= 1
            try:
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    await self._up.wait()
                    if self._refused:
                        raise BrokerUnreachable(repr(self.settings), self._problem)
                    if self._connection is not None:
                        await work(self._connection)
                        return
            except _failures() as error:
                if not isinstance(error, TimeoutError):
                    self._problem = str(error) or type(error).__name__
                if time.monotonic() >= deadline or attempts == 0:
                    raise BrokerUnreachable(repr(self.settings), self._problem) from error
                await asyncio.sleep(_FIRST_PAUSE)

    async def _declare(self, connection: AbstractConnection, queue: str) -> None:
        from aio_pika.exceptions import ChannelPreconditionFailed

        # A channel of its own: the broker closes it when it refuses the declaration.
        try:
            async with connection.channel() as channel:
                await channel.declare_queue(
                    queue, durable=True, arguments=self.settings.queue_arguments()
                )
        except ChannelPreconditionFailed:
            # It exists with other arguments, from another version or an operator: use it as it is.
            _log.info("queue_declared_otherwise", queue=queue)

    async def _provide(self, connection: AbstractConnection, queue: str) -> None:
        """Make what a guest needs at the broker, as far as this connection does not know it to be there."""
        await self._declare(connection, queue)
        if self._accounts is None or queue in self._granted:
            return
        from aio_pika import ExchangeType

        password = await self.mailboxes.issue_credential(queue)
        async with connection.channel() as channel:
            exchange = await channel.declare_exchange(queue, ExchangeType.FANOUT, durable=True)
            results = await channel.get_queue(self.results, ensure=False)
            await results.bind(exchange)
        await self._accounts.grant(queue, password)
        self._granted.add(queue)

    async def _provide_awaited(self, connection: AbstractConnection) -> None:
        """Make again what guests need that work on a plan: nothing is sent to them until they answer."""
        for queue in set(self._awaited.values()):
            try:
                await self._provide(connection, queue)
            except BrokerUnreachable as error:
                _log.warning("guest_not_provided_for", queue=queue, error=str(error))

    async def _remove(self, connection: AbstractConnection, queue: str) -> None:
        if self._accounts is not None:
            await self._accounts.remove(queue)
            async with connection.channel() as channel:
                await channel.exchange_delete(queue)
        await _remove_queue(connection, queue)

    async def _publish(
        self,
        connection: AbstractConnection,
        queue: str,
        plan: PlanMessage,
        lifetime: float | None,
    ) -> None:
        import aio_pika

        # Declare it again: the broker removes a queue that was unused for long.
        await self._provide(connection, queue)
        headers: dict[str, Any] = {RESULT_LIMIT_HEADER: self.mailboxes.settings.sizes.result_limit}
        if plan.signature is not None:
            headers["signature"] = bytearray(plan.signature)
        async with connection.channel(on_return_raises=True) as channel:
            await _exchange(channel).publish(
                aio_pika.Message(
                    plan.body,
                    message_id=plan.message_id,
                    reply_to=self.results,
                    headers=headers,
                    content_type="application/json",
                    content_encoding="utf-8",
                    delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                    expiration=lifetime,
                ),
                routing_key=queue,
            )


class BrokerDoors:
    """The doors that one engine process has opened, one for each broker and result queue."""

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes
        self._doors: dict[tuple[BrokerSettings, str], BrokerDoor] = {}

    def __call__(self, settings: BrokerSettings, results: str) -> BrokerDoor:
        """The door to the guests of a broker."""
        key = (settings, results)
        if key not in self._doors:
            self._doors[key] = BrokerDoor(self._mailboxes, settings, results)
        return self._doors[key]

    async def close(self) -> None:
        """Close every connection."""
        for door in self._doors.values():
            await door.close()
        self._doors.clear()


def _failures() -> tuple[type[Exception], ...]:
    """The errors of a broker connection."""
    from aio_pika.exceptions import AMQPError

    # The client raises RuntimeError on a channel that was closed meanwhile.
    return (AMQPError, OSError, TimeoutError, RuntimeError)


def _exchange(channel: AbstractChannel) -> Any:
    return channel.default_exchange


def _refusals() -> tuple[type[Exception], ...]:
    """The errors by which a broker refuses an account."""
    from aio_pika.exceptions import AuthenticationError, ProbableAuthenticationError

    return (AuthenticationError, ProbableAuthenticationError)


async def _remove_queue(connection: AbstractConnection, queue: str) -> None:
    async with connection.channel() as channel:
        await channel.queue_delete(queue)
