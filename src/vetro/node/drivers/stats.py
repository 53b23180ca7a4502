"""A VM's resource use in the form of ``docker stats``, from control groups or processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vetro.digits import is_number
from vetro.node.vm_objects import timestamp


def _number(path: Path) -> int:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return 0
    return int(text) if is_number(text) else 0


def _pairs(path: Path) -> dict[str, int]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return {}
    words = [line.split() for line in text.splitlines()]
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and is_number(pair[1])}


def shown(
    cpu_ns: int,
    memory: Mapping[str, object],
    pids: int,
    networks: Mapping[str, Mapping[str, int]],
    blocks: Sequence[Mapping[str, object]],
) -> dict[str, object]:
    """The ``docker stats`` object. ``blocks``: ``{device, op: read|write, value: bytes}``."""
    ticks = os.sysconf("SC_CLK_TCK")
    line = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()
    system = sum(int(word) for word in line[1:8]) * 10**9 // ticks
    return {
        "read": timestamp(),
        "pids_stats": {"current": pids},
        "cpu_stats": {
            "cpu_usage": {"total_usage": cpu_ns},
            "system_cpu_usage": system,
            "online_cpus": os.cpu_count() or 1,
        },
        "memory_stats": dict(memory),
        "networks": {name: dict(counts) for name, counts in networks.items()},
        "blkio_stats": {"io_service_bytes_recursive": [dict(block) for block in blocks]},
    }


def group_stats(groups: Mapping[str, Path], interfaces: Mapping[str, str]) -> dict[str, object]:
    """From control groups: controller → directory (``unified`` for version 2).

    ``interfaces``: as ``interface_counts`` takes them.
    """
    unified = groups.get("unified")
    if "cpuacct" in groups:
        cpu_ns = _number(groups["cpuacct"] / "cpuacct.usage")
    else:
        cpu_ns = _pairs((unified or Path("/nonexistent")) / "cpu.stat").get("usage_usec", 0) * 1000
    if "memory" in groups:
        base = groups["memory"]
        memory: dict[str, object] = {
            "usage": _number(base / "memory.usage_in_bytes"),
            "max_usage": _number(base / "memory.max_usage_in_bytes"),
            "limit": _number(base / "memory.limit_in_bytes"),
            "stats": _pairs(base / "memory.stat"),
        }
    else:
        base = unified or Path("/nonexistent")
        memory = {
            "usage": _number(base / "memory.current"),
            "max_usage": _number(base / "memory.peak"),
            "limit": _number(base / "memory.max"),
            "stats": _pairs(base / "memory.stat"),
        }
    pids = _number((groups.get("pids") or unified or Path("/nonexistent")) / "pids.current")
    return shown(cpu_ns, memory, pids, interface_counts(interfaces), _blocks(groups, unified))


def interface_counts(interfaces: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Bytes, packets, errors and drops by the guest's name of an interface.

    ``interfaces``: that name → the host's end, which counts in the opposite directions.
    """
    networks: dict[str, dict[str, int]] = {}
    for name, host in interfaces.items():
        counters = Path("/sys/class/net", host, "statistics")
        networks[name] = {
            f"{ours}_{what}": _number(counters / f"{theirs}_{what}")
            for ours, theirs in (("rx", "tx"), ("tx", "rx"))
            for what in ("bytes", "packets", "errors", "dropped")
        }
    return networks


def _blocks(groups: Mapping[str, Path], unified: Path | None) -> list[dict[str, object]]:
    found: list[dict[str, Any]] = []
    try:
        if "blkio" in groups:
            text = (groups["blkio"] / "blkio.throttle.io_service_bytes").read_text(encoding="utf-8")
            for line in text.splitlines():
                words = line.split()
                if len(words) == 3 and words[1] in ("Read", "Write"):
                    found.append(
                        {"device": words[0], "op": words[1].lower(), "value": int(words[2])}
                    )
        elif unified is not None:
            for line in (unified / "io.stat").read_text(encoding="utf-8").splitlines():
                device, *fields = line.split()
                values = dict(field.split("=", 1) for field in fields)
                found += [
                    {"device": device, "op": op, "value": int(values.get(key, "0"))}
                    for op, key in (("read", "rbytes"), ("write", "wbytes"))
                ]
    except OSError:
        # The controller is missing: no figures for the disks.
        return found
    return found


def process_stats(pids: Iterable[int]) -> dict[str, object]:
    """From processes, where there are no control groups."""
    cpu_ticks = rss = count = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        cpu_ticks += int(fields[11]) + int(fields[12])
        rss += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        count += 1
    nanoseconds = cpu_ticks * 10**9 // os.sysconf("SC_CLK_TCK")
    return shown(nanoseconds, {"usage": rss, "limit": 0, "stats": {"rss": rss}}, count, {}, [])


def machine_stats(
    pid: int,
    limit: int,
    interfaces: Mapping[str, str],
    blocks: Sequence[Mapping[str, object]],
) -> dict[str, object]:
    """Of a virtual machine that runs as process ``pid``: what it uses of this machine.

    Memory is the process's, including the hypervisor's own; ``limit``: bytes it may use. ``pids``
    are its threads, as the guest's processes are not visible. Errors: ``ProcessLookupError``.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError as error:
        raise ProcessLookupError(pid) from error
    sizes = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)

    def size(name: str) -> int:
        return int(sizes.get(name, "0").split()[0]) * 1024

    nanoseconds = (int(fields[11]) + int(fields[12])) * 10**9 // os.sysconf("SC_CLK_TCK")
    memory = {
        "usage": size("VmRSS"),
        "max_usage": size("VmHWM"),
        "limit": limit,
        "stats": {"rss": size("VmRSS")},
    }
    return shown(nanoseconds, memory, int(fields[17]), interface_counts(interfaces), blocks)
