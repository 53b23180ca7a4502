"""The sections `mailbox` and `rabbitmq` of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from vetro.messaging.broker import BrokerSettings


@dataclass(frozen=True)
class MailboxSection:
    """What the guests' mailboxes take ([guest.md](guest.md#large-results))."""

    url: str = ""
    """Where guests reach their mailboxes; empty: at the first address of `network.external_cidr`, which
    every node has, and the service's port.
    """
    result_limit: int = 2**20
    """Bytes that the result of a plan may have; agents cut outputs of scripts to fit."""
    plan_limit: int = 16 * 2**20
    """Bytes that a plan may have, with the files in it."""


@dataclass(frozen=True)
class RabbitmqSection:
    """A broker that guests are reached over; without `host` they fetch from their mailboxes."""

    host: str = ""
    """Name or address of the broker; empty: no broker."""
    port: int = 5672
    """Port of the broker."""
    login: str = "guest"
    """User of the service."""
    password: str = "guest"  # noqa: S105 the broker's own default
    """That user's password."""
    virtual_host: str = "/"
    """Virtual host of all queues."""
    ssl: bool = False
    """Use TLS."""
    ssl_version: str = ""
    """Lowest TLS version: `TLSv1_2` or `TLSv1_3`; empty: the library's default."""
    ca_certs: str = ""
    """File with the authorities that sign the broker's certificate; empty: the system's."""
    insecure: bool = False
    """Do not check the broker's certificate."""
    quorum_queues: bool = False
    """Declare replicated queues, for a broker of several nodes."""
    queue_expires: float = 86_400.0
    """Seconds that the broker keeps a queue that nobody uses, and what is in it: as long as a guest may be
    switched off; 0: for ever.
    """
    management_url: str = ""
    """Address of RabbitMQ's management API, such as `https://broker.example:15671`: each guest then has
    a user of its own, which reaches nothing but its queue. `login` needs the tag `administrator`. Empty:
    guests share `login`.
    """

    def reached(self, said: Mapping[str, object] | None = None) -> BrokerSettings:
        """How the broker is reached; ``said``: what a region has of its own."""
        own: dict[str, Any] = asdict(self)
        given = {key: one for key, one in (said or {}).items() if one is not None}
        # Configurations of regions have numbers and switches as texts, too.
        return BrokerSettings(**{**own, **{key: type(own[key])(given[key]) for key in given}})


@dataclass(frozen=True)
class NotificationsSection:
    """What others are notified of at the broker of `[rabbitmq]` ([operating.md](operating.md#audit))."""

    audit: bool = True
    """Write an audit event (CADF) to the log for each call of the catalog API that may change
    something.
    """
    broker: bool = False
    """Send audit events, ends of deployments and which environments exist to the broker, too."""
    exchange: str = "murano"
    """Topic exchange that they are sent to."""
    topic: str = "notifications"
    """Their topic; `.info` is appended."""
