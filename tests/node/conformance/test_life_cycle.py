"""What every driver does with a VM, from its creation to its end."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import pytest
from tests.waiting import eventually

from vetro.node.drivers.control_groups import groups_of
from vetro.node.errors import DriverError, ImageError

MISSING = "99999999-9999-4999-8999-999999999999"


async def state_of(rig: Any, uuid: str) -> str:
    """A VM's state."""
    return (await rig.driver.load(uuid))["state"]


async def until_state(rig: Any, uuid: str, state: str) -> None:
    """Wait for a state that a guest reaches by itself."""

    async def reached() -> bool:
        return await state_of(rig, uuid) == state

    await eventually(reached)


async def test_created_means_running_with_all_properties(rig: Any) -> None:
    """A new VM runs, and its object has every field the service relies on."""
    vm = await rig.create(alias="web", owner_uuid=MISSING, quota=5, tags={"role": "a"})
    assert (vm["state"], vm["zone_state"]) == ("running", "running")
    assert (vm["alias"], vm["owner_uuid"], vm["quota"], vm["tags"]) == (
        "web", MISSING, 5, {"role": "a"},
    )  # fmt: skip
    assert vm["max_physical_memory"] > 0
    assert vm["create_timestamp"] <= vm["last_modified"]
    assert await rig.driver.load(vm["uuid"]) == vm
    assert [one["uuid"] for one in await rig.driver.list()] == [vm["uuid"]]
    assert rig.events == [vm["uuid"]]


async def test_a_vm_without_autoboot_waits(rig: Any) -> None:
    """It is made, and started only when asked."""
    vm = await rig.create(autoboot=False)
    assert (vm["state"], vm["zone_state"]) == ("stopped", "installed")
    assert (await rig.driver.start(vm["uuid"]))["state"] == "running"


async def test_stop_start_and_reboot(rig: Any) -> None:
    """Every transition ends in its state; a wrong one says which."""
    uuid = (await rig.create())["uuid"]
    with pytest.raises(DriverError) as refused:
        await rig.driver.start(uuid)
    assert (refused.value.code, refused.value.rest_code) == ("EALREADYRUNNING", "VmAlreadyRunning")
    assert (await rig.driver.stop(uuid, timeout=5))["state"] == "stopped"
    for act in (rig.driver.stop, rig.driver.reboot):
        with pytest.raises(DriverError) as refused:
            await act(uuid)
        assert (refused.value.code, refused.value.rest_code) == ("ENOTRUNNING", "VmNotRunning")
    assert (await rig.driver.start(uuid))["state"] == "running"
    assert (await rig.driver.stop(uuid, force=True))["state"] == "stopped"
    await rig.driver.start(uuid)
    assert (await rig.driver.reboot(uuid, timeout=5))["state"] == "running"


async def test_kill_ends_what_runs(rig: Any) -> None:
    """SIGKILL to the first process ends the VM; one that does not run has nothing to signal."""
    uuid = (await rig.create())["uuid"]
    await rig.driver.kill(uuid, signal.SIGKILL)
    await until_state(rig, uuid, "stopped")
    with pytest.raises(DriverError) as refused:
        await rig.driver.kill(uuid, signal.SIGKILL)
    assert refused.value.code in ("ENOTRUNNING", "ESRCH")
    assert uuid in rig.events


async def test_a_second_vm_of_the_same_uuid_is_refused(rig: Any) -> None:
    """The first one is left alone."""
    vm = await rig.create()
    with pytest.raises(DriverError) as refused:
        await rig.create(uuid=vm["uuid"])
    assert refused.value.rest_code == "VmAlreadyExists"
    assert await state_of(rig, vm["uuid"]) == "running"


async def test_a_missing_image_leaves_nothing(rig: Any) -> None:
    """A create that fails can be repeated."""
    with pytest.raises(ImageError):
        await rig.create(uuid=MISSING, image_uuid=MISSING)
    assert not rig.driver.exists(MISSING)
    assert rig.leftovers() == []
    assert (await rig.create(uuid=MISSING))["state"] == "running"


async def test_unknown_vms(rig: Any) -> None:
    """Every operation says ``VmNotFound``; only a delete takes it for success."""
    for act in (rig.driver.load, rig.driver.start, rig.driver.stop, rig.driver.processes):
        with pytest.raises(DriverError) as refused:
            await act(MISSING)
        assert refused.value.rest_code == "VmNotFound"
    await rig.driver.delete(MISSING)


async def test_delete_leaves_nothing(rig: Any) -> None:
    """A running VM is ended, and repeated deletion is harmless."""
    uuid = (await rig.create())["uuid"]
    await rig.driver.delete(uuid)
    assert not rig.driver.exists(uuid)
    assert rig.leftovers() == []
    assert not (rig.directory / "vms" / uuid).exists()
    await rig.driver.delete(uuid)


async def test_an_indestructible_vm_stays(rig: Any) -> None:
    """Neither deleted nor reprovisioned until the flag is taken away."""
    uuid = (await rig.create(indestructible_zoneroot=True))["uuid"]
    for act in (rig.driver.delete(uuid), rig.driver.reprovision(uuid, rig.other_image)):
        with pytest.raises(DriverError) as refused:
            await act
        assert refused.value.rest_code == "VmIndestructible"
    await rig.driver.update(uuid, {"indestructible_zoneroot": False})
    await rig.driver.delete(uuid)
    assert not rig.driver.exists(uuid)


async def test_an_update_keeps_what_it_does_not_name(rig: Any) -> None:
    """Properties change while the VM runs; wrong values change nothing."""
    vm = await rig.create(alias="old", tags={"a": 1})
    new = await rig.driver.update(vm["uuid"], {"alias": "new", "set_tags": {"b": 2}})
    assert (new["alias"], new["tags"], new["state"]) == ("new", {"a": 1, "b": 2}, "running")
    assert new["last_modified"] > vm["last_modified"]
    with pytest.raises(DriverError):
        await rig.driver.update(vm["uuid"], {"alias": "newer", "quota": "many"})
    assert (await rig.driver.load(vm["uuid"]))["alias"] == "new"


async def test_vms_outlive_the_agent(rig: Any) -> None:
    """Another driver on the same files finds them running, and can stop them."""
    uuid = (await rig.create())["uuid"]
    stopped = (await rig.create(autoboot=False))["uuid"]
    before = await rig.driver.load(uuid)
    await rig.driver.close()
    rig.driver = await rig.reopen()
    assert await rig.driver.load(uuid) == before
    assert await state_of(rig, stopped) == "stopped"
    assert (await rig.driver.stop(uuid, force=True))["state"] == "stopped"


async def test_each_vm_has_the_state_last_wanted_after_a_power_cut(rig: Any) -> None:
    """A start makes it wanted, a stop unwanted, whatever its creation said."""
    wanted, other = (await rig.create(autoboot=False))["uuid"], (await rig.create())["uuid"]
    assert (await rig.driver.start(wanted))["autoboot"] is True
    assert (await rig.driver.stop(other, force=True))["autoboot"] is False
    await rig.driver.kill(wanted, signal.SIGKILL)
    await until_state(rig, wanted, "stopped")
    assert await rig.driver.autoboot() == []
    assert (await state_of(rig, wanted), await state_of(rig, other)) == ("running", "stopped")


async def test_a_vm_that_has_ended_by_itself_can_be_unwanted(rig: Any) -> None:
    """Its stop is refused, as it does not run; it does not come back for all that."""
    uuid = (await rig.create())["uuid"]
    await rig.driver.kill(uuid, signal.SIGKILL)
    await until_state(rig, uuid, "stopped")
    with pytest.raises(DriverError, match="is not running"):
        await rig.driver.stop(uuid)
    assert await rig.driver.autoboot() == []
    assert await state_of(rig, uuid) == "stopped"


@pytest.mark.needs("container")
async def test_a_stop_that_waits_for_its_guest_can_be_ended(rig: Any) -> None:
    """The VM runs on, is wanted as before, and can be removed at once."""
    uuid = (await rig.create())["uuid"]
    # A guest that hears nothing.
    await rig.driver.kill(uuid, signal.SIGSTOP)
    stop = asyncio.create_task(rig.driver.stop(uuid, timeout=3600))
    await until_state(rig, uuid, "stopping")
    stop.cancel()
    assert isinstance(
        (await asyncio.gather(stop, return_exceptions=True))[0], asyncio.CancelledError
    )
    vm = await rig.driver.load(uuid)
    assert (vm["state"], vm["autoboot"]) == ("running", True)
    await rig.driver.delete(uuid)
    assert rig.leftovers() == []


@pytest.mark.needs("reprovision", "isolation")
async def test_an_image_of_another_kind_is_refused_before_the_vm_is_touched(rig: Any) -> None:
    """It runs on with its record and its disk, and starts again later."""
    uuid = (await rig.create())["uuid"]
    before = await rig.driver.load(uuid)
    image = rig.directory / "images" / MISSING
    image.mkdir(parents=True)
    (image / "manifest.json").write_text(
        json.dumps({"uuid": MISSING, "name": "other", "type": "x"})
    )
    with pytest.raises(ImageError, match="is not"):
        await rig.driver.reprovision(uuid, MISSING)
    assert await rig.driver.load(uuid) == before
    await rig.driver.stop(uuid, force=True)
    assert (await rig.driver.start(uuid))["image_uuid"] == before["image_uuid"]


@pytest.mark.needs("reprovision", "isolation", "snapshots")
async def test_snapshots_that_need_their_image_refuse_another_before_the_vm_is_stopped(
    rig: Any,
) -> None:
    """Where a snapshot is a whole root, as a clone is, it stays beside the new image."""
    uuid = (await rig.create())["uuid"]
    await rig.driver.create_snapshot(uuid, "one")
    before = await rig.driver.load(uuid)
    try:
        now = await rig.driver.reprovision(uuid, rig.other_image)
    except DriverError as error:
        assert error.rest_code == "VmHasSnapshots"
        assert await rig.driver.load(uuid) == before
    else:
        assert (now["state"], now["image_uuid"]) == ("running", rig.other_image)
        assert (await rig.driver.rollback_snapshot(uuid, "one"))["state"] == "running"


@pytest.mark.needs("reprovision")
async def test_reprovision_keeps_the_vm(rig: Any) -> None:
    """A new root file system; uuid, interfaces and metadata stay."""
    vm = await rig.create(customer_metadata={"k": "v"})
    new = await rig.driver.reprovision(vm["uuid"], rig.other_image)
    assert new["image_uuid"] == rig.other_image
    assert (new["customer_metadata"], new["nics"]) == ({"k": "v"}, vm["nics"])
    assert new["state"] == "running"


@pytest.mark.needs("network")
async def test_interfaces_come_and_go(rig: Any) -> None:
    """A running VM has one more, or one less, after an update; it runs, and one of them is primary."""
    vm = await rig.create(nics=rig.payload().get("nics", [{"mac": "02:00:00:00:00:01"}]))
    uuid, [first] = vm["uuid"], vm["nics"]
    [second] = rig.payload().get("nics", [{"mac": "02:00:00:00:00:02"}])
    second = {name: one for name, one in second.items() if name not in ("interface", "primary")}

    async def inside(*macs: str) -> None:
        """Wait until the guest, which may have been started again, has these and no others."""

        async def seen() -> bool:
            command = "cat /sys/class/net/*/address"
            try:
                done = await rig.driver.execute(
                    uuid, ["/bin/sh", "-c", command], {"PATH": "/bin"}, 60
                )
            except DriverError:
                return False
            return {*done.stdout.split()} - {"00:00:00:00:00:00"} == {*macs}

        if "exec" in rig.features:
            await eventually(seen, f"{macs} are in the guest")

    both = await rig.driver.update(uuid, {"add_nics": [second]})
    assert both["state"] == "running"
    assert [(nic["mac"], nic["interface"], nic["primary"]) for nic in both["nics"]] == [
        (first["mac"], "net0", True), (second["mac"], "net1", False),
    ]  # fmt: skip
    await inside(first["mac"], second["mac"])
    one = await rig.driver.update(uuid, {"remove_nics": [first["mac"]]})
    assert one["state"] == "running"
    assert [(nic["mac"], nic["primary"]) for nic in one["nics"]] == [(second["mac"], True)]
    await inside(second["mac"])


async def test_hidden_vms(rig: Any) -> None:
    """``do_not_inventory`` hides a VM from those who do not ask for it."""
    uuid = (await rig.create(do_not_inventory=True))["uuid"]
    assert await rig.driver.list() == []
    assert len(await rig.driver.list(include_dni=True)) == 1
    with pytest.raises(DriverError):
        await rig.driver.load(uuid, include_dni=False)


@pytest.mark.needs("exec", boots=True)
async def test_commands_run_inside(rig: Any) -> None:
    """Output, exit status and environment of a command in a running VM."""
    uuid = (await rig.create())["uuid"]
    result = await rig.driver.execute(
        uuid, ["/bin/sh", "-c", "echo $GREETING; echo no >&2; exit 3"],
        {"GREETING": "hello", "PATH": "/bin"}, 20,
    )  # fmt: skip
    assert (result.exit_code, result.stdout, result.stderr) == (3, "hello\n", "no\n")
    await rig.driver.stop(uuid, force=True)
    with pytest.raises(DriverError) as refused:
        await rig.driver.execute(uuid, ["true"], {}, 20)
    assert refused.value.rest_code == "VmNotRunning"


def kernel_limits(vm: Any) -> tuple[int | None, int]:
    """What the kernel keeps: the quota in percent of a core (``None``: no limit) and the weight."""
    groups = groups_of(vm["pid"], vm["uuid"])
    if "cpu" in groups:
        quota = (groups["cpu"] / "cpu.cfs_quota_us").read_text().strip()
        weight = int((groups["cpu"] / "cpu.shares").read_text()) * 100 // 1024
        return None if quota == "-1" else int(quota) // 1000, weight
    quota = (groups["unified"] / "cpu.max").read_text().split()[0]
    weight = int((groups["unified"] / "cpu.weight").read_text())
    return None if quota == "max" else int(quota) // 1000, weight


@pytest.mark.needs("cpu-cap", boots=True)
async def test_processor_time_is_limited_and_changes_while_it_runs(rig: Any) -> None:
    """The kernel keeps what the VM object says, without a restart, and after one."""
    vm = await rig.create(cpu_cap=50, cpu_shares=200)
    assert kernel_limits(vm) == (50, 200)
    changed = await rig.driver.update(vm["uuid"], {"cpu_cap": 150})
    assert (changed["pid"], kernel_limits(changed)) == (vm["pid"], (150, 200))
    changed = await rig.driver.update(vm["uuid"], {"cpu_cap": 0, "cpu_shares": 100})
    assert (changed["pid"], kernel_limits(changed)) == (vm["pid"], (None, 100))
    await rig.driver.update(vm["uuid"], {"cpu_cap": 75})
    await rig.driver.stop(vm["uuid"], force=True)
    assert kernel_limits(await rig.driver.start(vm["uuid"])) == (75, 100)


@pytest.mark.needs("stats", boots=True)
async def test_statistics_of_a_running_vm(rig: Any) -> None:
    """It uses processor time and memory; a stopped one has none."""
    uuid = (await rig.create())["uuid"]

    async def with_memory() -> Any:
        # A process that is just being replaced by its program (exec) has no memory for an instant.
        stats = await rig.driver.stats(uuid)
        return stats if stats["memory_stats"]["usage"] else None

    stats = await eventually(with_memory)
    assert stats["cpu_stats"]["cpu_usage"]["total_usage"] >= 0
    assert stats["pids_stats"]["current"] >= 1
    await rig.driver.stop(uuid, force=True)
    with pytest.raises(DriverError):
        await rig.driver.stats(uuid)


async def test_info_needs_a_running_vm(rig: Any) -> None:
    """``status`` is known of every VM that runs."""
    uuid = (await rig.create())["uuid"]
    assert (await rig.driver.info(uuid, ["status"]))["status"]["state"] == "running"
    await rig.driver.stop(uuid, force=True)
    with pytest.raises(DriverError) as refused:
        await rig.driver.info(uuid, ["all"])
    assert refused.value.rest_code == "VmNotRunning"


@pytest.mark.needs(boots=True)
async def test_usage_is_counted(rig: Any) -> None:
    """A VM that is there takes room."""
    uuid = (await rig.create())["uuid"]
    assert (await rig.driver.usage(uuid)).used > 0
    await rig.driver.delete(uuid)
    assert (await rig.driver.usage(uuid)).used == 0
