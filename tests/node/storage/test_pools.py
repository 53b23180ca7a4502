"""Pools whose tools are on every test machine: directories and btrfs, for real."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vetro.node.errors import ConfigurationError, DriverError
from vetro.node.storage import open_pool
from vetro.node.storage.detect import file_system_of
from vetro.node.storage.mounts import unmount

pytestmark = pytest.mark.root

MIB = 2**20


@pytest.fixture(params=["directory", "btrfs"])
async def pool(
    request: pytest.FixtureRequest, tmp_path: Path, kit: SimpleNamespace
) -> AsyncIterator[SimpleNamespace]:
    """A pool with an image of one file and an empty VM directory."""
    kind = "ext4" if request.param == "directory" else "btrfs"
    with kit.loop_mount(tmp_path, kind) as base:
        opened = await open_pool("auto", base)
        assert opened.trees.kind == request.param
        image = base / "image"
        await opened.trees.create(image)
        (image / "file").write_bytes(b"image" * 200_000)
        directory, target = base / "vm", base / "mounted"
        directory.mkdir()
        target.mkdir()
        yield SimpleNamespace(
            pool=opened, base=base, layers=[image], directory=directory, target=target
        )
        unmount(target)


async def make(kit: Any, quota: int = 0) -> Path:
    """A mounted root."""
    await kit.pool.create_root(kit.directory, kit.layers, owner=0, quota_bytes=quota)
    await kit.pool.mount_root(kit.directory, kit.layers, kit.target, None)
    return kit.target


async def test_a_root_begins_as_the_image_and_leaves_it_alone(pool: Any) -> None:
    """Changes are the root's own; made again, it is the image again."""
    root = await make(pool)
    assert (root / "file").read_bytes()[:5] == b"image"
    (root / "file").write_text("changed")
    assert (pool.layers[0] / "file").read_bytes()[:5] == b"image"
    unmount(root)
    root = await make(pool)
    assert (root / "file").read_bytes()[:5] == b"image"


async def test_usage_counts_what_the_root_wrote(pool: Any) -> None:
    """The image's own bytes are not counted, snapshots are."""
    root = await make(pool)
    assert await pool.pool.used(pool.directory) < MIB
    (root / "more").write_bytes(b"x" * 3 * MIB)
    used = await pool.pool.used(pool.directory)
    assert 3 * MIB <= used < 4 * MIB
    await pool.pool.snapshot(pool.directory, "one")
    (root / "more").write_bytes(b"y" * 3 * MIB)
    assert await pool.pool.used(pool.directory) >= 6 * MIB


async def test_everything_goes(pool: Any) -> None:
    """Root, snapshots and clones of snapshots."""
    await make(pool)
    await pool.pool.snapshot(pool.directory, "one")
    unmount(pool.target)
    await pool.pool.rollback(pool.directory, "one")
    await pool.pool.snapshot(pool.directory, "..two")
    await pool.pool.destroy_root(pool.directory)
    await pool.pool.destroy_root(pool.directory)
    assert list(pool.directory.iterdir()) == []


async def test_a_quota_below_what_is_used_is_refused(pool: Any) -> None:
    """Shrinking fails before anything changes."""
    root = await make(pool, 20 * MIB)
    (root / "more").write_bytes(b"x" * 3 * MIB)
    with pytest.raises(DriverError, match="quota") as refused:
        await pool.pool.resize_root(pool.directory, 2 * MIB)
    assert refused.value.rest_code == "ResourceExhausted"
    await pool.pool.resize_root(pool.directory, 10 * MIB)


async def test_the_pools_size_is_the_file_systems(pool: Any) -> None:
    """Some of it is free."""
    stats = await pool.pool.trees.stats()
    assert 0 < stats.free < stats.size <= 512 * MIB


async def test_btrfs_keeps_its_quotas(tmp_path: Path, kit: SimpleNamespace) -> None:
    """Writing stops at the quota, which does not count the image; raising it lets more in."""
    with kit.loop_mount(tmp_path, "btrfs") as base:
        opened = await open_pool("btrfs", base)
        assert opened.trees.enforces_quota
        image, directory = base / "image", base / "vm"
        await opened.trees.create(image)
        (image / "file").write_bytes(b"z" * 12 * MIB)
        directory.mkdir()
        await opened.create_root(directory, [image], owner=0, quota_bytes=8 * MIB)

        def fill(mebibytes: int) -> int:
            return subprocess.run(
                ["dd", "if=/dev/urandom", f"of={directory}/root/new", "bs=1M",
                 f"count={mebibytes}", "conv=fsync"],
                check=False, capture_output=True,
            ).returncode  # fmt: skip

        assert fill(6) == 0
        assert fill(20) != 0
        await opened.resize_root(directory, 40 * MIB)
        assert fill(20) == 0


async def test_a_pool_that_is_not_there_is_a_configuration_error(tmp_path: Path) -> None:
    """The operator is told what does not fit."""
    for kind, message in (("btrfs", "is on"), ("lvm", "volume group"), ("tape", "no storage pool")):
        with pytest.raises(ConfigurationError, match=message):
            await open_pool(kind, tmp_path)


def test_the_innermost_mount_counts() -> None:
    """Also with a blank and an umlaut in its path, and one mounted over another."""
    mounts = (
        "1 0 8:1 / / rw - ext4 /dev/a rw\n"
        "2 1 0:5 / /var/lib/my\\040däta rw - btrfs /dev/b rw\n"
        "3 1 0:6 / /srv rw - xfs /dev/c rw\n"
        "4 3 0:7 / /srv rw - zfs tank/x rw\n"
    )
    assert file_system_of(Path("/var/lib/my däta/x"), mounts) == ("btrfs", "/dev/b")
    assert file_system_of(Path("/var/lib"), mounts) == ("ext4", "/dev/a")
    assert file_system_of(Path("/srv/node"), mounts) == ("zfs", "tank/x")
