"""The sections `mailbox` and `rabbitmq` of the settings, and how a broker is reached with them."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aio_pika.abc import AbstractConnection


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
        return BrokerSettings(
            **{**own, **{key: _like(own[key], one, key) for key, one in given.items()}}
        )


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


def _like(own: Any, given: object, key: str) -> Any:
    """A region's value in the type of the service's: regions have numbers and switches as texts, too."""
    if not isinstance(own, bool) or isinstance(given, bool):
        return type(own)(given)
    read = _SWITCHES.get(str(given).strip().lower())
    if read is None:
        raise ValueError(f"{key} of the region's broker is {given!r}; write true or false")
    return read


_SWITCHES = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
BROKER_DOOR = "amqp:"
"""How the doors of brokers begin, among those of guests."""
_TLS_VERSIONS = {"1_2": ssl.TLSVersion.TLSv1_2, "1_3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, repr=False)
class BrokerSettings(RabbitmqSection):
    """A broker that can be used, its own or a region's (guest-agent.md §2)."""

    patience: float = 60.0
    """Seconds that an unreachable broker is tried before that is an error."""

    def __repr__(self) -> str:
        """Without the password."""
        scheme = "amqps" if self.ssl else "amqp"
        return f"{scheme}://{self.login}@{self.host}:{self.port}/{self.virtual_host.lstrip('/')}"

    @property
    def door(self) -> str:
        """How it is called among the doors of guests (`Told.door`)."""
        return f"{BROKER_DOOR}{self.host}:{self.port}"

    def authorities(self) -> str:
        """What the broker's certificate is checked with, as PEM; "" without TLS, or for the system's.

        Errors: ``ValueError`` when the file cannot be read.
        """
        if not self.ssl or not self.ca_certs:
            return ""
        try:
            return Path(self.ca_certs).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"[rabbitmq] ca_certs: {self.ca_certs} cannot be read: {error}"
            ) from error

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context for the broker; ``None`` without TLS. Errors: ``ValueError``."""
        return self.trust() if self.ssl else None

    def trust(self) -> ssl.SSLContext:
        """What the broker's certificate is checked with. Errors: ``ValueError``."""
        if self.ca_certs and not Path(self.ca_certs).is_file():
            raise ValueError(f"[rabbitmq] ca_certs: there is no file {self.ca_certs}")
        context = ssl.create_default_context(cafile=self.ca_certs or None)
        if self.ssl_version:
            known = [key for key in _TLS_VERSIONS if self.ssl_version.endswith(key)]
            if not known:
                raise ValueError(
                    f"[rabbitmq] ssl_version is {self.ssl_version!r};"
                    " write TLSv1_2, TLSv1_3 or nothing"
                )
            context.minimum_version = _TLS_VERSIONS[known[0]]
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_OPTIONAL if self.ca_certs else ssl.CERT_NONE
        return context

    async def connect(self, tls: ssl.SSLContext | None, name: str) -> AbstractConnection:
        """An open connection that the broker shows under a name; ``tls``: of `tls`."""
        import aio_pika  # guests on HTTP do not need it

        return await aio_pika.connect(
            host=self.host,
            port=self.port,
            login=self.login,
            password=self.password,
            virtualhost=self.virtual_host,
            ssl=self.ssl,
            ssl_context=tls,
            timeout=self.patience,
            heartbeat=30,
            client_properties={"connection_name": name},
        )

    def queue_arguments(self) -> dict[str, Any]:
        """The arguments with which queues are declared."""
        arguments: dict[str, object] = {}
        if self.queue_expires:
            arguments["x-expires"] = max(1, int(self.queue_expires * 1000))
        if self.quorum_queues:
            arguments["x-queue-type"] = "quorum"
        return arguments
