"""Making the VMs of a dead server again elsewhere, and what happens when its machine comes back."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import insert, select, update
from tests.compute.conftest import NODE, OTHER, PROJECT
from tests.waiting import eventually

from vetro.compute.operations import evacuation
from vetro.compute.operations.evacuation import clean_up, make_again
from vetro.compute.servers.store import STRAYS, change_extra
from vetro.compute.tables import ports, servers, tasks, vms, volume_copies, volumes
from vetro.compute.values.records import api_time
from vetro.compute.work.agents import NodeTaskError, TaskCall
from vetro.compute.work.jobs import JobFailure, JobRun
from vetro.compute.work.node_tasks import PULLED, About
from vetro.storage import ManualClock

THIRD = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a003"
STRANGE = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a0ff"
DISK = (
    "kvm_zvol_used_bytes", "kvm_zvol_volsize_bytes", "kvm_quota_bytes", "kvm_quota_used_bytes",
    "zone_quota_bytes", "zone_quota_used_bytes", "cores_quota_bytes", "cores_quota_used_bytes",
    "installed_images_used_bytes", "pool_alloc_bytes", "system_used_bytes",
)  # fmt: skip


@pytest.fixture
def clock() -> ManualClock:
    """Servers stay alive after their one heartbeat, however long a test takes."""
    return ManualClock()


class Site:
    """Two servers; what each has is remembered by server and VM."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.here: dict[tuple[str, str], dict[str, Any]] = {}
        self.failing: set[tuple[str, str]] = set()
        self.deleted: set[tuple[str, str]] = set()
        for task in ("machine_create", "machine_load", "machine_destroy", "nop"):
            world.nodes.answers[task] = self.answer

    async def open(self) -> Site:
        for number, server in enumerate((NODE, OTHER), 1):
            await self.add(server, f"192.0.2.{number}")
        return self

    async def add(self, server: str, address: str, **sysinfo: Any) -> None:
        """A server with room, at an address; one that is there gets what is new."""
        await self.world.server(
            server,
            **{"Admin IP": address, "VM Brands": ["lx", "kvm"], "VM Capable": True, **sysinfo},
        )
        await self.world.ok("POST", f"/servers/{server}/events/heartbeat", {})
        await self.world.ok(
            "POST",
            f"/servers/{server}/events/status",
            {
                "vms": {}, "timestamp": "2026-01-01T00:00:00.000Z",
                "meminfo": {"total_bytes": 8 << 30, "availrmem_bytes": 8 << 30,
                            "arcsize_bytes": 0},
                "zpoolStatus": {"zones": {"bytes_available": 100 << 30, "bytes_used": 0}},
                "diskinfo": {**dict.fromkeys(DISK, 0), "pool_size_bytes": 100 << 30},
            },
        )  # fmt: skip

    async def network(self, number: int = 7, **more: Any) -> str:
        """A network with a subnet."""
        made = await self.world.ok("POST", "/networks", {"name": f"n{number}", **more})
        body = {"network_uuid": made["uuid"], "cidr": f"10.{number}.0.0/24"}
        await self.world.ok("POST", "/subnets", body)
        return str(made["uuid"])

    async def vm_in(self, network: str, server: str = NODE, **payload: Any) -> str:
        """A VM with a port in a network."""
        port = await self.world.ok("POST", "/ports", {"network_uuid": network})
        vm: str = await self.world.vm(server, ports=[port["uuid"]], **payload)
        return vm

    def deletes_volume(self, call: TaskCall) -> Any:
        """An agent that deletes a volume."""
        self.deleted.add((self.world.nodes.agents[-1].server_uuid, call.params["volume_uuid"]))
        return {}

    def answer(self, call: TaskCall) -> Any:
        """An agent's answer."""
        server = self.world.nodes.agents[-1].server_uuid
        if (server, call.task) in self.failing:
            raise NodeTaskError("it broke", {"restCode": "Broken"})
        if call.task == "nop":
            return {}
        key = (server, str(call.params["uuid"]))
        if call.task == "machine_create":
            state = "stopped" if call.params.get("autoboot") is False else "running"
            self.here[key] = {**call.params, "state": state}
        if key not in self.here:
            raise NodeTaskError("not found", {"restCode": "VmNotFound"})
        if call.task == "machine_destroy":
            del self.here[key]
            return {}
        vm = dict(self.here[key])
        return vm if call.task == "machine_load" else {"vm": vm}

    async def die(self, server: str = NODE) -> None:
        """The server falls silent, and time enough passes."""
        self.world.service.heartbeats.forget(server)
        async with self.world.database.transaction() as tx:
            await tx.execute(
                update(servers).where(servers.c.uuid == server).values(status="unknown")
            )

    async def evacuate(self, server: str = NODE) -> dict[str, Any]:
        """Evacuate; the job when it ended."""
        made = await self.world.ok("POST", f"/servers/{server}/evacuate", {"fenced": True})
        job: dict[str, Any] = await self.world.job(made["job_uuid"])
        return job

    async def home(self, vm: str) -> tuple[str, str]:
        """Where a VM is, and its state, by the service's records."""
        row = await self.world.service.machines.find(vm)
        return row.server_uuid, row.state

    async def incarnations(self) -> dict[str, str]:
        """Which root disk each VM has."""
        listed = await self.world.ok("GET", f"/incarnations?project_id={PROJECT}")
        return {one["uuid"]: one["incarnation"] for one in listed}

    async def cleaned(self) -> dict[str, Any]:
        """The job that cleans up after a return, when it ended."""
        async with self.world.database.listen("compute/servers") as changed:
            while True:
                listed = await self.world.ok("GET", "/jobs")
                found = [job for job in listed if job["name"] == "server-clean-up"]
                if found:
                    job: dict[str, Any] = await self.world.job(found[0]["uuid"])
                    return job
                await changed.wait(0.1)


@pytest.fixture
async def site(world: Any) -> Site:
    """Two servers."""
    return await Site(world).open()


@pytest.fixture
async def any_site(any_world: Any) -> Site:
    """Two servers, on each database."""
    return await Site(any_world).open()


def error_of(job: dict[str, Any]) -> str:
    """What a failed job says."""
    assert job["execution"] == "failed", job
    return next(step["error"] for step in job["chain_results"] if step["error"])


async def test_an_evacuation_is_asked_for_in_so_many_words(site: Site) -> None:
    """Without ``fenced`` true it is refused, and so it is while the server is heard."""
    path = f"/servers/{NODE}/evacuate"
    for body in ({"fenced": True}, {}, {"fenced": False}):
        status, code, message = await site.world.refused("POST", path, body)
        if body.get("fenced"):
            assert (status, code) == (409, "Conflict")
            assert "drain it" in message
        else:
            assert (status, code) == (412, "PreconditionFailed")
            assert "switched off" in message
    await site.die()
    status, code, _ = await site.world.refused("POST", path, {"fenced": "true"})
    assert (status, code) == (500, "InvalidParameters")
    assert (await site.world.refused("POST", f"/servers/{uuid4()}/evacuate", {}))[0] == 404


async def test_the_vms_of_a_dead_server_are_made_again(any_site: Site) -> None:
    """Same uuid, same addresses, the size they had; one that was stopped stays stopped."""
    site, world = any_site, any_site.world
    network, subnet, port = (str(uuid4()) for _ in range(3))
    await world.ok("POST", "/networks", {"uuid": network, "name": "n"})
    await world.ok(
        "POST", "/subnets", {"uuid": subnet, "network_uuid": network, "cidr": "10.7.0.0/24"}
    )
    made = await world.ok("POST", "/ports", {"uuid": port, "network_uuid": network})
    runs, stopped = await world.vm(ports=[port]), await world.vm()
    async with world.database.transaction() as tx:
        await tx.execute(update(vms).where(vms.c.uuid == stopped).values(state="stopped"))
        await tx.execute(update(vms).where(vms.c.uuid == runs).values(memory_mib=512))
    before = await site.incarnations()
    await site.die()
    assert (await site.evacuate())["execution"] == "succeeded"
    assert await site.home(runs) == (OTHER, "running")
    after = await site.incarnations()
    assert after.keys() == before.keys() == {runs, stopped}
    assert all(after[one] != before[one] for one in after)
    assert await site.home(stopped) == (OTHER, "stopped")
    payload = next(
        call.params
        for call, agent in zip(world.nodes.calls, world.nodes.agents, strict=True)
        if call.task == "machine_create" and agent.server_uuid == OTHER
        and call.params["uuid"] == runs
    )  # fmt: skip
    assert payload["max_physical_memory"] == 512
    assert [nic["ip"] for nic in payload["nics"]] == [made["fixed_ips"][0][1]]
    told = [
        [nic["vm_uuid"] for nic in call.params["nics"]]
        for call, agent in zip(world.nodes.calls, world.nodes.agents, strict=True)
        if call.task == "network_apply" and agent.server_uuid == OTHER
    ]
    assert told[-1] == [runs]
    async with world.database.read() as tx:
        query = select(ports.c.device_uuid).where(ports.c.uuid == port)
        assert (await tx.execute(query)).one().device_uuid == runs
    view = await world.ok("GET", f"/servers/{NODE}")
    assert (view["reserved"], view["vms"]) == (True, {})
    assert "moved_vms" not in view
    # Room was held only until they were there.
    assert sorted((await world.ok("GET", f"/servers/{OTHER}"))["vms"]) == sorted([runs, stopped])


async def test_a_vm_is_made_again_with_the_interfaces_it_had_last(site: Site) -> None:
    """One that it got comes along, one that it lost does not: its address may be another VM's by now."""
    world = site.world
    made = await world.ok("POST", "/networks", {"name": "n"})
    body = {"network_uuid": made["uuid"], "cidr": "10.7.0.0/24"}
    await world.ok("POST", "/subnets", body)
    first, second = [
        await world.ok("POST", "/ports", {"network_uuid": made["uuid"]}) for _ in range(2)
    ]
    vm = await world.vm(ports=[first["uuid"]])

    def changed(call: TaskCall) -> dict[str, Any]:
        here = site.here[NODE, vm]
        kept = [n for n in here["nics"] if n["mac"] not in call.params.get("remove_nics", ())]
        added = [{**nic, "interface": "net1"} for nic in call.params.get("add_nics", ())]
        here["nics"] = [{**nic, "primary": not at} for at, nic in enumerate([*kept, *added])]
        return {"vm": dict(here)}

    world.nodes.answers["machine_update"] = changed
    path = f"/servers/{NODE}/vms/{vm}/interfaces"
    for task in (
        await world.ok("POST", path, {"ports": [second["uuid"]]}),
        await world.ok("DELETE", f"{path}/{first['mac']}"),
    ):
        assert (await world.ended(task["id"]))["status"] == "complete"
    await site.die()
    assert (await site.evacuate())["execution"] == "succeeded"
    (nic,) = site.here[OTHER, vm]["nics"]
    assert (nic["mac"], nic["interface"], nic["primary"]) == (second["mac"], "net1", True)
    assert (nic["ip"], nic["netmask"]) == (second["fixed_ips"][0][1], "255.255.255.0")


async def test_what_the_dead_server_was_asked_for_is_given_up(site: Site) -> None:
    """The waiter for a task of the server gets an error; the task's late end changes nothing."""
    vm = await site.world.vm()
    row = await site.world.service.machines.find(vm)
    service = site.world.service
    async with service.database.transaction() as tx:
        server = await service.servers.row(tx, NODE)
        agent = service.servers.agent_of(server)
        await service.work.store(tx, STRANGE, agent, "machine_boot", {"uuid": vm}, About(vm))
        # As an agent in pull mode has taken it: nobody sends it.
        await tx.execute(update(tasks).where(tasks.c.id == STRANGE).values(instance=PULLED))
    await site.die()
    await site.evacuate()
    ended = await site.world.ended(STRANGE)
    assert ended["status"] == "failure"
    assert "evacuated" in ended["result"]["error"]
    late = {"vm": {"uuid": vm, "state": "stopped"}}
    await service.pulled.finish(NODE, STRANGE, 200, late)
    assert (await site.world.ended(STRANGE))["status"] == "failure"
    assert (await site.home(vm), row.server_uuid) == ((OTHER, "running"), NODE)


async def test_what_cannot_be_made_again_stays_and_is_named(any_site: Site) -> None:
    """With the reason; another evacuation tries it again. Others are made meanwhile."""
    site = any_site
    vm, unknown = await site.world.vm(), await site.world.vm()
    async with site.world.database.transaction() as tx:
        await tx.execute(update(vms).where(vms.c.uuid == unknown).values(payload=None))
    before = await site.incarnations()
    await site.die()
    site.failing.add((OTHER, "machine_create"))
    said = error_of(await site.evacuate())
    assert f"VM {vm}: it broke" in said
    assert f"VM {unknown}: what it was made from is not known" in said
    assert await site.home(vm) == (NODE, "running")
    assert await site.incarnations() == before
    assert (await site.world.ok("GET", f"/servers/{OTHER}"))["vms"] == {}
    site.failing.clear()
    assert "1 VMs were not created again" in error_of(await site.evacuate())
    assert await site.home(vm) == (OTHER, "running")


async def test_without_room_elsewhere_nothing_is_lost(site: Site) -> None:
    """The error has the allocator's reasons, and the VM stays assigned to its server."""
    vm = await site.world.vm()
    await site.die()
    await site.world.ok("POST", f"/servers/{OTHER}", {"reserved": True})
    assert f"{OTHER}: Server is reserved" in error_of(await site.evacuate())
    assert await site.home(vm) == (NODE, "running")


async def test_a_vm_goes_where_its_network_can_be_or_is_named(any_site: Site) -> None:
    """Not to a server that those of its network do not reach; the other VMs do not wait for it."""
    site = any_site
    net = await site.network()
    inside = [await site.vm_in(net) for _ in range(3)]
    await site.vm_in(net, OTHER)
    free = await site.world.vm()
    await site.add(THIRD, "127.0.0.1")
    await site.world.ok("POST", f"/servers/{OTHER}", {"reserved": True})
    await site.die()
    said = error_of(await site.evacuate())
    assert said.startswith("3 VMs were not created again")
    for vm in inside:
        assert f"VM {vm}: " in said
        assert await site.home(vm) == (NODE, "running")
    assert f"{OTHER}: Server is reserved" in said
    assert f"{THIRD}: Server cannot share subnet" in said
    assert await site.home(free) == (THIRD, "running")
    await site.world.ok("POST", f"/servers/{OTHER}", {"reserved": False})
    assert (await site.evacuate())["execution"] == "succeeded"
    assert {await site.home(vm) for vm in inside} == {(OTHER, "running")}


@pytest.mark.parametrize("lonely", [NODE, OTHER, THIRD])
async def test_a_lost_server_keeps_nobody_in_its_networks(any_site: Site, lonely: str) -> None:
    """What it had of a network is made elsewhere, together; new VMs do not wait for it either."""
    site = any_site
    for number, server in enumerate((NODE, OTHER, THIRD), 1):
        await site.add(server, "127.0.0.1" if server == lonely else f"192.0.2.{number}")
    net = await site.network()
    inside = [await site.vm_in(net) for _ in range(3)]
    async with site.world.database.transaction() as tx:
        await tx.execute(update(vms).where(vms.c.uuid == inside[0]).values(payload=None))
    await site.die()
    assert "1 VMs were not created again" in error_of(await site.evacuate())
    homes = {(await site.home(vm))[0] for vm in inside[1:]}
    assert homes <= {OTHER, THIRD}
    assert lonely not in homes or homes == {lonely}
    if lonely == NODE:
        # The one that stays is no neighbour, and a VM that is made next joins the others.
        await site.vm_in(net, OTHER)


@pytest.mark.parametrize("how", ["evacuated", "moved"])
async def test_a_vm_goes_only_where_its_networks_wire_is(site: Site, how: str) -> None:
    """A network of the machines' own wire: the server has a NIC with its tag."""
    wire = {"eth1": {"MAC Address": "02:00:00:00:01:03", "Link Status": "up", "NIC Names": ["lab"]}}
    await site.add(THIRD, "192.0.2.3", **{"Network Interfaces": wire})
    net = await site.network(uplink={"nic_tag": "lab", "vlan_id": 7})
    inside = [await site.vm_in(net) for _ in range(3)]
    if how == "evacuated":
        await site.die()
        assert (await site.evacuate())["execution"] == "succeeded"
        assert {await site.home(vm) for vm in inside} == {(THIRD, "running")}
        await site.die(THIRD)
        said = error_of(await site.evacuate(THIRD))
    else:
        await site.world.ok("POST", f"/servers/{THIRD}", {"reserved": True})
        made = await site.world.ok("POST", f"/servers/{NODE}/vms/{inside[0]}/move", {})
        said = error_of(await site.world.job(made["job_uuid"]))
    assert f"{OTHER}: " in said
    assert "lab" in said


async def test_a_server_that_comes_back_is_cleaned_up(any_site: Site) -> None:
    """What was made again elsewhere is destroyed there, once; it stays out of use until it is asked for."""
    site = any_site
    vm = await site.world.vm()
    await site.die()
    assert (await site.evacuate())["execution"] == "succeeded"
    assert {server for server, uuid in site.here if uuid == vm} == {NODE, OTHER}
    await site.world.server(NODE, **{"Admin IP": "192.0.2.1"})
    assert (await site.cleaned())["execution"] == "succeeded"
    assert [server for server, uuid in site.here if uuid == vm] == [OTHER]
    assert await site.home(vm) == (OTHER, "running")
    async with site.world.database.read() as tx:
        extra = (await site.world.service.servers.row(tx, NODE)).extra
    assert "moved_vms" not in extra
    assert (await site.world.ok("GET", f"/servers/{NODE}"))["reserved"] is True


@pytest.mark.parametrize("how", ["deleted", "deleted, with what it had", "deleted before"])
async def test_what_left_a_server_is_destroyed_on_it_though_its_record_was_deleted(
    site: Site, how: str
) -> None:
    """However that went: nothing stays on the machine that registers anew that is elsewhere, or unwanted."""
    vm, world = await site.world.vm(), site.world
    await site.die()
    if how == "deleted before":
        # Its VMs keep their records then, until somebody does without the server.
        await world.ok("DELETE", f"/servers/{NODE}")
        await world.ok("DELETE", f"/servers/default/vms/{vm}")
    else:
        assert (await site.evacuate())["execution"] == "succeeded"
        force = "?force=false" if "with" in how else ""
        await world.ok("DELETE", f"/servers/{NODE}{force}")
    await world.server(NODE, **{"Admin IP": "192.0.2.1"})
    assert (await site.cleaned())["execution"] == "succeeded"
    assert [server for server, uuid in site.here if uuid == vm] == (
        [] if "before" in how else [OTHER]
    )
    # Once: what it gets later is its own.
    await world.ok("DELETE", f"/servers/{NODE}")
    await world.server(NODE, **{"Admin IP": "192.0.2.1"})
    async with world.database.read() as tx:
        assert "moved_vms" not in (await world.service.servers.row(tx, NODE)).extra


async def test_a_machine_that_is_newer_than_its_leaving_is_not_destroyed(
    site: Site, clock: ManualClock
) -> None:
    """The database is of a backup: since then it has come back to its server."""
    vm = await site.world.vm()
    await site.die()
    assert (await site.evacuate())["execution"] == "succeeded"
    site.here[NODE, vm]["create_timestamp"] = api_time(clock.now() + timedelta(seconds=1))
    await site.world.server(NODE, **{"Admin IP": "192.0.2.1"})
    assert (await site.cleaned())["execution"] == "succeeded"
    assert (NODE, vm) in site.here


async def test_a_machine_is_not_destroyed_before_it_is_there_elsewhere(site: Site) -> None:
    """Its server comes back while it is made again: if that fails, there is no other."""
    vm = await site.world.vm()
    await site.die()
    creation: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    site.world.nodes.answers["machine_create"] = creation
    made = await site.world.ok("POST", f"/servers/{NODE}/evacuate", {"fenced": True})

    async def begun() -> bool:
        return (await site.home(vm))[0] == OTHER

    await eventually(begun, "it is being made again")
    await site.world.server(NODE, **{"Admin IP": "192.0.2.1"})
    await clean_up(site.world.service)
    assert "server-clean-up" not in {job["name"] for job in await site.world.ok("GET", "/jobs")}
    creation.set_exception(NodeTaskError("it broke"))
    assert "it broke" in error_of(await site.world.job(made["job_uuid"]))
    assert (await site.home(vm), (NODE, vm) in site.here) == ((NODE, "running"), True)


class Creation:
    """A VM that is being made again, while nobody waits any more for how that ends."""

    def __init__(self, site: Site, vm: str) -> None:
        self.site = site
        self.vm = vm
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, step_too_long: bool) -> Creation:
        """The evacuation ends with its step's time, or has waited long enough for this VM."""
        work, nodes = self.site.world.service.work, self.site.world.nodes

        async def wait(id_: str, _seconds: float) -> Any:
            if step_too_long:
                raise TimeoutError
            return await work.get(id_)

        async def made(call: TaskCall) -> Any:
            server = nodes.agents[-1].server_uuid
            await self.answer
            self.site.here[server, self.vm] = {**call.params, "state": "running"}
            return {"vm": self.site.here[server, self.vm]}

        self.site.here[NODE, self.vm]["create_timestamp"] = "2026-01-01T00:00:00.000Z"
        await self.site.die()
        nodes.answers["machine_create"] = made
        waits, work.wait = work.wait, wait
        said = error_of(await self.site.evacuate())
        work.wait = waits
        assert ("did not end" if step_too_long else "still being made") in said
        assert await self.site.home(self.vm) == (OTHER, "creating")
        return self

    async def end(self, how: str) -> None:
        """It is made, it is not, it is not sent again, or its VM is destroyed before."""
        world = self.site.world
        listed = select(tasks.c.id).where(tasks.c.vm_uuid == self.vm, tasks.c.status == "active")
        async with world.database.read() as tx:
            [creation] = [row.id for row in await tx.execute(listed)]
        if how == "destroyed":
            world.nodes.answers["machine_destroy"] = {}
            gone = await world.ok("DELETE", f"/servers/default/vms/{self.vm}")
            await world.ended(gone["id"])
            world.nodes.answers["machine_destroy"] = self.site.answer
        elif how == "withdrawn":
            async with world.database.transaction() as tx:
                await world.service.work.withdraw(tx, self.vm, "machine_create", "overtaken")
        elif how == "failed":
            self.answer.set_exception(NodeTaskError("it broke"))
        else:
            self.answer.set_result(None)
        await world.ended(creation)

    async def settled(self, how: str) -> None:
        """The server that is heard has the VM if there is no other, and none that left it."""
        site, where = self.site, {"made": {OTHER}, "destroyed": set[str]()}.get(how, {NODE})
        if NODE not in where:
            assert (await site.cleaned())["execution"] == "succeeded"
        else:

            async def back() -> bool:
                return await site.home(self.vm) == (NODE, "running")

            await eventually(back, "it is assigned to its server again")
        assert {server for server, uuid in site.here if uuid == self.vm} == where
        if how == "made":
            assert await site.home(self.vm) == (OTHER, "running")
        async with site.world.database.read() as tx:
            assert "moved_vms" not in (await site.world.service.servers.row(tx, NODE)).extra


@pytest.mark.parametrize("how", ["made", "failed", "withdrawn", "destroyed"])
@pytest.mark.parametrize("step_too_long", [True, False])
async def test_a_creation_that_nobody_waits_for_is_settled_when_its_server_is_heard(
    site: Site, monkeypatch: pytest.MonkeyPatch, how: str, step_too_long: bool
) -> None:
    """Its evacuation has ended: what was made left the server, what was not belongs to it again."""
    monkeypatch.setattr(evacuation, "LOOK_SECONDS", 0.01)
    creation = await Creation(site, await site.world.vm()).open(step_too_long)
    await site.world.server(NODE, **{"Admin IP": "192.0.2.1"})
    assert await clean_up(site.world.service) == {NODE}
    assert (await site.home(creation.vm), (NODE, creation.vm) in site.here) == (
        (OTHER, "creating"),
        True,
    )
    await creation.end(how)
    await creation.settled(how)


@pytest.mark.parametrize("how", ["made", "failed", "destroyed"])
async def test_an_evacuation_that_is_continued_waits_for_what_it_began_though_its_server_is_heard(
    any_site: Site, how: str
) -> None:
    """It makes nothing else, and what it began is settled: nothing is lost, and nothing runs twice."""
    site = any_site
    vm, other = await site.world.vm(), await site.world.vm()
    async with site.world.database.transaction() as tx:
        await tx.execute(update(vms).where(vms.c.uuid == other).values(payload=None))
    creation = await Creation(site, vm).open(step_too_long=True)
    async with site.world.database.transaction() as tx:
        await tx.execute(update(vms).where(vms.c.uuid == other).values(payload={"uuid": other}))
    await site.world.server(NODE, **{"Admin IP": "192.0.2.1"})
    run = JobRun(site.world.service, str(uuid4()), {"server_uuid": NODE}, None)
    continued = asyncio.create_task(make_again(run))
    await creation.end(how)
    with pytest.raises(JobFailure) as said:
        await continued
    assert f"VM {other}: server {NODE} is heard again" in str(said.value)
    assert ("it broke" in str(said.value)) is (how == "failed")
    await clean_up(site.world.service)
    await creation.settled(how)
    assert await site.home(other) == (NODE, "running")


async def test_an_evacuation_that_is_continued_lets_go_of_what_was_destroyed_meanwhile(
    site: Site,
) -> None:
    """Nobody wants it any more: it is destroyed on its server, too, when that comes back."""
    creation = await Creation(site, await site.world.vm()).open(step_too_long=True)
    await creation.end("destroyed")
    assert (await site.evacuate())["execution"] == "succeeded"
    await site.world.server(NODE, **{"Admin IP": "192.0.2.1"})
    await creation.settled("destroyed")


async def test_a_machine_is_not_put_back_while_it_is_destroyed(site: Site) -> None:
    """Its creation has ended with that; it would be there again after its destruction."""
    creation = await Creation(site, await site.world.vm()).open(step_too_long=True)
    await site.world.server(NODE, **{"Admin IP": "192.0.2.1"})
    gate: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    site.world.nodes.answers["machine_destroy"] = gate
    gone = await site.world.ok("DELETE", f"/servers/default/vms/{creation.vm}")
    assert await clean_up(site.world.service) == {NODE}
    assert (await site.home(creation.vm))[0] == OTHER
    gate.set_result({})
    assert (await site.world.ended(gone["id"]))["status"] == "complete"
    site.world.nodes.answers["machine_destroy"] = site.answer
    await clean_up(site.world.service)
    await creation.settled("destroyed")


async def test_a_machine_of_which_is_not_known_whether_it_was_made_elsewhere_has_no_grace_time(
    site: Site,
) -> None:
    """The service was away when its creation failed, for longer than that: it is the only one."""
    creation = await Creation(site, await site.world.vm()).open(step_too_long=True)
    await site.world.server(NODE, **{"Admin IP": "192.0.2.1"})
    await creation.end("withdrawn")
    since = (site.world.database.clock.now() - timedelta(days=1)).isoformat()
    async with site.world.database.transaction() as tx:
        await change_extra(tx, NODE, STRAYS, lambda _known: {creation.vm: since})
    await site.world.service.strays.look()
    async with site.world.database.read() as tx:
        query = select(tasks.c.task).where(tasks.c.vm_uuid == creation.vm)
        assert "machine_destroy" not in [row.task for row in await tx.execute(query)]
    await clean_up(site.world.service)
    await site.world.service.strays.look()
    await creation.settled("withdrawn")


async def volume_on(site: Site, vm: str | None = None) -> str:
    """A volume on the first server, that a VM has or not."""
    made = await site.world.ok("POST", "/volumes", {"size": 1, "project_id": PROJECT})
    async with site.world.database.transaction() as tx:
        values = {"server_uuid": NODE, "format": "ext4", "vm_uuid": vm, "owner_uuid": PROJECT}
        await tx.execute(update(volumes).where(volumes.c.uuid == made["uuid"]).values(**values))
    return str(made["uuid"])


async def test_volumes_of_a_dead_server_are_lost_until_it_comes_back(any_site: Site) -> None:
    """They are not attached, grown or copied meanwhile, and say why; one may be removed, or restored from
    a backup. On the server that returns the wanted one is available and the others are deleted."""
    site, world = any_site, any_site.world
    vm = await world.vm()
    world.nodes.answers["volume_delete"] = site.deletes_volume
    used, kept, restored, removed = [await volume_on(site, one) for one in (vm, None, None, None)]
    backup = str(uuid4())
    async with world.database.transaction() as tx:
        row = {
            "uuid": backup, "kind": "backup", "owner_uuid": PROJECT, "volume_uuid": restored,
            "name": "b", "size_gib": 1, "format": "ext4", "state": "available", "reason": "",
            "server_uuid": NODE, "bytes": 1, "created": world.database.clock.now(),
        }  # fmt: skip
        await tx.execute(insert(volume_copies).values(**row))
    await site.die()
    job = await site.evacuate()
    assert job["execution"] == "succeeded"
    assert "4 volumes are lost" in str(job)
    shown = await world.ok("GET", f"/volumes/{used}")
    assert (shown["state"], shown["vm_uuid"]) == ("lost", None)
    for method, path, body in (
        ("POST", f"/volumes/{used}/attach", {"vm_uuid": vm}),
        ("PUT", f"/volumes/{used}", {"size": 2}),
        ("POST", "/volume-snapshots", {"volume_uuid": used}),
        ("POST", "/volumes", {"project_id": PROJECT, "source": {"kind": "volume", "uuid": used}}),
    ):
        status, _, message = await world.refused(method, path, body)
        assert status == 409
        assert "restore a backup" in message
    await world.ok("DELETE", f"/volumes/{removed}")
    body = {"volume_uuid": restored}
    again = await world.ok("POST", f"/volume-backups/{backup}/restore", body)
    assert (again["state"], again["server_uuid"]) == ("available", None)
    await world.server(NODE, **{"Admin IP": "192.0.2.1"})
    assert (await site.cleaned())["execution"] == "succeeded"
    assert site.deleted == {(NODE, restored), (NODE, removed)}
    assert {(await world.ok("GET", f"/volumes/{one}"))["state"] for one in (used, kept)} == {
        "available"
    }


async def test_a_server_that_is_heard_again_is_not_evacuated_further(site: Site) -> None:
    """The server was not switched off after all: the job ends and says so."""
    vm = await site.world.vm()
    await site.die()
    given_up = site.world.service.work.give_up

    async def heard(server: str, reason: str) -> int:
        async with site.world.database.transaction() as tx:
            await tx.execute(
                update(servers).where(servers.c.uuid == server).values(status="running")
            )
        return await given_up(server, reason)

    site.world.service.work.give_up = heard
    assert "is heard again" in error_of(await site.evacuate())
    assert await site.home(vm) == (NODE, "running")
