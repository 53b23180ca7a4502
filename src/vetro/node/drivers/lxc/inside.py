"""Inspecting a running container from outside: processes, control groups, users."""

from __future__ import annotations

import os
from pathlib import Path

from vetro.digits import is_number
from vetro.node.errors import DriverError
from vetro.node.guest.root import GuestRoot
from vetro.node.processes import processes_by_pid


def processes_in(init: int) -> dict[str, object]:
    """The processes of the container whose first process is ``init``, by their pid inside."""
    try:
        namespace = os.readlink(f"/proc/{init}/ns/pid")
    except FileNotFoundError:
        return {}
    found: dict[str, object] = {}
    for pid, argv in processes_by_pid():
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") != namespace:
                continue
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            # Ended meanwhile, or a process of the machine with more privileges than the agent.
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        inner = fields["NSpid"].split()[-1]
        found[inner] = {
            "pid": int(inner),
            "host_pid": pid,
            "command": argv or [fields["Name"].strip()],
            "state": fields["State"].split()[0],
            "rss_bytes": int(fields.get("VmRSS", "0").split()[0]) * 1024,
        }
    return found


def find_user(root: GuestRoot, wanted: str) -> tuple[int, int, str]:
    """User id, group id and home of ``name``, ``uid`` or ``user:group`` by the guest's own files.

    Errors: ``DriverError`` ``InvalidPayload`` for a name the guest does not have.
    """
    user, _, group = wanted.partition(":")
    uid, gid, home = 0, 0, "/root"
    if user:
        rows = _rows(root, "/etc/passwd")
        row = next((r for r in rows if len(r) > 5 and user in (r[0], r[2])), None)
        if row is not None and is_number(row[2]) and is_number(row[3]):
            uid, gid, home = int(row[2]), int(row[3]), row[5]
        elif is_number(user):
            uid, home = int(user), "/"
        else:
            raise _unknown("user", user)
    if group:
        rows = _rows(root, "/etc/group")
        row = next((r for r in rows if len(r) > 2 and group in (r[0], r[2])), None)
        if row is not None and is_number(row[2]):
            gid = int(row[2])
        elif is_number(group):
            gid = int(group)
        else:
            raise _unknown("group", group)
    return uid, gid, home


def _rows(root: GuestRoot, name: str) -> list[list[str]]:
    text = (root.read(name) or b"").decode("utf-8", "replace")
    return [line.split(":") for line in text.splitlines()]


def _unknown(kind: str, name: str) -> DriverError:
    return DriverError(
        f"The guest has no {kind} '{name}'", code="EINVAL", rest_code="InvalidPayload"
    )
