"""The parsed form of a pattern, from Python's own parser, and its character sets."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeAlias

# The parser has no public name; its trees have been the same since Python 3.11.
_parser: Any = importlib.import_module("re._parser")
_compiler: Any = importlib.import_module("re._compiler")
_constants: object = importlib.import_module("re._constants")

Item: TypeAlias = tuple[Any, Any]
Test: TypeAlias = Callable[[str], bool]

MAXREPEAT: int = int(_constants.MAXREPEAT)
SINGLE = frozenset(["LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY", "RANGE"])


def parse(pattern: str, flags: int) -> tuple[list[Item], Any]:
    """The items of a pattern and the parser's state (group numbers and names, flags)."""
    tree = _parser.parse(pattern, flags & ~re.DEBUG)
    return list(tree), tree.state


def name_of(item: Item) -> str:
    """The operation's name, `LITERAL` for example."""
    return str(item[0])


@lru_cache(maxsize=2)
def _categories(ascii_only: bool) -> dict[str, Test]:
    if ascii_only:
        digits, words, spaces = (re.compile(text, re.ASCII) for text in (r"\d", r"\w", r"\s"))
    else:
        digits, words, spaces = (re.compile(text) for text in (r"\d", r"\w", r"\s"))
    table: dict[str, Test] = {}
    for name, pattern in (("DIGIT", digits), ("WORD", words), ("SPACE", spaces)):
        match = pattern.match
        table[f"CATEGORY_{name}"] = lambda char, match=match: match(char) is not None
        table[f"CATEGORY_NOT_{name}"] = lambda char, match=match: match(char) is None
    return table


def character_test(item: Item, flags: int) -> Test:
    """Whether a character is matched by an item that matches one character."""
    if not flags & re.IGNORECASE or name_of(item) == "ANY":
        return _plain_test(item, flags)
    # Python's engine decides which letters differ only in case.
    alone = _parser.SubPattern(_parser.State(), [item])
    letters = 0 if flags & re.ASCII else re.UNICODE
    match = _compiler.compile(alone, flags & ~re.DEBUG | letters).match
    return lambda char: match(char) is not None


def _plain_test(item: Item, flags: int) -> Test:
    name, argument = name_of(item), item[1]
    if name == "LITERAL":
        wanted = chr(argument)
        return lambda char: char == wanted
    if name == "NOT_LITERAL":
        unwanted = chr(argument)
        return lambda char: char != unwanted
    if name == "ANY":
        if flags & re.DOTALL:
            return lambda char: True
        return lambda char: char != "\n"
    if name == "RANGE":
        low, high = chr(argument[0]), chr(argument[1])
        return lambda char: low <= char <= high
    if name == "CATEGORY":
        return _categories(bool(flags & re.ASCII))[str(argument)]
    negate = bool(argument) and str(argument[0][0]) == "NEGATE"
    tests = [_plain_test(part, flags) for part in (argument[1:] if negate else argument)]

    def member(char: str) -> bool:
        return any(test(char) for test in tests) is not negate

    return member


_SAMPLES = [chr(code) for code in range(256)]
_LATIN = (1 << 256) - 1
# Characters beyond Latin-1 are distinguished only by category: one bit each.
_LETTERS, _DIGITS, _SPACES, _REST = (1 << bit for bit in range(256, 260))
_OTHERS = _LETTERS | _DIGITS | _SPACES | _REST
EVERYTHING = (1 << 260) - 1
_IN_CATEGORY = {"DIGIT": _DIGITS, "WORD": _LETTERS | _DIGITS, "SPACE": _SPACES}


def character_set(item: Item, flags: int) -> int:
    """The characters an item may match: a bit for each of Latin-1, four for all others."""
    found = _others(item, flags)[0]
    if not flags & re.IGNORECASE:
        return found | _samples(item, flags)
    # A few letters match letters outside Latin-1 when case is ignored.
    return found | _LETTERS | _tested(character_test(item, flags))


def _tested(test: Test) -> int:
    found = 0
    for code, char in enumerate(_SAMPLES):
        if test(char):
            found |= 1 << code
    return found


def _samples(item: Item, flags: int) -> int:
    """The bits of Latin-1 that an item matches case-sensitively."""
    name, argument = name_of(item), item[1]
    if name == "LITERAL":
        return 1 << argument if argument < 256 else 0
    if name == "NOT_LITERAL":
        return _LATIN & ~(1 << argument) if argument < 256 else _LATIN
    if name == "ANY":
        return _LATIN if flags & re.DOTALL else _LATIN & ~(1 << ord("\n"))
    if name == "RANGE":
        low, high = int(argument[0]), min(int(argument[1]), 255)
        return (1 << high + 1) - (1 << low) if low <= high else 0
    if name == "CATEGORY":
        return _category_samples(str(argument), bool(flags & re.ASCII))
    negate = bool(argument) and str(argument[0][0]) == "NEGATE"
    found = 0
    for part in argument[1:] if negate else argument:
        found |= _samples(part, flags)
    return _LATIN & ~found if negate else found


@lru_cache(maxsize=16)
def _category_samples(category: str, ascii_only: bool) -> int:
    return _tested(_categories(ascii_only)[category])


def _others(item: Item, flags: int) -> tuple[int, int]:
    """Beyond Latin-1: the categories that the item may match, and those it matches entirely."""
    name, argument = name_of(item), item[1]
    if name == "LITERAL":
        return (_category(chr(argument)), 0) if argument > 255 else (0, 0)
    if name == "NOT_LITERAL":
        return _OTHERS, 0 if argument > 255 else _OTHERS
    if name == "RANGE":
        return (_OTHERS, 0) if argument[1] > 255 else (0, 0)
    if name == "CATEGORY":
        category = str(argument).removeprefix("CATEGORY_")
        negated = category.startswith("NOT_")
        bits = 0 if flags & re.ASCII else _IN_CATEGORY[category.removeprefix("NOT_")]
        bits = _OTHERS & ~bits if negated else bits
        return bits, bits
    if name == "IN":
        negated = bool(argument) and str(argument[0][0]) == "NEGATE"
        may = must = 0
        for part in argument[1:] if negated else argument:
            part_may, part_must = _others(part, flags)
            may |= part_may
            must |= part_must
        return (_OTHERS & ~must, _OTHERS & ~may) if negated else (may, must)
    return _OTHERS, _OTHERS


def _category(char: str) -> int:
    if char.isdecimal():
        return _DIGITS
    if char.isspace():
        return _SPACES
    return _LETTERS if char.isalnum() else _REST


def subpattern(argument: Any) -> tuple[int | None, int, int, Iterable[Item]]:
    """Group number, flags added, flags removed and items of a SUBPATTERN."""
    group, add, remove, items = argument
    return group, int(add), int(remove), items
