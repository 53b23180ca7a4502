"""Pause Python's cycle collector while code is compiled.

Compiling a class makes tens of thousands of objects, nearly all of which live as long as the class.
The collector would walk them repeatedly and free nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """A context without automatic collection; new objects are walked once, afterwards.

    May be nested and used by several threads: a user that found the collector enabled enables it
    again, so that it never stays off. A collector that the host has disabled stays disabled.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
