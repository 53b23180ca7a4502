"""The settings that an engine gets when it starts (core-library.md §1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from vetro.messaging import BrokerSettings

if TYPE_CHECKING:
    from vetro.storage import Keyring


@dataclass(frozen=True)
class EngineSettings:
    """Settings of an engine pool and of the class library.

    ``compute_url`` and ``service_key``: how stacks reach the compute service; ``mailbox_url``:
    where guests find their mailboxes. ``signing_key``: the private key for execution plans, by
    default one in the data directory, created when it is missing; engines that share guests, but
    not a data directory, need the same key. ``class_configs``: a directory of values for properties
    of classes (muranopl.md §6). Timeouts in seconds: ``agent_timeout`` for a plan,
    ``stack_timeout`` for one operation on a stack, ``stack_busy_timeout`` for waiting until other
    operations on it have ended; ``task_seconds`` limits a whole deployment (0: no limit).
    ``action_result_limit``: bytes of JSON that an action may return; ``mailbox_result_limit`` and
    ``mailbox_plan_limit``: bytes of a guest's result and of a plan; ``model_limit``: bytes of JSON
    of an environment's objects. ``project_workers``: how many of the ``workers`` one project may
    use at a time (0: all but one); ``worker_memory``: MiB that a worker may use beyond its memory
    at the start (0: no limit). ``key_file`` has the keys that seal stored values; without it
    nothing is sealed.
    """

    database_url: str
    data_dir: Path
    compute_url: str
    service_key: str
    mailbox_url: str
    package_dir: Path
    workers: int = 4
    project_workers: int = 0
    worker_memory: int = 2048
    model_limit: int = 16 * 2**20
    agent_timeout: float = 3600.0
    stack_timeout: float = 3600.0
    stack_busy_timeout: float = 1800.0
    stack_tags: list[str] = field(default_factory=lambda: ["murano"])
    task_seconds: float = 0.0
    action_result_limit: int = 16 * 2**20
    mailbox_result_limit: int = 2**20
    mailbox_plan_limit: int = 16 * 2**20
    signing_key: Path | None = None
    key_file: Path | None = None
    class_configs: Path = Path("/etc/murano/class-configs")
    code_cache: Path | None = None
    disable_murano_agent: bool = False
    packages_directories: list[Path] = field(default_factory=list[Path])
    home_region: str = ""
    env_ip_template: str = "10.0.0.0"
    max_environments: int = 250
    max_hosts: int = 250
    default_dns: list[str] = field(default_factory=list[str])
    external_network: str = "ext-net"
    router_name: str = "murano-default-router"
    create_router: bool = True
    rabbitmq_host: str = ""
    rabbitmq_port: int = 5672
    rabbitmq_login: str = "guest"
    rabbitmq_password: str = "guest"  # noqa: S105 the broker's own default
    rabbitmq_virtual_host: str = "/"
    rabbitmq_ssl: bool = False
    rabbitmq_ssl_version: str = ""
    rabbitmq_ca_certs: str = ""
    rabbitmq_insecure: bool = False
    rabbitmq_quorum_queues: bool = False
    log_level: str = "info"
    log_format: str = "console"

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON, for another process."""

        def plain(value: Any) -> Any:
            if isinstance(value, list):
                return [plain(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
            return str(value) if isinstance(value, Path) else value

        return {one.name: plain(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The settings that ``as_json`` wrote."""
        given = dict(value)
        for key in (
            "data_dir",
            "package_dir",
            "signing_key",
            "key_file",
            "code_cache",
            "class_configs",
        ):
            given[key] = Path(value[key]) if value.get(key) is not None else None
        given["packages_directories"] = [Path(one) for one in value["packages_directories"]]
        return cls(**given)

    def broker(self, region: Mapping[str, Any]) -> BrokerSettings | None:
        """The broker of a region whose ``agentRabbitMq`` is given; ``None`` when it has none.

        A region has one when the service has one, or when it names a host of its own.
        """
        own = self.config("rabbitmq", "host")
        host = region.get("host") or own
        if not host or (not self.rabbitmq_host and host == own):
            return None
        said = {key: value for key, value in region.items() if value is not None}
        return BrokerSettings(
            host=host,
            port=int(said.get("port", self.rabbitmq_port)),
            login=str(said.get("login", self.rabbitmq_login)),
            password=str(said.get("password", self.rabbitmq_password)),
            virtual_host=str(said.get("virtual_host", self.rabbitmq_virtual_host)),
            ssl=bool(said.get("ssl", self.rabbitmq_ssl)),
            ssl_version=str(said.get("ssl_version", self.rabbitmq_ssl_version)),
            insecure=bool(said.get("insecure", self.rabbitmq_insecure)),
            ca_certs=self.rabbitmq_ca_certs,
            quorum_queues=self.rabbitmq_quorum_queues,
        )

    @property
    def most_per_project(self) -> int:
        """How many workers one project may have at a time."""
        return self.project_workers or max(1, self.workers - 1)

    @property
    def code_cache_directory(self) -> Path:
        """Where compiled classes are kept from run to run."""
        return self.code_cache or self.data_dir / "code-cache"

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
        table: dict[str, dict[str, Any]] = {
            "DEFAULT": {"home_region": self.home_region, "file_server": None},
            "rabbitmq": {
                # Without a broker: the host name under which guests find this service.
                "host": self.rabbitmq_host or urlsplit(self.mailbox_url).hostname,
                "port": self.rabbitmq_port,
                "login": self.rabbitmq_login,
                "password": self.rabbitmq_password,
                "virtual_host": self.rabbitmq_virtual_host,
                "ssl": self.rabbitmq_ssl,
                "ssl_version": self.rabbitmq_ssl_version,
                "ca_certs": self.rabbitmq_ca_certs,
                "insecure": self.rabbitmq_insecure,
            },
            "engine": {
                "disable_murano_agent": self.disable_murano_agent,
                "agent_timeout": self.agent_timeout,
                "agent_source": "murano-agent",
                "signing_key": str(self.signing_key_file),
                "class_configs": str(self.class_configs),
                "use_trusts": True,
            },
            "heat": {"stack_tags": self.stack_tags, "stack_timeout": self.stack_timeout},
            "networking": {
                "max_environments": self.max_environments,
                "max_hosts": self.max_hosts,
                "env_ip_template": self.env_ip_template,
                "default_dns": self.default_dns,
                "external_network": self.external_network,
                "router_name": self.router_name,
                "create_router": self.create_router,
                "network_config_file": "netconfig.yaml",
                "driver": "neutron",
            },
        }
        value = table.get(group, {}).get(key)
        return None if value == "" else value
