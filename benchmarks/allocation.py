"""The allocator's figures: requests a second at 100 to 20,000 servers, ten VMs each.

``explained``: one request after another, each with its steps and reasons kept; ``placed``: the same,
and every choice becomes a VM, so a record changes between two requests; ``rendered``: the steps
turned into JSON as POST /allocate does it. Seconds are processor time of the reference machine (`limits.py`).

Then the real way: a compute service in a process of its own with 5,000 servers and 50,000 VMs in its
database, asked by POST /allocate over HTTP; what counts is the service's processor time for each. ``chosen``:
without the steps in the answer; ``reserved``: and the room is held, so that the database and the index
change with every request; ``together``: the same by callers side by side; ``whole``: the answer with all
steps and reasons.
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

from compute_server import cpu_seconds, served
from limits import Topic, repetitions

GIB = 2**30
SIZES = (100, 1000, 5000, 20_000)
ASKED = 5000
#: Requests a second that are promised at that size: one after another in memory, and by the service.
FLOOR = {"explained": 1000.0, "chosen": 150.0, "reserved": 150.0, "together": 150.0}
#: Callers of ``together``.
CALLERS = 16
FLAGS = ("uuid", "hostname", "status", "setup", "reserved", "reservoir", "headnode")
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


def rates(count: int, work: Callable[[], object]) -> list[float]:
    """Calls a second, some times."""
    found: list[float] = []
    for factor in repetitions():
        started = time.process_time()
        for _ in range(count):
            work()
        found.append(count / (time.process_time() - started) / factor)
    return found


def measure(size: int, *, count: int = 150) -> dict[str, Any]:
    """All figures at one size."""
    from vetro.compute.allocation import Allocator, Fleet, candidates_of, check_request, seeded

    chance = random.Random(size)
    owners = [make_uuid(chance) for _ in range(200)]
    servers = [make_server(chance, owners) for _ in range(size)]
    records = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    built: list[float] = []
    for factor in repetitions():
        started = time.process_time()
        fleet = Fleet(servers)
        built.append((time.process_time() - started) * factor)
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
    explained = rates(count, allocate)
    rendered = rates(3, lambda: b"".join(allocate().steps_as_bytes()))
    placed = rates(count, place)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "explained": explained,
        "placed": placed,
        "rendered": rendered,
        "built": built,
        "index_mib": (after - records) / 1024,
    }


async def fill(file: Path, size: int) -> list[str]:
    """A database with servers and their VMs; the owners."""
    from datetime import UTC, datetime

    from sqlalchemy import insert

    from vetro.compute import MIGRATIONS
    from vetro.compute.tables import servers, vms
    from vetro.compute.values.records import DISK_KEYS
    from vetro.storage import Database, migrate

    chance = random.Random(size)
    owners = [make_uuid(chance) for _ in range(200)]
    now = datetime.now(UTC)
    rows: list[dict[str, Any]] = []
    held: list[dict[str, Any]] = []
    for _ in range(size):
        record = make_server(chance, owners)
        memory = record["memory_total_bytes"]
        rows.append(
            {
                **{name: record[name] for name in FLAGS},
                "sysinfo": record["sysinfo"],
                "sample": {
                    "vms": {},
                    "meminfo": {"total_bytes": memory, "availrmem_bytes": memory // 2},
                    "diskinfo": {key: record.get(f"disk_{key}", 0) for key in DISK_KEYS},
                },
                "agents": [],
                "extra": {"traits": record["traits"], "reservation_ratio": 0.15},
                "agent_url": "",
                "network_version": 0,
                "created": now,
            }
        )
        held += [
            {
                "uuid": name,
                "server_uuid": record["uuid"],
                "owner_uuid": vm["owner_uuid"],
                "state": "running",
                "memory_mib": vm["max_physical_memory"],
                "quota_gib": vm["quota"],
                "cpu_cap": vm["cpu_cap"],
                "vm": {"brand": "lx"},
                "created": now,
            }
            for name, vm in record["vms"].items()
        ]
    database = await Database.open(f"sqlite:///{file}")
    await migrate(database, [MIGRATIONS])
    async with database.transaction() as tx:
        await tx.execute(insert(servers), rows)
        await tx.execute(insert(vms), held)
    await database.close()
    return owners


def serve_and_ask(size: int) -> dict[str, list[float]]:
    """Requests a second of processor time, by way; memory of the service in MiB."""
    import asyncio
    import http.client
    import tempfile
    from concurrent.futures import ThreadPoolExecutor

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "bench.db"
        owners = asyncio.run(fill(file, size))
        chance = random.Random(1)
        with served(str(file)) as (pid, port):
            connections = [http.client.HTTPConnection("127.0.0.1", port) for _ in range(CALLERS)]
            headers = {"X-Auth-Token": "operator", "Content-Type": "application/json"}

            def ask(connection: http.client.HTTPConnection, bodies: list[str]) -> int:
                content = b""
                for body in bodies:
                    connection.request("POST", "/compute/allocate", body, headers)
                    answer = connection.getresponse()
                    content = answer.read()
                    assert answer.status == 200, content[:500]
                return len(content)

            def bodies(count: int, more: dict[str, Any]) -> list[str]:
                return [json.dumps({**make_request(chance, owners), **more}) for _ in range(count)]

            held = {"explain": False, "reserve": True}
            ask(connections[0], bodies(1, {}))
            found: dict[str, list[float]] = {}
            with ThreadPoolExecutor(CALLERS) as pool:
                for name, count, callers, more in (
                    ("chosen", 200, 1, {"explain": False}),
                    ("reserved", 200, 1, held),
                    ("together", 320, CALLERS, held),
                    ("whole", 20, 1, {}),
                ):
                    found[name] = []
                    for factor in repetitions():
                        shares = [bodies(count // callers, more) for _ in range(callers)]
                        began = cpu_seconds(pid)
                        list(pool.map(ask, connections[:callers], shares))
                        found[name].append(count / (cpu_seconds(pid) - began) / factor)
            status = Path(f"/proc/{pid}/status").read_text()
            found["mib"] = [int(status.split("VmRSS:")[1].split()[0]) / 1024]
            for connection in connections:
                connection.close()
    return found


def main() -> int:
    """Measure and judge, or ``--json SIZE``: print the figures of a size."""
    if "--json" in sys.argv:
        print(json.dumps(measure(int(sys.argv[-1]))))
        return 0
    import subprocess

    topic = Topic("allocation")
    for size in SIZES:
        # A process of its own for each size, so that memory is that size's.
        command = [sys.executable, __file__, "--json", str(size)]
        row: dict[str, Any] = json.loads(subprocess.check_output(command, text=True))
        for name in ("explained", "placed", "rendered"):
            floor = FLOOR.get(name) if size == ASKED else None
            topic.take(f"{name}, {size} servers", row[name], "/s", floor, at_least=True)
        topic.take(f"index built, {size} servers", row["built"], "s")
        topic.take(f"memory of the index, {size} servers", row["index_mib"], "MiB")
    served = serve_and_ask(ASKED)
    memory = served.pop("mib")
    for name, figures in served.items():
        what = f"{name} over HTTP, {ASKED} servers"
        topic.take(what, figures, "/s", FLOOR.get(name), at_least=True)
    topic.take("memory of the service", memory, "MiB")
    return topic.end()


if __name__ == "__main__":
    sys.exit(main())
