"""Moving VMs between servers, and emptying servers."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.compute.conftest import NODE, OTHER

from vetro.compute.work.agents import NodeTaskError, TaskCall
from vetro.storage import ManualClock

DISK = (
    "kvm_zvol_used_bytes", "kvm_zvol_volsize_bytes", "kvm_quota_bytes", "kvm_quota_used_bytes",
    "zone_quota_bytes", "zone_quota_used_bytes", "cores_quota_bytes", "cores_quota_used_bytes",
    "installed_images_used_bytes", "pool_alloc_bytes", "system_used_bytes",
)  # fmt: skip
STAMP = "2026-01-02T03:04:05.000Z"


@pytest.fixture
def clock() -> ManualClock:
    """Servers stay alive after their one heartbeat, however long a test takes."""
    return ManualClock()


class Site:
    """Two servers whose agents can migrate; what each was asked is remembered."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.here: dict[tuple[str, str], dict[str, Any]] = {}
        self.failing: dict[tuple[str, str], int] = {}
        for task in ("machine_create", "machine_load", "machine_migrate", "machine_shutdown",
                     "machine_boot", "machine_destroy", "machine_delete_snapshot"):  # fmt: skip
            world.nodes.answers[task] = self.answer

    async def open(self) -> Site:
        for number, server in enumerate((NODE, OTHER), 1):
            await self.world.server(
                server,
                **{"Admin IP": f"192.0.2.{number}", "VM Brands": ["lx", "kvm"], "VM Capable": True},
            )
            for path in ("heartbeat", "status"):
                body = {} if path == "heartbeat" else {
                    "vms": {}, "timestamp": "2026-01-01T00:00:00.000Z",
                    "meminfo": {"total_bytes": 8 << 30, "availrmem_bytes": 8 << 30,
                                "arcsize_bytes": 0},
                    "zpoolStatus": {"zones": {"bytes_available": 100 << 30, "bytes_used": 0}},
                    "diskinfo": {
                        **dict.fromkeys(DISK, 0), "disk_pool_size_bytes": 100 << 30,
                        "pool_size_bytes": 100 << 30,
                    },
                }  # fmt: skip
                await self.world.ok("POST", f"/servers/{server}/events/{path}", body)
        return self

    def answer(self, call: TaskCall) -> Any:
        """An agent's answer."""
        server = self.world.nodes.agents[-1].server_uuid
        step = str(call.params.get("action") or call.task)
        left = self.failing.get((server, step), 0)
        if left:
            self.failing[server, step] = left - 1
            raise NodeTaskError("it broke", {"restCode": "Broken"})
        uuid = str(call.params.get("vm_uuid") or call.params["uuid"])
        if call.task == "machine_destroy":
            self.here.pop((server, uuid), None)
            return {}
        if call.task == "machine_create" or step == "setup-filesystem":
            given = call.params.get("vm") or call.params
            state = "stopped" if step == "setup-filesystem" else "running"
            self.here[server, uuid] = {
                **given, "create_timestamp": STAMP, "autoboot": True, "state": state, "snapshots": [],
            }  # fmt: skip
        if (server, uuid) not in self.here:
            raise NodeTaskError("not found", {"restCode": "VmNotFound"})
        vm = self.here[server, uuid]
        if step == "machine_shutdown":
            vm["state"] = "stopped"
        elif step == "machine_boot":
            vm["state"] = "running"
        elif step == "receive":
            return {"host": "192.0.2.9", "port": 999, "token": "once", "pid": 1}
        elif step == "keep-snapshot":
            kept = {name: call.params[name] for name in ("snapshot_name", "created_at")}
            vm.setdefault("snapshots", []).append(
                {"name": kept["snapshot_name"], "created_at": kept["created_at"]}
            )
        elif step == "machine_delete_snapshot":
            gone = call.params["snapshot_name"]
            vm["snapshots"] = [one for one in vm["snapshots"] if one["name"] != gone]
        elif step == "sync":
            if "snapshot_name" in call.params:
                return self.sent_snapshot(server, call.params)
            if vm["brand"] == "kvm" and vm["state"] == "running":
                self.here[OTHER, uuid]["state"], vm["state"] = "running", "stopped"
            return {"transferred": 5}
        return dict(vm) if step == "machine_load" else {"vm": dict(vm)}

    def sent_snapshot(self, server: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer to a snapshot's transfer."""
        return {"transferred": 5, "snapshot_name": params["snapshot_name"]}

    def steps(self) -> list[tuple[str, str]]:
        """Who was asked to do what, since the VM was made; questions left out."""
        asked = [
            ("there" if agent.server_uuid == OTHER else "here",
             str(call.params.get("action") or call.task))
            for call, agent in zip(self.world.nodes.calls, self.world.nodes.agents, strict=True)
        ]  # fmt: skip
        made = len(asked) - 1 - [step for _, step in reversed(asked)].index("machine_create")
        return [one for one in asked[made + 1 :] if one[1] != "machine_load"]

    async def move(self, vm: str, **more: Any) -> dict[str, Any]:
        """Move a VM; the job when it ended."""
        made = await self.world.ok("POST", f"/servers/{NODE}/vms/{vm}/move", more)
        job: dict[str, Any] = await self.world.job(made["job_uuid"])
        return job

    async def port(self) -> str:
        """A port on a network of its own."""
        network, port = str(uuid4()), str(uuid4())
        await self.world.ok("POST", "/networks", {"uuid": network, "name": "n"})
        subnet = {"network_uuid": network, "cidr": "10.7.0.0/24"}
        await self.world.ok("POST", "/subnets", subnet)
        await self.world.ok("POST", "/ports", {"uuid": port, "network_uuid": network})
        return port

    async def home(self, vm: str) -> tuple[str, str]:
        """Where a VM is, and its state, by the service's records."""
        row = await self.world.service.machines.find(vm)
        return row.server_uuid, row.state

    async def held(self, server: str) -> int:
        """How many VMs and reservations a server has."""
        return len((await self.world.ok("GET", f"/servers/{server}"))["vms"])


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
    assert job["execution"] == "failed"
    return next(step["error"] for step in job["chain_results"] if step["error"])


async def test_a_container_moves_with_one_short_stop(any_site: Site) -> None:
    """Copied while it runs, stopped, copied again, dressed, started there and removed here."""
    vm = await any_site.world.vm()
    job = await any_site.move(vm)
    assert job["execution"] == "succeeded", job
    assert [one for one in any_site.steps() if one[1] != "network_apply"] == [
        ("there", "setup-filesystem"),
        ("there", "receive"), ("here", "sync"),
        ("here", "machine_shutdown"),
        ("there", "receive"), ("here", "sync"),
        ("there", "set-create-timestamp"), ("there", "set-autoboot"),
        ("there", "set-do-not-inventory"),
        ("there", "machine_boot"),
        ("here", "machine_destroy"),
    ]  # fmt: skip
    assert await any_site.home(vm) == (OTHER, "running")
    assert list(any_site.here) == [(OTHER, vm)]
    assert (await any_site.held(NODE), await any_site.held(OTHER)) == (0, 1)


async def test_networks_are_on_both_servers_meanwhile(site: Site) -> None:
    """The target knows the interface before the VM comes; the source forgets it after it went."""
    world = site.world
    vm = await world.vm(ports=[await site.port()])
    await site.move(vm)
    told = [
        (agent.server_uuid, [nic["vm_uuid"] for nic in call.params["nics"]])
        for call, agent in zip(world.nodes.calls, world.nodes.agents, strict=True)
        if call.task == "network_apply"
    ]
    assert (OTHER, [vm]) in told
    assert [nics for server, nics in told if server == NODE][-1] == []
    assert [nics for server, nics in told if server == OTHER][-1] == [vm]


async def test_a_stopped_container_is_copied_once_and_stays_stopped(site: Site) -> None:
    """Nothing is stopped or started."""
    vm = await site.world.vm()
    site.here[NODE, vm]["state"] = "stopped"
    assert (await site.move(vm))["execution"] == "succeeded"
    steps = [step for _, step in site.steps()]
    assert steps.count("sync") == 1
    assert {"machine_shutdown", "machine_boot"} & {*steps} == set()
    assert await site.home(vm) == (OTHER, "stopped")


async def test_a_virtual_machine_moves_with_its_memory(site: Site) -> None:
    """It is neither stopped nor started; once it runs there it is the target's."""
    vm = await site.world.vm(brand="kvm", ram=256)
    assert (await site.move(vm, target_server_uuid=OTHER))["execution"] == "succeeded"
    steps = [step for _, step in site.steps()]
    assert steps.count("sync") == 1
    assert {"machine_shutdown", "machine_boot"} & {*steps} == set()
    assert await site.home(vm) == (OTHER, "running")
    vm = await site.world.vm(brand="kvm", ram=256)
    site.failing[OTHER, "set-autoboot"] = 1
    assert "it broke" in error_of(await site.move(vm))
    assert await site.home(vm) == (OTHER, "running")
    assert site.here[OTHER, vm]["state"] == "running"


@pytest.mark.parametrize(
    "broken",
    [
        (OTHER, "network_apply"), (OTHER, "setup-filesystem"), (OTHER, "receive"), (NODE, "sync"),
        (NODE, "machine_shutdown"), (OTHER, "set-autoboot"),
    ],
)  # fmt: skip
async def test_a_move_that_fails_leaves_the_vm_where_it_was(
    site: Site, broken: tuple[str, str]
) -> None:
    """Running as before; nothing of it is left on the target, no room is held, and it can be tried again."""
    vm = await site.world.vm(ports=[await site.port()])
    if broken[1] == "network_apply":
        site.world.nodes.answers["network_apply"] = lambda call: (
            NodeTaskError("it broke") if site.world.nodes.agents[-1].server_uuid == OTHER else {}
        )
    site.failing[broken] = 1
    assert "it broke" in error_of(await site.move(vm))
    site.world.nodes.answers.pop("network_apply", None)
    assert await site.home(vm) == (NODE, "running")
    assert [(server, one["state"]) for (server, _), one in site.here.items()] == [(NODE, "running")]
    assert await site.held(OTHER) == 0
    assert (await site.move(vm))["execution"] == "succeeded"


def snapshots(*names: str) -> list[dict[str, str]]:
    """Entries of a record; a name's number is its time."""
    return [
        {"name": name, "created_at": f"2026-01-02T03:04:{int(name[-1]):02}.000Z"} for name in names
    ]


async def test_snapshots_move_with_a_container(any_site: Site) -> None:
    """Oldest first, each as the target's files, before what there is now."""
    vm = await any_site.world.vm()
    any_site.here[NODE, vm]["snapshots"] = snapshots("s1", "s2")
    assert (await any_site.move(vm))["execution"] == "succeeded"
    steps = [step for _, step in any_site.steps() if step != "network_apply"]
    one = ["receive", "sync", "keep-snapshot"]
    assert steps[:7] == ["setup-filesystem", *one, *one]
    assert steps.count("sync") == 4
    asked = [call.params.get("snapshot_name") for call in any_site.world.nodes.calls]
    assert [name for name in asked if name] == ["s1", "s1", "s2", "s2"]
    assert any_site.here[OTHER, vm]["snapshots"] == snapshots("s1", "s2")


async def test_snapshots_that_change_during_a_move_are_as_at_its_end(site: Site) -> None:
    """Deleted ones go, new ones come, and the order is that of the source."""
    vm = await site.world.vm()
    site.here[NODE, vm]["snapshots"] = snapshots("s1", "s2", "s3")
    answer = site.answer

    def change(call: TaskCall) -> Any:
        site.here[NODE, vm]["snapshots"] = snapshots("s1", "s3", "s4")
        return answer(call)

    site.world.nodes.answers["machine_shutdown"] = change
    assert (await site.move(vm))["execution"] == "succeeded"
    assert site.here[OTHER, vm]["snapshots"] == snapshots("s1", "s3", "s4")


async def test_an_agent_that_cannot_send_snapshots_ends_the_move(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of an older version sends what there is now: that is no snapshot, and nothing has changed."""
    vm = await site.world.vm()
    site.here[NODE, vm]["snapshots"] = snapshots("s1")
    monkeypatch.setattr(site, "sent_snapshot", lambda _server, _params: {"transferred": 5})
    assert "cannot send snapshots" in error_of(await site.move(vm))
    assert [(server, one["state"]) for (server, _), one in site.here.items()] == [(NODE, "running")]


async def test_snapshots_hold_a_virtual_machine_that_runs(site: Site) -> None:
    """They are in disks that do not travel then: the error names them and both ways out."""
    vm = await site.world.vm(brand="kvm", ram=256)
    site.here[NODE, vm]["snapshots"] = snapshots("s1")
    assert "stop it, or delete s1 first" in error_of(await site.move(vm))
    site.here[NODE, vm]["state"] = "stopped"
    assert (await site.move(vm))["execution"] == "succeeded"


async def test_a_move_needs_another_server_with_room(site: Site) -> None:
    """The VM's own server is not a target; the error has the allocator's reasons."""
    vm = await site.world.vm()
    status, _, message = await site.world.refused(
        "POST", f"/servers/{NODE}/vms/{vm}/move", {"target_server_uuid": NODE}
    )
    assert (status, "already" in message) == (409, True)
    missing = await site.world.refused(
        "POST", f"/servers/{NODE}/vms/{vm}/move", {"target_server_uuid": str(uuid4())}
    )
    assert missing[0] == 404
    assert (await site.world.refused("POST", f"/servers/{NODE}/vms/{uuid4()}/move"))[0] == 404
    await site.world.ok("POST", f"/servers/{OTHER}", {"reserved": True})
    assert f"{OTHER}: Server is reserved" in error_of(await site.move(vm))
    assert await site.home(vm) == (NODE, "running")


async def drain(site: Site, **more: Any) -> dict[str, Any]:
    """Drain the first server; the job when it ended."""
    made = await site.world.ok("POST", f"/servers/{NODE}/drain", more)
    job: dict[str, Any] = await site.world.job(made["job_uuid"])
    return job


async def test_a_drained_server_is_empty_and_takes_nothing_new(any_site: Site) -> None:
    """All VMs are elsewhere; the server stays reserved."""
    made = [await any_site.world.vm() for _ in range(3)]
    job = await drain(any_site)
    assert job["execution"] == "succeeded", job
    assert {await any_site.home(vm) for vm in made} == {(OTHER, "running")}
    assert (await any_site.world.ok("GET", f"/servers/{NODE}"))["reserved"] is True


async def test_a_drain_says_what_holds_the_server(site: Site) -> None:
    """Each VM that stays with its reason; the others are gone. Without ``move`` nothing moves."""
    moved, kept = await site.world.vm(), await site.world.vm(brand="kvm", ram=256)
    assert "held by 2" in error_of(await drain(site, move=False))
    assert await site.home(moved) == (NODE, "running")
    site.here[NODE, kept]["snapshots"] = [{"name": "s"}]
    said = error_of(await drain(site))
    assert f"held by 1: VM {kept}" in said
    assert "snapshots" in said
    assert await site.home(moved) == (OTHER, "running")
    site.here[NODE, kept]["snapshots"] = []
    assert (await drain(site))["execution"] == "succeeded"
