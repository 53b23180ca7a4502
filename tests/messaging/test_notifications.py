"""Notifications at a real RabbitMQ, in the form that OpenStack's services send."""

import asyncio
import json
import os
import secrets
from typing import Any
from urllib.parse import urlsplit

import aio_pika
import pytest

from vetro.messaging import BrokerSettings, Notifications
from vetro.messaging.notifications import MOST_WAITING

URL = os.environ.get("VETRO_TEST_RABBITMQ_URL")


@pytest.mark.rabbitmq
@pytest.mark.skipif(not URL, reason="needs VETRO_TEST_RABBITMQ_URL")
async def test_notifications_arrive_in_order_with_their_envelope() -> None:
    """Those that were taken before there was a connection arrive, too."""
    at = urlsplit(URL or "")
    broker = BrokerSettings(
        host=at.hostname or "", port=at.port or 5672, login=at.username or "guest",
        password=at.password or "guest",
    )  # fmt: skip
    name = f"test-{secrets.token_hex(6)}"
    sending = Notifications(broker, exchange=name, topic=name)
    sending.notify("first", {"number": 1})
    running = asyncio.create_task(sending.run())
    try:
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            queue = await channel.declare_queue(f"{name}.info")
            sending.notify("second", {"number": 2})
            found: list[Any] = []
            async with asyncio.timeout(60), queue.iterator() as messages:
                async for message in messages:
                    async with message.process():
                        envelope = json.loads(message.body)
                    assert envelope["oslo.version"] == "2.0"
                    found.append(json.loads(envelope["oslo.message"]))
                    if len(found) == 2:
                        break
            assert [one["event_type"] for one in found] == ["first", "second"]
            assert [one["payload"] for one in found] == [{"number": 1}, {"number": 2}]
            assert {one["priority"] for one in found} == {"INFO"}
            await queue.delete(if_unused=False, if_empty=False)
            await channel.exchange_delete(name)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_a_broker_that_is_gone_for_long_costs_the_oldest() -> None:
    """What waits is bounded, and who notifies never waits."""
    sending = Notifications(BrokerSettings(host="127.0.0.1"), exchange="e", topic="t")
    for number in range(MOST_WAITING + 2):
        sending.notify("event", {"number": number})
    assert sending.dropped == 2
