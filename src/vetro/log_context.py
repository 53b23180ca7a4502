"""What lines of the log say of the work that they were written for: its request, deployment or call.

structlog keeps each value in a context variable of its own, and goes through all variables of the process
for each line; a request has three lines.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token

_NOTHING: Mapping[str, str] = {}
_said: ContextVar[Mapping[str, str]] = ContextVar("said", default=_NOTHING)

Before = Token[Mapping[str, str]]


def say(**values: str) -> Before:
    """Add values to the lines of this task, until `take_back`, and to those of tasks that it starts."""
    return _said.set({**_said.get(), **values})


def take_back(before: Before) -> None:
    """Say again what was said before."""
    _said.reset(before)


@contextmanager
def saying(**values: str) -> Generator[None]:
    """Add values to the lines that are written within the block."""
    before = say(**values)
    try:
        yield
    finally:
        take_back(before)


def said() -> Mapping[str, str]:
    """The values of this task's lines."""
    return _said.get()
