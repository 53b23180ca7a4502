"""Infrastructure stacks: a template becomes resources (core-library.md §4.4, §9).

`Stacks` is the protocol of a back end; `NativeStacks(db, compute)` the one on the project's own
compute service, `vetro.stacks.memory.MemoryStacks` its in-memory twin for tests. `Stack` is a
snapshot of one stack, `StackPlan` what an operation would do. `NetworkDirectory` answers what
exists in a project's network.

Names are loaded when they are used: whoever runs programs on a cloud in memory needs no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

    MIGRATIONS: MigrationSet

_WHERE = {
    "directory": "ComputeNetworkDirectory NetworkDirectory RouterWithoutGateway choose_cidr",
    "errors": (
        "AddressRangeTaken DependencyCycle InvalidProperty OperationLost PlacementFailure"
        " ResourceFailure StackBusy StackError StackExists StackNotFound TemplateError"
        " UnresolvedReference UnsupportedResource"
    ),
    "flavors": "DEFAULT_FLAVORS Flavor",
    "model": (
        "Change ChangeKind ProgressCallback Stack StackFailure StackPlan StackResource Stacks"
        " StackStatus"
    ),
    "native": "NativeSettings NativeStacks StackEngine",
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "MIGRATIONS":
        from pathlib import Path

        from vetro.stacks.tables import metadata
        from vetro.storage import MigrationSet

        made = MigrationSet("stacks", Path(__file__).parent / "migrations", metadata)
        globals()[name] = made
        return made
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


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
