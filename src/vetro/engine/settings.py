"""What an engine is told when it starts (core-library.md §1.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class EngineSettings:
    """Settings of an engine pool and of the class library.

    ``compute_url`` and ``service_key`` are how stacks reach the compute service; ``mailbox_url`` is
    where guests find their mailboxes. ``agent_timeout`` in seconds.
    """

    database_url: str
    data_dir: Path
    compute_url: str
    service_key: str
    mailbox_url: str
    package_dir: Path
    workers: int = 4
    agent_timeout: float = 3600.0
    stack_timeout: float = 3600.0
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
    log_level: str = "info"
    log_format: str = "console"

    @property
    def signing_key_file(self) -> Path:
        """The private key that execution plans are signed with."""
        return self.data_dir / "engine-signing.pem"

    def config(self, group: str, key: str) -> Any:
        """The value that ``config(group, key)`` gives to the core library; ``None`` when unset."""
        table: dict[str, dict[str, Any]] = {
            "DEFAULT": {"home_region": self.home_region or None},
            "rabbitmq": {
                "port": 5672,
                "login": "guest",
                "password": "guest",
                "virtual_host": "/",
                "ssl": False,
                "ssl_version": None,
                "ca_certs": None,
                "insecure": False,
            },
            "engine": {
                "disable_murano_agent": self.disable_murano_agent,
                "agent_timeout": self.agent_timeout,
                "agent_source": "murano-agent",
            },
            "networking": {
                "max_environments": self.max_environments,
                "max_hosts": self.max_hosts,
                "env_ip_template": self.env_ip_template,
                "default_dns": self.default_dns,
                "external_network": self.external_network,
                "router_name": self.router_name,
                "create_router": self.create_router,
            },
        }
        return table.get(group, {}).get(key)
