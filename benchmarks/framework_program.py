"""`framework_program.py N`: the framework deploys N servers on a cloud in memory; one line of JSON."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from common import digest  # noqa: E402


def model(count: int) -> dict[str, Any]:
    """An environment with one application on `count` servers."""
    server = {
        "?": {"type": "io.murano.resources.LinuxMuranoInstance"},
        "flavor": "m1.small",
        "image": "debian",
    }
    provider = {
        "?": {"id": "provider", "type": "io.murano.applications.TemplateServerProvider"},
        "template": server,
        "serverNamePattern": "web-{0}",
    }
    group = {
        "?": {"id": "group", "type": "io.murano.applications.ServerReplicationGroup"},
        "provider": provider,
        "numItems": count,
    }
    app = {"?": {"id": "app", "type": "bench.l.Main", "name": "cluster"}, "servers": group}
    network = {"?": {"id": "net", "type": "io.murano.resources.NeutronNetwork"}, "name": "net"}
    return {
        "Objects": {
            "?": {"id": "env", "type": "io.murano.Environment"},
            "name": "bench",
            "applications": [app],
            "defaultNetworks": {"environment": network, "flat": None},
        }
    }


def laboratory(room: int) -> tuple[Any, Callable[[Any, Any], Awaitable[Any]]]:
    """A cloud in memory for so many servers, and what runs a task on it in a session of its own, as an
    engine's worker does."""
    from vetro.engine.system import library_path, system_runtime
    from vetro.engine.system.memory import MemoryCloud
    from vetro.muranopl import DirectEffects, Limits
    from vetro.packages import open_package

    cloud = MemoryCloud(Path(tempfile.gettempdir()))
    cloud.compute.room = room
    cloud.options = {"network.max_hosts": 4000, "network.max_environments": 4}
    runtime = system_runtime()
    for name in ("io.murano", "io.murano.applications"):
        runtime.add_package(open_package(library_path() / name))
    runtime.add_package(open_package(ROOT / "benchmarks/programs/l_cluster"))
    # As an engine has them, from its code cache.
    runtime.compile_all(methods=True)

    seeds = itertools.count(1)

    async def run(action: dict[str, Any], given: dict[str, Any]) -> Any:
        session = runtime.session(
            effects=DirectEffects(seed=next(seeds)),
            services=cloud.services(),
            limits=Limits(seconds=600.0),
        )
        reply = await session.run_task_async({"action": action, "model": given})
        if reply.is_exception:
            raise SystemExit(f"the deployment failed: {reply.message}\n{reply.details}")
        return reply

    return cloud, run


async def deploy(count: int) -> dict[str, Any]:
    """Deploy; what there is then, and the time."""
    cloud, run = laboratory(count)
    began = time.process_time()
    await run({"object_id": "env", "method": "deploy", "args": {}}, model(count))
    seconds = time.process_time() - began
    texts = sorted(text for _, _, text in cloud.reports.reports)
    commands = [
        next(iter(plan["Files"].values()))["Body"]
        for _, plan in cloud.transport.plans
        if plan.get("Files")
    ]
    servers = sorted(one.spec.name for one in cloud.compute.server_list.values())
    seen = {"servers": servers, "reports": texts, "commands": sorted(commands)}
    return {"cpu_seconds": seconds, "result_digest": digest(seen)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(deploy(int(sys.argv[1])))))
