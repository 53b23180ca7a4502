"""The shape a server record must have to be considered for placement (allocation.md §3.2).

One message per server: the first error, in the order of the specification's table. The check runs
once for each change of a record, not for each request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from vetro.compute.allocation.wording import (
    UUID_LOWER,
    is_number,
    number_text,
    wrong_type,
)

UUID_PATTERN = "^" + UUID_LOWER.pattern.removesuffix(r"\Z") + "$"
_OCTET = r"(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])"
#: The specification's form of an address; the check uses the same pattern.
ADDRESS_PATTERN = rf"^(?:{_OCTET}\.){{3}}{_OCTET}$"
_ADDRESS = re.compile(ADDRESS_PATTERN.removesuffix("$") + r"\Z", re.ASCII)
LINK_STATUSES = ("up", "down", "unknown")
RATIOS = ("ram", "disk", "cpu", "io", "net")

#: Required integers and their minima.
INTEGERS: tuple[tuple[str, int], ...] = (
    ("memory_available_bytes", 0),
    ("memory_total_bytes", 1),
    ("disk_pool_size_bytes", 1),
    ("disk_pool_alloc_bytes", 0),
    ("disk_system_used_bytes", 0),
    ("disk_installed_images_used_bytes", 0),
    ("disk_cores_quota_used_bytes", 0),
    ("disk_zone_quota_bytes", 0),
    ("disk_kvm_quota_bytes", 0),
    ("disk_kvm_zvol_volsize_bytes", 0),
)
SYSINFO_BOOLEANS = ("Bhyve Capable", "HVM API")
SYSINFO_INTEGERS: tuple[tuple[str, int], ...] = (
    ("Bhyve Max Vcpus", 0),
    ("CPU Total Cores", 1),
    ("CPU Socket Count", 1),
    ("CPU Core Count", 1),
    ("CPU Online Count", 1),
    ("CPU Count", 1),
)
MISSING = object()


def invalid_server(server: Mapping[str, object]) -> str | None:
    """The error in a server record; None when it is valid."""
    return (
        _uuid(server)
        or _first(_integer(name, server.get(name, MISSING), least) for name, least in INTEGERS)
        or _boolean("reserved", server.get("reserved", MISSING))
        or _boolean("setup", server.get("setup", MISSING))
        or _number("reservation_ratio", server.get("reservation_ratio", MISSING), 0, 1)
        or _sysinfo(server.get("sysinfo", MISSING))
        or _ratios(server.get("overprovision_ratios", MISSING))
        or _vms(server.get("vms", MISSING))
    )


def _first(wrongs: Iterable[str | None]) -> str | None:
    """The first error of checks in their order."""
    return next(filter(None, wrongs), None)


def _missing(path: str) -> str:
    return f'property "{path}": is missing and it is required'


def _uuid(server: Mapping[str, object]) -> str | None:
    value: object = server.get("uuid", MISSING)
    if value is MISSING:
        return _missing("uuid")
    if not isinstance(value, str):
        return wrong_type("uuid", value, "string")
    if UUID_LOWER.match(value) is None:
        return f'property "uuid": does not match the regex pattern {UUID_PATTERN}'
    return None


def _integer(path: str, value: object, least: int, *, required: bool = True) -> str | None:
    if value is MISSING:
        return _missing(path) if required else None
    if isinstance(value, int) and not isinstance(value, bool):
        if value >= least:
            return None
    elif not isinstance(value, float) or not value.is_integer():
        return wrong_type(path, value, "integer")
    if value < least:
        return f'property "{path}": must have a minimum value of {least}'
    return None


def _number(path: str, value: object, least: float, most: float | None = None) -> str | None:
    if value is MISSING:
        return _missing(path)
    if not is_number(value) or value != value:  # NaN
        return wrong_type(path, value, "number")
    if value < least:
        return f'property "{path}": must have a minimum value of {number_text(least)}'
    if most is not None and value > most:
        return f'property "{path}": must have a maximum value of {number_text(most)}'
    return None


def _boolean(path: str, value: object) -> str | None:
    if value is True or value is False:
        return None
    if value is MISSING:
        return _missing(path)
    return wrong_type(path, value, "boolean")


def _text(path: str, value: Any, least: int = 1, *, required: bool = True) -> str | None:
    if value is MISSING:
        return _missing(path) if required else None
    if not isinstance(value, str):
        return wrong_type(path, value, "string")
    if len(value) < least:
        return f'property "{path}": must be at least {least} characters long'
    return None


def _sysinfo(value: object) -> str | None:
    if value is MISSING:
        return _missing("sysinfo")
    if not isinstance(value, dict):
        return wrong_type("sysinfo", value, "object")
    given = cast("dict[str, Any]", value)
    booleans = {name: given[name] for name in SYSINFO_BOOLEANS if name in given}
    integers = [(name, given[name], least) for name, least in SYSINFO_INTEGERS if name in given]
    return (
        _text("sysinfo.Live Image", given.get("Live Image", MISSING))
        or _interfaces(given.get("Network Interfaces", MISSING))
        or _first(_boolean(f"sysinfo.{name}", flag) for name, flag in booleans.items())
        or _first(_integer(f"sysinfo.{name}", number, least) for name, number, least in integers)
        or _text("sysinfo.Admin NIC Tag", given.get("Admin NIC Tag", MISSING), 0, required=False)
        or _address(given.get("Admin IP", MISSING))
        or _text("sysinfo.SDC Version", given.get("SDC Version", MISSING), required=False)
    )


def _address(value: object) -> str | None:
    if value is MISSING:
        return None
    if not isinstance(value, str):
        return wrong_type("sysinfo.Admin IP", value, "string")
    if value == "dhcp":
        return None  # the value of a node that gets its address by DHCP (compute-node-api.md §3.3)
    if _ADDRESS.match(value) is None:
        return f'property "sysinfo.Admin IP": does not match the regex pattern {ADDRESS_PATTERN}'
    return None


def _interfaces(value: object) -> str | None:
    path = "sysinfo.Network Interfaces"
    if value is MISSING:
        return _missing(path)
    if not isinstance(value, dict):
        return wrong_type(path, value, "object")
    for name, nic in cast("dict[str, object]", value).items():
        at = f"{path}.{name}"
        if not isinstance(nic, dict):
            return wrong_type(at, nic, "object")
        given = cast("dict[str, Any]", nic)
        status: object = given.get("Link Status", MISSING)
        if status is MISSING:
            return _missing(f"{at}.Link Status")
        if not isinstance(status, str):
            return wrong_type(f"{at}.Link Status", status, "string")
        if status not in LINK_STATUSES:
            choices = ", ".join(LINK_STATUSES)
            return (
                f'property "{at}.Link Status": does not have a value in the enumeration {choices}'
            )
        names: object = given.get("NIC Names", MISSING)
        if names is MISSING:
            return _missing(f"{at}.NIC Names")
        if not isinstance(names, list):
            return wrong_type(f"{at}.NIC Names", names, "array")
        tags = enumerate(cast("list[object]", names))
        wrong = _first(_text(f"{at}.NIC Names[{position}]", tag) for position, tag in tags)
        if wrong is not None:
            return wrong
    return None


def _ratios(value: object) -> str | None:
    if value is MISSING:
        return None
    if not isinstance(value, dict):
        return wrong_type("overprovision_ratios", value, "object")
    given = cast("dict[str, Any]", value)
    known = [name for name in RATIOS if name in given]
    strange = [name for name in given if name not in RATIOS]
    return _first(_number(f"overprovision_ratios.{name}", given[name], 0) for name in known) or (
        f'property "overprovision_ratios.{strange[0]}": unsupported property' if strange else None
    )


def _vms(value: object) -> str | None:
    if value is MISSING:
        return None
    if not isinstance(value, dict):
        return wrong_type("vms", value, "object")
    for uuid, vm in cast("dict[str, object]", value).items():
        if not isinstance(vm, dict):
            return wrong_type(f"vms.{uuid}", vm, "object")
        given = cast("dict[str, Any]", vm)
        memory, state = given.get("max_physical_memory"), given.get("state")
        owner: object = given.get("owner_uuid")
        quota, cap = given.get("quota", 0), given.get("cpu_cap", 1)
        if (
            type(memory) is int
            and memory >= 1
            and type(state) is str
            and state
            and type(owner) is str
            and type(quota) is int
            and quota >= 0
            and type(cap) is int
            and cap >= 1
        ):
            continue  # the common case, without building a path for each property
        at = f"vms.{uuid}"
        wrong = (
            _text(f"{at}.owner_uuid", given.get("owner_uuid", MISSING), 0)
            or _integer(f"{at}.max_physical_memory", given.get("max_physical_memory", MISSING), 1)
            or _text(f"{at}.state", given.get("state", MISSING))
            or (("quota" in given and _number(f"{at}.quota", given["quota"], 0)) or None)
            or _integer(f"{at}.cpu_cap", given.get("cpu_cap", MISSING), 1, required=False)
        )
        if wrong is not None:
            return wrong
    return None
