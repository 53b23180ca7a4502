"""A node agent at rest: memory and processor, registered at a service of its own.

Memory against that of a process that has imported the libraries; processor time is that of the reference
machine (`limits.py`). With the driver for containers where root and LXC are there, else with plain processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deployment import VETRO, Vetro
from limits import Topic, libraries_mib, repetitions

SECONDS = float(os.environ.get("VETRO_BENCH_IDLE_SECONDS", "20"))
#: Memory in that of the libraries, and milliseconds of processor time in a second.
MEMORY, PROCESSOR_MS = 0.6, 5.0
TICK = os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> float:
    """Resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} is gone")


def processor_seconds(pid: int) -> float:
    """Processor time, with that of processes it started and waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(fields[i]) for i in (11, 12, 13, 14)) / TICK


def main() -> int:
    """Measure, judge."""
    topic = Topic("node_idle")
    bare = libraries_mib()
    used: list[float] = []
    directory = Path(tempfile.mkdtemp(prefix="vetro-bench-"))
    directory.chmod(0o711)
    vetro = Vetro(directory)
    vetro.environ["VETRO_NODE_ENABLED"] = "false"
    vetro.start()
    real = os.geteuid() == 0 and shutil.which("lxc-start") is not None
    driver = "lxc" if real else "process"
    (directory / "agent").mkdir(mode=0o711)
    with (directory / "agent.log").open("wb") as log:
        agent = subprocess.Popen(
            [VETRO, "node", "--compute-url", f"{vetro.url}/compute", "--driver", driver,
             "--data-dir", str(directory / "agent"), "--prefix", "vb"],
            env={**vetro.environ, "VETRO_NODE_KEY": (directory / "node-key").read_text().strip()},
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        vetro.token = vetro.run("token").strip()
        while not vetro.call("GET", "/compute/servers"):
            if agent.poll() is not None:
                raise RuntimeError((directory / "agent.log").read_text(errors="replace"))
            time.sleep(0.05)
        time.sleep(5)  # what a start leaves behind
        for factor in repetitions():
            before, began = processor_seconds(agent.pid), time.monotonic()
            time.sleep(SECONDS)
            taken = processor_seconds(agent.pid) - before
            used.append(1000 * taken * factor / (time.monotonic() - began))
        memory = memory_mib(agent.pid)
    finally:
        agent.terminate()
        agent.wait(60)
        vetro.stop()
        shutil.rmtree(directory, ignore_errors=True)
    topic.take(f"memory, driver {driver}", memory / bare, "x libs", MEMORY)
    topic.take(f"processor in a second, driver {driver}", used, "ms", PROCESSOR_MS, compared=False)
    return topic.end()


if __name__ == "__main__":
    sys.exit(main())
