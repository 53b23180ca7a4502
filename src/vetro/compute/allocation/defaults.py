"""The allocator's defaults and how they are overridden (allocation.md §4).

``dapi.changeDefaults`` uses the keys of ``KEYS``; the service's metadata uses the ``ALLOC_…`` names
and takes precedence. Values are JSON or text ("true", "4.0"); empty text, like a missing key, means
the default. All values are checked when read: a service with an invalid default does not start.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, cast

from vetro.compute.allocation.errors import DefaultsError, ExpressionError
from vetro.compute.allocation.expression import compile_expression
from vetro.compute.allocation.wording import UUID_ANY, is_finite

PLATFORM_STAMP = re.compile(r"20\d\d[01]\d[0123]\dT[012]\d[012345]\d\d\dZ\Z", re.ASCII)
SPREADS = ("min-ram", "max-ram", "min-owner", "random")
Ratios = tuple[float, float, float]


@dataclass(frozen=True)
class Defaults:
    """Settings of the allocator. Memory and disk in MiB, weights without unit."""

    disable_override_overprovisioning: bool = False
    filter_capness: bool = True
    filter_headnode: bool = True
    filter_min_resources: bool = True
    filter_large_servers: bool = True
    #: Whether the default pipeline has hard-filter-min-disk.
    filter_min_disk: bool = False
    filter_vm_limit: float = 224
    filter_docker_min_platform: str | None = None
    filter_docker_nfs_volumes_automount_min_platform: str | None = "20160613T123039Z"
    filter_non_docker_nfs_volumes_automount_min_platform: str | None = "20170925T211846Z"
    filter_volapi_nfs_v2_min_platform: str | None = "20200213T123742Z"
    filter_flexible_disk_min_platform: str | None = None
    #: An owner's uuid and the expression over ``server`` that selects the owner's servers.
    filter_owner_server: Mapping[str, str] = field(default_factory=dict[str, str])
    minimum_free_disk: float | None = None
    overprovision_ratio_cpu: float = 4.0
    overprovision_ratio_ram: float = 1.0
    overprovision_ratio_disk: float = 1.0
    server_spread: str | None = None
    weight_current_platform: float = 1.0
    weight_next_reboot: float = 0.5
    weight_num_owner_zones: float = 0.0
    weight_uniform_random: float = 0.5
    weight_unreserved_disk: float = 1.0
    weight_unreserved_ram: float = 2.0
    #: "documented": a positive weight favours more free room; "upstream": less free room.
    weight_sign: Literal["documented", "upstream"] = "documented"
    #: "capability": ``VM Brands`` decides where servers publish it; "strict": only the system type.
    os_policy: Literal["capability", "strict"] = "capability"
    #: Which affinity rules are obeyed when there are hard and soft ones: "both" or "hard".
    affinity_mix: Literal["both", "hard"] = "both"
    #: A VM without cpu_cap sets the CPU to 0 "in_order" of the VMs, or in the end ("zero_final").
    cpu_uncapped_policy: Literal["in_order", "zero_final"] = "in_order"
    #: The hypervisor's overhead: memory that a virtual machine needs besides its own size.
    kvm_disk_overhead_gib: float = 10
    kvm_memory_overhead_mib: float = 1024
    bhyve_memory_overhead_mib: float = 1280

    @property
    def ratios(self) -> Ratios:
        """The enforced overprovisioning: CPU, memory, disk."""
        return (
            self.overprovision_ratio_cpu,
            self.overprovision_ratio_ram,
            self.overprovision_ratio_disk,
        )


def _boolean(key: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise DefaultsError(key, f"Defaults {key} is not boolean")


def _number(key: str, value: object) -> float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None
    if not is_finite(value):
        raise DefaultsError(key, f"Defaults {key} is not a number")
    return int(value) if float(value).is_integer() else float(value)


def _ratio(key: str, value: object) -> float:
    number = _number(key, value)
    if number < 0:
        raise DefaultsError(key, f"Defaults {key} is not a number of 0 or more")
    return float(number)


def _stamp(key: str, value: object) -> str:
    if not isinstance(value, str) or PLATFORM_STAMP.match(value) is None:
        raise DefaultsError(key, f"Defaults {key} is not an ISO UTC timestamp")
    return value


def _owner_filters(key: str, value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise DefaultsError(key, f"Defaults {key} is an invalid type")
    given = cast("dict[str, Any]", value)
    for owner, text in given.items():
        if UUID_ANY.match(owner) is None:
            raise DefaultsError(key, f"Defaults {key} has the key {owner}, which is not a UUID")
        if not isinstance(text, str):
            raise DefaultsError(key, f"Defaults {key} is an invalid type")
        try:
            compile_expression(text)
        except ExpressionError as error:
            raise DefaultsError(key, f"Defaults {key}, owner {owner}: {error}") from error
    return {owner.lower(): text for owner, text in given.items()}


def _one_of(*choices: str) -> Callable[[str, object], str]:
    def read(key: str, value: object) -> str:
        if value not in choices:
            raise DefaultsError(key, f"Defaults {key} is not one of {', '.join(choices)}")
        return cast("str", value)

    return read


#: The reader of each key.
KEYS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(
        (
            "disable_override_overprovisioning",
            "filter_capness",
            "filter_headnode",
            "filter_min_resources",
            "filter_large_servers",
            "filter_min_disk",
        ),
        _boolean,
    ),
    **dict.fromkeys(
        (
            "filter_vm_limit",
            "minimum_free_disk",
            "weight_current_platform",
            "weight_next_reboot",
            "weight_num_owner_zones",
            "weight_uniform_random",
            "weight_unreserved_disk",
            "weight_unreserved_ram",
            "kvm_disk_overhead_gib",
            "kvm_memory_overhead_mib",
            "bhyve_memory_overhead_mib",
        ),
        _number,
    ),
    **dict.fromkeys(
        ("overprovision_ratio_cpu", "overprovision_ratio_ram", "overprovision_ratio_disk"), _ratio
    ),
    **dict.fromkeys(
        (
            "filter_docker_min_platform",
            "filter_docker_nfs_volumes_automount_min_platform",
            "filter_non_docker_nfs_volumes_automount_min_platform",
            "filter_volapi_nfs_v2_min_platform",
            "filter_flexible_disk_min_platform",
        ),
        _stamp,
    ),
    "filter_owner_server": _owner_filters,
    "server_spread": _one_of(*SPREADS),
    "weight_sign": _one_of("documented", "upstream"),
    "os_policy": _one_of("capability", "strict"),
    "affinity_mix": _one_of("both", "hard"),
    "cpu_uncapped_policy": _one_of("in_order", "zero_final"),
}

#: The service's metadata keys.
METADATA: dict[str, str] = {
    "ALLOC_DISABLE_OVERRIDE_OVERPROVISIONING": "disable_override_overprovisioning",
    "ALLOC_FILTER_CAPNESS": "filter_capness",
    "ALLOC_FILTER_HEADNODE": "filter_headnode",
    "ALLOC_FILTER_MIN_RESOURCES": "filter_min_resources",
    "ALLOC_FILTER_LARGE_SERVERS": "filter_large_servers",
    "ALLOC_FILTER_MIN_DISK": "filter_min_disk",
    "ALLOC_FILTER_VM_COUNT": "filter_vm_limit",
    "ALLOC_FILTER_DOCKER_MIN_PLATFORM": "filter_docker_min_platform",
    "ALLOC_FILTER_OWNER_SERVER_EXPERIMENTAL": "filter_owner_server",
    "ALLOC_MIN_FREE_DISK": "minimum_free_disk",
    "ALLOC_OVERRIDE_OVERPROVISION_CPU": "overprovision_ratio_cpu",
    "ALLOC_OVERRIDE_OVERPROVISION_RAM": "overprovision_ratio_ram",
    "ALLOC_OVERRIDE_OVERPROVISION_DISK": "overprovision_ratio_disk",
    "ALLOC_SERVER_SPREAD": "server_spread",
    "ALLOC_WEIGHT_CURRENT_PLATFORM": "weight_current_platform",
    "ALLOC_WEIGHT_NEXT_REBOOT": "weight_next_reboot",
    "ALLOC_WEIGHT_NUM_OWNER_ZONES": "weight_num_owner_zones",
    "ALLOC_WEIGHT_UNIFORM_RANDOM": "weight_uniform_random",
    "ALLOC_WEIGHT_UNRESERVED_DISK": "weight_unreserved_disk",
    "ALLOC_WEIGHT_UNRESERVED_RAM": "weight_unreserved_ram",
}

#: Where the later service differs from the original one.
UPSTREAM_PROFILE: dict[str, object] = {"filter_flexible_disk_min_platform": "20181206T190647Z"}
assert {one.name for one in fields(Defaults)} == set(KEYS), "a default without a reader"


def nearest_default(key: str) -> str:
    """The default or metadata key that ``key`` is or nearly is; empty: none."""
    known = [*KEYS, *METADATA]
    return key if key in known else "".join(difflib.get_close_matches(key, known, 1, 0.85))


def read_defaults(
    change_defaults: Mapping[str, object] | None = None,
    metadata: Mapping[str, object] | None = None,
    *,
    profile: str = "seed",
) -> Defaults:
    """The effective defaults: built in, overridden by ``change_defaults``, then by ``metadata``.

    ``change_defaults`` may also use the metadata names. Unknown keys are ignored (they belong to
    others or to later versions). Errors: ``DefaultsError`` names the key as given.
    """
    values: dict[str, object] = {}
    if profile == "upstream":
        values.update(UPSTREAM_PROFILE)
    for source in (change_defaults or {}, metadata or {}):
        for given, value in source.items():
            key = METADATA.get(given, given)
            if key not in KEYS or value is None or value == "":
                continue
            values[key] = KEYS[key](given, value)
    return replace(Defaults(), **values)
