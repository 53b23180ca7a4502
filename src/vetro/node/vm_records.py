"""The record of a VM and of its parts, as types (§7 of the agent spec).

Records are JSON objects: they come from the service, are kept in files and are sent back, with keys
that only other versions know. So they stay dictionaries, and these types say what is in them.
"""

from __future__ import annotations

from typing import Required, TypedDict, cast

from vetro.json_values import JsonObject

Number = int | float


class Nic(TypedDict, total=False):
    """An interface of a VM; ``vnic`` keys that no code of the node reads are kept as they came."""

    mac: Required[str]
    interface: Required[str]
    primary: bool
    nic_tag: str
    ip: str
    network_ip: str | None
    ips: list[str]
    netmask: str
    gateway: str
    gateways: list[str]
    dns: list[str]
    mtu: int
    vlan_id: int
    network_uuid: str


class Disk(TypedDict, total=False):
    """A disk of a virtual machine; ``size`` in MiB."""

    path: Required[str]
    media: Required[str]
    model: Required[str]
    boot: bool
    image_uuid: str | None
    size: int


class SnapshotEntry(TypedDict, total=False):
    """A snapshot in a VM's record."""

    name: Required[str]
    created_at: Required[str]


class VolumeEntry(TypedDict, total=False):
    """A volume in a VM's record: at ``path`` in a container, ``slot`` of a virtual machine."""

    uuid: Required[str]
    path: Required[str]
    read_only: bool
    slot: Required[int]


class Vm(TypedDict, total=False):
    """A VM's record. Memory in MiB, ``quota`` in GiB, ``cpu_cap`` in percent of a core.

        Keys that this node does not know are kept as they came. ``mark`` says what a killed agent left
        unfinished; a record that was never written has only ``uuid`` and ``mark``. While its root
    is replaced ``former_state`` says how it was, and is again when that fails: ``running`` or ``stopped``.
    """

    uuid: Required[str]
    v: int
    mark: str
    former_state: str
    brand: Required[str]
    type: str
    image_uuid: Required[str | None]
    alias: str
    hostname: Required[str]
    dns_domain: Required[str]
    autoboot: bool
    owner_uuid: Required[str]
    server_uuid: str
    max_physical_memory: Required[Number]
    ram: Required[Number]
    max_swap: Number
    max_locked_memory: Number
    tmpfs: Number
    cpu_cap: Number
    cpu_shares: Number
    vcpus: Number
    max_lwps: Number
    quota: Required[Number]
    zfs_io_priority: Number
    firewall_enabled: bool
    do_not_inventory: bool
    docker: bool
    privileged: bool
    indestructible_zoneroot: bool
    indestructible_delegated: bool
    create_timestamp: Required[str]
    last_modified: Required[str]
    zonename: str
    zonepath: str
    zfs_filesystem: str
    zpool: str
    state: str
    zone_state: str
    frozen: bool
    frozen_reason: str
    pid: int
    boot_timestamp: str
    exit_timestamp: str
    exit_status: int
    id_base: int
    tags: JsonObject
    customer_metadata: JsonObject
    internal_metadata: JsonObject
    routes: JsonObject
    resolvers: Required[list[str]]
    nics: Required[list[Nic]]
    disks: list[Disk]
    filesystems: list[JsonObject]
    snapshots: Required[list[SnapshotEntry]]
    volumes: list[VolumeEntry]
    vnc_port: int
    vnc_password: str
    nic_driver: str
    disk_driver: str
    bootrom: str


def volumes_of(vm: Vm) -> list[VolumeEntry]:
    """The volumes in a VM's record."""
    return list(vm.get("volumes") or [])


def disks_of(vm: Vm) -> list[Disk]:
    """The disks in a virtual machine's record; changes of an entry change the record."""
    return vm.get("disks", [])


def unwritten(uuid: str) -> Vm:
    """What is known of a VM whose record was not written: its uuid."""
    return cast("Vm", {"uuid": uuid})
