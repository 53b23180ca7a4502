"""Simple paths of `select` and `set`: ``:`` up, ``/`` root, ``#`` variables, dotted steps (§3)."""

# Casts in these loops cost more than what they do: values of isinstance stay of unknown content.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from vetro.workflows.errors import EvaluationError, WorkflowSyntaxError
from vetro.workflows.values import Json, equal, plain_copy, reaches, type_name

Step = str | int
Cursor = tuple[Step, ...]
PATH_LENGTH = 10_000


@dataclass(frozen=True, slots=True)
class Path:
    """``kind``: what is addressed. ``up``: levels to go up, ``None`` from the root.

    ``steps``: of a model path. ``name``: a variable, or ``section.option`` of a setting.
    """

    kind: Literal["model", "variable", "setting"]
    up: int | None
    steps: tuple[str, ...] = ()
    name: str = ""
    text: str = ""


def prefix_of(text: str) -> tuple[int | None, int]:
    """Levels up (``None``: from the root) and the length of the prefix; mixed ones from the left."""
    up: int | None = 0
    length = 0
    for sign in text:
        if sign == "/":
            up = None
        elif sign != ":":
            break
        elif up is not None:
            up += 1
        length += 1
    return up, length


def parse_path(text: str) -> Path:
    """The meaning of a path. Raises: WorkflowSyntaxError."""
    text = text.strip()
    if len(text) > PATH_LENGTH:
        raise WorkflowSyntaxError(f"the path has more than {PATH_LENGTH} characters")
    if text.startswith("##"):
        return Path("setting", 0, name=text[2:], text=text)
    up, length = prefix_of(text)
    rest = text[length:]
    if rest.startswith("#"):
        up, length = prefix_of(rest[1:])
        name = rest[1 + length :]
        if not name:
            raise WorkflowSyntaxError(f"the path {text!r} names no variable after '#'")
        return Path("variable", up, name=name, text=text)
    if not rest:
        return Path("model", up, text=text)
    steps = tuple(rest.split("."))
    for step in steps:
        if not step or step != step.strip():
            raise WorkflowSyntaxError(
                f"the path {text!r} has the step {step!r}: a step is a key or an index"
            )
    if steps[0].startswith("$"):
        raise WorkflowSyntaxError(
            f"the path {text!r} is a JSONPath expression: use select-all or select-single"
        )
    return Path("model", up, steps, text=text)


def base_of(cursor: Cursor, up: int | None) -> Cursor:
    """The cursor, some levels up; stops at the root."""
    if not up:
        return cursor if up == 0 else ()
    return cursor[:-up] if up < len(cursor) else ()


def follow(value: Json, steps: Sequence[Step]) -> Json:
    """What stands at the end of steps; ``None`` where there is nothing."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list):
            index = step if isinstance(step, int) else index_of(step)
            value = value[index] if index is not None and index < len(value) else None
        else:
            return None
    return value


def index_of(step: str) -> int | None:
    """The list index that a step means."""
    return int(step) if step.isdecimal() and step.isascii() and len(step) < 10 else None


def write(root: Json, steps: Sequence[Step], value: Json, path: str) -> bool:
    """Write below ``root``; missing maps appear on the way. Whether anything changed.

    Raises: EvaluationError when the way leads through a scalar or a bad index.
    """
    if not steps:
        raise EvaluationError(f"the path {path!r} addresses the whole model, which cannot be set")
    if equal(follow(root, steps), value):
        return False
    holder: Json = root
    for number, step in enumerate(steps[:-1]):
        if isinstance(holder, dict):
            inner = holder.get(step)
            if inner is None:
                inner = holder[step] = {}
        elif isinstance(holder, list) and isinstance(step, int) and step < len(holder):
            inner = holder[step]
            if inner is None:
                inner = holder[step] = {}
        else:
            items, index = _item(holder, step, path, steps[:number])
            inner = items[index]
            if inner is None:
                inner = items[index] = {}
        holder = inner
    last = steps[-1]
    if isinstance(value, (dict, list)) and reaches(value, holder):
        # The value would contain itself.
        value = plain_copy(value)
    if isinstance(holder, dict):
        holder[last] = value
    else:
        items, index = _item(holder, last, path, steps[:-1])
        items[index] = value
    return True


def _item(holder: Json, step: Step, path: str, done: Sequence[Step]) -> tuple[list[Json], int]:
    way = ".".join(map(str, done)) or "the start"
    if not isinstance(holder, list):
        raise EvaluationError(
            f"cannot set {path!r}: at {way} stands {type_name(holder)}, which has no {step!r}"
        )
    items = cast("list[Json]", holder)
    index = step if isinstance(step, int) else index_of(step)
    if index is None or index >= len(items):
        raise EvaluationError(
            f"cannot set {path!r}: the list at {way} has {len(items)} items and no {step!r}"
        )
    return items, index
