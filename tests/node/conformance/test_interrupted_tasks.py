"""Agents that are killed, or have an error, while they make a VM or give it another root, at every step."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from vetro.node.errors import DriverError

PROGRAM = Path(__file__).with_name("interrupted_agent.py")
# A point of each part: were one of them missing, nothing would be shown.
EXPECTED = {
    "simulated": {"MachineStore.save", "ImageStore._install", "SimulatedHypervisor.start"},
    "process": {"MachineStore.save", "ImageStore._install", "ProcessHypervisor.make", "command sh"},
    "lxc": {
        "MachineStore.save", "ImageStore._install", "command lxc-usernsexec", "DirectoryTrees.limit",
        "LxcHypervisor._furnish", "command lxc-start", "LxcHypervisor._lxc",
    },
}  # fmt: skip


async def interrupted(
    rig: Any, name: str, node_names: tuple[str, str], payload: Any, point: int, task: str = "create",
    *, fails: bool = False,
) -> Any:  # fmt: skip
    """Let an agent of its own do a task and die, or fail, at a point; its exit code and the points' names."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), name, str(rig.directory),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    given = {
        "node_names": node_names, "payload": payload, "point": point, "task": task, "fails": fails,
    }  # fmt: skip
    try:
        async with asyncio.timeout(120):
            said, errors = await process.communicate(json.dumps(given).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, said.decode().splitlines(), errors.decode()


@pytest.mark.sampled(only=["simulated"])
@pytest.mark.needs(killed=True)
@pytest.mark.timeout(1800)
async def test_an_agent_killed_at_any_step_of_a_create_leaves_no_half_vm(
    rig: Any, node_names: tuple[str, str], request: pytest.FixtureRequest
) -> None:
    """The next agent reports none and has removed all of it; the same request makes one VM."""
    name = request.node.callspec.params["rig"]
    payload = rig.payload()
    uuid = payload["uuid"]
    whole, reached = False, [""]
    for point in itertools.count(1):
        await rig.driver.close()
        code, reached, errors = await interrupted(rig, name, node_names, payload, point)
        rig.driver = await rig.reopen()
        if code == 0:
            break
        where = f"{point}: {reached[-1:]}"
        assert code == -signal.SIGKILL, (where, errors)
        listed = await rig.driver.list(include_dni=True)
        # The last thing that a create does is to say, in the record, that the VM is whole.
        whole = reached.count("MachineStore.save") > 1
        assert bool(listed) is whole, where
        if not whole:
            assert not (rig.directory / "vms" / uuid).exists(), where
            assert rig.leftovers() == [], where
            await rig.driver.create(payload, lambda _step, _percent: None)
            listed = await rig.driver.list(include_dni=True)
        else:
            with pytest.raises(DriverError, match="exists"):
                await rig.driver.create(payload, lambda _step, _percent: None)
        assert [(vm["uuid"], vm["state"]) for vm in listed] == [(uuid, "running")], where
        await rig.driver.delete(uuid)
        assert rig.leftovers() == [], where
        # Fetched and unpacked by each of them.
        await rig.driver._images.delete(payload["image_uuid"])
    assert EXPECTED[name] <= {*reached}, reached
    assert whole
    [vm] = await rig.driver.list(include_dni=True)
    assert (vm["uuid"], vm["state"]) == (uuid, "running")


@pytest.mark.thorough
@pytest.mark.needs("reprovision", "snapshots", killed=True)
@pytest.mark.parametrize("fails", [False, True], ids=["killed", "failed"])
@pytest.mark.parametrize("task", ["reprovision", "rollback"])
@pytest.mark.timeout(1800)
async def test_whatever_fails_while_a_root_is_replaced_the_vm_is_as_before(
    rig: Any, node_names: tuple[str, str], request: pytest.FixtureRequest, task: str, fails: bool
) -> None:
    """With its old record and files, or with the new ones: never between, and it runs as it did."""
    name = request.node.callspec.params["rig"]
    payload = rig.payload()
    uuid = payload["uuid"]
    has_files = "files" in rig.features
    old: dict[str, Any] = {}

    async def begin() -> None:
        await rig.driver.create(payload, lambda _step, _percent: None)
        if task == "rollback":
            for snapshot in ("before", "after"):
                await rig.driver.create_snapshot(uuid, snapshot)
        if has_files:
            (await rig.driver.files(uuid)).write("/precious", b"data")
        old.update(await rig.driver.load(uuid))

    def record_of(vm: dict[str, Any]) -> tuple[str, list[str]]:
        return vm["image_uuid"], [one["name"] for one in vm["snapshots"]]

    wanted = (rig.other_image, []) if task == "reprovision" else (payload["image_uuid"], ["before"])
    await begin()
    kept = 0
    for point in itertools.count(1):
        await rig.driver.close()
        code, reached, errors = await interrupted(
            rig, name, node_names, payload, point, task, fails=fails
        )
        rig.driver = await rig.reopen()
        where = f"{point}: {reached[-1:]} {errors}"
        assert code in ((0, 3) if fails else (0, -signal.SIGKILL)), where
        vm = await rig.driver.load(uuid)
        assert vm["state"] == "running", where
        is_old = record_of(vm) == record_of(old)
        kept += is_old
        assert is_old or record_of(vm) == wanted, where
        if has_files:
            assert (await rig.driver.files(uuid)).exists("/precious") is is_old, where
        if len(reached) < point:
            break
        if not is_old:
            await rig.driver.delete(uuid)
            assert rig.leftovers() == [], where
            await begin()
    assert code == 0
    assert not is_old
    assert kept > 2
