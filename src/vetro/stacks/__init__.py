"""Infrastructure stacks: a template becomes resources (core-library.md §4.4, §9).

`Stacks` is the protocol of a back end; `NativeStacks(db, compute)` the one on the project's own
compute service, `MemoryStacks` its in-memory twin for tests. `Stack` is a
snapshot of one stack, `StackPlan` what an operation would do. `NetworkDirectory` answers what
exists in a project's network.

Names are loaded when they are used: a program that runs on a cloud in memory needs no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.stacks.compute_service.adapter import port_of
    from vetro.stacks.directory import (
        ComputeNetworkDirectory,
        NetworkDirectory,
        RouterWithoutGateway,
        choose_cidr,
    )
    from vetro.stacks.doors import Doors
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
    from vetro.stacks.losses import (
        ChangedProperty,
        Loss,
        LossHow,
        LossKind,
        LossRefused,
        unnamed,
    )
    from vetro.stacks.memory import MemoryCompute, MemoryStacks
    from vetro.stacks.metrics import read_stored
    from vetro.stacks.model import (
        ChangeKind,
        KnowsAlterations,
        KnowsBalancers,
        KnowsIncarnations,
        Stack,
        StackFailure,
        Stacks,
        StackStatus,
    )
    from vetro.stacks.native import NativeSettings, NativeStacks, StackEngine
    from vetro.stacks.offers import ComputeOffers
    from vetro.stacks.state.store import forget_of_project
    from vetro.stacks.tables import MIGRATIONS

__getattr__ = import_when_used(__name__)
