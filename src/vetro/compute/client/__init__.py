"""How other processes reach the compute service: typed calls, and who sends them.

A `Call` describes one request and the type of its answer; `Kind` makes the five calls of a kind of
object (`NETWORKS`, `PORTS` …), functions make the others. `ComputeClient` sends them in an event loop;
the command line sends them over a connection of its own.

Names are loaded when they are used: who only describes calls needs no HTTP library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.compute.client.calls import (
        NETWORKS,
        ROUTERS,
        SECURITY_GROUPS,
        SUBNETS,
        Call,
        keypairs,
    )
    from vetro.compute.client.http_client import ComputeClient, ComputeError, TransportError

__getattr__ = import_when_used(__name__)
