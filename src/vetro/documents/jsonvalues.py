"""JSON as plain values.

If a map repeats a key, the last value wins, as usual for JSON. ``NaN`` and ``Infinity`` are not
JSON.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from vetro.documents.errors import DocumentError, DocumentTooLarge
from vetro.documents.limits import DocumentLimits
from vetro.documents.texts import text_of

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(content: bytes | str, limits: DocumentLimits | None = None) -> Any:
    """The value of a JSON document. Errors: ``DocumentError``, ``DocumentTooLarge``."""
    limits = limits or DocumentLimits()
    text = text_of(content, limits)
    if text.count("[") + text.count("{") > limits.depth:
        _measure(text, limits.depth)
    try:
        value = json.loads(text, parse_constant=_refuse)
        if _HALF_PAIR.search(text):
            # Fails for an escape that is half of a surrogate pair: such text cannot be encoded.
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise DocumentError(f"not JSON: {error.msg}", error.lineno, error.colno) from error
    except UnicodeEncodeError as error:
        raise DocumentError("not JSON: a text has half of a surrogate pair") from error
    except ValueError as error:  # a number with thousands of digits, NaN
        raise DocumentError(f"not JSON: {error}") from error
    return value


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _measure(text: str, most: int) -> None:
    depth = 0
    for found in _BRACKETS.finditer(text):
        one = found[0]
        if one in "[{":
            depth += 1
            if depth > most:
                line = text.count("\n", 0, found.start()) + 1
                column = found.start() - text.rfind("\n", 0, found.start())
                raise DocumentTooLarge(f"nested deeper than {most}", line, column)
        elif one in "]}":
            depth -= 1
