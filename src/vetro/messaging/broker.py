"""Connection settings of an AMQP broker (guest-agent.md §2)."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aio_pika.abc import AbstractConnection

_TLS_VERSIONS = {"1_2": ssl.TLSVersion.TLSv1_2, "1_3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """A broker's address and login. Times in seconds, ``ca_certs`` is a file.

    ``queue_expires``: how long the broker keeps an unused queue (0: without limit). ``quorum_queues``:
    replicated queues, for a broker of several nodes. ``patience``: how long an unreachable broker
    is tried before that is an error. ``management_url``: its management API, by which each guest has a
    user of its own; empty: guests share this login.
    """

    host: str
    port: int = 5672
    login: str = "guest"
    password: str = "guest"  # noqa: S105 the broker's own default
    virtual_host: str = "/"
    ssl: bool = False
    ssl_version: str = ""
    insecure: bool = False
    ca_certs: str = ""
    queue_expires: float = 86_400.0
    quorum_queues: bool = False
    management_url: str = ""
    patience: float = 60.0

    def __repr__(self) -> str:
        """Without the password."""
        scheme = "amqps" if self.ssl else "amqp"
        return f"{scheme}://{self.login}@{self.host}:{self.port}/{self.virtual_host.lstrip('/')}"

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
