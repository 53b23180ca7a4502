"""The errors of the allocator.

AllocationError
├── DescriptionError   the pipeline description cannot be used: the service refuses to start
├── DefaultsError      a default has an invalid value: the service refuses to start
├── InvalidRequest     a parameter of a request; carries the field
├── ExpressionError    an owner filter's expression
└── PatternError       a regular expression of an affinity
"""

from __future__ import annotations


class AllocationError(Exception):
    """Root of the tree."""


class DescriptionError(AllocationError):
    """The pipeline description cannot be used."""


class DefaultsError(AllocationError):
    """A default has an invalid value; ``key`` names it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class InvalidRequest(AllocationError):
    """A parameter of an allocation request; ``field`` is the parameter's name."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ExpressionError(AllocationError):
    """An owner filter's expression is invalid or has no result for a server."""


class PatternError(AllocationError):
    """A regular expression is invalid or uses unsupported syntax."""
