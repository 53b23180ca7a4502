"""Regular expressions of forms: ``pattern`` or ``/pattern/flags``, searched, in bounded time (B3)."""

from __future__ import annotations

import re

from vetro.packages.forms.errors import FormError
from vetro.packages.forms.expressions import LIMITS
from vetro.yaql import YaqlException, compile

_SLASHED = re.compile(r"/(.*)/([A-Za-z]*)", re.DOTALL)
_FLAGS = "aimsux"


def split_pattern(pattern: str) -> tuple[str, str]:
    """A pattern and its flags. Errors: ``FormError`` for flags that there are not."""
    slashed = _SLASHED.fullmatch(pattern)
    if slashed is None:
        return pattern, ""
    flags = slashed[2].lower()
    unknown = sorted(set(flags) - set(_FLAGS))
    if unknown:
        raise FormError(f"The pattern {pattern!r:.200} has unknown flags: {', '.join(unknown)}")
    return slashed[1], "".join(dict.fromkeys(flags.replace("u", "")))


def matches(pattern: str, value: str) -> bool:
    """Whether a pattern is found in a text. Errors: ``FormError`` for a pattern that is wrong.

    It is searched by the expression language, which bounds the time of patterns that backtrack.
    """
    inner, flags = split_pattern(pattern)
    text = f"(?{flags}){inner}" if flags else inner
    search = compile("regex($.pattern).search($.value) != null")
    try:
        return bool(search.evaluate({"pattern": text, "value": value}, limits=LIMITS))
    except (YaqlException, ValueError, re.error) as error:
        raise FormError(f"The pattern {pattern!r:.200} of the form is wrong: {error}") from error
