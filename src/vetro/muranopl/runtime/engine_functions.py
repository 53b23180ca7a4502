"""Functions beyond YAQL that do not depend on the calling class (muranopl.md sections 20, 24).

They are registered in a library of their own, one for each flavour. `patch` is JSON Patch (RFC 6902) on
values of programs.
"""

from __future__ import annotations

import base64
import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from vetro.muranopl.values.containers import Map, Value, freeze, preview, thaw
from vetro.muranopl.values.errors import MuranoError
from vetro.yaql.comparing import afford, weight
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.signatures import Dictionary, Items, Lambda, Text
from vetro.yaql.text import to_text
from vetro.yaql.values import finalize

from .control_flow import parallel_map

if TYPE_CHECKING:
    from jsonpath import JSONPatch

    from vetro.yaql.evaluation import Evaluation

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


_NOWHERE = ("nonexistent", "does not exist", "out of range", "pointer", "unexpected operation on")
"""Parts of the library's messages for a pointer to a missing place; it has no class for them."""


def apply_patch(document: object, patch: object, rt: Evaluation) -> object:
    """The patched document as plain data.

    Charged: copied parts, each operation, and the list elements that it moves.

    A pointer to a missing place ends the patch: the document as patched so far is returned.
    In an infrastructure template a pointer may use the sections' other spelling (core-library.md
    section 9): `/Resources/x` also finds `x` under `resources`.
    A failed `test` raises MuranoError; so does an invalid patch (ValueError for programs).
    """
    # The library takes long to import, and few programs patch.
    from jsonpath import JSONPatch
    from jsonpath.exceptions import JSONPatchError, JSONPatchTestFailure, JSONPointerError

    operations = cast("Sequence[object]", patch) if isinstance(patch, (tuple, list)) else (patch,)
    current: Value = thaw(afford(document, rt))
    copied = 0
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise MuranoError(
                f"a patch operation must be a map with op and path, not {preview(operation)}",
                names=("ValueError",),
            )
        rt.charge(_OPERATION)
        step = _in_spelling(cast("dict[str, Value]", thaw(afford(operation, rt))), current)
        try:
            prepared = JSONPatch([step])
            copied += _charge(prepared, current, rt)
            if copied > rt.max_items:
                # One budget for the whole patch: repeated copies grow exponentially.
                rt.check_items(copied)
            current = prepared.apply(current)
        except JSONPatchTestFailure as error:
            raise MuranoError(
                f"patch(): the test of {step.get('path')!r} failed", names=("JsonPatchTestFailed",)
            ) from error
        except JSONPointerError:
            return current
        except JSONPatchError as error:
            if isinstance(error.__cause__, JSONPointerError) or any(
                words in str(error) for words in _NOWHERE
            ):
                return current
            raise MuranoError(f"patch(): {error}", names=("ValueError",)) from error
    return current


def _charge(prepared: JSONPatch, document: Value, rt: Evaluation) -> int:
    """Charge for the only operation of a patch before it runs; returns how many parts it copies."""
    from jsonpath import JSONPointer
    from jsonpath.exceptions import JSONPointerError

    copied = 0
    (operation,) = prepared.ops
    for name in ("path", "dest", "source"):
        pointer = getattr(operation, name, None)
        if not isinstance(pointer, JSONPointer):
            continue
        rt.charge(len(pointer.parts))
        try:
            parent, found = pointer.resolve_parent(document)
        except JSONPointerError:
            # The place is missing, or exists only after a removal.
            continue
        if isinstance(parent, list):
            rt.charge(len(cast("list[Value]", parent)) // _MOVED)
        if name == "source" and operation.name == "copy":
            copied = weight((found,))
            rt.charge(copied)
    return copied


_OPERATION = 32
"""Steps charged for one operation: its pointer is parsed and followed."""
_MOVED = 32
"""The number of moved list elements per charged step."""
_SECTIONS = ("Resources", "Outputs", "Parameters")
_PARTS = ("Type", "Properties", "Value", "Description")


def _in_spelling(operation: dict[str, Value], document: Value) -> dict[str, object]:
    """The operation with its pointers in the spelling of the template `document`."""
    pointers = {
        key: _respelled(operation[key], document)
        for key in ("path", "from")
        if isinstance(operation.get(key), str)
    }
    return {**operation, **pointers}


def _respelled(pointer: str, document: object) -> str:
    steps = pointer.split("/")
    if len(steps) < 2 or steps[1].capitalize() not in _SECTIONS:
        return pointer
    at = document
    for index, step in enumerate(steps[1:4], 1):
        if not isinstance(at, dict):
            break
        place = cast("dict[str, object]", at)
        if step not in place:
            known = _SECTIONS if index == 1 else _PARTS if index == 3 else ()
            other = step.lower() if step[:1].isupper() else step.capitalize()
            if step.capitalize() not in known or other not in place:
                break
            steps[index] = step = other
        at = place[step]
    return "/".join(steps)
