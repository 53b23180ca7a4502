"""Drivers: what creates and runs VMs on a node (compute-node-agent.md §6).

``Driver`` is what tasks call: records, life cycle, update rules, all-or-nothing creation. It works over
the small ``Hypervisor``: ``lxc``, ``qemu``, ``process`` or ``simulated``.
"""

from vetro.node.drivers.by_brand import Hypervisors
from vetro.node.drivers.driver import Driver
from vetro.node.drivers.hypervisor import DiskUse, ExecRequest, HostCommand, Hypervisor
