"""Records: plain classes of fields that are quick to define.

Defining a dataclass with slots takes a third of a millisecond, and the compiler has some forty
record classes, which every process defines at its start. `record` adds an `__init__` and a
`__repr__` and nothing else: no comparison, no slots.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import get_annotations
from typing import Any, TypeVar, cast, dataclass_transform

C = TypeVar("C")
_FIELDS = "record_fields"
_REQUIRED: object = object()


class _Made:
    """A default that is made for each instance."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def made(*, factory: Callable[[], C]) -> C:
    """The default of a field: what `factory` returns, for each instance."""
    return cast(C, _Made(factory))


@dataclass_transform(eq_default=False, field_specifiers=(made,))
def record(cls: type[C]) -> type[C]:
    """Make a class with annotated fields a record; inherited fields come first."""
    fields: dict[str, object] = {}
    for base in reversed(cls.__mro__[1:]):
        fields.update(base.__dict__.get(_FIELDS, {}))
    for name, annotation in get_annotations(cls).items():
        if not str(annotation).startswith("ClassVar"):
            fields[name] = cls.__dict__.get(name, _REQUIRED)
    parameters: list[str] = []
    lines: list[str] = []
    space: dict[str, object] = {}
    for name, default in fields.items():
        if default is _REQUIRED:
            parameters.append(name)
            lines.append(f"self.{name} = {name}")
            continue
        space[f"d_{name}"] = default.make if isinstance(default, _Made) else default
        parameters.append(f"{name}=d_{name}")
        if isinstance(default, _Made):
            lines.append(f"self.{name} = d_{name}() if {name} is d_{name} else {name}")
        else:
            lines.append(f"self.{name} = {name}")
    body = "; ".join(lines) or "pass"
    text = f"def __init__(self, {', '.join(parameters)}): {body}"
    exec(text, space)  # noqa: S102 - names of fields from a class of this package
    setattr(cls, "__init__", space["__init__"])  # noqa: B010 - a class's own, typed above
    setattr(cls, _FIELDS, fields)
    if cls.__repr__ is object.__repr__:
        setattr(cls, "__repr__", _shown)  # noqa: B010
    return cls


def field_names(item: object) -> tuple[str, ...]:
    """The names of a record's fields, inherited ones first."""
    return tuple(getattr(item, _FIELDS))


def _shown(self: object) -> str:
    names: dict[str, object] = getattr(self, _FIELDS)
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
    return f"{type(self).__name__}({values})"
