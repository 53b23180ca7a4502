"""The ``zfs_*`` tasks over the pools a node can have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(params=["directory", pytest.param("btrfs", marks=pytest.mark.root)])
async def node(
    request: pytest.FixtureRequest, tmp_path: Any, kit: SimpleNamespace
) -> AsyncIterator[Any]:
    """Tasks over pretended VMs, on either kind of pool."""
    if request.param == "directory":
        made = await kit.simulate(tmp_path)
        async with kit.node_over(made.driver, made.images, tmp_path) as opened:
            yield opened
        return
    with kit.loop_mount(tmp_path, "btrfs") as base:
        made = await kit.simulate(base)
        async with kit.node_over(made.driver, made.images, base) as opened:
            yield opened


async def names(node: Any) -> list[str]:
    """The datasets."""
    rows = await node.good("zfs_list_datasets")
    for row in rows:
        assert set(row) == {"name", "type", "used", "avail", "refer", "mountpoint"}
        assert all(isinstance(value, str) for value in row.values())
    return [row["name"] for row in rows]


async def refused(node: Any, task: str, **params: Any) -> tuple[str, str]:
    """The text and code of a task that must fail."""
    status, body = await node.task(task, **params)
    assert status == 500, body
    return body["error"], body["details"].get("restCode", "")


async def test_datasets_are_made_snapshotted_and_removed(node: Any) -> None:
    """Files come back with a rollback, go along with a clone and a rename."""
    await node.good("zfs_create_dataset", dataset="zones/data/a")
    rows = await node.good("zfs_list_datasets")
    tree = next(row["mountpoint"] for row in rows if row["name"] == "zones/data/a")

    def file(where: str = tree) -> Any:
        from pathlib import Path

        return Path(where) / "file"

    file().write_text("old")
    await node.good("zfs_snapshot_dataset", dataset="zones/data/a@one")
    file().write_text("new")
    await node.good("zfs_snapshot_dataset", dataset="zones/data/a@two")
    listed = await node.good("zfs_list_snapshots", dataset="zones/data/a")
    assert [row["name"] for row in listed] == ["zones/data/a@one", "zones/data/a@two"]
    await node.good("zfs_rollback_dataset", dataset="zones/data/a@one")
    assert file().read_text() == "old"
    assert len(await node.good("zfs_list_snapshots", dataset="zones/data/a")) == 1
    await node.good("zfs_clone_dataset", snapshot="zones/data/a@one", dataset="zones/b")
    text, code = await refused(node, "zfs_destroy_dataset", dataset="zones/data/a")
    assert text.startswith('failed to destroy ZFS dataset "zones/data/a": ')
    assert code == "DatasetInUse"
    await node.good("zfs_destroy_dataset", dataset="zones/data/a@one")
    await node.good("zfs_destroy_dataset", dataset="zones/data/a")
    await node.good("zfs_rename_dataset", dataset="zones/b", newname="zones/c")
    assert await names(node) == ["zones", "zones/c"]
    rows = await node.good("zfs_list_datasets")
    assert file(rows[1]["mountpoint"]).read_text() == "old"
    await node.good("zfs_destroy_dataset", dataset="zones/c")
    assert await names(node) == ["zones"]


async def test_properties(node: Any) -> None:
    """Of one dataset or of all, all or some; quotas and the operator's own can be set."""
    await node.good("zfs_create_dataset", dataset="zones/a")
    await node.good(
        "zfs_set_properties", dataset="zones/a", properties={"quota": "5M", "my:note": 7}
    )
    found = await node.good(
        "zfs_get_properties", dataset="zones/a", properties=["quota", "my:note"]
    )
    assert found == {"zones/a": {"quota": "5M", "my:note": "7"}}
    everything = await node.good("zfs_get_properties")
    assert set(everything) == {"zones", "zones/a"}
    assert int(everything["zones"]["available"]) > 0
    text, code = await refused(
        node, "zfs_set_properties", dataset="zones/a", properties={"compression": "lz4"}
    )
    assert "compression" in text
    assert code == "NotImplemented"


async def test_a_vms_storage_is_a_dataset(node: Any, kit: SimpleNamespace) -> None:
    """Its snapshots are the VM's; it is made and removed by the VM's own tasks."""
    uuid = await node.create(kit, quota=3)
    name = f"zones/{uuid}"
    assert name in await names(node)
    assert f"zones/{kit.image}" in await names(node)
    await node.good("zfs_snapshot_dataset", dataset=f"{name}@one")
    assert [s["name"] for s in (await node.driver.load(uuid))["snapshots"]] == ["one"]
    assert (await node.good("zfs_list_snapshots"))[0]["name"] == f"{name}@one"
    found = await node.good("zfs_get_properties", dataset=name, properties=["quota"])
    assert found == {name: {"quota": str(3 << 30)}}
    await node.good("zfs_rollback_dataset", dataset=f"{name}@one")
    await node.good("zfs_destroy_dataset", dataset=f"{name}@one")
    assert (await refused(node, "zfs_destroy_dataset", dataset=name))[1] == "DatasetInUse"


async def test_the_pool_is_listed(node: Any) -> None:
    """One pool with its room."""
    [pool] = await node.good("zfs_list_pools")
    assert pool["name"] == "zones"
    assert int(pool["size"]) == int(pool["allocated"]) + int(pool["free"])
    assert pool["health"] == "ONLINE"


@pytest.mark.parametrize(
    ("task", "params", "code"),
    [
        ("zfs_create_dataset", {"dataset": "other/a"}, "InvalidPayload"),
        ("zfs_create_dataset", {"dataset": "zones/../x"}, "InvalidPayload"),
        ("zfs_create_dataset", {"dataset": "zones"}, "DatasetInUse"),
        ("zfs_create_dataset", {}, "InvalidPayload"),
        ("zfs_destroy_dataset", {"dataset": "zones/none"}, "DatasetNotFound"),
        ("zfs_snapshot_dataset", {"dataset": "zones/none@a"}, "DatasetNotFound"),
        ("zfs_snapshot_dataset", {"dataset": "zones/none"}, "InvalidPayload"),
        ("zfs_rollback_dataset", {"dataset": "zones/none@a"}, "DatasetNotFound"),
        ("zfs_clone_dataset", {"snapshot": "zones/n@a", "dataset": "zones/x"}, "DatasetNotFound"),
        ("zfs_get_properties", {"dataset": "zones/none"}, "DatasetNotFound"),
        ("zfs_rename_dataset", {"dataset": "zones/none", "newname": "zones/x"}, "DatasetNotFound"),
    ],
)
async def test_what_cannot_be_done(node: Any, task: str, params: dict[str, Any], code: str) -> None:
    """Every failure names the dataset and has a code."""
    text, found = await refused(node, task, **params)
    assert found == code
    assert text.startswith("failed to ")
    assert await names(node) == ["zones"]


async def test_a_name_is_taken_once(node: Any) -> None:
    """Datasets and snapshots alike."""
    await node.good("zfs_create_dataset", dataset="zones/a")
    assert (await refused(node, "zfs_create_dataset", dataset="zones/a"))[1] == "DatasetExists"
    await node.good("zfs_snapshot_dataset", dataset="zones/a@s")
    assert (await refused(node, "zfs_snapshot_dataset", dataset="zones/a@s"))[1] == "SnapshotExists"
