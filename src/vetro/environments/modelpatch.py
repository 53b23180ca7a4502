"""Patches of the model endpoint (catalog-api.md §5.4)."""

from __future__ import annotations

import re
from typing import cast

from vetro.digits import is_number
from vetro.environments.checking import header_kept
from vetro.environments.flat import refuse_fixed
from vetro.environments.model import list_index
from vetro.environments.model_forms import NEEDED, form_problem
from vetro.http import BadRequest, Forbidden, NotFound

FORBIDDEN = ("", "/?/id", "/defaultNetworks/environment/?/id")
REPLACE_ONLY = (
    "/name",
    "/region",
    "/?/type",
    "/defaultNetworks",
    "/defaultNetworks/environment",
    "/defaultNetworks/flat",
)


#: Of the root object of a workflow environment: whose it is, and which.
FLAT_FIXED = ("id", "tenant_id", "created", "updated", "version")
_TILDE = re.compile(r"~(?![01])")


def patch_model(root: dict[str, object], body: object) -> None:
    """Apply a patch to a copy of the root object. Errors: 400, 403, 404 in the order of §5.4."""
    if not body:
        raise BadRequest("JSON-PATCH must have at least one operation")
    if not isinstance(body, list):
        raise BadRequest("Request body must be a JSON array of operation objects")
    for item in cast("list[object]", body):
        if not isinstance(item, dict):
            raise BadRequest("Operations must be JSON objects")
        _apply(root, cast("dict[str, object]", item))


def _apply(root: dict[str, object], operation: dict[str, object]) -> None:
    op, path = operation.get("op"), operation.get("path")
    if not isinstance(op, str) or not isinstance(path, str):
        raise BadRequest("An operation needs 'op' and 'path'")
    _check_path(path)
    if op != "remove" and "value" not in operation:
        raise BadRequest(f"Operation '{op}' requires a member named 'value'")
    plain = "" if path == "/" else path
    allowed = ("add", "replace", "remove")
    if plain in FORBIDDEN:
        allowed = ()
    elif plain in REPLACE_ONLY:
        allowed = ("replace",)
    elif plain in NEEDED:
        allowed = ("add", "replace")
    if op not in allowed:
        raise Forbidden(f"Operation '{op}' is not permitted on {path}")
    value = operation.get("value")
    wrong = form_problem(plain, value) if op != "remove" else ""
    if wrong:
        raise BadRequest(wrong)
    parts = [p.replace("~1", "/").replace("~0", "~") for p in plain[1:].split("/")]
    if "?" not in root:  # a workflow environment (§7)
        if parts[0] in FLAT_FIXED:
            raise Forbidden(f"Operation '{op}' is not permitted on {path}")
        if parts[-1] != "type":  # of that the whole list is checked
            refuse_fixed(parts[1:])
    with header_kept(root, parts):
        _change(root, parts, op, value)


def _check_path(path: str) -> None:
    if not path.startswith("/"):
        raise BadRequest(f"Operation path {path!r} must begin with '/'")
    if path != "/" and path.endswith("/"):
        raise BadRequest(f"Operation path {path!r} must not end with '/'")
    if "//" in path:
        raise BadRequest(f"Operation path {path!r} must not have adjacent '/'")
    if _TILDE.search(path):
        raise BadRequest(f"In operation path {path!r}, '~' must be followed by 0 or 1")


def _change(root: dict[str, object], parts: list[str], op: str, value: object) -> None:
    place: object = root
    for part in parts[:-1]:
        place = _down(place, part)
    last = parts[-1]
    if isinstance(place, dict):
        node = cast("dict[str, object]", place)
        if op != "add" and last not in node:
            raise NotFound(f"There is nothing at '{last}'")
        if op == "remove":
            del node[last]
        else:
            node[last] = value
        return
    if not isinstance(place, list):
        raise NotFound(f"There is nothing at '{last}'")
    items = cast("list[object]", place)
    if op == "add":
        if last == "-":
            items.append(value)
        elif is_number(last) and int(last) <= len(items):
            items.insert(int(last), value)
        else:
            raise NotFound(f"The list has no position '{last}'")
    elif op == "remove":
        del items[list_index(items, last)]
    else:
        items[list_index(items, last)] = value


def _down(place: object, part: str) -> object:
    if isinstance(place, dict) and part in place:
        return cast("dict[str, object]", place)[part]
    if isinstance(place, list):
        items = cast("list[object]", place)
        return items[list_index(items, part)]
    raise NotFound(f"There is nothing at '{part}'")
