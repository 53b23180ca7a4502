"""Operators and their precedence (yaql.md section 2).

A `Grammar` is an immutable operator table. `STANDARD` is the language alone; `MURANOPL` adds type
literals (`ns:Name`, `:Name`) and `is`. `Grammar.with_operator` makes a table with one more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

ARROW = 5
OR = 10
AND = 20
NOT = 30
COMPARISON = 40
SUM = 50
PRODUCT = 60
MATCH = 70
SIGN = 80
POSTFIX = 90

_STANDARD_INFIX = {
    "->": ARROW,
    "or": OR,
    "and": AND,
    ">": COMPARISON,
    "<": COMPARISON,
    ">=": COMPARISON,
    "<=": COMPARISON,
    "!=": COMPARISON,
    "=": COMPARISON,
    "in": COMPARISON,
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "mod": PRODUCT,
    "=~": MATCH,
    "!~": MATCH,
}
_STANDARD_PREFIX = {"+": SIGN, "-": SIGN, "not": NOT}


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """A table of operators. Compared by identity, so that it can be a cache key."""

    infix: dict[str, int]
    prefix: dict[str, int]
    right_associative: frozenset[str] = frozenset(["->"])
    type_literals: bool = False
    symbols: frozenset[str] = frozenset()
    """Symbols the scanner must know beyond the standard ones."""
    words: frozenset[str] = frozenset(["and", "or", "not", "in", "mod"])
    """Words that are never keyword-strings."""

    def with_operator(
        self, text: str, level: int, *, prefix: bool = False, right_associative: bool = False
    ) -> Grammar:
        """This table with the operator `text` (punctuation or a word) at `level`.

        `level` is one of this module's constants, or a number between two of them: a higher one
        binds tighter. The library defines its meaning under `#operator_<text>` (prefix:
        `#unary_operator_<text>`).
        """
        word = text.isidentifier()
        if not word and not re.fullmatch(r"[-+*/<>=!~?@#%^&|\\;]+", text):
            raise ValueError(f"{text!r} cannot be an operator: use punctuation or one word")
        if not ARROW <= level <= POSTFIX:
            raise ValueError(f"level {level} is not between {ARROW} and {POSTFIX}")
        return replace(
            self,
            infix=self.infix if prefix else {**self.infix, text: level},
            prefix={**self.prefix, text: level} if prefix else self.prefix,
            right_associative=self.right_associative | ({text} if right_associative else set()),
            symbols=self.symbols if word else self.symbols | {text},
            words=self.words | {text} if word else self.words,
        )


STANDARD = Grammar(_STANDARD_INFIX, _STANDARD_PREFIX)
MURANOPL = Grammar(
    {**_STANDARD_INFIX, "is": COMPARISON},
    _STANDARD_PREFIX,
    type_literals=True,
    symbols=frozenset([":"]),
    words=STANDARD.words | {"is"},
)
