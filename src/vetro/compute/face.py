"""HTTP of the compute service: nodes, tickets, tasks, VMs, images (compute-node-api.md)."""

from __future__ import annotations

import re
from typing import Any, cast

from litestar import Request, Response, delete, get, post, put
from litestar.params import FromPath
from litestar.response import File

from vetro.compute.fabric_face import fabric_handlers
from vetro.compute.faults import invalid_argument, not_found
from vetro.compute.service import ComputeService
from vetro.http import (
    COMPUTE_CONVENTIONS,
    COMPUTE_FAULTS,
    Authenticator,
    Face,
    Fault,
    Principal,
    make_face,
    principal_of,
    read_json,
    receive_upload,
    unless_closing,
)

AnyRequest = Request[Any, Any, Any]
Body = dict[str, Any]
UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
IMAGE_LIMIT = 32 * 2**30


async def body_of(request: AnyRequest) -> Body:
    """Query parameters under the JSON body, as one map (§2)."""
    value = await read_json(request)
    if value is not None and not isinstance(value, dict):
        raise invalid_argument("the request body must be an object")
    return {**dict(request.query_params.items()), **cast("Body", value or {})}


def server_uuid(text: str) -> str:
    """A server's uuid in lower case. Errors: 409."""
    if not UUID.match(text) and text != "default":
        raise invalid_argument("Invalid server_uuid")
    return text.lower()


def only_node(request: AnyRequest, uuid: str) -> None:
    """A node speaks for itself only; operators may speak for any. Errors: 403."""
    principal = principal_of(request)
    if not principal.is_admin and principal.user_id not in ("node", f"node/{uuid}"):
        raise Fault("Only the node itself may say this", status=403, type_="NotAuthorized")


def only_operator(request: AnyRequest) -> None:
    """Operators and our own parts. Errors: 403."""
    if not principal_of(request).is_admin:
        raise Fault("This call is for operators", status=403, type_="NotAuthorized")


class NodeAware:
    """An authenticator that also knows the nodes' key and the key of Vetro's own parts."""

    def __init__(self, inner: Authenticator, *, node_key: str, service_key: str) -> None:
        self._inner = inner
        self._node_key = node_key
        self._service_key = service_key

    async def authenticate(self, token: str) -> Principal | None:
        """A node, one of our own services, or whoever the identity service says."""
        if token and token == self._node_key:
            return Principal("node", "node", "", roles=frozenset({"node"}))
        if token and token == self._service_key:
            return Principal("service", "service", "", roles=frozenset({"admin"}))
        return await self._inner.authenticate(token)


def compute_face(
    service: ComputeService, authenticator: Authenticator, *, prefix: str = "/compute"
) -> Face:
    """The face at ``prefix``."""

    @get("/ping")
    async def ping() -> Body:
        """Whether the service answers."""
        return {"ready": True}

    # Nodes

    @post("/servers/{uuid:str}/sysinfo", status_code=200)
    async def sysinfo(request: AnyRequest, uuid: FromPath[str]) -> Body:
        """A node registers, or tells that it changed."""
        uuid = server_uuid(uuid)
        only_node(request, uuid)
        body = await body_of(request)
        info = body.get("sysinfo")
        if not isinstance(info, dict):
            raise invalid_argument("sysinfo must be an object")
        await service.servers.register(uuid, cast("Body", info))
        await service.database.notify("compute/registered", uuid)
        return {}

    @post("/servers/{uuid:str}/events/heartbeat", status_code=204)
    async def heartbeat(request: AnyRequest, uuid: FromPath[str]) -> None:
        """A node is alive."""
        uuid = server_uuid(uuid)
        only_node(request, uuid)
        await service.servers.heartbeat(uuid)

    @post("/servers/{uuid:str}/events/status", status_code=204)
    async def status(request: AnyRequest, uuid: FromPath[str]) -> None:
        """A node's VMs and resources."""
        uuid = server_uuid(uuid)
        only_node(request, uuid)
        await service.servers.status(uuid, await body_of(request))

    @get("/servers")
    async def list_servers(request: AnyRequest) -> list[Body]:
        """Compute nodes."""
        principal = principal_of(request)
        given = request.query_params
        async with service.database.read() as tx:
            rows = await service.servers.views(tx)
        if given.get("uuids"):
            wanted = set(str(given["uuids"]).split(","))
            rows = [row for row in rows if row["uuid"] in wanted]
        for name in ("hostname", "status"):
            if given.get(name):
                rows = [row for row in rows if row[name] == given[name]]
        if not principal.is_admin:
            # Others' instances and the inside of the machines are not a user's business.
            for row in rows:
                row["vms"] = {
                    uuid: vm
                    for uuid, vm in row["vms"].items()
                    if vm.get("owner_uuid") == principal.project_id
                }
                row["sysinfo"] = {}
        limit, offset = int(given.get("limit", 1000)), int(given.get("offset", 0))
        if not 1 <= limit <= 1000:
            raise Fault("limit must be 1 to 1000", status=400, type_="InvalidParameters")
        return rows[offset : offset + limit]

    @get("/servers/{uuid:str}")
    async def show_server(request: AnyRequest, uuid: FromPath[str]) -> Body:
        """One compute node."""
        only_operator(request)
        uuid = server_uuid(uuid)
        async with service.database.read() as tx:
            await service.servers.row(tx, uuid)
            return (await service.servers.views(tx, [uuid]))[0]

    @post("/servers/{uuid:str}", status_code=204)
    async def change_server(request: AnyRequest, uuid: FromPath[str]) -> None:
        """Change what an operator may change; a node tells its agents here."""
        uuid = server_uuid(uuid)
        body = await body_of(request)
        if set(body) == {"agents"}:
            only_node(request, uuid)
            await service.servers.set_agents(uuid, cast("list[Any]", body["agents"]))
            return
        only_operator(request)
        await service.servers.change(uuid, body)

    @delete("/servers/{uuid:str}")
    async def forget_server(request: AnyRequest, uuid: FromPath[str]) -> None:
        """Forget a node."""
        only_operator(request)
        await service.servers.forget(server_uuid(uuid))

    # Placement and tickets

    @post("/allocate", status_code=200)
    async def allocate(request: AnyRequest) -> Body:
        """Choose a server for a VM."""
        only_operator(request)
        return await service.machines.allocate(await body_of(request))

    @post("/servers/{uuid:str}/tickets", status_code=202)
    async def new_ticket(request: AnyRequest, uuid: FromPath[str]) -> Body:
        """Queue up for something on a server."""
        only_operator(request)
        uuid = server_uuid(uuid)
        async with service.database.read() as tx:
            if uuid != "default":
                await service.servers.row(tx, uuid)
        body = await body_of(request)
        ticket = str(body.get("uuid") or service.new_uuid())
        return await service.tickets.create(ticket, uuid, body)

    @get("/servers/{uuid:str}/tickets")
    async def list_tickets(request: AnyRequest, uuid: FromPath[str]) -> list[Body]:
        """The tickets of a server."""
        only_operator(request)
        return await service.tickets.listing(server_uuid(uuid))

    @get("/tickets/{ticket:str}")
    async def show_ticket(request: AnyRequest, ticket: FromPath[str]) -> Body:
        """A ticket, and what it waits for."""
        only_operator(request)
        return await service.tickets.get(ticket)

    @get("/tickets/{ticket:str}/wait")
    async def wait_ticket(request: AnyRequest, ticket: FromPath[str]) -> Response[Any]:
        """Wait until it is this ticket's turn, or over."""
        only_operator(request)
        view = await unless_closing(request, service.tickets.wait(ticket))
        if view is None:
            raise Fault("The service is closing: ask again", status=503, type_="ServiceUnavailable")
        return Response(view)

    @put("/tickets/{ticket:str}/release", status_code=204)
    async def release_ticket(request: AnyRequest, ticket: FromPath[str]) -> None:
        """Give a turn back."""
        only_operator(request)
        await service.tickets.release(ticket)

    @delete("/tickets/{ticket:str}")
    async def delete_ticket(request: AnyRequest, ticket: FromPath[str]) -> None:
        """Leave the queue."""
        only_operator(request)
        await service.tickets.remove(ticket)

    # Tasks

    @get("/tasks/{task:str}")
    async def show_task(request: AnyRequest, task: FromPath[str]) -> Body:
        """A task on a node."""
        principal_of(request)
        return await service.work.get(task)

    @get("/tasks/{task:str}/wait")
    async def wait_task(request: AnyRequest, task: FromPath[str]) -> Response[Any]:
        """Wait for a task to end."""
        principal_of(request)
        given = str(request.query_params.get("timeout", "60"))
        if not given.isdigit():
            raise invalid_argument("timeout must be seconds")
        view = await unless_closing(request, service.work.wait(task, min(3600.0, float(given))))
        return Response(view or await service.work.get(task))

    # VMs

    @post("/servers/{uuid:str}/vms", status_code=202)
    async def create_vm(request: AnyRequest, uuid: FromPath[str]) -> Body:
        """Make a VM."""
        only_operator(request)
        return await service.machines.create(server_uuid(uuid), await body_of(request))

    @get("/servers/{uuid:str}/vms/{vm:str}")
    async def show_vm(request: AnyRequest, uuid: FromPath[str], vm: FromPath[str]) -> Body:
        """A VM as its node sees it."""
        principal = principal_of(request)
        found = await service.machines.load(server_uuid(uuid), vm)
        if not principal.is_admin and found.get("owner_uuid") != principal.project_id:
            raise not_found(f"VM {vm} not found")
        return found

    @post("/servers/{uuid:str}/vms/{vm:str}/{action:str}", status_code=202)
    async def act(
        request: AnyRequest, uuid: FromPath[str], vm: FromPath[str], action: FromPath[str]
    ) -> Body:
        """Start, stop, reboot, kill or update a VM."""
        only_operator(request)
        task = {
            "start": "machine_boot",
            "stop": "machine_shutdown",
            "reboot": "machine_reboot",
            "kill": "machine_kill",
            "update": "machine_update",
        }.get(action)
        if task is None:
            raise not_found(f"/servers/{uuid}/vms/{vm}/{action} does not exist")
        return await service.machines.act(server_uuid(uuid), vm, task, await body_of(request))

    @delete("/servers/{uuid:str}/vms/{vm:str}", status_code=202)
    async def destroy_vm(request: AnyRequest, uuid: FromPath[str], vm: FromPath[str]) -> Body:
        """Destroy a VM."""
        only_operator(request)
        return await service.machines.destroy(server_uuid(uuid), vm)

    @post("/servers/{uuid:str}/ensure-image", status_code=202)
    async def ensure_image(request: AnyRequest, uuid: FromPath[str]) -> Body:
        """Have an image on a node."""
        only_operator(request)
        body = await body_of(request)
        row = await service.images.get(str(body.get("image_uuid")))
        async with service.database.read() as tx:
            agent = await service.servers.agent(tx, server_uuid(uuid))
        params = {"image_uuid": row.uuid, "image_sha256": row.sha256}
        return {"id": await service.work.start(agent, "image_ensure_present", params)}

    # Images

    @get("/images")
    async def list_images(request: AnyRequest) -> list[Body]:
        """Images the project may use."""
        principal = principal_of(request)
        owner = None if principal.is_admin else principal.project_id
        return await service.images.listing(owner)

    @post("/images", status_code=200)
    async def create_image(request: AnyRequest) -> Body:
        """A record for an image; its file comes next."""
        only_operator(request)
        return await service.images.create(principal_of(request).project_id, await body_of(request))

    @get("/images/{uuid:str}")
    async def show_image(request: AnyRequest, uuid: FromPath[str]) -> Body:
        """An image, by uuid or name."""
        principal = principal_of(request)
        trusted = principal.is_admin or "node" in principal.roles
        row = await service.images.get(uuid, None if trusted else principal.project_id)
        return service.images.view(row)

    @put("/images/{uuid:str}/file")
    async def image_file(request: AnyRequest, uuid: FromPath[str]) -> Body:
        """The image's file, as the request's body."""
        only_operator(request)
        row = await service.images.get(uuid)
        path = await receive_upload(request, service.images.directory, IMAGE_LIMIT)
        return await service.images.add_file(row.uuid, path, request.query_params.get("sha256"))

    @get("/images/{uuid:str}/file")
    async def download(request: AnyRequest, uuid: FromPath[str]) -> File:
        """The image's file."""
        principal = principal_of(request)
        trusted = principal.is_admin or "node" in principal.roles
        row = await service.images.get(uuid, None if trusted else principal.project_id)
        if row.state != "active":
            raise not_found(f"image {uuid} has no file yet")
        return File(service.images.path(row.uuid), media_type="application/octet-stream")

    @delete("/images/{uuid:str}")
    async def delete_image(request: AnyRequest, uuid: FromPath[str]) -> None:
        """Delete an image."""
        only_operator(request)
        await service.images.remove(uuid)

    return make_face(
        name="compute",
        prefix=prefix,
        title="Vetro compute node API",
        handlers=[
            ping,
            sysinfo,
            heartbeat,
            status,
            list_servers,
            show_server,
            change_server,
            forget_server,
            allocate,
            new_ticket,
            list_tickets,
            show_ticket,
            wait_ticket,
            release_ticket,
            delete_ticket,
            show_task,
            wait_task,
            create_vm,
            show_vm,
            act,
            destroy_vm,
            ensure_image,
            list_images,
            create_image,
            show_image,
            image_file,
            download,
            delete_image,
            *fabric_handlers(service, body_of),
        ],
        authenticator=authenticator,
        public=lambda method, path: path == "/ping",
        faults=COMPUTE_FAULTS,
        lifespan=[service.lifespan],
        conventions=COMPUTE_CONVENTIONS,
        www_authenticate="Bearer",
    )
