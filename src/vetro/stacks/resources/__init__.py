"""Resource types of the native back end (core-library.md §9), registered by name."""

from vetro.stacks.resources.registry import known_types, resource_type

__all__ = ["known_types", "resource_type"]
