"""The agent's log: one line an event, to standard error or to a file.

Not the `logging` package: importing it costs more than the whole first poll.
"""

import os
import sys
import time

_stream = sys.stderr


def to_file(path: str) -> None:
    """Append to `path` from now on (made with its directory, readable by the owner only)."""
    global _stream
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _stream = os.fdopen(descriptor, "a", 1, encoding="utf-8", errors="backslashreplace")


def descriptor() -> int:
    """The file descriptor of the log, for the output of programs the agent starts."""
    return _stream.fileno()


def info(message: str) -> None:
    """Something worth knowing."""
    _write("INFO", message)


def warning(message: str) -> None:
    """Something went wrong and is being dealt with."""
    _write("WARNING", message)


def error(message: str) -> None:
    """Something went wrong and stays so."""
    _write("ERROR", message)


def _write(level: str, message: str) -> None:
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    _stream.write("%s.%03dZ %s %s\n" % (stamp, int(now * 1000) % 1000, level, message))
    _stream.flush()
