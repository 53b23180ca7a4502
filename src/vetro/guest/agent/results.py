"""Results as bytes, and shortening results that are too large.

The outputs of scripts are cut: standard output and standard error, wherever in the result they
are. Each keeps its end, where the error is. If that is not enough, the result is replaced with an
error that says so; error code, exit code and the ends of the outputs are always kept.
"""

import json

from .documents import becomes_list, is_map
from .plan import failure
from .process import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NOTE = "[the first %d characters are left out]\n"
_NOTE_BYTES = 64
_LEAST = 256
"""Bytes of an output below which the rest would be useless."""
_END = 4096


def dump(result: "dict[str, object]") -> bytes:
    """A result as JSON. Raises ValueError and TypeError for an invalid one."""
    try:
        return json.dumps(result, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        # Half a surrogate pair, which only an escape sequence can represent.
        return json.dumps(result, allow_nan=False).encode("ascii")


def fit(result: "dict[str, object]", limit: int) -> bytes:
    """The result in at most `limit` bytes (more only if an error does not fit into them)."""
    data = dump(result)
    if len(data) <= limit:
        return data
    try:
        shorter = _with_cut_outputs(result, len(data), limit)
    except RecursionError:
        shorter = None
    if shorter is not None:
        return shorter
    why = "The result has %d bytes, more than the limit of %d" % (len(data), limit)
    return dump(undeliverable(result, why))


def fit_v1(result: "dict[str, object]", limit: int) -> bytes:
    """A result of format 1 in at most `limit` bytes; one that is larger, or no JSON, is an error."""
    try:
        data = dump(result)
        if len(data) <= limit:
            return data
        why = "The result has %d bytes, more than the limit of %d" % (len(data), limit)
    except (ValueError, TypeError) as error:
        why = "The result is not JSON: %s" % error
    error = {"IsException": True, "Result": ["Undeliverable", why]}
    return dump({"SourceID": result.get("SourceID"), **error})


def undeliverable(result: "dict[str, Any]", why: str) -> "dict[str, Any]":
    """The error result that replaces an undeliverable one."""
    content: "Any" = result.get("Body")
    code = result.get("ErrorCode") or 1
    outcome: "Any" = None
    if is_map(content):
        outcome = content
        if result.get("ErrorCode"):
            outcome = content.get("AdditionalInfo")
            if content.get("Message"):
                why = "%s (%s)" % (_end(str(content["Message"])), why)
    error = failure(result.get("SourceID"), Exception(why))
    error["ErrorCode"] = code
    error["Body"]["AdditionalInfo"] = None
    if is_map(outcome) and ("stdout" in outcome or "stderr" in outcome):
        kept = {key: outcome[key] for key in ("exitCode", "stdout", "stderr") if key in outcome}
        error["Body"]["AdditionalInfo"] = {
            key: _end(value) if isinstance(value, str) else value for key, value in kept.items()
        }
    return error


def _with_cut_outputs(result: "dict[str, object]", size: int, limit: int) -> "bytes | None":
    """The result with every output cut to a fair share; None if that is not enough."""
    outputs: "list[str]" = []

    def remember(text: str) -> str:
        outputs.append(text)
        return text

    _replace(result.get("Body"), remember)
    sizes = [_encoded_size(text) for text in outputs]
    share = _share(sizes, limit - (size - sum(sizes)))
    if not outputs or share < _LEAST:
        return None
    shorter = dict(result)

    def cut(text: str) -> str:
        return _cut(text, share)

    shorter["Body"] = _replace(result["Body"], cut)
    data = dump(shorter)
    return data if len(data) <= limit else None


def _share(sizes: "list[int]", room: int) -> int:
    """The common maximum at which all sizes fit; smaller ones leave their rest to the others."""
    left = sorted(sizes)
    while left:
        share = room // len(left)
        if left[0] > share:
            return share
        room -= left.pop(0)
    return room


def _replace(value: "Any", change: "Callable[[str], str]", is_output: bool = False) -> "Any":
    """A copy of a JSON value with `change` applied to every output of a script."""
    if isinstance(value, str):
        return change(value) if is_output or isinstance(value, Output) else value
    if is_map(value):
        outcome: "dict[str, Any]" = value
        return {
            key: _replace(item, change, key in ("stdout", "stderr"))
            for key, item in outcome.items()
        }
    if becomes_list(value):
        items: "list[Any]" = value
        return [_replace(item, change) for item in items]
    return value


def _cut(text: str, size: int) -> str:
    """The longest end of a text that, encoded and with a note, has at most `size` bytes."""
    if _encoded_size(text) <= size:
        return text
    room = size - _NOTE_BYTES
    low, high = max(0, len(text) - room), len(text)  # a character has at least one byte
    while low < high:
        middle = (low + high) // 2
        if _encoded_size(text[middle:]) <= room:
            high = middle
        else:
            low = middle + 1
    return _NOTE % low + text[low:]


def _encoded_size(text: str) -> int:
    encoded = json.dumps(text, ensure_ascii=False)
    try:
        return len(encoded.encode("utf-8")) - 2
    except UnicodeEncodeError:
        return len(json.dumps(text)) - 2


def _end(text: str) -> str:
    return text if len(text) <= _END else _NOTE % (len(text) - _END) + text[-_END:]
