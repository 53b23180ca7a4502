"""The seed disk: what a guest finds out about itself."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from vetro.node.drivers.qemu import seed
from vetro.node.errors import DriverError
from vetro.node.guest.instance_files import Init, write_first_start
from vetro.node.guest.root import GuestRoot

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


#: Programs that say in a file of their own that they made a key.
MAKERS = {
    "usr/sbin/sshd": "",
    "usr/bin/ssh-keygen": "echo new >> /etc/ssh/ssh_host_ed25519_key",
    "usr/sbin/make-ssl-cert": "echo new >> /etc/ssl/private/ssl-cert-snakeoil.key",
}
KEYS = ("etc/ssh/ssh_host_ed25519_key", "etc/ssl/private/ssl-cert-snakeoil.key")
BOOTS = {"before first-start": "", "with first-start": "/opt/vetro/first-start\n"}


def old_root(tree: Path, instance: str, boot: str) -> None:
    """The disk of the machine ``instance`` with keys; ``boot``: what its image's boot script ends with."""
    programs = {name: f"#!/bin/sh\n{line}\n" for name, line in MAKERS.items()}
    texts = {
        **programs,
        **dict.fromkeys(KEYS, "of one machine\n"),
        "var/lib/vetro/instance": f"{instance}\n",
        "opt/vetro/boot": f"#!/bin/sh\nexport PATH=/usr/sbin:/usr/bin:/bin\n{boot}",
    }
    for name, text in texts.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)


def at_start(tree: Path, seed_directory: Path) -> None:
    """What the initial file system does with the seed, up to the network."""
    seed_directory.mkdir(exist_ok=True)
    (seed_directory / "files.tar").write_bytes(seed.seed_files(vm(), None)["vetro/files.tar"])
    script = seed.start_script(vm()).partition("ip link")[0]
    subprocess.run(
        ["busybox", "sh", "-uc", script.replace("/seed/vetro", str(seed_directory))],
        env={"ROOT": str(tree), "PATH": os.environ["PATH"]},
        check=True,
    )


@pytest.mark.root
@pytest.mark.parametrize("boot", BOOTS.values(), ids=BOOTS)
@pytest.mark.parametrize(("instance", "key"), [("another", "new\n"), (UUID, "of one machine\n")])
def test_a_machine_of_any_image_has_keys_of_its_own(
    tmp_path: Path, boot: str, instance: str, key: str
) -> None:
    """A copy makes new ones once, also of an image whose boot script is older; the owner keeps its."""
    tree = tmp_path / "root"
    old_root(tree, instance, boot)
    for directory in ("bin", "dev"):
        (tree / directory).mkdir()
    shutil.copy(shutil.which("busybox") or "", tree / "bin/busybox")
    (tree / "bin/sh").symlink_to("busybox")
    for _ in range(2):
        at_start(tree, tmp_path / "seed")
        subprocess.run(["chroot", str(tree), "/opt/vetro/boot"], check=True)
        assert [(tree / name).read_text() for name in KEYS] == [key, key]
    assert (tree / "opt/vetro/boot").read_text().count("first-start") == 1


@pytest.mark.programs
@pytest.mark.parametrize("masked", [False, True])
def test_systemd_of_an_older_image_runs_the_first_start(tmp_path: Path, masked: bool) -> None:
    """The seed enables the same unit that newer images have, unless it was masked."""
    tree, built = tmp_path / "root", tmp_path / "built"
    for root in (tree, built):
        (root / "etc/systemd/system").mkdir(parents=True)
    name = "etc/systemd/system/vetro-first-start.service"
    wanted = "etc/systemd/system/multi-user.target.wants/vetro-first-start.service"
    if masked:
        (tree / name).symlink_to("/dev/null")
    write_first_start(GuestRoot(built), Init.SYSTEMD)
    for _ in range(2):
        at_start(tree, tmp_path / "seed")
    script = "opt/vetro/first-start"
    assert (tree / script).read_bytes() == (built / script).read_bytes()
    assert (tree / script).stat().st_mode & 0o777 == 0o755
    if masked:
        assert (tree / name).readlink() == Path("/dev/null")
        assert not (tree / wanted).is_symlink()
    else:
        assert (tree / name).read_text() == (built / name).read_text()
        assert (tree / wanted).readlink() == (built / wanted).readlink()
    assert not (tree / "opt/vetro/boot").exists()


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
