"""Agents that are killed while they make a VM, at every step there is."""

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

PROGRAM = Path(__file__).with_name("killed_agent.py")
# A point of each part: were one of them missing, nothing would be shown.
EXPECTED = {
    "simulated": {"MachineStore.save", "ImageStore._install", "SimulatedHypervisor.start"},
    "process": {"MachineStore.save", "ImageStore._install", "ProcessHypervisor.make", "command sh"},
    "lxc": {
        "MachineStore.save", "ImageStore._install", "command lxc-usernsexec", "DirectoryTrees.limit",
        "LxcHypervisor._furnish", "command lxc-start", "LxcHypervisor._lxc",
    },
}  # fmt: skip


async def killed(rig: Any, name: str, node_names: tuple[str, str], payload: Any, point: int) -> Any:
    """Let an agent of its own make the VM and die at a point; its exit code and the points' names."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), name, str(rig.directory),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    given = {"node_names": node_names, "payload": payload, "point": point}
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
        code, reached, errors = await killed(rig, name, node_names, payload, point)
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
