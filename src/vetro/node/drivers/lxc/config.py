"""The configuration file of a container, from its VM object alone."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vetro.node.drivers.control_groups import cpu_settings
from vetro.node.drivers.id_ranges import IdRanges
from vetro.node.errors import DriverError
from vetro.node.guest.instance_files import Init, address_of, init_command
from vetro.node.guest.root import ID_COUNT
from vetro.node.network.names import bridge_name, host_interface_name
from vetro.node.vm_records import Nic, Vm

# Capabilities with which root in a container could still affect the machine despite its user
# namespace.
DROPPED_CAPABILITIES = (
    "audit_control",
    "audit_read",
    "block_suspend",
    "mac_admin",
    "mac_override",
    "sys_module",
    "sys_rawio",
    "sys_time",
    "syslog",
    "wake_alarm",
)

# The signals that ask each init to stop and to restart.
_HALT_SIGNAL = {
    Init.SYSTEMD: "SIGRTMIN+3",
    Init.SYSVINIT: "SIGPWR",
    Init.BUSYBOX: "SIGUSR2",
    Init.NONE: "SIGTERM",
}

SECCOMP_PROFILE = """\
2
denylist
reject_force_umount
[all]
add_key errno 1
bpf errno 1
delete_module errno 1
finit_module errno 1
init_module errno 1
kexec_file_load errno 1
kexec_load errno 1
keyctl errno 38
open_by_handle_at errno 1
perf_event_open errno 1
request_key errno 38
swapoff errno 1
swapon errno 1
userfaultfd errno 1
"""


@dataclass(frozen=True)
class ContainerHost:
    """What this machine offers.

    ``id_base``: where the images' id range begins; ``ids``: the ranges of the projects (``None``:
    all containers use the images' range). ``limits``: controller → ``v1`` or ``v2``; a missing one
    is not available. ``apparmor``: profile name, or empty without AppArmor.
    """

    prefix: str
    id_base: int
    seccomp_profile: Path
    limits: Mapping[str, str] = field(default_factory=dict[str, str])
    swap_limit: bool = False
    apparmor: str = ""
    ids: IdRanges | None = None
    allow_privileged: bool = False


def render(vm: Vm, host: ContainerHost, *, root: Path, directory: Path, init: Init) -> str:
    """The text of ``config`` for one container: root at ``root``, own files in ``directory``."""
    hostname = str(vm["hostname"]).split(".")[0]
    lines = [
        f"lxc.uts.name = {hostname}",
        f"lxc.rootfs.path = dir:{root}",
        "lxc.rootfs.managed = 0",
        *id_map(vm, host),
        f"lxc.init.cmd = {init_command(init)}",
        f"lxc.signal.halt = {_HALT_SIGNAL[init]}",
        "lxc.mount.auto = proc:mixed sys:mixed"
        + (" cgroup:rw:force" if init is Init.SYSTEMD else ""),
        "lxc.mount.entry = tmpfs dev/shm tmpfs rw,nosuid,nodev,mode=1777,create=dir 0 0",
        "lxc.autodev = 1",
        "lxc.tty.max = 0",
        "lxc.pty.max = 1024",
        f"lxc.console.logfile = {directory / 'console.log'}",
        "lxc.console.size = 1048576",
        f"lxc.log.file = {directory / 'lxc.log'}",
        "lxc.log.level = ERROR",
        f"lxc.cap.drop = {' '.join(DROPPED_CAPABILITIES)}",
        f"lxc.seccomp.profile = {host.seccomp_profile}",
    ]
    if init is not Init.SYSTEMD:
        # systemd mounts its own; with the others, pid files would survive a restart.
        lines.append("lxc.mount.entry = tmpfs run tmpfs rw,nosuid,nodev,mode=755,create=dir 0 0")
    if host.apparmor and (init is not Init.SYSTEMD or host.apparmor == "unconfined"):
        lines.append(f"lxc.apparmor.profile = {host.apparmor}")
    elif host.apparmor:
        # systemd mounts file systems of its own, which the default profile forbids.
        lines += ["lxc.apparmor.profile = generated", "lxc.apparmor.allow_nesting = 1"]
    lines += _limits(vm, host)
    for index, nic in enumerate(vm.get("nics", [])):
        lines += _interface(index, nic, host.prefix)
    for line in lines:
        if "\n" in line:
            raise DriverError(f"A value with a line break cannot be configured: {line!r}")
    return "".join(f"{line}\n" for line in lines)


def id_base_of(vm: Vm, host: ContainerHost) -> int:
    """The host's id of the container's root: 0 for a privileged container."""
    return vm.get("id_base", host.id_base)


def id_map(vm: Vm, host: ContainerHost) -> list[str]:
    """The lines of the container's user namespace; none for a privileged one."""
    base = id_base_of(vm, host)
    if base == 0:
        return []
    return [f"lxc.idmap = {kind} 0 {base} {ID_COUNT}" for kind in ("u", "g")]


def limit_settings(vm: Vm, host: ContainerHost) -> list[tuple[str, str, str]]:
    """``(controller version, file, value)`` for every limit this machine can enforce."""
    settings: list[tuple[str, str, str]] = []
    memory = int(vm.get("max_physical_memory") or 0) * 1048576
    swap = max(0, int(vm.get("max_swap") or 0) * 1048576 - memory)
    version = host.limits.get("memory")
    if version and memory:
        if version == "v2":
            settings.append((version, "memory.max", str(memory)))
            if host.swap_limit:
                settings.append((version, "memory.swap.max", str(swap)))
        else:
            settings.append((version, "memory.limit_in_bytes", str(memory)))
            if host.swap_limit:
                settings.append((version, "memory.memsw.limit_in_bytes", str(memory + swap)))
    version = host.limits.get("cpu")
    if version:
        settings += [(version, name, value) for name, value in cpu_settings(vm, version)]
    if host.limits.get("io") == "v2" and (priority := vm.get("zfs_io_priority")):
        weight = max(1, min(10000, int(priority)))
        settings.append(("v2", "io.weight", f"default {weight}"))
    version = host.limits.get("pids")
    if version and (most := vm.get("max_lwps")):
        settings.append((version, "pids.max", str(int(most))))
    return settings


def _limits(vm: Vm, host: ContainerHost) -> list[str]:
    prefix = {"v1": "lxc.cgroup", "v2": "lxc.cgroup2"}
    return [
        f"{prefix[version]}.{name} = {value}" for version, name, value in limit_settings(vm, host)
    ]


def _interface(index: int, nic: Nic, prefix: str) -> list[str]:
    network = nic.get("network_uuid")
    if not network:
        raise DriverError(
            f"Interface {nic.get('mac')} names no network (network_uuid)",
            code="EINVAL",
            rest_code="InvalidPayload",
        )
    key = f"lxc.net.{index}"
    peer = host_interface_name(prefix, str(nic["mac"]))
    lines = [
        f"{key}.type = veth",
        f"{key}.link = {bridge_name(prefix, str(network))}",
        f"{key}.flags = up",
        f"{key}.name = {guest_name(nic)}",
        f"{key}.hwaddr = {nic['mac']}",
        f"{key}.veth.pair = {peer}",
        # An instance that contacts its own floating address receives its packets back on the same
        # port.
        f"{key}.script.up = /bin/sh -c 'echo 1 > /sys/class/net/{peer}/brport/hairpin_mode'",
    ]
    if mtu := nic.get("mtu"):
        lines.append(f"{key}.mtu = {int(mtu)}")
    address = address_of(nic)
    if address is not None:
        length = prefix_length(nic, address)
        kind = "ipv6" if ":" in address else "ipv4"
        lines.append(f"{key}.{kind}.address = {address}/{length}")
        gateway = nic.get("gateway")
        if gateway and nic.get("primary"):
            lines.append(f"{key}.{kind}.gateway = {ipaddress.ip_address(str(gateway))}")
    return lines


def guest_name(nic: Mapping[str, object]) -> str:
    """The interface's name inside: ``netN`` is ``ethN`` on Linux."""
    name = str(nic["interface"])
    return f"eth{name[3:]}" if name.startswith("net") else name


def prefix_length(nic: Mapping[str, object], address: str) -> int:
    """The length of the network's prefix, from the address or the netmask. Errors: ``DriverError``."""
    given = str(nic.get("ip") or "")
    mask = given.split("/")[1] if "/" in given else str(nic.get("netmask") or "")
    if not mask:
        mask = "64" if ":" in address else "24"
    try:
        return ipaddress.ip_network(f"{address}/{mask}", strict=False).prefixlen
    except ValueError as error:
        raise DriverError(
            f"Interface {nic['mac']} has no usable netmask: '{mask}'",
            code="EINVAL",
            rest_code="InvalidPayload",
        ) from error
