"""What the readers of sources find: errors, which refuse what they are in, and advice.

Every reader reports to a `Sink` and reads on; at its end it asks the sink to raise the error that
comes first in the source, which a sink that collects does not do. So loading and checking read with
the same code: if a check finds errors, loading fails with the first of them, and if not, it does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from vetro.muranopl.values.errors import DslSyntaxError, MuranoError, Position


# Not frozen: many are made, and a frozen one takes four times as long.
@dataclass(slots=True, unsafe_hash=True)
class Finding:
    """A message about a place of a source; `code` is one of packages-and-forms.md A8."""

    code: str
    message: str
    position: Position
    is_advice: bool = False
    """Whether it is a warning although its code is that of an error."""

    @property
    def level(self) -> Literal["error", "warning"]:
        return "error" if self.code.startswith("E") and not self.is_advice else "warning"

    @classmethod
    def of(cls, error: MuranoError, place: Position) -> Finding:
        """A finding for an error; `place` is used when the error has no position."""
        text = f"{error.message}; {error.hint}" if error.hint else error.message
        return cls(error.lint_code, text, error.position or place)


class Sink:
    """Takes what readers find. `collects`: a check continues with what can be read."""

    __slots__ = ("advice", "collects", "dormant", "errors")

    def __init__(self, *, collects: bool = False, advice: list[Finding] | None = None) -> None:
        self.collects = collects
        self.errors: list[MuranoError] = []
        self.dormant: list[MuranoError] = []
        """Errors inside methods, which are raised where the method is called."""
        self.advice: list[Finding] = [] if advice is None else advice

    def fail(
        self,
        code: str,
        message: str,
        position: Position,
        hint: str | None = None,
        *,
        kind: type[MuranoError] = DslSyntaxError,
        names: Iterable[str] | None = None,
    ) -> None:
        """Record an error."""
        error = kind(message, position=position, hint=hint, names=names)
        error.lint_code = code
        self.errors.append(error)

    def advise(
        self, code: str, message: str, position: Position, *, is_advice: bool = False
    ) -> None:
        """Record something that refuses nothing."""
        self.advice.append(Finding(code, message, position, is_advice))

    @property
    def first(self) -> MuranoError | None:
        """The error that comes first in the source."""
        return min(self.errors, key=_place) if self.errors else None

    def end(self) -> None:
        """At the end of a reader: raise the first error, unless this sink collects."""
        if self.errors and not self.collects:
            raise min(self.errors, key=_place)


def _place(error: MuranoError) -> tuple[int, int, str]:
    """Also the order of findings, so that the first error of a check is the one that is raised."""
    place = error.position
    return (place.line, place.column, error.lint_code) if place else (0, 0, "")


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a name."""
    near = get_close_matches(name, [item for item in known if item[:1] != "."], 1, 0.6)
    return near[0] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint that names the closest of the known names."""
    near = closest(name, known)
    return f"did you mean {near}?" if near else None
