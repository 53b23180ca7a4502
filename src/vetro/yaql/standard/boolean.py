"""Booleans (yaql.md section 6)."""

from vetro.yaql.registry import Registry
from vetro.yaql.values import Value

registry = Registry()


@registry.function_legacy_both("bool")
def to_boolean(value: object) -> bool:
    return bool(value)


@registry.function()
def is_boolean(value: Value) -> bool:
    return type(value) is bool
