"""Infrastructure stacks: a template becomes resources (core-library.md §4.4, §9).

`Stacks` is the protocol of a back end; `Stack` a snapshot of one stack; `StackPlan` what an
operation would do. `NetworkDirectory` answers what exists in a project's network.
"""

from vetro.stacks.directory import NetworkDirectory, RouterWithoutGateway
from vetro.stacks.errors import (
    DependencyCycle,
    InvalidProperty,
    OperationLost,
    PlacementFailure,
    ResourceFailure,
    StackBusy,
    StackError,
    StackExists,
    StackNotFound,
    TemplateError,
    UnresolvedReference,
    UnsupportedResource,
)
from vetro.stacks.model import (
    Change,
    ChangeKind,
    ProgressCallback,
    Stack,
    StackPlan,
    StackResource,
    Stacks,
    StackStatus,
)

__all__ = [
    "Change",
    "ChangeKind",
    "DependencyCycle",
    "InvalidProperty",
    "NetworkDirectory",
    "OperationLost",
    "PlacementFailure",
    "ProgressCallback",
    "ResourceFailure",
    "RouterWithoutGateway",
    "Stack",
    "StackBusy",
    "StackError",
    "StackExists",
    "StackNotFound",
    "StackPlan",
    "StackResource",
    "StackStatus",
    "Stacks",
    "TemplateError",
    "UnresolvedReference",
    "UnsupportedResource",
]
