"""What stands between the plans of users and the service: which driver runs them, and what that holds.

A plan is a program of whoever may deploy. A driver without containers separates it from the service
by a user at most, so a service never takes one by itself where somebody else can come in: it is
written in the settings (``node.driver``), and that is the operator's decision (decision 0811).
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from vetro.secrecy import without_credentials
from vetro.server.errors import StartError
from vetro.server.settings import Settings

#: Drivers whose instances have neither a system nor a network of their own.
PLAIN = ("process", "simulated")
_WRITE_IT = (
    'write driver = "process" under [node] (--driver process): docs/guest.md says what then holds'
)


@dataclass(frozen=True)
class Instances:
    """The driver of a node; ``why`` it is this one, and what ``holds``: each a line for people."""

    driver: str
    why: str
    holds: str


@dataclass(frozen=True)
class Started:
    """Who starts a node, and on what machine."""

    user: int
    which: Callable[[str], str | None] = shutil.which

    @classmethod
    def here(cls) -> Started:
        """This process."""
        return cls(os.geteuid())


def choose_instances(settings: Settings, others: str, started: Started | None = None) -> Instances:
    """How this node runs instances. Errors: ``StartError``: isolation is missing, and nobody said so.

    ``others``: how others than this machine's users come to it; '' when they do not.
    """
    started = started or Started.here()
    wanted = settings.node.driver
    if wanted:
        return Instances(wanted, "as asked for", what_holds(wanted, started.user))
    if not settings.node.enabled:
        # No node: it matters only at which address guests on other machines are expected.
        driver = "lxc" if started.user == 0 and started.which("lxc-start") else "process"
        return Instances(driver, "no instances here", "instances run on other machines")
    if started.user == 0:
        if started.which("lxc-start") is not None:
            return Instances("lxc", "unprivileged LXC containers", what_holds("lxc", 0))
        raise StartError(
            "LXC is not installed, and a service that runs as root never takes a driver without"
            " containers by itself",
            f"apt-get install lxc uidmap mmdebstrap iproute2 nftables; or {_WRITE_IT}.",
        )
    if others:
        raise StartError(
            "Without root there are no containers, and plans of users would run as the service's own"
            f" user, although others can come in: {others}",
            f"Run it as root with LXC; or listen on 127.0.0.1 only; or {_WRITE_IT}.",
        )
    return Instances(
        "process",
        "not root, and only this machine can come in",
        what_holds("process", started.user),
    )


def kept_from_plans(settings: Settings) -> tuple[Path, ...]:
    """Directories and files of this installation: no instance sees them, whatever their modes are.

    An operator may put there what he likes, and a copy of a file is readable for everybody.
    """
    named = [settings.tls.key, settings.node.task_log_dir]
    kind, _, database = settings.database_url.partition(":///")
    if kind == "sqlite":  # not by `sqlite_file`: a node loads no storage
        named += [f"{database}{end}" for end in ("", "-wal", "-shm", "-journal")]
    files = [Path(one).absolute() for one in named if one]
    if settings.file is not None:
        files.append(settings.file.absolute())
    return (settings.data_dir, settings.shared_dir, Path("/etc/vetro"), *files)


def what_holds(driver: str, user: int) -> str:
    """What keeps plans of a driver away from a service of a user."""
    if driver == "simulated":
        return "nothing runs"
    if driver != "process":
        return "isolated: containers or virtual machines"
    if user == 0:
        return (
            "no containers: plans run as a user of their project, who may read what every user may"
        )
    return f"no isolation: plans run as {_name(user)}, the service's own user, and can read all it keeps"


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def others_at_service(settings: Settings) -> str:
    """How others than this machine's users come to ``vetro up``; '' when they do not."""
    server = settings.server
    if not is_loopback(server.host):
        return f"it listens on {server.host} (server.host)"
    if server.trust_proxy:
        return "it is reached through a proxy (server.trust_proxy)"
    if not settings.database_url.startswith("sqlite"):
        return "other services can share its database (server.database_url)"
    return ""


def others_at_node(settings: Settings) -> str:
    """How others than this machine's users come to ``vetro node``; '' when they do not."""
    node = settings.node
    if not is_loopback(urlsplit(node.compute_url).hostname or ""):
        return f"the compute service is {without_credentials(node.compute_url)} (node.compute_url)"
    if not is_loopback(node.listen_host):
        return f"it listens on {node.listen_host} (node.listen_host)"
    return ""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens at a host; a name other than localhost may not."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
