"""Stacks on the real compute service over HTTP; only the node behind it is a stand-in."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from litestar import Request, post
from tests.stacks.conftest import PROJECT
from tests.waiting import PATIENCE_SECONDS

from vetro.compute import MIGRATIONS as COMPUTE_MIGRATIONS
from vetro.compute import ComputeService, ComputeSettings, compute_face
from vetro.compute.client import Call, ComputeClient, ComputeError, TransportError
from vetro.engine.worker.back_ends import ComputeVolumeDirectory
from vetro.http import COMPUTE_FAULTS, Face, Principal, assemble, make_face, read_json, serve
from vetro.stacks import (
    MIGRATIONS,
    ComputeNetworkDirectory,
    ComputeOffers,
    NativeStacks,
    RouterWithoutGateway,
    StackStatus,
)
from vetro.stacks.compute_service.adapter import port_of
from vetro.storage import Database, ManualClock, migrate

NODE = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a001"
WEB = "web.0 x"
DISK = (
    "pool_alloc_bytes", "system_used_bytes", "installed_images_used_bytes", "zone_quota_bytes",
    "zone_quota_used_bytes", "cores_quota_bytes", "cores_quota_used_bytes", "kvm_quota_bytes",
    "kvm_quota_used_bytes", "kvm_zvol_used_bytes", "kvm_zvol_volsize_bytes",
)  # fmt: skip


async def ask(client: ComputeClient, method: str, path: str, body: object = None) -> Any:
    """The JSON of a call, whatever it is."""
    answer: Any = Any
    return await client.send(Call(method, path, answer, body))


@dataclass
class Node:
    """A node agent's task API that makes nothing but remembers everything."""

    vms: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks: list[str] = field(default_factory=list)
    network: dict[str, Any] = field(default_factory=dict)
    refuse: dict[str, str] = field(default_factory=dict)

    def do(self, task: str, params: dict[str, Any]) -> dict[str, Any] | None:
        self.tasks.append(task)
        uuid = params.get("uuid", "")
        if task == "machine_create":
            self.vms.setdefault(uuid, {**params, "state": "running"})
        elif task == "machine_destroy":
            self.vms.pop(uuid, None)
            return {}
        elif task == "machine_update":
            vm = self.vms[uuid]
            vm["tags"] = {
                key: value
                for key, value in {**vm["tags"], **params.get("set_tags", {})}.items()
                if key not in params.get("remove_tags", [])
            }
        elif task == "network_apply":
            self.network = params
            return {}
        elif task == "image_ensure_present":
            return {}
        if uuid not in self.vms:
            return None
        vm = self.vms[uuid]
        return vm if task == "machine_load" else {"vm": vm}


class _Operator:
    async def authenticate(self, token: str) -> Principal | None:
        if token != "service":
            return None
        return Principal("service", "service", "", roles=frozenset({"admin"}))


def node_face(node: Node) -> Face:
    @post("/tasks", status_code=200)
    async def tasks(request: Request[Any, Any, Any]) -> dict[str, Any]:
        body = await read_json(request)
        from vetro.http import Fault

        if body["task"] in node.refuse:
            raise Fault(node.refuse[body["task"]], status=500)
        answer = node.do(body["task"], body["params"])
        if answer is None:
            raise Fault("no such VM", status=404, type_="VmNotFound")
        return answer

    return make_face(
        name="node",
        prefix="",
        handlers=[tasks],
        title="node",
        public=lambda method, path: True,
        faults=COMPUTE_FAULTS,
    )


@asynccontextmanager
async def served(face: Face) -> AsyncIterator[int]:
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        serve(assemble([face]), [listener], stop, drain_seconds=5, on_ready=ready.set)
    )
    await ready.wait()
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        await serving
        listener.close()


async def register(client: ComputeClient, uuid: str, port: int) -> None:
    """A node says who it is, and that it lives; it has nothing."""
    sysinfo = {
        "UUID": uuid,
        "Hostname": f"node-{uuid[-1]}",
        "Setup": "true",
        "MiB of Memory": "8192",
        "CPU Total Cores": 8,
        "Admin IP": "127.0.0.1",
        "CN Agent IP": "127.0.0.1",
        "CN Agent Port": port,
        "VM Brands": ["lx"],
        "Live Image": "20260101T000000Z",
        "Network Interfaces": {"eth0": {"Link Status": "up", "NIC Names": ["admin"]}},
    }
    await ask(client, "POST", f"/servers/{uuid}/sysinfo", {"sysinfo": sysinfo})
    await ask(client, "POST", f"/servers/{uuid}/events/heartbeat", {})
    await report(client, uuid, {})


async def report(client: ComputeClient, uuid: str, vms: dict[str, Any]) -> None:
    """A node's status: what it has."""
    disk = dict.fromkeys(DISK, 0) | {"pool_size_bytes": 100 << 30}
    memory = {"total_bytes": 8 << 30, "availrmem_bytes": 8 << 30}
    body = {"vms": vms, "meminfo": memory, "diskinfo": disk}
    await ask(client, "POST", f"/servers/{uuid}/events/status", body)


@dataclass
class World:
    """The service, its node, and stacks on them."""

    service: ComputeService
    node: Node
    client: ComputeClient
    stacks: NativeStacks
    url: str
    database: Database

    async def count(self, path: str) -> int:
        return len(await ask(self.client, "GET", path))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A compute service with one node and one image."""
    # The node stays alive after its one heartbeat, however long a test takes.
    database = await Database.open(f"sqlite:///{tmp_path}/test.db", clock=ManualClock())
    await migrate(database, [MIGRATIONS, COMPUTE_MIGRATIONS])
    service = ComputeService(database, ComputeSettings(image_dir=tmp_path, node_key="key"))
    service.samples.patience_seconds = PATIENCE_SECONDS
    node = Node()
    async with AsyncExitStack() as stack:
        node_port = await stack.enter_async_context(served(node_face(node)))
        port = await stack.enter_async_context(
            served(compute_face(service, _Operator(), prefix="/compute"))
        )
        url = f"http://127.0.0.1:{port}/compute"
        client = await stack.enter_async_context(ComputeClient(url, "service"))
        await register(client, NODE, node_port)
        image = await ask(client, "POST", "/images", {"name": "debian", "type": "lxc-rootfs"})
        (tmp_path / "upload").write_bytes(b"rootfs")
        await service.images.add_file(image["uuid"], tmp_path / "upload", None)
        yield World(service, node, client, NativeStacks(database, client), url, database)
    await database.close()


def template_of(application_template: Any, servers: int = 1) -> dict[str, Any]:
    template: dict[str, Any] = application_template(servers)
    for resource in template["resources"].values():
        if resource["type"] == "OS::Neutron::FloatingIP":
            resource["properties"]["floating_network"] = "ext-net"
        if resource["type"] == "OS::Neutron::Subnet":
            resource["properties"]["dns_nameservers"] = ["9.9.9.9"]
    return template


async def _nothing_left(world: World) -> None:
    assert world.node.vms == {}
    for path in ("/subnets", "/routers", "/security-groups", "/ports", "/floating-ips"):
        assert await world.count(path) == 0, path
    networks = await ask(world.client, "GET", "/networks")
    assert [one["name"] for one in networks] == ["ext-net"]
    tickets = await ask(world.client, "GET", f"/servers/{NODE}/tickets")
    assert {one["status"] for one in tickets} <= {"finished"}


async def test_an_application_from_create_to_delete(
    world: World, application_template: Any
) -> None:
    """The node is asked to create exactly what the template says, and to remove it again."""
    stack = await world.stacks.create(PROJECT, "env", template_of(application_template))
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    [vm] = world.node.vms.values()
    assert vm["hostname"] == "web-0-x"
    assert vm["resolvers"] == ["9.9.9.9"]
    assert vm["tags"] == {"role": "web"}
    assert "echo 0" in vm["customer_metadata"]["user-data"]
    [nic] = vm["nics"]
    addresses = stack.outputs[f"addresses-{WEB}"]
    assert nic["ip"] == addresses[0]["addr"] == "10.0.7.2"
    assert addresses[1]["addr"] == stack.outputs[f"{WEB}-floating"]
    [floating] = world.node.network["floating_ips"]
    assert (floating["address"], floating["fixed_ip"]) == (addresses[1]["addr"], "10.0.7.2")
    order = [task for task in world.node.tasks if task != "network_apply"]
    assert order[:2] == ["image_ensure_present", "machine_create"]
    again = await world.stacks.update(PROJECT, "env", template_of(application_template))
    assert again.status is StackStatus.UPDATE_COMPLETE
    assert world.node.tasks.count("machine_create") == 1
    assert await world.stacks.delete(PROJECT, "env") is None
    await _nothing_left(world)


async def test_tags_change_in_place(world: World, application_template: Any) -> None:
    """New metadata reaches the node and old keys go."""
    await world.stacks.create(PROJECT, "env", template_of(application_template))
    template = template_of(application_template)
    template["resources"][WEB]["properties"]["metadata"] = {"tier": "1"}
    stack = await world.stacks.update(PROJECT, "env", template)
    assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, "")
    [vm] = world.node.vms.values()
    assert vm["tags"] == {"tier": "1"}


async def test_the_allocators_reasons_reach_the_stack(
    world: World, application_template: Any
) -> None:
    """More memory than the node has: the reason says which server lacks what."""
    template = template_of(application_template)
    template["resources"][WEB]["properties"]["flavor"] = "m1.xlarge"
    stack = await world.stacks.create(PROJECT, "env", template)
    assert stack.status is StackStatus.CREATE_FAILED
    assert f"Resource '{WEB}' failed" in stack.reason
    assert NODE in stack.reason
    assert await world.stacks.delete(PROJECT, "env") is None
    await _nothing_left(world)


async def test_a_node_that_refuses_is_quoted(world: World, application_template: Any) -> None:
    """What the node says is the stack's reason; the next try succeeds."""
    world.node.refuse["machine_create"] = "disk quota exceeded"
    stack = await world.stacks.create(PROJECT, "env", template_of(application_template))
    assert stack.status is StackStatus.CREATE_FAILED
    assert "disk quota exceeded" in stack.reason
    world.node.refuse.clear()
    stack = await world.stacks.update(PROJECT, "env", template_of(application_template))
    assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, "")
    assert len(world.node.vms) == 1
    assert await world.stacks.delete(PROJECT, "env") is None
    await _nothing_left(world)


async def test_an_image_that_does_not_exist_lists_those_that_do(
    world: World, application_template: Any
) -> None:
    """The missing image is named, and the ones there are."""
    template = template_of(application_template)
    template["resources"][WEB]["properties"]["image"] = "absent"
    stack = await world.stacks.create(PROJECT, "env", template)
    assert "There is no image 'absent'; there are: debian" in stack.reason


async def test_the_service_may_be_away_for_a_moment(
    world: World, application_template: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests whose answers are lost are repeated, and nothing is made twice."""
    send = world.client.send
    lost: list[str] = []

    async def flaky(call: Call[Any]) -> Any:
        answer = await send(call)
        key = f"{call.method} {call.path.split('/')[1]}"
        if call.method != "GET" and key not in lost:
            lost.append(key)
            raise TransportError("connection reset")
        return answer

    monkeypatch.setattr(world.client, "send", flaky)
    stack = await world.stacks.create(PROJECT, "env", template_of(application_template))
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    assert len(world.node.vms) == 1
    assert await world.stacks.delete(PROJECT, "env") is None
    assert len(lost) >= 8
    await _nothing_left(world)


async def test_the_network_directory(world: World, application_template: Any) -> None:
    """The default router is made once, and networks know their way out."""
    directory = ComputeNetworkDirectory(port_of(world.client))
    with pytest.raises(KeyError, match="was not found"):
        await directory.default_router(PROJECT, name="r", create=False, external_network="ext-net")
    with pytest.raises(KeyError, match="no external network found"):
        await directory.default_router(PROJECT, name="r", create=True, external_network="none")
    router = await directory.default_router(
        PROJECT, name="r", create=True, external_network="ext-net"
    )
    assert router == await directory.default_router(
        PROJECT, name="r", create=True, external_network="ext-net"
    )
    template = template_of(application_template)
    del template["resources"]["router"]
    template["resources"]["ri-1"]["properties"]["router_id"] = router
    stack = await world.stacks.create(PROJECT, "env", template)
    network = stack.outputs["network-id"]
    external = await directory.external_network_for_network(PROJECT, network)
    networks = {one["id"]: one for one in await directory.list_networks(PROJECT)}
    assert networks[str(external)]["router:external"] is True
    assert await directory.external_network_for_router(PROJECT, router) == external
    assert await directory.router_cidrs(PROJECT, router) == ["10.0.7.0/24"]
    [port] = await directory.list_ports(PROJECT)
    assert port["fixed_ips"][0]["ip_address"] == "10.0.7.2"
    assert (await directory.list_subnetworks(PROJECT))[0]["network_id"] == network
    assert await directory.list_ports("another project") == []


async def test_a_router_without_gateway_is_waited_for(world: World) -> None:
    """The gateway may be set meanwhile; if not, the error says what to do."""
    now = 0.0
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)

    await ask(world.client, "POST", "/routers", {"name": "bare", "project_id": PROJECT})
    directory = ComputeNetworkDirectory(port_of(world.client), pause=pause, monotonic=lambda: now)
    with pytest.raises(RouterWithoutGateway, match="Please set external gateway for the router"):
        await directory.default_router(
            PROJECT, name="bare", create=True, external_network="ext-net"
        )
    assert pauses
    assert sum(pauses) <= 30


async def test_forms_choose_from_what_the_service_has(
    world: World, application_template: Any
) -> None:
    """Images, key pairs, networks with their subnets, groups; a service that is away gives warnings."""
    await world.stacks.create(PROJECT, "env", template_of(application_template))
    await ask(
        world.client,
        "PUT",
        "/keypairs/mine",
        {"project_id": PROJECT, "public_key": "ssh-ed25519 AAAA"},
    )
    volume = {"name": "data", "size": 3, "project_id": PROJECT}
    made = await ask(world.client, "POST", "/volumes", volume)
    kinds = ["flavors", "images", "keypairs", "networks", "security_groups", "azones", "volumes"]
    caller = Principal("u", "ann", PROJECT)
    marked = {"murano_image_info": '{"title": "Debian 12", "type": "linux.debian"}'}
    for name, tags in (("b", marked), ("c", {"a": 1}), ("d", {"murano_image_info": "[1"})):
        await ask(world.client, "POST", "/images", {"name": name, "tags": tags})
    with pytest.raises(ComputeError, match="Request parameters failed validation"):
        await ask(world.client, "POST", "/images", {"name": "e", "tags": ["x"]})
    found, warnings = await ComputeOffers(world.url, "service").offers(kinds, caller, None)
    assert (list(found), warnings) == (kinds, [])
    assert sorted((one["label"], one["type"], one["enabled"]) for one in found["images"] or []) == [
        ("Debian 12 (unactivated)", "linux.debian", False),
        ("c (unactivated)", "linux", False),
        ("d (unactivated)", "linux", False),
        ("debian", "linux", True),
    ]
    assert [one["value"] for one in found["keypairs"] or []] == ["mine"]
    assert "m1.small" in [one["value"] for one in found["flavors"] or []]
    own = [one for one in found["networks"] or [] if not one["external"]]
    assert [one["cidr"] for one in own[0]["subnets"]] == ["10.0.7.0/24"]
    assert found["volumes"] == [{"value": made["uuid"], "label": "data (3 GiB)", "kind": "volume"}]
    away, warnings = await ComputeOffers("http://127.0.0.1:1/compute", "service").offers(
        ["images"], caller, None
    )
    assert away == {"images": []}
    assert "images could not be listed" in warnings[0]


async def test_the_volume_directory(world: World) -> None:
    """Snapshots and backups are there when they can be used, and in their own project only."""
    directory = ComputeVolumeDirectory(world.client)
    made = await ask(
        world.client, "POST", "/volumes", {"name": "v", "size": 1, "project_id": PROJECT}
    )
    snapshot = str(uuid.uuid4())
    body = {"uuid": snapshot, "volume_uuid": made["uuid"]}
    with pytest.raises(ComputeError, match="never attached"):
        await ask(world.client, "POST", "/volume-snapshots", body)
    assert await directory.exists(PROJECT, "snapshot", snapshot) is False
    async with world.database.transaction() as tx:
        await tx.execute(sqlalchemy.text("UPDATE compute_volume_copies SET state = 'available'"))
    assert await directory.exists(PROJECT, "snapshot", snapshot) is True
    assert await directory.exists("another", "snapshot", snapshot) is False
    assert await directory.exists(PROJECT, "backup", snapshot) is False
    assert await directory.exists(PROJECT, "snapshot", "../volumes") is False
