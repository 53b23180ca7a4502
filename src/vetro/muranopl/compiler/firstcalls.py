"""Functions of generated modules that become Python code when they are first called.

Python's compiler takes more time for a class than all earlier steps (reading, checking and writing
the source), and a run calls few of a class's methods. So each function of a module begins as a stub
(`Section.defer`). The first call compiles the lines of that function and puts the code into the
same function object. All references to it (in a class, a call site, a table) then run the compiled
code, at no extra cost per call.

Errors in a class are not delayed: writing the source has already parsed and resolved everything.
Functions that only Python's compiler could refuse (blocks nested too deep) are compiled at once.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from vetro.muranopl.values.errors import MuranoError

DEEP = " " * 64
"""A function indented this deep is compiled at once: Python allows twenty nested blocks."""
LONG = 20_000
"""A function with a line of this many characters is compiled at once."""


class Section:
    """One function of a module: its name and its lines, `start` to `end`, counted from 0."""

    __slots__ = ("compiled", "end", "function", "name", "refuse", "start")

    def __init__(
        self, name: str, start: int, refuse: Callable[[MuranoError], None] | None = None
    ) -> None:
        self.name = name
        self.refuse = refuse
        """Called when it cannot be compiled; None if the class cannot work without it."""
        self.start = self.end = start
        self.function: Any = None
        self.compiled = False

    def text(self, lines: list[str]) -> str:
        """The section's source; its line numbers are those of the whole module."""
        return "\n" * self.start + "\n".join(lines[self.start : self.end]) + "\n"

    def may_be_refused(self, lines: list[str]) -> bool:
        """True when Python's compiler might find the lines too deeply nested."""
        section = lines[self.start : self.end]
        return DEEP in "\n".join(section) or max(map(len, section), default=0) > LONG

    def defer(
        self, namespace: dict[str, object], compile_: Callable[[Section], Callable[..., object]]
    ) -> None:
        """Make the stub, which calls `compile_` on its first call."""
        made = FunctionType(_first_call.__code__, namespace, self.name)
        made.__qualname__ = self.name  # the name in Python's errors about wrong arguments
        made.__kwdefaults__ = {"y_section": self, "y_compile": compile_}
        self.function = made
        namespace[self.name] = made

    def adopt(self, real: Callable[..., Any]) -> None:
        """Give the stub the code and defaults of `real`. Other threads may be calling it."""
        made, found = cast(FunctionType, self.function), cast(FunctionType, real)
        # Defaults first: a call of the new code without its defaults would lack arguments.
        made.__defaults__ = found.__defaults__
        made.__code__ = found.__code__
        made.__kwdefaults__ = found.__kwdefaults__
        self.compiled = True


def _first_call(
    *args: object,
    y_section: Section,
    y_compile: Callable[[Section], Callable[..., object]],
    **named: object,
) -> object:
    return y_compile(y_section)(*args, **named)


def global_names(code: CodeType) -> set[str]:
    """Names that a piece of code and the functions in it look up in their module."""
    found: set[str] = set()
    stack = [code]
    while stack:
        item = stack.pop()
        found.update(item.co_names)
        stack.extend(part for part in item.co_consts if isinstance(part, CodeType))
    return found
