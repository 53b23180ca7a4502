"""From Python frames back to MuranoPL frames.

Generated code does no bookkeeping for stack traces. Each unit of generated code has a file name of
its own and a table from its lines to the source; a trace is made from a Python traceback on demand
(muranopl.md section 11).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, cast

from vetro.muranopl.classes.objects import MuranoObject
from vetro.muranopl.values.errors import Position, StackFrame

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import MuranoType

_PREFIX = "<muranopl "
UNIT = "y_unit"
"""The global of a generated module that holds its unit: code is shared, modules are not."""


@dataclass(slots=True)
class _Line:
    method: str
    position: Position | None
    instruction: str | Callable[[], str]


@dataclass(slots=True, eq=False)
class CodeUnit:
    """One compiled piece of generated source, with the source places of its lines."""

    owner: MuranoType | None
    filename: str
    lines: list[str] = field(default_factory=list[str])
    table: dict[int, _Line] = field(default_factory=dict[int, _Line])
    _method: str = ""
    _line: _Line | None = None

    @classmethod
    def create(cls, owner: MuranoType | None, title: str) -> CodeUnit:
        """A new unit; the name of its file is the same in every process."""
        return cls(owner, f"{_PREFIX}{title}>")

    @property
    def method(self) -> str:
        """The method whose lines are being written."""
        return self._method

    @method.setter
    def method(self, name: str) -> None:
        self._method = name
        if self._line is not None:
            self._line = _Line(name, self._line.position, self._line.instruction)

    def at(self, position: Position | None, instruction: str | Callable[[], str] = "") -> None:
        """Map the lines that follow to this place."""
        self._line = None if position is None else _Line(self._method, position, instruction)

    def write(self, line: str, indent: int = 0) -> None:
        """Append a line of Python."""
        self.lines.append("    " * indent + line)
        if self._line is not None:
            self.table[len(self.lines)] = self._line

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def unit_of(frame: FrameType) -> CodeUnit | None:
    """The unit whose code runs in a frame."""
    if frame.f_code.co_filename.startswith(_PREFIX):
        return cast("CodeUnit | None", frame.f_globals.get(UNIT))
    return None


def calling_type(depth: int = 1) -> MuranoType | None:
    """The class with the innermost class code on the running green thread's Python stack."""
    frame: FrameType | None = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PREFIX):
            unit = unit_of(frame)
            if unit is not None and unit.owner is not None:
                return unit.owner
        frame = frame.f_back
    return None


@dataclass(frozen=True, slots=True)
class CallingPlace:
    """A place of a class's code that is being run: the statement, and for which object."""

    this: MuranoObject | None
    owner: MuranoType
    """The class that the statement is written in."""
    method: str
    statement: str


def calling_places() -> Iterator[CallingPlace]:
    """The places of class code on the running green thread's Python stack, innermost first."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        unit = unit_of(frame)
        if unit is not None and unit.owner is not None:
            this = frame.f_locals.get("this")
            called = this if isinstance(this, MuranoObject) else None
            # Code that the compiler adds, and what is evaluated apart, has no line of the class.
            is_own = unit is unit.owner.own_code().unit
            line = unit.table.get(frame.f_lineno) if is_own else None
            method, text = (line.method, _text(line)) if line is not None else ("", "")
            yield CallingPlace(called, unit.owner, method, text)
        frame = frame.f_back


def statements_of(type_: MuranoType) -> set[tuple[str, str]]:
    """Everything that a class's own code has: methods and statements, as `calling_places` gives them."""
    return {(line.method, _text(line)) for line in type_.own_code().unit.table.values()}


def _text(line: _Line) -> str:
    return line.instruction if isinstance(line.instruction, str) else line.instruction()


def _frame(unit: CodeUnit, lineno: int) -> StackFrame | None:
    line = unit.table.get(lineno)
    if line is None or not line.method:
        return None
    name = unit.owner.name if unit.owner is not None else "?"
    return StackFrame(name, line.method, line.position, _text(line))


Place = tuple[CodeUnit, int, str]
"""Unit, line, name of the Python function."""


def _from_traceback(traceback: TracebackType | None) -> Iterator[Place]:
    while traceback is not None:
        unit = unit_of(traceback.tb_frame)
        if unit is not None:
            yield unit, traceback.tb_lineno, traceback.tb_frame.f_code.co_name
        traceback = traceback.tb_next


def _from_stack(frame: FrameType | None) -> list[Place]:
    places: list[Place] = []
    while frame is not None:
        unit = unit_of(frame)
        if unit is not None:
            places.append((unit, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    places.reverse()
    return places


def to_frames(places: Iterator[Place] | list[Place]) -> list[StackFrame]:
    """MuranoPL frames for places in Python code.

    The lambdas of a statement belong to the frame of its method.
    """
    frames: list[StackFrame] = []
    for unit, lineno, function in places:
        frame = _frame(unit, lineno)
        if frame is None:
            continue
        if function.startswith("m_") or not frames or frames[-1] != frame:
            frames.append(frame)
    return frames


def outer_places(frame: FrameType | None) -> list[Place]:
    """The current places of a frame's callers, outermost first."""
    return _from_stack(frame.f_back if frame is not None else None)


def joined(outer: list[Place], inner: TracebackType | None) -> list[StackFrame]:
    """The MuranoPL stack: the callers of the catching method, then the error's own path."""
    return to_frames([*outer, *_from_traceback(inner)])


def current_stack() -> list[StackFrame]:
    """The MuranoPL stack of the caller, outermost first."""
    return to_frames(_from_stack(sys._getframe(1)))  # pyright: ignore[reportPrivateUsage]
