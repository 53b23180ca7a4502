"""Small state files: JSON, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec


def write_json(path: Path, value: object, *, mode: int = 0o600) -> None:
    """Replace ``path`` with ``value`` in one step: a reader sees the old text or the new one."""
    write_bytes(path, msgspec.json.encode(value), mode=mode)


def write_bytes(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace ``path`` with ``data`` in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def read_json(path: Path) -> Any:
    """The value in ``path``; ``None`` when the file is missing or a power failure cut it short."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def remove_tree(path: Path) -> None:
    """Remove a directory with all it holds; one that is not there is removed already."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)
