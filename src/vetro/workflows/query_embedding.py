"""Values inside JSONPath expressions that a `parameter` puts together (§4, "Beyond upstream").

What comes from the model is data: inside a quoted literal it is escaped, in a condition it becomes a
literal, between dots and brackets a name. It can neither end a literal nor add to the expression.
"""

from __future__ import annotations

import re

from vetro.workflows.query_syntax import quoted

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_NAME = re.compile(r"[\w-]+")
_CONSTANTS = {"True", "False", "None"}


def join_query(pieces: list[tuple[bool, str]]) -> str:
    """The expression of texts that stand in the file (``True``) and of values (``False``)."""
    result: list[str] = []
    quote = ""
    begun = False
    depth = 0
    escaped = False
    for written, text in pieces:
        if not written:
            if quote:
                # A backslash before a value stands for itself: it must not reach into the value.
                result.append(("\\" if escaped else "") + quoted(text)[1:-1])
                escaped = False
            elif not begun:
                # Before `$`: the author builds the beginning of a path of parts.
                result.append(text)
                begun = "$" in text
            else:
                _embed(result, text, in_condition=depth > 0)
            continue
        for sign in text:
            if quote:
                if escaped or sign == "\\":
                    escaped = not escaped
                elif sign == quote:
                    quote = ""
            elif sign in "'\"":
                quote = sign
            elif sign == "(":
                depth += 1
            elif sign == ")":
                depth -= 1
            elif sign == "$":
                begun = True
        result.append(text)
    return "".join(result)


def _embed(result: list[str], text: str, *, in_condition: bool) -> None:
    before = "".join(result).rstrip()
    if before.endswith("."):
        if _NAME.fullmatch(text):
            result.append(text)
        else:
            # `.name` with odd characters is `['name']`.
            result[:] = [before[:-2] + ".." if before.endswith("..") else before[:-1]]
            result.append(f"[{quoted(text)}]")
    elif _NUMBER.fullmatch(text) or (in_condition and text in _CONSTANTS):
        result.append(text)
    else:
        result.append(quoted(text))
