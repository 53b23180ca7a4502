"""The settings that an engine gets when it starts (core-library.md §1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import msgspec

from vetro.messaging import BrokerSettings, MailboxSection, RabbitmqSection
from vetro.openstack import KeystonePlace, OpenstackSection
from vetro.tracing import TracingSection

if TYPE_CHECKING:
    from vetro.storage import Keyring, PostgresUse


@dataclass(frozen=True)
class EngineSection:
    """The engine pool and what programs may use."""

    compute_url: str = "http://127.0.0.1:8082/compute"
    """The compute service, for engines in processes of their own (`vetro engine`)."""
    workers: int = 4
    """Deployments at a time; as many static actions beside them."""
    project_workers: int = 0
    """How many of them one project may have; 0: all but one."""
    worker_memory: int = 2048
    """MiB that one deployment, or one static action, may use; 0: without bound."""
    drain_seconds: float = 600.0
    """How long a `vetro engine` that is told to stop lets its deployments continue; what runs then is
    marked as interrupted. A second signal ends it at once.
    """
    task_seconds: float = 0.0
    """Seconds that one deployment may take; then it is cancelled. 0: without bound."""
    task_timeout: float = 0.0
    """Seconds that a deployment may wait for an engine; then it fails, and its environment can be changed
    again. 0: without bound."""
    model_limit: int = 16 * 2**20
    """Bytes of JSON that the objects of one environment may have."""
    agent_timeout: float = 3600.0
    """Seconds that a call of a guest agent may take unless the program names a time."""
    agent_source: str = "murano-agent"
    """Where Linux guests of images without an agent get one: the address of `vetro-guest.pyz`, maybe with
    `#sha256=` and its checksum ([openstack.md](openstack.md#guests)), or what `pip3 install` takes."""
    balancer_image: str = "vetro-balancer"
    """Image of load balancers in templates, by name or uuid: it has HAProxy and python3."""
    disable_murano_agent: bool = False
    """Refuse every call of a guest agent; for installations without guests."""
    packages_directories: list[str] = field(default_factory=list[str])
    """Directories with packages that every project sees, beside the catalog."""
    enabled_plugins: list[str] = field(default_factory=lambda: ["*"])
    """Installed distributions that may add package formats and native classes
    ([packages.md](packages.md#formats-of-plug-ins)); `*`: all."""
    code_cache: str = ""
    """Where compiled classes are kept; empty: `code-cache` in the data directory."""
    file_server: str = ""
    """What guests of v0.3 services know as `%MURANO_SERVER_ADDRESS%`; empty: the broker or this service."""
    init_scripts_dir: str = ""
    """Directory with init scripts of v0.3 services, which win over those that ship."""
    agent_config_dir: str = ""
    """Directory with agent configurations (`NAME.template`) of v0.3 services, likewise."""
    home_region: str = ""
    """Name of the region that environments without one are in."""
    static_call_timeout: float = 60.0
    """Seconds that the caller of a static action, or of a class's schema, waits."""
    action_result_limit: int = 16 * 2**20
    """Bytes of JSON that an action may return."""
    enable_model_policy_enforcer: bool = False
    """Ask the rules in `engine.model_policy_file` before each deployment
    ([operating.md](operating.md#rules-about-models))."""
    model_policy_file: str = ""
    """File with these rules."""


@dataclass(frozen=True)
class NetworkSection:
    """Floating addresses, and the networks of environments."""

    external_cidr: str = "172.24.4.0/24"
    """Addresses that floating addresses are taken from."""
    topology: str = "routed"
    """Networks of v0.3 environments: `routed` (one of its own behind the router), `flat` (the default
    network) or `nova` (none: the cloud's own)."""
    driver: str = ""
    """Networks of environments that name none: `neutron` (one of its own) or `nova` (the flat network of a
    cloud without Neutron); empty: what the service catalog of the region's OpenStack says, else `neutron`."""
    external_network: str = "ext-net"
    """Name of the network that carries them."""
    env_ip_template: str = "10.0.0.0"
    """First address of the environments' networks."""
    max_environments: int = 250
    """How many networks are cut from there; with `max_hosts` it settles their size."""
    max_hosts: int = 250
    """How many instances a network has room for."""
    default_dns: list[str] = field(default_factory=list[str])
    """Name servers that instances are given; empty: this machine's own."""
    router_name: str = "murano-default-router"
    """Name of the router between the environments' networks and the external one."""
    create_router: bool = True
    """Whether that router is made in projects that have none; otherwise their deployments fail and say so."""


@dataclass(frozen=True)
class HeatSection:
    """Stacks of environments, whichever back end makes them ([stacks.md](stacks.md))."""

    stack_tags: list[str] = field(default_factory=lambda: ["murano"])
    """Tags of every stack."""
    stack_timeout: float = 3600.0
    """Seconds that one operation on a stack may take; then it fails and names what it waited on."""
    stack_busy_timeout: float = 1800.0
    """Seconds that an operation waits for others on the same stack to end; then it fails."""


@dataclass(frozen=True)
class EngineSettings:
    """Settings of an engine pool and of the class library.

    ``database_…``: how each deployment uses PostgreSQL (`vetro.storage.PostgresUse`). ``compute_url``
    and ``service_key``: how stacks reach the compute service; ``mailbox_url``: where guests find their
    mailboxes. ``signing_key``: the private key for execution plans, by default one in the data
    directory, created when it is missing; engines that share guests, but not a data directory, need the
    same key. ``class_configs``: a directory of values for properties of classes (muranopl.md §6).
    ``package_dir``: archives of packages, or copies of them; ``blobs``: the fields of
    `vetro.blobs.BlobsSection`. ``key_file`` has the keys that seal stored values; without it nothing is
    sealed. The other parts are sections of the settings file, as they are.
    """

    database_url: str
    data_dir: Path
    compute_url: str
    service_key: str
    mailbox_url: str
    package_dir: Path
    engine: EngineSection = field(default_factory=EngineSection)
    network: NetworkSection = field(default_factory=NetworkSection)
    heat: HeatSection = field(default_factory=HeatSection)
    mailbox: MailboxSection = field(default_factory=MailboxSection)
    rabbitmq: RabbitmqSection = field(default_factory=RabbitmqSection)
    keystone: KeystonePlace = field(default_factory=KeystonePlace)
    openstack: OpenstackSection = field(default_factory=OpenstackSection)
    tracing: TracingSection = field(default_factory=TracingSection)
    blobs: dict[str, str | int] = field(default_factory=dict[str, str | int])
    signing_key: Path | None = None
    key_file: Path | None = None
    database_connections: int = 4
    database_listen_url: str = ""
    class_configs: Path = Path("/etc/murano/class-configs")
    log_level: str = "info"
    log_format: str = "console"

    def as_json(self) -> dict[str, object]:
        """The settings as JSON, for another process."""
        return msgspec.to_builtins(self, enc_hook=str)

    @classmethod
    def from_json(cls, value: dict[str, object]) -> Self:
        """The settings that ``as_json`` wrote."""
        return msgspec.convert(value, cls, dec_hook=lambda kind, text: kind(text))

    def broker(self, region: Mapping[str, object]) -> BrokerSettings | None:
        """The broker of a region whose ``agentRabbitMq`` is given; ``None`` when it has none.

        A region has one when the service has one, or when it names a host of its own.
        """
        broker = self.rabbitmq
        own = self.config("rabbitmq", "host")
        host = region.get("host") or own
        if not host or (not broker.host and host == own):
            return None
        own_of_region = (
            "port",
            "login",
            "password",
            "virtual_host",
            "ssl",
            "ssl_version",
            "insecure",
        )
        said = {"host": host, **{key: region.get(key) for key in own_of_region}}
        if host != own:
            said["management_url"] = ""  # that of another broker
        return broker.reached(said)

    @property
    def most_per_project(self) -> int:
        """How many workers one project may have at a time."""
        return self.engine.project_workers or max(1, self.engine.workers - 1)

    @property
    def code_cache_directory(self) -> Path:
        """Where compiled classes are kept from run to run."""
        return Path(self.engine.code_cache or self.data_dir / "code-cache")

    @property
    def database_use(self) -> PostgresUse:
        """How a deployment uses PostgreSQL."""
        from vetro.storage import PostgresUse

        return PostgresUse(self.database_connections, self.database_listen_url)

    @property
    def keyring(self) -> Keyring | None:
        """The keys that seal and open stored secrets."""
        from vetro.storage import Keyring

        return Keyring(self.key_file) if self.key_file else None

    @property
    def signing_key_file(self) -> Path:
        """The private key that execution plans are signed with."""
        return self.signing_key or self.data_dir / "engine-signing.pem"

    def config(self, group: str, key: str) -> Any:
        """The value that ``config(group, key)`` gives to the core library; ``None`` when unset."""
        broker = self.rabbitmq
        table: dict[str, dict[str, object]] = {
            "DEFAULT": {
                "home_region": self.engine.home_region,
                "file_server": self.engine.file_server or None,
            },
            "rabbitmq": {
                # Without a broker: the host name under which guests find this service.
                "host": broker.host or urlsplit(self.mailbox_url).hostname,
                "port": broker.port,
                # Regions give packages what guests log in with: never this, where guests have users.
                "login": None if broker.management_url else broker.login,
                "password": None if broker.management_url else broker.password,
                "virtual_host": broker.virtual_host,
                "ssl": broker.ssl,
                "ssl_version": broker.ssl_version,
                "ca_certs": broker.ca_certs,
                "insecure": broker.insecure,
            },
            "engine": {
                "disable_murano_agent": self.engine.disable_murano_agent,
                "agent_timeout": self.engine.agent_timeout,
                "agent_source": self.engine.agent_source,
                "signing_key": str(self.signing_key_file),
                "class_configs": str(self.class_configs),
                "use_trusts": True,
            },
            "heat": {
                "stack_tags": self.heat.stack_tags,
                "stack_timeout": self.heat.stack_timeout,
            },
            "networking": {
                "max_environments": self.network.max_environments,
                "max_hosts": self.network.max_hosts,
                "env_ip_template": self.network.env_ip_template,
                "default_dns": self.network.default_dns,
                "external_network": self.network.external_network,
                "router_name": self.network.router_name,
                "create_router": self.network.create_router,
                "network_config_file": "netconfig.yaml",
                "driver": "neutron",
            },
        }
        value = table.get(group, {}).get(key)
        return None if value == "" else value
