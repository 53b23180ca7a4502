"""Tokens to a tree (yaql.md section 2): a Pratt parser.

After this phase operators are grouped by their levels, every node has its place, positional
arguments precede named ones, nesting is at most `MAX_NESTING` deep (chains such as `a + b + c` or
`a.b.c` do not count as nesting) and there are at most `MAX_NODES` tokens.
"""

from __future__ import annotations

from typing import NoReturn

from .ast import (
    Argument,
    Arrow,
    Binary,
    Call,
    Constant,
    Dot,
    Expression,
    Index,
    Keyword,
    ListLiteral,
    MapLiteral,
    MethodCall,
    Omitted,
    Pair,
    Property,
    TypeLiteral,
    Unary,
    Variable,
)
from .errors import YaqlGrammarException
from .grammar import POSTFIX, STANDARD, Grammar
from .scanner import CALL, END, NAME, NUMBER, STRING, SYMBOL, VARIABLE, Token, scan

MAX_NESTING = 60
"""The deepest nesting of brackets and operands."""
MAX_NODES = 20_000
"""The most tokens of one expression."""

_LITERAL_WORDS = {"null": None, "true": True, "false": False}
_LITERAL_KINDS = frozenset([NUMBER, STRING])
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def parse(text: str, grammar: Grammar = STANDARD) -> Expression:
    """The tree of `text`; raises `YaqlLexicalException` or `YaqlGrammarException`."""
    parser = _Parser(text, scan(text, grammar.symbols), grammar)
    tree = parser.expression(0)
    token = parser.token
    if token[0] != END:
        parser.fail_at(token)
    return tree


class _Parser:
    __slots__ = ("at", "depth", "grammar", "infix", "text", "token", "tokens")

    def __init__(self, text: str, tokens: list[Token], grammar: Grammar) -> None:
        if len(tokens) > MAX_NODES:
            raise YaqlGrammarException(
                f"the expression has more than {MAX_NODES} parts", position=0, text=text
            )
        self.text = text
        self.tokens = tokens
        self.grammar = grammar
        self.infix = grammar.infix
        self.at = 0
        self.token = tokens[0]
        self.depth = 0

    def advance(self) -> None:
        self.at += 1
        self.token = self.tokens[self.at]

    def expression(self, level: int) -> Expression:
        """An expression whose operators all bind tighter than `level`."""
        if self.depth >= MAX_NESTING:
            self.fail(f"more than {MAX_NESTING} levels of nesting", self.token)
        self.depth += 1
        left = self.operand()
        infix = self.infix
        while True:
            kind, value, start, _ = self.token
            if kind == SYMBOL:
                if value == ".":
                    left = self.member(left, False)
                    continue
                if value == "[":
                    if level >= POSTFIX:
                        break
                    self.advance()
                    arguments = self.arguments("]", start)
                    left = Index(left.start, self.tokens[self.at - 1][3], left, arguments)
                    continue
                if value == "?.":
                    left = self.member(left, True)
                    continue
            elif kind != NAME and kind != CALL:
                break
            power = infix.get(value, -1)
            if power <= level:
                break
            if kind == CALL:
                self.split_call()
            self.advance()
            if value in self.grammar.right_associative:
                right = self.expression(power - 1)
            else:
                right = self.expression(power)
            if value == "->":
                left = Arrow(left.start, right.end, left, right)
            else:
                left = Binary(left.start, right.end, value, left, right, start)
        self.depth -= 1
        return left

    def operand(self) -> Expression:
        token = self.token
        kind, value, start, end = token
        if kind == VARIABLE:
            self.advance()
            following = self.token
            if following[2] == end and following[0] == SYMBOL and following[1] == "(":
                self.fail(f"`${value}(`: a variable cannot be called", token)
            return Variable(start, end, value)
        if kind in _LITERAL_KINDS:
            self.advance()
            return Constant(start, end, value)
        if kind == NAME:
            if value in _LITERAL_WORDS:
                self.advance()
                return Constant(start, end, _LITERAL_WORDS[value])
            if value in self.grammar.words:
                return self.prefixed(token)
            self.advance()
            if self.grammar.type_literals and self.token[:2] == (SYMBOL, ":"):
                self.advance()
                name, end = self.type_name()
                return TypeLiteral(start, end, value, name)
            return Keyword(start, end, value)
        if kind == CALL:
            if value in self.grammar.words:
                self.split_call()
                return self.prefixed(self.token)
            if value in _LITERAL_WORDS:
                self.fail(f"`{value}` cannot be called", token)
            self.advance()
            arguments = self.arguments(")", end - 1)
            return Call(start, self.tokens[self.at - 1][3], value, arguments)
        if kind == SYMBOL:
            if value == "(":
                self.advance()
                inner = self.expression(0)
                if self.token[:2] != (SYMBOL, ")"):
                    self.fail_at(self.token, unclosed=("(", start))
                self.advance()
                return inner
            if value == "[":
                self.advance()
                items = self.arguments("]", start)
                return ListLiteral(start, self.tokens[self.at - 1][3], items)
            if value == "{":
                self.advance()
                items = self.arguments("}", start)
                return MapLiteral(start, self.tokens[self.at - 1][3], items)
            if value == ":" and self.grammar.type_literals:
                self.advance()
                name, end = self.type_name()
                return TypeLiteral(start, end, None, name)
        return self.prefixed(token)

    def prefixed(self, token: Token) -> Expression:
        """A prefix operator and its operand."""
        kind, value, start, _ = token
        power = self.grammar.prefix.get(value) if kind in {SYMBOL, NAME} else None
        if power is None:
            self.fail_at(token)
        self.advance()
        operand = self.expression(power - 1)
        return Unary(start, operand.end, value, operand)

    def split_call(self) -> None:
        """Split `not(` into the operator `not` and a bracket."""
        _, value, start, end = self.tokens[self.at]
        self.tokens[self.at : self.at + 1] = [
            (NAME, value, start, end - 1),
            (SYMBOL, "(", end - 1, end),
        ]
        self.token = self.tokens[self.at]

    def type_name(self) -> tuple[str, int]:
        kind, value, _, end = self.token
        if kind != NAME or value in self.grammar.words or value in _LITERAL_WORDS:
            self.fail("`:` must be followed by the name of a type", self.token)
        self.advance()
        if self.token[:2] == (SYMBOL, ":"):
            self.fail_at(self.token)
        return value, end

    def member(self, target: Expression, safe: bool) -> Expression:
        self.advance()
        kind, value, _, end = self.token
        if kind == NAME and value not in self.grammar.words and value not in _LITERAL_WORDS:
            self.advance()
            if self.token[:2] == (SYMBOL, ":"):
                self.fail_at(self.token)
            return Property(target.start, end, target, value, safe)
        if kind == CALL and value not in self.grammar.words and value not in _LITERAL_WORDS:
            self.advance()
            arguments = self.arguments(")", end - 1)
            end = self.tokens[self.at - 1][3]
            return MethodCall(target.start, end, target, value, arguments, safe)
        if self.depth >= MAX_NESTING:
            self.fail(f"more than {MAX_NESTING} levels of nesting", self.token)
        self.depth += 1
        right = self.operand()
        self.depth -= 1
        return Dot(target.start, right.end, target, right, safe)

    def arguments(self, closing: str, opened: int) -> tuple[Argument, ...]:
        """Parse the arguments up to and including `closing`."""
        token = self.token
        if token[0] == SYMBOL and token[1] == closing:
            self.advance()
            return ()
        found: list[Argument] = []
        named = False
        while True:
            token = self.token
            if token[0] == END:
                self.fail_at(token, unclosed=(_opening(closing), opened))
            if token[0] == SYMBOL and token[1] == ",":
                found.append(Omitted(token[2], token[2]))
                self.advance()
                if self.token[:2] == (SYMBOL, closing):
                    self.fail("a value is missing after the comma", self.token)
                continue
            value = self.expression(0)
            token = self.token
            if token[0] == SYMBOL and token[1] == "=>":
                self.advance()
                right = self.expression(0)
                found.append(Pair(value.start, right.end, value, right))
                named = True
            elif named:
                self.fail("a positional argument after a named one", (NAME, "", value.start, 0))
            else:
                found.append(value)
            token = self.token
            if token[0] == SYMBOL:
                if token[1] == closing:
                    self.advance()
                    return tuple(found)
                if token[1] == ",":
                    self.advance()
                    if self.token[:2] == (SYMBOL, closing):
                        self.fail("a value is missing after the comma", self.token)
                    continue
            self.fail_at(token, unclosed=(_opening(closing), opened))

    def fail_at(self, token: Token, unclosed: tuple[str, int] | None = None) -> NoReturn:
        kind, _, start, end = token
        if kind == END:
            if unclosed is not None:
                self.fail(f"`{unclosed[0]}` at character {unclosed[1] + 1} is not closed", token)
            self.fail("the expression ends too early", token)
        found = self.text[start:end]
        hint = None
        if found == "=" and self.text[start - 1 : start] == "=":
            hint = "use = to compare for equality"
        elif kind not in {SYMBOL, END} and token[1] not in self.grammar.words:
            hint = "an operator or a comma is missing before it"
        self.fail(f"`{found}` is not expected", token, hint)

    def fail(self, message: str, token: Token, hint: str | None = None) -> NoReturn:
        raise YaqlGrammarException(message, position=token[2], text=self.text, hint=hint)


def _opening(closing: str) -> str:
    return next(opening for opening, other in _CLOSING.items() if other == closing)
