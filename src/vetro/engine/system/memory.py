"""In-memory versions of the engine's back ends: a cloud without machines.

For tests of packages and of the class library: the same engine as on real machines creates stacks
and networks in memory, guests are a Python function, reports are a list. Nothing depends on time or
chance.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from vetro.compute.wire import Image, Network, Subnet
from vetro.engine.services import (
    EngineServices,
    MetadataDefinitions,
    Nameless,
    People,
    WorkflowService,
)
from vetro.engine.settings import EngineSection, EngineSettings, HeatSection, NetworkSection
from vetro.json_values import Json
from vetro.messaging import BrokerSettings, Progress, RabbitmqSection, Sending, Told, Unfinished
from vetro.stacks import (
    DEFAULT_FLAVORS,
    ComputeNetworkDirectory,
    Flavor,
    MemoryCompute,
    MemoryStacks,
    NativeSettings,
)

if TYPE_CHECKING:
    from vetro.engine.signing import PlanSigner
    from vetro.environments import Tracked

Guest = Callable[[str, dict[str, Json]], Json]
"""Maps a queue and a plan to the guest's result; ``None``: the guest never answers."""


def obedient(queue: str, plan: dict[str, Json]) -> Json:
    """A guest whose plans all succeed, with exit code 0 and no output."""
    body = {"exitCode": 0, "stdout": "", "stderr": ""}
    return {"FormatVersion": "2.0.0", "SourceID": plan.get("ID"), "ErrorCode": 0, "Body": body}


@dataclass
class MemoryTransport:
    """``MessageTransport`` whose guests answer at once, by a function."""

    guest: Guest = obedient
    plans: list[tuple[str, dict[str, Json]]] = field(
        default_factory=list[tuple[str, dict[str, Json]]]
    )
    bodies: dict[str, bytes] = field(default_factory=dict[str, bytes])
    signatures: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    lifetimes: dict[str, float | None] = field(default_factory=dict[str, float | None])
    orders: set[str] = field(default_factory=set[str])
    """The ids of the messages that are for the agent itself."""
    queues: set[str] = field(default_factory=set[str])
    stamps: dict[str, int] = field(default_factory=dict[str, int])
    """The highest stamp sent to the guest of each queue."""
    credentials: dict[str, str] = field(default_factory=dict[str, str])
    told_of: dict[str, Told] = field(default_factory=dict[str, Told])
    waited: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    discarded: list[str] = field(default_factory=list[str])
    before: list[Unfinished] = field(default_factory=list[Unfinished])
    """The plans that ``progress`` and ``unfinished`` report as unfinished."""
    results_forgotten: bool = False
    own_users: bool = False
    """Whether guests have users of their own, as at a broker with a management API."""
    _results: dict[str, bytes] = field(default_factory=dict[str, bytes])
    _issued: int = 0

    async def declare(self, queue: str) -> None:
        """Make a queue."""
        self.queues.add(queue)

    async def issue_credential(self, queue: str) -> str:
        """The queue's token; the same until revoked."""
        self.queues.add(queue)
        if queue not in self.credentials:
            await self.rotate_credential(queue)
        return self.credentials[queue]

    def broker_user(self, queue: str) -> str:
        """The guest's user."""
        return queue if self.own_users else ""

    async def rotate_credential(self, queue: str) -> str:
        """A new token."""
        self._issued += 1
        self.credentials[queue] = f"token-{self._issued}"
        return self.credentials[queue]

    async def revoke(self, queue: str) -> None:
        """Forget the queue's token."""
        self.credentials.pop(queue, None)

    async def delete(self, queue: str) -> None:
        """Remove a queue."""
        self.credentials.pop(queue, None)
        self.told_of.pop(queue, None)
        self.queues.discard(queue)

    async def told(self, queue: str) -> Told:
        """What the queue's guest knows of where to come."""
        return self.told_of.get(queue, Told(None, None, False))

    async def note_told(self, queue: str, digest: str, door: str) -> None:
        """Record which settings the guest has."""
        former = await self.told(queue)
        self.told_of[queue] = Told(digest, former.door or door, former.heard)

    async def queues_of(self, prefix: str) -> list[str]:
        """The queues whose names begin with a text."""
        return sorted(one for one in self.queues if one.startswith(prefix))

    async def send(self, queue: str, message_id: str, body: bytes, **how: Unpack[Sending]) -> None:
        """Record the plan and have the guest answer it."""
        if message_id in self.bodies:
            return
        plan: dict[str, Json] = json.loads(body)
        self.plans.append((queue, plan))
        self.bodies[message_id] = body
        self.lifetimes[message_id] = how.get("lifetime")
        stamp = how.get("stamp")
        if stamp is not None:
            self.stamps[queue] = max(self.stamps.get(queue, 0), stamp)
        if how.get("order"):
            self.orders.add(message_id)
        self.signatures[message_id] = how.get("signature")
        answer = self.guest(queue, plan)
        if answer is not None:
            self._results[message_id] = json.dumps(answer).encode()

    async def wait_result(self, message_id: str, timeout: float) -> bytes | None:
        """The answer; ``None`` when the guest did not answer at once."""
        self.waited.append((message_id, timeout))
        return self._results.get(message_id)

    async def discard(self, message_id: str) -> bool:
        """Forget a message's result. ``False``: the guest always has the plan already."""
        self.discarded.append(message_id)
        self._results.pop(message_id, None)
        return False

    async def progress(self, message_id: str) -> Progress:
        """The guest has the plan; ``before`` are the plans in front of it."""
        return Progress("guest", tuple(self.before))

    async def unfinished(self, queue: str) -> list[Unfinished]:
        """The plans in ``before``."""
        return list(self.before)

    async def forget_results(self) -> None:
        """Record the call, as a broker's door removes its result queue."""
        self.results_forgotten = True

    async def last_stamp(self, queue: str) -> int:
        """The highest stamp of the plans sent."""
        return self.stamps.get(queue, 0)

    async def last_contact(self, queue: str) -> datetime | None:
        """A fixed time for guests that have answered, else ``None``."""
        answered = any(name == queue for name, _ in self.plans) and self.guest is obedient
        return datetime(2026, 1, 1, 12, tzinfo=UTC) if answered else None


@dataclass
class MemoryReports:
    """Reports and statistics as lists."""

    reports: list[tuple[str | None, str, str]] = field(
        default_factory=list[tuple[str | None, str, str]]
    )
    full: list[tuple[str | None, str, str, str | None]] = field(
        default_factory=list[tuple[str | None, str, str, str | None]]
    )
    """The reports with their details."""
    tracked: dict[str, Tracked] = field(default_factory=dict[str, "Tracked"])
    untracked: list[str] = field(default_factory=list[str])

    async def report(
        self,
        entity_id: str | None,
        level: str,
        text: str,
        details: str | None = None,
        *,
        entity: str | None = None,
    ) -> None:
        """Keep a report."""
        self.reports.append((entity_id, level, text))
        self.full.append((entity_id, level, text, details))

    async def track(self, values: Tracked) -> None:
        """Keep what is tracked."""
        self.tracked[values["instance_id"]] = values

    async def untrack(self, instance_id: str) -> None:
        """Keep the id of the instance that was removed."""
        self.tracked.pop(instance_id, None)
        self.untracked.append(instance_id)


@dataclass
class MemoryCloud:
    """A whole cloud in memory; ``services()`` gives a session's view of it."""

    directory: Path
    compute: MemoryCompute = field(default_factory=MemoryCompute)
    transport: MemoryTransport = field(default_factory=MemoryTransport)
    doors: dict[tuple[BrokerSettings, str], MemoryTransport] = field(
        default_factory=dict[tuple[BrokerSettings, str], MemoryTransport]
    )
    """The transport of each broker and result queue; ``transport`` answers for the guests."""
    reports: MemoryReports = field(default_factory=MemoryReports)
    signer: PlanSigner | None = None
    project_id: str = "project"
    options: dict[str, object] = field(default_factory=dict[str, object])
    people: People = field(default_factory=Nameless)
    workflows: WorkflowService | None = None
    metadefs: MetadataDefinitions | None = None
    snapshots: set[str] = field(default_factory=set[str])
    backups: set[str] = field(default_factory=set[str])
    pauses: list[float] = field(default_factory=list[float])
    """How long the class library would have waited before each retry; it never waits."""

    flavors: Mapping[str, Flavor] = field(default_factory=lambda: DEFAULT_FLAVORS)

    may_lose: list[str] | None = None
    """What the tasks of sessions may lose; ``None``: anything."""

    def __post_init__(self) -> None:
        self.stacks = MemoryStacks(self.compute, settings=NativeSettings(flavors=self.flavors))
        self.networks = ComputeNetworkDirectory(self.compute)

    def settings(self) -> EngineSettings:
        """The settings that the class library sees; ``options`` replace defaults.

        An option of a section has a dotted name, as in the settings: ``network.default_dns``.
        """
        own: dict[str, object] = {}
        named = ("engine", "network", "heat", "rabbitmq")
        sections: dict[str, dict[str, Any]] = {name: {} for name in named}
        for option, value in self.options.items():
            section, _, name = option.rpartition(".")
            (sections[section] if section else own)[name] = value
        given: dict[str, Any] = {
            "database_url": "",
            "data_dir": self.directory,
            "compute_url": "",
            "service_key": "",
            "mailbox_url": "http://mailbox.example:8082",
            "package_dir": self.directory,
            "engine": EngineSection(**sections["engine"]),
            "network": NetworkSection(**sections["network"]),
            "heat": HeatSection(**sections["heat"]),
            "rabbitmq": RabbitmqSection(**sections["rabbitmq"]),
            **own,
        }
        return EngineSettings(**given)

    def services(self, environment_id: str = "env") -> EngineServices:
        """Back ends for one session."""
        return EngineServices(
            settings=self.settings(),
            project_id=self.project_id,
            user_id="user",
            environment_id=environment_id,
            stacks=self.stacks,
            directory=self.networks,
            transport=self.transport,
            brokers=self._door,
            reports=self.reports,
            signer=self.signer,
            people=self.people,
            workflows=self.workflows,
            metadefs=self.metadefs,
            volumes=self,
            may_lose=self.may_lose,
            pause=self._pause,
        )

    def _door(self, broker: BrokerSettings, results: str) -> MemoryTransport:
        made = MemoryTransport(
            lambda queue, plan: self.transport.guest(queue, plan),
            own_users=bool(broker.management_url),
            told_of=self.transport.told_of,  # mailboxes are one, whatever carries their messages
        )
        return self.doors.setdefault((broker, results), made)

    async def exists(self, project_id: str, kind: str, id_: str) -> bool:
        """Whether there is such a volume snapshot or backup."""
        return id_ in (self.snapshots if kind == "snapshot" else self.backups)

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


class WillingCompute(MemoryCompute):
    """A compute service that has every image, and a network for servers that name none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        network, subnet = (f"00000000-0000-4000-8000-00000000000{n}" for n in (3, 4))
        self.network_list[network] = Network(
            uuid=network, name="trial", project_id="project", subnets=[subnet]
        )
        self.subnet_list[subnet] = Subnet(
            uuid=subnet, network_uuid=network, name="trial", project_id="project",
            cidr="198.18.0.0/15", gateway="198.18.0.1",
        )  # fmt: skip

    async def image(self, project_id: str, name: str) -> Image:
        """The image of this name, created on demand."""
        for known in self.images.values():
            if name in (known.uuid, known.name):
                return known
        made = Image(uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, name)), name=name)
        self.images[name] = made
        return made


class _EveryFlavor(dict[str, Flavor]):
    """The flavors of a cloud that has every one: an unknown name is a small server."""

    def __missing__(self, name: str) -> Flavor:
        return self["m1.small"]


def trial_cloud() -> MemoryCloud:
    """A cloud for one session in which packages are tried: it has every image and every flavor that
    they name, because both are the operator's choice."""
    directory = Path(tempfile.gettempdir())
    flavors = _EveryFlavor(DEFAULT_FLAVORS)
    return MemoryCloud(directory, compute=WillingCompute(), flavors=flavors)
