"""Booleans (yaql.md section 6)."""

from typing import Any

from vetro.yaql.registry import Registry

registry = Registry()


@registry.function_legacy_both("bool")
def to_boolean(value: object) -> bool:
    return bool(value)


@registry.function()
def is_boolean(value: Any) -> bool:
    return type(value) is bool
