"""Python's cycle collector while code is made.

Compiling a class makes tens of thousands of objects that nearly all live as long as the class. The
collector would walk them again and again and find nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """No automatic collection within; what piled up is walked once, after.

    May be nested and used by several threads: whoever found the collector on turns it on again, so
    that it never stays off, and one that the host has turned off stays so.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
