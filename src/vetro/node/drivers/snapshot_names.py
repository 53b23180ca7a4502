"""Names of snapshots."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from vetro.node.errors import DriverError

_SNAPSHOT = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def no_snapshot(uuid: str, name: str) -> DriverError:
    """``SnapshotNotFound``."""
    return DriverError(
        f"VM {uuid} has no snapshot {name}", code="ENOENT", rest_code="SnapshotNotFound"
    )


def check_snapshot_name(name: str) -> None:
    """Errors: ``InvalidPayload``."""
    if not _SNAPSHOT.fullmatch(name) or name in (".", ".."):
        raise DriverError(
            f"'{name}' is not a snapshot name: 1 to 64 letters, digits, '_', '.', '-'",
            code="EINVAL",
            rest_code="InvalidPayload",
        )


def free_name(taken: set[str]) -> str:
    """The current time, with a number when several snapshots are taken within one second."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name, number = stamp, 1
    while name in taken:
        number += 1
        name = f"{stamp}-{number}"
    return name
