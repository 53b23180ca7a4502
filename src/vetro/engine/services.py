"""The back ends of the native system classes, one set for each session."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from vetro.engine.plans import Stamps
from vetro.json_values import JsonObject
from vetro.messaging import MessageTransport
from vetro.muranopl import CallContext

if TYPE_CHECKING:
    from vetro.engine.settings import EngineSettings
    from vetro.engine.signing import PlanSigner
    from vetro.environments import Tracked
    from vetro.messaging import BrokerSettings
    from vetro.stacks import LossRefused, NetworkDirectory, Stacks


async def _pause(seconds: float) -> None:
    # Imported late: checking a package loads the system classes and runs nothing.
    import asyncio

    await asyncio.sleep(seconds)


ATTRIBUTE_KEPT = "attribute.kept"
"""The effect whose result is a row of a model's ``Attributes``: it holds whatever ends the task."""


class Reports(Protocol):
    """Stores reports and tracked instances."""

    async def report(
        self,
        entity_id: str | None,
        level: str,
        text: str,
        details: str | None = None,
        *,
        entity: str | None = None,
    ) -> None:
        """Add a report of the running task. ``entity``: what the id is of, where the program says so:
        environment, service or unit."""
        ...

    async def track(self, values: Tracked) -> None:
        """Record that an application or instance exists."""
        ...

    async def untrack(self, instance_id: str) -> None:
        """Record that it is gone."""
        ...


class People(Protocol):
    """The part of the identity service that programs may read. Maps have Keystone's keys."""

    async def user(self, id_: str) -> JsonObject:
        """A user; a deleted one has its id as name."""
        ...

    async def project(self, id_: str) -> JsonObject:
        """A project; a deleted one has its id as name."""
        ...


class Nameless:
    """``People`` without an identity service: ids are names."""

    async def user(self, id_: str) -> JsonObject:
        """A user or a project known by id only."""
        return {"id": id_, "name": id_}

    project = user


class WorkflowService(Protocol):
    """A Mistral workflow service (§4.10)."""

    async def upload(self, definition: str, region: str | None) -> None:
        """Upload workflow definitions."""
        ...

    async def start(
        self, name: str, inputs: dict[str, object], params: dict[str, object], region: str | None
    ) -> str:
        """Start a workflow; the execution's id."""
        ...

    async def execution(self, id_: str, region: str | None) -> tuple[str, object]:
        """An execution's state (``SUCCESS``, ``ERROR`` or another) and output (JSON text or map)."""
        ...


class VolumeDirectory(Protocol):
    """Looks up snapshots and backups in block storage."""

    async def exists(self, project_id: str, kind: str, id_: str) -> bool:
        """Whether the project has a ``snapshot`` or ``backup`` of this id."""
        ...


class MetadataDefinitions(Protocol):
    """A catalog of metadata definitions (§4.10)."""

    async def namespaces(self, resource_type: str, region: str | None) -> list[dict[str, object]]:
        """The namespaces of a resource type."""
        ...

    async def objects(self, namespace: str, region: str | None) -> list[JsonObject]:
        """The objects of a namespace."""
        ...


class Waiting:
    """What a task waits on now; it may wait on several things at once.

    ``notify`` is called at each change.
    """

    def __init__(self, notify: Callable[[str], None] = lambda text: None) -> None:
        self.notify = notify
        self._texts: dict[str, str] = {}

    def say(self, subject: str, text: str) -> None:
        """Set what ``subject``, a part of the task, waits on; an empty text: it no longer waits."""
        if self._texts.get(subject, "") == text:
            return
        if text:
            self._texts[subject] = text
        else:
            del self._texts[subject]
        self.notify(self.text)

    @property
    def text(self) -> str:
        """All of them in one line."""
        return "; ".join(self._texts.values())


class RegionDoor(MessageTransport, Protocol):
    """A transport over a broker."""

    async def forget_results(self) -> None:
        """Remove the result queue of a region that is deleted."""
        ...


@dataclass
class EngineServices:
    """Back ends and settings of a session."""

    settings: EngineSettings
    project_id: str
    user_id: str
    environment_id: str
    stacks: Stacks
    directory: NetworkDirectory
    transport: MessageTransport
    reports: Reports
    signer: PlanSigner | None
    brokers: Callable[[BrokerSettings, str], RegionDoor] | None = None
    """Opens a transport to the guests of a region, for its broker and its result queue. Without it
    every guest is on ``transport``."""
    people: People = field(default_factory=Nameless)
    workflows: WorkflowService | None = None
    metadefs: MetadataDefinitions | None = None
    volumes: VolumeDirectory | None = None
    elsewhere: Callable[[str], tuple[Stacks, NetworkDirectory] | None] = lambda region: None
    """Stacks and networks of a region that are not ``stacks`` and ``directory``."""
    volumes_elsewhere: Callable[[str], VolumeDirectory | None] = lambda region: None
    """Block storage of a region that is not ``volumes``."""
    only_own_guests: bool = False
    """Whether programs reach the guests of their own environment only: others have the ids of theirs from
    whoever wrote them. A world in memory has nobody else's."""
    chosen_ranges: dict[str, str] = field(default_factory=dict[str, str])
    """Address ranges chosen by networks of this session, some of which may not exist yet."""
    left: dict[str, str] = field(default_factory=dict[str, str])
    """Stacks that could not be removed in this session, and why."""
    may_lose: Collection[str] | None = None
    """What the task's request lets go (`vetro.stacks.model.WorkOptions`); ``None``: it does not guard."""
    refused: LossRefused | None = None
    """What the task would have lost. No stack is changed after that: the task has failed."""
    stamps: Stamps = field(default_factory=Stamps)
    stamps_known: set[str] = field(default_factory=set[str])
    """Mailboxes for which ``stamps`` gives only numbers above those of earlier sessions."""
    guests_met: set[str] = field(default_factory=set[str])
    """Mailboxes from which this session has withdrawn the plans of a dead session."""
    guests_called: set[str] = field(default_factory=set[str])
    """Mailboxes to which the program of this session has sent a plan."""
    guests_told: set[str] = field(default_factory=set[str])
    """Mailboxes whose guests know today's settings."""
    waiting: Waiting = field(default_factory=lambda: Waiting())
    """What the task waits on."""
    pause: Callable[[float], Awaitable[None]] = _pause


def queue_name(environment_id: str, machine_id: str) -> str:
    """The mailbox of the guest of a machine."""
    return f"e{environment_id}-h{machine_id}".lower()


def places(services: EngineServices, region: str | None) -> tuple[Stacks, NetworkDirectory]:
    """The stacks and the networks of a region, by default of the home region."""
    found = services.elsewhere(region or services.settings.engine.home_region)
    return found or (services.stacks, services.directory)


def block_storage(services: EngineServices, region: str | None) -> VolumeDirectory | None:
    """The block storage of a region, by default of the home region; ``None`` where there is none."""
    found = services.volumes_elsewhere(region or services.settings.engine.home_region)
    return found or services.volumes


def services_of(ctx: CallContext) -> EngineServices:
    """The services of the session a call belongs to."""
    return cast("EngineServices", ctx.session.services)


def logger(name: str) -> Any:
    """The logger of a module; the logging library is imported at the first use."""
    import structlog

    return structlog.get_logger(name)


def library_path() -> Path:
    """The directory of the packages that ship with Vetro (``io.murano`` and the samples)."""
    inside = Path(__file__).resolve().parent.parent / "_library"
    return inside if inside.is_dir() else Path(__file__).resolve().parents[3] / "library"


def plain(value: object) -> Any:
    """A JSON copy of ``value``, for the journal."""
    return json.loads(json.dumps(value, default=str))
