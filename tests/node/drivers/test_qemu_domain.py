"""The domain of a VM: what of the record becomes what of the XML, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from vetro.node.drivers.qemu import disks as qemu_disks
from vetro.node.drivers.qemu import domain as qemu_domain
from vetro.node.drivers.qemu.domain import DomainDisk, DomainPlan
from vetro.node.drivers.qemu.migration import at_the_target
from vetro.node.errors import DriverError

UUID = "7d12c093-999a-441a-97fb-a0bb03e2db7b"
NETWORK = "aabbccdd-0000-4000-8000-000000000001"


def vm(**more: Any) -> dict[str, Any]:
    """A VM's record."""
    nic = {"mac": "02:00:11:22:33:44", "network_uuid": NETWORK, "mtu": 1400}
    return {"uuid": UUID, "ram": 256, "vcpus": 2, "nics": [nic], "disks": [], **more}


PLAN = DomainPlan(
    accelerator="tcg",
    prefix="vt",
    disks=[
        DomainDisk("/d/data.qcow2", None, "virtio", False),
        DomainDisk("/d/root.qcow2", "/i/disk.qcow2", "virtio", True),
    ],
    seed="/d/seed.iso",
    run="/d/run",
    console_log="/d/console.log",
    vnc_host="192.0.2.1",
)


def rendered(record: dict[str, Any], plan: DomainPlan = PLAN) -> Xml.Element:
    """The domain."""
    return Xml.fromstring(qemu_domain.render(record, plan))


def test_the_disk_to_boot_from_is_the_first() -> None:
    """Whatever the order of the record; images are named, so that no header is believed."""
    domain = rendered(vm())
    disks = domain.findall("./devices/disk")
    assert [disk.find("source").get("file") for disk in disks] == [
        "/d/root.qcow2", "/d/data.qcow2", "/d/seed.iso",
    ]  # fmt: skip
    assert [disk.find("target").get("dev") for disk in disks] == ["vda", "vdb", "vdc"]
    assert [disk.find("boot").get("order") for disk in disks[:2]] == ["1", "2"]
    assert disks[0].find("backingStore/source").get("file") == "/i/disk.qcow2"
    # Nothing behind the last one.
    assert list(disks[0].find("backingStore/backingStore")) == []
    assert list(disks[1].find("backingStore")) == []
    assert disks[2].find("readonly") is not None


def test_a_kernel_of_the_image_is_started_without_the_disks() -> None:
    """With a kernel nothing is booted from."""
    domain = rendered(vm(), replace(PLAN, kernel="/i/kernel", initrd="/i/initrd", arguments="a b"))
    assert [domain.findtext(f"os/{name}") for name in ("kernel", "initrd", "cmdline")] == [
        "/i/kernel", "/i/initrd", "a b",
    ]  # fmt: skip
    assert domain.find("./devices/disk/boot") is None


def test_more_disks_than_letters() -> None:
    """The twenty-seventh is vdaa; each bus counts for itself."""
    many = [DomainDisk(f"/d/{n}.qcow2", None, "virtio", False) for n in range(28)]
    many.append(DomainDisk("/d/s.qcow2", None, "sata", False))
    domain = rendered(vm(), replace(PLAN, disks=many))
    names = [one.get("dev") for one in domain.findall("./devices/disk/target")]
    assert names[25:] == ["vdz", "vdaa", "vdab", "sda", "vdac"]


def test_interfaces_are_on_their_networks_bridges() -> None:
    """MAC, bridge, the host's end and the MTU; nothing boots from the network."""
    interface = rendered(vm()).find("./devices/interface")
    assert interface.find("mac").get("address") == "02:00:11:22:33:44"
    assert interface.find("source").get("bridge") == "vtbaabbccdd"
    assert interface.find("target").get("dev").startswith("vtv")
    assert interface.find("mtu").get("size") == "1400"
    assert interface.find("rom").get("enabled") == "no"


@pytest.mark.parametrize(
    ("port", "shown"), [(0, ("-1", "yes")), (5999, ("5999", "no")), (-1, None)]
)
def test_the_screen(port: int, shown: tuple[str, str] | None) -> None:
    """Any port, one port, or none; always with its password."""
    domain = rendered(vm(vnc_port=port, vnc_password="secret"))
    graphics = domain.find("./devices/graphics")
    if shown is None:
        assert graphics is None
        return
    assert (graphics.get("port"), graphics.get("autoport")) == shown
    assert graphics.get("passwd") == "secret"
    assert graphics.find("listen").get("address") == "192.0.2.1"


def test_the_processor_follows_the_accelerator() -> None:
    """What the machine has with KVM, all there is when emulated."""
    assert rendered(vm()).get("type") == "qemu"
    domain = rendered(vm(), replace(PLAN, accelerator="kvm"))
    assert (domain.get("type"), domain.find("cpu").get("mode")) == ("kvm", "host-model")


def test_text_stays_text() -> None:
    """No value of a record becomes markup."""
    assert rendered(vm(vnc_password="'\"<&>")).find("./devices/graphics").get("passwd") == "'\"<&>"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nics": [{"mac": "02:00:00:00:00:01"}]}, "names no network"),
        ({"nics": [{"mac": "m", "network_uuid": NETWORK, "model": "ne2k"}]}, "nics.*'ne2k'"),
        ({"disks": [{"path": "a", "model": "floppy"}]}, "disks.*'floppy'"),
        ({"disk_driver": "floppy", "disks": [{"path": "a"}]}, "disks.*'floppy'"),
        ({"vnc_password": "longer-than-8"}, "1 to 8 characters"),
        ({"vnc_password": "with sp"}, "1 to 8 characters"),
        ({"vnc_port": 80}, "vnc_port"),
        ({"vnc_port": 70000}, "vnc_port"),
        ({"vcpus": 300}, "vcpus"),
        ({"ram": 8}, "ram"),
        ({"bootrom": "uefi"}, "bootrom 'uefi'"),
    ],
)
def test_what_a_domain_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    """Before anything is made, with the property's name."""
    with pytest.raises(DriverError, match=words):
        qemu_domain.check(vm(**changes))


def test_at_another_node_interfaces_and_screen_have_its_names() -> None:
    """A domain that moves: bridge and host end by the other prefix, screen at its address."""
    text = qemu_domain.render(vm(vnc_password="secret"), PLAN)
    there = Xml.fromstring(at_the_target(text, vm(), {"prefix": "zz", "vnc_host": "192.0.2.9"}))
    interface = there.find("./devices/interface")
    assert interface.find("source").attrib == {"bridge": "zzbaabbccdd"}
    assert interface.find("target").get("dev").startswith("zzv")
    assert there.find("./devices/graphics/listen").get("address") == "192.0.2.9"
    assert there.find("./devices/graphics").get("port") == "-1"
    with pytest.raises(DriverError, match="does not have"):
        at_the_target(text, vm(nics=[]), {"prefix": "zz", "vnc_host": "::"})


# Disks of a record


def test_a_vm_without_disks_gets_one_of_its_image() -> None:
    """The first disk is the image's unless another one says so."""
    (disk,) = qemu_disks.check({"image_uuid": "i"})
    assert (disk["path"], disk["image_uuid"], disk["boot"]) == ("disk0", "i", True)
    first, second = qemu_disks.check(
        {"image_uuid": "i", "disks": [{"path": "a"}, {"path": "b", "size": "64"}]}
    )
    assert (first["image_uuid"], "image_uuid" in second, second["size"]) == ("i", False, 64)
    first, second = qemu_disks.check(
        {"image_uuid": "i", "disks": [{"path": "a", "size": 1}, {"path": "b", "image_uuid": "j"}]}
    )
    assert ("image_uuid" in first, second["image_uuid"]) == (False, "j")
    with pytest.raises(DriverError, match="disk b has neither size"):
        qemu_disks.check({"image_uuid": "i", "disks": [{"path": "a"}, {"path": "b"}]})


@pytest.mark.parametrize("path", ["../a", "/dev/sda", "", ".", "a b", "x" * 65])
def test_the_path_of_a_disk_is_a_name(path: str) -> None:
    """It leads nowhere on the host."""
    with pytest.raises(DriverError, match=r"disks\[\]\.path"):
        qemu_disks.check({"disks": [{"path": path}]})


def quota_vm(quota: float, **disk: Any) -> Any:
    """A record with a quota, a disk of an image and another one."""
    image = {"path": "b", "image_uuid": "i", "size": 10240, **disk}
    return {"uuid": "u", "quota": quota, "disks": [{"path": "a", "size": 64}, image]}


def test_a_quota_that_changes_is_the_size_of_the_image_s_disk() -> None:
    """It grows that disk; one that stays, or comes with sizes of disks, leaves them as they are."""
    vm = quota_vm(12.5)
    assert qemu_disks.follow_quota(quota_vm(10), vm) is vm["disks"][1]
    assert [disk["size"] for disk in vm["disks"]] == [64, 12800]
    for same in (quota_vm(10), quota_vm(20, size=11264)):
        before = quota_vm(10)
        expected = [dict(disk) for disk in same["disks"]]
        assert qemu_disks.follow_quota(before, same) is None
        assert same["disks"] == expected
    assert qemu_disks.follow_quota(quota_vm(20), quota_vm(10)) is None


def test_a_quota_below_the_disk_is_refused() -> None:
    """The refusal has the figures, and says what to ask for."""
    vm = quota_vm(5, size=10241)
    with pytest.raises(
        DriverError,
        match="has 10241 MiB and cannot shrink to a quota of 5 GiB: ask for at least 11",
    ):
        qemu_disks.follow_quota(quota_vm(10, size=10241), vm)
    assert vm["disks"][1]["size"] == 10241


async def test_no_disk_is_made_when_one_cannot_hold_its_image(tmp_path: Path) -> None:
    """Whether its size is named or follows from the quota; nothing is created, nothing removed."""
    places = tmp_path / "disks"
    places.mkdir()
    (places / "old.qcow2").touch()
    images = {"i": (tmp_path / "image.qcow2", 3 * 2**30)}
    for size in ({"size": 2048}, {}):
        disks: Any = [{"path": "a", "size": 64}, {"path": "b", "image_uuid": "i", **size}]
        with pytest.raises(
            DriverError, match="disk b of 2048 MiB cannot hold .* quota of at least 3 GiB"
        ):
            await qemu_disks.bring_to(tmp_path, disks, images, 2048)
    assert [path.name for path in places.iterdir()] == ["old.qcow2"]


def test_disks_only_grow_and_keep_their_image() -> None:
    """A smaller disk would lose its end; another image needs a reprovision."""
    before = [{"path": "a", "size": 100, "image_uuid": "i"}]
    qemu_disks.check_growth(before, [{"path": "a", "size": 200, "image_uuid": "i"}, {"path": "b"}])
    qemu_disks.check_growth(before, [])
    with pytest.raises(DriverError, match="cannot shrink"):
        qemu_disks.check_growth(before, [{"path": "a", "size": 99, "image_uuid": "i"}])
    with pytest.raises(DriverError, match="reprovision"):
        qemu_disks.check_growth(before, [{"path": "a", "size": 100, "image_uuid": "j"}])
