"""Addresses of databases: ``sqlite:///PATH`` and ``postgresql://USER:PASSWORD@HOST/NAME``."""

from __future__ import annotations

from pathlib import Path

_SQLITE = "sqlite:///"


def sqlite_file(url: str) -> Path | None:
    """The file of an SQLite database; ``None`` for another kind of address.

    All of the address is the path: a directory may have a ``?`` or a ``#`` in its name, after which a
    reader of URLs takes the rest for a query.
    """
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None
