"""Functions of generated modules that become Python code when they are first called.

Python's compiler takes more time for a class than everything before it (reading, checking, writing
the source), and a run calls few of a class's methods. So a module's functions exist from the start,
all of them as the function below; the first call compiles the lines of that one function and gives
the same function object its code. Whoever holds the function, a class, a call site, a table, has
the compiled one from then on, and later calls cost what they always did.

Nothing that can be wrong with a class waits for this: its source was written, so everything was
parsed and resolved. What only Python's compiler could refuse (blocks nested too deep for it) is
compiled at once.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, cast

DEEP = " " * 64
"""The indentation from which on a function is compiled at once: Python takes twenty blocks."""
LONG = 20_000
"""The characters of a line from which on a function is compiled at once."""


class Section:
    """One function of a module: its name and its lines, `start` to `end`, counted from 0."""

    __slots__ = ("compiled", "end", "function", "name", "start")

    def __init__(self, name: str, start: int) -> None:
        self.name = name
        self.start = self.end = start
        self.function: Any = None
        self.compiled = False

    def text(self, lines: list[str]) -> str:
        """The section's source; its line numbers are those of the whole module."""
        return "\n" * self.start + "\n".join(lines[self.start : self.end]) + "\n"

    def may_be_refused(self, lines: list[str]) -> bool:
        """True when Python's compiler might find the lines too deeply nested."""
        return any(
            line.startswith(DEEP) or len(line) > LONG for line in lines[self.start : self.end]
        )

    def defer(
        self, namespace: dict[str, Any], compile_: Callable[[Section], Callable[..., Any]]
    ) -> None:
        """Make the function, which calls `compile_` when it is called."""
        made = FunctionType(_first_call.__code__, namespace, self.name)
        made.__qualname__ = self.name  # what Python calls it when its arguments are wrong
        made.__kwdefaults__ = {"y_section": self, "y_compile": compile_}
        self.function = made
        namespace[self.name] = made

    def adopt(self, real: Callable[..., Any]) -> None:
        """Make the function what `real` is. Other threads may be calling it."""
        made, found = cast(FunctionType, self.function), cast(FunctionType, real)
        # In this order: code without its defaults would miss arguments.
        made.__defaults__ = found.__defaults__
        made.__code__ = found.__code__
        made.__kwdefaults__ = found.__kwdefaults__
        self.compiled = True


def _first_call(
    *args: Any,
    y_section: Section,
    y_compile: Callable[[Section], Callable[..., Any]],
    **named: Any,
) -> Any:
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
