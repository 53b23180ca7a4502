"""What a condition is when nothing is kept yet: at the first deployment of an application."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from vetro.muranopl.syntax.yamltree import Scalar
from vetro.yaql import ast

from .guardflow import ClassFlow, Where, attribute_call, is_this


class _Unsure:
    """The value of what is not known before the program runs."""


UNSURE: Final = _Unsure()
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_DEPTH = 50


def unset_value(flow: ClassFlow, where: Where, depth: int = 0) -> object:
    """The value of an expression when no attribute is set and kept properties have their defaults.

    `UNSURE` when it depends on something else.
    """
    method, part = where

    def value(node: ast.Node) -> Any:
        return unset_value(flow, Where(method, node), depth + 1)

    if depth > _DEPTH:
        return UNSURE
    read = attribute_call(part, "getAttr")
    if read is not None:
        return value(read[1]) if len(read) > 1 else None
    same = flow.single(where)
    if same is not None:
        return unset_value(flow, same, depth + 1)
    match part:
        case ast.Constant(value=found):
            return found
        case ast.Keyword(name=name):
            return name
        case ast.ListLiteral(items=()) | ast.MapLiteral(items=()):
            return ()
        case ast.Unary(operator="not", operand=operand):
            found = value(operand)
            return UNSURE if found is UNSURE else not found
        case ast.Binary():
            return _combined(part.operator, value(part.left), value(part.right))
        case ast.Property(target=target, name=name) if is_this(target) and name in flow.kept:
            default = flow.kept[name]
            if default is None:
                return None
            if isinstance(default, Scalar) and not default.is_expression:
                return default.value
            return UNSURE
        case ast.Property(target=target) | ast.MethodCall(target=target) | ast.Index(target=target):
            # There is nothing in nothing.
            return UNSURE if value(target) else None
        case ast.Call(name="len", arguments=(given,)):
            found = value(given)
            return UNSURE if found is UNSURE else len(found or ())
        case ast.Call(name="bool", arguments=(given,)):
            found = value(given)
            return UNSURE if found is UNSURE else bool(found)
        case ast.Call(name="coalesce", arguments=given):
            return next((found for one in given if (found := value(one)) is not None), None)
        case _:
            return UNSURE


def _combined(name: str, left: Any, right: Any) -> object:
    """The value of an operator; what is kept nowhere is none of the values that are not known."""
    if name in ("and", "or"):
        decisive = name == "or"
        known = [bool(one) for one in (left, right) if one is not UNSURE]
        if decisive in known:
            return decisive
        return (not decisive) if len(known) == 2 else UNSURE
    if name == "in":
        return UNSURE if right is UNSURE or right else False
    if name in ("=", "!=") and None in (left, right) and UNSURE in (left, right):
        return name == "!="
    compare = _COMPARISONS.get(name)
    if compare is None or left is UNSURE or right is UNSURE:
        return UNSURE
    try:
        return compare(left, right)
    except TypeError:
        return UNSURE
