"""The text of values in step reasons and error messages.

Reasons are compared as text with those of the allocator this one replaces, so numbers, JSON and
truth values follow the conventions of its language: 50 and not 50.0, compact JSON, an empty object
is true.
"""

from __future__ import annotations

import json
import math
import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, TypeGuard, cast

UUID_LOWER = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
UUID_ANY = re.compile(UUID_LOWER.pattern, re.IGNORECASE)
CENT = Decimal("0.01")
#: Integers in JSON have any length; this is the limit for arithmetic with floats.
HUGE = 1e300


def truthy(value: object) -> bool:
    """Whether a JSON value counts as given: not null, false, 0, NaN or empty text."""
    if value is None or value is False or value == "":
        return False
    if isinstance(value, (int, float)):
        return value != 0 and value == value  # NaN is not itself
    return True


def is_number(value: object) -> TypeGuard[float | int]:
    """Whether a JSON value is a number (a boolean is not)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float | int]:
    """Whether a JSON value is a usable number: not NaN, not beyond ``HUGE``."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -HUGE < value < HUGE


def is_uuid(value: object) -> TypeGuard[str]:
    """Whether it is a UUID in lower case."""
    return isinstance(value, str) and UUID_LOWER.match(value) is not None


def number_text(value: float | int | None) -> str:
    """The shortest decimal that reads back as ``value``; ``null`` for none."""
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value) if is_finite(value) else "Infinity" if value > 0 else "-Infinity"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    if "e-" in text:
        # Down to a millionth, numbers are written without exponent.
        digits, _, exponent = text.partition("e-")
        if int(exponent) <= 6:
            return format(Decimal(text), "f")
        return f"{digits}e-{int(exponent)}"
    return text


def fixed2(value: float) -> str:
    """Two decimals; the exact binary value is rounded, half away from zero (0.125 is 0.13).

    Only odd multiples of an eighth lie exactly between two cents; formatting is correct for others.
    """
    if value * 8 % 2 != 1:
        return f"{value:.2f}"
    return str(Decimal(value).quantize(CENT, ROUND_HALF_UP))


def rounded2(value: float) -> float:
    """``value`` at two decimals."""
    return float(fixed2(value))


def plain(value: object) -> Any:
    """The JSON value with whole floats as integers."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [plain(item) for item in cast("list[object]", value)]
    return value


def json_text(value: Any) -> str:
    """Compact JSON, keys in their order."""
    return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False)


def kind_of(value: object) -> str:
    """The type name of a JSON value as the messages use it (null and arrays are objects)."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else "object"


def value_text(value: object) -> str:
    """A JSON value inside a message: text as it is, arrays joined by commas."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number_text(value)
    if isinstance(value, list):
        return ",".join(
            "" if item is None else value_text(item) for item in cast("list[object]", value)
        )
    return "[object Object]" if isinstance(value, dict) else str(value)


def wrong_type(path: str, value: object, wanted: str) -> str:
    """The message for a value of the wrong type at ``path`` (the root has an empty path)."""
    shown = f"{value_text(value).lower()} - " if path else ""
    return f'property "{path}": {shown}{kind_of(value)} value found, but a {wanted} is required'
