"""Infrastructure stacks: a template becomes resources (core-library.md §4.4, §9).

`Stacks` is the protocol of a back end; `NativeStacks(db, compute)` the one on the project's own
compute service, `vetro.stacks.memory.MemoryStacks` its in-memory twin for tests. `Stack` is a
snapshot of one stack, `StackPlan` what an operation would do. `NetworkDirectory` answers what
exists in a project's network.
"""

from pathlib import Path

from vetro.stacks.directory import (
    ComputeNetworkDirectory,
    NetworkDirectory,
    RouterWithoutGateway,
    choose_cidr,
)
from vetro.stacks.errors import (
    AddressRangeTaken,
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
from vetro.stacks.flavors import DEFAULT_FLAVORS, Flavor
from vetro.stacks.model import (
    Change,
    ChangeKind,
    ProgressCallback,
    Stack,
    StackFailure,
    StackPlan,
    StackResource,
    Stacks,
    StackStatus,
)
from vetro.stacks.native import NativeSettings, NativeStacks, StackEngine
from vetro.storage import MigrationSet

MIGRATIONS = MigrationSet("stacks", Path(__file__).parent / "migrations")

__all__ = [
    "DEFAULT_FLAVORS",
    "MIGRATIONS",
    "AddressRangeTaken",
    "Change",
    "ChangeKind",
    "ComputeNetworkDirectory",
    "DependencyCycle",
    "Flavor",
    "InvalidProperty",
    "NativeSettings",
    "NativeStacks",
    "NetworkDirectory",
    "OperationLost",
    "PlacementFailure",
    "ProgressCallback",
    "ResourceFailure",
    "RouterWithoutGateway",
    "Stack",
    "StackBusy",
    "StackEngine",
    "StackError",
    "StackExists",
    "StackFailure",
    "StackNotFound",
    "StackPlan",
    "StackResource",
    "StackStatus",
    "Stacks",
    "TemplateError",
    "UnresolvedReference",
    "UnsupportedResource",
    "choose_cidr",
]
