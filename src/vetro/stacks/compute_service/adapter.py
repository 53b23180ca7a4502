"""`ComputePort` on the compute service's HTTP API.

Every request names the uuid it is about, so a request whose answer was lost is simply repeated. A
refusal of the service becomes a `ResourceFailure` with its message.
"""

from __future__ import annotations

import asyncio
import time
import uuid as uuids
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
import structlog

from vetro.compute.client import calls, vm_calls
from vetro.compute.client.calls import PORTS, SUBNETS, Call, Change, Kind, New, Shown
from vetro.compute.client.http_client import ComputeClient, ComputeError, TransportError
from vetro.compute.wire import (
    HVM_BRANDS,
    OTHER_QUEUE,
    Allocation,
    Attachment,
    ChosenServer,
    Image,
    NewKeypair,
    NewTicket,
    NewVm,
    NoAllocation,
    PlacedImage,
    PlacedVm,
    Port,
    SupposedVm,
    Task,
    TaskStarted,
    Vm,
    VmUpdate,
)
from vetro.stacks.compute_service.port import (
    PARTS,
    ComputePort,
    Offers,
    Placement,
    ServerChange,
    ServerSpec,
)
from vetro.stacks.errors import AddressRangeTaken, PlacementFailure, ResourceFailure

log = structlog.get_logger(__name__)
Answer = TypeVar("Answer")

_PAUSES = (0.1, 0.3, 1.0, 2.0, 4.0)
_TICKET_SPACE = uuids.UUID("c8f7f2ee-3f0a-4b52-8d40-6a7f1a5b9d02")
_TICKET_HOURS = 1
_IMAGE_SECONDS = 30.0
#: An image that is on the host is ready sooner; after this time its progress is reported in
#: percent.
_SLOW_IMAGE_SECONDS = 0.3
_IMAGE_STEP = 10
_NEWS_SECONDS = 30
_REASONS = 5


class ServicePort:
    """The compute service behind a `ComputeClient`. The client belongs to the caller."""

    def __init__(self, client: ComputeClient) -> None:
        self._client = client
        self._attempts: dict[str, int] = {}
        self._images: dict[tuple[str, str], tuple[float, asyncio.Future[None]]] = {}

    async def offered(self) -> Offers:
        """What the service's running servers can do."""
        told = await self._send(calls.offers())
        return Offers(
            frozenset(PARTS[part] for part in told.parts if part in PARTS),
            {PARTS[part]: why for part, why in told.reasons.items() if part in PARTS},
        )

    # --- networks, routers, security groups, ports, addresses, volumes, key pairs -------

    async def create(self, kind: Kind[Shown, New, Change], new: New) -> Shown:
        """Create an object."""
        try:
            return await self._send(kind.create(new))
        except ResourceFailure as error:
            if kind.path == SUBNETS.path and _status(error) == 409:
                raise AddressRangeTaken(str(error), details=error.details) from error
            raise

    async def change(self, kind: Kind[Shown, New, Change], uuid: str, change: Change) -> None:
        """Change an object; returns when the nodes that it concerns have the change."""
        await self._send(kind.change(uuid, change))

    async def remove(self, kind: Kind[Shown, New, Change], uuid: str) -> None:
        """Remove an object; one that is missing is removed."""
        await self._find(kind.remove(uuid))

    async def find(self, kind: Kind[Shown, New, Change], uuid: str) -> Shown | None:
        """An object."""
        return await self._find(kind.one(uuid))

    async def all(self, kind: Kind[Shown, New, Change], project_id: str) -> list[Shown]:
        """The project's objects; of networks the external ones, too."""
        return await self._send(kind.all(project_id))

    async def ports_of(self, project_id: str, server: str) -> list[Port]:
        """A server's ports."""
        return [one for one in await self.all(PORTS, project_id) if one.device_uuid == server]

    async def ranges(self) -> list[str]:
        """Address ranges in use, as far as the client may see them."""
        return sorted({one.cidr for one in await self._send(SUBNETS.all())})

    async def add_router_interface(
        self, router: str, subnet: str, made_by: str | None = None
    ) -> None:
        """Attach a subnet to a router."""
        await self._send(calls.add_interface(router, subnet, made_by))

    async def remove_router_interface(
        self, router: str, subnet: str, made_by: str | None = None
    ) -> None:
        """Detach a subnet from a router."""
        await self._find(calls.remove_interface(router, subnet, made_by))

    async def create_keypair(
        self, name: str, *, project_id: str, public_key: str, made_by: str | None = None
    ) -> None:
        """Keep a public key."""
        new = NewKeypair(public_key=public_key, project_id=project_id)
        if made_by is not None:
            new.made_by = made_by
        await self._send(calls.set_keypair(name, new))

    async def delete_keypair(
        self, name: str, *, project_id: str, made_by: str | None = None
    ) -> None:
        """Forget a public key."""
        await self._find(calls.remove_keypair(name, project_id, made_by))

    async def public_key(self, name: str, *, project_id: str) -> str | None:
        """A public key by its name."""
        found = await self._find(calls.keypair(name, project_id))
        return None if found is None else found.public_key

    # --- servers -----------------------------------------------------------------------

    async def image(self, project_id: str, name: str) -> Image:
        """An active image by name or uuid."""
        found = await self._find(vm_calls.image(name))
        if found is None:
            known = sorted({one.name for one in await self._send(vm_calls.images())})
            there = f"there are: {', '.join(known)}" if known else "there are none yet"
            raise ResourceFailure(f"There is no image {name!r}; {there}")
        if found.state != "active":
            raise ResourceFailure(f"The image {name!r} has no file yet; upload it first")
        return found

    async def place(self, spec: ServerSpec) -> Placement:
        """Allocate with a reservation under the server's uuid, and queue up for provisioning."""
        wanted = _allocation(spec)
        wanted.reserve = True
        server = await self._chosen(wanted)
        ticket = await self._ticket(server.uuid, spec)
        return Placement(host=server.uuid, host_name=server.hostname or "", ticket=ticket)

    async def would_place(
        self,
        spec: ServerSpec,
        *,
        without: Collection[str] = (),
        beside: Sequence[tuple[str, ServerSpec]] = (),
    ) -> str:
        """Allocate without a reservation."""
        wanted = _allocation(spec)
        wanted.without = sorted(without)
        wanted.beside = [
            SupposedVm(server=host, vm=PlacedVm.of(_vm(other))) for host, other in beside
        ]
        return (await self._chosen(wanted)).uuid

    async def _chosen(self, wanted: Allocation) -> ChosenServer:
        server = (await self._send(vm_calls.allocate(wanted))).server
        if server is None:
            raise ResourceFailure(f"The server chosen for {wanted.vm.alias} no longer exists")
        return server

    async def _ticket(self, host: str, spec: ServerSpec) -> str | None:
        """Queue up; returns the ticket to wait for, or None when it is active at once.

        Tickets have ids derived from the server's, one per attempt.
        """
        expires = datetime.now(UTC) + timedelta(hours=_TICKET_HOURS)
        attempt = 0
        while True:
            ticket = NewTicket(
                uuid=_ticket_id(spec.uuid, attempt),
                scope="vm",
                id=spec.uuid,
                action="provision",
                expires_at=expires.isoformat().replace("+00:00", "Z"),
                extra={
                    "owner_uuid": spec.project_id,
                    "max_physical_memory": spec.memory,
                    "cpu_cap": spec.cpu,
                    "quota": spec.disk,
                    "brand": spec.image.brand,
                },
            )
            try:
                made = await self._send(vm_calls.queue_up(host, ticket))
            except ResourceFailure as error:
                if error.details.get("code") != OTHER_QUEUE:
                    raise
                attempt += 1  # of the host that it was on before
                continue
            self._attempts[spec.uuid] = attempt + 1
            if made.status == "active":
                return None
            if made.status == "queued":
                return ticket.uuid
            attempt += 1

    async def wait_turn(self, placement: Placement) -> None:
        """Wait until the ticket is active."""
        while placement.ticket is not None:
            try:
                found = await self._send(vm_calls.wait_ticket(placement.ticket))
            except ResourceFailure as error:
                if _status(error) == 503:
                    await asyncio.sleep(_PAUSES[2])
                    continue  # the service is being restarted
                raise
            if found is None or found.status in ("active", "finished"):
                return
            if found.status != "queued":
                raise ResourceFailure(f"The provisioning ticket has {found.status}")

    async def ensure_image(
        self,
        placement: Placement,
        image: Image,
        say: Callable[[int], None] = lambda _percent: None,
    ) -> None:
        """Have the image on the host; servers made together ask for it once.

        ``say`` is called with the image's progress in percent, in steps, when that takes time.
        """
        key = (placement.host, image.uuid)
        asked, work = self._images.get(key, (0.0, None))
        if work is None or (work.done() and time.monotonic() - asked > _IMAGE_SECONDS):
            work = asyncio.ensure_future(self._ensure_image(*key))
            # When every waiter was cancelled, nothing needs its failure.
            work.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._images[key] = (time.monotonic(), work)
        following = asyncio.create_task(self._follow(*key, say), name="image progress")
        try:
            # Shielded: a cancelled waiter must not cancel it for the others.
            await asyncio.shield(work)
        except ResourceFailure:
            self._images.pop(key, None)
            raise
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _follow(self, host: str, image: str, say: Callable[[int], None]) -> None:
        """Report how far an image is on a host, until cancelled."""
        await asyncio.sleep(_SLOW_IMAGE_SECONDS)
        version, told = "", -_IMAGE_STEP
        while True:
            try:
                found = await self._client.send(
                    vm_calls.image_copies(image, version, _NEWS_SECONDS)
                )
            except (ComputeError, TransportError) as error:
                # The image arrives without it: an older service cannot report its progress.
                log.info("image_progress_unknown", image=image, error=str(error))
                return
            version = found.version
            for copy in found.copies:
                coming = copy.server_uuid == host and copy.is_coming
                if coming and copy.percent - told >= _IMAGE_STEP:
                    told = copy.percent
                    say(told)

    async def _ensure_image(self, host: str, image: str) -> None:
        await self._finish(await self._send(vm_calls.ensure_image(host, image)))

    async def create_server(self, placement: Placement, spec: ServerSpec) -> None:
        """Make and start the server."""
        new = msgspec.structs.replace(
            _vm(spec),
            ports=list(spec.ports),
            resolvers=await self._resolvers(spec),
            autoboot=True,
        )
        task = await self._finish(await self._send(vm_calls.create_vm(placement.host, new)))
        for volume, device in spec.volumes.items():
            await self.attach_volume(volume, server=spec.uuid, device=device)
        if task is not None and task.vm_state == "stopped":
            start = vm_calls.act_on_vm(spec.uuid, "start", server=placement.host)
            await self._finish(await self._send(start))

    async def _resolvers(self, spec: ServerSpec) -> list[str]:
        """The name servers of the server's subnets, in the order of its ports."""
        found_subnets, found_ports = await asyncio.gather(
            self.all(SUBNETS, spec.project_id), self.all(PORTS, spec.project_id)
        )
        subnets = {one.uuid: one for one in found_subnets}
        ports = {one.uuid: one for one in found_ports}
        wanted: dict[str, None] = {}
        for port in spec.ports:
            for subnet, _ in ports[port].fixed_ips if port in ports else []:
                if subnet in subnets:
                    wanted.update(dict.fromkeys(subnets[subnet].dns))
        return list(wanted)

    async def release(self, uuid: str) -> None:
        """Release every ticket that was taken for a server."""
        known = self._attempts.pop(uuid, None)
        attempt = 0
        while known is None or attempt < known:
            try:
                await self._send(vm_calls.release_ticket(_ticket_id(uuid, attempt)))
            except ResourceFailure as error:
                if _status(error) == 404:
                    return
                raise
            attempt += 1

    async def update_server(self, uuid: str, change: ServerChange) -> None:
        """Change a server in place."""
        wanted = VmUpdate(
            alias=change.name,
            max_physical_memory=change.memory,
            quota=change.disk,
            cpu_cap=change.cpu,
        )
        if change.metadata is not None:
            found = await self.server(uuid)
            tags = (found.tags if found is not None else None) or {}
            wanted.set_tags = dict(change.metadata)
            wanted.remove_tags = [key for key in tags if key not in change.metadata]
        await self._finish(await self._send(vm_calls.update_vm(uuid, wanted)))

    async def delete_server(self, uuid: str) -> None:
        """Destroy a server on any host and release its room."""
        await self._finish(await self._find(vm_calls.destroy_vm(uuid)))

    async def server(self, uuid: str) -> Vm | None:
        """A server as its node sees it."""
        return await self._find(vm_calls.vm(uuid))

    async def incarnations(self, project_id: str) -> dict[str, str]:
        """Which root disk each server of the project has."""
        # A service of an earlier release does not know the call: its VMs keep their disks.
        found = await self._find(vm_calls.incarnations(project_id))
        return {one.uuid: one.incarnation for one in found or ()}

    # --- block storage -----------------------------------------------------------------

    async def volume_image(self, project_id: str, uuid: str) -> Image:
        """What a server that boots from the volume is."""
        found = await self._send(calls.VOLUMES.one(uuid))
        if found.source is None or found.source.kind != "image":
            raise ResourceFailure(f"The volume {found.name} has no image to boot from")
        return await self.image(project_id, found.source.uuid)

    async def attach_volume(
        self, uuid: str, *, server: str, device: str, made_by: str | None = None
    ) -> None:
        """Give a volume to a server."""
        body = Attachment(vm_uuid=server, device=device)
        if made_by is not None:
            body.made_by = made_by
        await self._send(calls.attach_volume(uuid, body))

    async def detach_volume(self, uuid: str, *, server: str, made_by: str | None = None) -> None:
        """Take a volume from a server; one that is gone has none."""
        await self._find(calls.detach_volume(uuid, server, made_by))

    # --- requests ----------------------------------------------------------------------

    async def _send(self, call: Call[Answer]) -> Answer:
        """Send a request that may be repeated; repeat it when its answer is lost."""
        if not {"", ".", ".."}.isdisjoint(call.path.split("/")[1:]):
            # As an address it would mean something else: all objects, or another kind.
            raise ResourceFailure(
                f"There is nothing with an empty id, or with the id '.' or '..': {call.path}",
                details={"status": 404, "code": "ResourceNotFound"},
            )
        return await _patiently(lambda: self._client.send(call))

    async def _find(self, call: Call[Answer]) -> Answer | None:
        """The answer to a request; ``None`` when there is nothing that it could mean."""
        try:
            return await self._send(call)
        except ResourceFailure as error:
            # A name that cannot be one names nothing: its creation was refused, too.
            if _status(error) == 404 or error.details.get("code") == "InvalidParameters":
                return None
            raise

    async def _finish(self, started: TaskStarted | None) -> Task | None:
        """Wait for the node task that a call has started, if it has."""
        task = started.id if started is not None else None
        if not task:
            return None
        return await _patiently(lambda: self._client.ended(task))


async def _patiently(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    lost = False
    for pause in (*_PAUSES, None):
        try:
            return await ask()
        except ComputeError as error:
            failure = _failure(error)
            failure.uncertain = lost or not _is_refusal(error)
            raise failure from error
        except TransportError as error:
            lost = True
            if pause is None:
                raise ResourceFailure(
                    f"The compute service cannot be reached: {error}", uncertain=True
                ) from error
            await asyncio.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def port_of(compute: ComputeClient | ComputePort) -> ComputePort:
    """The port of a client; a port is itself."""
    return ServicePort(compute) if isinstance(compute, ComputeClient) else compute


def _ticket_id(server: str, attempt: int) -> str:
    return str(uuids.uuid5(_TICKET_SPACE, f"{server}/{attempt}"))


def _vm(spec: ServerSpec) -> NewVm:
    brand = spec.image.brand
    return NewVm(
        uuid=spec.uuid,
        owner_uuid=spec.project_id,
        alias=spec.name,
        hostname=spec.hostname,
        brand=brand,
        image_uuid=spec.image.uuid,
        max_physical_memory=spec.memory,
        quota=spec.disk,
        cpu_cap=spec.cpu,
        # A container shares the machine's processors up to its cap; a virtual machine has virtual
        # ones.
        vcpus=max(1, spec.cpu // 100) if brand in HVM_BRANDS else None,
        tags=dict(spec.metadata),
        customer_metadata=dict(spec.customer_metadata),
    )


def _allocation(spec: ServerSpec) -> Allocation:
    return Allocation(
        vm=PlacedVm.of(_vm(spec), spec.locality),
        image=PlacedImage(uuid=spec.image.uuid, type=spec.image.type),
        ports=list(spec.ports),
        volumes=list(dict.fromkeys((*spec.volumes, *spec.later_volumes))),
        explain=False,  # the steps of a success are not used
    )


class _Field(msgspec.Struct):
    field: str = ""
    message: str = ""


class _Fields(msgspec.Struct):
    errors: list[_Field] = []


def _is_refusal(error: ComputeError) -> bool:
    """Whether the service did nothing. Parameters that do not validate are a 500 there."""
    return 400 <= error.status < 500 or error.code == "InvalidParameters"


def _failure(error: ComputeError) -> ResourceFailure:
    if error.code == "NoAllocatableServersError":
        reasons = error.body_as(NoAllocation).reasons()
        return PlacementFailure(
            f"{error.message}{_reasons(reasons)}", details=error.body.get("steps") or []
        )
    fields = error.body_as(_Fields).errors
    told = "; ".join(f"{one.field}: {one.message}" for one in fields)
    message = f"{error.message}: {told}" if told else error.message
    return ResourceFailure(message, details={"status": error.status, "code": error.code})


def _reasons(found: Mapping[str, str]) -> str:
    """Why servers were excluded, for a few of them: each server's own reason."""
    shown = [f"{name}: {text}" for name, text in list(found.items())[:_REASONS]]
    if len(found) > _REASONS:
        shown.append(f"and {len(found) - _REASONS} more servers")
    return f" ({'; '.join(shown)})" if shown else ""


def _status(error: ResourceFailure) -> int | None:
    """The status of a refusal."""
    details: Any = error.details
    return details.get("status") if hasattr(details, "get") else None
