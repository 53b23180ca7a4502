"""Placement: which server a new VM goes to, and why not the others (allocation.md).

The allocator is a pure function of server records with their VMs, open tickets, defaults and a
request. Its phases, a module or a few each:

* ``validation``, ``defaults``, ``description``: requests, settings and pipelines are checked once,
  with the specification's messages.
* ``record``, ``serverschema``, ``capacity``: a server is read once; ``fleet``, ``columns``: all of
  them side by side, kept up to date change by change; ``reservations``: open tickets as VMs.
* ``run``: servers go through the pipeline's plugins (``filters``, ``resources``, ``owners``,
  ``locality``, ``affinity``, ``scoring``).
* ``steps``: what happened, rendered when somebody asks; ``cases``: all of it from JSON to JSON.

Names are loaded when they are used: whoever only talks to a service needs none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vetro.compute.allocation.allocator import (
        PLUGINS,
        Allocator,
        CapacityOutcome,
        candidates_of,
        named,
        seeded,
    )
    from vetro.compute.allocation.cases import allocate_case, run_case
    from vetro.compute.allocation.defaults import Defaults, read_defaults
    from vetro.compute.allocation.demand import Demand, request_of
    from vetro.compute.allocation.description import default_description
    from vetro.compute.allocation.errors import (
        AllocationError,
        DefaultsError,
        DescriptionError,
        InvalidRequest,
    )
    from vetro.compute.allocation.fleet import Fleet
    from vetro.compute.allocation.reservations import open_tickets
    from vetro.compute.allocation.steps import Outcome, Step
    from vetro.compute.allocation.validation import (
        AllocationRequest,
        check_request,
        check_types,
    )

_WHERE = {
    "allocator": "PLUGINS Allocator CapacityOutcome candidates_of named seeded",
    "cases": "allocate_case run_case",
    "defaults": "Defaults read_defaults",
    "demand": "Demand request_of",
    "description": "default_description",
    "errors": "AllocationError DefaultsError DescriptionError InvalidRequest",
    "fleet": "Fleet",
    "reservations": "open_tickets",
    "steps": "Outcome Step",
    "validation": "AllocationRequest check_request check_types",
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'vetro.compute.allocation' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


__all__ = [
    "PLUGINS",
    "AllocationError",
    "AllocationRequest",
    "Allocator",
    "CapacityOutcome",
    "Defaults",
    "DefaultsError",
    "Demand",
    "DescriptionError",
    "Fleet",
    "InvalidRequest",
    "Outcome",
    "Step",
    "allocate_case",
    "candidates_of",
    "check_request",
    "check_types",
    "default_description",
    "named",
    "open_tickets",
    "read_defaults",
    "request_of",
    "run_case",
    "seeded",
]
