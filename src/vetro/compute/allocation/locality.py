"""Near and far: placing a VM relative to the owner's other VMs (allocation.md §6).

VMs of other owners are ignored, so an answer never reveals where they are. This is checked for
every VM of a hint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from vetro.compute.allocation.run import Plugin, Run
from vetro.compute.allocation.steps import Dropped, Reasons, Texts, for_all, skip
from vetro.compute.allocation.wording import truthy

IGNORED = " (ignored b/c non-strict)"


def hints(locality: Mapping[str, object], name: str) -> list[str]:
    """The uuids of ``near`` or ``far``."""
    value: object = locality.get(name)
    if not truthy(value):
        return []
    return [value] if isinstance(value, str) else cast("list[str]", value)


def _hosts(run: Run, vm_uuid: str) -> list[int]:
    """The remaining servers that host a VM of the request's owner."""
    fleet = run.fleet
    return [
        at
        for at in fleet.hosts_of(vm_uuid)
        if run.alive[at] and fleet.vm_on(at, vm_uuid).get("owner_uuid") == run.owner
    ]


def _first_listed(run: Run, listed: Sequence[str]) -> dict[int, str]:
    """The remaining servers that host a listed VM, each with the first one listed."""
    found: dict[int, str] = {}
    for uuid in listed:
        for at in _hosts(run, uuid):
            found.setdefault(at, uuid)
    return found


def hard_locality(run: Run) -> Reasons | None:
    """Obey strict hints."""
    locality: Mapping[str, object] = run.vm.get("locality") or {}
    if not truthy(locality.get("strict")):
        return skip("No strict locality requested")
    near, far = hints(locality, "near"), hints(locality, "far")
    if not near and not far:
        return skip("No near or far localities requested")
    reasons: dict[str, str] = {}
    uuids = run.fleet.uuids
    if far:
        away = _first_listed(run, far)
        kept = ~run.positions_mask(list(away))
        for at in run.positions():
            if at in away:
                reasons[str(uuids[at])] = f"exclude: inst!={away[at]}"
        run.keep(kept)
    if near:
        places = [set(_hosts(run, uuid)) for uuid in near]
        candidate = next((at for at in run.positions() if at in places[0]), None)
        listed = ",".join(near)
        if candidate is not None and all(candidate in hosts for hosts in places):
            run.keep_only([candidate])
            reasons[str(uuids[candidate])] = f"include: inst=={listed}"
        else:
            run.drop_all()
            reasons["*"] = f"exclude: inst=={listed}"
    return Texts(reasons) if reasons else None


def soft_locality(run: Run) -> Reasons | None:
    """Follow hints as long as servers remain; without hints, spread the owner's VMs."""
    locality: Mapping[str, object] = run.vm.get("locality") or {}
    near, far = hints(locality, "near"), hints(locality, "far")
    if truthy(locality.get("strict")) and (near or far):
        if run.soft_locality is None:
            return skip("Strict locality requested and no spreading needed")
        # An affinity with both kinds: the hard rules were applied, now the soft ones.
        near, far = hints(run.soft_locality, "near"), hints(run.soft_locality, "far")
    if not near and not far:
        return _spread(run)
    reasons: dict[str, str] = {}
    uuids = run.fleet.uuids
    if far:
        away = _first_listed(run, far)
        before = run.positions()
        suffix = "" if len(away) < run.count else IGNORED
        for at in before:
            if at in away:
                reasons[str(uuids[at])] = f"exclude: inst!={away[at]}{suffix}"
        if not suffix:
            run.keep(~run.positions_mask(list(away)))
    if near:
        hosts = _first_listed(run, near)
        if hosts:
            run.keep_only(list(hosts))
            for at in run.positions():
                reasons[str(uuids[at])] = f"include: inst==~{hosts[at]}"
        else:
            listed = ",".join(near[:2]) + (",..." if len(near) > 2 else "")
            reasons["*"] = f"exclude: inst==~{listed}{IGNORED}"
    return Texts(reasons) if reasons else None


def _spread(run: Run) -> Reasons | None:
    owned = run.fleet.owned(run.owner)
    if not owned:
        return None
    away = run.alive & run.positions_mask(list(owned))
    if not away.any():
        return None
    if not (run.alive & ~away).any():
        return for_all(f"exclude: spread by owner{IGNORED}")
    order = run.order
    run.keep(~away)
    return Dropped(lambda: order[away[order]], lambda _at: "exclude: spread by owner")


PLUGINS: dict[str, Plugin] = {
    "hard-filter-locality-hints": Plugin(
        "Servers with requested hard locality considered", hard_locality
    ),
    "soft-filter-locality-hints": Plugin(
        "Servers with requested soft locality considered", soft_locality
    ),
}
