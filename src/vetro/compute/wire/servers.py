"""Compute nodes as the service shows them, its jobs, and where a node serves a stream or a screen.

Only what callers decide by is named: an answer has more, which commands print as it is.
"""

from __future__ import annotations

import msgspec

#: A JSON object whose members are read one by one, or only printed.
Document = dict[str, object]


class Virtualization(msgspec.Struct):
    """How a node runs virtual machines: ``accelerator`` is ``kvm``, ``tcg``, or '' for not at all."""

    accelerator: str = ""
    accelerator_reason: str = ""


class Sysinfo(msgspec.Struct):
    """What a node reports of itself, as far as commands read it."""

    node: Virtualization = msgspec.field(name="Vetro Node", default_factory=Virtualization)


class Server(msgspec.Struct, kw_only=True):
    """A compute node. ``vms`` (by uuid), ``memory_available_bytes`` and ``sysinfo`` are extras."""

    uuid: str
    hostname: str | None = None
    memory_available_bytes: int | None = None
    vms: dict[str, Document] | None = None
    sysinfo: Sysinfo | None = None


class NicTags(msgspec.Struct, kw_only=True):
    """The networks that an interface of a node is connected to."""

    mac: str
    nic_tags_provided: list[str]


class JobStarted(msgspec.Struct, kw_only=True):
    """The answer of a call that starts a job."""

    job_uuid: str


class JobStep(msgspec.Struct, kw_only=True):
    """A step of a job that has ended. ``error``: why it failed, or ''."""

    error: str = ""


class Job(msgspec.Struct, kw_only=True):
    """Work of the service: ``queued``, ``running``, ``succeeded``, ``failed`` or ``canceled``.

    ``waiting_on``: the present step of a running job.
    """

    uuid: str = ""
    execution: str
    chain_results: list[JobStep] = []
    waiting_on: str | None = None

    @property
    def error(self) -> str:
        """Why the first step that failed did so; '' when none did."""
        return next((step.error for step in self.chain_results if step.error), "")


class Stream(msgspec.Struct, kw_only=True):
    """Where a node serves the stream of a VM. ``address``: host and port, as people write them.

    ``token``: the first line that the node wants. ``interactive``: whether the VM reads what is sent.
    """

    host: str
    port: int
    address: str = ""
    token: str
    interactive: bool = False


class Screen(msgspec.Struct, kw_only=True):
    """Where a node serves the screen of a virtual machine (VNC); no ``host``: it has none."""

    host: str | None = None
    port: int | None = None
