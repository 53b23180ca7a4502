"""What an examination found."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["ok", "warning", "error"]


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at: ``error`` prevents work, ``warning`` limits it.

    ``remedy`` says what to do; empty when nothing has to be done.
    """

    level: Level
    subject: str
    found: str
    remedy: str = ""


def ok(subject: str, found: str) -> Finding:
    """All is well."""
    return Finding("ok", subject, found)


def warning(subject: str, found: str, remedy: str) -> Finding:
    """Something does not work as it could."""
    return Finding("warning", subject, found, remedy)


def error(subject: str, found: str, remedy: str) -> Finding:
    """Something does not work."""
    return Finding("error", subject, found, remedy)
