"""How a broker is reached, and what its management API may answer; tests with a real one: test_accounts."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from vetro.messaging.amqp import GuestAccounts
from vetro.messaging.errors import BrokerUnreachable
from vetro.messaging.settings import BrokerSettings

BROKER = BrokerSettings(host="broker.example", login="vetro", password="hush", virtual_host="/")


def test_a_broker_is_shown_without_its_password() -> None:
    """Logs and errors name the place and the login."""
    assert repr(BROKER) == "amqp://vetro@broker.example:5672/"
    assert repr(replace(BROKER, ssl=True, virtual_host="v", port=5671)).startswith("amqps://")


def test_tls_is_as_the_settings_say(tmp_path: Path) -> None:
    """None without TLS; versions by name; an unchecked certificate only when that was asked for."""
    assert BROKER.tls() is None
    strict = replace(BROKER, ssl=True, ssl_version="TLSv1_3").tls()
    assert strict is not None
    assert strict.minimum_version is ssl.TLSVersion.TLSv1_3
    assert strict.verify_mode is ssl.CERT_REQUIRED
    loose = replace(BROKER, ssl=True, insecure=True).tls()
    assert loose is not None
    assert loose.verify_mode is ssl.CERT_NONE
    with pytest.raises(ValueError, match="there is no file"):
        replace(BROKER, ssl=True, ca_certs=str(tmp_path / "none.pem")).tls()
    with pytest.raises(ValueError, match="TLSv1_2, TLSv1_3 or nothing"):
        replace(BROKER, ssl=True, ssl_version="SSLv3").tls()


def test_queues_are_declared_as_the_settings_say() -> None:
    """They expire without a consumer, and are replicated when that was asked for."""
    assert BROKER.queue_arguments() == {"x-expires": 86_400_000}
    durable = replace(BROKER, queue_expires=0, quorum_queues=True)
    assert durable.queue_arguments() == {"x-queue-type": "quorum"}


class Management(ThreadingHTTPServer):
    """A management API that answers one status, and what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.status = 204
        self.calls: list[tuple[str, str, Any]] = []
        self.logins: set[str] = set()


class Asked(BaseHTTPRequestHandler):
    """One request."""

    server: Management

    def do_PUT(self) -> None:
        """Note it, and answer."""
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.calls.append((self.command, self.path, body))
        self.server.logins.add(base64.b64decode(self.headers["authorization"][6:]).decode())
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    do_DELETE = do_PUT

    def log_message(self, *args: Any, **options: Any) -> None:
        """Say nothing."""


@pytest.fixture
def management() -> Iterator[Management]:
    """A management API."""
    with Management() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def accounts(management: Management) -> GuestAccounts:
    """The users of its guests."""
    address = f"http://127.0.0.1:{management.server_address[1]}/"
    return GuestAccounts(replace(BROKER, management_url=address, patience=5))


async def test_a_guest_may_read_and_write_its_own_names_alone(
    management: Management, accounts: GuestAccounts
) -> None:
    """A user without tags, whose rights name one queue, as patterns; it goes with the guest."""
    await accounts.grant("e1-a.b", "secret")
    await accounts.remove("e1-a.b")
    own = r"^e1\-a\.b$"
    assert management.calls == [
        ("PUT", "/api/users/e1-a.b", {"password": "secret", "tags": ""}),
        (
            "PUT",
            "/api/permissions/%2F/e1-a.b",
            {"configure": "^$", "write": own, "read": own},
        ),
        ("DELETE", "/api/users/e1-a.b", None),
    ]
    assert management.logins == {"vetro:hush"}


async def test_a_refusal_is_told_from_an_absence(
    management: Management, accounts: GuestAccounts
) -> None:
    """What a repetition does not change says what to do; what may pass is a lost connection."""
    management.status = 403
    with pytest.raises(BrokerUnreachable, match="needs the tag administrator"):
        await accounts.grant("q", "p")
    management.status = 404
    await accounts.remove("q")  # gone already
    with pytest.raises(BrokerUnreachable, match="answers 404"):
        await accounts.grant("q", "p")
    management.status = 503
    with pytest.raises(ConnectionError, match="answers 503"):
        await accounts.remove("q")


async def test_a_management_api_that_is_away_is_a_lost_connection() -> None:
    """It may be back at the next attempt."""
    away = GuestAccounts(replace(BROKER, management_url="http://127.0.0.1:1", patience=5))
    with pytest.raises(ConnectionError, match="does not answer"):
        await away.remove("q")
