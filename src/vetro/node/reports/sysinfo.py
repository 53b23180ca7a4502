"""The facts about this machine: the sysinfo object of a Linux node (compute-node-agent.md §6).

Everything is read from ``/proc``, ``/sys`` and ``/etc`` below ``root``, so a captured machine can
be used instead.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import time
import uuid as uuids
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from vetro.digits import is_number
from vetro.node.files import read_json, write_json
from vetro.node.network.nic_tags import NicTags
from vetro.node.storage.pool import PoolStats

PROTOCOL_VERSION = "2.15.0"
# Changes of only these do not cause a message.
VOLATILE = frozenset({"Zpool Size in GiB"})
# Interfaces of guests, and of the programs that run them, are not the machine's.
_GUESTS = re.compile(r"(veth|tap|vnet|docker|br-|virbr|lxcbr|cni|flannel|cali)")


@dataclass(frozen=True)
class NodeFacts:
    """What the agent knows besides the machine."""

    uuid: str
    datacenter_name: str
    dns_domain: str
    admin_ip: str
    port: int
    pool: str
    prefix: str
    brands: tuple[str, ...]
    driver: str
    features: tuple[str, ...]
    package_version: str
    tags: NicTags | None = None
    headnode: bool = False
    data_dir: Path = Path("/")
    # The facts that the hypervisors report, some of them only after a while.
    about: Callable[[], Mapping[str, object]] = dict[str, Any]


#: When the node was created, whatever the source of its uuid.
_CREATION = "created.json"


def server_uuid(root: Path, kept: Path) -> str:
    """The machine's uuid: SMBIOS's if it is real, else one that was generated and kept."""
    known = read_json(kept)
    if isinstance(known, dict) and "uuid" in known:
        return str(cast("dict[str, object]", known)["uuid"])
    text = _text(root / "sys/class/dmi/id/product_uuid").lower()
    try:
        value = uuids.UUID(text)
        usable = len(set(value.hex)) > 3
    except ValueError:
        usable = False
        value = uuids.uuid4()
    chosen = str(value if usable else uuids.uuid4())
    write_json(kept, {"uuid": chosen})
    return chosen


def gather(
    facts: NodeFacts, pool: PoolStats | None = None, root: Path = Path("/")
) -> dict[str, object]:
    """The whole sysinfo object. Reads files only; takes a few milliseconds."""
    size = pool.size if pool is not None else pool_size(facts.data_dir)[0]
    boot = boot_parameters(_text(root / "proc/cmdline"))
    if facts.headnode:
        boot["headnode"] = "true"
    interfaces, virtual, bonds = network_interfaces(root, facts)
    # Without KVM, virtual machines are emulated: slower, but supported.
    kvm = (root / "dev/kvm").exists() or "kvm" in facts.brands
    dmi = root / "sys/class/dmi/id"
    info: dict[str, object] = {
        "UUID": facts.uuid,
        "Hostname": _text(root / "proc/sys/kernel/hostname") or socket.gethostname(),
        "System Type": "Linux",
        "Live Image": live_image(root),
        "SDC Version": "7.0",
        "Boot Time": str(boot_time(_text(root / "proc/stat"))),
        "Boot Parameters": boot,
        "Setup": "true" if is_set_up(facts.data_dir) else "false",
        "Datacenter Name": facts.datacenter_name,
        "DNS Domain": facts.dns_domain,
        "Manufacturer": _text(dmi / "sys_vendor"),
        "Product": _text(dmi / "product_name"),
        "Serial Number": _text(dmi / "product_serial"),
        "SKU Number": _text(dmi / "product_sku"),
        "HW Version": _text(dmi / "product_version"),
        "HW Family": _text(dmi / "product_family"),
        "VM Capable": kvm,
        "Bhyve Capable": kvm,
        "Bhyve Max Vcpus": 255 if kvm else 0,
        "HVM API": True,
        "VM Brands": list(facts.brands),
        **processors(_text(root / "proc/cpuinfo")),
        "MiB of Memory": str(memory(_text(root / "proc/meminfo"))["total_bytes"] // 1048576),
        "Zpool": facts.pool,
        "Zpool Disks": ",".join(pool.disks) if pool is not None else "",
        "Zpool Profile": pool.profile if pool is not None else "none",
        "Zpool Creation": created(facts.data_dir),
        "Zpool Size in GiB": size // 2**30,
        "Zpool Encrypted": pool.encrypted if pool is not None else False,
        "Disks": disks(root),
        "Network Interfaces": interfaces,
        "Virtual Network Interfaces": virtual,
        "Link Aggregations": bonds,
        "Admin NIC Tag": facts.tags.admin_tag if facts.tags is not None else "admin",
        "Admin IP": facts.admin_ip,
        "CN Agent Port": facts.port,
        "SDC Agents": [{"name": "cn-agent", "version": PROTOCOL_VERSION}],
        "Vetro Node": {
            "driver": facts.driver,
            "isolation": facts.driver,
            "prefix": facts.prefix,
            "features": list(facts.features),
            "version": facts.package_version,
            **facts.about(),
        },
    }
    return info


def is_set_up(data_dir: Path) -> bool:
    """Whether the node accepts VMs: yes, unless it was reset and not set up again."""
    kept = cast("dict[str, object]", read_json(data_dir / "setup.json") or {})
    return kept.get("complete") is not False


def significant(info: Mapping[str, object]) -> dict[str, object]:
    """``info`` without what changes all the time: if equal, there is nothing to report."""
    return {name: value for name, value in info.items() if name not in VOLATILE}


def memory(meminfo: str) -> dict[str, int]:
    """The ``meminfo`` of a status sample from ``/proc/meminfo``."""
    sizes = {
        match[1]: int(match[2]) * 1024
        for match in re.finditer(r"^(\w+):\s+(\d+) kB", meminfo, re.MULTILINE)
    }
    return {
        "total_bytes": sizes.get("MemTotal", 0),
        "availrmem_bytes": sizes.get("MemAvailable", sizes.get("MemFree", 0)),
        "arcsize_bytes": 0,
    }


def processors(cpuinfo: str) -> dict[str, object]:
    """The ``CPU …`` keys. ``CPU Physical Cores`` is the number of sockets, for compatibility."""
    blocks = [
        dict(re.findall(r"^([^\t:]+)\s*:\s*(.*)$", block, re.MULTILINE))
        for block in cpuinfo.strip().split("\n\n")
    ]
    threads = [block for block in blocks if "processor" in block]
    sockets = {block.get("physical id", "0") for block in threads}
    cores = {(b.get("physical id", "0"), b.get("core id", b["processor"])) for b in threads}
    flags = set((threads[0].get("flags", "") if threads else "").split())
    count = len(threads) or (os.cpu_count() or 1)
    return {
        "CPU Type": threads[0].get("model name", "") if threads else "",
        "CPU Virtualization": "vmx" if "vmx" in flags else "svm" if "svm" in flags else "",
        "CPU Physical Cores": len(sockets) or 1,
        "CPU Total Cores": count,
        "CPU Online Count": count,
        "CPU Count": count,
        "CPU Core Count": len(cores) or count,
        "CPU Socket Count": len(sockets) or 1,
    }


def boot_time(stat: str) -> int:
    """Seconds since 1970 at which the machine started, from ``/proc/stat``."""
    match = re.search(r"^btime (\d+)", stat, re.MULTILINE)
    return int(match[1]) if match else 0


def boot_parameters(cmdline: str) -> dict[str, str]:
    """The kernel's command line as an object; ``ip=`` and ``BOOTIF=`` also in the usual names."""
    found: dict[str, str] = {}
    for word in cmdline.split():
        name, separator, value = word.partition("=")
        found[name] = value if separator else "true"
    if "ip" in found and ":" in found["ip"]:
        parts = found["ip"].split(":")
        found["admin_ip"] = parts[0]
        if len(parts) > 3 and parts[3]:
            found["admin_netmask"] = parts[3]
    if "BOOTIF" in found:
        found["admin_mac"] = ":".join(found["BOOTIF"].split("-")[-6:])
    return found


def live_image(root: Path) -> str:
    """The stamp of the operating system's build: the time its release file was written."""
    for name in ("etc/vetro-release", "usr/lib/os-release", "etc/os-release"):
        path = root / name
        if path.exists():
            moment = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            return moment.strftime("%Y%m%dT%H%M%SZ")
    return "19700101T000000Z"


def network_interfaces(
    root: Path, facts: NodeFacts
) -> tuple[dict[str, object], dict[str, object], dict[str, object]]:
    """Physical interfaces, the host's virtual ones, and bonds; never those of guests."""
    physical: dict[str, object] = {}
    virtual: dict[str, object] = {}
    bonds: dict[str, object] = {}
    addresses = ipv4_addresses(root)
    base = root / "sys/class/net"
    own = re.compile(rf"{facts.prefix}(b|v|ext|x|l)")
    for path in sorted(base.iterdir()) if base.is_dir() else []:
        name = path.name
        if name == "lo" or own.match(name) or _GUESTS.match(name):
            continue
        address = addresses.get(name, "")
        mac = _text(path / "address")
        names = facts.tags.names_of(mac) if facts.tags is not None and mac else []
        if address and address == facts.admin_ip and not names:
            # A node without recorded tags must be reachable all the same.
            names = [facts.tags.admin_tag if facts.tags is not None else "admin"]
        entry: dict[str, object] = {
            "MAC Address": mac,
            "ip4addr": address,
            "Link Status": "up" if _text(path / "operstate") == "up" else "down",
            "NIC Names": names,
        }
        if (path / "bonding").is_dir():
            bonds[name] = {
                "LACP mode": (_text(path / "bonding/mode").split() or [""])[0],
                "Interfaces": _text(path / "bonding/slaves").split(),
            }
        elif (path / "device").exists():
            physical[name] = entry
        elif (path / "bridge").is_dir() or _vlan(root, name):
            virtual[name] = {**entry, "Host Interface": _vlan(root, name).get("device", ""),
                             "VLAN": _vlan(root, name).get("id", "0"),
                             "Overlay Nic Tags": []}  # fmt: skip
    return physical, virtual, bonds


def _vlan(root: Path, name: str) -> dict[str, str]:
    text = _text(root / f"proc/net/vlan/{name}")
    match = re.search(r"VID: (\d+).*?Device: (\S+)", text, re.DOTALL)
    return {"id": match[1], "device": match[2]} if match else {}


def ipv4_addresses(root: Path) -> dict[str, str]:
    """The first IPv4 address of each interface, from the kernel's routing tables.

    Local addresses are in ``fib_trie``, their interfaces in ``route``: both are plain files, so
    that no socket and no process is needed.
    """
    local = set(
        re.findall(
            r"\|-- (\d+\.\d+\.\d+\.\d+)\n\s+/32 host LOCAL", _text(root / "proc/net/fib_trie")
        )
    )
    found: dict[str, str] = {}
    for line in _text(root / "proc/net/route").splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or fields[7] == "00000000":
            continue
        network = ipaddress.ip_network(
            f"{_hex_address(fields[1])}/{_hex_address(fields[7])}",
            strict=False,
        )
        for address in sorted(local):
            if ipaddress.ip_address(address) in network:
                found.setdefault(fields[0], address)
    return found


def default_address(root: Path = Path("/")) -> str:
    """The address of the interface with the default route; loopback when there is none."""
    addresses = ipv4_addresses(root)
    for line in _text(root / "proc/net/route").splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 8 and fields[1] == "00000000" and fields[0] in addresses:
            return addresses[fields[0]]
    return "127.0.0.1"


def _hex_address(text: str) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int.from_bytes(bytes.fromhex(text), "little"))


def disks(root: Path) -> dict[str, object]:
    """Block devices with their size in decimal GB; without loops, RAM disks and mapped devices."""
    found: dict[str, object] = {}
    base = root / "sys/block"
    for path in sorted(base.iterdir()) if base.is_dir() else []:
        if re.match(r"(loop|ram|zd|dm-|sr|fd|nbd|zram)", path.name):
            continue
        sectors = _text(path / "size")
        if is_number(sectors) and int(sectors):
            found[path.name] = {"Size in GB": int(sectors) * 512 // 10**9}
    return found


def pool_size(data_dir: Path) -> tuple[int, int]:
    """Size and free bytes of the file system the agent keeps its data on."""
    status = os.statvfs(data_dir)
    return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize


def note_creation(data_dir: Path) -> None:
    """Record when the node was created; for an older node without a record, by its files."""
    kept = data_dir / _CREATION
    if read_json(kept) is None:
        write_json(kept, {"created": created(data_dir) or int(time.time())})


def created(data_dir: Path) -> int:
    """When the node was created; 0 if unknown."""
    kept = cast("dict[str, object]", read_json(data_dir / _CREATION) or {})
    made = kept.get("created")
    if isinstance(made, int):
        return made
    before = data_dir / "server.json"
    return int(before.stat().st_mtime) if before.exists() else 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        # Files below /sys may refuse to be read: then the fact is missing.
        return ""
