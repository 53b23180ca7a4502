"""Expressions of owner filters (allocation.md §5, hard-filter-owners-servers).

A small language over one name, ``server``: comparison, ``&&``, ``||``, ``!``, brackets, text and
number literals, ``true``, ``false``, ``null``, ``undefined``, dotted and bracket access:

    server.traits.ssd == true && server.sysinfo["System Type"] != "Virtual"

There are no calls, no loops and no assignment, so an expression takes at most as many steps as it
has tokens, and reads only the server's record. A missing member is ``undefined``; a member of
``undefined`` is an error, as is ordering values that have no order.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, cast

from vetro.compute.allocation.errors import ExpressionError
from vetro.compute.allocation.wording import is_number, truthy

Evaluate = Callable[[Mapping[str, Any]], Any]
SUBJECT = "server"
ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
DEPTH_LIMIT = 64
LENGTH_LIMIT = 4096

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z_$][\w$]*)"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<sign>===|!==|==|!=|<=|>=|&&|\|\||[<>!().\[\]-]))"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class _Undefined:
    """The value of a missing member."""

    def __bool__(self) -> bool:
        return False


UNDEFINED: Final = _Undefined()
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "undefined": UNDEFINED}


@lru_cache(maxsize=512)
def compile_expression(text: str) -> Callable[[Mapping[str, object]], bool]:
    """A predicate over server records. Errors: ``ExpressionError`` with the position."""
    if len(text) > LENGTH_LIMIT:
        raise ExpressionError(f"the expression is longer than {LENGTH_LIMIT} characters")
    evaluate = _Parser(text).whole()

    def predicate(server: Mapping[str, object]) -> bool:
        return _true(evaluate(server))

    return predicate


def _true(value: object) -> bool:
    return value is not UNDEFINED and truthy(value)


class _Parser:
    """Precedence climbing: or, and, equality, order, not, access, atom."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise ExpressionError(f"cannot read {text[position:].strip()[:20]!r} in {text!r}")
            kind = str(match.lastgroup)
            self.tokens.append((kind, match.group(kind), match.start(kind)))
            position = match.end()
        self.at = 0
        self.depth = 0

    def whole(self) -> Evaluate:
        value = self.either()
        if self.at < len(self.tokens):
            raise self.unexpected()
        return value

    def unexpected(self) -> ExpressionError:
        if self.at >= len(self.tokens):
            return ExpressionError(f"the expression {self.text!r} ends too early")
        _, token, position = self.tokens[self.at]
        return ExpressionError(f"unexpected {token!r} at {position} in {self.text!r}")

    def take(self, *signs: str) -> str | None:
        if self.at < len(self.tokens):
            kind, token, _ = self.tokens[self.at]
            if kind == "sign" and token in signs:
                self.at += 1
                return token
        return None

    def need(self, sign: str) -> None:
        if self.take(sign) is None:
            raise self.unexpected()

    def either(self) -> Evaluate:
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise ExpressionError(f"the expression nests deeper than {DEPTH_LIMIT}")
        left = self.both()
        while self.take("||"):
            left = _or(left, self.both())
        self.depth -= 1
        return left

    def both(self) -> Evaluate:
        left = self.equality()
        while self.take("&&"):
            left = _and(left, self.equality())
        return left

    def equality(self) -> Evaluate:
        left = self.order()
        while sign := self.take("===", "!==", "==", "!="):
            left = _equal(left, self.order(), wanted=sign in ("==", "==="), exact=len(sign) == 3)
        return left

    def order(self) -> Evaluate:
        left = self.negation()
        while sign := self.take("<", "<=", ">", ">="):
            left = _ordered(left, self.negation(), sign)
        return left

    def negation(self) -> Evaluate:
        times = 0
        while self.take("!"):
            times += 1
        value = self.access()
        if not times:
            return value
        return lambda server: _true(value(server)) is (times % 2 == 0)

    def access(self) -> Evaluate:
        value = self.atom()
        while sign := self.take(".", "["):
            if sign == "[":
                key = self.either()
                self.need("]")
            else:
                if self.at >= len(self.tokens) or self.tokens[self.at][0] != "name":
                    raise self.unexpected()
                key = _constant(self.tokens[self.at][1])
                self.at += 1
            value = _member(value, key)
        return value

    def atom(self) -> Evaluate:
        if self.take("("):
            value = self.either()
            self.need(")")
            return value
        negative = self.take("-") is not None
        if self.at >= len(self.tokens):
            raise self.unexpected()
        kind, token, position = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            number = float(token) if "." in token else int(token)
            return _constant(-number if negative else number)
        if negative:
            raise ExpressionError(f"a number must follow the minus at {position} in {self.text!r}")
        if kind == "text":
            inner = re.sub(
                r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), token[1:-1], flags=re.S
            )
            return _constant(inner)
        if kind == "name" and token == SUBJECT:
            return lambda server: server
        if kind == "name" and token in _WORDS:
            return _constant(_WORDS[token])
        if kind == "name":
            raise ExpressionError(
                f"{token!r} at {position} in {self.text!r} is unknown: there is only 'server'"
            )
        self.at -= 1
        raise self.unexpected()


def _constant(value: object) -> Evaluate:
    return lambda _server: value


def _or(left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda server: _true(left(server)) or _true(right(server))


def _and(left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda server: _true(left(server)) and _true(right(server))


def _same(left: object, right: object, *, exact: bool) -> bool:
    if left is UNDEFINED or right is UNDEFINED or left is None or right is None:
        if exact:
            return left is right
        absent = (UNDEFINED, None)
        return any(left is one for one in absent) and any(right is one for one in absent)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return (type(left) is type(right) and left == right) or (
        is_number(left) and is_number(right) and left == right
    )


def _equal(left: Evaluate, right: Evaluate, *, wanted: bool, exact: bool) -> Evaluate:
    return lambda server: _same(left(server), right(server), exact=exact) is wanted


def _ordered(left: Evaluate, right: Evaluate, sign: str) -> Evaluate:
    def compare(server: Mapping[str, object]) -> bool:
        one, other = left(server), right(server)
        numbers = is_number(one) and is_number(other)
        if not numbers and not (isinstance(one, str) and isinstance(other, str)):
            raise ExpressionError(f"{one!r} and {other!r} have no order")
        return ORDERINGS[sign](one, other)

    return compare


def _member(value: Evaluate, key: Evaluate) -> Evaluate:
    def member(server: Mapping[str, object]) -> object:
        whole, name = value(server), key(server)
        if isinstance(whole, Mapping):
            return cast("Mapping[str, object]", whole).get(str(name), UNDEFINED)
        if isinstance(whole, list):
            items = cast("list[object]", whole)
            if name == "length":
                return len(items)
            inside = isinstance(name, int) and not isinstance(name, bool)
            return items[name] if inside and 0 <= name < len(items) else UNDEFINED
        if isinstance(whole, str):
            return len(whole) if name == "length" else UNDEFINED
        raise ExpressionError(f"there is no member {name!r} of what is not an object")

    return member
