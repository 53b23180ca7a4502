"""The system that instances run on: programs, kernel, limits, networks."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from vetro.node import Accelerator, accelerator_of
from vetro.server.doctor.findings import Finding, error, ok, warning
from vetro.server.errors import StartError
from vetro.server.isolation import PLAIN, Instances, Started, choose_instances, others_at_service
from vetro.server.settings import Settings

#: Program -> the Debian package that has it.
CONTAINERS = {"lxc-start": "lxc", "newuidmap": "uidmap", "mmdebstrap": "mmdebstrap"}
NETWORK = {"ip": "iproute2", "nft": "nftables"}
MACHINES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "genisoimage": "genisoimage",
    "libvirtd": "libvirt-daemon",
}
OPEN_FILES = 8192
_KERNEL_MODULES = {
    "overlay": "file systems of containers share their image",
    "bridge": "networks of instances",
    "vxlan": "networks between nodes",
}


@dataclass(frozen=True)
class Machine:
    """Where an examination looks: the root of the file system, programs, the user, the interfaces."""

    root: Path = Path("/")
    which: Callable[[str], str | None] = shutil.which
    user: int = os.geteuid()
    routes: Callable[[], bytes] = lambda: (
        subprocess.run(
            ["ip", "-j", "-4", "route"], capture_output=True, check=False, timeout=30
        ).stdout
    )
    open_files: Callable[[], int] = lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    library: Callable[[str], bool] = lambda name: importlib.util.find_spec(name) is not None
    """Whether a Python package is installed."""
    accelerator: Callable[[Path], Accelerator] = accelerator_of
    """What VMs run with, given the directory of their driver."""

    def text(self, path: str) -> str:
        """A file's content; '' when it cannot be read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""


def examine_machine(machine: Machine, settings: Settings) -> Iterator[Finding]:
    """Look at what the drivers of instances need."""
    yield ok("python", sys.version.split()[0])
    yield _files(machine)
    if not settings.node.enabled:
        yield ok("node", "switched off (node.enabled): instances run on other machines")
        return
    started = Started(machine.user, machine.which)
    try:
        instances = choose_instances(settings, others_at_service(settings), started)
    except StartError as refused:
        yield error("isolation", str(refused), refused.hint or "")
        if machine.user != 0:
            return
        instances = Instances("lxc", "", "")
    driver = instances.driver
    if driver in PLAIN:
        yield warning(
            "isolation",
            f"driver {driver} ({instances.why}): {instances.holds}",
            "Leave node.driver empty and run the node agent as root, with LXC, for containers.",
        )
        return
    if machine.user != 0:
        yield error("user", f"driver {driver} needs root", "Run the node agent as root.")
        return
    if instances.holds:
        yield ok("isolation", f"driver {driver}: {instances.holds}")
    yield from _programs(machine, "containers", CONTAINERS, required=driver != "qemu")
    yield from _programs(machine, "networks", NETWORK, required=True)
    yield from _programs(machine, "virtual machines", MACHINES, required="qemu" in driver)
    yield _ids(machine)
    yield _namespaces(machine)
    yield _control_groups(machine)
    yield from _modules(machine)
    yield _forwarding(machine)
    yield from _virtualisation(machine, settings, required="qemu" in driver)
    yield _apparmor(machine)
    yield from _overlapping(machine, settings)


def _files(machine: Machine) -> Finding:
    limit = machine.open_files()
    if limit in (resource.RLIM_INFINITY,) or limit >= OPEN_FILES:
        shown = "no limit" if limit == resource.RLIM_INFINITY else f"{limit}"
        return ok("open files", shown)
    return warning(
        "open files",
        f"a process may have {limit} open files: so many connections fit at most",
        "Raise it: LimitNOFILE=65536 in the service's unit, or 'ulimit -n 65536'.",
    )


def _programs(
    machine: Machine, subject: str, wanted: dict[str, str], *, required: bool
) -> Iterator[Finding]:
    missing = [program for program in wanted if machine.which(program) is None]
    if not missing:
        yield ok(subject, ", ".join(wanted))
        return
    packages = " ".join(dict.fromkeys(wanted[program] for program in missing))
    found = f"not installed: {', '.join(missing)}"
    make = error if required else warning
    yield make(subject, found, f"apt-get install {packages}")


def _ids(machine: Machine) -> Finding:
    lacking = [
        name
        for name in ("etc/subuid", "etc/subgid")
        if not any(line.startswith("root:") for line in machine.text(name).splitlines())
    ]
    if lacking:
        names = " and ".join(f"/{name}" for name in lacking)
        return error(
            "user ids",
            f"root has no range in {names}: containers cannot have users of their own",
            f"echo root:1000000:65536 | tee -a {' '.join(f'/{name}' for name in lacking)}",
        )
    return ok("user ids", "root has ranges in /etc/subuid and /etc/subgid")


def _namespaces(machine: Machine) -> Finding:
    most = machine.text("proc/sys/user/max_user_namespaces")
    if most == "0":
        return error(
            "user namespaces",
            "the kernel makes none (user.max_user_namespaces is 0)",
            "sysctl -w user.max_user_namespaces=15000, and the same in /etc/sysctl.d/.",
        )
    return ok("user namespaces", f"at most {most}" if most else "not limited")


def _control_groups(machine: Machine) -> Finding:
    directory = machine.root / "sys/fs/cgroup"
    if (directory / "cgroup.controllers").exists():
        have = machine.text("sys/fs/cgroup/cgroup.controllers").split()
        lacking = [name for name in ("cpu", "memory", "pids") if name not in have]
        if lacking:
            return warning(
                "control groups",
                f"version 2, without the controllers {', '.join(lacking)}: their limits do not hold",
                "Run the service with Delegate=yes, or enable them on the kernel's command line.",
            )
        return ok("control groups", "version 2")
    names = [path.name for path in directory.glob("*") if path.is_dir()]
    if not any("memory" in name for name in names):
        return warning(
            "control groups",
            "none are mounted: limits of instances do not hold",
            "Mount control groups (systemd does), or enable them on the kernel's command line.",
        )
    return ok("control groups", "version 1")


def _modules(machine: Machine) -> Iterator[Finding]:
    loaded = {line.split()[0] for line in machine.text("proc/modules").splitlines() if line}
    systems = machine.text("proc/filesystems").split()
    release = machine.text("proc/sys/kernel/osrelease")
    listed = "".join(
        machine.text(f"lib/modules/{release}/{name}") for name in ("modules.builtin", "modules.dep")
    )
    for name, purpose in _KERNEL_MODULES.items():
        known = name in loaded or name in systems or f"/{name}.ko" in listed
        builtin = (machine.root / "sys/module" / name).exists()
        if not (known or builtin) and listed:
            yield error(
                "kernel", f"has no module {name} ({purpose})", f"Install a kernel with {name}."
            )


def _forwarding(machine: Machine) -> Finding:
    if machine.text("proc/sys/net/ipv4/ip_forward") == "1":
        return ok("forwarding", "on")
    return ok("forwarding", "off; the node agent switches it on with the first router")


def _virtualisation(machine: Machine, settings: Settings, *, required: bool) -> Iterator[Finding]:
    """Whether VMs can be started, and whether KVM does its work: its device alone proves neither."""
    if not machine.library("libvirt"):
        lacking = error if required else warning
        yield lacking(
            "virtual machines",
            "the Python package libvirt-python is not installed",
            "pip install 'vetro[vm]' (it needs libvirt-dev, pkg-config and a C compiler).",
        )
    device = machine.root / "dev/kvm"
    if not device.exists():
        flags = machine.text("proc/cpuinfo")
        hint = (
            "Load it: modprobe kvm_intel or kvm_amd."
            if " vmx" in flags or " svm" in flags
            else "Switch on virtualisation in the firmware, or let the machine's own host nest it."
        )
        yield warning(
            "virtual machines", "no /dev/kvm: they are emulated, tens of times slower", hint
        )
    elif machine.which("qemu-system-x86_64") is None:
        return  # said among the programs
    elif reason := machine.accelerator(settings.data_dir / "node/qemu").reason:
        yield warning(
            "virtual machines",
            f"KVM does not work here ({reason}): they are emulated, tens of times slower",
            "Let the machine's own host nest virtualisation, and restart: the answer is kept until then.",
        )
    else:
        yield ok("virtual machines", "KVM")


def _apparmor(machine: Machine) -> Finding:
    if machine.text("sys/module/apparmor/parameters/enabled") == "Y":
        return ok("apparmor", "on: containers get LXC's profile")
    return ok("apparmor", "off: containers are separated by user ids, seccomp and control groups")


def _overlapping(machine: Machine, settings: Settings) -> Iterator[Finding]:
    """Addresses of this machine's own networks that instances would take."""
    try:
        ours = ipaddress.IPv4Network(settings.network.external_cidr)
    except ValueError as wrong:
        yield error(
            "network.external_cidr", str(wrong), "Give an IPv4 network such as 172.24.4.0/24."
        )
        return
    try:
        routes = msgspec.json.decode(machine.routes() or b"[]", type=list[dict[str, object]])
    except (OSError, msgspec.DecodeError, subprocess.SubprocessError):
        return
    for route in routes:
        device, target = str(route.get("dev", "")), str(route.get("dst", ""))
        if device.startswith(settings.node.prefix) or target == "default":
            continue
        try:
            theirs = cast("ipaddress.IPv4Network", ipaddress.ip_network(target))
        except ValueError:
            continue
        if ours.overlaps(theirs):
            yield error(
                "network.external_cidr",
                f"{ours} overlaps {theirs}, which is reached over {device}",
                "Choose a network that nobody else has: network.external_cidr.",
            )
            return
    yield ok("network.external_cidr", f"{ours} is free")
