"""Where the agent is root, instances of the driver `process` are not."""

import asyncio
import json
import os
import stat
import sys
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.node.conformance.conftest import image_store

from vetro.node.drivers import Driver, ExecRequest, Hypervisors
from vetro.node.drivers.own_users import own_tree, user_of_process
from vetro.node.drivers.process import ProcessHypervisor
from vetro.node.errors import ConfigurationError
from vetro.node.vm_objects import MachineStore

pytestmark = [pytest.mark.root]
IMAGE = str(uuid.uuid4())
#: An attacker: what of the machine can be read, written or done.
LOOK = """
import json, os, sys
def tried(act):
    try:
        return act() or "done"
    except OSError as error:
        return error.strerror
secret, other, init = sys.argv[1:4]
capabilities = [x.split()[1] for x in open("/proc/self/status") if x.startswith("Cap")]
print(json.dumps({
    "ids": [*os.getresuid(), *os.getresgid(), *os.getgroups()],
    "capabilities": sorted({int(x, 16) for x in capabilities}),
    "no new": [x.split()[1] for x in open("/proc/self/status") if x.startswith("NoNewPrivs")],
    "secret": tried(lambda: open(secret).read()),
    "by a link": tried(lambda: os.symlink(secret, "link") or open("link").read()),
    "in place": tried(lambda: os.listdir(os.path.dirname(secret))),
    "other": tried(lambda: open(other).read()),
    "memory": tried(lambda: open(f"/proc/{init}/mem", "rb").read(1)),
    "its view": tried(lambda: os.listdir(f"/proc/{init}/root/root")),
    "killed": tried(lambda: os.kill(int(init), 9)),
    "shadow": tried(lambda: open("/etc/shadow").read()),
    "a disk": tried(lambda: open("disk", "rb").read(1)),
    "own": tried(lambda: open("own", "w").write("x")),
    "root again": tried(lambda: os.setuid(0)),
}))
"""
DENIED = {"Permission denied", "Operation not permitted", "No such file or directory"}


async def driver_of(
    directory: Path, python: str = sys.executable, hidden: Sequence[Path] = ()
) -> Driver:
    """A driver on a directory, without a guest agent."""
    images = await image_store(directory, IMAGE)
    store = MachineStore(directory / "vms")
    store.open()
    hypervisors = Hypervisors(store, ProcessHypervisor(store, None, python, hidden=hidden))
    driver = Driver(hypervisors, store, images, dict)
    await driver.open()
    return driver


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[Driver]:
    """Closed, and without machines, after the test."""
    made = await driver_of(tmp_path)
    yield made
    for vm in await made.list(include_dni=True):
        await made.delete(vm["uuid"])
    await made.close()


async def machine(driver: Driver, project: str) -> Any:
    """A running machine of a project."""
    payload = {"uuid": str(uuid.uuid4()), "brand": "lx", "image_uuid": IMAGE, "autoboot": True}
    return await driver.create({**payload, "owner_uuid": project}, lambda _step, _percent: None)


async def test_a_plan_is_nobody_on_the_machine(driver: Driver, tmp_path: Path) -> None:
    """It reads no file of the service and of another project, and cannot become root."""
    secret = tmp_path / "admin-openrc"
    secret.write_text("password")
    secret.chmod(0o600)
    one, two = [await machine(driver, str(uuid.uuid4())) for _ in range(2)]
    disk = tmp_path / "vms" / one["uuid"] / "root/disk"
    os.mknod(disk, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # as if a copy had brought it
    disk.chmod(0o666)
    theirs = tmp_path / "vms" / two["uuid"] / "root/etc/hostname"
    assert theirs.read_text()
    command = ["/usr/bin/python3", "-c", LOOK, str(secret), str(theirs), str(two["pid"])]
    done = await driver.execute(one["uuid"], command, {}, 60)
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    [user] = set(said.pop("ids"))
    assert user >= 1_000_000
    assert user == user_of_process(one["pid"])
    assert user != user_of_process(two["pid"])
    assert (said.pop("capabilities"), said.pop("no new")) == ([0], ["1"])
    assert (said.pop("own"), said.pop("in place")) == (1, ["vms"])
    assert {name: text for name, text in said.items() if text not in DENIED} == {}
    os.kill(two["pid"], 0)
    again = await driver.exec_command(one["uuid"], ExecRequest(["id", "-u"], {}, directory="etc"))
    process = await asyncio.create_subprocess_exec(
        *again.argv, stdout=asyncio.subprocess.PIPE, cwd=again.directory, env=dict(again.environment or {})
    )  # fmt: skip
    assert (await process.communicate())[0].decode().strip() == str(user)


async def test_a_plan_sees_nothing_of_the_installation(tmp_path: Path) -> None:
    """However open its directories and the files are that an operator has put there, or named."""
    with TemporaryDirectory() as name:  # Everybody may come here, as to /var/lib and /etc.
        place = Path(name)
        service, etc, named = place / "service", place / "etc", place / "named.pem"
        kept = [service / "copy-of-admin-openrc", service / "node/copy", etc / "vetro.toml", named]
        (service / "node").mkdir(parents=True)
        etc.mkdir()
        for path in kept:
            path.write_text("secret")
        for path in (place, service, service / "node", etc, *kept):
            path.chmod(0o755)
        hidden = [service, etc, named, place / "not there"]
        driver = await driver_of(service / "node", hidden=hidden)
        try:
            vm = await machine(driver, "p")
            root = service / "node/vms" / vm["uuid"] / "root"
            script = 'for one; do cat "$one"; ls "${one%/*}"; done; echo mine >mine; ls -A "$0"'
            done = await driver.execute(
                vm["uuid"], ["/bin/sh", "-c", script, str(root), *map(str, kept)], {}, 60
            )
            assert "secret" not in done.stdout
            assert {"etc", "tmp", "mine"} <= {*done.stdout.split()}
            assert {*done.stdout.split()} & {"copy", "images", "vetro.toml"} == set()
            await driver.delete(vm["uuid"])
        finally:
            await driver.close()
        assert {path.read_text() for path in kept} == {"secret"}


async def test_what_ran_as_root_before_runs_as_its_user_now(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines of an earlier version are ended and start with their files, which change hands."""
    await driver.close()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 1000)
        earlier = await driver_of(tmp_path)
        vm = await machine(earlier, "p")
        await earlier.close()
    assert user_of_process(vm["pid"]) == 0
    root = tmp_path / "vms" / vm["uuid"] / "root"
    shadow = tmp_path / "shadow"
    shadow.write_text("of the machine")
    os.link(shadow, root / "etc/shadow")
    later = await driver_of(tmp_path)
    assert (await later.load(vm["uuid"]))["state"] == "stopped"
    started = await later.start(vm["uuid"])
    user = user_of_process(started["pid"])
    assert user
    assert {path.lstat().st_uid for path in root.rglob("*") if path.name != "shadow"} == {user}
    assert shadow.stat().st_uid == 0
    await later.delete(vm["uuid"])
    await later.close()


async def test_what_its_users_cannot_run_stops_the_agent(tmp_path: Path) -> None:
    """An agent that cannot run anything as a project's user does not start, and says why."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o700)
    with pytest.raises(ConfigurationError, match="Every user must be able to run"):
        await driver_of(tmp_path, str(python))
    assert list((tmp_path / "vms").iterdir()) == []


def test_a_tree_that_has_its_user_is_not_walked(tmp_path: Path) -> None:
    """What the user made of it stays as it is."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root/file").touch()
    os.chown(tmp_path / "root", 1234567, 1234567)
    own_tree(tmp_path / "root", 1234567)
    assert (tmp_path / "root/file").stat().st_uid == 0
