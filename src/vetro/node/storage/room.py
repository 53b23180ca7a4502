"""Shared by all pools: the place of snapshots, and the errors for a full pool."""

from __future__ import annotations

from pathlib import Path

from vetro.node.errors import CommandFailed, DriverError

_FULL = ("no space left", "quota exceeded", "out of space", "insufficient free space")


def is_full(text: str) -> bool:
    """Whether a tool's output means that the disk or a quota is full."""
    return any(words in text.lower() for words in _FULL)


def storage_error(what: str, error: CommandFailed) -> DriverError:
    """A tool's failure as an error that says whether the disk was full."""
    if is_full(error.output):
        return DriverError(
            f"{what}: the disk is full", code="ENOSPC", rest_code="ResourceExhausted"
        )
    return DriverError(f"{what}: {error}")


def check_room(used: int, quota_bytes: int) -> None:
    """Refuse a quota (0: none) below what is used. Errors: ``DriverError`` ``ResourceExhausted``."""
    if quota_bytes and used > quota_bytes:
        raise DriverError(
            f"A quota of {quota_bytes >> 20} MiB is less than the {used >> 20} MiB in use",
            code="EDQUOT",
            rest_code="ResourceExhausted",
        )


def snapshot_path(directory: Path, name: str) -> Path:
    """The path of a VM's snapshot. The prefix allows names that begin with a dot."""
    return directory / "snapshots" / f"at-{name}"
