"""The settings of the service broker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CfapiSection:
    """The service broker for Cloud Foundry (`vetro broker`, [broker.md](broker.md))."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8083
    """Port to listen on; 0: a free one."""
    tenant: str = "admin"
    """Name of the project that the environments of all spaces are in: users of the broker have a
    role in it.
    """
    user_domain_name: str = "default"
    """Name or id of the users' domain."""
    project_domain_name: str = "default"
    """Name or id of the project's domain."""
    auth_url: str = "http://127.0.0.1:8082/identity/v3"
    """The identity service; `/v3` is added where it is missing."""
    catalog_url: str = ""
    """The catalog API, without `/v1`; empty: where the identity's service catalog says."""
    database_url: str = ""
    """The broker's own database, `postgresql://USER:PASSWORD@HOST/NAME` or `sqlite:////PATH`; empty:
    `broker.db` in the data directory.
    """
    credentials_seconds: float = 30.0
    """Seconds that `getCredentials` of an application may take."""
