"""A node agent at rest: memory and processor, registered at a service of its own.

Memory against that of a process that has imported the libraries; processor in reference seconds (`limits.py`).
With the driver for containers where root and LXC are there, else with plain processes.
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
MEMORY_MIB, CORE_PERCENT = 60.0, 0.5
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
    """Measure and print."""
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
        before, began = processor_seconds(agent.pid), time.monotonic()
        time.sleep(SECONDS)
        used = processor_seconds(agent.pid) - before
        percent = 100 * used / (time.monotonic() - began)
        memory = memory_mib(agent.pid)
    finally:
        agent.terminate()
        agent.wait(60)
        vetro.stop()
        shutil.rmtree(directory, ignore_errors=True)
    for name, value, unit, limit in (
        (f"memory (driver {driver})", memory, "MiB", MEMORY_MIB),
        (f"of one core, over {SECONDS:.0f} s", percent, "%", CORE_PERCENT),
    ):
        verdict = PUBLISHED.most(name, value, limit)
        print(f"{name:44}{value:8.2f} {unit}{verdict}")
    return PUBLISHED.exit_code()


if __name__ == "__main__":
    sys.exit(main())
