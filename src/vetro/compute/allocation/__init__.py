"""Placement: the server for a new VM, and why the others were not chosen (allocation.md).

The allocator is a pure function of server records with their VMs, open tickets, defaults and a
request. Its phases, a module or a few each:

* ``validation``, ``defaults``, ``description``: requests, settings and pipelines are checked once,
  with the specification's messages.
* ``record``, ``serverschema``, ``capacity``: a server is read once; ``fleet``, ``columns``: all of
  them side by side, kept up to date change by change; ``reservations``: open tickets as VMs.
* ``run``: servers go through the pipeline's plugins (``filters``, ``resources``, ``owners``,
  ``locality``, ``affinity``, ``scoring``).
* ``steps``: what happened, rendered on demand; ``cases``: the whole allocator from JSON to JSON.

Names are loaded on first use: a mere client of a service needs none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.compute.allocation.allocator import (
        PLUGINS,
        Allocator,
        CapacityOutcome,
        candidates_of,
        named,
        seeded,
    )
    from vetro.compute.allocation.cases import allocate_case
    from vetro.compute.allocation.defaults import Defaults, nearest_default, read_defaults
    from vetro.compute.allocation.demand import Demand, request_of
    from vetro.compute.allocation.description import default_description, growth_description
    from vetro.compute.allocation.errors import DefaultsError, DescriptionError, InvalidRequest
    from vetro.compute.allocation.fleet import Fleet
    from vetro.compute.allocation.reservations import open_tickets
    from vetro.compute.allocation.steps import Outcome
    from vetro.compute.allocation.validation import check_request, check_types

__getattr__ = import_when_used(__name__)
