"""`patch`: JSON Patch on values of programs (RFC 6902, muranopl.md section 24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from vetro.muranopl.values.containers import Value
from vetro.yaql.comparing import afford, weight

from .containers import preview, thaw
from .errors import MuranoError

if TYPE_CHECKING:
    from jsonpath import JSONPatch

    from vetro.yaql.evaluation import Evaluation

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
