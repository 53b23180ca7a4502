"""Package patches: the operations that each attribute allows (catalog-api.md §6.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from vetro.http import BadRequest, Forbidden, NotFound
from vetro.packages import MAX_TAGS

LISTS = ("categories", "tags")
FLAGS = ("is_public", "enabled")
TEXTS = ("description", "name")
SIGNATURE = "signature"


@dataclass(frozen=True)
class Change:
    """One checked operation."""

    op: str
    path: str
    value: Any

    def apply(self, view: dict[str, object]) -> None:
        """Change the package object. Errors: 404 when a value to remove is absent."""
        if self.path not in LISTS:
            view[self.path] = self.value
            return
        current = cast("list[str]", view[self.path])
        values = cast("list[str]", self.value)
        if self.op == "add":
            view[self.path] = list(dict.fromkeys([*current, *values]))
        elif self.op == "replace":
            view[self.path] = list(dict.fromkeys(values))
        else:
            absent = [value for value in values if value not in current]
            if absent:
                raise NotFound(f"Value '{absent[0]}' of {self.path} does not exist")
            view[self.path] = [v for v in current if values and v not in values]


def parse_operations(body: object) -> list[Change]:
    """Check a patch. Errors: 400 for its form, 403 for an operation that is not allowed."""
    if not isinstance(body, list):
        raise BadRequest("A package patch must be a list of operations")
    return [_operation(item) for item in cast("list[object]", body)]


def _operation(item: object) -> Change:
    if not isinstance(item, dict):
        raise BadRequest("Each operation of a package patch must be an object")
    given = cast("dict[str, object]", item)
    op, path = given.get("op"), given.get("path")
    if not isinstance(op, str) or not isinstance(path, str):
        raise BadRequest("An operation needs 'op' and 'path'")
    if not path.startswith("/") or "/" in path[1:]:
        raise BadRequest(f"The path {path} must be one segment, like /tags")
    name = path[1:]
    if name not in (*LISTS, *FLAGS, *TEXTS, SIGNATURE):
        raise Forbidden(f"Attribute '{name}' may not be changed")
    if op not in _operations_on(name):
        raise Forbidden(f"Operation '{op}' is not permitted on {path}")
    if "value" not in given and op != "remove":
        raise BadRequest(f"Operation '{op}' on {path} needs a 'value'")
    value = given.get("value", [] if name in LISTS else None)
    if name in LISTS:
        items = cast("list[object]", value) if isinstance(value, list) else None
        if items is None or not all(isinstance(one, str) and 0 < len(one) <= 80 for one in items):
            raise BadRequest(f"The value of {path} must be a list of texts of 1 to 80 characters")
        if len(items) > MAX_TAGS:
            raise BadRequest(f"The value of {path} has {len(items)} elements; at most {MAX_TAGS}")
        if len(set(cast("list[str]", items))) != len(items):
            raise BadRequest(f"The value of {path} contains an element twice")
    elif name in FLAGS and not isinstance(value, bool):
        raise BadRequest(f"The value of {path} must be true or false")
    elif (name in TEXTS or (name == SIGNATURE and op == "replace")) and not isinstance(value, str):
        raise BadRequest(f"The value of {path} must be text")
    if name == "name" and not 0 < len(str(cast("object", value)).strip()) <= 80:
        raise BadRequest("A package's name must have 1 to 80 characters")
    return Change(op, name, None if op == "remove" and name == SIGNATURE else value)


def _operations_on(name: str) -> tuple[str, ...]:
    if name == SIGNATURE:
        return ("replace", "remove")
    return ("add", "replace", "remove") if name in LISTS else ("replace",)
