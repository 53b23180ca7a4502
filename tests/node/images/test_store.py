"""Images on a node: fetched once, whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import io
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.node.conftest import IMAGE

from vetro.node.errors import DriverError, ImageError
from vetro.node.images.bootstrap import keep_once
from vetro.node.images.store import ImageStore


class Source:
    """An image service that counts; ``content`` is the file it gives."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = content
        self.fetched = 0
        self.manifest: dict[str, Any] | None = {"uuid": IMAGE, "name": "tiny"}
        self.go = asyncio.Event()
        self.go.set()

    async def describe(self, _uuid: str) -> dict[str, Any] | None:
        return self.manifest

    async def fetch(self, _uuid: str, path: Path) -> None:
        self.fetched += 1
        await self.go.wait()
        path.write_bytes(self.content)


async def store(tmp_path: Path, source: Source, id_base: int | None = None) -> ImageStore:
    """An opened store."""
    made = ImageStore(
        tmp_path / "images", describe=source.describe, fetch=source.fetch, id_base=id_base
    )
    await made.open()
    return made


def tar(entries: dict[str, bytes]) -> bytes:
    """A tar with these files, owned by root."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


async def test_an_image_is_described_and_listed(tmp_path: Path) -> None:
    """After ensure it is here, also for another store on the same directory."""
    images = await store(tmp_path, Source())
    with pytest.raises(ImageError) as error:
        images.manifest(IMAGE)
    assert error.value.rest_code == "ImageNotInstalled"
    await images.ensure(IMAGE)
    assert images.manifest(IMAGE)["name"] == "tiny"
    assert [m["uuid"] for m in (await store(tmp_path, Source())).list()] == [IMAGE]
    await images.delete(IMAGE)
    await images.delete(IMAGE)
    assert images.list() == []


async def test_an_image_nobody_has_is_an_error(tmp_path: Path) -> None:
    """The error names the image."""
    source = Source()
    source.manifest = None
    with pytest.raises(ImageError, match=f"Image {IMAGE} does not exist"):
        await (await store(tmp_path, source)).ensure(IMAGE)


async def test_a_name_that_is_no_uuid_is_refused(tmp_path: Path) -> None:
    """A name such as a path is refused."""
    with pytest.raises(DriverError, match="not a uuid"):
        await (await store(tmp_path, Source())).ensure("../../etc")


async def test_unfinished_images_are_removed_at_start(tmp_path: Path) -> None:
    """What a killed agent left under a temporary name."""
    (tmp_path / "images" / f".new-{IMAGE}" / "rootfs").mkdir(parents=True)
    assert list((await store(tmp_path, Source())).directory.iterdir()) == []


@pytest.mark.root
async def test_several_callers_fetch_once(tmp_path: Path) -> None:
    """The second waits for the first."""
    source = Source(tar({"./etc/name": b"x"}))
    source.go.clear()
    images = await store(tmp_path, source, 100000 * 10)
    waiting = [asyncio.create_task(images.ensure(IMAGE)) for _ in range(3)]
    await asyncio.sleep(0)
    source.go.set()
    await asyncio.gather(*waiting)
    assert source.fetched == 1
    assert (images.root(IMAGE) / "etc/name").stat().st_uid == 1000000


@pytest.mark.root
@pytest.mark.parametrize("tool", [None, "gzip", "zstd", "xz", "bzip2"])
async def test_every_compression_is_recognised(tmp_path: Path, tool: str | None) -> None:
    """By its first bytes, not by a name."""
    content = tar({"./etc/name": b"x", "./dev/thing": b""})
    if tool:
        content = subprocess.run([tool, "-c"], input=content, stdout=-1, check=True).stdout
    images = await store(tmp_path, Source(content), 1000000)
    await images.ensure(IMAGE)
    assert (images.root(IMAGE) / "etc/name").read_bytes() == b"x"
    assert not (images.root(IMAGE) / "dev/thing").exists()


@pytest.mark.root
async def test_an_archive_cannot_write_outside(tmp_path: Path) -> None:
    """Neither `..` nor a link leads outside: it is unpacked without privileges."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        link = tarfile.TarInfo("./out")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        archive.addfile(link)
        for name in ("./out/escaped", "../escaped", "./../../escaped"):
            archive.addfile(tarfile.TarInfo(name))
    tmp_path.chmod(0o755)
    images = await store(tmp_path, Source(out.getvalue()), 1000000)
    with pytest.raises(ImageError, match="not a root file system"):
        await images.ensure(IMAGE)
    assert list(tmp_path.glob("**/escaped")) == []
    assert images.list() == []


@pytest.mark.root
async def test_a_file_that_arrived_damaged_is_refused(tmp_path: Path) -> None:
    """The digest of the manifest is checked before anything is unpacked."""
    content = tar({"./a": b"x"})
    source = Source(content)
    source.manifest = {"uuid": IMAGE, "sha256": hashlib.sha256(content + b"?").hexdigest()}
    images = await store(tmp_path, source, 1000000)
    with pytest.raises(ImageError, match="arrived damaged") as error:
        await images.ensure(IMAGE)
    assert error.value.rest_code == "ImageCorrupt"
    assert list(images.directory.iterdir()) == []
    source.manifest = {"uuid": IMAGE, "sha256": hashlib.sha256(content).hexdigest()}
    await images.ensure(IMAGE)


@pytest.mark.root
async def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    """A compressed file that ends early leaves no image."""
    import os

    content = subprocess.run(
        ["gzip", "-c"], input=tar({"./a": os.urandom(200000)}), stdout=-1, check=True
    ).stdout
    images = await store(tmp_path, Source(content[: len(content) // 2]), 1000000)
    with pytest.raises(ImageError, match="is not a root file system"):
        await images.ensure(IMAGE)
    assert list(images.directory.iterdir()) == []


async def test_the_file_of_a_service_on_this_machine_is_kept_once(tmp_path: Path) -> None:
    """A second name of the same bytes, checked like any other; a wrong one is fetched instead."""
    content = b"the image's file"
    (tmp_path / "service").mkdir()
    stored = tmp_path / "service" / f"{IMAGE}.image"
    stored.write_bytes(content)
    source = Source(content)
    source.manifest = {"uuid": IMAGE, "sha256": hashlib.sha256(content).hexdigest()}
    images = ImageStore(
        tmp_path / "images",
        describe=source.describe,
        fetch=source.fetch,
        id_base=None,
        nearby=tmp_path / "service",
    )
    await images.open()
    archive = tmp_path / "file"
    await images._fetch_file(IMAGE, archive, source.manifest, ())
    assert archive.samefile(stored)
    assert source.fetched == 0
    archive.unlink()
    stored.write_bytes(b"damaged")
    await images._fetch_file(IMAGE, archive, source.manifest, ())
    assert (archive.read_bytes(), source.fetched) == (content, 1)
    assert not archive.samefile(stored)


async def test_an_image_nobody_waits_for_leaves_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused with the figures where it would leave less than 1 GiB free."""
    source = Source()
    source.manifest = {"uuid": IMAGE, "size": 100 << 20}
    images = await store(tmp_path, source, id_base=100000)
    free = 1600 << 20

    async def stats() -> Any:
        return SimpleNamespace(free=free, size=free)

    monkeypatch.setattr(images._trees, "stats", stats)
    with pytest.raises(ImageError, match="1624 MiB .* 1600 MiB") as error:
        await images.refuse_without_room(IMAGE)
    assert error.value.rest_code == "NoRoomForImage"
    free = 1700 << 20
    await images.refuse_without_room(IMAGE)


async def test_how_far_an_image_is_can_be_watched(tmp_path: Path) -> None:
    """Fetching with what has arrived of it, then present, then gone; a failure leaves nothing."""
    source = Source(b"x" * 100)
    source.manifest = {"uuid": IMAGE, "size": 100}
    images = await store(tmp_path, source)
    seen: list[dict[str, Any]] = []
    images.watch(lambda: seen.append(images.copies()))
    await images.ensure(IMAGE)
    assert seen[0] == {IMAGE: {"state": "fetching", "percent": 0}}
    assert seen[-1] == {IMAGE: {"state": "present", "percent": 100}}
    await images.delete(IMAGE)
    assert seen[-1] == {}
    source.manifest = None
    with pytest.raises(ImageError):
        await images.ensure(IMAGE)
    assert images.copies() == {}


async def test_a_built_image_and_the_services_file_are_one(tmp_path: Path) -> None:
    """Where the service has the same bytes here, the build cache keeps a second name of them."""
    built, stored = tmp_path / "a.tar", tmp_path / "b.image"
    built.write_bytes(b"same")
    assert not keep_once(built, stored)
    stored.write_bytes(b"same")
    assert keep_once(built, stored)
    assert built.samefile(stored)
