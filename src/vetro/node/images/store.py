"""Images on a node: fetched once, unpacked once for all containers.

``<data_dir>/images/<uuid>/`` holds ``rootfs``, the unpacked tree whose owners are in the images' id
range, and ``manifest.json``, which is written last: a directory without it is unfinished. The tree
is read-only. Images of VMs are not unpacked: their disk is the file ``file``. A node that serves
images to others keeps the ``file`` of containers' images as well.

An image with an origin holds only the differences (``.wh.`` entries for removed files). Where the
pool uses overlays it is one more layer; elsewhere it is a clone of its origin with the changes
applied.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from pathlib import Path
from typing import TypedDict, cast

import structlog

from vetro.json_values import JsonObject
from vetro.node.errors import CommandFailed, ImageError, NodeError
from vetro.node.files import read_json, remove_tree, write_json
from vetro.node.images import vm_images
from vetro.node.images.archive import mark_whiteouts, merge_layer, unpack
from vetro.node.storage.directory import DirectoryTrees
from vetro.node.storage.pool import Trees
from vetro.node.storage.room import storage_error
from vetro.node.vm_objects import UUID, check_uuid

log = structlog.get_logger(__name__)

Fetch = Callable[[str, Path], Awaitable[None]]
FetchFrom = Callable[[str, str, str, Path], Awaitable[None]]
Describe = Callable[[str], Awaitable[JsonObject | None]]

#: Types of images that are a VM's disk, not a root file system.
DISK_TYPES = frozenset({"qcow2", "raw", "vm", "zvol", "qemu-qcow2"})
_CHAIN_LIMIT = 20
_LOOK_SECONDS = 0.2
#: The space an unpacked tree needs, in multiples of its (compressed) file, and the space that a
#: prefetched image must leave free for containers.
_UNPACKED_SIZES = 5
_LEFT_FREE = 1 << 30
#: The percentage at which an image's file has been fetched.
_FETCHED = 40


class Copy(TypedDict):
    """How far an image of a node is: ``fetching``, ``unpacking`` or ``present``."""

    state: str
    percent: int


class ImageStore:
    """The images of one node.

    ``describe(uuid)`` returns the manifest from the service (``None``: no such image),
    ``fetch(uuid, path)`` its file, and ``fetch_from(url, uuid, sha256, path)`` the file from
    another node. ``id_base``: where the images' id range begins; ``None``: this node does
    not unpack (drivers without root file systems). ``trees``: creates the trees; ``layered``: an
    image with an origin holds only its changes. ``keep_files``: keep fetched files, for other
    nodes. ``vm_group``: the group that reads the disks of VM images
    (``vetro.node.images.vm_images``); ``None``: no virtual machines here. ``nearby``: where a
    service on this machine keeps its files (``<uuid>.image``): such a file is linked instead of
    copied.
    """

    def __init__(
        self,
        directory: Path,
        *,
        describe: Describe,
        fetch: Fetch,
        id_base: int | None,
        fetch_from: FetchFrom | None = None,
        trees: Trees | None = None,
        layered: bool = True,
        keep_files: bool = False,
        vm_group: int | None = None,
        nearby: Path | None = None,
    ) -> None:
        self.directory = directory
        self._describe = describe
        self._fetch = fetch
        self._fetch_from = fetch_from
        self._id_base = id_base
        self._trees: Trees = trees or DirectoryTrees(directory)
        self._layered = layered
        self._keep_files = keep_files
        self._vm_group = vm_group
        self._nearby = nearby
        self._locks: dict[str, asyncio.Lock] = {}
        self._underway: dict[str, Copy] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` when an image arrives, makes progress or is removed."""
        self._watchers.append(changed)

    @contextlib.contextmanager
    def watched(self, changed: Callable[[], None]) -> Generator[None]:
        """``watch`` until the block ends."""
        self._watchers.append(changed)
        try:
            yield
        finally:
            self._watchers.remove(changed)

    def copies(self) -> dict[str, Copy]:
        """The progress of every image of this node, by uuid."""
        here = {str(one["uuid"]): Copy(state="present", percent=100) for one in self.list()}
        return {**here, **self._underway}

    def _report(self, uuid: str, state: str, percent: float) -> None:
        now = Copy(state=state, percent=min(99, int(percent))) if state else None
        if now == self._underway.get(uuid) and now is not None:
            return
        if now is None:
            self._underway.pop(uuid, None)
        else:
            self._underway[uuid] = now
        for changed in self._watchers:
            changed()

    async def refuse_without_room(self, uuid: str) -> None:
        """For an image that is fetched in advance.

        Errors: ``ImageError`` ``NoRoomForImage`` when it would leave less than 1 GiB of the pool free.
        """
        if read_json(self.directory / check_uuid(uuid, "image_uuid") / "manifest.json") is not None:
            return
        manifest = await self._describe(uuid)
        size = int((manifest or {}).get("size") or 0)
        if self._id_base is None and self._vm_group is None:
            return  # nothing is fetched
        needed = size * (1 + _UNPACKED_SIZES) + _LEFT_FREE
        free = (await self._trees.stats()).free
        if free < needed:
            raise ImageError(
                f"Image {uuid} is not fetched before it is needed: that takes up to"
                f" {needed >> 20} MiB with the 1024 MiB that stay free, and {free >> 20} MiB are",
                "NoRoomForImage",
            )

    async def open(self) -> None:
        """Create the directory; remove what a killed agent left unfinished."""
        self.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        for entry in list(self.directory.iterdir()):
            if not UUID.fullmatch(entry.name) or read_json(entry / "manifest.json") is None:
                log.info("unfinished_image_removed", path=str(entry))
                await self._discard(entry)
            elif (entry / "rootfs").is_dir():
                await self._trees.activate(entry / "rootfs")

    async def _discard(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            (path / "manifest.json").unlink()
        await self._trees.drop(path / "rootfs")
        await asyncio.to_thread(remove_tree, path)

    def root(self, uuid: str) -> Path:
        """The unpacked tree. Errors: ``ImageError`` when this node does not have the image."""
        self.manifest(uuid)
        path = self.directory / uuid / "rootfs"
        if not path.is_dir():
            raise ImageError(f"Image {uuid} is not a root file system", "ImageNotInstalled")
        return path

    def layers(self, uuid: str) -> list[Path]:
        """The trees of which an overlay over this image consists, topmost first."""
        found = [self.root(uuid)]
        origin = self.origin(uuid)
        while self._layered and origin:
            found.append(self.root(origin))
            origin = self.origin(origin)
        return found

    def file(self, uuid: str) -> Path:
        """The image's file as it was fetched. Errors: ``ImageError`` when it was not kept."""
        self.manifest(uuid)
        path = self.directory / check_uuid(uuid, "image_uuid") / "file"
        if not path.is_file():
            raise ImageError(f"The file of image {uuid} is not kept here", "ImageNotInstalled")
        return path

    def origin(self, uuid: str) -> str | None:
        """The image from which this one was made, if it holds only the differences."""
        origin = self.manifest(uuid).get("origin")
        return str(origin) if origin else None

    def manifest(self, uuid: str) -> JsonObject:
        """The manifest of an image on this node. Errors: ``ImageError``."""
        found = read_json(self.directory / check_uuid(uuid, "image_uuid") / "manifest.json")
        if found is None:
            raise ImageError(f"Image {uuid} is not on this node", "ImageNotInstalled")
        return found

    def list(self) -> list[JsonObject]:
        """The manifests of all images on this node."""
        return [
            manifest
            for entry in sorted(self.directory.iterdir())
            if UUID.fullmatch(entry.name) and (manifest := read_json(entry / "manifest.json"))
        ]

    async def ensure(self, uuid: str, peers: Sequence[str] = ()) -> dict[str, object]:
        """The manifest of ``uuid``; fetches and unpacks it and its origins when missing.

        ``peers``: URLs of other nodes' agents that may have the file; the service is asked last.
        Concurrent callers for one image wait for the first one. Errors: ``ImageError``.
        """
        return await self._ensure(check_uuid(uuid, "image_uuid"), peers, ())

    async def _ensure(self, uuid: str, peers: Sequence[str], above: tuple[str, ...]) -> JsonObject:
        if uuid in above or len(above) > _CHAIN_LIMIT:
            raise ImageError(f"Image {uuid} has itself among its origins", "ImageCorrupt")
        async with self._locks.setdefault(uuid, asyncio.Lock()):
            present = read_json(self.directory / uuid / "manifest.json")
            if present is not None:
                # The modification time is the time of the last use, for ``collect``.
                os.utime(self.directory / uuid / "manifest.json")
                return present
            manifest = await self._describe(uuid)
            if manifest is None:
                raise ImageError(f"Image {uuid} does not exist in the image service")
            origin = manifest.get("origin")
            if origin and self._id_base is not None:
                await self._ensure(check_uuid(origin, "origin"), peers, (*above, uuid))
            try:
                self._report(uuid, "fetching", 0)
                await self._install(uuid, manifest, peers)
            finally:
                self._report(uuid, "", 0)
            return manifest

    async def delete(self, uuid: str) -> None:
        """Remove an image from this node. The caller ensures that no container uses it.

        Errors: ``ImageError`` ``ImageInUse`` when it is the origin of another image.
        """
        children = [one["uuid"] for one in self.list() if one.get("origin") == uuid]
        if children:
            raise ImageError(
                f"Image {uuid} is the origin of {', '.join(children[:5])}", "ImageInUse"
            )
        async with self._locks.setdefault(uuid, asyncio.Lock()):
            await self._discard(self.directory / check_uuid(uuid, "image_uuid"))
        self._report(uuid, "", 0)

    async def collect(self, used: Collection[str], older_than_seconds: float) -> list[str]:
        """Remove images that were not used for that long; returns their uuids.

        ``used`` (VMs' images) and their origins stay. Derived images are removed before their
        origins.
        """
        keep = set(used)
        for uuid in used:
            with contextlib.suppress(ImageError):
                origin = self.origin(uuid)
                while origin and origin not in keep:
                    keep.add(origin)
                    origin = self.origin(origin)
        gone: list[str] = []
        while True:
            manifests = self.list()
            origins = {one.get("origin") for one in manifests}
            due = [
                one["uuid"]
                for one in manifests
                if one["uuid"] not in keep
                and one["uuid"] not in origins
                and self._age(one["uuid"]) >= older_than_seconds
            ]
            if not due:
                return gone
            for uuid in due:
                log.info("unused_image_removed", image=uuid)
                await self.delete(uuid)
                gone.append(uuid)

    def _age(self, uuid: str) -> float:
        try:
            return time.time() - (self.directory / uuid / "manifest.json").stat().st_mtime
        except FileNotFoundError:
            return 0.0

    async def _install(self, uuid: str, manifest: JsonObject, peers: Sequence[str]) -> None:
        work = self.directory / uuid
        try:
            await self._discard(work)
            work.mkdir(mode=0o711)
            is_disk = manifest.get("type") in DISK_TYPES
            if self._id_base is not None or (is_disk and self._vm_group is not None):
                archive = work / "file"
                await self._fetch_file(uuid, archive, manifest, peers)
                self._report(uuid, "unpacking", _FETCHED)
                if is_disk and self._vm_group is not None:
                    await vm_images.install(archive, work, uuid, self._vm_group)
                    if not self._keep_files:
                        archive.unlink()
                elif is_disk:
                    archive.chmod(0o644)
                else:
                    await self._make_tree(uuid, archive, manifest)
                    if not self._keep_files:
                        archive.unlink()
            write_json(work / "manifest.json", {**manifest, "uuid": uuid})
        except BaseException as error:
            await self._discard(work)
            if isinstance(error, OSError):
                raise ImageError(
                    f"Image {uuid} could not be stored in {self.directory}: {error.strerror}",
                    "ResourceExhausted",
                ) from error
            raise

    async def _fetch_file(
        self, uuid: str, archive: Path, manifest: JsonObject, peers: Sequence[str]
    ) -> None:
        wanted = sha256_of(manifest)
        # (The disks of virtual machines get other owners.)
        if manifest.get("type") not in DISK_TYPES and self._link(uuid, archive):
            try:
                await _check_digest(archive, uuid, wanted)
            except ImageError as error:
                log.warning("image_file_differs", image=uuid, error=str(error))
                archive.unlink()
            else:
                return
        size = int(manifest.get("size") or 0)
        looking = asyncio.create_task(self._look(uuid, archive, size))
        try:
            await self._download(uuid, archive, peers, wanted)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    def _link(self, uuid: str, archive: Path) -> bool:
        """Hard-link the service's file on this machine as ours; False where that is impossible."""
        if self._nearby is None:
            return False
        try:
            # A second name of the same bytes: it stays when the service removes its own.
            os.link(self._nearby / f"{uuid}.image", archive)
        except OSError as error:
            # Another file system, or the service has moved: the file is fetched instead.
            log.info("image_file_not_linked", image=uuid, error=str(error))
            return False
        return True

    async def _look(self, uuid: str, archive: Path, size: int) -> None:
        while size:
            with contextlib.suppress(FileNotFoundError):
                self._report(uuid, "fetching", _FETCHED * archive.stat().st_size / size)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _download(self, uuid: str, archive: Path, peers: Sequence[str], wanted: str) -> None:
        # Without a digest, a file from another node could not be verified.
        for peer in peers if wanted and self._fetch_from is not None else ():
            assert self._fetch_from is not None
            try:
                await self._fetch_from(peer, uuid, wanted, archive)
                await _check_digest(archive, uuid, wanted)
            except NodeError as error:
                log.info("image_not_fetched_from_node", image=uuid, node=peer,
                         error=str(error))  # fmt: skip
                archive.unlink(missing_ok=True)
            else:
                return
        await self._fetch(uuid, archive)
        await _check_digest(archive, uuid, wanted)

    async def _make_tree(self, uuid: str, archive: Path, manifest: Mapping[str, object]) -> None:
        assert self._id_base is not None
        root = self.directory / uuid / "rootfs"
        origin = manifest.get("origin")

        def unpacked(share: float) -> None:
            self._report(uuid, "unpacking", _FETCHED + (100 - _FETCHED) * share)

        if origin and not self._layered:
            layer = self.directory / uuid / "layer"
            layer.mkdir(mode=0o755)
            os.chown(layer, self._id_base, self._id_base)
            await unpack(archive, layer, uuid, self._id_base, unpacked)
            await self._trees.clone(self.root(str(origin)), root)
            try:
                await merge_layer(layer, root)
            except CommandFailed as error:
                raise storage_error(f"Image {uuid} could not be assembled", error) from error
            await asyncio.to_thread(remove_tree, layer)
            return
        await self._trees.create(root)
        os.chown(root, self._id_base, self._id_base)
        await unpack(archive, root, uuid, self._id_base, unpacked)
        if origin:
            await asyncio.to_thread(mark_whiteouts, root)


def sha256_of(manifest: Mapping[str, object]) -> str:
    """The digest of its file that a manifest gives; '' without one."""
    given = manifest.get("sha256")
    if given:
        return str(given)
    files = manifest.get("files")
    if isinstance(files, list) and files:
        first = cast("list[object]", files)[0]
        if isinstance(first, dict):
            return str(cast("dict[str, object]", first).get("sha256") or "")
    return ""


async def _check_digest(archive: Path, uuid: str, wanted: str) -> None:
    if not wanted:
        return

    def digest() -> str:
        with archive.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    found = await asyncio.to_thread(digest)
    if found != wanted:
        raise ImageError(
            f"Image {uuid} arrived damaged: its SHA-256 is {found}, the service says {wanted}",
            "ImageCorrupt",
        )
