"""What operations on servers and VMs need from the compute service."""

from __future__ import annotations

from typing import Protocol

from vetro.compute.networks.reconciler import NetworkReconciler
from vetro.compute.placement.placement import Placement
from vetro.compute.servers.nics import NicRegistry
from vetro.compute.servers.store import ServerStore
from vetro.compute.vms.lifecycle import Machines
from vetro.compute.work.jobs import JobHost, JobRun, JobRunner
from vetro.compute.work.node_tasks import NodeTasks


class ServiceParts(JobHost, Protocol):
    """The parts of a `ComputeService` that its jobs' steps use."""

    servers: ServerStore
    work: NodeTasks
    machines: Machines
    networks: NetworkReconciler
    nics: NicRegistry
    placement: Placement
    jobs: JobRunner[ServiceParts]

    @property
    def reboots_after_setup(self) -> bool:
        """Whether a server reboots at the end of its setup."""
        ...


Run = JobRun[ServiceParts]
"""A job of this service as its steps see it."""
