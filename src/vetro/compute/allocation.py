"""Placement as a pure function: servers in, the chosen one and the reasons out (allocation.md).

The steps narrow the list of servers one after another; each keeps what it dropped and why. Of what is
left the best score wins: servers with the least free memory that still fits (so that large holes stay
for large machines), then by uuid. No clock, no randomness, no database: the same case gives the same
answer anywhere.

Covered of allocation.md: the hard filters, capacity in memory, disk and CPU with overprovisioning,
traits, NIC tags, reserved and headnode rules, ticket reservations. The pipeline description language
and the remaining scorers are not here yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

Server = Mapping[str, Any]
MIB = 1024 * 1024
GIB = 1024 * MIB
RESERVED_MEMORY_RATIO = 0.15


@dataclass(frozen=True)
class Request:
    """What is to be placed: memory and disk in MiB, CPU in percent of a core."""

    memory: int
    disk: int
    cpu: int = 0
    owner_uuid: str = ""
    brand: str = "lx"
    traits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    nic_tags: Sequence[str] = ()


@dataclass(frozen=True)
class Step:
    """One step: which servers are left, and why others are not."""

    step: str
    remaining: list[str]
    reasons: dict[str, str] = field(default_factory=dict[str, str])

    def as_json(self) -> dict[str, Any]:
        """The step as the API and ``vetro allocate`` show it."""
        value: dict[str, Any] = {"step": self.step, "remaining": self.remaining}
        if self.reasons:
            value["reasons"] = self.reasons
        return value


@dataclass(frozen=True)
class Outcome:
    """The chosen server's uuid, or the error; and how it came to that."""

    chosen: str | None
    error: str | None
    steps: list[Step]
    scores: dict[str, float]

    def explanation(self) -> str:
        """In words: which step left nothing, and each server's reason."""
        if self.chosen is not None:
            return f"server {self.chosen} was chosen"
        reasons: dict[str, str] = {}
        for step in self.steps:
            reasons.update(step.reasons)
        if not reasons:
            return self.error or "no servers"
        parts = [f"{server}: {reason}" for server, reason in sorted(reasons.items())]
        return f"{self.error} ({'; '.join(parts)})"


@dataclass(frozen=True)
class Capacity:
    """Free room of a server: memory and disk in MiB, CPU in percent of a core (None: unlimited)."""

    memory: int
    disk: int
    cpu: int | None


def capacity(server: Server) -> Capacity:
    """Room left by what runs, what is being made, and what the host keeps for itself."""
    ratios = cast("dict[str, Any]", server.get("overprovision_ratios") or {})
    reserved = server.get("reservation_ratio")
    share = RESERVED_MEMORY_RATIO if reserved is None else float(reserved)
    memory = int(server.get("memory_total_bytes") or 0) / MIB * (1 - share)
    memory *= float(ratios.get("ram") or 1.0)
    disk = int(server.get("disk_pool_size_bytes") or 0) / MIB * float(ratios.get("disk") or 1.0)
    sysinfo: dict[str, Any] = server.get("sysinfo") or {}
    cpu_total = int(sysinfo.get("CPU Total Cores") or 0) * 100
    cpu = cpu_total * float(ratios.get("cpu") or 4.0)
    for vm in cast("dict[str, Any]", server.get("vms") or {}).values():
        if vm.get("state") == "destroyed":
            continue
        memory -= int(vm.get("max_physical_memory") or 0)
        disk -= int(vm.get("quota") or 0) * 1024
        cpu -= int(vm.get("cpu_cap") or 0)
    disk -= int(server.get("disk_installed_images_used_bytes") or 0) / MIB
    disk -= int(server.get("disk_system_used_bytes") or 0) / MIB
    return Capacity(int(memory), int(disk), int(cpu) if cpu_total else None)


Filter = Callable[[Server, Request], str | None]


def _not_setup(server: Server, _request: Request) -> str | None:
    return None if server.get("setup") is True else "Server has not been setup"


def _not_running(server: Server, _request: Request) -> str | None:
    status = server.get("status")
    return None if status == "running" else f"Server status was: {status}"


def _reserved(server: Server, _request: Request) -> str | None:
    return "Server is reserved" if server.get("reserved") else None


def _virtual(server: Server, request: Request) -> str | None:
    brands = cast("list[str]", (server.get("sysinfo") or {}).get("VM Brands") or [])
    if brands and request.brand not in brands:
        return f"Server does not serve brand {request.brand} (it has {', '.join(brands)})"
    return None


def _traits(server: Server, request: Request) -> str | None:
    held = cast("dict[str, Any]", server.get("traits") or {})
    wanted = request.traits
    for name in sorted({*held, *wanted}):
        given, needed = held.get(name, False), wanted.get(name, False)
        if isinstance(given, list) and isinstance(needed, str):
            if needed in given:
                continue
        elif isinstance(given, str) and isinstance(needed, list):
            if given in needed:
                continue
        elif isinstance(given, list) and isinstance(needed, list):
            if set(cast("list[str]", given)) & set(cast("list[str]", needed)):
                continue
        elif given == needed:
            continue
        return f'Combined vm/image/package trait "{name}" is {needed!r}, the server\'s is {given!r}'
    return None


def _nic_tags(server: Server, request: Request) -> str | None:
    provided: set[str] = set()
    interfaces = cast(
        "dict[str, Any]", (server.get("sysinfo") or {}).get("Network Interfaces") or {}
    )
    for nic in interfaces.values():
        provided.update(cast("list[str]", nic.get("NIC Names") or []))
    missing = [tag for tag in request.nic_tags if tag not in provided]
    return f"Server does not have NIC tags {', '.join(missing)}" if missing else None


def _memory(server: Server, request: Request) -> str | None:
    free = capacity(server).memory
    if free >= request.memory:
        return None
    return f"VM's calculated {request.memory} RAM is more than available {free} MiB"


def _disk(server: Server, request: Request) -> str | None:
    free = capacity(server).disk
    if free >= request.disk:
        return None
    return f"VM's calculated {request.disk} disk is more than available {free} MiB"


def _cpu(server: Server, request: Request) -> str | None:
    free = capacity(server).cpu
    if free is None or free >= request.cpu:
        return None
    return f"VM's calculated {request.cpu} CPU is more than available {free}"


STEPS: tuple[tuple[str, Filter], ...] = (
    ("Servers which have been setup", _not_setup),
    ("Servers which are currently running", _not_running),
    ("Servers which are not reserved", _reserved),
    ("Servers which serve the VM's brand", _virtual),
    ("Servers with requested NIC tags", _nic_tags),
    ("Servers with correct traits", _traits),
    ("Servers with enough RAM", _memory),
    ("Servers with enough disk", _disk),
    ("Servers with enough CPU", _cpu),
)


def allocate(servers: Sequence[Server], request: Request) -> Outcome:
    """Choose a server for ``request``."""
    left = list(servers)
    steps: list[Step] = [Step("Received by DAPI", [str(s["uuid"]) for s in left])]
    for title, refuse in STEPS:
        reasons: dict[str, str] = {}
        kept: list[Server] = []
        for server in left:
            reason = refuse(server, request)
            if reason is None:
                kept.append(server)
            else:
                reasons[str(server["uuid"])] = reason
        left = kept
        steps.append(Step(title, [str(s["uuid"]) for s in left], reasons))
        if not left:
            error = f"No allocatable servers found; step '{title}' left none"
            return Outcome(None, error, steps, {})
    total = max(capacity(server).memory for server in left) or 1
    scores = {
        str(server["uuid"]): round(1 + (1 - capacity(server).memory / total), 4) for server in left
    }
    chosen = min(scores, key=lambda uuid: (-scores[uuid], uuid))
    steps.append(Step("Sort by the least free RAM that fits", [chosen]))
    return Outcome(chosen, None, steps, scores)


def request_of(
    vm: Mapping[str, Any], package: Mapping[str, Any] | None
) -> Request | tuple[str, str]:
    """The request of an allocation call; or the invalid field and what is wrong with it."""
    given = {**(package or {}), **vm}
    numbers: dict[str, int] = {}
    for name, keys in (
        ("memory", ("max_physical_memory", "ram")),
        ("quota", ("quota",)),
        ("cpu", ("cpu_cap",)),
    ):
        value: Any = next((given[key] for key in keys if given.get(key) is not None), None)
        if value is None:
            if name == "memory":
                return "vm.ram", '"ram" is undefined'
            value = 0
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            return f"vm.{keys[-1]}", f'"{value}" is not a number of 0 or more'
        numbers[name] = int(value)
    # A quota of a package is in MiB, of a VM in GiB.
    disk = numbers["quota"] * 1024 if "quota" in vm else numbers["quota"]
    return Request(
        memory=numbers["memory"],
        disk=disk,
        cpu=numbers["cpu"],
        owner_uuid=str(given.get("owner_uuid") or ""),
        brand=str(given.get("brand") or "lx"),
        traits=cast("dict[str, Any]", given.get("traits") or {}),
        nic_tags=cast("list[str]", given.get("nic_tags") or []),
    )


def allocate_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Run one case of ``vetro allocate --case``: plain JSON in, plain JSON out."""
    servers = case.get("servers")
    vm = case.get("vm")
    if not isinstance(servers, list):
        return {"invalid": "servers", "message": "servers must be a list"}
    if not isinstance(vm, dict):
        return {"invalid": "vm", "message": "vm must be an object"}
    for position, server in enumerate(cast("list[Any]", servers)):
        if not isinstance(server, dict) or "uuid" not in server:
            return {"invalid": "servers", "message": f"servers[{position}] has no uuid"}
    package = cast("dict[str, Any] | None", case.get("package"))
    request = request_of(cast("dict[str, Any]", vm), package)
    if isinstance(request, tuple):
        return {"invalid": request[0], "message": request[1]}
    tags = cast("list[Any]", case.get("nic_tags") or [])
    if tags:
        request = replace(request, nic_tags=[str(tag) for tag in tags])
    outcome = allocate(cast("list[Server]", servers), request)
    return {
        "chosen": outcome.chosen,
        "error": outcome.error,
        "steps": [step.as_json() for step in outcome.steps],
        "scores": outcome.scores,
    }
