"""The process that runs a plan, separate from the agent so that it can be killed as a whole.

It is forked (the agent has no threads), leads a process group of its own, and holds a lock
on the plan's `running` file as long as it lives. By that lock, an agent that was killed and
restarted finds that the plan is still running, and takes the child over.
"""

import fcntl
import json
import os
import signal
import sys
import time

from . import log
from .documents import read_json
from .spool import sync_directory, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_GRACE_SECONDS = 5.0


class Child:
    """A plan being run. `pid` is None for one that a former agent process started."""

    def __init__(
        self, folder: str, plan_id: "str | None", group: int, pid: "int | None", lock: int
    ) -> None:
        self.folder = folder
        self.plan_id = plan_id
        self.group = group
        self._pid = pid
        self._lock = lock
        self.deadline: "float | None" = None
        """The `time.monotonic()` after which the plan has run too long."""
        self.status = 0

    @property
    def adopted(self) -> bool:
        """True if no SIGCHLD will report its end."""
        return self._pid is None

    def ended(self) -> bool:
        """True once the process is gone."""
        if self._pid is not None:
            try:
                pid, self.status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:
                pid = self._pid
            if pid == 0:
                return False
            self._pid = None
        elif not _try_lock(self._lock):
            return False
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        return True

    def kill(self) -> None:
        """End the whole process group: with SIGTERM, then with SIGKILL. Waits for the end."""
        for number, patience in ((signal.SIGTERM, _GRACE_SECONDS), (signal.SIGKILL, 30.0)):
            try:
                os.killpg(self.group, number)
            except ProcessLookupError:
                pass  # it ended by itself meanwhile
            limit = time.monotonic() + patience
            while time.monotonic() < limit:
                if self.ended():
                    _kill_rest(self.group)
                    return
                time.sleep(0.02)
        log.error("The process group %d does not die" % self.group)


def claim(folder: str) -> int:
    """Mark the plan in `folder` durably as begun (also after a power cut); returns the lock."""
    path = os.path.join(folder, "running")
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fsync(lock)
        sync_directory(folder)
    except OSError:
        os.close(lock)
        raise
    return lock


def count_start(folder: str) -> int:
    """Count one more start of a plan that was cut off; how many there were."""
    path = os.path.join(folder, "starts")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b".")
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def disclaim(folder: str, lock: int) -> None:
    """Remove the mark of a plan that could not be begun; it will be tried again."""
    os.close(lock)
    os.unlink(os.path.join(folder, "running"))


def start(
    folder: str,
    lock: int,
    plan_id: "str | None",
    seconds: "float | None",
    work: "Callable[[], bytes | None]",
    before: "Callable[[], None]",
) -> Child:
    """Fork a child that writes `work()` as `result.json` into the `claim`ed `folder`, unless it is None.

    `before` runs first in the child (it closes the agent's connections).
    """
    deadline = time.monotonic() + seconds if seconds is not None else None
    pid = os.fork()
    if pid == 0:
        _run(folder, plan_id, deadline, lock, work, before)
    os.close(lock)
    try:
        os.setpgid(pid, pid)  # both sides call it, because either may come first
    except OSError:
        pass  # the child has called it already
    child = Child(folder, plan_id, pid, pid, -1)
    child.deadline = deadline
    return child


def adopt(folder: str) -> "Child | None":
    """The child of a former agent that still runs the plan of `folder`, or None."""
    path = os.path.join(folder, "running")
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if _try_lock(lock):
        os.close(lock)
        return None
    with open(path, "rb") as stream:
        data = stream.read()
    try:
        note = read_json(data)
        child = Child(folder, note["id"], note["group"], None, lock)
        # It is alive, so the machine was not restarted and the clock is the one it was started by.
        child.deadline = note.get("ends")
        if note.get("deadline") is not None:  # an agent before 1.1 used the other clock
            child.deadline = note["deadline"] - time.time() + time.monotonic()
    except (ValueError, KeyError, TypeError):
        # The agent was killed between the fork and the child's first line, which comes in a moment.
        os.close(lock)
        time.sleep(0.1)
        return adopt(folder)
    return child


def _run(
    folder: str,
    plan_id: "str | None",
    deadline: "float | None",
    lock: int,
    work: "Callable[[], bytes | None]",
    before: "Callable[[], None]",
) -> None:
    """Run the child's work and exit; never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        note = {"id": plan_id, "group": os.getpid(), "ends": deadline}
        os.pwrite(lock, json.dumps(note).encode("utf-8"), 0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        before()
        os.dup2(log.descriptor(), 1)  # a body that prints writes to the log
        os.dup2(log.descriptor(), 2)
        sys.stdout = sys.stderr = log.stream()  # and does not fail when the log's disk is full
        result = work()
        if result is not None:
            write_file(os.path.join(folder, "result.json"), result)
        sys.stdout.flush()
        code = 0
    except BaseException as error:  # noqa: BLE001 nothing may return into the agent's loop
        log.error("The plan's process broke: %s: %s" % (type(error).__name__, error))
    finally:
        os._exit(code)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _kill_rest(group: int) -> None:
    """Kill what is left in the group after its leader has ended."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass  # nothing was left
