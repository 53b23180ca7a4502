"""What a node says about its machine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from vetro.node.reports.sysinfo import (
    NodeFacts,
    boot_parameters,
    boot_time,
    created,
    default_address,
    disks,
    gather,
    ipv4_addresses,
    memory,
    note_creation,
    processors,
    server_uuid,
    significant,
)

CPUINFO = """\
processor\t: 0
model name\t: Intel(R) Xeon(R) CPU
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu vmx sse

processor\t: 1
model name\t: Intel(R) Xeon(R) CPU
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu vmx sse

processor\t: 2
model name\t: Intel(R) Xeon(R) CPU
physical id\t: 1
core id\t\t: 0
flags\t\t: fpu vmx sse
"""

ROUTE = """\
Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT
eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
vtb11111111\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""

FIB = """\
Local:
  +-- 192.168.2.0/24 2 0 2
     |-- 192.168.2.5
        /32 host LOCAL
     |-- 192.168.2.255
        /32 link BROADCAST
     |-- 10.0.0.1
        /32 host LOCAL
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A captured machine: files below a directory."""
    files = {
        "proc/cmdline": "quiet ip=10.1.1.5::10.1.1.1:255.255.255.0 BOOTIF=01-aa-bb-cc-dd-ee-ff",
        "proc/stat": "cpu 1 2 3\nbtime 1700000000\n",
        "proc/meminfo": "MemTotal: 2097152 kB\nMemFree: 5 kB\nMemAvailable: 1048576 kB\n",
        "proc/cpuinfo": CPUINFO,
        "proc/sys/kernel/hostname": "node-1",
        "proc/net/route": ROUTE,
        "proc/net/fib_trie": FIB,
        "proc/net/vlan/eth0.7": "eth0.7  VID: 7\t REORDER_HDR: 1\nDevice: eth0\n",
        "sys/class/dmi/id/product_uuid": "564D9F86-1B2C-3D4E-5F60-718293A4B5C6",
        "sys/class/dmi/id/sys_vendor": "ACME",
        "sys/class/net/eth0/address": "02:00:00:00:00:01",
        "sys/class/net/eth0/operstate": "up",
        "sys/class/net/eth0/device/vendor": "x",
        "sys/class/net/eth0.7/address": "02:00:00:00:00:01",
        "sys/class/net/bond0/bonding/mode": "802.3ad 4",
        "sys/class/net/bond0/bonding/slaves": "eth1 eth2",
        "sys/class/net/bond0/address": "02:00:00:00:00:09",
        "sys/class/net/br0/bridge/stp_state": "0",
        "sys/class/net/vtb11111111/bridge/stp_state": "0",
        "sys/class/net/vtv22222222/address": "02:00:00:00:00:02",
        "sys/class/net/veth12345/address": "02:00:00:00:00:03",
        "sys/class/net/tap0/address": "02:00:00:00:00:04",
        "sys/class/net/lo/address": "00:00:00:00:00:00",
        "sys/block/sda/size": "1953125000",
        "sys/block/loop0/size": "1000",
        "usr/lib/os-release": "NAME=Debian",
    }
    for name, text in files.items():
        path = tmp_path / "machine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "machine"


def facts(data_dir: Path) -> NodeFacts:
    """What the agent of the captured machine knows."""
    return NodeFacts(
        uuid="u", datacenter_name="dc", dns_domain="local", admin_ip="192.168.2.5", port=5309,
        pool="zones", prefix="vt", brands=("lx",), driver="lxc", features=("network",),
        package_version="1.0", data_dir=data_dir,
    )  # fmt: skip


def test_the_whole_object_has_what_the_service_reads(machine: Path, tmp_path: Path) -> None:
    """Identity, memory, processors, agent address and setup state, in the documented types."""
    info = gather(facts(tmp_path), root=machine)
    assert info["UUID"] == "u"
    assert info["Hostname"] == "node-1"
    assert info["System Type"] == "Linux"
    assert info["Setup"] == "true"
    assert info["Boot Time"] == "1700000000"
    assert info["MiB of Memory"] == "2048"
    assert (info["Admin IP"], info["CN Agent Port"]) == ("192.168.2.5", 5309)
    assert info["Manufacturer"] == "ACME"
    assert info["Boot Parameters"]["admin_mac"] == "aa:bb:cc:dd:ee:ff"
    assert info["Live Image"].endswith("Z")
    assert info["SDC Agents"] == [{"name": "cn-agent", "version": "2.15.0"}]


def test_guests_interfaces_never_appear(machine: Path, tmp_path: Path) -> None:
    """Physical, virtual and bonded interfaces are told apart; ours and guests' are left out."""
    info = gather(facts(tmp_path), root=machine)
    assert set(info["Network Interfaces"]) == {"eth0"}
    assert info["Network Interfaces"]["eth0"] == {
        "MAC Address": "02:00:00:00:00:01",
        "ip4addr": "192.168.2.5",
        "Link Status": "up",
        "NIC Names": ["admin"],
    }
    assert set(info["Virtual Network Interfaces"]) == {"eth0.7", "br0"}
    assert info["Virtual Network Interfaces"]["eth0.7"]["VLAN"] == "7"
    assert info["Virtual Network Interfaces"]["eth0.7"]["Host Interface"] == "eth0"
    assert info["Link Aggregations"] == {
        "bond0": {"LACP mode": "802.3ad", "Interfaces": ["eth1", "eth2"]}
    }


def test_processors_keep_their_historical_meanings() -> None:
    """`CPU Physical Cores` is the number of sockets, `CPU Total Cores` of hardware threads."""
    found = processors(CPUINFO)
    assert found["CPU Physical Cores"] == 2
    assert found["CPU Total Cores"] == 3
    assert found["CPU Core Count"] == 2
    assert found["CPU Virtualization"] == "vmx"
    assert found["CPU Type"] == "Intel(R) Xeon(R) CPU"


def test_processors_of_a_machine_that_names_none() -> None:
    """An unusual cpuinfo (ARM) still gives at least one of each."""
    found = processors("")
    assert min(found[f"CPU {name}"] for name in ("Physical Cores", "Total Cores", "Core Count")) > 0


def test_memory_counts_what_is_available_not_what_is_free() -> None:
    """MemAvailable is reported; MemFree only on kernels without it."""
    assert memory("MemTotal: 10 kB\nMemFree: 1 kB\nMemAvailable: 5 kB\n") == {
        "total_bytes": 10240,
        "availrmem_bytes": 5120,
        "arcsize_bytes": 0,
    }
    assert memory("MemTotal: 10 kB\nMemFree: 1 kB\n")["availrmem_bytes"] == 1024


def test_boot_parameters_split_the_address() -> None:
    """`ip=` gives admin_ip and admin_netmask; words without value are true."""
    found = boot_parameters("quiet headnode=true ip=10.1.1.5::10.1.1.1:255.255.0.0:host:eth0:off")
    assert found["quiet"] == "true"
    assert found["headnode"] == "true"
    assert (found["admin_ip"], found["admin_netmask"]) == ("10.1.1.5", "255.255.0.0")


def test_boot_time_of_a_damaged_file_is_zero() -> None:
    """Nothing is raised for what the kernel does not say."""
    assert boot_time("") == 0


def test_addresses_are_found_without_a_process(machine: Path) -> None:
    """Each interface's first address; the default route names the node's own."""
    assert ipv4_addresses(machine) == {"eth0": "192.168.2.5", "vtb11111111": "10.0.0.1"}
    assert default_address(machine) == "192.168.2.5"
    assert default_address(machine / "nothing") == "127.0.0.1"


def test_disks_are_real_ones(machine: Path) -> None:
    """Loop devices are not disks; sizes are decimal gigabytes."""
    assert disks(machine) == {"sda": {"Size in GB": 1000}}


def test_the_uuid_is_the_machines_and_stays(machine: Path, tmp_path: Path) -> None:
    """SMBIOS's uuid is taken once and kept, whatever the firmware says later."""
    kept = tmp_path / "server.json"
    first = server_uuid(machine, kept)
    assert first == "564d9f86-1b2c-3d4e-5f60-718293a4b5c6"
    (machine / "sys/class/dmi/id/product_uuid").write_text("0" * 8)
    assert server_uuid(machine, kept) == first


@pytest.mark.parametrize("text", ["", "Not Settable", "00000000-0000-0000-0000-000000000000"])
def test_a_machine_without_a_usable_uuid_gets_one(machine: Path, tmp_path: Path, text: str) -> None:
    """Empty, nonsense and all-zero values are replaced by a random uuid that is kept."""
    (machine / "sys/class/dmi/id/product_uuid").write_text(text)
    kept = tmp_path / "server.json"
    made = server_uuid(machine, kept)
    assert made == server_uuid(machine, kept)
    assert made.count("-") == 4
    assert set(made) - set("0-")


def test_free_space_alone_is_not_worth_a_message(machine: Path, tmp_path: Path) -> None:
    """Volatile keys do not count as a change; others do."""
    info = gather(facts(tmp_path), root=machine)
    assert significant(info) == significant({**info, "Zpool Size in GiB": 1})
    assert significant(info) != significant({**info, "Hostname": "other"})


def test_what_hypervisors_find_out_later_is_significant(tmp_path: Path, machine: Path) -> None:
    """The answer of a look at KVM is in the next sysinfo, and worth a message."""
    known: dict[str, str] = {}
    node = replace(facts(tmp_path), about=lambda: known)
    before = significant(gather(node, root=machine))
    known.update(accelerator="tcg", accelerator_reason="there is no /dev/kvm")
    after = significant(gather(node, root=machine))
    assert after != before
    assert after["Vetro Node"]["accelerator_reason"] == "there is no /dev/kvm"


def test_when_a_node_was_made_is_known_whoever_named_it(tmp_path: Path) -> None:
    """One that was given its uuid has no `server.json`: it keeps the time of its first start."""
    assert created(tmp_path) == 0
    note_creation(tmp_path)
    first = created(tmp_path)
    assert first > 1_700_000_000
    os.utime(tmp_path / "created.json", (1, 1))
    note_creation(tmp_path)
    assert created(tmp_path) == first


def test_a_node_made_before_that_was_kept_knows_it(tmp_path: Path) -> None:
    """Its uuid was written when it was made."""
    kept = tmp_path / "server.json"
    kept.write_text("{}")
    os.utime(kept, (1_600_000_000, 1_600_000_000))
    assert created(tmp_path) == 1_600_000_000
    note_creation(tmp_path)
    kept.unlink()
    assert created(tmp_path) == 1_600_000_000
