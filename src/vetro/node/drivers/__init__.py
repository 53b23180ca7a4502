"""Drivers: what creates and runs VMs on a node (compute-node-agent.md §6).

``Driver`` is what tasks call; ``ManagedDriver`` implements it once (records, life cycle, update
rules, all-or-nothing creation) over a small ``Hypervisor``: ``lxc``, ``process`` or ``simulated``.
"""

from vetro.node.drivers.basic import BasicHypervisor
from vetro.node.drivers.managed import ManagedDriver
from vetro.node.drivers.protocol import (
    DiskUse,
    Driver,
    ExecRequest,
    ExecResult,
    HostCommand,
    Hypervisor,
    RunState,
)

__all__ = [
    "BasicHypervisor",
    "DiskUse",
    "Driver",
    "ExecRequest",
    "ExecResult",
    "HostCommand",
    "Hypervisor",
    "ManagedDriver",
    "RunState",
]
