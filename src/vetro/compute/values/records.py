"""Server records as the API shows them: from rows to objects, groups of properties, derived values.

compute-node-api.md §3 (the table), §3.1 (memory_provisionable_bytes), §3.3 (what of the sysinfo is
used) and §4.1 (extras and fields).
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

from vetro.compute.values.silence import MOVED, is_silent, told_state
from vetro.json_values import Json
from vetro.storage import StoredRow

Record = dict[str, Any]
Shown = TypeVar("Shown", bound=msgspec.Struct)

MIB = 2**20
RESERVATION_RATIO = 0.15
MEMORY_KEYS = {
    "memory_total_bytes": "total_bytes",
    "memory_available_bytes": "availrmem_bytes",
    "memory_arc_bytes": "arcsize_bytes",
}
DISK_KEYS = (
    "kvm_zvol_used_bytes",
    "kvm_zvol_volsize_bytes",
    "kvm_quota_bytes",
    "kvm_quota_used_bytes",
    "zone_quota_bytes",
    "zone_quota_used_bytes",
    "cores_quota_bytes",
    "cores_quota_used_bytes",
    "installed_images_used_bytes",
    "pool_size_bytes",
    "pool_alloc_bytes",
    "system_used_bytes",
)
#: Properties that are shown only when one of these extras (or ``all``) is asked for.
GROUPS: dict[str, tuple[str, ...]] = {
    "agents": ("agents",),
    "vms": ("vms",),
    "memory": (*MEMORY_KEYS, "memory_provisionable_bytes"),
    "disk": tuple(f"disk_{name}" for name in DISK_KEYS),
    "sysinfo": ("sysinfo",),
    "capacity": (
        "overprovision_ratios",
        "unreserved_cpu",
        "unreserved_ram",
        "unreserved_disk",
        "score",
    ),
    "status": ("last_heartbeat",),
    "last_heartbeat": ("last_heartbeat",),
}
_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}
#: What ``capacity`` shows of the other groups (§4.1).
_WITH_CAPACITY = ("memory", "disk", "agents", "capacity")
#: Kept in a row's ``extra`` and shown as they are, with what a record without them shows.
DEFAULTS: Record = {
    "boot_params": {},
    "kernel_flags": {},
    "boot_modules": [],
    "default_console": "serial",
    "serial": "ttyb",
    "reservation_ratio": RESERVATION_RATIO,
    "rack_identifier": "",
    "comments": "",
    "next_reboot": "",
    "traits": {},
    "setting_up": False,
}


def struct_of(type_: type[Shown], row: StoredRow, **more: object) -> Shown:
    """A struct of a row: its fields are the row's columns of the same names, besides ``more``."""
    columns = row._mapping  # pyright: ignore[reportPrivateUsage] (public, for all its underscore)
    return type_(
        **{name: columns[name] for name in type_.__struct_fields__ if name in columns} | more
    )


def api_time(moment: datetime | None) -> str | None:
    """ISO with milliseconds and Z."""
    if moment is None:
        return None
    text = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return text[:-3] + "Z"


def whole(value: Json, default: int = 0) -> int:
    """A whole number from what nodes send: numbers or digits; else ``default``."""
    if isinstance(value, bool):
        return default
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return int(number) if math.isfinite(number) and abs(number) < 2**62 else default


def moment_of(value: Json) -> datetime | None:
    """The time of seconds since 1970 as nodes send them, with their fraction.

    ``None`` for what is not a time; 0 is none either: a node sends it for what it does not know.
    """
    if whole(value) <= 0 or whole(value) > 253_402_300_000:
        return None
    return datetime.fromtimestamp(float(value), UTC)


def iso_moment(value: Json) -> datetime | None:
    """The time of an ISO text, as `api_time` and nodes write it; ``None`` for what is not one."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment is not None and moment.tzinfo is not None else None


#: Fields of a VM that others compute with or that the API documents, and what they are.
_REPORTED: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        (
            "uuid",
            "server_uuid",
            "alias",
            "brand",
            "owner_uuid",
            "state",
            "zone_state",
            "last_modified",
        ),
        (str,),
    ),
    **dict.fromkeys(("max_physical_memory", "quota", "cpu_cap"), (int, float)),
}


def mapping(value: Json) -> Record:
    """An object, or an empty one for anything else."""
    return cast("Record", value) if isinstance(value, dict) else {}


def without(value: Json, name: str) -> Record:
    """An object without one of its entries."""
    return {other: one for other, one in mapping(value).items() if other != name}


def reported_vm(uuid: str, report: Record) -> Record:
    """A VM as a node reports it, without known fields that are of another type than they have."""
    wrong = {
        name
        for name, types in _REPORTED.items()
        if (value := report.get(name)) is not None
        and (not isinstance(value, types) or isinstance(value, bool))
    }
    nics = report.get("nics", [])
    if not isinstance(nics, list) or not all(
        isinstance(one, dict) for one in cast("list[Json]", nics)
    ):
        wrong.add("nics")
    if not wrong:
        return report
    kept = {name: value for name, value in report.items() if name not in wrong}
    return {**kept, "uuid": uuid} if "uuid" in wrong else kept


def text_of(value: Json, limit: int = 255) -> str:
    """A text a column takes: no NUL, not longer than ``limit``; '' for anything else."""
    return value.replace("\0", "")[:limit] if isinstance(value, str) else ""


def is_setup(sysinfo: Record) -> bool:
    """``Setup``: the text or the boolean."""
    return sysinfo.get("Setup") in (True, "true")


def is_headnode(sysinfo: Record) -> bool:
    """``Boot Parameters.headnode``."""
    return mapping(sysinfo.get("Boot Parameters")).get("headnode") == "true"


def agent_address(sysinfo: Record) -> str:
    """Where the agent listens, as ``http://HOST:PORT``; '' when it cannot be determined (§3.3)."""
    host = sysinfo.get("CN Agent IP")
    if not _is_address(host):
        host = sysinfo.get("Admin IP")
    if not _is_address(host):
        tag = sysinfo.get("Admin NIC Tag") or "admin"
        host = None
        for one in mapping(sysinfo.get("Network Interfaces")).values():
            interface = mapping(one)
            names: Json = interface.get("NIC Names")
            if isinstance(names, list) and tag in names and _is_address(interface.get("ip4addr")):
                host = interface["ip4addr"]
                break
    if host is None:
        return ""
    port = sysinfo.get("CN Agent Port")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        port = whole(port)
        port = port if 0 < port < 65536 else 5309
    return f"http://[{host}]:{port}" if ":" in str(host) else f"http://{host}:{port}"


def tunnel_address(sysinfo: Record) -> str:
    """Where other servers find this one's end of a network's tunnels; '' for one that is not called."""
    pull = sysinfo.get("CN Agent Pull") in (True, "true")
    return "" if pull else str(sysinfo.get("Admin IP") or "")


def is_reached(address: str) -> bool:
    """Whether other machines reach an address: IPv4, and not each machine's own."""
    # A node says it: only what may be an address is kept.
    return len(address) <= len("255.255.255.255") and _is_reached(address)


@lru_cache(maxsize=16384)
def _is_reached(address: str) -> bool:
    try:
        return not ipaddress.IPv4Address(address).is_loopback
    except ValueError:
        return False


def _is_address(value: Json) -> bool:
    if not isinstance(value, str):
        return False
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def provisionable(
    row_extra: Record, sysinfo: Record, vms: Mapping[str, Json], total: int
) -> int | None:
    """``memory_provisionable_bytes`` (§3.1); ``None`` when the total is unknown."""
    given = whole(sysinfo.get("MiB of Memory")) * MIB
    total = given or total
    if total <= 0:
        return None
    ratio = row_extra.get("reservation_ratio", RESERVATION_RATIO)
    used = sum(max(0, whole(mapping(vm).get("max_physical_memory"))) for vm in vms.values())
    return math.floor(total - total * ratio - MIB * used)


def record_of(
    row: StoredRow, held: Sequence[StoredRow], last_heartbeat: datetime | None, datacenter: str
) -> Record:
    """The whole record of a server. ``held``: the VMs the service knows to be there."""
    sample: Record = row.sample or {}
    extra: Record = row.extra
    sysinfo: Record = row.sysinfo
    reported = mapping(sample.get("vms"))
    if is_silent(row):
        # What was made again elsewhere is there, whatever this server said of it last.
        moved = mapping(extra.get(MOVED))
        reported = {uuid: one for uuid, one in reported.items() if uuid not in moved}
    vms = shown_vms(reported, held, lambda state: told_state(state, row))
    memory, disk = mapping(sample.get("meminfo")), mapping(sample.get("diskinfo"))
    status = row.status
    if status == "unknown" and extra.get("transitional_status"):
        status = extra["transitional_status"]
    total = whole(memory.get("total_bytes")) or whole(sysinfo.get("MiB of Memory")) * MIB
    record: Record = {
        "uuid": row.uuid,
        "hostname": row.hostname,
        "datacenter": datacenter,
        "status": status or "unknown",
        "setup": row.setup,
        "reserved": row.reserved,
        "reservoir": row.reservoir,
        "headnode": row.headnode,
        "current_platform": str(sysinfo.get("Live Image") or ""),
        "system_type": str(sysinfo.get("System Type") or ""),
        "ram": whole(sysinfo.get("MiB of Memory")) or total // MIB,
        "created": api_time(row.created),
        "last_boot": api_time(row.last_boot),
        "last_heartbeat": api_time(last_heartbeat),
        **DEFAULTS,
        **{name: value for name, value in extra.items() if name not in _INTERNAL},
        "agents": row.agents,
        "sysinfo": sysinfo,
        "vms": vms,
    }
    for name, key in MEMORY_KEYS.items():
        if key in memory:
            record[name] = memory[key]
    record.setdefault("memory_total_bytes", total)
    free = provisionable(extra, sysinfo, vms, total)
    if free is not None:
        record["memory_provisionable_bytes"] = free
    for key in DISK_KEYS:
        if key in disk:
            record[f"disk_{key}"] = disk[key]
    ratios = mapping(extra.get("overprovision_ratios"))
    if "ram" in ratios:
        record["overprovision_ratio"] = ratios["ram"]
    return record


#: Kept in ``extra`` for the service itself.
_INTERNAL = frozenset({"sample_time", "whole_sample_time", MOVED})


def shown_vms(
    reported: Mapping[str, Json],
    held: Iterable[StoredRow],
    told: Callable[[str], str] = lambda state: state,
) -> dict[str, Record]:
    """A server's ``vms``: what its node reports, and what the service has placed there.

    ``told``: the state as it is told of what was in that state last.
    """
    shown: dict[str, Record] = {}
    for uuid, one in reported.items():
        vm = mapping(one)
        shown[uuid] = {**vm, "state": told(text_of(vm["state"]))} if vm.get("state") else vm
    for vm in held:
        shown[vm.uuid] = {
            "uuid": vm.uuid,
            "brand": vm.vm.get("brand") or "lx",
            "last_modified": vm.vm.get("last_modified"),
            "zone_state": vm.vm.get("zone_state"),
            **shown.get(vm.uuid, {}),
            "alias": vm.alias,
            "owner_uuid": vm.owner_uuid,
            "state": told(vm.state),
            "max_physical_memory": vm.memory_mib,
            "quota": vm.quota_gib,
            "cpu_cap": vm.cpu_cap,
            "nics": vm.vm.get("nics") or [],
        }
        if vm.vm.get("failure"):
            shown[vm.uuid]["failure"] = vm.vm["failure"]
    return shown


def shown(record: Record, extras: Sequence[str] | None, fields: Sequence[str]) -> Record:
    """The properties a list shows (§4.1). ``extras`` ``None``: none were asked for."""
    asked = list(extras or ())
    # A field implies the extra it needs.
    asked.extend(_GROUP_OF[name] for name in fields if name in _GROUP_OF)
    groups = set(asked)
    if "all" in groups:
        groups.update(GROUPS)
    if "capacity" in groups:
        groups.update(_WITH_CAPACITY)
    if extras:
        groups.add("status")
    hidden = {name for name, group in _GROUP_OF.items() if group not in groups}
    if "status" in groups:
        hidden.discard("last_heartbeat")
    result = {name: value for name, value in record.items() if name not in hidden}
    if fields:
        wanted = set(fields)
        result = {name: value for name, value in result.items() if name in wanted}
    return result


def wants_capacity(extras: Sequence[str], fields: Sequence[str]) -> bool:
    """Whether a capacity run is needed for what is shown."""
    return bool({"capacity", "all"} & set(extras)) or any(
        _GROUP_OF.get(name) == "capacity" for name in fields
    )
