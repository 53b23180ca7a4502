"""What a node agent is told when it starts (compute-node-agent.md §1)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from vetro.http import ConnectionLimits
from vetro.http.tls import MutualTls
from vetro.node.errors import ConfigurationError

DRIVERS = ("lxc", "qemu", "lxc+qemu", "process", "simulated")
# Interface names have at most 15 characters: prefix, one letter, eight hex digits, and room.
_PREFIX = re.compile(r"[a-z][a-z0-9]{0,5}")


@dataclass(frozen=True)
class NodeSettings:
    """Settings of one agent.

    compute_url: base URL of the compute service, without a slash at the end.
    node_key: shared secret; the agent sends it to the service and demands it on its task API.
    data_dir: everything the agent keeps (images, VMs, task history); made when missing.
    driver: ``lxc`` (containers), ``qemu`` (virtual machines), ``lxc+qemu`` (both), ``process`` (no
        isolation) or ``simulated``.
    listen_host, port: the task API; port 0 takes a free one.
    prefix: first letters of every interface, table and mount of this agent.
    guest_archive: ``vetro-guest.pyz``; without it instances get no guest agent.
    mailbox_url: where guests reach their mailboxes (shown in sysinfo, not used by the agent).
    server_uuid: empty: the machine's own, else one that is made and kept in ``data_dir``.
    admin_ip: the address the service reaches this agent at; empty: ``listen_host`` or, when that
        is a wildcard, the address of the default route.
    pool, pool_kind, pool_source: name of the storage pool, what it is made of (``auto``: what the
        data directory lies on; ``directory``, ``btrfs``, ``zfs``, ``lvm``), LVM's volume group and
        thin pool.
    share_images: keep image files so that other nodes can fetch them from here.
    nearby_images: where the service keeps its image files, when it runs on this machine.
    image_keep_seconds: an image no VM uses goes after that time; 0 keeps all.
    relay_guests: the service runs elsewhere: relay guests' requests for their mailboxes to it.
    pull: ask the service for tasks instead of waiting to be called: for nodes behind NAT.
    task_log_dir: a file for each task that ended, named ``<ms>-<pid>-<task>.log``; ``None``: none.
    reboot_command: what starts the machine again.
    tls: the task API takes only clients with a certificate of its authority, and the agent shows its
        own to the service (``https`` URLs) and to other agents.
    limits: what clients of the task API may take of connections and of time.
    allow_privileged: containers may ask for the machine's own root (payload ``privileged``).
    """

    compute_url: str
    data_dir: Path
    node_key: str = ""
    driver: str = "lxc"
    listen_host: str = "127.0.0.1"
    port: int = 0
    prefix: str = "vt"
    guest_archive: Path | None = None
    mailbox_url: str = ""
    server_uuid: str = ""
    admin_ip: str = ""
    datacenter_name: str = "local"
    dns_domain: str = "local"
    pool: str = "zones"
    headnode: bool = False
    heartbeat_seconds: float = 5.0
    task_limit_seconds: float = 3600.0
    autoboot: bool = True
    pool_kind: str = "auto"
    pool_source: str = ""
    share_images: bool = True
    nearby_images: Path | None = None
    image_keep_seconds: float = 14 * 86400.0
    allow_privileged: bool = False
    pull: bool = False
    relay_guests: bool = False
    task_log_dir: Path | None = None
    reboot_command: tuple[str, ...] = ("shutdown", "-r", "now")
    tls: MutualTls | None = None
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    concurrency: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        if self.driver not in DRIVERS:
            raise ConfigurationError(
                f"There is no driver '{self.driver}'; choose one of {', '.join(DRIVERS)}"
            )
        if not _PREFIX.fullmatch(self.prefix):
            raise ConfigurationError(
                f"The prefix '{self.prefix}' cannot begin interface names:"
                " one to six lower-case letters or digits, a letter first"
            )
        if not self.data_dir.is_absolute():
            raise ConfigurationError(f"The data directory {self.data_dir} must be absolute")
        if not self.compute_url.startswith(("http://", "https://")):
            raise ConfigurationError(f"The compute URL '{self.compute_url}' is not an HTTP URL")
