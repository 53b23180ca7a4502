"""The agent's log: one line per event, to standard error or to a file.

Logging never raises. A full disk or a closed terminal must not stop the agent: lines that cannot
be written are counted, and the next written line says how many are missing.

A file that has grown to `limit` bytes is copied to `<path>.1`, which is replaced, and emptied. It
is not renamed, because plans and user data scripts write to the same open file.

Not the `logging` package: importing it takes longer than the whole first poll.
"""

import io
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIMIT = 4 << 20

_descriptor = 2
_path = ""
_limit = LIMIT
_lost = 0


def to_file(path: str) -> bool:
    """Append to `path` from now on; False (and a line in the former log) if that is impossible.

    The file is readable only by its owner; its directory, if it is created, by everybody.
    """
    global _descriptor, _path
    try:
        make_folder(os.path.dirname(path) or ".")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        _descriptor = os.open(path, flags, 0o600)
    except OSError as problem:
        error("The log goes to standard error: %s cannot be written: %s" % (path, problem))
        return False
    _path = path
    return True


def keep(limit: int) -> None:
    """Set the bytes at which the file is rotated (0: never); `<path>.1` has as many at most."""
    global _limit
    _limit = limit


def is_file() -> bool:
    """True if the log goes to a file, which a person at the terminal does not see."""
    return bool(_path)


def descriptor() -> int:
    """The file descriptor of the log, for the output of programs the agent starts."""
    return _descriptor


def info(message: str) -> None:
    """Log an event."""
    _write("INFO", message)


def warning(message: str) -> None:
    """Log an error that the agent handles."""
    _write("WARNING", message)


def error(message: str) -> None:
    """Log an error that remains."""
    _write("ERROR", message)


def rotate() -> None:
    """Rotate the file if it is too long. The agent calls this at times: others write to it too."""
    if not _path or not _limit:
        return
    try:
        if os.fstat(_descriptor).st_size >= _limit:
            _keep_former()
            os.truncate(_path, 0)
    except OSError:
        pass  # the agent must not fail because of its log; the next line tries again


class _Raw(io.RawIOBase):
    """The log as a file to which writing never fails."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return _descriptor

    def write(self, data: "Any") -> int:
        _put(bytes(data))
        return len(data)


def stream() -> io.TextIOWrapper:
    """The stream that a plan's body prints to: the log, which never raises."""
    buffered = io.BufferedWriter(_Raw())
    return io.TextIOWrapper(buffered, "utf-8", "backslashreplace", line_buffering=True)


def _put(data: bytes) -> bool:
    """Write bytes as they are; False if they could not be written."""
    try:
        while data:
            data = data[os.write(_descriptor, data) :]
    except (OSError, ValueError):
        return False
    return True


def make_folder(path: str) -> None:
    """Make a folder for every user, like those beside it. The agent's umask is tighter."""
    former = os.umask(0o022)
    try:
        os.makedirs(path, exist_ok=True)
    finally:
        os.umask(former)


def _write(level: str, message: str) -> None:
    global _lost
    rotate()
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    line = "%s.%03dZ %s %s\n" % (stamp, int(now * 1000) % 1000, level, message)
    if _lost:
        line = "[%d lines are missing: they could not be written]\n" % _lost + line
    if _put(line.encode("utf-8", "backslashreplace")):
        _lost = 0
    else:
        _lost += 1


def _keep_former() -> None:
    """Copy the file to `<path>.1`. On a full disk remove the former copy to make room."""
    former = _path + ".1"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        target = os.open(former + ".new", flags, 0o600)  # the same in a plan, whose umask differs
        with open(_path, "rb") as source, os.fdopen(target, "wb") as stream:
            while True:
                block = source.read(1 << 20)
                if not block:
                    break
                stream.write(block)
        os.rename(former + ".new", former)
    except OSError:
        for name in (former + ".new", former):
            try:
                os.unlink(name)
            except OSError:
                pass  # it does not exist, or cannot be removed
