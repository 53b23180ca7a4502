"""Pools whose tools need kernel modules a test machine may lack: the commands they are made of."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from vetro.node.errors import ConfigurationError, DriverError
from vetro.node.storage import detect, open_pool
from vetro.node.storage.btrfs import parse_group
from vetro.node.storage.clones import ClonePool
from vetro.node.storage.lvm import LvmTrees
from vetro.node.storage.project_quota import encode_limit, encode_project, project_id
from vetro.node.storage.zfs import ZfsTrees

Tool = Callable[[str, str], None]


@pytest.fixture
def record(fake_path: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Tools that write down how they are called and answer by a shell script."""
    notes = tmp_path / "calls"

    def install(**answers: str) -> list[str]:
        for name, script in answers.items():
            path = fake_path / name.replace("_", ".")
            path.write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >> {notes}\n{script}\n')
            path.chmod(0o755)
        return []

    def read(**answers: str) -> list[str]:
        if answers:
            return install(**answers)
        lines = notes.read_text().splitlines() if notes.exists() else []
        notes.unlink(missing_ok=True)
        return lines

    return read


async def test_zfs_trees_are_datasets_with_their_paths_as_mount_points(
    tmp_path: Path, record: Callable[..., list[str]]
) -> None:
    """Creating, cloning by a snapshot, limiting."""
    record(zfs="")
    trees = ZfsTrees(tmp_path, "tank/vetro")
    image, root = tmp_path / "images/i/rootfs", tmp_path / "vms/u/root"
    await trees.create(image)
    await trees.clone(image, root, read_only=True)
    await trees.limit(root, 5)
    await trees.limit(root, 0)
    snapshot = trees.snapshot_for(image, root)
    assert snapshot.startswith("tank/vetro/images/i/rootfs@vetro-")
    assert record() == [
        "zfs create -p -o canmount=off tank/vetro/images/i",
        f"zfs create -o mountpoint={image} tank/vetro/images/i/rootfs",
        "zfs create -p -o canmount=off tank/vetro/vms/u",
        f"zfs snapshot {snapshot}",
        f"zfs clone -o mountpoint={root} -o readonly=on {snapshot} tank/vetro/vms/u/root",
        "zfs set quota=5 tank/vetro/vms/u/root",
        "zfs set quota=none tank/vetro/vms/u/root",
    ]


async def test_a_zfs_tree_with_clones_gives_way_to_them(
    tmp_path: Path, record: Callable[..., list[str]]
) -> None:
    """Clones are promoted before their origin goes; a tree that is not a dataset is a directory."""
    record(
        zfs='case "$1" in list) printf "tank\\t-\\ntank/a\\ttank/i@vetro-1\\ntank/b\\ttank/a@vetro-2\\n";;'
        " get) echo tank/i@vetro-1;; esac"
    )
    trees = ZfsTrees(tmp_path, "tank")
    (tmp_path / "plain").mkdir()
    await trees.drop(tmp_path / "a")
    await trees.drop(tmp_path / "plain")
    calls = [call for call in record() if not call.startswith(("zfs list", "zfs get"))]
    assert calls == ["zfs promote tank/b", "zfs destroy -r tank/a", "zfs destroy tank/i@vetro-1"]
    assert not (tmp_path / "plain").exists()


async def test_a_zfs_tree_that_moves_takes_the_snapshot_along_that_it_was_cloned_from(
    tmp_path: Path, record: Callable[..., list[str]]
) -> None:
    """So another tree can be cloned to its path from the same image; other origins stay."""
    trees = ZfsTrees(tmp_path, "tank")
    image, root, former = tmp_path / "image", tmp_path / "u/root", tmp_path / "u/former"
    before, after = trees.snapshot_for(image, root), trees.snapshot_for(image, former)
    moves = ["zfs rename tank/u/root tank/u/former", f"zfs set mountpoint={former} tank/u/former"]
    for origin, more in (
        (before, [f"zfs rename {before} {after}"]),
        ("-", []),
        ("tank/i@by-hand", []),
    ):
        record(zfs=f'case "$1" in get) echo {origin};; esac')
        record()
        await trees.move(root, former)
        assert [call for call in record() if not call.startswith("zfs get")] == [*moves, *more]


async def test_an_lvm_tree_that_moves_is_mounted_at_its_other_path(
    tmp_path: Path, record: Callable[..., list[str]]
) -> None:
    """The volume is named after the path."""
    record(lvrename="", mount="")
    trees = LvmTrees(tmp_path, "vg/thin")
    root, former = tmp_path / "root", tmp_path / "former"
    root.mkdir()
    await trees.move(root, former)
    assert record() == [
        f"lvrename vg {trees.volume(root)} {trees.volume(former)}",
        f"mount -o nodev /dev/vg/{trees.volume(former)} {former}",
    ]
    assert (root.exists(), former.is_dir()) == (False, True)


async def test_zfs_numbers(tmp_path: Path, record: Callable[..., list[str]]) -> None:
    """Size, profile, disks and encryption of the pool."""
    record(
        zfs='case "$*" in *used,available*) printf "10\\n30\\naes-256-gcm\\n";; *) echo 7;; esac',
        zpool='printf "tank\\t1\\nmirror-0\\t1\\n/dev/sda\\t1\\n/dev/sdb\\t1\\n"',
    )
    trees = ZfsTrees(tmp_path, "tank/vetro")
    stats = await trees.stats()
    assert (stats.size, stats.free, stats.profile) == (40, 30, "mirror")
    assert (stats.disks, stats.encrypted) == (("/dev/sda", "/dev/sdb"), True)
    assert await trees.used(tmp_path / "a") == 7


async def test_lvm_trees_are_thin_volumes(tmp_path: Path, record: Callable[..., list[str]]) -> None:
    """Made, formatted and mounted; cloned as thin snapshots; grown to their limit."""
    record(lvcreate="", mkfs_ext4="", mount="", lvchange="", lvextend="",
           lvs='case "$*" in *lv_size*) echo 100;; esac')  # fmt: skip
    trees = LvmTrees(tmp_path, "vg/thin")
    image, root = tmp_path / "image", tmp_path / "root"
    await trees.create(image)
    await trees.clone(image, root, read_only=True)
    await trees.limit(root, 50)
    await trees.limit(root, 500)
    a, b = trees.volume(image), trees.volume(root)
    calls = [call for call in record() if not call.startswith("lvs")]
    assert calls == [
        f"lvcreate --yes --virtualsize 10737418240b --thin vg/thin --name {a}",
        f"mkfs.ext4 -q -m 0 /dev/vg/{a}",
        f"mount -o nodev /dev/vg/{a} {image}",
        f"lvcreate --yes --snapshot --setactivationskip n --name {b} vg/{a}",
        f"lvchange --activate y -K vg/{b}",
        f"mount -o nodev,ro /dev/vg/{b} {root}",
        f"lvextend --resizefs --size 500b vg/{b}",
    ]


async def test_lvm_numbers_and_removal(tmp_path: Path, record: Callable[..., list[str]]) -> None:
    """Usage is a share of the size; a volume that is there is removed."""
    record(
        lvs='case "$*" in *lv_size,data*) echo 1000 25.0;; *lv_size*) echo 200;; *data*) echo 50;; esac',
        vgs="echo /dev/sda /dev/sdb",
        lvremove="",
    )
    trees = LvmTrees(tmp_path, "vg/thin")
    stats = await trees.stats()
    assert (stats.size, stats.free, stats.disks) == (1000, 750, ("/dev/sda", "/dev/sdb"))
    assert await trees.used(tmp_path / "a") == 100
    record()
    await trees.drop(tmp_path / "a")
    assert f"lvremove --yes vg/{trees.volume(tmp_path / 'a')}" in record()


async def test_a_full_pool_says_so(tmp_path: Path, record: Callable[..., list[str]]) -> None:
    """By a code that callers know; other failures carry the tool's words."""
    record(zfs='echo "cannot create: out of space" >&2; exit 1',
           lvcreate='echo "no such pool" >&2; exit 5', lvs="echo linear")  # fmt: skip
    with pytest.raises(DriverError, match="disk is full") as full:
        await ZfsTrees(tmp_path, "tank").create(tmp_path / "a")
    assert full.value.rest_code == "ResourceExhausted"
    lvm = LvmTrees(tmp_path, "vg/thin")
    with pytest.raises(DriverError, match="no such pool"):
        await lvm.create(tmp_path / "a")
    with pytest.raises(ConfigurationError, match="not an LVM thin pool"):
        await lvm.open()
    with pytest.raises(ConfigurationError, match="<volume group>/<thin pool>"):
        LvmTrees(tmp_path, "vg")


async def test_what_was_found_on_a_host_is_said(
    tmp_path: Path, record: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which pool, why, where, and whether quotas hold; missing tools are named before it."""
    record(zfs="", lvcreate="", lvs="echo thin-pool")
    monkeypatch.setattr(detect, "file_system_of", lambda _directory, _mounts: ("zfs", "tank/v"))

    async def said(kind: str, source: str = "") -> list[tuple[Any, ...]]:
        with capture_logs() as logs:
            await open_pool(kind, tmp_path, source)
        names = ("pool", "chosen", "source", "quotas")
        return [
            (one["event"], *(one.get(name) for name in names))
            for one in logs
            if one["event"] in ("storage_pool", "pool_tools_missing")
        ]

    found = ("storage_pool", "zfs", "by the data directory's file system", "tank/v")
    assert await said("auto") == [(*found, "enforced")]
    found = ("storage_pool", "lvm", "as set", "vg/thin")
    assert await said("lvm", "vg/thin") == [(*found, "enforced")]
    monkeypatch.setattr(shutil, "which", lambda _tool: None)
    warned, told = await said("auto")
    assert warned[0] == "pool_tools_missing"
    assert told[:2] == ("storage_pool", "directory")


async def test_snapshots_of_clones_are_read_where_they_are(
    tmp_path: Path, record: Callable[..., list[str]]
) -> None:
    """A dataset or volume that is not mounted after a restart is mounted for it."""
    record(zfs="", lvchange="", mount="")
    for trees in (ZfsTrees(tmp_path, "tank"), LvmTrees(tmp_path, "vg/thin")):
        pool = ClonePool(trees)
        path, own = await pool.show_snapshot(tmp_path / "vm", "s", [], tmp_path / "view", None)
        assert (path, own) == (tmp_path / "vm/snapshots/at-s", False)
        path.mkdir(parents=True, exist_ok=True)
    dataset, volume, mounted = record()
    assert dataset == "zfs mount tank/vm/snapshots/at-s"
    assert volume.startswith("lvchange --activate y")
    assert mounted.endswith("/vm/snapshots/at-s")


def test_btrfs_groups_are_read_by_number() -> None:
    """Headers and other groups are passed over."""
    text = "Qgroupid Referenced Exclusive\n-------- ---- ----\n0/256 16384 4096\n0/257 99 1\n"
    assert parse_group(text, "0/256") == (16384, 4096)
    assert parse_group(text, "0/999") == (0, 0)


def test_project_quotas_are_told_in_the_kernels_form() -> None:
    """struct if_dqblk is 72 bytes with limits in KiB; the project is inherited."""
    limit = encode_limit(10 * 1024 + 1)
    assert len(limit) == 72
    assert int.from_bytes(limit[:8], "little") == int.from_bytes(limit[8:16], "little") == 11
    assert int.from_bytes(limit[64:68], "little") == 1
    attributes = encode_project(bytes(28), 77)
    assert len(attributes) == 28
    assert int.from_bytes(attributes[12:16], "little") == 77
    assert int.from_bytes(attributes[:4], "little") & 0x200
    assert project_id(Path("/a")) == project_id(Path("/a")) != project_id(Path("/b"))
