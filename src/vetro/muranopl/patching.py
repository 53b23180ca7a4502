"""`patch`: JSON Patch on values of programs (RFC 6902, muranopl.md section 24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from .errors import MuranoError
from .values import preview, thaw


def apply_patch(document: Any, patch: Any) -> Any:
    """The patched document as plain data.

    A pointer that leads nowhere ends the patch there: the document as so far patched is returned.
    A `test` that fails raises MuranoError; so does a patch that is none (ValueError for programs).
    """
    # The package takes long to load, and few programs patch.
    from jsonpath import JSONPatch
    from jsonpath.exceptions import JSONPatchError, JSONPatchTestFailure, JSONPointerError

    operations = cast(Sequence[Any], patch) if isinstance(patch, (tuple, list)) else (patch,)
    current: Any = thaw(document)
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise MuranoError(
                f"a patch is a map with op and path, not {preview(operation)}",
                names=("ValueError",),
            )
        step = cast("dict[str, Any]", thaw(operation))
        try:
            current = JSONPatch([step]).apply(current)
        except JSONPatchTestFailure as error:
            raise MuranoError(
                f"patch(): the test of {step.get('path')!r} failed", names=("JsonPatchTestFailed",)
            ) from error
        except JSONPointerError:
            return current
        except JSONPatchError as error:
            if isinstance(error.__cause__, JSONPointerError) or "pointer" in str(error).lower():
                return current
            raise MuranoError(f"patch(): {error}", names=("ValueError",)) from error
    return current
