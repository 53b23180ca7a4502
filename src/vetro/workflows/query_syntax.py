"""The syntax of the JSONPath dialect (§4): text to a tree of small tuples-with-names.

A hand-written scanner and a recursive-descent parser. What they establish for the next phase: the tree
nests no deeper than ``DEPTH``, names and literals are data, and nothing in it is code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from vetro.workflows.errors import WorkflowSyntaxError
from vetro.workflows.paths import prefix_of
from vetro.workflows.values import Json

DEPTH = 60
LENGTH = 20_000


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; also lists of constants."""

    value: Json


@dataclass(frozen=True, slots=True)
class Attribute:
    """``@`` and steps below it."""

    steps: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """``not x``."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Logic:
    """``and`` and ``or`` over two or more operands."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two operands and one of ``== != < <= > >= is is-not in not-in``."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``+ - * / %`` in an index expression."""

    operator: str
    left: Node
    right: Node


Node = Literal | Attribute | Not | Logic | Comparison | Arithmetic


@dataclass(frozen=True, slots=True)
class Name:
    """One key of a map."""

    name: str


@dataclass(frozen=True, slots=True)
class Index:
    """One item of a list; negative from the end."""

    index: int


@dataclass(frozen=True, slots=True)
class Slice:
    """As in Python."""

    start: int | None
    stop: int | None
    step: int | None


@dataclass(frozen=True, slots=True)
class All:
    """``*``: all children."""


@dataclass(frozen=True, slots=True)
class Union:
    """Several names, indices or slices, in their order."""

    items: tuple[Name | Index | Slice, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """The children for which a condition holds."""

    condition: Node


@dataclass(frozen=True, slots=True)
class Computed:
    """The child whose key or index an expression gives; ``@`` is the container."""

    expression: Node


Selector = Name | Index | Slice | All | Union | Filter | Computed


@dataclass(frozen=True, slots=True)
class Segment:
    """A selector; ``deep`` applies it to self and all descendants. ``dotted``: written with a dot."""

    selector: Selector
    deep: bool = False
    dotted: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A whole expression. ``up``: levels to go up first, ``None``: from the root."""

    up: int | None
    segments: tuple[Segment, ...]
    text: str


_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<string>'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*")
      | (?P<number>\d+(?:\.\d+)?)
      | (?P<word>[^\W\d][\w-]*)
      | (?P<sign>==|!=|<=|>=|&&|\|\||\.\.|[$@.\[\]()*?:,<>!+\-/%])""",
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"[\w-]+")
_NAME_IN_SUM = re.compile(r"\w+")
_ESCAPE = re.compile(r"\\(['\"\\])")
CONSTANTS: dict[str, Json] = {
    "True": True, "true": True, "False": False, "false": False, "None": None, "null": None,
}  # fmt: skip
_COMPARISONS = {"==", "!=", "<", "<=", ">", ">="}


def parse_query(text: str, optional: bool = False) -> Query:
    """The tree of an expression; ``optional``: a prefix alone means the object itself.

    Raises: WorkflowSyntaxError with the place in the expression.
    """
    if len(text) > LENGTH:
        raise WorkflowSyntaxError(f"the expression has more than {LENGTH} characters")
    stripped = text.strip()
    up, length = prefix_of(stripped)
    if optional and length == len(stripped):
        return Query(up, (), stripped)
    return _Parser(stripped, length).query(up)


def quoted(value: str) -> str:
    """A text as a literal of the dialect."""
    return "'" + escaped(value) + "'"


def escaped(value: str) -> str:
    """A text for the inside of a quoted literal."""
    return value.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"')


class _Parser:
    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        self.depth = 0
        # Inside an index expression '-' is a sign and no part of a name.
        self.name: re.Pattern[str] = _NAME
        self.kind = ""
        self.token = ""
        self.start = position
        self.advance()

    def fail(self, message: str) -> NoReturn:
        """Every error shows where in the expression it is."""
        shown = self.text if len(self.text) <= 200 else self.text[:200] + "…"
        raise WorkflowSyntaxError(
            f"{message} at character {self.start + 1} of the expression {shown!r}"
        )

    def advance(self) -> str:
        """Step to the next token; returns the one before."""
        before = self.token
        while True:
            self.start = self.position
            if self.position >= len(self.text):
                self.kind, self.token = "end", ""
                return before
            found = _TOKEN.match(self.text, self.position)
            if found is None:
                self.fail(f"{self.text[self.position]!r} does not belong here")
            self.position = found.end()
            if found.lastgroup != "space":
                self.kind, self.token = str(found.lastgroup), found[0]
                return before

    def is_sign(self, *signs: str) -> bool:
        return self.kind == "sign" and self.token in signs

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.token in words

    def takes(self, sign: str) -> bool:
        """Whether the token is this sign; then steps behind it."""
        found = self.is_sign(sign)
        if found:
            self.advance()
        return found

    def expect(self, sign: str) -> None:
        if not self.takes(sign):
            self.fail(f"'{sign}' is missing")

    # segments

    def query(self, up: int | None) -> Query:
        if not self.takes("$"):
            self.fail("a JSONPath expression starts with '$'")
        segments: list[Segment] = []
        while self.kind != "end":
            segments.append(self.segment())
        return Query(up, tuple(segments), self.text)

    def segment(self) -> Segment:
        if self.is_sign("[") or self.is_sign(".", ".."):
            deep, dotted = self.token == "..", self.token != "["  # noqa: S105 - a sign of syntax
            if not dotted:
                return Segment(self.bracket())
            # Names may start with digits and contain '-': scanned by their own pattern.
            found = _NAME.match(self.text, self.position)
            if found is not None:
                self.position = found.end()
                self.advance()
                return Segment(Name(found[0]), deep, True)
            self.advance()
            if self.takes("*"):
                return Segment(All(), deep, True)
            if self.is_sign("["):
                return Segment(self.bracket(), deep, True)
            self.fail("a name is missing")
        self.fail(f"{self.token!r} does not belong here")

    def bracket(self) -> Selector:
        self.expect("[")
        found: Selector
        if self.takes("*"):
            found = All()
        elif self.takes("?"):
            self.expect("(")
            found = Filter(self.alternatives())
            self.expect(")")
        elif self.is_sign("("):
            self.name = _NAME_IN_SUM
            self.advance()
            found = Computed(self.sum())
            self.name = _NAME
            self.expect(")")
        else:
            items = [self.item()]
            while self.takes(","):
                items.append(self.item())
            found = items[0] if len(items) == 1 else Union(tuple(items))
        self.expect("]")
        return found

    def item(self) -> Name | Index | Slice:
        if self.kind == "string":
            return Name(self.string())
        start = self.optional_integer()
        if not self.takes(":"):
            if start is None:
                self.fail("an index, a quoted name, '*', a slice or a filter is missing")
            return Index(start)
        stop = self.optional_integer()
        step = None
        if self.takes(":"):
            step = self.optional_integer()
            if step == 0:
                self.fail("the step of a slice is not 0")
        return Slice(start, stop, step)

    def optional_integer(self) -> int | None:
        return self.integer() if self.kind == "number" or self.is_sign("-") else None

    def integer(self) -> int:
        negative = self.takes("-")
        if self.kind != "number" or "." in self.token or len(self.token) > 15:
            self.fail("an integer is missing")
        value = int(self.advance())
        return -value if negative else value

    def string(self) -> str:
        return _ESCAPE.sub(r"\1", self.advance()[1:-1])

    # conditions

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEPTH:
            self.fail(f"the expression nests deeper than {DEPTH}")

    def alternatives(self) -> Node:
        self.deeper()
        operands = [self.conjunction()]
        while self.is_word("or") or self.is_sign("||"):
            self.advance()
            operands.append(self.conjunction())
        self.depth -= 1
        return operands[0] if len(operands) == 1 else Logic("or", tuple(operands))

    def conjunction(self) -> Node:
        operands = [self.negation()]
        while self.is_word("and") or self.is_sign("&&"):
            self.advance()
            operands.append(self.negation())
        return operands[0] if len(operands) == 1 else Logic("and", tuple(operands))

    def negation(self) -> Node:
        if self.is_word("not") or self.is_sign("!"):
            self.deeper()
            self.advance()
            operand = self.negation()
            self.depth -= 1
            return Not(operand)
        return self.comparison()

    def comparison(self) -> Node:
        left = self.operand()
        operator = self.operator()
        if operator is None:
            return left
        right = self.operand()
        if operator in {"is", "is-not"} and not (
            isinstance(right, Literal) and (right.value is None or isinstance(right.value, bool))
        ):
            self.fail("'is' compares only with None, True or False")
        return Comparison(operator, left, right)

    def operator(self) -> str | None:
        if self.kind == "sign" and self.token in _COMPARISONS:
            return self.advance()
        if self.is_word("is"):
            self.advance()
            if not self.is_word("not"):
                return "is"
            self.advance()
            return "is-not"
        if self.is_word("in"):
            return self.advance()
        if self.is_word("not"):
            self.advance()
            if not self.is_word("in"):
                self.fail("'in' is missing after 'not'")
            self.advance()
            return "not-in"
        return None

    def operand(self) -> Node:
        if self.takes("@"):
            return Attribute(self.attribute_steps())
        if self.is_sign("("):
            return self.parenthesis()
        if self.takes("["):
            return Literal(self.constants("]", []))
        return Literal(self.constant())

    def parenthesis(self) -> Node:
        """A condition in parentheses, or a tuple of literals."""
        self.deeper()
        self.advance()
        if self.takes(")"):
            self.depth -= 1
            return Literal([])
        inner = self.alternatives()
        if self.is_sign(","):
            if not isinstance(inner, Literal):
                self.fail("only literals can stand in a list")
            self.advance()
            inner = Literal(self.constants(")", [inner.value]))
        else:
            self.expect(")")
        self.depth -= 1
        return inner

    def constants(self, closing: str, found: list[Json]) -> list[Json]:
        while not self.takes(closing):
            found.append(self.constant())
            if not self.is_sign(closing):
                self.expect(",")
        return found

    def constant(self) -> Json:
        if self.kind == "string":
            return self.string()
        if self.is_word(*CONSTANTS):
            return CONSTANTS[self.advance()]
        negative = self.takes("-")
        if self.kind == "number":
            if len(self.token) > 300:
                self.fail("the number has more than 300 digits")
            digits = self.advance()
            number = float(digits) if "." in digits else int(digits)
            return -number if negative else number
        if self.kind == "end":
            self.fail("the expression ends too early")
        self.fail(f"{self.token!r} is not a value: texts are quoted, attributes start with '@'")

    def attribute_steps(self) -> tuple[str | int, ...]:
        steps: list[str | int] = []
        while self.is_sign(".", "["):
            if self.token == ".":  # noqa: S105 - a sign of syntax
                step = self.name.match(self.text, self.position)
                if step is None:
                    return self.fail("a name is missing after '.'")
                self.position = step.end()
                self.advance()
                steps.append(step[0])
            else:
                self.advance()
                steps.append(self.string() if self.kind == "string" else self.integer())
                self.expect("]")
        return tuple(steps)

    # index expressions

    def sum(self) -> Node:
        self.deeper()
        left = self.product()
        while self.is_sign("+", "-"):
            operator = self.advance()
            left = Arithmetic(operator, left, self.product())
        self.depth -= 1
        return left

    def product(self) -> Node:
        left = self.factor()
        while self.is_sign("*", "/", "%"):
            operator = self.advance()
            left = Arithmetic(operator, left, self.factor())
        return left

    def factor(self) -> Node:
        if self.takes("("):
            inner = self.sum()
            self.expect(")")
            return inner
        if self.is_sign("@"):
            return self.operand()
        if self.is_sign("-"):
            self.deeper()
            self.advance()
            operand = self.factor()
            self.depth -= 1
            return Arithmetic("-", Literal(0), operand)
        return Literal(self.constant())
