"""The settings of a node agent at its start (compute-node-agent.md §1)."""

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
class NodeSection:
    """The node agent: the local one of `vetro up`, or `vetro node` on a machine of its own
    (docs/compute/node.md).
    """

    driver: str = ""
    """`lxc`, `qemu`, `lxc+qemu`, `process` or `simulated`; empty: `lxc` for root, and without root
    `process` where only this machine can come in. Otherwise `process` must be written
    ([guest.md](guest.md#without-isolation)).
    """
    prefix: str = "vt"
    """Begins the name of every interface, table and group that the agent makes; sets it apart from
    another agent on the machine.
    """
    enabled: bool = True
    """Whether `vetro up` runs a node agent of its own."""
    compute_url: str = "http://127.0.0.1:8082/compute"
    """For `vetro node`: the address of the compute service."""
    key: str = ""
    """For `vetro node`: the secret that the service knows this node by (its `key` by
    `vetro cnapi /servers/UUID/key`, or the shared one).
    """
    listen_host: str = "127.0.0.1"
    """Address of the task API: one of the network between the nodes."""
    port: int = 0
    """Port of the task API; 0: a free one."""
    admin_ip: str = ""
    """Address that others reach this node at, when it is not `listen_host`; tunnels end there too.
    """
    mailbox_url: str = ""
    """For `vetro node`: where guests find their mailboxes; empty: through their node."""
    server_uuid: str = ""
    """The node's uuid; empty: the machine's own, else one that is made once and kept."""
    pull: bool = False
    """Ask the service for tasks instead of being called, for a node behind NAT. Such a node shares
    no network with others.
    """
    allow_privileged: bool = False
    """Run instances that ask to be privileged: root in them is root on the node."""
    pool: str = "auto"
    """What instances lie on: `auto`, `directory`, `btrfs`, `zfs` or `lvm`."""
    pool_source: str = ""
    """The data set of `zfs`, or the volume group and thin pool of `lvm` (`group/pool`)."""
    image_keep_days: float = 14.0
    """Days after which an image that no instance uses is removed from the node; 0: never."""
    task_log_dir: str = ""
    """Directory for a log file of each task that ended; empty: none."""


@dataclass(frozen=True)
class NodeSettings:
    """Settings of one agent: the section ``node`` of the settings file, and what its process knows.

    node: ``driver`` and ``compute_url`` (without a slash at the end) are never empty here; ``key`` is
        the secret that the agent sends to the service and demands on its task API.
    data_dir: everything the agent keeps (images, VMs, task history); made when missing.
    guest_archive: ``vetro-guest.pyz``; without it instances get no guest agent.
    pool: name of the storage pool.
    share_images: keep image files so that other nodes can fetch them from here.
    nearby_images: where the service keeps its image files, when it runs on this machine.
    relay_guests: the service runs elsewhere: relay guests' requests for their mailboxes to it.
    reboot_command: what starts the machine again.
    tls: the task API takes only clients with a certificate of its authority, and the agent shows its
        own to the service (``https`` URLs) and to other agents.
    hidden: what plans must not see of this machine, where they see its files: directories and files of
        the installation that the node belongs to. Its own data are, too.
    limits: what clients of the task API may take of connections and of time.
    """

    data_dir: Path
    node: NodeSection
    guest_archive: Path | None = None
    datacenter_name: str = "local"
    dns_domain: str = "local"
    pool: str = "zones"
    headnode: bool = False
    heartbeat_seconds: float = 5.0
    task_limit_seconds: float = 3600.0
    autoboot: bool = True
    share_images: bool = True
    nearby_images: Path | None = None
    relay_guests: bool = False
    reboot_command: tuple[str, ...] = ("shutdown", "-r", "now")
    tls: MutualTls | None = None
    hidden: tuple[Path, ...] = ()
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    concurrency: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        """Errors: ``ConfigurationError``."""
        driver, prefix, url = self.node.driver, self.node.prefix, self.node.compute_url
        if driver not in DRIVERS:
            raise ConfigurationError(
                f"There is no driver '{driver}'; choose one of {', '.join(DRIVERS)}"
            )
        if not _PREFIX.fullmatch(prefix):
            raise ConfigurationError(
                f"The prefix '{prefix}' cannot begin interface names:"
                " one to six lower-case letters or digits, a letter first"
            )
        if not self.data_dir.is_absolute():
            raise ConfigurationError(f"The data directory {self.data_dir} must be absolute")
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"The compute URL '{url}' is not an HTTP URL")
