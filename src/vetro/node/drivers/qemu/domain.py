"""The libvirt domain of a VM, built from its record only."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as Xml  # only written here, never read

from vetro.node.drivers.qemu.accel import EMULATOR
from vetro.node.errors import DriverError, not_implemented
from vetro.node.network.names import bridge_name, host_interface_name
from vetro.node.vm_records import Nic, Vm, disks_of

_MODELS = {"virtio": "virtio", "ide": "sata", "sata": "sata", "scsi": "scsi"}
_PREFIXES = {"virtio": "vd", "sata": "sd", "scsi": "sd"}
_NIC_MODELS = ("virtio", "e1000", "e1000e", "rtl8139")
_PASSWORD = re.compile(r"[\x21-\x7e]{1,8}")
DEFAULT_EMULATOR = f"/usr/bin/{EMULATOR}"
# Below it are the targets of disks that the payload puts on the same controller.
_FIRST_TARGET = 16
AGENT_CHANNEL = "org.qemu.guest_agent.0"


@dataclass(frozen=True)
class DomainDisk:
    """A disk: ``file`` and ``backing`` as QEMU sees them."""

    file: str
    backing: str | None
    model: str
    boot: bool


@dataclass(frozen=True)
class DomainVolume:
    """A volume: ``file`` as QEMU sees it, ``slot`` its place on the controller."""

    uuid: str
    file: str
    slot: int
    read_only: bool = False


@dataclass(frozen=True)
class DomainPlan:
    """What a domain needs besides the record; every path as QEMU sees it.

    ``vnc_host``: the address that serves the screen. ``run``: where QEMU may create sockets.
    """

    accelerator: str
    prefix: str
    disks: Sequence[DomainDisk]
    seed: str
    run: str
    console_log: str
    vnc_host: str
    emulator: str = DEFAULT_EMULATOR
    kernel: str | None = None
    initrd: str | None = None
    arguments: str = ""
    volumes: Sequence[DomainVolume] = ()


def check(vm: Vm) -> None:
    """Refuse values that a domain does not support. Errors: ``DriverError`` ``InvalidPayload``."""
    for nic in vm["nics"]:
        if not nic.get("network_uuid"):
            raise _invalid(f"interface {nic['mac']} names no network (network_uuid)")
        _nic_model(vm, nic)
    for disk in disks_of(vm):
        disk_model(vm, disk)
    password = vm.get("vnc_password")
    if password and not _PASSWORD.fullmatch(str(password)):
        raise _invalid("vnc_password must have 1 to 8 characters: VNC ignores more")
    port = int(vm.get("vnc_port") or 0)
    if port > 65535 or 0 < port < 5900:
        raise _invalid("vnc_port must be -1 (none), 0 (any) or a port from 5900")
    if not 1 <= int(vm.get("vcpus") or 1) <= 255:
        raise _invalid("vcpus must be between 1 and 255")
    if int(vm.get("ram") or 0) < 16:
        raise _invalid("ram must be at least 16 MiB")
    if (bootrom := vm.get("bootrom")) not in (None, "", "bios", "csm"):
        raise not_implemented(f"bootrom '{bootrom}'", "qemu")


def _invalid(message: str) -> DriverError:
    return DriverError(f"Invalid VM payload: {message}", code="EINVAL", rest_code="InvalidPayload")


def disk_model(vm: Vm, disk: Mapping[str, object]) -> str:
    """The bus of a disk. Errors: ``DriverError`` ``InvalidPayload``."""
    model = str(disk.get("model") or vm.get("disk_driver") or "virtio")
    if model not in _MODELS:
        raise _invalid(f"disks[].model '{model}' is not one of {', '.join(_MODELS)}")
    return _MODELS[model]


def _nic_model(vm: Vm, nic: Mapping[str, object]) -> str:
    model = str(nic.get("model") or vm.get("nic_driver") or "virtio")
    if model not in _NIC_MODELS:
        raise _invalid(f"nics[].model '{model}' is not one of {', '.join(_NIC_MODELS)}")
    return model


def render(vm: Vm, plan: DomainPlan) -> str:
    """The domain's XML. Its name is the VM's uuid."""
    domain = Xml.Element("domain", type="kvm" if plan.accelerator == "kvm" else "qemu")
    _text(domain, "name", vm["uuid"])
    _text(domain, "uuid", vm["uuid"])
    _text(domain, "memory", int(vm["ram"]), unit="MiB")
    _text(domain, "vcpu", int(vm.get("vcpus") or 1))
    _boot(domain, plan)
    features = Xml.SubElement(domain, "features")
    for name in ("acpi", "apic"):
        Xml.SubElement(features, name)
    # A model that can be migrated: the host's own with KVM, everything TCG supports otherwise.
    Xml.SubElement(domain, "cpu", mode="host-model" if plan.accelerator == "kvm" else "maximum")
    Xml.SubElement(domain, "clock", offset="utc")
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _text(domain, f"on_{event}", action)
    devices = Xml.SubElement(domain, "devices")
    _text(devices, "emulator", plan.emulator)
    _disks(devices, plan)
    for nic in vm["nics"]:
        _interface(devices, vm, nic, plan.prefix)
    _terminals(devices, plan)
    _screen(devices, vm, plan)
    random = Xml.SubElement(devices, "rng", model="virtio")
    _text(random, "backend", "/dev/urandom", model="random")
    Xml.SubElement(devices, "memballoon", model="virtio")
    return Xml.tostring(domain, encoding="unicode")


def _text(parent: Xml.Element, name: str, text: object, **attributes: str) -> Xml.Element:
    element = Xml.SubElement(parent, name, attributes)
    element.text = str(text)
    return element


def _boot(domain: Xml.Element, plan: DomainPlan) -> None:
    system = Xml.SubElement(domain, "os")
    _text(system, "type", "hvm", arch="x86_64", machine="q35")
    if plan.kernel is not None and plan.initrd is not None:
        _text(system, "kernel", plan.kernel)
        _text(system, "initrd", plan.initrd)
        _text(system, "cmdline", plan.arguments)


def _disks(devices: Xml.Element, plan: DomainPlan) -> None:
    counts: dict[str, int] = {}

    def add(kind: str, bus: str) -> tuple[Xml.Element, Xml.Element]:
        prefix = _PREFIXES[bus]
        index = counts.get(prefix, 0)
        counts[prefix] = index + 1
        disk = Xml.SubElement(devices, "disk", type="file", device="disk")
        driver = Xml.SubElement(disk, "driver", name="qemu", type=kind)
        Xml.SubElement(disk, "target", dev=f"{prefix}{_letters(index)}", bus=bus)
        return disk, driver

    # The boot disk comes first, whatever the order of the others.
    for order, one in enumerate(sorted(plan.disks, key=lambda disk: not disk.boot), 1):
        disk, driver = add("qcow2", one.model)
        driver.set("discard", "unmap")
        driver.set("detect_zeroes", "unmap")
        Xml.SubElement(disk, "source", file=one.file)
        # Specified here, so that libvirt parses no header that the guest could have written.
        backing = Xml.SubElement(disk, "backingStore")
        if one.backing is not None:
            backing.set("type", "file")
            Xml.SubElement(backing, "format", type="qcow2")
            Xml.SubElement(backing, "source", file=one.backing)
            Xml.SubElement(backing, "backingStore")
        if plan.kernel is None:
            Xml.SubElement(disk, "boot", order=str(order))
    disk, _ = add("raw", "virtio")
    Xml.SubElement(disk, "source", file=plan.seed)
    Xml.SubElement(disk, "readonly")
    # Volumes are plugged into a SCSI controller, which has room for all of them: a slot of the
    # machine's own bus would have to be there from the beginning for each.
    Xml.SubElement(devices, "controller", type="scsi", index="0", model="virtio-scsi")
    for volume in plan.volumes:
        devices.append(_volume(volume))


def volume_xml(volume: DomainVolume) -> str:
    """The device of a volume, for a running domain."""
    return Xml.tostring(_volume(volume), encoding="unicode")


def _volume(volume: DomainVolume) -> Xml.Element:
    disk = Xml.Element("disk", type="file", device="disk")
    Xml.SubElement(
        disk, "driver", name="qemu", type="qcow2", discard="unmap", detect_zeroes="unmap"
    )
    Xml.SubElement(disk, "source", file=volume.file)
    Xml.SubElement(disk, "backingStore")
    Xml.SubElement(disk, "target", dev=f"sd{_letters(26 + volume.slot)}", bus="scsi")
    if volume.read_only:
        Xml.SubElement(disk, "readonly")
    # The guest finds it in /dev/disk/by-id by this number.
    _text(disk, "serial", volume.uuid)
    Xml.SubElement(
        disk,
        "address",
        type="drive",
        controller="0",
        bus="0",
        target=str(_FIRST_TARGET + volume.slot),
        unit="0",
    )
    return disk


def _letters(index: int) -> str:
    """a … z, aa, ab …"""
    name = chr(ord("a") + index % 26)
    return name if index < 26 else _letters(index // 26 - 1) + name


def _interface(devices: Xml.Element, vm: Vm, nic: Nic, prefix: str) -> None:
    interface = Xml.SubElement(devices, "interface", type="bridge")
    Xml.SubElement(interface, "mac", address=str(nic["mac"]))
    Xml.SubElement(interface, "source", bridge=bridge_name(prefix, str(nic.get("network_uuid"))))
    Xml.SubElement(interface, "target", dev=host_interface_name(prefix, str(nic["mac"])))
    Xml.SubElement(interface, "model", type=_nic_model(vm, nic))
    if mtu := nic.get("mtu"):
        Xml.SubElement(interface, "mtu", size=str(int(mtu)))
    # No boot ROM: nothing here boots from the network.
    Xml.SubElement(interface, "rom", enabled="no")


def _terminals(devices: Xml.Element, plan: DomainPlan) -> None:
    serial = Xml.SubElement(devices, "serial", type="unix")
    Xml.SubElement(serial, "source", mode="bind", path=f"{plan.run}/console.sock")
    Xml.SubElement(serial, "log", file=plan.console_log, append="off")
    Xml.SubElement(serial, "target", port="0")
    console = Xml.SubElement(devices, "console", type="unix")
    Xml.SubElement(console, "target", type="serial", port="0")
    channel = Xml.SubElement(devices, "channel", type="unix")
    Xml.SubElement(channel, "target", type="virtio", name=AGENT_CHANNEL)


def _screen(devices: Xml.Element, vm: Vm, plan: DomainPlan) -> None:
    port = int(vm.get("vnc_port") or 0)
    video = Xml.SubElement(devices, "video")
    if port < 0:
        Xml.SubElement(video, "model", type="none")
        return
    Xml.SubElement(video, "model", type="vga", vram="16384", heads="1")
    Xml.SubElement(devices, "input", type="tablet", bus="usb")
    attributes = {"type": "vnc", "port": str(port or -1), "autoport": "no" if port else "yes"}
    if password := vm.get("vnc_password"):
        attributes["passwd"] = str(password)
    graphics = Xml.SubElement(devices, "graphics", attributes)
    Xml.SubElement(graphics, "listen", type="address", address=plan.vnc_host)
