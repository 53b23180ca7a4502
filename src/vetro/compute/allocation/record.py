"""One server as the allocator stores it: what its filters need, read from the record once.

``facets`` are the request-independent facts that filters use, each a small hashable value. Servers
of one kind have equal facets, so a filter runs once for each distinct value, not once for each
server. A record is immutable: a changed server gets a new one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

from vetro.compute.allocation.serverschema import invalid_server
from vetro.compute.allocation.wording import HUGE, is_finite, json_text, truthy

MIB = 2**20
GIB = 2**30
POOL_SHARE = 0.94
NOWHEN = math.nan
LONGEST_TIME = 64
"""Characters: a longer text is no time, and is not kept."""
_NUMBERS: tuple[type, ...] = (int, float)
#: What is kept from a VM that a ticket announces (allocation.md §8).
HVM_BRANDS = ("kvm", "bhyve")

Vm = Mapping[str, Any]


def number(value: Any) -> float | int:
    """A number, or 0 for any other value."""
    return value if type(value) in _NUMBERS and -HUGE < value < HUGE else 0


def listed(value: Any) -> list[Any]:
    """A list, or an empty one for any other value."""
    return cast("list[object]", value) if isinstance(value, list) else []


def mapping(value: object) -> Mapping[str, Any]:
    """An object, or an empty one for any other value."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def stamp_time(stamp: str | None) -> float:
    """A platform stamp ``YYYYMMDDTHHMMSSZ`` as milliseconds UTC; NaN for anything else."""
    return _stamp_time(stamp) if stamp is not None and len(stamp) <= LONGEST_TIME else NOWHEN


@lru_cache(maxsize=4096)
def _stamp_time(stamp: str) -> float:
    try:
        parsed = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return NOWHEN
    return parsed.timestamp() * 1000


def iso_time(text: str | None) -> float:
    """An ISO time as milliseconds UTC; NaN for anything else, empty text included."""
    return _iso_time(text) if text is not None and len(text) <= LONGEST_TIME else NOWHEN


@lru_cache(maxsize=4096)
def _iso_time(text: str) -> float:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return NOWHEN
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    return parsed.timestamp() * 1000


class Record:
    """The properties of one server that filters and scorers need."""

    __slots__ = (
        "_claims",
        "brands",
        "capped",
        "facets",
        "free_disk",
        "last_boot",
        "next_reboot",
        "owners",
        "platform_time",
        "server",
        "uncapped",
        "uuid",
        "vm_count",
        "vm_facets",
        "vms",
    )

    def __init__(
        self, server: Mapping[str, Any], *, facets: tuple[Hashable, ...] | None = None
    ) -> None:
        """``facets`` are passed when known: tickets change only VMs and disk sums."""
        self.server = server
        self.uuid = str(server.get("uuid"))
        given = mapping(server.get("vms"))
        self.vms: dict[str, Vm] = {
            uuid: cast("Vm", vm) for uuid, vm in given.items() if isinstance(vm, dict)
        }
        sysinfo = mapping(server.get("sysinfo"))
        self.facets: tuple[Hashable, ...] = (
            tuple(read(server, sysinfo) for read in FACETS.values()) if facets is None else facets
        )
        self.free_disk = max(
            0,
            math.ceil(
                (
                    number(server.get("disk_pool_size_bytes")) * POOL_SHARE
                    - number(server.get("disk_pool_alloc_bytes"))
                )
                / MIB
            ),
        )
        platform: object = sysinfo.get("Live Image") or server.get("current_platform")
        self.platform_time = stamp_time(platform if isinstance(platform, str) else None)
        reboot, boot = server.get("next_reboot"), server.get("last_boot")
        self.next_reboot = iso_time(reboot if isinstance(reboot, str) else None)
        self.last_boot = iso_time(boot if isinstance(boot, str) else None)
        self._claims: dict[str, object] = {}
        self._summarise_vms()

    def _summarise_vms(self) -> None:
        self.vm_count = len(self.vms)
        self.owners: Counter[str] = Counter()
        self.capped: str | None = None
        self.uncapped: str | None = None
        self.brands: dict[str, str] = {}
        for uuid, vm in self.vms.items():
            owner = vm.get("owner_uuid")
            if isinstance(owner, str):
                self.owners[owner] += 1
            if truthy(vm.get("cpu_cap")):
                self.capped = self.capped or uuid
            else:
                self.uncapped = self.uncapped or uuid
            if vm.get("brand") in HVM_BRANDS:
                self.brands.setdefault(str(vm["brand"]), uuid)
        self.vm_facets: tuple[Hashable, ...] = (
            (self.capped is not None, self.uncapped is not None),
            ("kvm" in self.brands, "bhyve" in self.brands),
        )

    @property
    def sysinfo(self) -> Mapping[str, Any]:
        """The node's sysinfo."""
        return mapping(self.server.get("sysinfo"))

    def claimed(self, expression: str, predicate: Callable[[Mapping[str, object]], bool]) -> object:
        """The result of an owner filter's expression, or its ``ExpressionError``; cached."""
        from vetro.compute.allocation.errors import ExpressionError

        if expression not in self._claims:
            try:
                self._claims[expression] = predicate(self.server)
            except ExpressionError as error:
                self._claims[expression] = error
        return self._claims[expression]

    def first_time(self, what: str) -> bool:
        """True once for each ``what``: a problem is logged once, not with every request."""
        first = what not in self._claims
        self._claims[what] = True
        return first


# --- facets --------------------------------------------------------------------------------

Facet = Callable[[Mapping[str, Any], Mapping[str, Any]], Hashable]


def _flag(name: str) -> Facet:
    return lambda server, _sysinfo: truthy(server.get(name))


def _status(server: Mapping[str, object], _sysinfo: Mapping[str, object]) -> Hashable:
    value = server.get("status")
    return "undefined" if value is None else str(value)


def _system(_server: Mapping[str, object], sysinfo: Mapping[str, object]) -> Hashable:
    """System type and published VM brands."""
    brands = sysinfo.get("VM Brands")
    published = (
        tuple(str(brand) for brand in cast("list[object]", brands))
        if isinstance(brands, list)
        else None
    )
    kind = sysinfo.get("System Type")
    return (kind if isinstance(kind, str) else None, published)


def _nics(_server: Mapping[str, object], sysinfo: Mapping[str, object]) -> Hashable:
    """NIC tags with the names (of those that are not up) and the status of their interfaces.

    None without interfaces. Names of interfaces that are up are omitted, as they affect no
    decision: without them servers of one kind have equal facets.
    """
    if not isinstance(sysinfo.get("Network Interfaces"), dict):
        return None
    tags: dict[tuple[str, str, str], None] = {}
    for group, names in (
        ("Network Interfaces", "NIC Names"),
        ("Virtual Network Interfaces", "Overlay Nic Tags"),
    ):
        for name, value in mapping(sysinfo.get(group)).items():
            nic = mapping(value)
            listed = nic.get(names)
            status = str(nic.get("Link Status"))
            shown = "" if status == "up" else name
            for tag in cast("list[object]", listed) if isinstance(listed, list) else ():
                tags[(str(tag), shown, status)] = None
    return tuple(tags)


def _platform(_server: Mapping[str, object], sysinfo: Mapping[str, object]) -> Hashable:
    """Version, platform stamp, whether it is a Linux node."""
    version = sysinfo.get("SDC Version")
    stamp = sysinfo.get("Live Image")
    return (
        version if isinstance(version, str) and version else "6.5",
        stamp if isinstance(stamp, str) else "",
        sysinfo.get("System Type") == "Linux",
    )


def _traits(server: Mapping[str, object], _sysinfo: Mapping[str, object]) -> Hashable:
    """The traits as JSON; empty text when there are none."""
    traits = server.get("traits")
    return json_text(traits) if isinstance(traits, dict) else ""


def _ratios(server: Mapping[str, object], _sysinfo: Mapping[str, object]) -> Hashable:
    """The server's own ratios (cpu, ram, disk, io, net); None when it has none."""
    ratios = server.get("overprovision_ratios")
    if not isinstance(ratios, dict):
        return None
    given = cast("Mapping[str, Any]", ratios)
    return tuple(
        float(given[name]) if is_finite(given.get(name)) else None
        for name in ("cpu", "ram", "disk", "io", "net")
    )


def _hvm(_server: Mapping[str, object], sysinfo: Mapping[str, object]) -> Hashable:
    """Whether bhyve works, its maximum of vcpus, cores, whether brands may be mixed."""
    most = sysinfo.get("Bhyve Max Vcpus")
    return (
        sysinfo.get("Bhyve Capable") is True,
        most if is_finite(most) else 16,
        cores_of(sysinfo),
        sysinfo.get("HVM API") is True,
    )


def cores_of(sysinfo: Mapping[str, object]) -> float | int:
    """Online cores, or all cores when the node does not report them."""
    online = sysinfo.get("CPU Online Count")
    return online if is_finite(online) else number(sysinfo.get("CPU Total Cores"))


#: The facts that filters use, by name; the order is that of ``Record.facets``.
FACETS: dict[str, Facet] = {
    "setup": _flag("setup"),
    "status": _status,
    "reserved": _flag("reserved"),
    "reservoir": _flag("reservoir"),
    "headnode": _flag("headnode"),
    "system": _system,
    "invalid": lambda server, _sysinfo: invalid_server(server),
    "encrypted": lambda _server, sysinfo: truthy(sysinfo.get("Zpool Encrypted")),
    "nics": _nics,
    "platform": _platform,
    "traits": _traits,
    "ratios": _ratios,
    "hvm": _hvm,
}
#: Facets that VMs determine (and tickets change); the order is that of ``Record.vm_facets``.
VM_FACETS = ("caps", "hvm_brands")
