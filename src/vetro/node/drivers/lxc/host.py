"""What this machine provides to containers: id range, cgroup controllers, AppArmor, tools."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import structlog

from vetro.node.drivers.control_groups import UNIFIED, hierarchies
from vetro.node.drivers.id_ranges import IdRanges, images_range, project_ranges
from vetro.node.drivers.lxc.config import SECCOMP_PROFILE, ContainerHost
from vetro.node.errors import ConfigurationError
from vetro.node.files import write_bytes
from vetro.node.storage.idmapped import works_on

log = structlog.get_logger(__name__)

_TOOLS = ("lxc-start", "lxc-stop", "lxc-attach", "lxc-cgroup", "lxc-usernsexec", "ip", "nft", "tar")
READY_MADE_PROFILE = "lxc-container-default-cgns"
_CONTROLLERS = ("memory", "cpu", "pids")
_OPTIONAL_CONTROLLERS = ("io",)


def inspect(prefix: str, data_dir: Path, *, allow_privileged: bool = False) -> ContainerHost:
    """Inspect the machine. Errors: ``ConfigurationError`` names what is missing."""
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
    subordinate = Path("/etc/subuid"), Path("/etc/subgid")
    base = images_range(*subordinate)
    translated = works_on(data_dir, data_dir / ".idmapped")
    if not translated:
        log.warning(
            "idmapped_mounts_unavailable",
            effect="containers of all projects share one id range",
            directory=str(data_dir),
        )
    profile = data_dir / "seccomp.profile"
    write_bytes(profile, SECCOMP_PROFILE.encode(), mode=0o644)
    limits, swap = cgroup_limits(
        Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    )
    for controller in _CONTROLLERS:
        if controller not in limits:
            log.warning(
                "controller_missing",
                effect="containers cannot be limited by it",
                controller=controller,
            )
    return ContainerHost(
        prefix=prefix,
        id_base=base,
        ids=IdRanges(
            data_dir / "id-ranges.json",
            base,
            project_ranges(*subordinate, base) if translated else (),
            translated=translated,
        ),
        allow_privileged=allow_privileged and translated,
        seccomp_profile=profile,
        limits=limits,
        swap_limit=swap,
        apparmor=apparmor_profile(Path("/")),
    )


def cgroup_limits(mountinfo: str) -> tuple[dict[str, str], bool]:
    """Which controllers work here (``v1``/``v2``), and whether swap can be limited."""
    mounts = hierarchies(mountinfo)
    limits = {name: "v1" for name in _CONTROLLERS if name in mounts}
    swap = "memory" in limits and (mounts["memory"] / "memory.memsw.limit_in_bytes").exists()
    if UNIFIED in mounts:
        point = mounts[UNIFIED]
        controllers = point / "cgroup.controllers"
        present = controllers.read_text().split() if controllers.exists() else []
        for name in (*_CONTROLLERS, *_OPTIONAL_CONTROLLERS):
            if name in present and name not in limits:
                limits[name] = "v2"
                if name == "memory":
                    swap = any(point.glob("*/memory.swap.max"))
    return limits, swap


def apparmor_profile(root: Path) -> str:
    """The profile for containers; '' on a machine without AppArmor.

    LXC's default profile is loaded when the machine boots; a profile generated for each container
    costs a run of the profile compiler at each start.
    """
    enabled = root / "sys/module/apparmor/parameters/enabled"
    if not enabled.exists() or enabled.read_text().strip() != "Y":
        return ""
    profiles = root / "sys/kernel/security/apparmor/profiles"
    loaded = profiles.read_text() if profiles.exists() else ""
    if f"{READY_MADE_PROFILE} " in loaded:
        return READY_MADE_PROFILE
    if shutil.which("apparmor_parser") is None:
        log.warning("apparmor_parser_missing", effect="containers are unconfined")
        return "unconfined"
    return "generated"
