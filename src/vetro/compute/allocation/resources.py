"""Overprovisioning, existing VMs and remaining room (allocation.md §5, §8)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from vetro.compute.allocation.fleet import Fleet
from vetro.compute.allocation.record import MIB, listed, mapping, number
from vetro.compute.allocation.reservations import overheads, refuses
from vetro.compute.allocation.run import Plugin, Run
from vetro.compute.allocation.steps import Reasons, Texts, skip
from vetro.compute.allocation.wording import fixed2, number_text, rounded2, truthy, value_text

HVM = ("kvm", "bhyve")
#: What a new VM needs on the pool besides its own and its image's files (MiB).
DISK_MARGIN_MIB = 10_240
RATIOS = ("cpu", "ram", "disk", "io", "net")


def override_overprovisioning(run: Run) -> Reasons | None:
    """Replace the ratios of servers and package by the defaults."""
    if run.defaults.disable_override_overprovisioning:
        return skip("Do not override overprovisioning numbers")
    run.forced_ratios = run.defaults.ratios
    if run.package is not None:
        for name, ratio in zip(("cpu", "ram", "disk"), run.forced_ratios, strict=True):
            run.package[f"overprovision_{name}"] = ratio
        run.package.pop("overprovision_net", None)
        run.package.pop("overprovision_io", None)
    return None


def _shown(ratio: float | None) -> float | None:
    return rounded2(ratio) if ratio else None


def overprovision_ratios(run: Run) -> Reasons | None:
    """Keep servers with the same overprovisioning as the package."""
    package = run.package
    if package is None:
        return skip("No pkg provided")
    wanted = tuple(_shown(number(package.get(f"overprovision_{name}"))) for name in RATIOS)
    if run.forced_ratios is not None:
        forced = run.forced_ratios
        held: dict[str, float] = dict(zip(RATIOS[:3], forced, strict=True))
        text = _ratio_mismatch(wanted, tuple(held.get(name) for name in RATIOS))
        return None if text is None else run.keep(run.positions_mask(()), lambda _at: text)

    def verdict(facet: Any) -> str | None:
        return _ratio_mismatch(wanted, facet or (None,) * len(RATIOS))

    return run.judge("ratios", wanted, verdict)


def _ratio_mismatch(wanted: tuple[float | None, ...], held: tuple[float | None, ...]) -> str | None:
    for one, other in zip(wanted, held, strict=True):
        if one != _shown(other):
            asked = "null" if one is None else fixed2(one)
            has = "null" if not other else fixed2(cast("float", _shown(other)))
            return f"Package over-provision ratio of {asked} does not match server's {has}"
    return None


def load_server_vms(run: Run) -> Reasons | None:
    """Fetch every server's VMs, if a service stores them elsewhere."""
    source = run.ports.load_vms
    if source is None:
        return skip("getServerVms not set; assuming server.vms is already populated")
    reasons: dict[str, str] = {}
    changed: list[Mapping[str, object]] = []
    failed: list[int] = []
    for at in run.positions():
        record = run.fleet.records[at]
        try:
            vms = {
                uuid: vm
                for uuid, vm in source(record.uuid).items()
                if vm.get("state") not in ("destroyed", "failed", "provisioning")
            }
        except (OSError, LookupError, ValueError) as error:
            reasons[record.uuid] = f"Error loading VMs: {error}"
            failed.append(at)
            continue
        reasons[record.uuid] = f"{len(vms)} VMs loaded"
        changed.append({**record.server, "vms": vms})
    loaded = Fleet(record.server for record in run.fleet.records)
    loaded.update(changed)
    run.fleet = loaded
    run.keep(~run.positions_mask(failed))
    return Texts(reasons)


def ticketed_vms(run: Run) -> Reasons | None:
    """Add the VMs of open provisioning tickets."""
    if not run.tickets:
        return None
    unclear: list[int] = []
    for uuid, waiting in run.tickets.items():
        at = run.fleet.position.get(uuid)
        if at is not None and refuses(waiting):
            unclear.append(at)
    if unclear:
        run.keep(~run.positions_mask(unclear))
    run.fleet = run.fleet.with_tickets(run.tickets, overheads(run.defaults))
    return None


def capness(run: Run) -> Reasons | None:
    """VMs with a CPU cap and VMs without one do not share a server."""
    if not run.defaults.filter_capness:
        return skip("Do not filter out cpu_cap disparities")
    package: Mapping[str, object] = run.package or {}
    wanted = truthy(run.vm.get("cpu_cap")) or truthy(package.get("cpu_cap"))
    fleet = run.fleet
    records = fleet.records

    def verdict(facet: Any) -> str | None:
        capped, uncapped = facet
        return "different" if (uncapped if wanted else capped) else None

    def text(at: int) -> str:
        record = records[at]
        if wanted:
            return f"VM {record.uncapped} has no cpu_cap, while the package does"
        return f"VM {record.capped} has a cpu_cap, while the package does not"

    return run.keep(fleet.columns["caps"].judge(wanted, verdict).mask, text)


def vm_count(run: Run) -> Reasons | None:
    """Drop servers that have reached their maximum number of VMs."""
    limit, counts = run.defaults.filter_vm_limit, run.fleet.vm_counts

    def text(at: int) -> str:
        return f"Server has {int(counts[at])} VMs (limit is {number_text(limit)})"

    return run.keep(counts < limit, text)


def hvm(run: Run) -> Reasons | None:
    """Keep servers that can run another VM of this hypervisor (§5.4)."""
    brand = run.brand
    if brand not in HVM:
        return None
    vcpus: Any = run.vm.get("vcpus") or -1
    shown = value_text(run.vm.get("uuid") or "undefined")
    able = None
    if brand == "bhyve":

        def capable(facet: Any) -> str | None:
            possible, most, cores, _ = facet
            if not possible:
                return 'Server does not support "bhyve" VMs'
            limit = min(most, cores)
            if not 1 <= vcpus <= limit:
                return (
                    f"bhyve VM {shown} is requesting {number_text(vcpus)} vcpus whereas server"
                    f" supports 1 - {number_text(limit)} vcpus"
                )
            return None

        able = run.fleet.columns["hvm"].judge(("bhyve", vcpus, shown), capable)
    other = HVM[1 - HVM.index(brand)]

    def mixed(facet: Any) -> str | None:
        return "mixed" if facet[HVM.index(other)] else None

    mixes = run.fleet.columns["hvm"].judge("mixes", lambda f: None if f[3] else "no")
    alone = run.fleet.columns["hvm_brands"].judge(other, mixed)
    records = run.fleet.records

    def text(at: int) -> str | None:
        wrong = None if able is None else able.text_of(at)
        if wrong is not None:
            return wrong
        there = records[at].brands[other]
        return (
            f"VM {there} has brand {other} which is incompatible with new VMs using brand {brand}"
        )

    mask = mixes.mask | alone.mask
    return run.keep(mask if able is None else mask & able.mask, text)


def server_unreserved(run: Run) -> Reasons | None:
    """Compute what is left on each server (§5.5)."""
    run.computed = run.compute_room()
    return None


# --- enough room ---------------------------------------------------------------------------


def _by_need(run: Run, need: float, spare: NDArray[np.int64], text: str) -> Reasons | None:
    shown = number_text(need)
    return run.keep(spare >= need, lambda at: text.format(need=shown, spare=int(spare[at])))


def _without_ratio(run: Run, what: str, slot: int) -> Reasons | None:
    """A package without a ratio goes to servers without one; without a package all remain."""
    if run.package is None:
        return None

    def verdict(facet: Any) -> str | None:
        ratio = facet[slot] if facet is not None else None
        if not ratio:
            return None
        return (
            f"Package gave no {what} overprovision ratio, but server has ratio {number_text(ratio)}"
        )

    if run.forced_ratios is None:
        return run.judge("ratios", ("unset", what), verdict)
    text = verdict(run.forced_ratios)
    return None if text is None else run.keep(run.positions_mask(()), lambda _at: text)


def _package_ratio(run: Run, name: str) -> float:
    return 0 if run.package is None else number(run.package.get(f"overprovision_{name}"))


def min_ram(run: Run) -> Reasons | None:
    """Keep servers with enough memory left."""
    if not run.defaults.filter_min_resources:
        return skip("Do not filter out based on minimum free RAM")
    ratio = _package_ratio(run, "ram")
    if run.package is None or not ratio:
        return _without_ratio(run, "RAM", 1)
    need = number(run.vm.get("ram")) or number(run.package.get("max_physical_memory"))
    if run.brand not in HVM:
        need = need / ratio
    return _by_need(
        run, need, run.room().ram, "VM's calculated {need} RAM is less than server's spare {spare}"
    )


def min_cpu(run: Run) -> Reasons | None:
    """Keep servers with enough CPU left."""
    if not run.defaults.filter_min_resources:
        return skip("Do not filter out based on minimum free CPU")
    if run.package is not None and not truthy(run.vm.get("cpu_cap")):
        given = number(run.package.get("cpu_cap"))
        if given:
            run.vm["cpu_cap"] = given
    cap = number(run.vm.get("cpu_cap"))
    if not cap:
        return None
    ratio = _package_ratio(run, "cpu")
    if not ratio:
        return _without_ratio(run, "CPU", 0)
    return _by_need(
        run,
        cap / ratio,
        run.room().cpu,
        "VM's calculated {need} CPU is less than server's spare {spare}",
    )


def min_disk(run: Run) -> Reasons | None:
    """Keep servers with enough disk left for the VM, its image's files and a margin."""
    if not run.defaults.filter_min_resources:
        return skip("Do not filter out based on unreserved disk")
    package: Mapping[str, object] = run.package or {}
    own, general = number(run.vm.get("quota")), number(package.get("quota"))
    if not own and not general:
        return skip("Vm and pkg have no quota")
    ratio = _package_ratio(run, "disk")
    if not ratio:
        return _without_ratio(run, "disk", 2)
    quota = own * 1024 if own else general
    if run.brand in HVM or run.image.get("type") == "zvol":
        need = quota + number(run.image.get("image_size"))
    else:
        need = math.ceil(quota / ratio)
    size = sum(number(mapping(one).get("size")) for one in listed(run.image.get("files")))
    need += math.ceil(size / MIB) + DISK_MARGIN_MIB
    return _by_need(
        run,
        need,
        run.room().disk,
        "VM's calculated {need} MiB disk is more than server's spare {spare} MiB",
    )


def large_servers(run: Run) -> Reasons | None:
    """Keep the emptiest servers for the largest VMs: drop the first 15 percent."""
    if not run.defaults.filter_large_servers:
        return skip("Do not filter out large servers")
    share = 0.15 * run.count
    if share < 1:
        return None
    from vetro.compute.allocation.columns import sorted_positions

    left = run.left()
    run.order = left[sorted_positions(run.room().ram[left], descending=True)]
    large = run.order[: math.floor(share)]
    kept = run.alive.copy()
    kept[large] = False
    return run.keep(kept)


PLUGINS: dict[str, Plugin] = {
    "override-overprovisioning": Plugin(
        "Force overprovisioning to fixed values", override_overprovisioning
    ),
    "hard-filter-overprovision-ratios": Plugin(
        "Servers with same overprovision ratios as requested VM", overprovision_ratios
    ),
    "load-server-vms": Plugin("Load info about all VMs for each server", load_server_vms),
    "calculate-ticketed-vms": Plugin("Add VMs which have open provisioning tickets", ticketed_vms),
    "hard-filter-capness": Plugin(
        "Servers which have same existence of cpu_cap as package", capness
    ),
    "hard-filter-vm-count": Plugin("Servers with more VMs than limit", vm_count),
    "hard-filter-hvm": Plugin("Servers which are capable of requested virtualization", hvm),
    "calculate-server-unreserved": Plugin(
        "Calculate unreserved resources on each server", server_unreserved
    ),
    "hard-filter-min-ram": Plugin("Servers with enough unreserved RAM", min_ram),
    "hard-filter-min-cpu": Plugin("Servers with enough unreserved CPU", min_cpu),
    "hard-filter-min-disk": Plugin("Servers with enough unreserved disk", min_disk),
    "hard-filter-large-servers": Plugin(
        "Filter out the largest and most empty servers", large_servers
    ),
}
