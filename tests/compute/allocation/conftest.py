"""Valid servers and requests to vary, and one plugin run alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from vetro.compute.allocation import allocate_case

GIB = 2**30
OWNER = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"


def uuid_of(name: str) -> str:
    """A uuid that a short hexadecimal name stands for."""
    return f"00000000-0000-4000-8000-{name:0>12}"


def server(name: str = "a", *, sysinfo: dict[str, Any] | None = None, **changes: Any) -> Any:
    """A valid, running server of 16 cores, 64 GiB and 1 TiB; None takes a property away."""
    record: dict[str, Any] = {
        "uuid": uuid_of(name),
        "setup": True,
        "status": "running",
        "reserved": False,
        "reservoir": False,
        "headnode": False,
        "reservation_ratio": 0.15,
        "memory_total_bytes": 64 * GIB,
        "memory_available_bytes": 32 * GIB,
        "disk_pool_size_bytes": 1024 * GIB,
        "disk_pool_alloc_bytes": 80 * GIB,
        "disk_system_used_bytes": 10 * GIB,
        "disk_installed_images_used_bytes": 5 * GIB,
        "disk_cores_quota_used_bytes": 0,
        "disk_zone_quota_bytes": 0,
        "disk_zone_quota_used_bytes": 0,
        "disk_kvm_quota_bytes": 0,
        "disk_kvm_zvol_volsize_bytes": 0,
        "vms": {},
        **changes,
    }
    info: dict[str, Any] = {
        "Live Image": "20250101T000000Z",
        "SDC Version": "7.0",
        "System Type": "SunOS",
        "CPU Total Cores": 16,
        "Network Interfaces": {
            "eth0": {"Link Status": "up", "NIC Names": ["admin", "external"]},
            "eth1": {"Link Status": "down", "NIC Names": ["internal"]},
        },
        **(sysinfo or {}),
    }
    record.setdefault("sysinfo", {key: value for key, value in info.items() if value is not None})
    return {key: value for key, value in record.items() if value is not None}


def held(**changes: Any) -> dict[str, Any]:
    """A running VM on a server: 1 GiB, one core; None takes a property away."""
    vm = {
        "owner_uuid": OTHER,
        "max_physical_memory": 1024,
        "cpu_cap": 100,
        "quota": 10,
        "brand": "joyent",
        "state": "running",
        **changes,
    }
    return {key: value for key, value in vm.items() if value is not None}


def case(servers: Sequence[Any], **changes: Any) -> dict[str, Any]:
    """A case for a VM of 1 GiB; ``vm`` is merged into it."""
    vm = {"owner_uuid": OWNER, "ram": 1024, **changes.pop("vm", {})}
    return {"servers": list(servers), "vm": vm, "image": {}, "seed": 1, **changes}


@dataclass
class Pipeline:
    """What a pipeline left: names of servers, and the last step's reasons by name."""

    left: str
    reasons: dict[str, str]
    result: dict[str, Any]


def run_pipeline(description: str | list[Any], servers: Sequence[Any], **changes: Any) -> Pipeline:
    """Run some plugins (one by its name) over servers."""
    listed = [description] if isinstance(description, str) else description
    result = allocate_case(case(servers, description=["pipe", *listed], **changes))
    assert "invalid" not in result, result
    last = result["steps"][-1]
    return Pipeline(
        "".join(uuid[-1] for uuid in last["remaining"]),
        {
            name if name in ("*", "skip") else name[-1]: text
            for name, text in last.get("reasons", {}).items()
        },
        result,
    )


@dataclass(frozen=True)
class Build:
    """The builders, for tests to take as a fixture."""

    server: Callable[..., Any] = server
    held: Callable[..., dict[str, Any]] = held
    case: Callable[..., dict[str, Any]] = case
    pipeline: Callable[..., Pipeline] = run_pipeline
    uuid: Callable[[str], str] = uuid_of
    owner: str = OWNER
    other: str = OTHER


@pytest.fixture
def build() -> Build:
    """Builders of servers, VMs and cases."""
    return Build()
