"""The allocator's figures: requests a second at 100 to 20,000 servers, ten VMs each.

``explained``: one request after another, each with its steps and reasons kept; ``placed``: the same,
and every choice becomes a VM, so a record changes between two requests; ``rendered``: the steps
turned into JSON as POST /allocate does it. Processor time, the best of several rounds.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

GIB = 2**30
SIZES = (100, 1000, 5000, 20_000)
#: What issue 4 asks for at 5,000 servers.
FLOOR = {"explained": 150.0, "placed": 1000.0}
PACKAGES = ((512, 100), (1024, 100), (2048, 200), (4096, 400), (8192, 400), (16384, 800))


def make_uuid(chance: random.Random) -> str:
    """A random uuid from a seeded source."""
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def make_server(chance: random.Random, owners: list[str], vms: int = 10) -> dict[str, Any]:
    """A running Linux node with some VMs; traits, platforms and networks as in a real place."""
    cores = chance.choice((16, 32, 48, 64))
    memory = cores * 8 * GIB
    held = {}
    for _ in range(chance.randint(vms // 2, vms + vms // 2)):
        ram, cap = chance.choice(PACKAGES)
        name = make_uuid(chance)
        held[name] = {
            "uuid": name,
            "owner_uuid": chance.choice(owners),
            "max_physical_memory": ram,
            "cpu_cap": cap,
            "quota": chance.choice((10, 25, 50)),
            "brand": "lx",
            "state": "running",
            "zone_state": "running",
        }
    pool = chance.choice((2, 4, 8)) * 1024 * GIB
    stamp = chance.choice(("20250101T000000Z", "20250601T000000Z", "20260301T000000Z"))
    return {
        "uuid": make_uuid(chance),
        "hostname": "node",
        "setup": chance.random() > 0.01,
        "status": "running" if chance.random() > 0.02 else "unknown",
        "reserved": chance.random() < 0.02,
        "reservoir": chance.random() < 0.02,
        "headnode": chance.random() < 0.005,
        "reservation_ratio": 0.15,
        "memory_total_bytes": memory,
        "memory_available_bytes": memory // 2,
        "disk_pool_size_bytes": pool,
        "disk_pool_alloc_bytes": pool // 10,
        "disk_system_used_bytes": 4 * GIB,
        "disk_installed_images_used_bytes": 20 * GIB,
        "disk_cores_quota_used_bytes": 0,
        "disk_zone_quota_bytes": sum(vm["quota"] for vm in held.values()) * GIB,
        "disk_zone_quota_used_bytes": pool // 20,
        "disk_kvm_quota_bytes": 0,
        "disk_kvm_zvol_volsize_bytes": 0,
        "traits": {"ssd": True} if chance.random() < 0.1 else {},
        "next_reboot": "",
        "last_boot": "2026-01-01T00:00:00.000Z",
        "vms": held,
        "sysinfo": {
            "Live Image": stamp,
            "SDC Version": "7.0",
            "System Type": "Linux",
            "VM Brands": ["lx", "kvm"],
            "CPU Total Cores": cores,
            "CPU Online Count": cores,
            "Network Interfaces": {
                "eth0": {"Link Status": "up", "NIC Names": ["admin", "external"]},
                "eth1": {
                    "Link Status": "up" if chance.random() > 0.03 else "down",
                    "NIC Names": ["internal"],
                },
            },
        },
    }


def make_request(chance: random.Random, owners: list[str]) -> dict[str, Any]:
    """The parameters of a request for one of a few packages."""
    ram, cap = chance.choice(PACKAGES)
    return {
        "vm": {
            "vm_uuid": make_uuid(chance),
            "owner_uuid": chance.choice(owners),
            "ram": ram,
            "cpu_cap": cap,
            "quota": 25,
            "brand": "lx",
        },
        "package": {"max_physical_memory": ram, "cpu_cap": cap, "quota": 25 * 1024},
        "image": {"type": "lxc-rootfs"},
        "nic_tags": chance.choice((["external"], ["external", "internal"])),
    }


def best(rounds: int, count: int, work: Callable[[], None]) -> float:
    """Calls a second of the fastest round."""
    least = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(count):
            work()
        least = min(least, (time.process_time() - started) / count)
    return 1 / least


def measure(size: int, *, count: int = 150, rounds: int = 4) -> dict[str, float]:
    """All figures at one size."""
    from vetro.compute.allocation import Allocator, Fleet, candidates_of, check_request, seeded

    chance = random.Random(size)
    owners = [make_uuid(chance) for _ in range(200)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    servers = [make_server(chance, owners) for _ in range(size)]
    records = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    fleet = Fleet(servers)
    built = time.process_time() - started
    by_uuid = {server["uuid"]: server for server in servers}
    allocator = Allocator()
    source = seeded(1)
    kept: list[Any] = []

    def allocate() -> Any:
        outcome = allocator.allocate(
            fleet,
            check_request(**make_request(chance, owners)),
            candidates=candidates_of(fleet, headnodes=False),
            shuffle=True,
            random=source,
        )
        kept.append(outcome)
        del kept[:-50]
        return outcome

    def place() -> None:
        request = make_request(chance, owners)
        vm = request["vm"]
        outcome = allocator.allocate(
            fleet,
            check_request(**request),
            candidates=candidates_of(fleet, headnodes=False),
            shuffle=True,
            random=source,
        )
        kept.append(outcome)
        del kept[:-50]
        if outcome.chosen is not None:
            server = by_uuid[outcome.chosen]
            made = {
                "owner_uuid": vm["owner_uuid"],
                "max_physical_memory": vm["ram"],
                "cpu_cap": vm["cpu_cap"],
                "quota": 25,
                "brand": "lx",
                "state": "running",
            }
            changed = {**server, "vms": {**server["vms"], vm["vm_uuid"]: made}}
            by_uuid[outcome.chosen] = changed
            fleet.update([changed])

    allocate()
    place()
    explained = best(rounds, count, lambda: allocate())
    rendered = best(2, 3, lambda: allocate().steps_json())
    placed = best(rounds, count, place)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "servers": size,
        "vms": sum(len(server["vms"]) for server in servers),
        "explained": explained,
        "placed": placed,
        "rendered": rendered,
        "build_seconds": built,
        "records_mib": (records - before) / 1024,
        "index_mib": (after - records) / 1024,
    }


def main() -> int:
    """Print the table (or ``--json SIZE`` one line); 1 when a floor is missed."""
    if "--json" in sys.argv:
        print(json.dumps(measure(int(sys.argv[-1]))))
        return 0
    import subprocess

    print(
        f"{'servers':>8}{'VMs':>9}{'explained/s':>13}{'placed/s':>10}{'rendered/s':>12}"
        f"{'build, s':>10}{'index, MiB':>12}"
    )
    missed = False
    for size in SIZES:
        # A process of its own for each size, so that memory is that size's.
        done = subprocess.run(
            [sys.executable, __file__, "--json", str(size)],
            capture_output=True,
            text=True,
            check=True,
        )
        row: dict[str, float] = json.loads(done.stdout)
        print(
            f"{row['servers']:>8}{row['vms']:>9}{row['explained']:>13.0f}{row['placed']:>10.0f}"
            f"{row['rendered']:>12.1f}{row['build_seconds']:>10.2f}{row['index_mib']:>12.0f}"
        )
        if size == 5000:
            for name, floor in FLOOR.items():
                if row[name] < floor:
                    missed = True
                    print(f"  {name}: {row[name]:.0f} a second is less than {floor:.0f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
