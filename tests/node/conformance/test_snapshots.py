"""Snapshots, the same on every driver that has them."""

from __future__ import annotations

from typing import Any

import pytest

from vetro.node.errors import DriverError

pytestmark = pytest.mark.needs("snapshots")


def names(vm: dict[str, Any]) -> list[str]:
    """The names of a VM's snapshots."""
    return [entry["name"] for entry in vm["snapshots"]]


async def test_snapshots_are_listed_with_their_time(rig: Any) -> None:
    """In the order they were made; without a name the time is the name."""
    uuid = (await rig.create())["uuid"]
    vm = await rig.driver.create_snapshot(uuid, "first")
    assert names(vm) == ["first"]
    assert vm["snapshots"][0]["created_at"] >= vm["create_timestamp"]
    await rig.driver.create_snapshot(uuid, None)
    vm = await rig.driver.create_snapshot(uuid, None)
    assert len(set(names(vm))) == 3
    assert vm["state"] == "running"


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 65, "a b"])
async def test_bad_names_are_refused(rig: Any, name: str) -> None:
    """Letters, digits and ``_.-``, at most 64."""
    uuid = (await rig.create(autoboot=False))["uuid"]
    for act in (rig.driver.create_snapshot, rig.driver.delete_snapshot):
        with pytest.raises(DriverError) as refused:
            await act(uuid, name)
        assert refused.value.rest_code == "InvalidPayload"


async def test_a_name_is_used_once(rig: Any) -> None:
    """Until it is deleted, which may be repeated."""
    uuid = (await rig.create(autoboot=False))["uuid"]
    await rig.driver.create_snapshot(uuid, "one")
    with pytest.raises(DriverError) as refused:
        await rig.driver.create_snapshot(uuid, "one")
    assert refused.value.rest_code == "SnapshotExists"
    assert names(await rig.driver.delete_snapshot(uuid, "one")) == []
    assert names(await rig.driver.delete_snapshot(uuid, "one")) == []
    assert names(await rig.driver.create_snapshot(uuid, "one")) == ["one"]


async def test_rollback_drops_newer_ones_and_restarts_what_ran(rig: Any) -> None:
    """The snapshot itself stays."""
    uuid = (await rig.create())["uuid"]
    for name in ("a", "b", "c"):
        await rig.driver.create_snapshot(uuid, name)
    vm = await rig.driver.rollback_snapshot(uuid, "b")
    assert (names(vm), vm["state"]) == (["a", "b"], "running")
    await rig.driver.stop(uuid, force=True)
    vm = await rig.driver.rollback_snapshot(uuid, "a")
    assert (names(vm), vm["state"]) == (["a"], "stopped")
    with pytest.raises(DriverError) as refused:
        await rig.driver.rollback_snapshot(uuid, "b")
    assert refused.value.rest_code == "SnapshotNotFound"


@pytest.mark.needs("files")
async def test_files_come_back(rig: Any) -> None:
    """A changed, a removed and an added file are as they were."""
    uuid = (await rig.create(autoboot=False))["uuid"]
    root = await rig.driver.files(uuid)
    root.write("/root/kept", b"old")
    root.write("/root/gone", b"x")
    await rig.driver.create_snapshot(uuid, "before")
    root.write("/root/kept", b"new")
    root.write("/root/added", b"y")
    (root.path / "root/gone").unlink()
    await rig.driver.rollback_snapshot(uuid, "before")
    root = await rig.driver.files(uuid)
    assert root.read("/root/kept") == b"old"
    assert root.read("/root/gone") == b"x"
    assert not root.exists("/root/added")
    # And it still starts.
    assert (await rig.driver.start(uuid))["state"] == "running"


async def test_snapshots_go_with_the_vm(rig: Any) -> None:
    """Nothing of them stays."""
    uuid = (await rig.create())["uuid"]
    await rig.driver.create_snapshot(uuid, "one")
    await rig.driver.delete(uuid)
    assert rig.leftovers() == []
    assert not (rig.directory / "vms" / uuid).exists()
