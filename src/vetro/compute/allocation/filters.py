"""Filters on a server's properties: state, system, network, platform, traits (allocation.md §5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import structlog

from vetro.compute.allocation.record import VM_FACETS, mapping
from vetro.compute.allocation.run import Plugin, Run
from vetro.compute.allocation.steps import Reasons, skip
from vetro.compute.allocation.wording import json_text, number_text, truthy

log = structlog.get_logger(__name__)
PLATFORM_KEY = re.compile(r"[0-9]+\.[0-9]+\Z")
assert VM_FACETS == ("caps", "hvm_brands")


def identity(_run: Run) -> Reasons | None:
    """Keep all servers."""
    return None


def _wanted(value: bool) -> Callable[[object], str | None]:
    return lambda flag: None if flag is value else ""


def setup(run: Run) -> Reasons | None:
    """Keep servers that have been set up."""
    return run.judge("setup", "setup", _wanted(True))


def reserved(run: Run) -> Reasons | None:
    """Drop servers that an operator has reserved."""
    return run.judge("reserved", "reserved", _wanted(False))


def reservoir(run: Run) -> Reasons | None:
    """Drop servers in the reservoir."""
    return run.judge("reservoir", "reservoir", _wanted(False))


def headnode(run: Run) -> Reasons | None:
    """Drop headnodes, unless they are allowed."""
    if not run.defaults.filter_headnode:
        return skip("Do not filter out headnodes")
    return run.judge("headnode", "headnode", _wanted(False))


def running(run: Run) -> Reasons | None:
    """Keep running servers."""

    def verdict(status: object) -> str | None:
        return None if status == "running" else f"Server has status: {status}"

    return run.judge("status", "running", verdict)


def system(run: Run) -> Reasons | None:
    """Keep servers whose system can run the brand."""
    brand = run.brand
    linux = brand == "lx" and run.image.get("type") == "lxd"
    strict = run.defaults.os_policy == "strict"

    def verdict(facet: Any) -> str | None:
        kind, published = facet
        if published is not None and not strict:
            return None if brand in published else f'Server does not support brand "{brand}"'
        if (kind == "Linux") is linux:
            return None
        return f'Server does not have "{"linux" if linux else "SunOS"}" OS'

    return run.judge("system", (brand, linux, strict), verdict)


def invalid_servers(run: Run) -> Reasons | None:
    """Drop servers with an invalid record."""
    before = run.count
    reasons = run.judge("invalid", "invalid", lambda message: cast("str | None", message))
    if run.count != before and reasons is not None:
        setup_ones = run.fleet.columns["setup"]
        for uuid, text in reasons.texts(run.fleet.uuids).items():
            at = run.fleet.position[uuid]
            first = run.fleet.records[at].first_time("invalid")
            if first and setup_ones.values.items[setup_ones.codes[at]]:
                log.warning("server_record_invalid", server=uuid, reason=text)
    return reasons


def force_failure(run: Run) -> Reasons | None:
    """Fail on request, for tests."""
    if not truthy(run.metadata.get("force_designation_failure")):
        return None
    none = run.positions_mask(())
    return run.keep(none, lambda _at: "force_designation_failure set, failing")


def virtual_servers(run: Run) -> Reasons | None:
    """Keep containers of the docker kind off servers that are virtual themselves."""
    tags = mapping(run.vm.get("tags"))
    if not truthy(run.vm.get("docker")) and not truthy(
        tags.get("triton.placement.exclude_virtual_servers")
    ):
        return None

    def verdict(facet: Any) -> str | None:
        return "Server is a virtual server - excluding" if facet[0] == "Virtual" else None

    return run.judge("system", "virtual", verdict)


def zpool_encryption(run: Run) -> Reasons | None:
    """Encrypted VMs go to encrypted servers, others to unencrypted ones."""
    wanted = truthy(run.metadata.get("encrypted"))

    def verdict(encrypted: object) -> str | None:
        if encrypted is wanted:
            return None
        return "Server is not Zpool Encrypted" if wanted else "Server is Zpool Encrypted"

    return run.judge("encrypted", wanted, verdict)


def min_free_disk(run: Run) -> Reasons | None:
    """Keep servers with enough free space in the pool."""
    least = run.defaults.minimum_free_disk
    if least is None:
        return skip("No minimum free disk set")
    free = run.fleet.free_disk

    def text(at: int) -> str:
        return f"Server requires {number_text(least)}MB free disk, but only has {int(free[at])}MB"

    return run.keep(free >= least, text)


# --- networks (§5.1) -----------------------------------------------------------------------


def nic_tags(run: Run) -> Reasons | None:
    """Keep servers that have, for every requirement, an interface that is up.

    An empty list of requirements requires nothing, and then ``nic_tags`` are ignored.
    """
    required: Sequence[Sequence[str]] | None = run.vm.get("nic_tag_requirements")
    tags: Sequence[str] | None = run.vm.get("nic_tags")
    if required is None and tags is None:
        return skip("No NIC Tag requirements to filter on")
    groups = [[tag] for tag in tags or ()] if required is None else required
    if not any(groups):
        return None

    def verdict(facet: Any) -> str | None:
        if facet is None:
            return "Server missing interfaces in sysinfo"
        online = {tag for tag, _, status in facet if status == "up"}
        offline = {tag: (name, status) for tag, name, status in facet if status != "up"}
        for group in groups:
            if not group or any(tag in online for tag in group):
                continue
            found = [tag for tag in group if tag in offline]
            if found:
                name, status = offline[found[-1]]
                return f'NIC {name} for tag "{found[-1]}" is {status}'
            return f"Server must have one of the NIC Tags: {', '.join(group)}"
        return None

    return run.judge("nics", tuple(tuple(group) for group in groups), verdict)


# --- platforms (§5.2) ----------------------------------------------------------------------


def platform_fits(limits: Mapping[str, str], version: str, stamp: str, *, least: bool) -> bool:
    """Whether a platform is within the limits of one kind (minimum or maximum)."""
    entries = {key: value for key, value in limits.items() if PLATFORM_KEY.match(key)}
    keys = sorted(entries)
    if not keys:
        return True
    entry = entries.get(version)
    if least:
        last, first = keys[-1], keys[0] if len(keys) > 1 else None
        if version > last or (entry is not None and stamp >= entry):
            return True
        return entry is None and first is not None and first < version < last
    first, last = keys[0], keys[-1] if len(keys) > 1 else None
    if version < first or (entry is not None and stamp <= entry):
        return True
    return entry is None and last is not None and first < version < last


#: One limit: its source, the limits, whether they are minima, whether Linux nodes are exempt.
Limit = tuple[str, Mapping[str, str], bool, bool]


def _platform_verdict(limits: Sequence[Limit]) -> Callable[[object], str | None]:
    def verdict(facet: Any) -> str | None:
        version, stamp, linux = facet
        for who, entries, least, exempt in limits:
            if exempt and linux:
                continue
            if not platform_fits(entries, version, stamp, least=least):
                return (
                    f"{who} requires {'min' if least else 'max'} platforms {json_text(entries)},"
                    f" but server has {json_text({version: stamp})}"
                )
        return None

    return verdict


def _judge_platform(run: Run, limits: Sequence[Limit]) -> Reasons | None:
    if not limits:
        return None
    key = tuple((who, json_text(entries), least) for who, entries, least, _ in limits)
    return run.judge("platform", key, _platform_verdict(limits))


def platform_versions(run: Run) -> Reasons | None:
    """Keep servers whose platform suits the package and the image."""
    package: Mapping[str, Any] = run.package or {}
    needs: Mapping[str, Any] = run.image.get("requirements") or {}
    limits: list[Limit] = []
    for who, entries, least in (
        ("Package", package.get("min_platform"), True),
        ("Image", needs.get("min_platform"), True),
        ("Image", needs.get("max_platform"), False),
    ):
        if entries:
            limits.append((who, entries, least, False))
    return _judge_platform(run, limits)


def feature_min_platform(run: Run) -> Reasons | None:
    """Keep servers whose platform supports the features the VM uses.

    The docker limits do not apply to Linux nodes.
    """
    vm, defaults = run.vm, run.defaults
    docker, volumes = truthy(vm.get("docker")), truthy(vm.get("volumes"))
    nfs2 = run.metadata.get("volapi-nfs-version") == 2
    limits: list[Limit] = []
    for who, wanted, stamp, exempt in (
        ("Docker support", docker, defaults.filter_docker_min_platform, True),
        (
            "Docker volume automount support",
            docker and volumes,
            defaults.filter_docker_nfs_volumes_automount_min_platform,
            True,
        ),
        (
            "Non-docker volume automount support",
            volumes and not docker,
            defaults.filter_non_docker_nfs_volumes_automount_min_platform,
            False,
        ),
        ("volapi nfs v2 support", nfs2, defaults.filter_volapi_nfs_v2_min_platform, False),
        (
            "Flexible disk size support",
            truthy(vm.get("flexible_disk_size")),
            defaults.filter_flexible_disk_min_platform,
            False,
        ),
    ):
        if wanted and stamp is not None:
            limits.append((who, {"7.0": stamp}, True, exempt))
    return _judge_platform(run, limits)


# --- traits (§5.3) -------------------------------------------------------------------------


def traits(run: Run) -> Reasons | None:
    """Keep servers whose traits are exactly the requested ones."""
    package: Mapping[str, Any] = run.package or {}
    wanted: dict[str, object] = {
        **(run.vm.get("traits") or package.get("traits") or {}),
        **(run.image.get("traits") or {}),
    }
    shown = json_text(wanted)

    def verdict(facet: Any) -> str | None:
        held: dict[str, Any] | None = json.loads(facet) if facet else None
        if not wanted:
            if not held:
                return None
            return f"Combined vm/pkg/img require no traits but server has {facet}"
        if held is None or len(held) != len(wanted):
            return (
                f"Combined vm/pkg/img traits require {shown} but server has {facet or 'undefined'}"
            )
        for name, value in wanted.items():
            wrong = _trait_mismatch(value, held.get(name))
            if wrong is not None:
                return f"{name} comparison failed: {wrong}"
        return None

    return run.judge("traits", shown, verdict)


def _trait_mismatch(wanted: object, held: object) -> str | None:
    if held is None:
        return "undefined property"
    if isinstance(wanted, bool):
        return None if wanted is held else "boolean did not match"
    if isinstance(wanted, str) and isinstance(held, str):
        return None if wanted == held else "strings did not match"
    if isinstance(wanted, str) and isinstance(held, list):
        return None if wanted in held else "server trait array did not contain trait"
    if isinstance(wanted, list) and isinstance(held, str):
        return None if held in wanted else "server trait was not in requested trait array"
    if isinstance(wanted, list) and isinstance(held, list):
        if any(one in held for one in cast("list[object]", wanted)):
            return None
        return "server and requested trait arrays do not intersect"
    return "unsupported combination of property types"


PLUGINS: dict[str, Plugin] = {
    "identity": Plugin("Identity function", identity),
    "hard-filter-setup": Plugin("Servers which have been setup", setup),
    "hard-filter-running": Plugin("Servers which are currently running", running),
    "hard-filter-reserved": Plugin("Servers which are not reserved", reserved),
    "hard-filter-reservoir": Plugin("Servers which are not in the reservoir", reservoir),
    "hard-filter-headnode": Plugin("Servers which are not headnodes", headnode),
    "hard-filter-os": Plugin("Servers which have the required OS", system),
    "hard-filter-invalid-servers": Plugin("Servers objects which are valid", invalid_servers),
    "hard-filter-force-failure": Plugin("Forced failure", force_failure),
    "hard-filter-virtual-servers": Plugin("Servers which are not virtual servers", virtual_servers),
    "hard-filter-zpool-encryption": Plugin("Servers which are zpool encrypted", zpool_encryption),
    "hard-filter-min-free-disk": Plugin("Servers with enough free disk", min_free_disk),
    "hard-filter-vlans": Plugin("Servers supporting required NIC Tags", nic_tags),
    "hard-filter-platform-versions": Plugin(
        "Servers which meet image manifest and package platform requirements", platform_versions
    ),
    "hard-filter-feature-min-platform": Plugin(
        "Servers which meet various features' platform requirements", feature_min_platform
    ),
    "hard-filter-traits": Plugin("Servers with correct traits", traits),
}
