"""`make bench`: every published figure. Each topic is a script of its own and prints its own table.

`run_all.py [--write] [TOPIC…]` runs some of them; ``--write`` keeps their figures as the last ones. A topic
ends with 1 when what it measured is wrong (other results than its twin, a failed deployment) or when a
figure misses its promise or is more than a fifth worse than the last one (`limits.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOPICS = {
    "language": "MuranoPL programs against plain Python",
    "framework": "clustered applications on the framework, against the same by hand",
    "expressions": "YAQL: parse, prepare, evaluate",
    "workflows": "XML workflows: the rule loop",
    "forms": "describe and submit pages of forms",
    "deployment": "from deploy to the page, against the same by hand; vetro up idle",
    "catalog_api": "the catalog API under load, against the server that it replaces",
    "dashboard": "the dashboard in a browser: first paint, interactions, long lists, large graphs",
    "repository": "the metadata repository: archives of definitions",
    "heat": "a stack by the back end heat, against the same by hand (with VETRO_TEST_OPENSTACK)",
    "processes": "two API processes, and two engines, against one (as root, with PostgreSQL)",
    "rolling": "every process restarted under load: what fails (with PostgreSQL)",
    "allocation": "the allocator over many servers",
    "heartbeats": "the compute service under heartbeats",
    "tickets": "waitlist tickets",
    "node_create": "instance creation against bare lxc-start",
    "node_idle": "the node agent at rest",
}


def run(name: str, environ: dict[str, str]) -> list[str]:
    """Run a topic; the lines in which it says what failed."""
    failed: list[str] = []
    with subprocess.Popen(
        [sys.executable, str(HERE / f"{name}.py")], env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith("FAILED "):
                failed.append(line.rstrip())
    if process.returncode != 0 and not failed:
        failed.append(f"FAILED {name}: ended with {process.returncode}")
    return failed


def main(wanted: list[str], *, write: bool) -> int:
    """Run the topics; 1 when one of them failed."""
    unknown = [name for name in wanted if name not in TOPICS]
    if unknown:
        print(f"There is no topic {unknown[0]}; topics: {', '.join(TOPICS)}")
        return 2
    environ = {**os.environ, **({"VETRO_BENCH_WRITE": "1"} if write else {})}
    failed: list[str] = []
    began = time.monotonic()
    for name in wanted or TOPICS:
        print(f"\n== {name}: {TOPICS[name]}", flush=True)
        start = time.monotonic()
        failed += run(name, environ)
        print(f"({time.monotonic() - start:.0f} s)", flush=True)
    print(f"\n{(time.monotonic() - began) / 60:.0f} minutes", *failed, sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main([name for name in given if name != "--write"], write="--write" in given))
