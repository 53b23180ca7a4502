"""Deleting a project: refused while it has something; forced, nothing of it is left anywhere."""

from __future__ import annotations

import asyncio
import io
import uuid
import zipfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, insert, select, update
from tests.waiting import eventually

from vetro import catalog, compute, environments, identity
from vetro.catalog.tables import packages
from vetro.compute import tables as c
from vetro.compute.work.agents import TaskCall
from vetro.environments import TaskResult
from vetro.environments import tables as e
from vetro.environments.tables import environments as environment_rows
from vetro.http import Conflict, Principal, assemble
from vetro.http.client import HttpClient
from vetro.identity import leaving, store
from vetro.messaging import Mailboxes
from vetro.messaging import tables as messages
from vetro.quotas import ProjectQuotas
from vetro.repository import tables as r
from vetro.server.installation import migration_sets
from vetro.server.projects import Holdings
from vetro.stacks.tables import stacks
from vetro.storage import Database, migrate

pytestmark = pytest.mark.usefixtures("quick_passwords")
PROJECT = "a" * 32
OTHER = "b" * 32
NODE = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a001"


@dataclass
class Agents:
    """Nodes that do what they are told."""

    done: list[str] = field(default_factory=list[str])

    async def run(self, agent: Any, call: TaskCall) -> dict[str, Any]:
        """A task that succeeds."""
        self.done.append(call.task)
        return {}

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class World:
    """All rooms on one database."""

    database: Database
    rooms: environments.Environments
    packages: catalog.Catalog
    service: compute.ComputeService
    known: identity.Identity
    agents: Agents

    async def add(self, table: Table, project: str = PROJECT, **values: Any) -> str:
        """A row of a table of the compute service."""
        id_ = str(uuid.uuid4())
        given = {"owner_uuid": project, "uuid": id_, **values}
        async with self.database.transaction() as tx:
            await tx.execute(insert(table).values({k: v for k, v in given.items() if k in table.c}))
        return id_

    async def delete(self, *, force: bool = False) -> bool:
        """Delete the project."""
        return await self.known.removal.delete(PROJECT, "u", "root", force=force)

    async def exists(self) -> bool:
        """Whether the project is there."""
        async with self.database.read() as tx:
            table = store.KINDS["project"]
            return (
                await tx.execute(select(table).where(table.c.id == PROJECT))
            ).first() is not None

    async def engine(self) -> None:
        """Be an engine: destroy what is asked for."""
        while (claimed := await self.rooms.tasks.claim("engine", 60)) is not None:
            lease, task = claimed
            assert task.is_delete
            assert (task.project_id, task.user_id) == (PROJECT, "vetro")
            model = {**task.model, "Objects": None, "ObjectsCopy": None}
            await self.rooms.tasks.finish_task(lease, TaskResult(model))

    async def turns(self) -> None:
        """Turns of the removal, until the project is gone."""

        async def turn() -> bool:
            await self.known.removal.worker("test").once()
            await self.engine()
            return not await self.exists()

        if await self.exists():
            await eventually(turn)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[World, None]:
    """All rooms on SQLite; the project, and another one."""
    monkeypatch.setattr(leaving, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(leaving, "LONGEST_PAUSE_SECONDS", 0.0)
    database = await Database.open(f"sqlite:///{tmp_path}/v.db")
    await migrate(database, migration_sets())
    rooms, packages = (
        environments.Environments(database),
        catalog.Catalog(database, tmp_path / "packages"),
    )
    service = compute.ComputeService(
        database, compute.ComputeSettings(image_dir=tmp_path / "images", node_key="k")
    )
    await service.work.agents.close()
    agents = Agents()
    service.work.agents = agents  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    quotas = ProjectQuotas(database, [rooms.store.quotas, service.quotas])
    holdings = Holdings(database, rooms.tasks, packages, service, quotas)
    settings = identity.IdentitySection(admin_password="pw")
    known = identity.Identity(database, settings, holdings)
    await known.bootstrap_admin()
    async with database.transaction() as tx:
        for id_, name in ((PROJECT, "team"), (OTHER, "others")):
            values = {"id": id_, "name": name, "domain_id": "default", "enabled": True}
            await store.create(tx, "project", {**values, "description": ""})
    async with service.lifespan():
        yield World(database, rooms, packages, service, known, agents)
    await database.close()


async def an_environment(world: World, project: str = PROJECT) -> None:
    """One that was deployed."""
    user = Principal("u", "ann", project)
    made = await world.rooms.store.create(user, {"name": "web"})
    async with world.database.transaction() as tx:
        row = (await tx.execute(select(environment_rows))).first()
        assert row is not None
        model = {**row.model, "ObjectsCopy": row.model["Objects"]}
        mine = environment_rows.c.id == made["id"]
        await tx.execute(update(environment_rows).where(mine).values(model=model))


async def a_package(world: World) -> None:
    """A private one."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(
            "manifest.yaml",
            "Format: '1.4'\nType: Library\nFullName: org.acme.App\nVersion: 1.0.0\nName: App\n"
            "Description: one\nClasses:\n  org.acme.App: App.yaml\n",
        )
        archive.writestr("Classes/App.yaml", "Name: org.acme.App\n")
    file = world.packages.blobs.directory / "upload"
    file.write_bytes(buffer.getvalue())
    await world.packages.upload(Principal("u", "ann", PROJECT), file, catalog.UploadMetadata())


async def an_instance(world: World) -> None:
    """One that runs on a node."""
    now = world.database.clock.now()
    sysinfo = {"UUID": NODE, "Hostname": "node-1", "Admin IP": "127.0.0.1", "Setup": "true"}
    await world.service.servers.register(NODE, sysinfo)
    await world.add(
        c.vms, server_uuid=NODE, alias="db", state="running", memory_mib=1, quota_gib=1,
        cpu_cap=0, vm={}, created=now,
    )  # fmt: skip


async def an_image(world: World) -> None:
    """One without a file."""
    await world.add(
        c.images, name="debian", version="1", public=True, type="t", os="o", state="active",
        size=1, manifest={}, created=world.database.clock.now(),
    )  # fmt: skip


async def a_key_pair(world: World) -> None:
    """A public key."""
    await world.service.fabric.set_keypair(PROJECT, "laptop", "ssh-ed25519 AAAA")


async def a_network(world: World) -> str:
    """An empty one."""
    return await world.add(c.networks, name="lan", external=False, mtu=1400)


async def a_subnet(world: World) -> tuple[str, str]:
    """One in a network."""
    network = await a_network(world)
    subnet = await world.add(
        c.subnets, network_uuid=network, name="range", cidr="10.0.0.0/24", dns=[]
    )
    return network, subnet


async def a_router(world: World) -> None:
    """One that leads to a subnet."""
    _, subnet = await a_subnet(world)
    router = await world.add(c.routers, name="door")
    await world.service.fabric.add_interface(router, subnet)


async def a_port(world: World) -> None:
    """One that no instance has."""
    network, subnet = await a_subnet(world)
    await world.add(
        c.ports, network_uuid=network, subnet_uuid=subnet, name="plug", mac="02:00:00:00:00:01",
        ip="10.0.0.7", security_groups=[], port_security=True, allowed_addresses=[],
        device_owner="",
    )  # fmt: skip


async def groups(world: World) -> None:
    """Two that admit each other's members."""
    one = await world.add(c.security_groups, name="front", description="", rules=[])
    rules = [{"remote_group_id": one}]
    two = await world.add(c.security_groups, name="back", description="", rules=rules)
    async with world.database.transaction() as tx:
        mine = c.security_groups.c.uuid == one
        values = {"rules": [{"remote_group_id": two}]}
        await tx.execute(update(c.security_groups).where(mine).values(**values))


async def an_address(world: World) -> None:
    """One that leads nowhere yet."""
    await world.add(
        c.floating_ips, network_uuid=world.service.fabric.external.uuid, address="172.24.4.9"
    )


async def a_volume(world: World) -> str:
    """One that no instance has had."""
    return await world.add(
        c.volumes, name="data", size_gib=1, format="", state="available", reason="", device="",
        read_only=False, metadata={}, created=world.database.clock.now(),
    )  # fmt: skip


async def a_backup(world: World) -> None:
    """One of a volume that is gone."""
    await world.add(
        c.volume_copies, kind="backup", volume_uuid=str(uuid.uuid4()), name="monday", size_gib=1,
        format="ext4", state="available", reason="", bytes=1, created=world.database.clock.now(),
    )  # fmt: skip


async def what_nobody_counts(world: World) -> None:
    """A template, a form that is being filled in, definitions of its own."""
    now = world.database.clock.now()
    times = {"created": now, "updated": now}
    await world.add(
        e.templates, id="t", tenant_id=PROJECT, name="t", description_text="", version=0,
        is_public=True, services=[], **times,
    )  # fmt: skip
    await world.add(
        e.wizards, id="w", project_id=PROJECT, user_id="u", package_id="p", package_name="p",
        package_version="1", title="t", form="", options={}, state={}, offers={}, **times,
    )  # fmt: skip
    await world.add(e.form_secrets, id="x", project_id=PROJECT, secret="s", created=now)
    await world.add(r.sets, id="s", revision=1, **times)
    await world.add(r.projects, project_id=PROJECT, set_id="s")
    for table in (e.quotas, c.quotas):
        await world.add(table, project_id=PROJECT, resource="instances", amount=1)


#: Every kind of object a project may have, and how a refusal speaks of it.
KINDS: dict[str, tuple[Callable[[World], Awaitable[Any]], str]] = {
    "environments": (an_environment, "1 environment (web)"),
    "catalog_packages": (a_package, "1 package (org.acme.App 1.0.0)"),
    "compute_vms": (an_instance, "1 instance (db)"),
    "compute_images": (an_image, "1 image (debian)"),
    "compute_volumes": (a_volume, "1 volume (data)"),
    "compute_volume_copies": (a_backup, "1 volume backup (monday)"),
    "compute_keypairs": (a_key_pair, "1 key pair (laptop)"),
    "compute_networks": (a_network, "1 network (lan)"),
    "compute_subnets": (a_subnet, "1 subnet (range)"),
    "compute_routers": (a_router, "1 router (door)"),
    "compute_ports": (a_port, "1 port (plug)"),
    "compute_security_groups": (groups, "2 security groups (back, front)"),
    "compute_floating_ips": (an_address, "1 floating address (172.24.4.9)"),
}
#: Columns that name the project a row belongs to.
COLUMNS = ("owner_uuid", "owner_id", "tenant_id", "project_id")
#: Tables whose rows are not objects of users: why they need no row of the table above.
NOT_HELD = {
    "environments_tasks": "history, kept for its time",
    "environments_templates": "goes with the project; environments made of it stay",
    "environments_wizards": "goes with the project",
    "environments_form_secrets": "goes with the project",
    "environments_quotas": "goes with the project",
    "compute_quotas": "goes with the project",
    "repository_projects": "goes with the project",
    "stacks_stacks": "an environment's, removed with it; what abandoned ones left goes uncounted",
    "messaging_handles": "a stack's, removed with it; what abandoned ones left goes uncounted",
    "identity_assignments": "goes with the project's row",
    "identity_application_credentials": "goes with the project's row",
    "identity_tokens": "goes with the project's row",
}


def owned() -> dict[str, tuple[Table, str]]:
    """Every table whose rows belong to projects, with the column that says to which."""
    found: dict[str, tuple[Table, str]] = {}
    metadatas = [
        environment_rows.metadata, packages.metadata, c.vms.metadata, stacks.metadata,
        store.KINDS["project"].metadata, r.projects.metadata, messages.metadata,
    ]  # fmt: skip
    for metadata in metadatas:
        for table in metadata.tables.values():
            for name in COLUMNS:
                if name in table.c:
                    found[table.name] = (table, name)
    return found


def test_every_kind_of_object_is_in_the_table() -> None:
    """Each table with project rows is tested below, or has a reason why it keeps no project."""
    assert set(owned()) == set(KINDS) | set(NOT_HELD)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_project_that_has_something_is_kept(world: World, kind: str) -> None:
    """The refusal counts and names its resources; the project stays enabled and unchanged."""
    make, words = KINDS[kind]
    await make(world)
    with pytest.raises(Conflict) as refused:
        await world.delete()
    assert words in str(refused.value)
    assert "force=true" in str(refused.value)
    async with world.database.read() as tx:
        assert (await store.find(tx, "project", PROJECT)).enabled
        table, column = owned()[kind]
        assert (await tx.execute(select(table).where(table.c[column] == PROJECT))).first()


@pytest.mark.parametrize("kind", [*KINDS, "all"])
async def test_a_forced_deletion_leaves_nothing(world: World, kind: str) -> None:
    """Objects of every kind are removed from every table; those of other projects stay."""
    makers = [KINDS[kind][0]] if kind != "all" else [a_port, a_router, groups, an_environment]
    if kind == "all":
        makers += [a_package, an_instance, an_image, a_key_pair, an_address, a_volume, a_backup]
        makers.append(what_nobody_counts)
        for table, more in ((c.networks, {"external": False, "mtu": 1}), (c.routers, {})):
            await world.add(table, OTHER, name="theirs", **more)
    for make in makers:
        await make(world)
    assert await world.delete(force=True) is False
    async with world.database.read() as tx:
        assert not (await store.find(tx, "project", PROJECT)).enabled
    await asyncio.wait_for(world.turns(), 240)
    async with world.database.read() as tx:
        for name, (table, column) in owned().items():
            rows = (await tx.execute(select(table).where(table.c[column] == PROJECT))).all()
            assert (name, rows if name != "environments_tasks" else []) == (name, [])
        theirs = (
            await tx.execute(select(c.networks).where(c.networks.c.owner_uuid == OTHER))
        ).all()
    assert len(theirs) == (1 if kind == "all" else 0)
    assert ("machine_destroy" in world.agents.done) == (kind in ("all", "compute_vms"))


async def test_what_nobody_counts_goes_with_the_project(world: World) -> None:
    """An unconnected router neither prevents nor survives the deletion, nor does a handle."""
    await world.add(c.routers, name="left by an environment")
    signals = Mailboxes(world.database).signals
    address = await signals.open("handle", PROJECT)
    await signals.take("handle", b"{}")
    assert await world.delete() is True
    assert not await world.exists()
    async with world.database.read() as tx:
        assert (await tx.execute(select(c.routers))).all() == []
    assert await signals.received("handle") == []
    assert not await signals.admits("handle", address.partition("signature=")[2])


async def test_a_failed_destruction_is_tried_again(world: World) -> None:
    """The project stays while a destruction fails, and is removed after the next try."""
    await an_environment(world)
    await world.delete(force=True)
    await world.known.removal.worker("test").once()
    claimed = await world.rooms.tasks.claim("engine", 60)
    assert claimed is not None
    await world.rooms.tasks.fail_task(claimed[0], "the node is away")
    await world.known.removal.worker("test").once()
    assert await world.exists()
    await asyncio.wait_for(world.turns(), 240)


async def test_enabling_the_project_stops_its_removal(world: World) -> None:
    """A project that is enabled again keeps its remaining resources."""
    await an_image(world)
    await world.delete(force=True)
    async with world.database.transaction() as tx:
        await store.change(tx, "project", PROJECT, {"enabled": True})
    assert await world.known.removal.worker("test").once()
    assert not await world.known.removal.worker("test").once()
    with pytest.raises(Conflict):
        await world.delete()


async def test_a_broken_removal_stops_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of a turn is logged, and the same removal is tried again."""
    await an_image(world)
    await world.delete(force=True)

    async def broken(*_: Any) -> None:
        raise ValueError("a model that nobody can read")

    with monkeypatch.context() as patch:
        patch.setattr(world.known.removal.holdings, "remove", broken)
        assert await world.known.removal.worker("test").once()
    assert await world.exists()
    await asyncio.wait_for(world.turns(), 240)


async def test_the_api_refuses_and_forces(world: World) -> None:
    """409 names what there is; ``force=true`` answers 202 with the disabled project; 204 later, 404."""
    await an_image(world)
    assembly = assemble([world.known.face([])])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as http:
        user = {"name": "admin", "domain": {"id": "default"}, "password": "pw"}
        scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
        auth = {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}
        login = await http.request("POST", "/identity/v3/auth/tokens", json={"auth": auth})
        headers = {"X-Auth-Token": login.headers["x-subject-token"]}

        async def call(method: str, path: str) -> Any:
            return await http.request(
                method, f"/identity/v3/projects/{PROJECT}{path}", headers=headers
            )

        refused = await call("DELETE", "")
        assert refused.status == 409
        assert refused.json()["error"]["holdings"] == {"images": ["debian"]}
        assert (await call("GET", "/holdings")).json() == {"holdings": {"images": ["debian"]}}
        forced = await call("DELETE", "?force=true")
        assert (forced.status, forced.json()["project"]["enabled"]) == (202, False)
        await asyncio.wait_for(world.turns(), 240)
        assert (await call("GET", "")).status == 404
        assert (await call("DELETE", "?force=true")).status == 404
