"""YAML whose plain texts stay text, and whose expressions are marked as such.

A plain scalar of a class or a form may be taken for an expression, so every text is quoted.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, cast

_RAW = re.compile(
    r"[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


@dataclass(frozen=True)
class Expression:
    """A YAQL expression, written with its tag."""

    text: str


def in_quotes(text: str) -> str:
    """A double-quoted scalar."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _RAW.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def scalar(value: Any) -> str:
    """A scalar, or a collection in flow style."""
    match value:
        case Expression(text):
            return f"!yaql {in_quotes(text)}"
        case str():
            return in_quotes(value)
        case dict():
            entries = cast("dict[str, Any]", value).items()
            return (
                "{" + ", ".join(f"{in_quotes(key)}: {scalar(item)}" for key, item in entries) + "}"
            )
        case list() | tuple():
            return "[" + ", ".join(scalar(item) for item in cast("list[object]", value)) + "]"
        case float():
            # YAML 1.1 reads 1e+20 as text.
            return repr(value) if "e" not in repr(value) else f"{value:f}"
        case _:
            return json.dumps(value)


def block(value: Any, indent: int = 0) -> str:
    """Maps and lists of maps in block style, everything else on one line; ends with a line feed."""
    start = " " * indent
    lines: list[str] = []
    if isinstance(value, dict) and value:
        for key, item in cast("dict[str, object]", value).items():
            lines.append(f"{start}{in_quotes(key)}:{_after(item, indent + 2)}")
        return "".join(lines)
    if isinstance(value, list) and value and isinstance(cast("list[object]", value)[0], dict):
        for item in cast("list[object]", value):
            lines.append(f"{start}- {block(item, indent + 2)[indent + 2 :]}")
        return "".join(lines)
    return f"{start}{scalar(value)}\n"


def _after(item: Any, indent: int) -> str:
    nested = isinstance(item, dict | list) and bool(cast("object", item))
    if nested and (isinstance(item, dict) or isinstance(cast("list[object]", item)[0], dict)):
        return "\n" + block(item, indent)
    return f" {scalar(item)}\n"
