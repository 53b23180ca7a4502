"""Removes what runs of tests and throw-away servers left behind when they were killed; `make clean` calls it.

Whatever makes something of this kind keeps it below a directory `vetro-run.*` of its own, and locks that
(`flock`) while it lives: without a lock it has no owner, whatever became of its process. What belongs to a
directory is found by its name, which nothing else has: processes that were started with it (tests have it as
TMPDIR), mounts, loop devices. A Vetro below it has a directory in /run/vetro with the hash of its own in the
name; that tells containers, interfaces and tables. One whose data directory is gone is swept, too. A run that
ends removes its own directory in the same way.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

#: Where runs have their directories: tests and servers; new Debian roots and OpenStacks; PostgreSQL.
PLACES = (Path(tempfile.gettempdir()), Path("/var/tmp"), Path("/dev/shm"))
RUNTIME = Path("/run/vetro")
PATIENCE_SECONDS = 20
#: What the tests write, with some room.
NEEDED = 8 << 30


@contextlib.contextmanager
def run_directory(needed: int = NEEDED) -> Iterator[Path]:
    """A directory for a run, removed at its end with all that belongs to it; those of dead runs go first."""
    sweep()
    free = shutil.disk_usage(PLACES[0]).free
    if free < needed:
        sys.exit(
            f"{PLACES[0]} has {free >> 20} MiB left, the tests write up to {needed >> 20}:"
            " make room, or name another directory in TMPDIR."
        )
    made = Path(tempfile.mkdtemp(prefix=".vetro-new."))
    # Other users pass through it: servers of tests are not root.
    made.chmod(0o711)
    held = os.open(made, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    directory = made.rename(made.with_name(f"vetro-run.{made.name.rpartition('.')[2]}"))
    (directory / "tmp").mkdir()
    (directory / "tmp").chmod(0o1777)
    try:
        yield directory
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        remove(directory)
        os.close(held)


def sweep() -> list[Path]:
    """Remove the directories of runs that are dead, with all that belongs to them; say which."""
    dead = [one for place in PLACES for one in place.glob("vetro-run.*") if is_dead(one)]
    for directory in dead:
        print(f"Removing what a run that was killed left: {directory}", flush=True)
        remove(directory)
    for runtime in orphans():
        print(f"Removing what a Vetro left whose data directory is gone: {runtime}", flush=True)
        undo(set(), [runtime], machines_of([runtime]))
    return dead


def orphans() -> list[Path]:
    """Directories in /run/vetro whose data directory is gone: pytest without `make` left them."""
    return [
        runtime
        for runtime in sorted(RUNTIME.glob("*-*"))
        if (homes := homes_of(runtime)) and not any(home.exists() for home in homes)
    ]


def homes_of(runtime: Path) -> set[Path]:
    """The node directories that the configurations of its containers name."""
    homes: set[Path] = set()
    for config in runtime.glob("*/config"):
        with contextlib.suppress(OSError):
            found = re.findall(r"^lxc\.log\.file = (.+)/vms/[^/]+/", config.read_text(), re.M)
            homes.update(Path(home) for home in found)
    return homes


def is_dead(directory: Path) -> bool:
    """Whether nobody holds this directory of ours."""
    with contextlib.suppress(OSError):
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.geteuid() in (0, os.fstat(opened).st_uid)
        finally:
            os.close(opened)
    return False


def remove(directory: Path) -> None:
    """Remove a directory with the processes, mounts, devices and interfaces that belong to it."""
    end(directory)
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():  # what a test made immutable
        subprocess.run(["chattr", "-R", "-i", "-a", directory], capture_output=True)
        shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        print(f"{directory} cannot be removed: look for what holds it (lsof, findmnt).")


def end(directory: Path) -> None:
    """End what belongs to a directory outside of it: processes, mounts, devices, interfaces."""
    undo({directory}, *vetros(directory))


def undo(directories: set[Path], runtimes: list[Path], names: set[str]) -> None:
    """End what belongs to these directories and to the Vetros with these in /run/vetro and machines."""
    kill({str(one) for one in (*directories, *runtimes)}, names)
    for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        if any(f"{one}/" in line for one in (*directories, *runtimes)):
            subprocess.run(["umount", "--lazy", line.split()[4]], capture_output=True)
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if file.read_text().startswith(tuple(f"{one}/" for one in directories)):
                device = f"/dev/{file.parent.parent.name}"
                subprocess.run(["losetup", "--detach", device], capture_output=True)
    groups = [f"lxc.{kind}.{name}*" for name in names for kind in ("payload", "monitor")]
    for pattern in (*groups, *(one.name for one in runtimes)):
        for group in (
            *Path("/sys/fs/cgroup").glob(pattern),
            *Path("/sys/fs/cgroup").glob(f"*/{pattern}"),
        ):
            # What goes by itself meanwhile is passed over; `rglob` would fail.
            for below, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(below)
    for runtime in runtimes:
        shutil.rmtree(runtime, ignore_errors=True)
        unlink(runtime.name.rpartition("-")[0])


def vetros(directory: Path) -> tuple[list[Path], set[str]]:
    """Of each Vetro below a directory: its directory in /run/vetro; and the names of all their machines."""
    runtimes: list[Path] = []
    names: set[str] = set()
    for parent, below, _ in os.walk(directory):
        if Path(parent).name == "vms":
            label = hashlib.sha256(parent.encode()).hexdigest()[:8]
            runtimes += RUNTIME.glob(f"*-{label}")
            names.update(name for name in below if re.fullmatch("[0-9a-f-]{36}", name))
        if Path(parent).name in ("vms", "images"):
            below.clear()  # the file systems of machines
    return runtimes, names | machines_of(runtimes)


def machines_of(runtimes: list[Path]) -> set[str]:
    """The names of the machines of Vetros with these directories, which may go meanwhile."""
    names: set[str] = set()
    for runtime in runtimes:
        with contextlib.suppress(OSError):
            names.update(one.name for one in runtime.iterdir())
    return names


def kill(marks: set[str], names: set[str]) -> None:
    """Kill the processes with a mark in their command, environment or directory, and those of machines."""
    spared: set[int] = set()
    pid = os.getpid()
    while pid > 0:
        spared.add(pid)
        pid = parent_of(pid)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = [pid for pid in processes() if pid not in spared and belongs(pid, marks, names)]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def processes() -> list[int]:
    """The processes of this machine."""
    return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]


def parent_of(pid: int) -> int:
    """The parent of a process; 0 without one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def belongs(pid: int, marks: set[str], names: set[str]) -> bool:
    """Whether a process has one of these marks, or is in the control group of one of these machines."""
    place = Path(f"/proc/{pid}")
    texts: list[str] = []
    with contextlib.suppress(OSError):
        if (place / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False  # its parent has not heard of it
        groups = (place / "cgroup").read_text()
        if any(f".{name}" in groups for name in names):
            return True
        texts += [(place / file).read_text(errors="replace") for file in ("cmdline", "environ")]
        texts += [os.readlink(place / "cwd")]
    return any(mark in text for mark in marks for text in texts)


def unlink(prefix: str) -> None:
    """Remove the interfaces and tables of a Vetro's prefix, unless another one has it."""
    if not prefix or any(RUNTIME.glob(f"{prefix}-*")):
        return
    for link in Path("/sys/class/net").iterdir():
        if re.fullmatch(rf"{prefix}([bvxl][0-9a-f]{{8}}|ext)", link.name):
            subprocess.run(["ip", "link", "delete", link.name], capture_output=True)
    listed = subprocess.run(["nft", "--json", "list", "tables"], capture_output=True, text=True)
    for entry in json.loads(listed.stdout or "{}").get("nftables", []):
        table = entry.get("table", {})
        if table.get("name") == ("vetro" if prefix == "vt" else f"vetro_{prefix}"):
            subprocess.run(["nft", "delete", "table", table["family"], table["name"]])


def main() -> None:
    sweep()
    # Of pytest without `make`: what it could not remove itself, mostly because something is mounted there.
    for place in PLACES[0].glob("pytest-of-*"):
        for garbage in place.glob("garbage-*"):
            print(f"Removing what pytest could not: {garbage}", flush=True)
            remove(garbage)


if __name__ == "__main__":
    main()
