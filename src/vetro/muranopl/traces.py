"""From Python frames back to MuranoPL frames.

Generated code carries no bookkeeping for stack traces. Each unit of generated code has a file name
of its own, and a table from its lines to the source; a trace is made from a Python traceback when
somebody asks for one (muranopl.md section 11).
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from .errors import Position, StackFrame

if TYPE_CHECKING:
    from .types import MuranoType

_UNITS: weakref.WeakValueDictionary[str, CodeUnit] = weakref.WeakValueDictionary()
_serial = 0


@dataclass(slots=True)
class _Line:
    method: str
    position: Position | None
    instruction: str


@dataclass(slots=True, weakref_slot=True, eq=False)
class CodeUnit:
    """One compiled piece of generated source and what its lines stand for."""

    owner: MuranoType | None
    filename: str
    lines: list[str] = field(default_factory=list[str])
    table: dict[int, _Line] = field(default_factory=dict[int, _Line])
    method: str = ""
    _position: Position | None = None
    _instruction: str = ""

    @classmethod
    def create(cls, owner: MuranoType | None, title: str) -> CodeUnit:
        """A new unit, known to `frames` as long as somebody holds it."""
        global _serial
        _serial += 1
        unit = cls(owner, f"<muranopl {title} #{_serial}>")
        _UNITS[unit.filename] = unit
        return unit

    def at(self, position: Position | None, instruction: str = "") -> None:
        """The lines written from now on stand for this place."""
        self._position = position
        self._instruction = instruction

    def write(self, line: str, indent: int = 0) -> None:
        """Append a line of Python."""
        self.lines.append("    " * indent + line)
        if self._position is not None:
            self.table[len(self.lines)] = _Line(self.method, self._position, self._instruction)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def unit_of(filename: str) -> CodeUnit | None:
    """The unit whose code has the file name."""
    return _UNITS.get(filename) if filename.startswith("<muranopl ") else None


def calling_type(depth: int = 1) -> MuranoType | None:
    """The class whose code is nearest on the Python stack of the running green thread."""
    frame: FrameType | None = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<muranopl "):
            unit = _UNITS.get(name)
            if unit is not None and unit.owner is not None:
                return unit.owner
        frame = frame.f_back
    return None


def _frame(unit: CodeUnit, lineno: int) -> StackFrame | None:
    line = unit.table.get(lineno)
    if line is None or not line.method:
        return None
    name = unit.owner.name if unit.owner is not None else "?"
    return StackFrame(name, line.method, line.position, line.instruction)


_Place = tuple[str, int, str]
"""File name, line, name of the Python function."""


def _from_traceback(traceback: TracebackType | None) -> Iterator[_Place]:
    while traceback is not None:
        code = traceback.tb_frame.f_code
        yield code.co_filename, traceback.tb_lineno, code.co_name
        traceback = traceback.tb_next


def _from_stack(frame: FrameType | None) -> list[_Place]:
    places: list[_Place] = []
    while frame is not None:
        code = frame.f_code
        places.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    places.reverse()
    return places


def to_frames(places: Iterator[_Place] | list[_Place]) -> list[StackFrame]:
    """MuranoPL frames for places in Python code.

    The lambdas of a statement belong to the frame of its method.
    """
    frames: list[StackFrame] = []
    for filename, lineno, function in places:
        unit = unit_of(filename)
        if unit is None:
            continue
        frame = _frame(unit, lineno)
        if frame is None:
            continue
        if function.startswith("m_") or not frames or frames[-1] != frame:
            frames.append(frame)
    return frames


def outer_places(frame: FrameType | None) -> list[_Place]:
    """Where the callers of a frame stand now, outermost first."""
    return _from_stack(frame.f_back if frame is not None else None)


def joined(outer: list[_Place], inner: TracebackType | None) -> list[StackFrame]:
    """The MuranoPL stack: callers of whoever caught an error, then the error's own path."""
    return to_frames([*outer, *_from_traceback(inner)])


def current_stack() -> list[StackFrame]:
    """The MuranoPL stack of the caller, outermost first."""
    return to_frames(_from_stack(sys._getframe(1)))  # pyright: ignore[reportPrivateUsage]
