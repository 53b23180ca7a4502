"""The errors of a node.

::

    NodeError
    ├── ConfigurationError      the agent cannot run this way: names the setting and what to do
    ├── CommandFailed           a tool of the distribution ended with a failure
    ├── NetworkError            bridges, addresses or rules could not be brought to the wanted state
    ├── ImageError              an image is missing or cannot be fetched or unpacked
    │   └── ImageBuildError     the bootstrap tool failed
    ├── DriverError             a driver refused or failed (code, restCode, message)
    └── TaskFailure             a task ends in an error with structured details
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class NodeError(Exception):
    """Base of everything this room raises."""


class ConfigurationError(NodeError):
    """The agent cannot start with these settings on this machine."""


class CommandFailed(NodeError):
    """A tool failed; the message has its command line and last output."""

    def __init__(self, argv: Sequence[str], status: int, output: str) -> None:
        self.argv = list(argv)
        self.status = status
        self.output = output
        reason = f"signal {-status}" if status < 0 else f"status {status}"
        words = output.strip()[-2000:] or "it said nothing"
        super().__init__(f"{' '.join(self.argv[:6])} ended with {reason}: {words}")


class NetworkError(NodeError):
    """The wanted network state is contradictory or cannot be reached."""


class ImageError(NodeError):
    """An image cannot be used; ``rest_code`` as in compute-node-agent.md §5."""

    def __init__(self, message: str, rest_code: str = "ImageNotFound") -> None:
        self.rest_code = rest_code
        super().__init__(message)


class ImageBuildError(ImageError):
    """A root file system could not be built."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "ImageBuildFailed")


class DriverError(NodeError):
    """A driver refused or failed.

    ``code`` is the driver's own (``ENOTRUNNING``, ``EALREADYRUNNING``, ``ESRCH``, ``ENOENT``,
    ``EFAILED``), ``rest_code`` the code for callers (compute-node-agent.md §5).
    """

    def __init__(self, message: str, *, code: str = "EFAILED", rest_code: str = "") -> None:
        self.code = code
        self.rest_code = rest_code
        super().__init__(message)


def vm_not_found(uuid: str) -> DriverError:
    """No such VM on this node."""
    return DriverError(f"VM {uuid} not found", code="ENOENT", rest_code="VmNotFound")


def not_running(uuid: str) -> DriverError:
    """The operation needs a running VM."""
    return DriverError(f"VM {uuid} is not running", code="ENOTRUNNING", rest_code="VmNotRunning")


def no_process(uuid: str) -> DriverError:
    """There is no process to work on."""
    return DriverError(f"VM {uuid} has no process", code="ESRCH", rest_code="VmNotRunning")


def already_running(uuid: str) -> DriverError:
    """The VM runs already."""
    return DriverError(
        f"VM {uuid} is already running", code="EALREADYRUNNING", rest_code="VmAlreadyRunning"
    )


def has_snapshots(uuid: str) -> DriverError:
    """``VmHasSnapshots``: they belong to the root that is to be replaced."""
    return DriverError(
        f"VM {uuid} has snapshots: delete them before its image is replaced",
        rest_code="VmHasSnapshots",
    )


def not_implemented(what: str, driver: str) -> DriverError:
    """This driver does not do that."""
    return DriverError(
        f"{what} is not supported by the {driver} driver",
        code="ENOTIMPLEMENTED",
        rest_code="NotImplemented",
    )


class TaskFailure(NodeError):
    """A task's error: text, and details for programs (``restCode`` and more)."""

    def __init__(self, message: str, rest_code: str | None = None, **details: Any) -> None:
        self.details = details if rest_code is None else {"restCode": rest_code, **details}
        super().__init__(message)
