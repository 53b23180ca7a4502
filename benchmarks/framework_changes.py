"""`framework_changes.py WHAT N`: a change to what the framework has deployed; one line of JSON.

WHAT is `unchanged` (deploy N servers again), `scale` (one server more) or `template` (give the stack of N
servers, with six resources each, a template in which one server differs). Every change is made in a
session of its own, after the first deployment.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from framework_program import laboratory, model
from limits import repetitions

ROOT = Path(__file__).resolve().parent.parent


async def change(what: str, count: int) -> dict[str, Any]:
    """Deploy, then change: processor time, and what left the program meanwhile."""
    cloud, run = laboratory(count + 1)
    from vetro.engine.worker.deployment import stored_model

    given = model(count)
    reply = await run({"object_id": "env", "method": "deploy", "args": {}}, given)
    # As it comes back from the database.
    saved = json.loads(json.dumps(stored_model(reply, given)))
    if what == "template":
        return await update(cloud)
    cloud.compute.calls.clear()
    cloud.transport.plans.clear()
    target = ("env", "deploy") if what == "unchanged" else ("app", "scaleOut")
    (factor,) = repetitions(1)
    began = time.process_time()
    await run({"object_id": target[0], "method": target[1], "args": {}}, saved)
    seconds = [(time.process_time() - began) * factor]
    guests = sorted({queue for queue, _ in cloud.transport.plans})
    servers = [call for call in cloud.compute.calls if "server" in call]
    return {
        "cpu_seconds": seconds,
        "calls": len(cloud.compute.calls),
        "servers": len(servers),
        "guests": len(guests),
    }


async def update(cloud: Any) -> dict[str, Any]:
    """Give a stack its own template with one instance changed, some times."""
    (stack,) = cloud.stacks.store.stacks.values()
    template = json.loads(json.dumps(stack.template))
    cloud.compute.calls.clear()
    seconds: list[float] = []
    for factor in repetitions():
        # Deploying takes far longer than what is measured, so that is not repeated.
        metadata = {"note": f"changed {len(seconds)}"}
        template["resources"]["web-1"]["properties"]["metadata"] = metadata
        # To look through what the deployment left in memory took 0.2 s in two of five updates.
        gc.collect()
        gc.freeze()
        began = time.process_time()
        done = await cloud.stacks.update(stack.project_id, stack.name, template)
        seconds.append((time.process_time() - began) * factor)
        if done.status.value != "UPDATE_COMPLETE":
            raise SystemExit(done.reason)
        template = json.loads(json.dumps(template))
    servers = [call for call in cloud.compute.calls if "server" in call]
    return {
        "cpu_seconds": seconds,
        "calls": len(cloud.compute.calls) / len(seconds),
        "servers": len(servers) / len(seconds),
        "guests": 0,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(change(sys.argv[1], int(sys.argv[2])))))
