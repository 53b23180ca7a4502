"""Room held by open provisioning tickets (allocation.md §8).

A ticket with scope ``vm`` and action ``provision`` announces a VM that does not exist yet. Until it
does, the server is treated as if it did: memory, CPU, disk, owners and locality include it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from vetro.compute.allocation.defaults import Defaults
from vetro.compute.allocation.record import GIB, Record, Vm, listed, mapping, number
from vetro.compute.allocation.wording import truthy

Ticket = Mapping[str, Any]


def overheads(defaults: Defaults) -> dict[str, float]:
    """The hypervisor's memory besides a VM's own (MiB), by brand."""
    return {
        "kvm": defaults.kvm_memory_overhead_mib,
        "bhyve": defaults.bhyve_memory_overhead_mib,
    }


def open_tickets(tickets: Iterable[Ticket]) -> dict[str, tuple[Ticket, ...]]:
    """The open provisioning tickets, by server; oldest first as given."""
    found: dict[str, tuple[Ticket, ...]] = {}
    for ticket in tickets:
        if (
            ticket.get("scope", "vm") == "vm"
            and ticket.get("action", "provision") == "provision"
            and ticket.get("status", "active") in ("active", "queued")
        ):
            server = str(ticket.get("server_uuid"))
            found[server] = (*found.get(server, ()), ticket)
    return found


def refuses(tickets: Sequence[Ticket]) -> bool:
    """Whether a ticket does not describe its VM: then the server cannot be evaluated."""
    return any(not truthy(ticket.get("extra")) for ticket in tickets)


def relieved(record: Record, without: Collection[str]) -> Mapping[str, Any]:
    """The server's record as it would be without some of its VMs.

    How much of its quota a VM has written is not known here: it counts as all of it, as far as VMs of the
    server have written as much together.
    """
    server = record.server
    gone = [vm for uuid, vm in record.vms.items() if uuid in without]
    quotas = GIB * sum(number(vm.get("quota")) for vm in gone if vm.get("brand") != "kvm")
    disks = GIB * sum(number(vm.get("quota")) for vm in gone if vm.get("brand") == "kvm")
    used = min(quotas, number(server.get("disk_zone_quota_used_bytes")))
    less = {
        "disk_zone_quota_bytes": quotas,
        "disk_zone_quota_used_bytes": used,
        "disk_kvm_zvol_volsize_bytes": disks,
        "disk_pool_alloc_bytes": used + min(disks, number(server.get("disk_kvm_zvol_used_bytes"))),
    }
    left = {
        name: max(0, number(server.get(name)) - amount) for name, amount in less.items() if amount
    }
    vms = {uuid: vm for uuid, vm in record.vms.items() if uuid not in without}
    return {**server, **left, "vms": vms}


def ticketed_record(
    record: Record, tickets: Sequence[Ticket], overhead: Mapping[str, float]
) -> Record:
    """The server as it will be when its tickets' VMs exist."""
    vms: dict[str, Vm] = dict(record.vms)
    quota_bytes = zvol_bytes = 0.0
    for ticket in tickets:
        extra = mapping(ticket.get("extra"))
        uuid = str(ticket.get("id"))
        if uuid in vms or not truthy(ticket.get("extra")):
            continue
        brand = extra.get("brand")
        quota = number(extra.get("quota"))
        memory = number(extra.get("max_physical_memory")) + overhead.get(str(brand), 0)
        volumes = listed(extra.get("disks"))
        zvol = math.ceil(sum(number(mapping(one).get("size")) for one in volumes) / 1024)
        quota_bytes += quota * GIB
        if brand == "kvm":
            zvol_bytes += zvol * GIB
        elif brand == "bhyve":
            quota_bytes += zvol * GIB
            quota += zvol
        vms[uuid] = {
            "uuid": uuid,
            "owner_uuid": extra.get("owner_uuid"),
            "max_physical_memory": memory,
            "cpu_cap": extra.get("cpu_cap"),
            "quota": quota,
            "brand": brand,
            "zone_state": "running",
            "state": "running",
        }
    server = record.server
    changed: dict[str, object] = {**server, "vms": vms}
    if quota_bytes:
        changed["disk_zone_quota_bytes"] = number(server.get("disk_zone_quota_bytes")) + quota_bytes
    if zvol_bytes:
        changed["disk_kvm_zvol_volsize_bytes"] = (
            number(server.get("disk_kvm_zvol_volsize_bytes")) + zvol_bytes
        )
    return Record(changed, facets=record.facets)
