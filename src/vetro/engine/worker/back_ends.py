"""The back ends that a program reaches through the engine: opened for one run, closed after it."""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from vetro.blobs import BlobsSection, open_blobs
from vetro.catalog import Catalog
from vetro.compute.client import ComputeClient, ComputeError
from vetro.compute.client.calls import VOLUME_BACKUPS, VOLUME_SNAPSHOTS
from vetro.engine.errors import AgentException
from vetro.engine.plans import bounded, decode_result, read_result
from vetro.engine.services import EngineServices, Reports, library_path
from vetro.engine.settings import EngineSettings
from vetro.engine.signing import PlanSigner
from vetro.engine.telling import at_mailbox, note_made, tell
from vetro.identity import Identity
from vetro.json_values import Json
from vetro.messaging import BrokerDoors, Mailboxes, MailboxSettings, MessageTransport
from vetro.muranopl import PackageSource, Runtime, Version, VersionSpec, wait
from vetro.packages import Package, PackageError, open_package
from vetro.stacks import (
    ComputeNetworkDirectory,
    Doors,
    NativeSettings,
    NativeStacks,
    ResourceFailure,
    port_of,
)
from vetro.storage import Database

if TYPE_CHECKING:
    from vetro.engine.worker.openstack import OpenStackRegions


log = structlog.get_logger(__name__)


def package_folders(directory: Path) -> Iterator[Path]:
    """Every folder with a manifest that is not inside another one (packages-and-forms.md A7)."""
    for folder, below, files in os.walk(directory):
        if "manifest.yaml" in files:
            below.clear()
            yield Path(folder)
        below.sort()


def installed_packages(directories: Iterable[Path]) -> list[Package]:
    """The packages below directories; those that cannot be read are logged and left out."""
    found: list[Package] = []
    for directory in directories:
        for folder in package_folders(directory):
            try:
                found.append(open_package(folder))
            except PackageError as error:
                log.warning("package_left_out", directory=str(folder), error=str(error))
    return found


@functools.cache
def shipped_packages() -> list[Package]:
    """The libraries that come with Vetro beside the core library."""
    return [open_package(library_path() / name) for name in ("io.murano.applications",)]


class ComputeVolumeDirectory:
    """Snapshots and backups of volumes on the compute service; its client acts for one project."""

    def __init__(self, client: ComputeClient) -> None:
        self._client = client

    async def exists(self, project_id: str, kind: str, id_: str) -> bool:
        """Whether the project has a ``snapshot`` or ``backup`` of this id that can be used."""
        copies = VOLUME_SNAPSHOTS if kind == "snapshot" else VOLUME_BACKUPS
        try:
            found = await self._client.send(copies.one(id_))
        except ComputeError as error:
            if error.status == 404:
                return False
            raise
        return found.project_id == project_id and found.state == "available"


class StackGuests:
    """``Guests`` of stacks at the mailboxes of the service.

    A server's mailbox is called after the server, not after an object of an environment: a package's
    agent and a deployment's are never the same. Plans are signed like all others.
    """

    def __init__(self, transport: MessageTransport, mailbox_url: str, signer: PlanSigner) -> None:
        self._transport = transport
        self._url = mailbox_url
        self._signer = signer

    async def configuration(self, server: str) -> str:
        """The configuration file of the server's agent; makes its mailbox."""
        queue = _queue(server)
        token = await self._transport.issue_credential(queue)
        await note_made(self._transport, queue, at_mailbox(self._url, self._signer))
        return (
            "[DEFAULT]\nstorage = /var/murano/plans\n"
            f"engine_key =\n{self._signer.public_key('    ')}\n\n"
            f"[mailbox]\nurl = {self._url}\ntoken = {token}\ninput_queue = {queue}\n"
        )

    async def run(self, server: str, plan: dict[str, Json], seconds: float) -> Json:
        """The value of a plan; sent again under the same id it is not run again."""
        queue, message_id = _queue(server), str(plan["ID"])
        sent = bounded(plan, seconds) if seconds else plan
        body = json.dumps(sent).encode()
        place = at_mailbox(self._url, self._signer)
        await tell(self._transport, self._transport, self._signer, queue, place)
        await self._transport.send(
            queue,
            message_id,
            body,
            signature=self._signer.sign(queue, body),
            name=str(plan["Name"]),
            lifetime=seconds or None,
        )
        if not seconds:
            return None
        answer = await self._transport.wait_result(message_id, seconds)
        if answer is None:
            await self._transport.discard(message_id)
            seen = await self._transport.last_contact(queue)
            heard = (
                f"was last heard of at {seen:%Y-%m-%d %H:%M:%S} UTC"
                if seen
                else "was never heard of"
            )
            raise ResourceFailure(
                f"The agent of the server has not run it within {seconds:g} s; it {heard}."
                " The server needs an image with python3 and a network from which it reaches the service"
            )
        try:
            return decode_result(read_result(answer))
        except AgentException as error:
            raise ResourceFailure(f"The agent of the server has refused it: {error}") from error

    async def forget(self, server: str) -> None:
        """The server is gone: its credential and its mailbox as well."""
        await self._transport.revoke(_queue(server))
        await self._transport.delete(_queue(server))


def _queue(server: str) -> str:
    return f"stack-{server}"


@dataclass(eq=False)
class CatalogResolver:
    """Finds packages: installed directories, the catalog (packages-and-forms.md A7), Vetro's own.

    ``project_id``: the project whose packages may be used, independent of the acting user; ``None``: the
    session's.
    ``pinned``: the packages and versions of the environment's last run; deleted ones are found too.
    """

    catalog: Catalog
    installed: list[Package]
    project_id: str | None = None
    pinned: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])

    def find_package(self, name: str, spec: str, project_id: str | None) -> PackageSource | None:
        """A package by name."""
        whose = self.project_id or project_id
        return (
            _best(self.installed, spec, lambda package: package.full_name == name)
            or wait(self.catalog.find_package(name, spec, whose, self.pinned))
            or _best(shipped_packages(), spec, lambda package: package.full_name == name)
        )

    def find_class(
        self, class_name: str, spec: str, project_id: str | None
    ) -> PackageSource | None:
        """A package by one of its classes."""
        whose = self.project_id or project_id
        return (
            _best(self.installed, spec, lambda package: class_name in package.classes)
            or wait(self.catalog.find_package_for_class(class_name, spec, whose, self.pinned))
            or _best(shipped_packages(), spec, lambda package: class_name in package.classes)
        )


def _best(packages: list[Package], spec: str, fits: Callable[[Package], bool]) -> Package | None:
    wanted = VersionSpec(spec)
    fitting = [one for one in packages if fits(one) and Version.parse(one.version) in wanted]
    return max(fitting, key=lambda item: Version.parse(item.version), default=None)


@dataclass
class KnownPeople:
    """``People`` of the built-in identity service; a deleted user or project has its id as name."""

    identity: Identity

    async def user(self, id_: str) -> dict[str, Any]:
        """A user."""
        return dict(await self.identity.user(id_) or {"id": id_, "name": id_})

    async def project(self, id_: str) -> dict[str, Any]:
        """A project."""
        return dict(await self.identity.project(id_) or {"id": id_, "name": id_})


@dataclass
class World:
    """The database and the services of one run."""

    database: Database
    services: EngineServices


@asynccontextmanager
async def back_ends(
    settings: EngineSettings,
    runtime: Runtime,
    *,
    project_id: str,
    user_id: str,
    environment_id: str,
    reports: Reports,
    database: Database | None = None,
    pinned: Mapping[str, Collection[str]] | None = None,
    delegation: Mapping[str, str] | None = None,
) -> AsyncGenerator[World, None]:
    """Everything a run needs, with the runtime set up for it; closed at the end.

    ``database``: one that is already open; it stays open. ``pinned``: the packages and versions that
    the environment's last run used. ``delegation``: what the run acts as its user with.
    """
    opened = database or await Database.open(
        settings.database_url,
        data_dir=settings.data_dir,
        keyring=settings.keyring,
        use=settings.database_use,
    )
    # A program may name any uuid: the compute service admits only resources of this project.
    client = ComputeClient(settings.compute_url, settings.service_key, project_id=project_id)
    mailboxes = Mailboxes(
        opened,
        settings=MailboxSettings(sizes=settings.mailbox),
    )
    doors = BrokerDoors(mailboxes)
    regions: OpenStackRegions | None = None
    if settings.openstack.has_heat:
        # Imported late: most installations have no OpenStack.
        from vetro.engine.worker.openstack import OpenStackRegions

        regions = OpenStackRegions(settings, delegation or {}, project_id)
    try:
        compute = port_of(client)
        signer = await asyncio.to_thread(PlanSigner.load_or_create, settings.signing_key_file)
        stack_doors = Doors(
            signals=mailboxes.signals.at(settings.mailbox_url),
            guests=StackGuests(mailboxes, settings.mailbox_url, signer),
            deployment_seconds=settings.engine.agent_timeout,
            url=settings.mailbox_url.rstrip("/"),
        )
        services = EngineServices(
            settings=settings,
            project_id=project_id,
            user_id=user_id,
            environment_id=environment_id,
            stacks=NativeStacks(
                opened,
                compute,
                doors=stack_doors,
                settings=NativeSettings(balancer_image=settings.engine.balancer_image),
            ),
            directory=ComputeNetworkDirectory(compute),
            volumes=ComputeVolumeDirectory(client),
            transport=mailboxes,
            brokers=doors,
            reports=reports,
            signer=signer,
            people=KnownPeople(Identity(opened)),
            only_own_guests=True,
        )
        if regions is not None:
            services.elsewhere = regions
            services.volumes_elsewhere = regions.volumes
        if settings.class_configs.is_dir():
            runtime.class_configs = settings.class_configs
        blobs = msgspec.convert(settings.blobs, BlobsSection)
        runtime.resolver = CatalogResolver(
            Catalog(opened, open_blobs(blobs, "packages", settings.package_dir, opened)),
            installed_packages(map(Path, settings.engine.packages_directories)),
            project_id,
            pinned or {},
        )
        yield World(opened, services)
    finally:
        if regions is not None:
            await regions.close()
        await doors.close()
        await client.close()
        if database is None:
            await opened.close()
