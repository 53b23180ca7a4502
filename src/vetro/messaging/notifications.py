"""Notifications for others at a broker, as OpenStack's services send them (oslo.messaging, version 2).

Best effort: sending a notification never waits and never fails. What the broker does not take at once is
kept, up to a number, and tried again; beyond it the oldest is dropped, and the log says how many.
"""

from __future__ import annotations

import asyncio
import json
import socket
import uuid
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime

import structlog

from vetro.messaging.settings import BrokerSettings

_log = structlog.get_logger(__name__)
MOST_WAITING = 10_000
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 15.0


class Notifications:
    """Publishes to ``exchange`` with the routing key ``<topic>.info``, into a queue of that name."""

    def __init__(self, broker: BrokerSettings, *, exchange: str, topic: str) -> None:
        self.broker = broker
        self.exchange = exchange
        self.key = f"{topic}.info"
        self.publisher = f"vetro.{socket.gethostname()}"
        self.dropped = 0
        self._tls = broker.tls()
        self._waiting: deque[bytes] = deque()
        self._some = asyncio.Event()

    def notify(self, event_type: str, payload: Mapping[str, object]) -> None:
        """Take a notification; it is sent by `run`."""
        message = {
            "message_id": str(uuid.uuid4()),
            "publisher_id": self.publisher,
            "event_type": event_type,
            "priority": "INFO",
            "payload": payload,
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
            "_unique_id": uuid.uuid4().hex,
        }
        envelope = {"oslo.version": "2.0", "oslo.message": json.dumps(message)}
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self.dropped += 1
            if self.dropped == 1 or self.dropped % 1000 == 0:
                _log.warning("notifications_dropped", number=self.dropped)
        self._waiting.append(json.dumps(envelope).encode())
        self._some.set()

    async def run(self) -> None:
        """Send what is taken, until cancelled; a lost broker is tried again and again."""
        from aio_pika.exceptions import AMQPError

        pause = _FIRST_PAUSE
        while True:
            await self._some.wait()
            try:
                await self._send()
                pause = _FIRST_PAUSE
            # The client raises RuntimeError on a channel that was closed meanwhile.
            except (AMQPError, OSError, TimeoutError, RuntimeError) as error:
                _log.warning(
                    "notifications_wait", broker=repr(self.broker), error=str(error) or repr(error)
                )
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _send(self) -> None:
        """Connect, and send until the connection is lost."""
        import aio_pika

        connection = await self.broker.connect(self._tls, "vetro notifications")
        async with connection, connection.channel() as channel:
            exchange = await channel.declare_exchange(self.exchange, aio_pika.ExchangeType.TOPIC)
            queue = await channel.declare_queue(self.key)
            await queue.bind(exchange, self.key)
            while True:
                while self._waiting:
                    message = aio_pika.Message(
                        self._waiting[0],
                        content_type="application/json",
                        content_encoding="utf-8",
                        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                    )
                    await exchange.publish(message, routing_key=self.key)
                    # Confirmed. It may be sent twice, when the connection ends before that.
                    self._waiting.popleft()
                self._some.clear()
                await self._some.wait()
