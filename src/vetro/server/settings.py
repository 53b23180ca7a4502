"""Settings of a Vetro process: flag, then ``VETRO_…`` environment variable, then ``vetro.toml``.

A setting has one dotted name (``server.port``). Its environment variable is ``VETRO_`` and the name
in capitals with ``_`` for the dots (``VETRO_SERVER_PORT``); the settings everybody needs also have
a short form (``VETRO_PORT``, ``VETRO_DATA_DIR``). In the file it stands in its section's table::

    [server]
    port = 8082

An unknown name or a value of the wrong type is an error that names the place and the nearest name.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vetro.blobs import BlobsSection
from vetro.broker import CfapiSection
from vetro.compute import ComputeSection, DapiSection
from vetro.engine import EngineSection, HeatSection, NetworkSection
from vetro.environments import ApiSection, HistorySection, StatsSection
from vetro.http import ConnectionLimits, DashboardSection
from vetro.identity import IdentitySection
from vetro.messaging import MailboxSection, NotificationsSection, RabbitmqSection
from vetro.node import NodeSection
from vetro.openstack import OpenstackSection
from vetro.quotas import QuotasSection
from vetro.repository import RepositorySection
from vetro.secrecy import masked
from vetro.tracing import TracingSection

if TYPE_CHECKING:
    from vetro.storage import PostgresUse


class SettingsError(Exception):
    """A setting cannot be used: says which one, where it was given and what is expected."""


def default_data_dir() -> Path:
    """``/var/lib/vetro`` for root, ``~/.local/share/vetro`` for everybody else."""
    if os.geteuid() == 0:
        return Path("/var/lib/vetro")
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")
    return Path(base) / "vetro"


@dataclass(frozen=True)
class ServerSection:
    """How the process listens and where it keeps its state."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8082
    """Port to listen on; 0: a free one."""
    data_dir: str = ""
    """Directory for everything this installation keeps; empty: `/var/lib/vetro` for root, else
    `~/.local/share/vetro`.
    """
    shared_dir: str = ""
    """Directory for what services on one database have together (packages, images, keys): the same
    for all of them; empty: the data directory.
    """
    database_url: str = ""
    """`postgresql://USER:PASSWORD@HOST/NAME`, or `sqlite:////PATH`; empty: `vetro.db` in the data
    directory.
    """
    database_listen_url: str = ""
    """The same database at the PostgreSQL server itself, when `database_url` is that of a pooler such as
    PgBouncer (transaction mode does); empty: `database_url`.
    """
    database_connections: int = 20
    """The most connections to PostgreSQL of one process, besides one that waits for notifications."""
    log_level: str = "info"
    """`debug`, `info`, `warning` or `error`."""
    log_format: str = "console"
    """`console` for people; for programs `json`, one object a line, or `logfmt`, `name=value` pairs."""
    announce_seconds: float = 0.0
    """How long before it refuses connections a service that is told to stop says so at `/readyz` (503): as
    long as a load balancer in front of it takes to notice.
    """
    drain_seconds: float = 20.0
    """Seconds that requests in flight get to finish when the service is told to stop."""
    debug: bool = False
    """Error answers carry the traceback. Not for services that others reach."""
    metrics_port: int = 0
    """Port for `/metrics` beside the service's own, with no other face; 0: none."""
    metrics_host: str = ""
    """Address of that port; empty: the same as `host`."""
    allowed_origins: list[str] = field(default_factory=list[str])
    """Web origins whose pages may use the API; `*`: any."""
    policy_file: str = ""
    """Rules of who may make which call of the catalog API and of the metadata repository, as
    oslo.policy writes them in YAML ([api-guide.md](api-guide.md)); they override the built-in ones.
    Read again when it changes.
    """
    trust_proxy: bool = False
    """Believe `Forwarded` and `X-Forwarded-*`; only for a service that is reached through its
    proxy alone.
    """


@dataclass(frozen=True)
class TlsSection:
    """Mutual TLS between the compute service and node agents: PEM files, all three or none
    (docs/compute/node.md).
    """

    certificate: str = ""
    """Certificate of this process."""
    key: str = ""
    """Its private key."""
    authority: str = ""
    """Certificate of the authority that signed those of all parts."""


@dataclass(frozen=True)
class Settings:
    """All sections, and the data directory that follows from them."""

    server: ServerSection = field(default_factory=ServerSection)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    blobs: BlobsSection = field(default_factory=BlobsSection)
    identity: IdentitySection = field(default_factory=IdentitySection)
    node: NodeSection = field(default_factory=NodeSection)
    network: NetworkSection = field(default_factory=NetworkSection)
    compute: ComputeSection = field(default_factory=ComputeSection)
    dapi: DapiSection = field(default_factory=DapiSection)
    engine: EngineSection = field(default_factory=EngineSection)
    heat: HeatSection = field(default_factory=HeatSection)
    mailbox: MailboxSection = field(default_factory=MailboxSection)
    repository: RepositorySection = field(default_factory=RepositorySection)
    api: ApiSection = field(default_factory=ApiSection)
    dashboard: DashboardSection = field(default_factory=DashboardSection)
    stats: StatsSection = field(default_factory=StatsSection)
    history: HistorySection = field(default_factory=HistorySection)
    quotas: QuotasSection = field(default_factory=QuotasSection)
    rabbitmq: RabbitmqSection = field(default_factory=RabbitmqSection)
    notifications: NotificationsSection = field(default_factory=NotificationsSection)
    tls: TlsSection = field(default_factory=TlsSection)
    tracing: TracingSection = field(default_factory=TracingSection)
    cfapi: CfapiSection = field(default_factory=CfapiSection)
    openstack: OpenstackSection = field(default_factory=OpenstackSection)
    file: Path | None = None
    """Where they were read from."""

    @property
    def data_dir(self) -> Path:
        """The directory for everything this installation keeps."""
        given = self.server.data_dir
        return Path(given).expanduser().absolute() if given else default_data_dir()

    @property
    def shared_dir(self) -> Path:
        """The directory for what services on one database have together."""
        given = self.server.shared_dir
        return Path(given).expanduser().absolute() if given else self.data_dir

    def blob_directory(self, purpose: str) -> Path:
        """Where the files of a purpose are (`vetro.blobs.BLOB_SUFFIXES`), or copies of them."""
        if self.blobs.store == "directory":
            return self.shared_dir / purpose
        return self.data_dir / "blob-cache" / purpose

    @property
    def database_use(self) -> PostgresUse:
        """How PostgreSQL is used."""
        from vetro.storage import PostgresUse

        return PostgresUse(self.server.database_connections, self.server.database_listen_url)

    @property
    def database_url(self) -> str:
        """SQLite in the data directory unless another database is named."""
        return self.server.database_url or f"sqlite:///{self.data_dir / 'vetro.db'}"


SHORT_FORMS = {
    "VETRO_DATA_DIR": "server.data_dir",
    "VETRO_HOST": "server.host",
    "VETRO_PORT": "server.port",
    "VETRO_SHARED_DIR": "server.shared_dir",
    "VETRO_DATABASE_URL": "server.database_url",
    "VETRO_DRIVER": "node.driver",
}

SECTIONS = {
    one.name: cast("type[Any]", one.default_factory)
    for one in fields(Settings)
    if one.name != "file"
}
"""The class of each section of a settings file, by its name."""

#: What commands and scripts of this project read, beside the settings.
_OF_COMMANDS = frozenset(
    {
        *("VETRO_CONFIG", "VETRO_URL", "VETRO_TOKEN", "VETRO_DEBUG", "VETRO_REPO_URL"),
        *("VETRO_IMAGE_CACHE", "VETRO_COPY_TO", "VETRO_CODE_CACHE", "VETRO_CACHE_DIR"),
        *("VETRO_GUEST_ROOT", "VETRO_OPENSTACK_KIT", "VETRO_BENCH"),
    }
)
_OF_TOOLS = ("VETRO_TEST_", "VETRO_BENCH_")
#: A cluster gives them to every container, for each of its services: one may be called ``vetro-api``.
_OF_KUBERNETES = re.compile(r"_(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)$")


#: Settings of which only some values mean anything.
_CHOICES: dict[str, tuple[object, ...]] = {
    "blobs.store": ("directory", "database", "s3"),
    "compute.prefetch_images": ("all", "public", "none"),
    "compute.profile": ("seed", "upstream"),
    "node.driver": ("", "lxc", "qemu", "lxc+qemu", "process", "simulated"),
    "api.v03_put_status": (200, 201),
    "network.topology": ("routed", "flat", "nova"),
    "network.driver": ("", "neutron", "nova"),
    "compute.validation_status": (400, 422, 500),
    "compute.expired_wait_status": (204, 500),
    "openstack.stacks": ("native", "heat"),
    "server.log_format": ("console", "json", "logfmt"),
    "server.log_level": ("debug", "info", "warning", "error", "DEBUG", "INFO", "WARNING", "ERROR"),
    "identity.interface": ("public", "internal", "admin"),
}

#: Addresses to listen on.
_HOSTS = (
    ("server", "host"),
    ("compute", "host"),
    ("repository", "host"),
    ("cfapi", "host"),
    ("node", "listen_host"),
)

#: Settings with a smallest and a largest value.
_BOUNDS: dict[str, tuple[float, float]] = {
    "connections.header_seconds": (0.1, 86_400),
    "connections.body_seconds": (0.1, 86_400),
    "connections.body_bytes": (1, 2**30),
    "connections.write_seconds": (0.1, 86_400),
    "connections.keep_alive_seconds": (1, 86_400),
    "connections.total": (0, 2**20),
    "connections.per_address": (0, 2**20),
    "connections.reserve": (1, 1024),
    "connections.max_header_line": (1024, 2**20),
    "connections.backlog": (1, 2**31 - 1),
    "connections.tcp_keepidle": (0, 32_767),
    "tracing.ratio": (0, 1),
    "blobs.cache_mib": (0, 2**30),
    "api.project_requests": (0, 2**20),
    "api.project_waiting": (0, 2**20),
    "api.project_rate": (0, 1_000_000),
    "api.project_burst": (1, 2**20),
    **{f"quotas.{one.name}": (-1, 2**53) for one in fields(QuotasSection)},
    "cfapi.credentials_seconds": (0.1, 600),
    "api.package_size_limit": (0.001, 10_240),
    "api.max_request_body_size": (0, 10_240),
    "engine.task_timeout": (0, 2**31),
    "api.limit_param_default": (1, 10_000),
    "api.api_limit_max": (1, 10_000),
    "stats.period": (0.01, 1440),
    "identity.token_hours": (0.001, 87_600),
    "identity.cache_seconds": (0, 300),
    "identity.answer_seconds": (0.1, 300),
    "openstack.delegation_hours": (0.1, 8760),
    "openstack.away_seconds": (0, 86_400),
    "heat.stack_timeout": (1, 604_800),
    "heat.stack_busy_timeout": (0, 604_800),
    "rabbitmq.queue_expires": (0, 4_000_000),
    "stats.env_audit_period": (0.01, 44_640),
    "repository.body_limit": (1024, 2**30),
    "repository.import_limit": (1024, 2**30),
    "repository.archive_members": (1, 1_000_000),
    "repository.archive_bytes": (1024, 2**31),
}


def _defaults() -> dict[str, dict[str, Any]]:
    return {
        name: {f.name: getattr(section(), f.name) for f in fields(section)}
        for name, section in SECTIONS.items()
    }


def _convert(name: str, value: object, default: object, where: str) -> object:
    """``value`` in the type of ``default``; text from the environment is read as that type."""
    expected = type(default)
    if expected is bool and isinstance(value, str):
        lowered = value.lower()
        if lowered in ("1", "true", "yes", "on"):
            return True
        if lowered in ("0", "false", "no", "off"):
            return False
    elif isinstance(value, str) and (expected is dict or value.strip().startswith("[")):
        # From the environment what has a structure is JSON.
        try:
            read: object = json.loads(value)
        except ValueError:
            read = None
        if isinstance(read, expected):
            return cast("object", read)
    elif expected is list and isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    elif expected in (int, float) and isinstance(value, (str, int, float)):
        if not isinstance(value, bool):
            try:
                return expected(value)
            except (ValueError, OverflowError):
                pass
    elif isinstance(value, expected) and not (isinstance(value, str) and value.isspace()):
        return cast("object", value)
    # A number stands where a secret would be by its name alone (`identity.token_hours`).
    given = value if expected in (bool, int, float) else masked(value, name)
    raise SettingsError(
        f"{where}: {name} must be {_kind(expected)}, not {given!r}; the default is {default!r}"
    )


def _kind(expected: type) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return names.get(expected, "a table" if expected is dict else "a list")


def _unknown(name: str, known: list[str], where: str) -> SettingsError:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(known))}"
    return SettingsError(f"{where}: there is no setting {name}{hint}")


def _from_file(values: dict[str, dict[str, object]], path: Path) -> None:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(
            f"{path}: the settings cannot be read: {error.strerror}: run it as a user who may, or name"
            " another file with --config or VETRO_CONFIG"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{path}: not a settings file: {error.reason} at byte {error.start}"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from error
    for section, table in document.items():
        if section not in values:
            raise _unknown(section, list(values), str(path))
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: [{section}] must be a table")
        for key, value in cast("dict[str, object]", table).items():
            if key not in values[section]:
                raise _unknown(key, list(values[section]), f"{path} [{section}]")
            values[section][key] = _convert(
                f"{section}.{key}", value, values[section][key], str(path)
            )


def unused_variables(environ: Mapping[str, str]) -> list[str]:
    """``VETRO_…`` variables that nothing reads, as far as a setting cannot be meant.

    Errors: ``SettingsError`` for one in a section's name, or nearly a setting's: whoever set it believes it,
    and an unknown quota limits nothing.
    """
    known = [f"VETRO_{section}_{key}".upper() for section in SECTIONS for key in _names(section)]
    known += SHORT_FORMS
    unused: list[str] = []
    for name, value in environ.items():
        wanted = name.upper()
        if not wanted.startswith("VETRO_") or name in known or name in _OF_COMMANDS:
            continue
        if wanted.startswith(_OF_TOOLS) or _of_kubernetes(name, value):
            continue
        section = next((one for one in SECTIONS if wanted.startswith(f"VETRO_{one.upper()}_")), "")
        near = difflib.get_close_matches(wanted, known, 1, 0.85)
        if not near and not section:
            unused.append(name)
            continue
        there = ", ".join(f"VETRO_{section}_{key}".upper() for key in _names(section))
        hint = f"did you mean {near[0]}?" if near else f"there are: {there}"
        raise SettingsError(f"{name}: there is no such setting; {hint}")
    return unused


def _of_kubernetes(name: str, value: str) -> bool:
    """Whether a variable says where a Service of Kubernetes is: ``VETRO_PORT=tcp://10.0.0.1:8082``."""
    return _OF_KUBERNETES.search(name) is not None or (name.endswith("_PORT") and "://" in value)


def _names(section: str) -> list[str]:
    return [one.name for one in fields(SECTIONS[section])] if section else []


def _from_environment(environ: Mapping[str, str], name: str, default: object) -> object | None:
    """What the variables of a setting say; ``None``: nothing. Errors: ``SettingsError``."""
    variables = [f"VETRO_{name.replace('.', '_')}".upper()]
    variables += [short for short, meant in SHORT_FORMS.items() if meant == name]
    found = None
    for variable in variables:
        if (text := environ.get(variable)) is None or _of_kubernetes(variable, text):
            continue
        if not text.strip():
            # A variable of a script that was never set would undo the file, or what it was to ask for.
            raise SettingsError(
                f"{variable} is empty: {name} must be {_kind(type(default))}; unset the variable for what"
                f" the file says, or the default {default!r}"
            )
        found = _convert(name, text, default, variable)
    return found


def _check_regions(values: Mapping[str, Mapping[str, Any]]) -> None:
    """Check what the regions' stacks are made by. Errors: ``SettingsError``."""
    regions: dict[str, Any] = values["openstack"]["regions"]
    for region, given in regions.items():
        if given not in ("native", "heat"):
            raise SettingsError(
                f"openstack.regions: {region} must be native or heat, not {given!r}"
            )
    if (
        "heat" in (values["openstack"]["stacks"], *regions.values())
        and not values["identity"]["url"]
    ):
        raise SettingsError(
            "openstack: stacks of heat need identity.url, the Keystone in whose catalog Heat is"
        )


def _check_blobs(given: Mapping[str, object]) -> None:
    """Check what a bucket needs. Errors: ``SettingsError``."""
    if given["store"] == "s3" and not given["bucket"]:
        raise SettingsError(
            "blobs: the store s3 needs blobs.bucket, the name of a bucket that exists"
        )
    if bool(given["access_key"]) != bool(given["secret_key"]):
        raise SettingsError(
            "blobs: give both blobs.access_key and blobs.secret_key, or neither (then AWS_ACCESS_KEY_ID"
            " and AWS_SECRET_ACCESS_KEY count, or the machine's role)"
        )


def _check_what_is_asked(values: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse settings that would silently be less safe than what they ask for. ``SettingsError``."""
    for section, table in values.items():
        for key, value in table.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise SettingsError(
                    f"{section}.{key} must be a finite number, not {value!r}: nothing is above it"
                )
    for section, key in _HOSTS:
        if not values[section][key].strip():
            raise SettingsError(
                f"{section}.{key} is empty, which would mean every address: write 127.0.0.1 for this"
                " machine only, or 0.0.0.0 for all"
            )
    identity, broker = values["identity"], values["rabbitmq"]
    given = [
        name
        for name in ("service_password", "service_credential", "service_secret")
        if identity[name]
    ]
    if given and not identity["url"].strip():
        raise SettingsError(
            f"identity.{given[0]} is given without identity.url, the Keystone that it is for: the"
            " built-in identity service would decide who comes in"
        )
    asked = [name for name in ("ca_certs", "ssl_version") if broker[name]]
    if broker["host"] and asked and not broker["ssl"]:
        raise SettingsError(
            f"rabbitmq.{asked[0]} asks for TLS, and rabbitmq.ssl is false: set it to true, or remove"
            f" rabbitmq.{asked[0]}"
        )


def load_settings(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    config_file: Path | None = None,
) -> Settings:
    """Read the settings; ``flags`` are dotted names with values (``None``: not given).

    The file is ``config_file``, else ``VETRO_CONFIG``, else ``vetro.toml`` in the data directory,
    else ``/etc/vetro/vetro.toml``; a file that was named must exist.
    """
    environ = os.environ if environ is None else environ
    flags = {name: value for name, value in (flags or {}).items() if value is not None}
    defaults = _defaults()
    values = _defaults()

    if config_file is None and not environ.get("VETRO_CONFIG", "-").strip():
        raise SettingsError("VETRO_CONFIG is empty: name a settings file, or unset it")
    named = config_file or (Path(environ["VETRO_CONFIG"]) if "VETRO_CONFIG" in environ else None)
    if named is not None:
        if not named.is_file():
            found = "the settings file does not exist"
            if named.is_dir():
                found = "it is a directory, not a settings file"
            raise SettingsError(f"{named}: {found}: see --config and VETRO_CONFIG")
        _from_file(values, named)
    else:
        data_dir = flags.get("server.data_dir") or environ.get("VETRO_DATA_DIR")
        candidates = [
            Path(str(data_dir)) if data_dir else default_data_dir(),
            Path("/etc/vetro"),
        ]
        for directory in candidates:
            # A link that leads nowhere, or a directory, is a mistake: to go on without would undo settings.
            if os.path.lexists(directory / "vetro.toml"):
                named = directory / "vetro.toml"
                _from_file(values, named)
                break

    unused_variables(environ)
    for section, table in values.items():
        for key in table:
            given = _from_environment(environ, f"{section}.{key}", defaults[section][key])
            table[key] = table[key] if given is None else given

    for name, value in flags.items():
        section, _, key = name.partition(".")
        values[section][key] = _convert(name, value, defaults[section][key], "command line")

    for name, choices in _CHOICES.items():
        section, _, key = name.partition(".")
        if values[section][key] not in choices:
            known = ", ".join(str(one) for one in choices)
            raise SettingsError(f"{name} must be one of {known}, not {values[section][key]!r}")
    for name, (least, most) in _BOUNDS.items():
        section, _, key = name.partition(".")
        if not least <= values[section][key] <= most:  # nan is refused by this, too
            raise SettingsError(
                f"{name} must be from {least:g} to {most:,.0f}, not {values[section][key]!r}"
            )
    _check_regions(values)
    _check_blobs(values["blobs"])
    _check_what_is_asked(values)
    endpoint = values["tracing"]["endpoint"]
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise SettingsError(
            f"tracing.endpoint must be an address such as http://collector:4318/v1/traces, not {endpoint!r}"
        )
    sections = {name: section(**values[name]) for name, section in SECTIONS.items()}
    return Settings(**sections, file=named)
