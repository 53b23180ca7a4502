"""The sections `api`, `stats` and `history` of the settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ApiSection:
    """The catalog API ([api-guide.md](api-guide.md), [v03.md](v03.md))."""

    v03_put_status: int = 201
    """Status of a successful PUT without `/v1`: 201 as the guide says, or 200 as its servers did."""
    v03_expose_secrets: bool = False
    """Whether services of v0.3 are read with the passwords that they were created with."""
    project_requests: int = 32
    """Requests of one project that a process handles at a time; 0: any number."""
    project_waiting: int = 256
    """Further requests of one project that wait for their turn; above it they are answered with 429."""
    project_rate: float = 0.0
    """Requests a second that a process takes of one project in the long run; above it they are answered
    with 429 ([quotas.md](quotas.md#rate-limits)); 0: any number."""
    project_burst: int = 100
    """Requests that a project may send at once before `project_rate` holds it back."""
    package_size_limit: float = 5.0
    """MiB of an uploaded package."""
    max_request_body_size: float = 0.0
    """MiB of the body of any request (413); 0: `package_size_limit` and one more for uploads, 8 for models,
    services and templates, 1 otherwise."""
    limit_param_default: int = 20
    """Packages on a page when the request has no `limit`."""
    api_limit_max: int = 100
    """Packages on a page at most, whatever `limit` says."""
    guard_deployments: bool = False
    """Whether deployments and actions may lose only the machines, load balancers, volumes and addresses that
    their requests name in `mayLose` ([api-guide.md](api-guide.md)), also requests without that parameter."""
    network_config_file: str = ""
    """YAML or JSON file with the `defaultNetworks` of environments that name none; `%ENV%` in its texts is
    the environment's name ([api-guide.md](api-guide.md)); empty: a network of the environment's own."""
    repository_url: str = ""
    """The address of a repository of packages, from which the dashboard imports packages and bundles."""
    import_from: tuple[str, ...] = ()
    """Beginnings of further addresses that packages may be imported from, each ending in `/`; operators may
    import from any address."""
    signers_directory: str = ""
    """Directory with the public keys (`NAME.pem`, Ed25519) of those whose signatures of packages are
    shown by name ([packages.md](packages.md#signatures)); empty: none."""


@dataclass(frozen=True)
class StatsSection:
    """Statistics of requests (`GET /v1/stats`), and reports on environments that exist."""

    period: float = 5.0
    """Minutes between two times that a process stores what it counted."""
    env_audit_enabled: bool = True
    """Whether `notifications.broker` is also notified which deployed environments exist."""
    env_audit_period: float = 60.0
    """Minutes between two of these notifications."""


@dataclass(frozen=True)
class HistorySection:
    """How long deployments, their reports and results are kept."""

    days: float = 90.0
    """Days after the destruction of an environment until its deployments are removed; 0: never."""
    deployments: int = 1000
    """How many ended deployments an environment that is there keeps, the newest ones; 0: all."""
