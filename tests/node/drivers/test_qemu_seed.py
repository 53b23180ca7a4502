"""The seed disk: what a guest finds out about itself."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from vetro.node.drivers.qemu import seed
from vetro.node.errors import DriverError

UUID = "7d12c093-999a-441a-97fb-a0bb03e2db7b"
NIC = {
    "interface": "net0", "mac": "02:00:11:22:33:44", "ip": "10.1.2.5", "netmask": "255.255.255.0",
    "gateway": "10.1.2.1", "primary": True, "mtu": 1400,
}  # fmt: skip


def vm(**more: Any) -> dict[str, Any]:
    """A VM's record."""
    return {
        "uuid": UUID, "hostname": "web-1", "dns_domain": "example", "nics": [NIC],
        "customer_metadata": {}, **more,
    }  # fmt: skip


def bundle_of(files: dict[str, bytes]) -> dict[str, tuple[bytes, int]]:
    """What is unpacked over the root of our own images: data and mode by name."""
    with tarfile.open(fileobj=io.BytesIO(files["vetro/files.tar"])) as tar:
        found: dict[str, tuple[bytes, int]] = {}
        for member in tar:
            source = tar.extractfile(member)
            assert source is not None
            assert (member.uid, member.gid) == (0, 0)
            found[member.name] = (source.read(), member.mode)
        return found


def test_cloud_init_finds_name_keys_and_user_data(tmp_path: Path) -> None:
    """The documents of NoCloud; JSON is YAML."""
    metadata = {
        "root_authorized_keys": "ssh-ed25519 AAAA one\n\n ssh-rsa BBBB two \n",
        "user-data": "#!/bin/sh\ntouch /done\n",
    }
    archive = tmp_path / "vetro-guest.pyz"
    archive.write_bytes(b"PK agent")
    files = seed.seed_files(vm(customer_metadata=metadata), archive)
    assert json.loads(files["meta-data"]) == {
        "instance-id": UUID,
        "local-hostname": "web-1.example",
        "public-keys": ["ssh-ed25519 AAAA one", "ssh-rsa BBBB two"],
    }
    assert files["user-data"] == b"#!/bin/sh\ntouch /done\n"
    # The guest agent comes along, and the vendor's script installs it.
    assert files["vetro/vetro-guest.pyz"] == b"PK agent"
    assert files["vendor-data"].startswith(b"#!/bin/sh\n")
    inside = bundle_of(files)
    assert inside["root/.ssh/authorized_keys"][1] == 0o600
    assert inside["var/lib/vetro/user-data"][0] == b"#!/bin/sh\ntouch /done\n"
    assert b"10.1.2.5\tweb-1.example web-1" in inside["etc/hosts"][0]


def test_without_an_agent_nothing_is_installed() -> None:
    """The vendor's document says nothing, in cloud-init's own words."""
    files = seed.seed_files(vm(), None)
    assert files["vendor-data"] == b"#cloud-config\n{}\n"
    assert "vetro/vetro-guest.pyz" not in files
    assert "public-keys" not in json.loads(files["meta-data"])


def test_user_data_for_cloud_init_alone_wins() -> None:
    """Who uses both has a key for each."""
    metadata = {"user-data": "ours", "cloud-init:user-data": "theirs"}
    assert seed.seed_files(vm(customer_metadata=metadata), None)["user-data"] == b"theirs"


DNS = {"dns_nameservers": ["9.9.9.9"], "dns_search": ["example"]}


@pytest.mark.parametrize(
    ("nic", "subnets"),
    [
        ({}, [{"type": "static", "address": "10.1.2.5/24", "gateway": "10.1.2.1", **DNS}]),
        (
            {"ips": ["10.1.2.5/25", "fd00::5"], "gateway": "fd00::1"},
            [
                {"type": "static", "address": "10.1.2.5/25", **DNS},
                {"type": "static6", "address": "fd00::5/64", "gateway": "fd00::1"},
            ],
        ),
        ({"primary": False}, [{"type": "static", "address": "10.1.2.5/24"}]),
        ({"ip": "dhcp", "primary": False}, [{"type": "dhcp4"}]),
        ({"ip": "addrconf", "primary": False}, [{"type": "ipv6_slaac"}]),
    ],
)
def test_the_interfaces(nic: dict[str, Any], subnets: list[dict[str, Any]]) -> None:
    """By their MAC addresses; only the primary one has a default route and name servers."""
    config = seed.network_config(vm(nics=[{**NIC, **nic}]), ["9.9.9.9"])
    assert config == {
        "version": 1,
        "config": [
            {
                "type": "physical", "name": "eth0", "mac_address": NIC["mac"], "mtu": 1400,
                "subnets": subnets,
            }
        ],
    }  # fmt: skip


def test_routes_that_are_addresses() -> None:
    """Those of the record, on the primary interface; words of another system are left out."""
    routes = {"192.0.2.0/24": "10.1.2.9", "10.5.0.0/16": "nics[0]", "x": "10.1.2.9"}
    first, second = seed.network_config(
        vm(nics=[NIC, {**NIC, "primary": False, "mtu": None}], routes=routes)
    )["config"]
    assert first["subnets"][0]["routes"] == [
        {"network": "192.0.2.0", "prefix": 24, "gateway": "10.1.2.9"}
    ]
    assert (second["name"], "mtu" in second, "routes" in second["subnets"][0]) == (
        "eth1", False, False,
    )  # fmt: skip


@pytest.mark.parametrize("bad", [{"ip": "10.1.2"}, {"netmask": "wide"}])
def test_an_address_that_is_none_is_refused(bad: dict[str, Any]) -> None:
    """With the interface's MAC."""
    with pytest.raises(DriverError, match=NIC["mac"]):
        seed.nic_addresses({**NIC, **bad})
    with pytest.raises(DriverError, match="gateway"):
        seed.primary_gateway({**NIC, "gateway": "nowhere"})


def test_our_own_images_run_a_script() -> None:
    """It is shell; what a record says stays one word of it."""
    record = vm(
        nics=[{**NIC, "gateway": "10.9.9.1"}, {**NIC, "ip": "dhcp", "primary": False}],
        routes={"192.0.2.0/24": "$(reboot)"},
    )
    script = seed.start_script(record)
    # A gateway outside of the network needs a way to itself.
    assert 'ip route add 10.9.9.1 dev "$device"\n  ip route add default via 10.9.9.1' in script
    assert "udhcpc" in script
    assert "via '$(reboot)'" in script
    shell = shutil.which("sh")
    assert shell
    assert subprocess.run([shell, "-n"], input=script.encode()).returncode == 0


@pytest.mark.root
async def test_the_disk_has_the_label_that_cloud_init_looks_for(tmp_path: Path) -> None:
    """An ISO 9660 file system with long names, only readable by its owner, replaced whole."""
    target = tmp_path / "seed.iso"
    for name in ("one", "two"):
        await seed.write_seed(target, vm(hostname=name), guest_archive=None)
    data = target.read_bytes()
    assert data[32769:32774] == b"CD001"
    assert data[32808:32840].strip() == b"cidata"
    assert b"network-config" in data
    assert b"two.example" in data
    assert b"one.example" not in data
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["seed.iso"]
