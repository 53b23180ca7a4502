"""Booleans (yaql.md section 6)."""

from typing import Any

from ..registry import Registry

registry = Registry()


@registry.function_legacy_both("bool")
def to_boolean(value: Any) -> bool:
    """Truthiness of anything."""
    return bool(value)


@registry.function()
def is_boolean(value: Any) -> bool:
    return isinstance(value, bool)
