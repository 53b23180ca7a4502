"""Server records that cannot be placed on, and the first thing wrong with them (§3.2)."""

from typing import Any

import pytest

from vetro.compute.allocation.serverschema import UUID_PATTERN, invalid_server

VM = {"owner_uuid": "o", "max_physical_memory": 1, "state": "running"}
NIC = {"Link Status": "up", "NIC Names": ["admin"]}
MISSING = "is missing and it is required"
NUMBERS = (
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

# server changes, sysinfo changes, path, what
TABLE: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({"uuid": "A" * 36}, {}, "uuid", f"does not match the regex pattern {UUID_PATTERN}"),
    ({"uuid": None}, {}, "uuid", MISSING),
    ({"uuid": 5}, {}, "uuid", "5 - number value found, but a string is required"),
    *(({name: None}, {}, name, MISSING) for name, _ in NUMBERS),
    *(
        ({name: least - 1}, {}, name, f"must have a minimum value of {least}")
        for name, least in NUMBERS
    ),
    (
        {"memory_total_bytes": "5"},
        {},
        "memory_total_bytes",
        "5 - string value found, but a integer is required",
    ),
    (
        {"memory_total_bytes": 1.5},
        {},
        "memory_total_bytes",
        "1.5 - number value found, but a integer is required",
    ),
    ({"reserved": None}, {}, "reserved", MISSING),
    ({"setup": None}, {}, "setup", MISSING),
    ({"setup": "true"}, {}, "setup", "true - string value found, but a boolean is required"),
    ({"reservation_ratio": None}, {}, "reservation_ratio", MISSING),
    ({"reservation_ratio": 1.5}, {}, "reservation_ratio", "must have a maximum value of 1"),
    ({"reservation_ratio": -0.1}, {}, "reservation_ratio", "must have a minimum value of 0"),
    ({"sysinfo": None}, {}, "sysinfo", MISSING),
    ({"sysinfo": "x"}, {}, "sysinfo", "x - string value found, but a object is required"),
    ({}, {"Live Image": None}, "sysinfo.Live Image", MISSING),
    ({}, {"Live Image": ""}, "sysinfo.Live Image", "must be at least 1 characters long"),
    ({}, {"Network Interfaces": None}, "sysinfo.Network Interfaces", MISSING),
    (
        {},
        {"Network Interfaces": {"e0": {**NIC, "Link Status": "slow"}}},
        "sysinfo.Network Interfaces.e0.Link Status",
        "does not have a value in the enumeration up, down, unknown",
    ),
    (
        {},
        {"Network Interfaces": {"e0": {"Link Status": "up"}}},
        "sysinfo.Network Interfaces.e0.NIC Names",
        MISSING,
    ),
    (
        {},
        {"Network Interfaces": {"e0": {**NIC, "NIC Names": ["a", ""]}}},
        "sysinfo.Network Interfaces.e0.NIC Names[1]",
        "must be at least 1 characters long",
    ),
    ({}, {"Bhyve Capable": 1}, "sysinfo.Bhyve Capable",
     "1 - number value found, but a boolean is required"),
    ({}, {"Bhyve Max Vcpus": -1}, "sysinfo.Bhyve Max Vcpus", "must have a minimum value of 0"),
    *(
        ({}, {name: 0}, f"sysinfo.{name}", "must have a minimum value of 1")
        for name in (
            "CPU Total Cores",
            "CPU Socket Count",
            "CPU Core Count",
            "CPU Online Count",
            "CPU Count",
        )
    ),
    ({}, {"Admin NIC Tag": 1}, "sysinfo.Admin NIC Tag",
     "1 - number value found, but a string is required"),
    *(
        ({}, {"Admin IP": given}, "sysinfo.Admin IP",
         r"does not match the regex pattern"
         r" ^(?:(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\.){3}(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])$")
        for given in ("x", "", "10.0.0.256", "10.0.0", "fd00::1", "10.0.0.1\n", "01.0.0.1")
    ),
    ({}, {"Admin IP": 1}, "sysinfo.Admin IP", "1 - number value found, but a string is required"),
    ({}, {"SDC Version": ""}, "sysinfo.SDC Version", "must be at least 1 characters long"),
    ({"overprovision_ratios": {"x": 1}}, {}, "overprovision_ratios.x", "unsupported property"),
    ({"overprovision_ratios": {"cpu": -1}}, {}, "overprovision_ratios.cpu",
     "must have a minimum value of 0"),
    ({"vms": []}, {}, "vms", " - object value found, but a object is required"),
    ({"vms": {"v": 1}}, {}, "vms.v", "1 - number value found, but a object is required"),
    *(
        ({"vms": {"v": {key: value for key, value in VM.items() if key != name}}}, {},
         f"vms.v.{name}", MISSING)
        for name in VM
    ),
    ({"vms": {"v": {**VM, "max_physical_memory": 0}}}, {}, "vms.v.max_physical_memory",
     "must have a minimum value of 1"),
    ({"vms": {"v": {**VM, "state": ""}}}, {}, "vms.v.state",
     "must be at least 1 characters long"),
    ({"vms": {"v": {**VM, "quota": -1}}}, {}, "vms.v.quota", "must have a minimum value of 0"),
    ({"vms": {"v": {**VM, "cpu_cap": 0}}}, {}, "vms.v.cpu_cap", "must have a minimum value of 1"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "sysinfo", "path", "what"), TABLE)
def test_invalid(
    build: Any, changes: dict[str, Any], sysinfo: dict[str, Any], path: str, what: str
) -> None:
    """The path of the first wrong property and what is wrong with it."""
    others = {name: value for name, value in changes.items() if name != "sysinfo"}
    server = build.server(sysinfo=sysinfo, **others)
    if "sysinfo" in changes:
        del server["sysinfo"]
        if changes["sysinfo"] is not None:
            server["sysinfo"] = changes["sysinfo"]
    assert invalid_server(server) == f'property "{path}": {what}'


@pytest.mark.parametrize(
    ("changes", "sysinfo"),
    [
        ({}, {}),
        ({"disk_zone_quota_used_bytes": None}, {}),
        ({"overprovision_ratios": {"ram": 0, "io": 1.5}}, {"Admin IP": "10.0.0.1"}),
        ({"vms": {"v": {**VM, "quota": 0.5, "cpu_cap": 1}}}, {"Admin IP": "dhcp"}),
        ({"vms": None}, {"SDC Version": None, "CPU Total Cores": None}),
        ({"memory_total_bytes": 1.0}, {}),
    ],
)
def test_valid(build: Any, changes: dict[str, Any], sysinfo: dict[str, Any]) -> None:
    """Edges of what is allowed; what is optional may be absent."""
    assert invalid_server(build.server(sysinfo=sysinfo, **changes)) is None
