"""`make bench`: every published figure. Each topic is a script of its own and prints its own table.

`run_all.py [TOPIC…]` runs some of them. A topic ends with 1 when what it measured is wrong (other
results than its twin, a failed deployment) or when a figure misses its limit by more than a quarter.
"""

from __future__ import annotations

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


def main(wanted: list[str]) -> int:
    """Run the topics; 1 when one of them failed."""
    unknown = [name for name in wanted if name not in TOPICS]
    if unknown:
        print(f"There is no topic {unknown[0]}; topics: {', '.join(TOPICS)}")
        return 2
    failed: list[str] = []
    for name, subject in TOPICS.items():
        script = HERE / f"{name}.py"
        if (wanted and name not in wanted) or not script.exists():
            continue
        print(f"\n== {name}: {subject}", flush=True)
        began = time.monotonic()
        if subprocess.run([sys.executable, str(script)], check=False).returncode != 0:
            failed.append(name)
        print(f"({time.monotonic() - began:.0f} s)", flush=True)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
