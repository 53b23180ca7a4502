"""The values that code generation passes between its functions."""

from __future__ import annotations

from ast import literal_eval
from dataclasses import dataclass, field

from . import ast
from .kinds import ANY, STRING, UNSETTLED, Kind


@dataclass(slots=True)
class Code:
    """A Python expression that can be used as an operand anywhere; see `codegen`."""

    text: str
    kinds: Kind = ANY
    simple: bool = False
    literal: bool = False
    settled: bool = False
    """Whether a list or mapping that the code gives is in final form."""

    @property
    def constant_string(self) -> str | None:
        """The string value of a literal; None for any other code."""
        if not self.literal or self.kinds != STRING:
            return None
        return str(literal_eval(self.text))

    @property
    def is_final(self) -> bool:
        """Whether every possible value is final."""
        return self.settled or self.literal or not self.kinds & UNSETTLED


@dataclass(slots=True)
class Arguments:
    """The compiled arguments of a call."""

    codes: list[Code] = field(default_factory=list[Code])
    shape: tuple[str, ...] = ()
    lazy: tuple[int, ...] = ()
    """Indexes into `codes` of those that are lambdas."""
    invalid: ast.Pair | None = None
    """The first `key => value` whose key is not a word."""

    def joined(self) -> str:
        """`, a, b`: ready to follow another argument."""
        return "".join(f", {code.text}" for code in self.codes)
