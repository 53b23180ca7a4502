"""VM objects: valid payloads, defaults, and the rules of an update (§7 of the agent spec).

A VM object is a JSON object, as it is sent; ``MachineStore`` keeps one file for each.
"""

from __future__ import annotations

import re
import uuid as uuids
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import structlog

from vetro.digits import is_number
from vetro.json_values import Json, JsonObject
from vetro.node.errors import DriverError
from vetro.node.files import read_json, remove_tree, write_json
from vetro.node.vm_records import Disk, Nic, Vm, unwritten

log = structlog.get_logger(__name__)


UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9-]{1,63})*")

TYPES = {"lx": "LX", "joyent": "OS", "joyent-minimal": "OS", "kvm": "KVM", "bhyve": "BHYV"}
CONTAINER_BRANDS = ("lx", "joyent", "joyent-minimal")

HVM_BRANDS = ("kvm", "bhyve")
# Memory of the hypervisor itself besides the guest's, in MiB.
_HVM_OVERHEAD = {"kvm": 1024, "bhyve": 1280}

_TEXT = ("alias", "hostname", "dns_domain", "owner_uuid", "billing_id", "package_name",
         "package_version", "vnc_password", "cpu_type", "disk_driver", "nic_driver", "bootrom",
         "com1", "com2", "qemu_opts", "qemu_extra_opts", "bhyve_extra_opts", "kernel_version",
         "init_name", "fs_allowed", "limit_priv")  # fmt: skip
_NUMBERS = ("max_physical_memory", "ram", "max_swap", "max_locked_memory", "tmpfs", "cpu_cap",
            "cpu_shares", "vcpus", "max_lwps", "quota", "zfs_io_priority", "flexible_disk_size",
            "mdata_exec_timeout")  # fmt: skip
_FLAGS = ("autoboot", "firewall_enabled", "do_not_inventory", "maintain_resolvers",
          "archive_on_delete", "indestructible_zoneroot", "indestructible_delegated")  # fmt: skip
_OBJECTS = ("tags", "customer_metadata", "internal_metadata", "routes")
# -1 disables the VM's screen, 0 selects a free port.
_PORTS = ("vnc_port",)
_SCALARS = (*_TEXT, *_NUMBERS, *_FLAGS, *_PORTS)
# Known keys that are set at creation and never updated.
_CREATE_ONLY = ("uuid", "brand", "image_uuid", "docker", "privileged", "zpool", "delegate_dataset", "nics",
                "resolvers", "filesystems", "disks")  # fmt: skip
# Meant for the task or the service; not part of the VM.
_TASK_ONLY = ("server_uuid", "jobid", "image", "dataset_url", "dataset_url_compression", "creator_uuid",
              "origin", "include_dni", "firewall_rules", "zfs_storage_pool_name", "task", "vm_uuid",
              "imgapi_url", "package", "ticket", "x-request-id", "fence", "image_sha256",
              "imgapiPeers")  # fmt: skip

# Keys of an update: what it changes besides scalars, and keys that only describe how.
_CHANGE = re.compile(
    r"(set|remove)_(tags|customer_metadata|internal_metadata|routes)"
    r"|(add|update|remove)_(nics|disks|filesystems)"
)
_ADDRESSING = (*_TASK_ONLY, "uuid", "idempotent", "force", "timeout", "update")

SUMMARY = ("brand", "cpu_cap", "last_modified", "max_physical_memory", "owner_uuid", "quota",
           "state", "uuid", "zone_state")  # fmt: skip


def timestamp(now: datetime | None = None) -> str:
    """ISO 8601 with milliseconds and ``Z``."""
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def invalid(field: str, message: str) -> DriverError:
    """The error for an invalid payload."""
    return DriverError(
        f"Invalid VM payload: {field} {message}", code="EINVAL", rest_code="InvalidPayload"
    )


def as_object(value: object, field: str) -> JsonObject:
    """``value`` as a JSON object; ``None`` is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(field, "must be an object")
    return cast("dict[str, object]", value)


def _objects(value: object, field: str) -> list[dict[str, object]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise invalid(field, "must be an array of objects")
    return [dict(as_object(item, f"{field}[]")) for item in cast("list[object]", value)]


def check_uuid(value: object, field: str = "uuid") -> str:
    """``value`` as a lower-case uuid."""
    text = str(value).lower()
    if not UUID.fullmatch(text):
        raise invalid(field, f"'{value}' is not a uuid")
    return text


def _check_scalar(field: str, value: object) -> object:
    if field in _TEXT:
        if not isinstance(value, str):
            raise invalid(field, "must be text")
        if field in ("hostname", "dns_domain") and not _LABEL.fullmatch(value):
            raise invalid(field, f"'{value}' is not a host name")
        return value
    if field in _FLAGS:
        if value in ("true", "false"):
            return value == "true"
        if not isinstance(value, bool):
            raise invalid(field, "must be true or false")
        return value
    if isinstance(value, str) and is_number(value):
        value = int(value)
    if field in _PORTS and value == -1:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise invalid(field, f"must be a number of at least 0, not {value!r}")
    return value


def check_nics(nics: Sequence[Mapping[str, object]]) -> list[Nic]:
    """Interfaces with every default filled in: ``interface``, ``mac``, exactly one ``primary``."""
    checked: list[Nic] = []
    for index, given in enumerate(nics):
        nic = dict(given)
        mac = str(nic.get("mac") or _new_mac()).lower()
        if not _MAC.fullmatch(mac) or int(mac[:2], 16) & 1:
            raise invalid(f"nics[{index}].mac", f"'{mac}' is not a unicast MAC address")
        nic["mac"] = mac
        nic["dns"] = _check_resolvers(nic.get("dns"), f"nics[{index}].dns")
        nic.setdefault("interface", f"net{index}")
        nic.setdefault("nic_tag", "external")
        if not isinstance(nic["interface"], str) or not re.fullmatch(
            r"[a-z][a-z0-9.]{0,14}", nic["interface"]
        ):
            raise invalid(
                f"nics[{index}].interface", f"'{nic['interface']}' is not an interface name"
            )
        checked.append(cast("Nic", nic))
    if len({nic["mac"] for nic in checked}) != len(checked):
        raise invalid("nics", "use one MAC address twice")
    primaries = [nic for nic in checked if nic.get("primary")]
    for nic in checked:
        nic["primary"] = nic is (primaries or checked)[0]
    return checked


def check_disks(disks: Sequence[Mapping[str, object]]) -> list[Disk]:
    """A VM's disks with defaults for ``path``, ``model``, ``media`` and exactly one ``boot``."""
    checked: list[Disk] = []
    for index, given in enumerate(disks):
        disk = {"model": "virtio", "media": "disk", **given}
        where = f"disks[{index}]"
        if disk.get("image_uuid"):
            disk["image_uuid"] = check_uuid(disk["image_uuid"], f"{where}.image_uuid")
        if disk["media"] not in ("disk", "cdrom"):
            raise invalid(f"{where}.media", f"'{disk['media']}' is neither disk nor cdrom")
        size = disk.get("size")
        if size is not None:
            disk["size"] = _check_scalar("size", size)
        elif not disk.get("image_uuid") and not disk.get("path"):
            raise invalid(where, "has neither size (MiB) nor image_uuid nor path")
        disk.setdefault("path", f"disk{index}")
        checked.append(cast("Disk", disk))
    if len({disk["path"] for disk in checked}) != len(checked):
        raise invalid("disks", "use one path twice")
    booting = [disk for disk in checked if disk.get("boot")]
    for disk in checked:
        disk["boot"] = disk is (booting or checked)[0]
    return checked


def _changed_list(
    vm: Mapping[str, object], changes: Mapping[str, object], field: str, key: str
) -> list[dict[str, object]]:
    """``vm[field]`` after its ``add_``, ``update_``, ``remove_``; ``key`` identifies elements."""
    present = cast("list[dict[str, object]]", vm.get(field) or [])
    entries = {str(entry.get(key)): dict(entry) for entry in present}
    for removed in cast("list[object]", changes.get(f"remove_{field}") or []):
        if str(removed) not in entries:
            raise invalid(f"remove_{field}", f"names {removed}, which the VM does not have")
        del entries[str(removed)]
    for change in _objects(changes.get(f"update_{field}"), f"update_{field}"):
        name = str(change.get(key))
        if name not in entries:
            raise invalid(f"update_{field}", f"names {name}, which the VM does not have")
        entries[name].update(change)
    for index, addition in enumerate(_objects(changes.get(f"add_{field}"), f"add_{field}")):
        name = str(addition.get(key) or f"disk{len(entries) + index}")
        if name in entries:
            raise invalid(f"add_{field}", f"names {name}, which the VM has already")
        entries[name] = {**addition, key: name}
    return list(entries.values())


def _new_mac() -> str:
    raw = uuids.uuid4().bytes
    return ":".join(f"{byte:02x}" for byte in (0x02, *raw[:5]))


def new_vm(payload: Mapping[str, Json], facts: Mapping[str, object], brands: Sequence[str]) -> Vm:
    """The VM object that ``payload`` describes. ``facts``: fields the node adds to each VM.

    Errors: ``DriverError`` ``InvalidPayload``; ``NotImplemented`` for a brand this node lacks.
    """
    brand = payload.get("brand", "lx")
    if brand not in brands:
        raise DriverError(
            f"Brand '{brand}' is not served by this node; it serves {', '.join(brands)}",
            code="ENOTIMPLEMENTED",
            rest_code="NotImplemented",
        )
    uuid = check_uuid(payload.get("uuid") or uuids.uuid4())
    disks = check_disks(_objects(payload.get("disks"), "disks"))
    image = payload.get("image_uuid") or next(
        (image for d in disks if (image := d.get("image_uuid"))), None
    )
    memory = _check_scalar("max_physical_memory", payload.get("max_physical_memory")
                           or payload.get("ram") or 256)  # fmt: skip
    assert isinstance(memory, (int, float))
    now = timestamp()
    vm: JsonObject = {
        "uuid": uuid,
        "v": 1,
        "brand": brand,
        "type": TYPES[brand],
        "image_uuid": check_uuid(image, "image_uuid") if image else None,
        "hostname": uuid,
        "dns_domain": "local",
        "autoboot": True,
        "owner_uuid": "00000000-0000-0000-0000-000000000000",
        "max_physical_memory": memory,
        "ram": memory,
        "max_swap": max(memory, 256),
        "max_locked_memory": memory,
        "tmpfs": memory,
        "cpu_shares": 100,
        "max_lwps": 2000,
        "quota": 10,
        "zfs_io_priority": 100,
        "firewall_enabled": False,
        "do_not_inventory": False,
        "create_timestamp": now,
        "last_modified": now,
        "zonename": uuid,
        "snapshots": [],
        **facts,
    }
    for field in _SCALARS:
        if payload.get(field) is not None:
            vm[field] = _check_scalar(field, payload[field])
    for field in _OBJECTS:
        vm[field] = dict(as_object(payload.get(field), field))
    vm["nics"] = check_nics(_objects(payload.get("nics"), "nics"))
    vm["resolvers"] = _check_resolvers(payload.get("resolvers"))
    vm["filesystems"] = _objects(payload.get("filesystems"), "filesystems")
    if brand in HVM_BRANDS:
        vm["disks"] = disks
        vm.setdefault("vcpus", 1)
        vm.setdefault("vnc_port", 0)
        guest = _check_scalar(
            "ram", payload.get("ram") or payload.get("max_physical_memory") or 256
        )
        assert isinstance(guest, (int, float))
        vm["ram"] = guest
        vm["max_physical_memory"] = guest + _HVM_OVERHEAD[str(brand)]
    if payload.get("docker"):
        vm["docker"] = True
    if payload.get("privileged") in (True, "true"):
        vm["privileged"] = True
    unknown = sorted(set(payload) - set(vm) - {*_CREATE_ONLY, *_TASK_ONLY, *_SCALARS})
    if unknown:
        log.warning("unknown_vm_properties_ignored", uuid=uuid, properties=unknown)
    return cast("Vm", vm)


def _check_resolvers(value: object, field: str = "resolvers") -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise invalid(field, "must be an array of addresses")
    resolvers = [str(item) for item in cast("list[object]", value)]
    for resolver in resolvers:
        if not re.fullmatch(r"[0-9a-fA-F.:]{2,45}", resolver):
            raise invalid(field, f"contains '{resolver}', which is not an address")
    return resolvers


def updated(vm: Vm, changes: Mapping[str, object]) -> Vm:
    """``vm`` after ``changes`` (§7.2).

    Everything is checked before anything changes. Errors: ``DriverError`` ``InvalidPayload``.
    """
    result: JsonObject = {**vm}
    ignored: list[str] = []
    for field, value in changes.items():
        if field in _SCALARS:
            result[field] = _check_scalar(field, value)
        elif field == "resolvers":
            result[field] = _check_resolvers(value)
        elif not _CHANGE.fullmatch(field) and field not in _ADDRESSING:
            ignored.append(field)
    for field in _OBJECTS:
        removed: object = changes.get(f"remove_{field}") or []
        if not isinstance(removed, list):
            raise invalid(f"remove_{field}", "must be an array of names")
        gone = set(cast("list[str]", removed))
        kept = {name: value for name, value in vm.get(field, {}).items() if name not in gone}
        result[field] = {**kept, **as_object(changes.get(f"set_{field}"), f"set_{field}")}
    _update_nics(result, changes)
    result["filesystems"] = _changed_list(result, changes, "filesystems", "target")
    if vm.get("brand") in HVM_BRANDS:
        result["disks"] = check_disks(_changed_list(result, changes, "disks", "path"))
        # As at creation: either name is the guest's memory.
        if "ram" in changes or "max_physical_memory" in changes:
            guest = result["ram" if "ram" in changes else "max_physical_memory"]
            result["ram"] = guest
            result["max_physical_memory"] = guest + _HVM_OVERHEAD[str(vm["brand"])]
    elif "ram" in changes and "max_physical_memory" not in changes:
        result["max_physical_memory"] = result["ram"]
    elif "max_physical_memory" in changes:
        result["ram"] = result["max_physical_memory"]
    if ignored:
        log.warning("vm_properties_not_updated", uuid=vm["uuid"], properties=sorted(ignored))
    # Callers wait for a change of last_modified, even when every value is equal.
    result["last_modified"] = later(vm["last_modified"])
    return cast("Vm", result)


def later(stamp: str) -> str:
    """Now, or the millisecond after ``stamp``: last_modified rises even if the clock does not."""
    moment = datetime.fromisoformat(stamp)
    return max(timestamp(), timestamp(datetime.fromtimestamp(moment.timestamp() + 0.001, UTC)))


def _update_nics(result: JsonObject, changes: Mapping[str, object]) -> None:
    nics: dict[str, dict[str, object]] = {nic["mac"]: dict(nic) for nic in result.get("nics", [])}
    for mac in cast("list[object]", changes.get("remove_nics") or []):
        if str(mac).lower() not in nics:
            raise invalid("remove_nics", f"names {mac}, which the VM does not have")
        del nics[str(mac).lower()]
    for change in _objects(changes.get("update_nics"), "update_nics"):
        mac = str(change.get("mac", "")).lower()
        if mac not in nics:
            raise invalid("update_nics", f"names {mac or 'no MAC'}, which the VM does not have")
        nics[mac].update({**change, "mac": mac})
    used = {nic["interface"] for nic in nics.values()}
    for addition in _objects(changes.get("add_nics"), "add_nics"):
        if "interface" not in addition:
            addition["interface"] = next(
                f"net{n}" for n in range(len(used) + 1) if f"net{n}" not in used
            )
        used.add(addition["interface"])
        [checked] = check_nics([addition])
        if checked["mac"] in nics:
            raise invalid("add_nics", f"names {checked['mac']}, which the VM has already")
        if nics:
            checked["primary"] = bool(addition.get("primary"))
        nics[checked["mac"]] = {**checked}
    result["nics"] = check_nics(list(nics.values()))


class MachineStore:
    """One directory for each VM below ``directory``; its object is the file ``vm.json``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._cache: dict[str, Vm] = {}

    def open(self) -> None:
        """Create the directory and read the existing records."""
        # Containers' files are mounted from below: others may traverse it, but not list it.
        self.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        self._cache = {vm["uuid"]: vm for vm in self.stored(self.directory)}

    @staticmethod
    def stored(directory: Path) -> Iterator[Vm]:
        """The records in such a directory, which may not be there yet."""
        for entry in sorted(directory.iterdir()) if directory.is_dir() else ():
            if UUID.fullmatch(entry.name):
                record = read_json(entry / "vm.json")
                # A directory without a readable record: the agent was killed before writing it.
                yield record or {**unwritten(entry.name), "mark": "provisioning"}

    def path(self, uuid: str) -> Path:
        """The VM's own directory."""
        return self.directory / uuid

    def get(self, uuid: str) -> Vm | None:
        """A copy of the VM object, or ``None``."""
        vm = self._cache.get(uuid)
        return vm.copy() if vm is not None else None

    def save(self, vm: Vm) -> None:
        """Keep ``vm``."""
        path = self.path(vm["uuid"])
        path.mkdir(mode=0o711, exist_ok=True)
        write_json(path / "vm.json", vm)
        self._cache[vm["uuid"]] = vm.copy()

    def forget(self, uuid: str) -> None:
        """Remove the VM's directory with its contents."""
        remove_tree(self.path(uuid))
        self._cache.pop(uuid, None)

    def __iter__(self) -> Iterator[Vm]:
        return iter([vm.copy() for vm in self._cache.values()])
