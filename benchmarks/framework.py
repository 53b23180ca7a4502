"""The framework on a cloud in memory against plain Python that does the same by hand (`make bench`).

Each size runs in processes of its own. The twin makes the same template, gives it to the same
stacks in memory, sends the same commands to the same guests and reports the same, with tasks for
what happens side by side. Only equal digests count.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from limits import REPETITIONS, Topic

ROOT = Path(__file__).resolve().parent.parent
RATIO, LINEAR, LARGER = 8.0, 5.0, 6.0
"""Limits: processor time to the twin's at 320 servers; time of 1,280 servers to that of 320; time of an
update of 1,000 servers to that of 250 (4.9: they do not fit the processor's cache; a square would be 16)."""
CHANGES = (
    ("unchanged", 100, 1.0, (0, 0)),
    ("scale", 100, 0.0, (1, 1)),
    ("template", 250, 0.0, (1, 0)),
    ("template", 1000, 1.0, (1, 0)),
)
"""What is done to how many servers that are there, the limit in seconds of processor time (0: only
printed), and how many servers and guests it may touch."""


class Server:
    """A server: its template, its agent, what has been done on it."""

    def __init__(self, number: int) -> None:
        self.id = uuid.uuid4().hex
        self.number = number
        self.name = f"web-{number}"
        self.installed = self.configured = False

    def resources(self, boot: str) -> tuple[dict[str, Any], dict[str, Any]]:
        port = f"port-net-{self.name}"
        server = {
            "type": "OS::Nova::Server",
            "properties": {
                "name": self.name,
                "flavor": "m1.small",
                "image": "debian",
                "availability_zone": "nova",
                "user_data": boot.replace("%QUEUE%", self.id),
                "user_data_format": "RAW",
                "networks": [{"port": {"get_resource": port}}],
            },
        }
        made = {
            port: {
                "type": "OS::Neutron::Port",
                "properties": {"network_id": {"get_resource": "network"}},
            },
            self.name: server,
        }
        outputs = {
            f"{self.name}-id": {"value": {"get_resource": self.name}},
            f"{self.name}-addresses": {"value": {"get_attr": [self.name, "addresses"]}},
        }
        return made, outputs


async def by_hand(count: int) -> dict[str, Any]:
    """Deploy as a person would write it."""
    sys.path.insert(0, str(ROOT / "src"))
    from common import digest

    from vetro.engine.system.memory import MemoryCloud

    cloud = MemoryCloud(Path(tempfile.gettempdir()))
    cloud.compute.room = count
    boot = (ROOT / "library/io.murano/Resources/linux-init.sh").read_text(encoding="utf-8")
    began = time.process_time()
    reports: list[str] = []
    commands: list[str] = []
    servers = [Server(number) for number in range(1, count + 1)]
    network = {
        "network": {"type": "OS::Neutron::Net", "properties": {"name": "net"}},
        "subnet": {
            "type": "OS::Neutron::Subnet",
            "properties": {
                "network_id": {"get_resource": "network"},
                "cidr": "10.0.0.0/20",
                "ip_version": 4,
            },
        },
    }
    template: dict[str, Any] = {
        "heat_template_version": "2013-05-23",
        "resources": dict(network),
        "outputs": {},
    }
    await cloud.stacks.create("project", "env", template)
    reports.append(f"Creating {count} servers")
    template = {**template, "resources": dict(network), "outputs": {}}
    for server in servers:
        reports.append(f"Provisioning VM for Server {server.number}")
        made, outputs = server.resources(boot)
        template["resources"].update(made)
        template["outputs"].update(outputs)
    stack = await cloud.stacks.update("project", "env", template)
    if stack.status.value != "UPDATE_COMPLETE":
        raise SystemExit(stack.reason)

    async def run(server: Server, command: str) -> None:
        plan = {
            "ID": uuid.uuid4().hex,
            "Files": {"script": {"Name": "scriptFile.sh", "Body": command}},
        }
        await cloud.transport.send(server.id, plan["ID"], json.dumps(plan).encode())
        if await cloud.transport.wait_result(plan["ID"], 3600) is None:
            raise TimeoutError(command)
        commands.append(command)

    async def install(server: Server) -> None:
        reports.append(f"Began installing cluster on {server.name}")
        await run(server, f"install {server.name}")
        server.installed = True
        reports.append(f"cluster is installed on {server.name}")

    async def configure(server: Server) -> None:
        reports.append(f"Began configuring cluster on {server.name}")
        await run(server, f"configure {server.name}")
        server.configured = True
        reports.append(f"cluster is configured at {server.name}")

    reports.append("Installing cluster")
    await asyncio.gather(*[install(server) for server in servers])
    reports.append("Finished installing cluster (no errors encountered)")
    reports.append("Applying configuration of cluster")
    await asyncio.gather(*[configure(server) for server in servers])
    reports.append("Finished configuring cluster (no errors encountered)")
    seconds = time.process_time() - began
    names = sorted(one.spec.name for one in cloud.compute.server_list.values())
    seen = {"servers": names, "reports": sorted(reports), "commands": sorted(commands)}
    return {"cpu_seconds": seconds, "result_digest": digest(seen)}


def measure(*arguments: str) -> dict[str, Any]:
    """The JSON of a program's last line."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    value: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return value


def main() -> int:
    """Measure, judge."""
    topic = Topic("framework")
    ratios: list[float] = []
    growth: list[float] = []
    for _ in range(REPETITIONS):
        ours = measure("benchmarks/framework_program.py", "320")
        plain = measure("benchmarks/framework.py", "320")
        large = measure("benchmarks/framework_program.py", "1280")
        if ours["result_digest"] != plain["result_digest"]:
            topic.wrong("another result than the twin's")
        ratios.append(ours["cpu_seconds"] / plain["cpu_seconds"])
        growth.append(large["cpu_seconds"] / ours["cpu_seconds"])
    topic.take("320 servers", ratios, "x plain", RATIO)
    topic.take("1,280 servers to 320 (linear is 4)", growth, "x", LINEAR)
    changes(topic)
    return topic.end()


def changes(topic: Topic) -> None:
    """What changes to deployed servers cost, and whether they touch no more than has changed."""
    costs: dict[tuple[str, int], list[float]] = {}
    for what, size, limit, touched in CHANGES:
        costs[what, size] = taken = []
        while len(taken) < REPETITIONS:
            found = measure("benchmarks/framework_changes.py", what, str(size))
            if (found["servers"], found["guests"]) != touched:
                topic.wrong(f"{what} at {size} servers touches {found}")
            taken += found["cpu_seconds"]
        topic.take(f"{what} at {size} servers", taken, "s", limit or None)
    pairs = zip(costs["template", 1000], costs["template", 250], strict=True)
    topic.take("template of 1,000 to 250", [large / small for large, small in pairs], "x", LARGER)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(asyncio.run(by_hand(int(sys.argv[1])))))
    else:
        sys.exit(main())
