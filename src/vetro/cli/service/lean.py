"""What the long-running processes do not load."""

from __future__ import annotations

import importlib
import sys


def import_without(library: str, hidden: str) -> None:
    """Import a library that takes another one if it can, without that one."""
    kept = sys.modules.pop(hidden, None)
    sys.modules[hidden] = None  # type: ignore[assignment]  # what makes an import fail
    try:
        importlib.import_module(library)
    finally:
        del sys.modules[hidden]
        if kept is not None:
            sys.modules[hidden] = kept
