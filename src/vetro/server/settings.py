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
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast


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
    """How the process listens and where it keeps its state.

    ``allowed_origins``: web origins whose pages may use the API (``*``: any). ``trust_proxy``: believe
    ``Forwarded`` and ``X-Forwarded-*``; only for a service that is reached through its proxy alone.
    """

    host: str = "127.0.0.1"
    port: int = 8082
    data_dir: str = ""
    database_url: str = ""
    log_level: str = "info"
    log_format: str = "console"
    drain_seconds: float = 20.0
    debug: bool = False
    allowed_origins: list[str] = field(default_factory=list[str])
    trust_proxy: bool = False


@dataclass(frozen=True)
class IdentitySection:
    """The built-in identity service."""

    admin_password: str = ""
    token_hours: float = 12.0


@dataclass(frozen=True)
class NodeSection:
    """The node agent: the local one of ``vetro up``, or ``vetro node`` on a machine of its own.

    ``enabled`` is for ``vetro up`` only; ``compute_url``, ``key`` and ``mailbox_url`` for ``vetro node``.
    What the others mean is said in docs/compute/node.md.
    """

    driver: str = ""
    prefix: str = "vt"
    enabled: bool = True
    compute_url: str = "http://127.0.0.1:8082/compute"
    key: str = ""
    listen_host: str = "127.0.0.1"
    port: int = 0
    admin_ip: str = ""
    mailbox_url: str = ""
    server_uuid: str = ""
    pull: bool = False
    allow_privileged: bool = False
    pool: str = "auto"
    pool_source: str = ""
    image_keep_days: float = 14.0
    task_log_dir: str = ""


@dataclass(frozen=True)
class NetworkSection:
    """Floating addresses: ``external_cidr``; environments' networks: ``env_ip_template``."""

    external_cidr: str = "172.24.4.0/24"
    external_network: str = "ext-net"
    env_ip_template: str = "10.0.0.0"
    max_environments: int = 250
    max_hosts: int = 250
    default_dns: list[str] = field(default_factory=list[str])
    router_name: str = "murano-default-router"


@dataclass(frozen=True)
class ComputeSection:
    """The compute node service; the rest of its settings is said in docs/compute/service.md.

    ``overprovision_…``: how full nodes get; instances may ask for this many times what a node has.
    Processor time is shared, so much of it may be promised; memory and disk that are not there cannot
    be given (docs/decisions/0012).
    """

    overprovision_cpu: float = 16.0
    overprovision_ram: float = 1.0
    overprovision_disk: float = 1.0
    datacenter_name: str = "local"
    profile: str = "seed"
    trusted_network: bool = False
    shared_node_key: bool = True
    validation_status: int = 500
    expired_wait_status: int = 500
    remote_execution: bool = True
    setup_reboot: bool = False
    unknown_vm_seconds: float = 3600.0
    """Seconds until a machine that a node has and no record knows is removed; 0: it is only reported."""


@dataclass(frozen=True)
class DapiSection:
    """The allocator: ``dapi.changeDefaults`` and the like (docs/compute/allocation.md)."""

    change_defaults: dict[str, Any] = field(default_factory=dict[str, Any])
    allocation_description: list[Any] = field(default_factory=list[Any])
    """The pipeline as a nested list; empty: the built-in one."""
    batch_size: int = 0
    """Servers that are considered at once; 0: all."""
    random_seed: str = ""
    """Makes choices repeatable."""


@dataclass(frozen=True)
class EngineSection:
    """The engine pool and what programs may use."""

    workers: int = 4
    agent_timeout: float = 3600.0
    disable_murano_agent: bool = False
    packages_directories: list[str] = field(default_factory=list[str])
    code_cache: str = ""
    """Where compiled classes are kept; empty: `code-cache` in the data directory."""
    home_region: str = ""
    static_call_timeout: float = 60.0
    """Seconds that the caller of a static action, or of a class's schema, waits."""
    action_result_limit: int = 16 * 2**20
    """Bytes of JSON that an action may return."""


@dataclass(frozen=True)
class RabbitmqSection:
    """A broker that guests are reached over; without ``host`` they fetch from their mailboxes.

    ``ca_certs`` is a file; ``quorum_queues`` are replicated queues, for a broker of several nodes.
    """

    host: str = ""
    port: int = 5672
    login: str = "guest"
    password: str = "guest"  # noqa: S105 the broker's own default
    virtual_host: str = "/"
    ssl: bool = False
    ssl_version: str = ""
    ca_certs: str = ""
    insecure: bool = False
    quorum_queues: bool = False


@dataclass(frozen=True)
class TlsSection:
    """Mutual TLS between the compute service and node agents (docs/compute/node.md): PEM files.

    All three or none. ``vetro up`` and every ``vetro node`` have a certificate of one authority.
    """

    certificate: str = ""
    key: str = ""
    authority: str = ""


@dataclass(frozen=True)
class Settings:
    """All sections, and the data directory they settle on."""

    server: ServerSection = field(default_factory=ServerSection)
    identity: IdentitySection = field(default_factory=IdentitySection)
    node: NodeSection = field(default_factory=NodeSection)
    network: NetworkSection = field(default_factory=NetworkSection)
    compute: ComputeSection = field(default_factory=ComputeSection)
    dapi: DapiSection = field(default_factory=DapiSection)
    engine: EngineSection = field(default_factory=EngineSection)
    rabbitmq: RabbitmqSection = field(default_factory=RabbitmqSection)
    tls: TlsSection = field(default_factory=TlsSection)

    @property
    def data_dir(self) -> Path:
        """The directory for everything this installation keeps."""
        given = self.server.data_dir
        return Path(given).expanduser().absolute() if given else default_data_dir()

    @property
    def database_url(self) -> str:
        """SQLite in the data directory unless another database is named."""
        return self.server.database_url or f"sqlite:///{self.data_dir / 'vetro.db'}"


SHORT_FORMS = {
    "VETRO_DATA_DIR": "server.data_dir",
    "VETRO_HOST": "server.host",
    "VETRO_PORT": "server.port",
    "VETRO_DATABASE_URL": "server.database_url",
    "VETRO_DRIVER": "node.driver",
}

_SECTIONS: dict[str, type] = {
    "server": ServerSection,
    "identity": IdentitySection,
    "node": NodeSection,
    "network": NetworkSection,
    "compute": ComputeSection,
    "dapi": DapiSection,
    "engine": EngineSection,
    "rabbitmq": RabbitmqSection,
    "tls": TlsSection,
}


#: Settings of which only some values mean anything.
_CHOICES: dict[str, tuple[object, ...]] = {
    "compute.profile": ("seed", "upstream"),
    "compute.validation_status": (400, 422, 500),
    "compute.expired_wait_status": (204, 500),
}


def _defaults() -> dict[str, dict[str, Any]]:
    return {
        name: {f.name: getattr(section(), f.name) for f in fields(section)}
        for name, section in _SECTIONS.items()
    }


def _convert(name: str, value: object, default: object, where: str) -> object:
    """``value`` in the type of ``default``; text from the environment is read as that type."""
    expected = type(default)
    if expected is bool and isinstance(value, str):
        lowered = value.lower()
        if lowered in ("1", "true", "yes", "on"):
            return True
        if lowered in ("0", "false", "no", "off", ""):
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
            except ValueError:
                pass
    elif isinstance(value, expected):
        return cast("object", value)
    raise SettingsError(
        f"{where}: {name} must be {_kind(expected)}, not {value!r}; the default is {default!r}"
    )


def _kind(expected: type) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return names.get(expected, "a table" if expected is dict else "a list")


def _unknown(name: str, known: list[str], where: str) -> SettingsError:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(known))}"
    return SettingsError(f"{where}: there is no setting {name}{hint}")


def _from_file(values: dict[str, dict[str, Any]], path: Path) -> None:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
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

    named = config_file or (Path(environ["VETRO_CONFIG"]) if environ.get("VETRO_CONFIG") else None)
    if named is not None:
        if not named.is_file():
            raise SettingsError(f"{named}: the settings file does not exist")
        _from_file(values, named)
    else:
        data_dir = flags.get("server.data_dir") or environ.get("VETRO_DATA_DIR")
        candidates = [
            Path(str(data_dir)) if data_dir else default_data_dir(),
            Path("/etc/vetro"),
        ]
        for directory in candidates:
            if (directory / "vetro.toml").is_file():
                _from_file(values, directory / "vetro.toml")
                break

    for section, table in values.items():
        for key in table:
            text = environ.get(f"VETRO_{section}_{key}".upper())
            if text is not None:
                variable = f"VETRO_{section}_{key}".upper()
                table[key] = _convert(f"{section}.{key}", text, defaults[section][key], variable)
    for variable, name in SHORT_FORMS.items():
        if environ.get(variable):
            section, key = name.split(".")
            values[section][key] = _convert(
                name, environ[variable], defaults[section][key], variable
            )

    for name, value in flags.items():
        section, _, key = name.partition(".")
        values[section][key] = _convert(name, value, defaults[section][key], "command line")

    for name, choices in _CHOICES.items():
        section, _, key = name.partition(".")
        if values[section][key] not in choices:
            known = ", ".join(str(one) for one in choices)
            raise SettingsError(f"{name} must be one of {known}, not {values[section][key]!r}")
    return Settings(**{name: section(**values[name]) for name, section in _SECTIONS.items()})
