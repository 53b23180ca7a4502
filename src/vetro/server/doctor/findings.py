"""What an examination found."""

from __future__ import annotations

from functools import partial
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


ok = partial(Finding, "ok")
warning = partial(Finding, "warning")
error = partial(Finding, "error")
