"""`patch`: JSON Patch on values of programs (RFC 6902, muranopl.md section 24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from .errors import MuranoError
from .values import preview, thaw

_NOWHERE = ("nonexistent", "does not exist", "out of range", "pointer", "unexpected operation on")
"""What the package says of a pointer whose last step leads nowhere; it has no class for that."""


def apply_patch(document: Any, patch: Any) -> Any:
    """The patched document as plain data.

    A pointer that leads nowhere ends the patch there: the document as so far patched is returned.
    In an infrastructure template a pointer may use the sections' other spelling (core-library.md
    section 9): `/Resources/x` finds what is under `resources`.
    A `test` that fails raises MuranoError; so does a patch that is none (ValueError for programs).
    """
    # The package takes long to load, and few programs patch.
    from jsonpath import JSONPatch
    from jsonpath.exceptions import JSONPatchError, JSONPatchTestFailure, JSONPointerError

    operations = cast("Sequence[Any]", patch) if isinstance(patch, (tuple, list)) else (patch,)
    current: Any = thaw(document)
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise MuranoError(
                f"a patch is a map with op and path, not {preview(operation)}",
                names=("ValueError",),
            )
        step = _in_spelling(cast("dict[str, Any]", thaw(operation)), current)
        try:
            current = JSONPatch([step]).apply(current)
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


_SECTIONS = ("Resources", "Outputs", "Parameters")
_PARTS = ("Type", "Properties", "Value", "Description")


def _in_spelling(operation: dict[str, Any], document: Any) -> dict[str, Any]:
    """The operation with its pointers in the spelling that a template, `document`, has."""
    pointers = {
        key: _respelled(operation[key], document)
        for key in ("path", "from")
        if isinstance(operation.get(key), str)
    }
    return {**operation, **pointers}


def _respelled(pointer: str, document: Any) -> str:
    steps = pointer.split("/")
    if len(steps) < 2 or steps[1].capitalize() not in _SECTIONS:
        return pointer
    at = document
    for index, step in enumerate(steps[1:4], 1):
        if not isinstance(at, dict):
            break
        place = cast("dict[str, Any]", at)
        if step not in place:
            known = _SECTIONS if index == 1 else _PARTS if index == 3 else ()
            other = step.lower() if step[:1].isupper() else step.capitalize()
            if step.capitalize() not in known or other not in place:
                break
            steps[index] = step = other
        at = place[step]
    return "/".join(steps)
