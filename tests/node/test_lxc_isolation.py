"""Containers of different projects, privileged ones, and interfaces that change while they run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vetro.node.errors import DriverError

pytestmark = pytest.mark.root

PATH = {"PATH": "/bin:/sbin"}
ALICE, BOB = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"


async def inside(containers: Any, uuid: str, *command: str) -> str:
    """The output of a command in a container."""
    result = await containers.driver.execute(uuid, list(command), PATH, 20)
    return result.stdout + result.stderr


def root_id(vm: dict[str, Any]) -> int:
    """The host's id of a container's root."""
    return int(Path(f"/proc/{vm['pid']}/uid_map").read_text().split()[1])


async def test_projects_have_no_ids_in_common(containers: Any) -> None:
    """Two of one project share a range, another project's does not overlap; files belong to root inside."""
    nics = [containers.nic(n) for n in (5, 6, 7)]
    await containers.apply(nics)
    first = await containers.create([nics[0]], owner_uuid=ALICE)
    second = await containers.create([nics[1]], owner_uuid=ALICE)
    other = await containers.create([nics[2]], owner_uuid=BOB)
    assert root_id(first) == root_id(second)
    assert abs(root_id(first) - root_id(other)) >= 65536
    for vm in (first, other):
        assert (
            await inside(containers, vm["uuid"], "stat", "-c", "%u:%g", "/bin/busybox") == "0:0\n"
        )
        await inside(
            containers, vm["uuid"], "sh", "-c", "echo x > /root/f; chmod 600 /www/index.html"
        )
        assert await inside(containers, vm["uuid"], "stat", "-c", "%u", "/root/f") == "0\n"


async def test_a_range_stays_with_its_container(containers: Any) -> None:
    """A new owner does not change who the container's files belong to."""
    vm = await containers.connected(5, owner_uuid=ALICE)
    before = root_id(vm)
    await containers.driver.update(vm["uuid"], {"owner_uuid": BOB})
    assert root_id(await containers.driver.reboot(vm["uuid"], force=True)) == before


async def test_privileged_is_refused_unless_the_operator_allows_it(
    containers: Any, kit: SimpleNamespace
) -> None:
    """With the flag the container's root is the machine's; without it nothing is made."""
    nic = await containers.plugged(5)
    with pytest.raises(DriverError, match="does not allow") as refused:
        await containers.create([nic], privileged=True)
    assert refused.value.rest_code == "NotAuthorized"
    allowed = await kit.open_containers(
        containers.directory, containers.prefix, containers.subnet, allow_privileged=True
    )
    payload = {"uuid": kit.new_uuid(), "brand": "lx", "image_uuid": kit.image, "nics": [nic],
               "privileged": True}  # fmt: skip
    vm = await allowed.driver.create(payload, lambda _step, _percent: None)
    assert root_id(vm) == 0
    result = await allowed.driver.execute(
        vm["uuid"], ["stat", "-c", "%u", "/bin/busybox"], PATH, 20
    )
    assert result.stdout == "0\n"
    # Still without the capabilities that reach beyond the container.
    status = Path(f"/proc/{vm['pid']}/status").read_text()
    assert not int(status.partition("CapBnd:")[2].split()[0], 16) >> 16 & 1
    await allowed.driver.delete(vm["uuid"])
    await allowed.driver.close()


async def test_interfaces_change_while_it_runs(containers: Any) -> None:
    """Added, readdressed and removed without a restart: the first process stays the same."""
    first, second = containers.nic(5), containers.nic(6)
    await containers.apply([first, second])
    vm = await containers.create([first])
    assert (await containers.driver.update(vm["uuid"], {"add_nics": [second]}))["pid"] == vm["pid"]
    shown = await inside(containers, vm["uuid"], "ip", "addr", "show", "eth1")
    assert f"{second['ip']}/24" in shown
    assert second["mac"] in shown
    assert "UP" in shown
    moved = f"{containers.subnet}.77"
    await containers.apply([first, {**second, "ip": moved}])
    await containers.driver.update(
        vm["uuid"], {"update_nics": [{"mac": second["mac"], "ip": moved}]}
    )
    shown = await inside(containers, vm["uuid"], "ip", "addr", "show", "eth1")
    assert f"{moved}/24" in shown
    assert f"{second['ip']}/24" not in shown
    gone = await containers.driver.update(vm["uuid"], {"remove_nics": [second["mac"]]})
    assert gone["pid"] == vm["pid"]
    assert "eth1" not in await inside(containers, vm["uuid"], "ip", "addr")
    assert f"default via {containers.subnet}.1" in await inside(
        containers, vm["uuid"], "ip", "route"
    )


async def test_a_network_that_is_not_here_changes_nothing(
    containers: Any, kit: SimpleNamespace
) -> None:
    """An interface on an unknown network is refused before the record changes."""
    nic = await containers.plugged(5)
    vm = await containers.create([nic])
    with pytest.raises(DriverError) as refused:
        await containers.driver.update(
            vm["uuid"], {"add_nics": [{**containers.nic(6), "network_uuid": kit.new_uuid()}]}
        )
    assert refused.value.rest_code == "NetworkNotFound"
    assert len((await containers.driver.load(vm["uuid"]))["nics"]) == 1


async def test_commands_run_as_the_guests_users(containers: Any) -> None:
    """By name or number, in a directory, with a home; unknown names are refused."""
    from vetro.node.commands import run
    from vetro.node.drivers import ExecRequest

    uuid = (await containers.connected(5))["uuid"]
    root = await containers.driver.files(uuid)
    root.write("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nweb:x:33:44:w:/var:/bin/sh\n")
    root.write("/etc/group", b"staff:x:50:\n")

    async def output(**request: Any) -> str:
        command = await containers.driver.exec_command(
            uuid, ExecRequest(["sh", "-c", 'echo "$(id -u):$(id -g) $PWD $HOME $X"'], **request)
        )
        return (await run(*command.argv, check=False)).output.strip()

    assert await output() == "0:0 / /root"
    assert await output(user="web", directory="/tmp", environment={"X": "a b"}) == (
        "33:44 /tmp /var a b"
    )
    assert await output(user="33:staff") == "33:50 / /var"
    assert await output(user="1234:5") == "1234:5 / /"
    with pytest.raises(DriverError, match="no user 'nobody'"):
        await output(user="nobody")
