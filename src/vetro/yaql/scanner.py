"""Text to tokens (yaql.md section 1).

After this phase every character belongs to a token or to blank space, strings are unescaped, names
beginning with `__` and control characters are refused, and the last token is END. One regular
expression splits the text; each token is `(kind, value, start, end)`.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from .errors import YaqlLexicalException

NUMBER = 0
STRING = 1
VARIABLE = 2
NAME = 3
CALL = 4
"""A name with the bracket that opens its arguments."""
SYMBOL = 5
END = 6

Token: TypeAlias = tuple[int, Any, int, int]

MAX_LENGTH = 256 * 1024
"""The most characters of one expression."""

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<variable>\$\w*)
    | (?P<name>[^\W\d]\w*)(?P<call>\()?
    | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+(?!\w))?)
    | (?P<symbol>=>|->|<=|>=|!=|=~|!~|\?\.|[-+*/<>=.,()\[\]{}])
    | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`)
    | (?P<other>:)
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_VARIABLE = _TOKEN.groupindex["variable"]
_NAME = _TOKEN.groupindex["name"]
_CALL = _TOKEN.groupindex["call"]
_NUMBER = _TOKEN.groupindex["number"]
_SYMBOL = _TOKEN.groupindex["symbol"]
_STRING = _TOKEN.groupindex["string"]
_OTHER = _TOKEN.groupindex["other"]
_WORDS = frozenset([_NAME, _CALL])

_ESCAPE = re.compile(
    r"\\(?:N\{([^}]*)\}|U([0-9A-Fa-f]{8})|u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([0-7]{1,3})|(.))",
    re.DOTALL,
)
_SIMPLE = {
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\n": "",
}


def scan(text: str, extra: frozenset[str] = frozenset()) -> list[Token]:
    """The tokens of `text`. `extra`: symbols of the grammar beyond the standard ones."""
    if len(text) > MAX_LENGTH:
        raise YaqlLexicalException(
            f"the expression is longer than {MAX_LENGTH} characters",
            position=MAX_LENGTH,
            text=text,
        )
    tokens: list[Token] = []
    add = tokens.append
    match = _TOKEN.match
    position = 0
    symbols = _symbol_pattern(extra) if extra - {":"} else None
    while True:
        if symbols is not None and (special := symbols.match(text, position)):
            position = special.end()
            add((SYMBOL, special[1], special.start(1), position))
            continue
        found = match(text, position)
        if found is None:
            raise _illegal(text, position)
        kind = found.lastindex
        if kind == _SYMBOL:
            add((SYMBOL, found[_SYMBOL], found.start(_SYMBOL), found.end()))
        elif kind in _WORDS:
            name = found[_NAME]
            if name[:2] == "__":
                raise YaqlLexicalException(
                    f"a name cannot begin with `__`: `{name}`",
                    position=found.start(_NAME),
                    text=text,
                )
            add((NAME if kind == _NAME else CALL, name, found.start(_NAME), found.end()))
        elif kind == _VARIABLE:
            name = found[_VARIABLE]
            add((VARIABLE, "" if name == "$1" else name[1:], found.start(_VARIABLE), found.end()))
        elif kind == _NUMBER:
            start = found.start(_NUMBER)
            add((NUMBER, _number(found[_NUMBER], text, found), start, found.end()))
        elif kind == _STRING:
            start = found.start(_STRING)
            add((STRING, _unescape(found[_STRING], text, start), start, found.end()))
        elif kind == _OTHER:
            if ":" not in extra:
                raise _illegal(text, found.start(_OTHER))
            add((SYMBOL, ":", found.start(_OTHER), found.end()))
        else:
            add((END, None, found.end(), found.end()))
            return tokens
        position = found.end()


_symbol_patterns: dict[frozenset[str], re.Pattern[str]] = {}


def _symbol_pattern(extra: frozenset[str]) -> re.Pattern[str]:
    pattern = _symbol_patterns.get(extra)
    if pattern is None:
        longest_first = sorted(extra - {":"}, key=len, reverse=True)
        pattern = re.compile(r"\s*(" + "|".join(map(re.escape, longest_first)) + ")")
        _symbol_patterns[extra] = pattern
    return pattern


def _number(digits: str, text: str, found: re.Match[str]) -> int | float:
    if digits.isdecimal():
        if len(digits) > 4000:
            raise YaqlLexicalException(
                "a number has at most 4000 digits", position=found.start(), text=text
            )
        return int(digits)
    return float(digits)


def _unescape(quoted: str, text: str, start: int) -> str:
    body = quoted[1:-1]
    if "\\" not in body:
        return body
    if quoted[0] == "`":
        return body.replace("\\`", "`")

    def replace(found: re.Match[str]) -> str:
        name, long, short, byte, octal, simple = found.groups()
        if simple is not None:
            return _SIMPLE.get(simple, "\\" + simple)
        if octal is not None:
            return chr(int(octal, 8))
        if name is not None:
            import unicodedata

            try:
                return unicodedata.lookup(name)
            except KeyError:
                raise YaqlLexicalException(
                    f"no character is named `{name}`",
                    position=start + 1 + found.start(),
                    text=text,
                ) from None
        code = int(long or short or byte, 16)
        if code > 0x10FFFF:
            raise YaqlLexicalException(
                "no character has this number", position=start + 1 + found.start(), text=text
            )
        return chr(code)

    return _ESCAPE.sub(replace, body)


def _illegal(text: str, position: int) -> YaqlLexicalException:
    while position < len(text) and text[position].isspace():
        position += 1
    character = text[position : position + 1]
    if character in {"'", '"', "`"}:
        return YaqlLexicalException(
            f"the string that begins with {character} is not closed", position=position, text=text
        )
    return YaqlLexicalException(
        f"illegal character {character!r}",
        position=position,
        text=text,
        hint=next((hint for sign, hint in _FOREIGN if text.startswith(sign, position)), None),
    )


_FOREIGN = (
    ("&", "write and"),
    ("|", "write or"),
    ("!", "write not, or != between two values"),
    ("?", "write switch(condition => value, true => other), or ?. to go on unless null"),
    ("%", "write mod"),
    (";", "an expression has one value: use let(name => value) -> …"),
    ("^", "write pow(a, b) or bitwiseXor(a, b)"),
    ("#", "an expression cannot contain comments"),
)
"""Symbols that users know from other languages."""
