"""The settings of the compute node service and of its allocator."""

from __future__ import annotations

import ipaddress
import ssl
import uuid as uuids
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vetro.blobs import BlobsSection
from vetro.quotas import QuotasSection

_EXTERNAL_SPACE = uuids.UUID("5a0cf8a0-6f0d-4b8e-9a55-0f3d8f3c7a11")


@dataclass(frozen=True)
class ComputeSection:
    """The compute node service (docs/compute/service.md)."""

    host: str = "127.0.0.1"
    """Address of a compute service of its own (`vetro compute`)."""
    port: int = 8083
    """Port of a compute service of its own; 0: a free one."""
    overprovision_cpu: float = 16.0
    """How many times its processors a node may promise (docs/decisions/0012)."""
    overprovision_ram: float = 1.0
    """How many times its memory a node may promise."""
    overprovision_disk: float = 1.0
    """How many times its disk a node may promise."""
    datacenter_name: str = "local"
    """Data center of records that do not name one."""
    profile: str = "seed"
    """`seed`, or `upstream`: the answers of the later service where it differs."""
    trusted_network: bool = False
    """Take calls without a token as the operator's. Only where nobody else reaches the port."""
    shared_node_key: bool = True
    """Accept the one shared key of all nodes beside their own."""
    validation_status: int = 500
    """Status of `InvalidParameters`: 500, 422 or 400."""
    expired_wait_status: int = 500
    """Status of waiting for an expired ticket: 500, or 204 as if it were active."""
    remote_execution: bool = True
    """Whether operators may run commands on nodes (`POST /servers/UUID/execute`)."""
    setup_reboot: bool = False
    """Whether ServerSetup reboots the node."""
    smt_enabled_default: bool = True
    """Whether nodes without a mode of their own use their processors' threads (`smt_enabled`); the
    service metadata `SMT_ENABLED_DEFAULT` wins.
    """
    prefetch_images: str = "all"
    """Which images nodes fetch and unpack before an instance needs them: `all` (the newest of each
    name), `public` (those that everybody may use) or `none`.
    """
    unknown_vm_seconds: float = 3600.0
    """Seconds until a machine that a node has and no record knows is removed; 0: it is only reported."""


@dataclass(frozen=True)
class DapiSection:
    """The allocator (docs/compute/allocation.md)."""

    change_defaults: dict[str, object] = field(default_factory=dict[str, object])
    """Weights, filters and ratios that differ from the built-in ones."""
    allocation_description: list[object] = field(default_factory=list[object])
    """The pipeline as a nested list; empty: the built-in one."""
    batch_size: int = 0
    """Servers that are considered at once; 0: all."""
    random_seed: str = ""
    """Makes choices repeatable."""


@dataclass(frozen=True)
class ExternalNetwork:
    """The pool of floating addresses; its first address is the node's own."""

    name: str = "ext-net"
    cidr: str = "172.24.4.0/24"

    @property
    def uuid(self) -> str:
        """The uuid, derived from the name."""
        return str(uuids.uuid5(_EXTERNAL_SPACE, self.name))

    @property
    def gateway(self) -> str:
        """The node's address in the pool."""
        return str(ipaddress.IPv4Network(self.cidr)[1])


@dataclass(frozen=True)
class PlacementSettings:
    """``dapi.*`` of the configuration.

    ``change_defaults`` as ``dapi.changeDefaults``; ``description`` as ``dapi.allocationDescription``;
    ``batch_size`` servers are considered at once (0: all); ``seed`` makes choices repeatable.
    """

    change_defaults: Mapping[str, object] = field(default_factory=dict[str, Any])
    description: Sequence[object] | None = None
    profile: str = "seed"
    batch_size: int = 0
    seed: int | str | None = None

    def problem(self) -> str:
        """Why a service cannot start with these; empty when it can (allocation.md §2, §4)."""
        from vetro.compute.allocation import (
            Allocator,
            DefaultsError,
            DescriptionError,
            nearest_default,
            read_defaults,
        )

        try:
            Allocator(read_defaults(self.change_defaults, profile=self.profile), self.description)
        except (DefaultsError, DescriptionError) as error:
            return str(error)
        # Keys of others, or of later versions, may be there; one that is nearly a default is meant to be it.
        for key in self.change_defaults:
            near = nearest_default(key)
            if near not in ("", key):
                return f"change_defaults has no {key}; did you mean {near}?"
        return ""


@dataclass(frozen=True)
class ComputeSettings:
    """What a compute service is given: sections of the settings file, and what its process knows.

    ``node_key`` is the installation's secret for nodes; images, or copies of them, are in ``image_dir``,
    backups of volumes in ``volume-backups`` beside it.
    ``instance`` names this process among those on one database; the same name again takes up at once
    what the process left, so it must be unique ('' makes one). ``agent_tls``: how agents are reached
    (mutual TLS).
    """

    image_dir: Path
    node_key: str
    compute: ComputeSection = field(default_factory=ComputeSection)
    dapi: DapiSection = field(default_factory=DapiSection)
    quotas: QuotasSection = field(default_factory=QuotasSection)
    blobs: BlobsSection = field(default_factory=BlobsSection)
    external: ExternalNetwork = ExternalNetwork()
    instance: str = ""
    images_url: str = ""
    platforms: dict[str, str] = field(default_factory=dict[str, str])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    agent_tls: ssl.SSLContext | None = None

    @property
    def placement(self) -> PlacementSettings:
        """How instances are placed: the section ``compute`` under the section ``dapi``."""
        return PlacementSettings(
            change_defaults={
                "overprovision_ratio_cpu": self.compute.overprovision_cpu,
                "overprovision_ratio_ram": self.compute.overprovision_ram,
                "overprovision_ratio_disk": self.compute.overprovision_disk,
                **self.dapi.change_defaults,
            },
            description=self.dapi.allocation_description or None,
            profile=self.compute.profile,
            batch_size=self.dapi.batch_size,
            seed=self.dapi.random_seed or None,
        )
