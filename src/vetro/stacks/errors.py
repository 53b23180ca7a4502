"""The exception tree of `vetro.stacks`.

::

    StackError
    ├── TemplateError           the template cannot be used; nothing was changed
    │   ├── UnsupportedResource     a resource type this back end does not have
    │   ├── UnresolvedReference     get_resource, get_attr, get_param … of something absent
    │   ├── DependencyCycle         resources that wait for each other
    │   └── InvalidProperty         a property is missing, unknown in shape or of a wrong type
    ├── StackExists             create: a stack of this name is there already
    ├── StackNotFound           update: there is no such stack
    ├── StackBusy               another live operation works on the stack (retry later)
    ├── OperationLost           another process took this operation over
    ├── LossRefused             (in `vetro.stacks.losses`) it would lose what its request did not name
    └── ResourceFailure         one resource could not be created, changed or removed
        ├── PlacementFailure        no server had room; carries the allocator's steps
        └── AddressRangeTaken       a subnet's addresses are in use; another range may be free
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class StackError(Exception):
    """Base of everything this room raises on purpose."""


class TemplateError(StackError):
    """A template that cannot be used. Nothing was changed."""

    def __init__(self, message: str, *, resource: str | None = None) -> None:
        super().__init__(f"Resource {resource!r}: {message}" if resource is not None else message)
        self.resource = resource


class UnsupportedResource(TemplateError):
    """A resource type this back end does not provide."""


class UnresolvedReference(TemplateError):
    """A function names a resource, attribute, parameter or file that does not exist."""


class DependencyCycle(TemplateError):
    """Resources that depend on each other in a circle."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("Resources have circular dependencies: " + " → ".join(names))
        self.names = list(names)


class InvalidProperty(TemplateError):
    """A property is missing or has a value the resource type does not take."""


class StackExists(StackError):
    """`create` of a name that is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The stack {name!r} exists already; update it or delete it first")
        self.name = name


class StackNotFound(StackError):
    """`update` of a name that is not there."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no stack {name!r} in this project")
        self.name = name


class StackBusy(StackError):
    """Another live operation works on the stack."""

    def __init__(self, name: str, status: str) -> None:
        super().__init__(
            f"The stack {name!r} is {status}: another operation is in progress; "
            "try again when it has finished"
        )
        self.name = name
        self.status = status


class OperationLost(StackError):
    """Another process took the operation over (this one was thought dead); stop at once."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The operation on stack {name!r} was taken over by another process")
        self.name = name


class ResourceFailure(StackError):
    """One resource could not be created, changed or removed.

    `uncertain`: nobody said whether it was; else what was asked for has not come about.
    """

    def __init__(self, message: str, *, details: Any = None, uncertain: bool = False) -> None:
        super().__init__(message)
        self.details = details
        self.uncertain = uncertain


class PlacementFailure(ResourceFailure):
    """No server had room. `details` is the list of the allocator's steps."""


class AddressRangeTaken(ResourceFailure):
    """A subnet's range overlaps one that was taken meanwhile. Choose another range."""


def brief(value: Any, most: int = 60) -> str:
    """A value as messages show it, in at most so many characters."""
    written = repr(value)
    return written if len(written) <= most else written[: most - 3] + "…"
