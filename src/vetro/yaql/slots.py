"""Slots: the objects that generated code refers to by name, described in plain data.

Generated source contains no objects. The objects that it needs (a call site with its cache, a
constant without a literal) are globals of its module, called *slots*. Plain data describe a slot: a
kind and arguments. So generated code can be stored on disk, and `bind_slots` makes its slots again.
A slot also has the offset of its node in the expression, so that a failure in generated code can be
traced to the text (`locate`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any

from . import operators, runtime
from .comparing import hashable
from .inline_caches import existing_function, function_site, method_site, operator_site
from .library import Library
from .text import joined
from .values import (
    FINAL_TYPES,
    LIST_TYPES,
    MAPPING_TYPES,
    NUMBER_TYPES,
    SCALAR_TYPES,
    SIZED_TYPES,
    Context,
    FrozenDict,
    Memorized,
    finalize,
)

PRELUDE: dict[str, object] = {
    "type": type,
    "int": int,
    "str": str,
    "bool": bool,
    "float": float,
    "len": len,
    "list": list,
    "dict": dict,
    "tuple": tuple,
    "y_Frozen": FrozenDict,
    "y_Context": Context,
    "y_MAPPINGS": MAPPING_TYPES,
    "y_LISTS": LIST_TYPES,
    "y_SCALARS": SCALAR_TYPES,
    "y_NUMBERS": NUMBER_TYPES,
    "y_SIZED": SIZED_TYPES,
    "y_JOINABLE": frozenset([tuple, list, map, filter]),
    "y_joined": joined,
    "y_FINAL": FINAL_TYPES,
    "y_finalize": finalize,
    "y_key": hashable,
    "y_checked_integer": operators.checked_integer,
    "y_checked_string": operators.checked_string,
    "y_memorize": Memorized,
    "y_let": runtime.make_context,
    "y_define": runtime.define_function,
    "y_dynamic": runtime.call_dynamic,
    "y_cases": runtime.true_cases,
    "y_first_case": runtime.first_true_case,
    "y_examine": runtime.examine_cases,
    "y_rules": runtime.apply_rules,
    "y_coalesce": runtime.first_value,
    "y_case": runtime.case_at,
}
"""Names that generated code may use without a slot. Put them into the module's globals."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot: `kind` and `data` describe it, `position` is the offset of its node.

    Kinds: `operator` (symbol), `match` (symbol, pattern), `pattern` (text), `unary` (symbol),
    `property` (name), `function` (name, shape), `existing` (name of a function), `method` (name,
    shape, lazy arguments), `runtime` (name of a function of `runtime`), `value` (a constant); a host
    adds its own through `bind_slots(binders=…)`.
    """

    kind: str
    data: tuple[Any, ...]
    position: int


def bind_slot(slot: Slot, library: Library) -> Any:
    """The object of a slot, for the kinds that this package defines."""
    kind, data = slot.kind, slot.data
    if kind == "operator":
        name = operators.registered_name(library, data[0])
        return operator_site(
            library, name, ("", ""), operators.OPERATORS.get(data[0]), slot.position
        )
    if kind == "match":
        return operators.match_site(data[0], data[1])
    if kind == "pattern":
        return operators.pattern_site(data[0])
    if kind == "unary":
        name = f"#unary_operator_{data[0]}"
        return operator_site(library, name, ("",), operators.UNARY.get(data[0]), slot.position)
    if kind == "property":
        return runtime.property_site(data[0], slot.position)
    if kind == "function":
        return function_site(library, data[0], data[1], slot.position)
    if kind == "existing":
        return existing_function(library, data[0], slot.position)
    if kind == "method":
        return method_site(library, data[0], data[1], data[2], slot.position)
    if kind == "runtime":
        return getattr(runtime, data[0])
    if kind == "value":
        return runtime.constant_value(data[0])
    raise ValueError(f"no slot is of kind {kind!r}")


def bind_slots(
    slots: Sequence[Slot], library: Library, prefix: str = "s", binders: Any = None
) -> dict[str, object]:
    """The globals for generated code: `prefix` + number to object.

    `binders`: a mapping from further kinds to `Callable[[Slot], object]`.
    """
    bound: dict[str, object] = {}
    for number, slot in enumerate(slots):
        binder = binders.get(slot.kind) if binders is not None else None
        bound[f"{prefix}{number}"] = (
            binder(slot) if binder is not None else bind_slot(slot, library)
        )
    return bound


def locate(
    traceback: TracebackType | None,
    source_lines: Sequence[str],
    code: Iterable[CodeType] | None,
    slots: Sequence[Slot],
    prefix: str = "s",
    filename: str | None = None,
) -> int | None:
    """The offset in the expression's text at which a failure happened, or None.

    Uses the innermost frame of generated code (whose file name is `filename`): Python records the
    columns of the failed instruction; the first slot named at or after it identifies the node.
    """
    found: int | None = None
    while traceback is not None:
        frame_code = traceback.tb_frame.f_code
        if frame_code.co_filename == filename:
            position = _position_of(frame_code, traceback.tb_lasti, source_lines, slots, prefix)
            if position is not None:
                found = position
        traceback = traceback.tb_next
    return found


def _position_of(
    code: CodeType, instruction: int, lines: Sequence[str], slots: Sequence[Slot], prefix: str
) -> int | None:
    for index, (line, end_line, column, end_column) in enumerate(code.co_positions()):
        if index * 2 < instruction:
            continue
        if line is None or column is None or end_line != line or line > len(lines):
            return None
        # Columns count bytes of UTF-8.
        encoded = lines[line - 1].encode()
        pattern = re.compile(rf"\b{re.escape(prefix)}(\d+)\b")
        inside = pattern.match(encoded[column:end_column].decode(errors="replace"))
        if inside is None:
            inside = pattern.search(encoded[end_column or column :].decode(errors="replace"))
        if inside is not None and int(inside[1]) < len(slots):
            return slots[int(inside[1])].position
        return None
    return None


class Emitter:
    """Collects the slots and hands out the temporary variables of one generated module."""

    def __init__(self, *, prefix: str = "s", runtime: str = "rt") -> None:
        self.prefix = prefix
        self.runtime = runtime
        self.slots: list[Slot] = []
        self._temporaries = 0

    def slot(self, kind: str, data: tuple[object, ...], position: int) -> str:
        """The global name of a new slot."""
        self.slots.append(Slot(kind, data, position))
        return f"{self.prefix}{len(self.slots) - 1}"

    def temporary(self) -> str:
        """The name of a local variable that nothing else uses."""
        self._temporaries += 1
        return f"y{self._temporaries}"
