"""A user for each guest at a real RabbitMQ (guest-agent.md, "Beyond upstream")."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aio_pika
import pytest
from aio_pika.exceptions import AMQPConnectionError, ChannelClosed
from tests.messaging.guests import running_agent
from tests.own_broker import OwnBroker
from tests.waiting import eventually

from vetro.messaging import BrokerDoor, BrokerSettings, BrokerUnreachable
from vetro.messaging.amqp import GuestAccounts
from vetro.messaging.mailboxes import Mailboxes

pytestmark = [
    pytest.mark.rabbitmq,
    pytest.mark.parametrize("database_url", ["sqlite"], indirect=True),  # the broker is the same
]


def settings_of(environ: Mapping[str, str], **other: Any) -> BrokerSettings:
    """How the service reaches the broker that an environment names."""
    address = urlsplit(environ["VETRO_TEST_RABBITMQ_URL"])
    given: dict[str, Any] = {
        "host": address.hostname,
        "port": address.port,
        "management_url": environ["VETRO_TEST_RABBITMQ_MANAGEMENT"],
    }
    return BrokerSettings(**{**given, **other})


@pytest.fixture
async def make(mailboxes: Mailboxes, names: list[str]) -> AsyncIterator[Callable[..., BrokerDoor]]:
    """Makes doors to one result queue; its guests are removed at the end."""
    made: list[BrokerDoor] = []
    name = f"-execution-results-{secrets.token_hex(4)}"

    def door(**settings: Any) -> BrokerDoor:
        if "VETRO_TEST_RABBITMQ_MANAGEMENT" not in os.environ:
            pytest.skip("there is no RabbitMQ; tools/with-rabbitmq.sh starts one")
        made.append(BrokerDoor(mailboxes, settings_of(os.environ, **settings), name))
        return made[-1]

    yield door
    for one in made:
        for queue in names:
            await one.delete(queue)
        await one.forget_results()
        await one.close()


@pytest.fixture
def names() -> list[str]:
    """Queues of two guests that no other test has; a dot is no wildcard in permissions."""
    return [f"e{secrets.token_hex(4)}-h{number}.x" for number in (1, 2)]


async def connected(door: BrokerDoor, queue: str, password: str) -> Any:
    """A connection as the guest's user."""
    return await aio_pika.connect(
        host=door.settings.host, port=door.settings.port, login=queue, password=password, timeout=30
    )


async def publish(connection: Any, exchange: str, key: str, body: bytes) -> None:
    """Publish, and wait for the broker's word."""
    channel = await connection.channel()
    target = await channel.get_exchange(exchange, ensure=False)
    if not exchange:
        target = channel.default_exchange
    await target.publish(aio_pika.Message(body), routing_key=key)


async def test_a_guest_reaches_its_own_queue_only(
    make: Callable[..., BrokerDoor], names: list[str], mailboxes: Mailboxes
) -> None:
    """It reads its plans and sends its results; all else is refused, and a false name is seen."""
    door = make()
    own, other = names
    password = await door.issue_credential(own)
    assert await door.issue_credential(own) == password != await door.issue_credential(other)
    await door.send(own, "mine", b"{}")
    await door.send(other, "other's", b'{"secret": 1}')
    async with await connected(door, own, password) as guest:
        plan = await (await (await guest.channel()).get_queue(own, ensure=False)).get(no_ack=True)
        assert plan.message_id == "mine"
        for name in (other, door.results, own.replace(".", "-")):
            with pytest.raises(ChannelClosed, match="ACCESS_REFUSED"):
                await (await (await guest.channel()).get_queue(name, ensure=False)).get()
        for exchange, key in (("", other), ("", door.results), (other, ""), ("amq.topic", other)):
            with pytest.raises(ChannelClosed, match="ACCESS_REFUSED"):
                await publish(guest, exchange, key, b"{}")
        with pytest.raises(ChannelClosed, match="ACCESS_REFUSED"):
            await (await guest.channel()).declare_queue("x" + own)
        for source in ("other's", "mine"):
            await publish(guest, own, door.results, json.dumps({"SourceID": source}).encode())
        assert await door.wait_result("mine", 60)
    assert await door.wait_result("other's", 0) is None
    letters = [(one.message_id, one.reason) for one in await mailboxes.dead_letters(own)]
    assert letters == [("other's", "foreign")]


async def test_a_removed_guest_is_put_out(
    make: Callable[..., BrokerDoor], names: list[str]
) -> None:
    """A new password ends connections with the former; a removed guest has none, and no user."""
    door = make()
    queue = names[0]
    former = await door.issue_credential(queue)
    guest = await connected(door, queue, former)
    password = await door.rotate_credential(queue)
    await eventually(lambda: guest.transport.connection.is_closed)
    with pytest.raises(AMQPConnectionError):
        await connected(door, queue, former)
    guest = await connected(door, queue, password)
    await door.delete(queue)
    await door.delete(queue)
    await eventually(lambda: guest.transport.connection.is_closed)
    with pytest.raises(AMQPConnectionError):
        await connected(door, queue, password)
    again = await door.issue_credential(queue)
    await (await connected(door, queue, again)).close()


async def test_an_account_that_may_not_make_users_is_named(
    make: Callable[..., BrokerDoor], names: list[str]
) -> None:
    """The error says which user needs which tag; an API that is away is tried for a while."""
    door = make()
    password = await door.issue_credential(names[0])
    other = settings_of(os.environ, login=names[0], password=password)
    with pytest.raises(BrokerUnreachable, match="needs the tag administrator") as caught:
        await GuestAccounts(other).grant(names[1], "x")
    assert password not in str(caught.value)
    away = make(management_url="http://127.0.0.1:9", patience=1.0)
    with pytest.raises(BrokerUnreachable, match="management API does not answer"):
        await away.declare(names[1])


async def test_both_sides_over_tls(
    make: Callable[..., BrokerDoor], names: list[str], tmp_path: Path
) -> None:
    """Engine and agent check the broker's certificate; replicated queues do; another authority does not."""
    port, authority = (os.environ.get(f"VETRO_TEST_RABBITMQ_{one}") for one in ("TLS_PORT", "CA"))
    door = make(port=int(port or 0), ssl=True, ca_certs=authority or "", quorum_queues=True)
    async with running_agent(tmp_path, names[0], door):
        plan: dict[str, Any] = {
            "FormatVersion": "2.0.0",
            "ID": "t",
            "Body": "return 'over TLS'",
            "Scripts": {},
        }
        await door.send(names[0], "t", json.dumps(plan).encode())
        assert json.loads(await door.wait_result("t", 120) or b"{}")["Body"] == "over TLS"
    distrusting = make(port=int(port or 0), ssl=True, patience=1.0)
    with pytest.raises(BrokerUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
        await distrusting.declare(names[1])


@pytest.mark.thorough
async def test_a_broker_that_is_killed_loses_nothing(
    mailboxes: Mailboxes, names: list[str], tmp_path: Path
) -> None:
    """Plans sent before, during and after run once each; also when all that the broker knew is gone."""
    if "VETRO_TEST_RABBITMQ_HOME" not in os.environ:
        pytest.skip("there is no RabbitMQ; tools/with-rabbitmq.sh starts one")
    broker = await asyncio.to_thread(OwnBroker)
    door = BrokerDoor(
        mailboxes, settings_of(broker.environ, patience=120.0), "-execution-results-k"
    )
    trace = tmp_path / "trace"

    async def send(name: str) -> None:
        text = f"open({str(trace)!r}, 'a').write('{name} ')\nreturn '{name}'"
        plan: dict[str, Any] = {"FormatVersion": "2.0.0", "ID": name, "Body": text, "Scripts": {}}
        await door.send(names[0], name, json.dumps(plan).encode())

    async def answered(name: str) -> None:
        assert json.loads(await door.wait_result(name, 120) or b"{}")["Body"] == name

    try:
        await door.issue_credential(names[0])
        await send("before")  # nobody has fetched it: it is on the broker's disk
        broker.kill()
        during = asyncio.create_task(send("during"))
        await eventually(lambda: mailboxes.is_unsent("during"))
        broker.start()
        await during
        async with running_agent(tmp_path, names[0], door):
            await answered("before")
            await answered("during")
            broker.kill()
            await asyncio.to_thread(broker.forget)
            broker.start()
            await send("after")
            await answered("after")
    finally:
        await door.close()
        await asyncio.to_thread(broker.close)
    assert trace.read_text() == "before during after "
