"""What this machine gives to containers: id range, cgroup controllers, AppArmor, tools."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import structlog

from vetro.node.drivers.lxc_config import SECCOMP_PROFILE, ContainerHost
from vetro.node.errors import ConfigurationError
from vetro.node.files import write_bytes

log = structlog.get_logger(__name__)

_TOOLS = ("lxc-start", "lxc-stop", "lxc-attach", "lxc-cgroup", "lxc-usernsexec", "ip", "nft", "tar")
_RANGE = 65536
READY_MADE_PROFILE = "lxc-container-default-cgns"
_CONTROLLERS = ("memory", "cpu", "pids")


def inspect(prefix: str, data_dir: Path) -> ContainerHost:
    """Look at the machine. Errors: ``ConfigurationError`` names what is missing."""
    if os.geteuid() != 0:
        raise ConfigurationError(
            "The lxc driver needs root; run the agent as root or choose --driver process"
        )
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise ConfigurationError(
            f"Not installed: {', '.join(missing)}; run tools/system-packages.sh,"
            " or apt-get install lxc uidmap iproute2 nftables"
        )
    base = id_range(Path("/etc/subuid"), Path("/etc/subgid"))
    profile = data_dir / "seccomp.profile"
    write_bytes(profile, SECCOMP_PROFILE.encode(), mode=0o644)
    limits, swap = cgroup_limits(
        Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    )
    for controller in _CONTROLLERS:
        if controller not in limits:
            log.warning("This machine cannot limit containers", controller=controller)
    return ContainerHost(
        prefix=prefix,
        id_base=base,
        id_count=_RANGE,
        seccomp_profile=profile,
        limits=limits,
        swap_limit=swap,
        apparmor=apparmor_profile(Path("/")),
    )


def id_range(subuid: Path, subgid: Path) -> int:
    """The first id of root's range in both files; one that is missing is added to both."""
    users, groups = _ranges(subuid), _ranges(subgid)
    for owner, base, count in users:
        if owner in ("root", "0") and count >= _RANGE and (owner, base, count) in groups:
            return base
    taken = [base + count for _, base, count in (*users, *groups)]
    base = max([1_000_000, *taken])
    base = -(-base // _RANGE) * _RANGE if base > 1_000_000 else base
    log.info("Giving containers an id range", base=base, count=_RANGE, files="/etc/subuid, subgid")
    for path in (subuid, subgid):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        end = "" if not text or text.endswith("\n") else "\n"
        write_bytes(path, f"{text}{end}root:{base}:{_RANGE}\n".encode(), mode=0o644)
    return base


def _ranges(path: Path) -> list[tuple[str, int, int]]:
    ranges: list[tuple[str, int, int]] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            parts = line.strip().split(":")
            if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
                ranges.append((parts[0], int(parts[1]), int(parts[2])))
    return ranges


def cgroup_limits(mountinfo: str) -> tuple[dict[str, str], bool]:
    """Which controllers work here (``v1``/``v2``), and whether swap can be limited."""
    limits: dict[str, str] = {}
    swap = False
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")
        if len(fields) < 5 or len(kind) < 3:
            continue
        point = Path(fields[4])
        if kind[0] == "cgroup":
            for option in kind[2].split(","):
                if option in _CONTROLLERS:
                    limits[option] = "v1"
                    if option == "memory":
                        swap = (point / "memory.memsw.limit_in_bytes").exists()
        elif kind[0] == "cgroup2":
            controllers = point / "cgroup.controllers"
            present = controllers.read_text().split() if controllers.exists() else []
            for name in present:
                if name in _CONTROLLERS and name not in limits:
                    limits[name] = "v2"
                    if name == "memory":
                        swap = any(point.glob("*/memory.swap.max"))
    return limits, swap


def apparmor_profile(root: Path) -> str:
    """The profile for containers; '' on a machine without AppArmor.

    LXC's ready-made profile is loaded with the machine; one generated for each container costs a
    run of the profile compiler at each start.
    """
    enabled = root / "sys/module/apparmor/parameters/enabled"
    if not enabled.exists() or enabled.read_text().strip() != "Y":
        return ""
    profiles = root / "sys/kernel/security/apparmor/profiles"
    loaded = profiles.read_text() if profiles.exists() else ""
    if f"{READY_MADE_PROFILE} " in loaded:
        return READY_MADE_PROFILE
    if shutil.which("apparmor_parser") is None:
        log.warning("AppArmor is on, but apparmor_parser is missing: containers are unconfined")
        return "unconfined"
    return "generated"
