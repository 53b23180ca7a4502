"""`ComputePort` on the compute service's HTTP API.

Every request names the uuid it is about, so a request whose answer was lost is simply repeated. A
refusal of the service becomes a `ResourceFailure` with its message.
"""

from __future__ import annotations

import asyncio
import time
import uuid as uuids
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from vetro.compute.client import ComputeClient, ComputeError, TransportError
from vetro.stacks.compute_port import (
    ComputePort,
    FloatingIpInfo,
    ImageInfo,
    NetworkInfo,
    Placement,
    PortInfo,
    RouterInfo,
    ServerInfo,
    ServerSpec,
    SubnetInfo,
)
from vetro.stacks.errors import AddressRangeTaken, PlacementFailure, ResourceFailure

Json = Any

log = structlog.get_logger(__name__)

_PAUSES = (0.1, 0.3, 1.0, 2.0, 4.0)
_TICKET_SPACE = uuids.UUID("c8f7f2ee-3f0a-4b52-8d40-6a7f1a5b9d02")
_TICKET_HOURS = 1
_IMAGE_SECONDS = 30.0
#: An image that is on the host is ready sooner; after this time its progress is reported in
#: percent.
_SLOW_IMAGE_SECONDS = 0.3
_IMAGE_STEP = 10
_COMING = ("fetching", "unpacking")
_REASONS = 5
HVM_BRANDS = ("kvm", "bhyve")
_BRANDS = {"lxc-rootfs": "lx", "vm": "kvm", "zvol": "kvm", "qcow2": "kvm"}


class ServicePort:
    """The compute service behind a `ComputeClient`. The client belongs to the caller."""

    offers: frozenset[str] = frozenset()
    """Neither block storage nor agents of the cloud in the guests."""

    def __init__(self, client: ComputeClient) -> None:
        self._client = client
        self._attempts: dict[str, int] = {}
        self._images: dict[tuple[str, str], tuple[float, asyncio.Future[None]]] = {}

    # --- networks ----------------------------------------------------------------------

    async def create_network(self, uuid: str, *, project_id: str, name: str) -> None:
        """Make a network."""
        await self._call(
            "POST", "/networks", {"uuid": uuid, "project_id": project_id, "name": name}
        )

    async def update_network(self, uuid: str, *, name: str) -> None:
        """Rename a network."""
        await self._call("PUT", f"/networks/{uuid}", {"name": name})

    async def delete_network(self, uuid: str) -> None:
        """Remove a network."""
        await self._remove(f"/networks/{uuid}")

    async def networks(self, project_id: str) -> list[NetworkInfo]:
        """The project's networks and the external ones."""
        return [
            NetworkInfo(
                uuid=one["uuid"],
                name=one["name"],
                project_id=one["project_id"],
                external=one["external"],
                subnets=list(one["subnets"]),
            )
            for one in await self._list("/networks", project_id)
        ]

    async def create_subnet(
        self,
        uuid: str,
        *,
        project_id: str,
        network: str,
        name: str,
        cidr: str,
        gateway: str | None,
        dns: Sequence[str],
        replaces: Sequence[str] = (),
    ) -> None:
        """Make a subnet."""
        body = {
            "uuid": uuid,
            "project_id": project_id,
            "network_uuid": network,
            "name": name,
            "cidr": cidr,
            "gateway": gateway,
            "dns": list(dns),
            "replaces": list(replaces),
        }
        try:
            await self._call("POST", "/subnets", body)
        except ResourceFailure as error:
            if _status(error) == 409:
                raise AddressRangeTaken(str(error), details=error.details) from error
            raise

    async def update_subnet(self, uuid: str, *, name: str, dns: Sequence[str]) -> None:
        """Change a subnet's name and name servers."""
        await self._call("PUT", f"/subnets/{uuid}", {"name": name, "dns": list(dns)})

    async def delete_subnet(self, uuid: str) -> None:
        """Remove a subnet."""
        await self._remove(f"/subnets/{uuid}")

    async def subnets(self, project_id: str) -> list[SubnetInfo]:
        """The project's subnets."""
        return [
            SubnetInfo(
                uuid=one["uuid"],
                network_uuid=one["network_uuid"],
                name=one["name"],
                project_id=one["project_id"],
                cidr=one["cidr"],
                gateway=one["gateway"],
                dns=list(one["dns"] or []),
            )
            for one in await self._list("/subnets", project_id)
        ]

    async def ranges(self) -> list[str]:
        """Address ranges in use, as far as the client may see them."""
        found = await self._call("GET", "/subnets", params={"all_projects": "true"})
        return sorted({one["cidr"] for one in found})

    # --- routers -----------------------------------------------------------------------

    async def create_router(
        self, uuid: str, *, project_id: str, name: str, external_network: str | None
    ) -> None:
        """Make a router."""
        body = {
            "uuid": uuid,
            "project_id": project_id,
            "name": name,
            "external_network": external_network,
        }
        await self._call("POST", "/routers", body)

    async def update_router(self, uuid: str, *, name: str, external_network: str | None) -> None:
        """Change a router's name and gateway."""
        body = {"name": name, "external_network": external_network}
        await self._call("PUT", f"/routers/{uuid}", body)

    async def delete_router(self, uuid: str) -> None:
        """Remove a router."""
        await self._remove(f"/routers/{uuid}")

    async def routers(self, project_id: str) -> list[RouterInfo]:
        """The project's routers."""
        return [
            RouterInfo(
                uuid=one["uuid"],
                name=one["name"],
                project_id=one["project_id"],
                external_network=one["external_network"],
                subnets=list(one["subnets"]),
            )
            for one in await self._list("/routers", project_id)
        ]

    async def add_router_interface(self, router: str, subnet: str) -> None:
        """Attach a subnet to a router."""
        await self._call("PUT", f"/routers/{router}/interfaces/{subnet}")

    async def remove_router_interface(self, router: str, subnet: str) -> None:
        """Detach a subnet from a router."""
        await self._remove(f"/routers/{router}/interfaces/{subnet}")

    # --- security groups ---------------------------------------------------------------

    async def create_security_group(
        self, uuid: str, *, project_id: str, name: str, description: str, rules: list[Json]
    ) -> None:
        """Make a security group."""
        body = {
            "uuid": uuid,
            "project_id": project_id,
            "name": name,
            "description": description,
            "rules": rules,
        }
        await self._call("POST", "/security-groups", body)

    async def update_security_group(
        self, uuid: str, *, name: str, description: str, rules: list[Json]
    ) -> None:
        """Change a security group; returns when its nodes have the new rules."""
        body = {"name": name, "description": description, "rules": rules}
        await self._call("PUT", f"/security-groups/{uuid}", body)

    async def delete_security_group(self, uuid: str) -> None:
        """Remove a security group."""
        await self._remove(f"/security-groups/{uuid}")

    async def security_groups(self, project_id: str) -> dict[str, str]:
        """Names by uuid."""
        found = await self._list("/security-groups", project_id)
        return {one["uuid"]: one["name"] for one in found}

    # --- ports and addresses -----------------------------------------------------------

    async def create_port(
        self,
        uuid: str,
        *,
        project_id: str,
        network: str,
        name: str,
        fixed_ips: Sequence[tuple[str | None, str | None]],
        security_groups: Sequence[str],
        port_security: bool,
        allowed_addresses: Sequence[str],
    ) -> None:
        """Make a port with an address."""
        await self._call(
            "POST",
            "/ports",
            {
                "uuid": uuid,
                "project_id": project_id,
                "network_uuid": network,
                "name": name,
                "fixed_ips": [{"subnet_uuid": subnet, "ip": ip} for subnet, ip in fixed_ips],
                "security_groups": list(security_groups),
                "port_security": port_security,
                "allowed_addresses": list(allowed_addresses),
            },
        )

    async def update_port(
        self,
        uuid: str,
        *,
        name: str | None = None,
        security_groups: Sequence[str] | None = None,
        port_security: bool | None = None,
        allowed_addresses: Sequence[str] | None = None,
    ) -> None:
        """Change what is given; returns when the port's node has it."""
        given = {
            "name": name,
            "security_groups": None if security_groups is None else list(security_groups),
            "port_security": port_security,
            "allowed_addresses": None if allowed_addresses is None else list(allowed_addresses),
        }
        body = {key: value for key, value in given.items() if value is not None}
        await self._call("PUT", f"/ports/{uuid}", body)

    async def delete_port(self, uuid: str) -> None:
        """Remove a port."""
        await self._remove(f"/ports/{uuid}")

    async def port(self, uuid: str) -> PortInfo | None:
        """A port."""
        found = await self._find(f"/ports/{uuid}")
        return None if found is None else _port(found)

    async def ports(self, project_id: str) -> list[PortInfo]:
        """The project's ports."""
        return [_port(one) for one in await self._list("/ports", project_id)]

    async def create_floating_ip(
        self, uuid: str, *, project_id: str, network: str, port: str | None
    ) -> None:
        """Take a floating address, and give it to a port."""
        body = {
            "uuid": uuid,
            "project_id": project_id,
            "network_uuid": network,
            "port_uuid": port,
        }
        await self._call("POST", "/floating-ips", body)

    async def update_floating_ip(self, uuid: str, *, port: str | None) -> None:
        """Give the address to another port, or to none."""
        await self._call("PUT", f"/floating-ips/{uuid}", {"port_uuid": port})

    async def delete_floating_ip(self, uuid: str) -> None:
        """Give a floating address back."""
        await self._remove(f"/floating-ips/{uuid}")

    async def floating_ip(self, uuid: str) -> FloatingIpInfo | None:
        """A floating address."""
        found = await self._find(f"/floating-ips/{uuid}")
        return None if found is None else _floating(found)

    async def floating_ips(self, project_id: str) -> list[FloatingIpInfo]:
        """The project's floating addresses."""
        return [_floating(one) for one in await self._list("/floating-ips", project_id)]

    # --- key pairs ---------------------------------------------------------------------

    async def create_keypair(self, name: str, *, project_id: str, public_key: str) -> None:
        """Keep a public key."""
        body = {"project_id": project_id, "public_key": public_key}
        await self._call("PUT", f"/keypairs/{name}", body)

    async def delete_keypair(self, name: str, *, project_id: str) -> None:
        """Forget a public key."""
        await self._remove(f"/keypairs/{name}", {"project_id": project_id})

    async def public_key(self, name: str, *, project_id: str) -> str | None:
        """A public key by its name."""
        found = await self._find(f"/keypairs/{name}", {"project_id": project_id})
        return None if found is None else found["public_key"]

    # --- servers -----------------------------------------------------------------------

    async def image(self, project_id: str, name: str) -> ImageInfo:
        """An active image by name or uuid."""
        found = await self._find(f"/images/{name}")
        if found is None:
            known = sorted({one["name"] for one in await self._list("/images", project_id)})
            there = f"there are: {', '.join(known)}" if known else "there are none yet"
            raise ResourceFailure(f"There is no image {name!r}; {there}")
        if found.get("state") != "active":
            raise ResourceFailure(f"The image {name!r} has no file yet")
        return ImageInfo(
            uuid=found["uuid"],
            name=found["name"],
            brand=_BRANDS.get(found.get("type", ""), "lx"),
            manifest=found,
        )

    async def place(self, spec: ServerSpec) -> Placement:
        """Allocate with a reservation under the server's uuid, and queue up for provisioning."""
        wanted = _vm(spec)
        if spec.locality:
            wanted["locality"] = dict(spec.locality)
        body: dict[str, Json] = {
            "vm": {**wanted, "vm_uuid": spec.uuid, "ram": spec.memory},
            "image": {"uuid": spec.image.uuid, "type": spec.image.manifest.get("type")},
            "nic_tags": [],
            "ports": list(spec.ports),
            "reserve": True,
            "explain": False,  # the steps of a success are not used
        }
        answer = await self._call("POST", "/allocate", body)
        server = answer.get("server")
        if server is None:
            raise ResourceFailure(f"The host chosen for {spec.name} is gone")
        ticket = await self._ticket(server["uuid"], spec)
        return Placement(
            host=server["uuid"], host_name=str(server.get("hostname") or ""), ticket=ticket
        )

    async def _ticket(self, host: str, spec: ServerSpec) -> str | None:
        """Queue up; returns the ticket to wait for, or None when it is active at once.

        Tickets have ids derived from the server's, one per attempt.
        """
        expires = datetime.now(UTC) + timedelta(hours=_TICKET_HOURS)
        attempt = 0
        while True:
            ticket = _ticket_id(spec.uuid, attempt)
            body = {
                "uuid": ticket,
                "scope": "vm",
                "id": spec.uuid,
                "action": "provision",
                "expires_at": expires.isoformat().replace("+00:00", "Z"),
                "extra": {
                    "owner_uuid": spec.project_id,
                    "max_physical_memory": spec.memory,
                    "cpu_cap": spec.cpu,
                    "quota": spec.disk,
                    "brand": spec.image.brand,
                },
            }
            made = await self._call("POST", f"/servers/{host}/tickets", body)
            self._attempts[spec.uuid] = attempt + 1
            if made["status"] == "active":
                return None
            if made["status"] == "queued":
                return ticket
            attempt += 1

    async def wait_turn(self, placement: Placement) -> None:
        """Wait until the ticket is active."""
        while placement.ticket is not None:
            try:
                found = await self._call(
                    "GET", f"/tickets/{placement.ticket}/wait", timeout_seconds=3600.0
                )
            except ResourceFailure as error:
                if _status(error) == 503:
                    await asyncio.sleep(_PAUSES[2])
                    continue  # the service is being restarted
                raise
            if found is None or found["status"] in ("active", "finished"):
                return
            if found["status"] != "queued":
                raise ResourceFailure(f"The provisioning ticket has {found['status']}")

    async def ensure_image(
        self,
        placement: Placement,
        image: ImageInfo,
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
        """Tell how far an image is on a host, until cancelled."""
        await asyncio.sleep(_SLOW_IMAGE_SECONDS)
        version, told = "", -_IMAGE_STEP
        while True:
            try:
                found = await self._client.call(
                    "GET",
                    f"/images/{image}/copies",
                    params={"version": version, "timeout": 30},
                    timeout_seconds=60.0,
                )
            except (ComputeError, TransportError) as error:
                # The image arrives without it: an older service cannot report its progress.
                log.info("the progress of an image is not known", image=image, error=str(error))
                return
            version = found["version"]
            for copy in found["copies"]:
                coming = copy["server_uuid"] == host and copy["state"] in _COMING
                if coming and copy["percent"] - told >= _IMAGE_STEP:
                    told = copy["percent"]
                    say(told)

    async def _ensure_image(self, host: str, image: str) -> None:
        started = await self._call("POST", f"/servers/{host}/ensure-image", {"image_uuid": image})
        await self._finish(started)

    async def create_server(self, placement: Placement, spec: ServerSpec) -> None:
        """Make and start the server."""
        body = {
            **_vm(spec),
            "ports": list(spec.ports),
            "resolvers": await self._resolvers(spec),
            "autoboot": True,
        }
        started = await self._call("POST", f"/servers/{placement.host}/vms", body)
        result = await self._finish(started)
        made = result.get("vm") or result
        if made.get("state") == "stopped":
            path = f"/servers/{placement.host}/vms/{spec.uuid}/start"
            await self._finish(await self._call("POST", path, {}))

    async def _resolvers(self, spec: ServerSpec) -> list[str]:
        """The name servers of the server's subnets, in the order of its ports."""
        found_subnets, found_ports = await asyncio.gather(
            self.subnets(spec.project_id), self.ports(spec.project_id)
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
            ticket = _ticket_id(uuid, attempt)
            try:
                await self._call("PUT", f"/tickets/{ticket}/release")
            except ResourceFailure as error:
                if _status(error) == 404:
                    return
                raise
            attempt += 1

    async def update_server(
        self,
        uuid: str,
        *,
        project_id: str,
        name: str | None = None,
        metadata: Mapping[str, str] | None = None,
        memory: int | None = None,
        disk: int | None = None,
        cpu: int | None = None,
    ) -> None:
        """Change a server in place."""
        given: dict[str, Json] = {
            "alias": name,
            "max_physical_memory": memory,
            "quota": disk,
            "cpu_cap": cpu,
        }
        body = {key: value for key, value in given.items() if value is not None}
        if metadata is not None:
            found: dict[str, Json] = await self._find(f"/servers/default/vms/{uuid}") or {}
            tags: dict[str, Json] = found.get("tags") or {}
            body["set_tags"] = dict(metadata)
            body["remove_tags"] = [key for key in tags if key not in metadata]
        await self._finish(await self._call("POST", f"/servers/default/vms/{uuid}/update", body))

    async def delete_server(self, uuid: str, *, project_id: str, host: str | None) -> None:
        """Destroy a server on any host and release its room."""
        try:
            started = await self._call("DELETE", f"/servers/default/vms/{uuid}")
        except ResourceFailure as error:
            if _status(error) == 404:
                return
            raise
        await self._finish(started)

    async def server(self, uuid: str, *, project_id: str, host: str | None) -> ServerInfo | None:
        """A server as its node sees it."""
        found = await self._find(f"/servers/default/vms/{uuid}")
        if found is None:
            return None
        nics: list[dict[str, Json]] = found.get("nics") or []
        answers_at = {
            str(nic["network_ip"]).split("/")[0]: str(nic["ip"]).split("/")[0]
            for nic in nics
            if nic.get("network_ip") and nic.get("ip")
        }
        return ServerInfo(
            uuid=uuid, state=found["state"], host=found["server_uuid"], answers_at=answers_at
        )

    # --- requests ----------------------------------------------------------------------

    async def _call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
    ) -> Any:
        """A request that may be repeated; repeated when its answer is lost."""
        for pause in (*_PAUSES, None):
            try:
                return await self._client.call(
                    method, path, body, params=params, timeout_seconds=timeout_seconds
                )
            except ComputeError as error:
                raise _failure(error) from error
            except TransportError as error:
                if pause is None:
                    raise ResourceFailure(
                        f"The compute service cannot be reached: {error}"
                    ) from error
                await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _finish(self, started: Mapping[str, Json] | None) -> dict[str, Json]:
        """Wait for the node task a call has started; its result."""
        task = (started or {}).get("id")
        if not task:
            return {}
        for pause in (*_PAUSES, None):
            try:
                ended = await self._client.wait_task(task)
                return ended.get("result") or {}
            except ComputeError as error:
                raise _failure(error) from error
            except TransportError as error:
                if pause is None:
                    raise ResourceFailure(
                        f"The compute service cannot be reached: {error}"
                    ) from error
                await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _find(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        try:
            return await self._call("GET", path, params=params)
        except ResourceFailure as error:
            if _status(error) == 404:
                return None
            raise

    async def _remove(self, path: str, params: Mapping[str, Any] | None = None) -> None:
        try:
            await self._call("DELETE", path, params=params)
        except ResourceFailure as error:
            if _status(error) != 404:
                raise

    async def _list(self, path: str, project_id: str) -> list[dict[str, Json]]:
        return await self._call("GET", path, params={"project_id": project_id})


def port_of(compute: ComputeClient | ComputePort) -> ComputePort:
    """The port of a client; a port is itself."""
    return ServicePort(compute) if isinstance(compute, ComputeClient) else compute


def _ticket_id(server: str, attempt: int) -> str:
    return str(uuids.uuid5(_TICKET_SPACE, f"{server}/{attempt}"))


def _vm(spec: ServerSpec) -> dict[str, Json]:
    # A container shares the machine's processors up to its cap; a virtual machine has virtual ones.
    own = {"vcpus": max(1, spec.cpu // 100)} if spec.image.brand in HVM_BRANDS else {}
    return {
        **own,
        "uuid": spec.uuid,
        "owner_uuid": spec.project_id,
        "alias": spec.name,
        "hostname": spec.hostname,
        "brand": spec.image.brand,
        "image_uuid": spec.image.uuid,
        "max_physical_memory": spec.memory,
        "quota": spec.disk,
        "cpu_cap": spec.cpu,
        "tags": dict(spec.metadata),
        "customer_metadata": dict(spec.customer_metadata),
    }


def _port(found: Mapping[str, Json]) -> PortInfo:
    return PortInfo(
        uuid=found["uuid"],
        network_uuid=found["network_uuid"],
        project_id=found["project_id"],
        name=found["name"],
        mac=found["mac"],
        fixed_ips=[(subnet, ip) for subnet, ip in found["fixed_ips"]],
        security_groups=list(found["security_groups"] or []),
        device_uuid=found["device_uuid"],
        device_owner=found["device_owner"],
    )


def _floating(found: Mapping[str, Json]) -> FloatingIpInfo:
    return FloatingIpInfo(
        uuid=found["uuid"],
        address=found["address"],
        network_uuid=found["network_uuid"],
        project_id=found["project_id"],
        port_uuid=found["port_uuid"],
        fixed_ip=found["fixed_ip"],
    )


def _failure(error: ComputeError) -> ResourceFailure:
    if error.code == "NoAllocatableServersError":
        steps: list[Any] = error.body.get("steps") or []
        absent: dict[str, str] = error.body.get("not_considered") or {}
        return PlacementFailure(f"{error.message}{_reasons(steps, absent)}", details=steps)
    message = error.message
    fields = error.body.get("errors")
    if isinstance(fields, list):
        parts: list[Any] = [*fields]
        message += ": " + "; ".join(f"{one.get('field')}: {one.get('message')}" for one in parts)
    return ResourceFailure(message, details={"status": error.status, "code": error.code})


def _reasons(steps: Sequence[Mapping[str, Json]], absent: Mapping[str, str]) -> str:
    """Why servers were excluded, for a few of them: each server's own reason."""
    found: dict[str, str] = dict(absent)
    for step in steps:
        reasons: Mapping[str, str] = step.get("reasons") or {}
        found.update({name: text for name, text in reasons.items() if name not in ("*", "skip")})
    shown = [f"{name}: {text}" for name, text in list(found.items())[:_REASONS]]
    if len(found) > _REASONS:
        shown.append(f"and {len(found) - _REASONS} more servers")
    return f" ({'; '.join(shown)})" if shown else ""


def _status(error: ResourceFailure) -> int | None:
    details: Any = error.details
    return details.get("status") if hasattr(details, "get") else None
