"""Addresses of databases: ``sqlite:///PATH`` and ``postgresql://USER:PASSWORD@HOST/NAME``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

CONNECT_SECONDS = 15
"""How long each address of a PostgreSQL server may take to answer: the driver's own patience is 130 seconds
(decision 0836)."""
_SQLITE = "sqlite:///"


def sqlite_file(url: str) -> Path | None:
    """The file of an SQLite database; ``None`` for another kind of address.

    All of the address is the path: a directory may have a ``?`` or a ``#`` in its name, after which a
    reader of URLs takes the rest for a query.
    """
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def patience(url: str) -> dict[str, Any]:
    """The driver's ``connect_timeout``, where neither the address nor the environment says one."""
    said = "connect_timeout=" in url or "PGCONNECT_TIMEOUT" in os.environ
    return {} if said else {"connect_timeout": CONNECT_SECONDS}
