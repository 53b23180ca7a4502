"""Functions beyond YAQL that do not depend on the calling class (muranopl.md sections 20, 24).

They are registered in a library of their own, one for each flavour.
"""

from __future__ import annotations

import base64
import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from vetro.muranopl.values.containers import Map, Value, freeze, preview
from vetro.muranopl.values.errors import MuranoError
from vetro.muranopl.values.json_patch import apply_patch
from vetro.yaql.comparing import afford
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.signatures import Dictionary, Items, Lambda, Text
from vetro.yaql.text import to_text
from vetro.yaql.values import finalize

from .control_flow import parallel_map

if TYPE_CHECKING:
    from .run import Run


def _run(evaluation: Evaluation) -> Run:
    """The run behind an evaluation; legacy code passes a view of the run."""
    return cast("Run", getattr(evaluation, "main", evaluation))


def base64encode(text: Text) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def base64decode(text: Text) -> str:
    try:
        return base64.b64decode(text, validate=False).decode()
    except ValueError as error:
        raise ValueError(f"not base64-encoded UTF-8 text: {preview(text)}") from error


def pselect(rt: Evaluation, collection: Items, selector: Lambda) -> object:
    return parallel_map(_run(rt), selector, list(finalize(collection, rt)))


def bind(rt: Evaluation, template: object, mappings: Dictionary) -> object:
    return _bind(rt, afford(finalize(template, rt), rt), finalize(mappings, rt))


def _bind(rt: Evaluation, template: object, mappings: Mapping[object, object]) -> Value:
    if isinstance(template, str):
        return _bind_text(rt, template, mappings)
    if isinstance(template, Mapping):
        items = cast("Mapping[object, object]", template).items()
        return Map({_bind(rt, key, mappings): _bind(rt, value, mappings) for key, value in items})
    if isinstance(template, (tuple, list)):
        return tuple([_bind(rt, item, mappings) for item in cast("Sequence[object]", template)])
    return template


def _bind_text(rt: Evaluation, text: str, mappings: Mapping[object, object]) -> object:
    if not text.startswith("$"):
        return text
    rest = text[1:]
    if "{" not in rest:
        if rest not in mappings:
            raise KeyError(f"bind() has no value for ${rest}")
        return mappings[rest]
    parts: list[str] = []
    position = 0
    while True:
        start = rest.find("{", position)
        end = rest.find("}", start)
        if start < 0 or end < 0:
            parts.append(rest[position:])
            return "".join(parts)
        name = rest[start + 1 : end]
        if name not in mappings:
            raise KeyError(f"bind() has no value for {{{name}}}")
        value = mappings[name]
        parts.append(rest[position:start])
        parts.append(to_text(rt, value))
        position = end + 1


def patch(rt: Evaluation, obj: object, patch: object) -> Value:
    return freeze(apply_patch(finalize(obj, rt), finalize(patch, rt), rt))


_ALPHABET = string.digits + string.ascii_lowercase


def random_name(rt: Evaluation) -> str:
    run = _run(rt)
    effects = run.session.effects
    letters = "".join(string.ascii_lowercase[int(effects.random() * 26)] for _ in range(5))
    run.names_made += 1
    moment = int(effects.now().timestamp() * 1000)
    return letters + _base36(moment) + _base36(run.names_made)


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _ALPHABET[digit] + digits
    return digits or "0"


def decrypt_data(rt: Evaluation, value: object) -> object:
    run = _run(rt)
    secrets = run.session.secrets
    if secrets is None:
        raise MuranoError(
            "decryptData() needs a secret store, but this session has none",
            hint="give Runtime.session(secrets=…)",
        )
    return freeze(secrets(value))


def substr(string: Text, start: int, length: int = -1) -> str:
    return string[start:] if length < 0 else string[start : start + length]


def first_or_default(rt: Evaluation, collection: Items, default: object = None) -> object:
    for item in collection:
        return item
    return default
