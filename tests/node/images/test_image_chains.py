"""Images made from other images, images of other nodes, images nobody uses, and too little room."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vetro.node.errors import ImageError
from vetro.node.images.store import ImageStore
from vetro.node.storage import open_pool
from vetro.node.storage.mounts import mount_overlay, unmount

pytestmark = pytest.mark.root

BASE = "11111111-0000-4000-8000-000000000001"
CHILD = "22222222-0000-4000-8000-000000000002"
GRANDCHILD = "33333333-0000-4000-8000-000000000003"
OWNER = 1_000_000


@dataclass
class Service:
    """An image service: manifests and files by uuid. ``peers`` are other nodes' files by URL."""

    manifests: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    peers: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def add(self, uuid: str, entries: dict[str, bytes | None], **manifest: Any) -> None:
        """An image of a tar; an entry without content is a directory."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            for name, data in entries.items():
                info = tarfile.TarInfo(name)
                info.mode = 0o755
                if data is None:
                    info.type = tarfile.DIRTYPE
                else:
                    info.size = len(data)
                archive.addfile(info, io.BytesIO(data or b""))
        self.files[uuid] = out.getvalue()
        digest = hashlib.sha256(self.files[uuid]).hexdigest()
        self.manifests[uuid] = {"uuid": uuid, "sha256": digest, **manifest}

    async def describe(self, uuid: str) -> dict[str, Any] | None:
        return self.manifests.get(uuid)

    async def fetch(self, uuid: str, path: Path) -> None:
        self.asked.append(uuid)
        path.write_bytes(self.files[uuid])

    async def fetch_from(self, url: str, uuid: str, sha256: str, path: Path) -> None:
        assert sha256 == self.manifests[uuid]["sha256"]
        self.asked.append(f"{url}/{uuid}")
        if url not in self.peers:
            raise ImageError("no such node")
        path.write_bytes(self.peers[url])


@pytest.fixture
def service() -> Service:
    """A base, an image that changes it, and one that changes that."""
    made = Service()
    made.add(BASE, {"./etc": None, "./etc/a": b"1", "./etc/b": b"1", "./old": None,
                    "./old/x": b"1", "./dir": None, "./dir/below": b"1"})  # fmt: skip
    made.add(
        CHILD,
        {"./etc": None, "./etc/a": b"2", "./etc/.wh.b": b"", "./old": None,
         "./old/.wh..wh..opq": b"", "./old/y": b"2", "./dir": b"now a file"},
        origin=BASE,
    )  # fmt: skip
    made.add(GRANDCHILD, {"./etc": None, "./etc/c": b"3", "./old": None, "./old/.wh.y": b""},
             origin=CHILD)  # fmt: skip
    return made


@pytest.fixture(params=["directory", "btrfs"])
async def images(
    request: pytest.FixtureRequest, tmp_path: Path, kit: SimpleNamespace, service: Service
) -> AsyncIterator[SimpleNamespace]:
    """An image store on each kind of pool, and how its images are looked at."""
    with kit.loop_mount(tmp_path, "ext4" if request.param == "directory" else "btrfs") as base:
        pool = await open_pool("auto", base)
        store = ImageStore(
            base / "images", describe=service.describe, fetch=service.fetch,
            fetch_from=service.fetch_from, id_base=OWNER, trees=pool.trees, layered=pool.layered,
        )  # fmt: skip
        await store.open()

        def tree(uuid: str) -> dict[str, str]:
            layers = store.layers(uuid)
            root = layers[0]
            if pool.layered:
                for name in ("upper", "work", "seen"):
                    (base / name).mkdir(exist_ok=True)
                root = base / "seen"
                mount_overlay(layers, base / "upper", base / "work", root)
            files = {
                str(path.relative_to(root)): path.read_text()
                for path in sorted(root.rglob("*")) if path.is_file()
            }  # fmt: skip
            if pool.layered:
                unmount(root)
            return files

        yield SimpleNamespace(store=store, tree=tree, base=base, pool=pool)


async def test_a_chain_of_origins_is_fetched_and_shows_what_each_changes(
    images: Any, service: Service
) -> None:
    """Changed, removed, opaque, and a file in place of a directory."""
    await images.store.ensure(GRANDCHILD)
    assert service.asked == [BASE, CHILD, GRANDCHILD]
    assert images.tree(BASE) == {"etc/a": "1", "etc/b": "1", "old/x": "1", "dir/below": "1"}
    assert images.tree(CHILD) == {"etc/a": "2", "old/y": "2", "dir": "now a file"}
    assert images.tree(GRANDCHILD) == {"etc/a": "2", "etc/c": "3", "dir": "now a file"}


async def test_an_origin_is_not_deleted_before_what_is_made_from_it(images: Any) -> None:
    """The other order is fine and leaves nothing."""
    await images.store.ensure(CHILD)
    with pytest.raises(ImageError, match="origin of") as refused:
        await images.store.delete(BASE)
    assert refused.value.rest_code == "ImageInUse"
    await images.store.delete(CHILD)
    await images.store.delete(BASE)
    assert list(images.store.directory.iterdir()) == []


async def test_images_nobody_uses_are_collected_with_their_origins(images: Any) -> None:
    """Those in use and their origins stay, and those used lately."""
    await images.store.ensure(GRANDCHILD)
    assert await images.store.collect({CHILD}, 3600) == []
    for uuid in (BASE, CHILD, GRANDCHILD):
        os.utime(images.store.directory / uuid / "manifest.json", (1, 1))
    assert await images.store.collect({CHILD}, 3600) == [GRANDCHILD]
    assert await images.store.collect([], 3600) == [CHILD, BASE]
    assert images.store.list() == []


async def test_a_circle_of_origins_is_refused(images: Any, service: Service) -> None:
    """It would never end."""
    service.manifests[BASE]["origin"] = GRANDCHILD
    with pytest.raises(ImageError, match="itself among its origins"):
        await images.store.ensure(GRANDCHILD)
    assert images.store.list() == []


async def test_an_image_comes_from_another_node_when_its_digest_is_right(
    images: Any, service: Service
) -> None:
    """A node that has something else, or is gone, is passed over; the service is asked last."""
    good = service.files[BASE]
    service.peers = {"http://wrong": good + b"?", "http://right": good}
    await images.store.ensure(BASE, ["http://gone", "http://wrong", "http://right"])
    assert service.asked == [f"http://{node}/{BASE}" for node in ("gone", "wrong", "right")]
    assert images.tree(BASE)["etc/a"] == "1"
    await images.store.delete(BASE)
    await images.store.ensure(BASE, ["http://wrong"])
    assert service.asked[-1] == BASE


async def test_an_unfinished_image_is_removed_at_start(images: Any, service: Service) -> None:
    """Its tree as well, whatever the pool makes trees of; then it is fetched again."""
    await images.store.ensure(BASE)
    (images.store.directory / BASE / "manifest.json").unlink()
    await images.store.open()
    assert list(images.store.directory.iterdir()) == []
    await images.store.ensure(BASE)
    assert images.tree(BASE)["etc/a"] == "1"


@pytest.mark.parametrize("step", ["fetch", "unpack"])
async def test_a_full_disk_leaves_nothing_and_says_so(
    tmp_path: Path, service: Service, step: str
) -> None:
    """Whether the file does not fit or its contents: the image is not there, the room is free again."""
    point = tmp_path / "small"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(point)], check=True)
    try:
        size = 8 << 20 if step == "fetch" else 6 << 20
        service.add(BASE, {"./big": os.urandom(size) if step == "fetch" else b"\0" * size})
        if step == "unpack":
            raw = service.files[BASE]
            service.files[BASE] = subprocess.run(
                ["gzip", "-c"], input=raw, capture_output=True, check=True
            ).stdout
            service.manifests[BASE]["sha256"] = hashlib.sha256(service.files[BASE]).hexdigest()
        store = ImageStore(
            point / "images", describe=service.describe, fetch=service.fetch, id_base=OWNER
        )
        await store.open()
        before = os.statvfs(point).f_bfree
        with pytest.raises(ImageError) as full:
            await store.ensure(BASE)
        assert full.value.rest_code == "ResourceExhausted"
        assert "full" in str(full.value) or "No space left" in str(full.value)
        assert list(store.directory.iterdir()) == []
        assert os.statvfs(point).f_bfree == before
        service.add(BASE, {"./small": b"x"})
        await store.ensure(BASE)
    finally:
        subprocess.run(["umount", str(point)], check=True)
