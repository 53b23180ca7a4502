"""Which values the frames of class code hold for the program (muranopl.md section 21).

A variable or an argument holds its value until it is assigned or its method ends. A temporary of
the compiler holds its value only while a line that uses it runs: an object of an earlier statement
is no longer held, an object that is being passed to a call is.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

ELEMENTS = "elements_"
"""The prefix of locals that hold the elements of a `For`; they are cleared when it ends."""
_PROGRAM = ("a_", "b_", ELEMENTS)


def live_values(frame: FrameType) -> Iterator[object]:
    """The values of a frame that the program can still reach, or is about to use."""
    code = frame.f_code
    bound, by_line = _names_of(code)
    used = by_line.get(frame.f_lineno, frozenset())
    for name, value in frame.f_locals.items():
        if name in bound or name in used or name.startswith(_PROGRAM):
            yield value


@functools.lru_cache(1024)
def _names_of(code: CodeType) -> tuple[frozenset[str], dict[int, frozenset[str]]]:
    """Arguments and variables of outer functions, and the locals that each line uses."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    bound = frozenset((*code.co_varnames[:count], *code.co_freevars))
    known: set[Any] = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    lines: dict[int, set[str]] = {}
    for instruction in dis.get_instructions(code):
        line = instruction.positions.lineno if instruction.positions is not None else None
        if line is None:
            continue
        named: Any = instruction.argval
        if named.__class__ is not tuple:  # some instructions work on two locals at once
            named = (named,)
        found = known.intersection(named)
        if found:
            lines.setdefault(line, set()).update(found)
    return bound, {line: frozenset(names) for line, names in lines.items()}
