"""Images on a node: fetched once, unpacked once for all containers.

``<data_dir>/images/<uuid>/`` holds ``manifest.json`` and ``rootfs/``, the unpacked tree whose owners
are shifted into the containers' id range. It is only ever read: containers mount it as the lower
layer of an overlay. A directory that is being made has another name, so that what has the right name
is whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from vetro.node.errors import CommandFailed, ImageError
from vetro.node.files import read_json, remove_tree, write_json
from vetro.node.machines import UUID, check_uuid

log = structlog.get_logger(__name__)

Fetch = Callable[[str, Path], Awaitable[None]]
Describe = Callable[[str], Awaitable[dict[str, Any] | None]]

_MAGIC = {
    b"\x28\xb5\x2f\xfd": ["zstd", "-dc"],
    b"\x1f\x8b": ["gzip", "-dc"],
    b"\xfd7zXZ\x00": ["xz", "-dc"],
    b"BZh": ["bzip2", "-dc"],
}


class ImageStore:
    """The images of one node.

    ``describe(uuid)`` gives the manifest from the service (``None``: no such image) and
    ``fetch(uuid, path)`` its file. ``id_base`` and ``id_count`` are the containers' range; ``None``:
    this node does not unpack (drivers without root file systems).
    """

    def __init__(
        self,
        directory: Path,
        *,
        describe: Describe,
        fetch: Fetch,
        id_base: int | None,
        id_count: int = 65536,
    ) -> None:
        self.directory = directory
        self._describe = describe
        self._fetch = fetch
        self._id_base = id_base
        self._id_count = id_count
        self._locks: dict[str, asyncio.Lock] = {}

    def open(self) -> None:
        """Make the directory; remove what a killed agent left half made."""
        self.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        for entry in self.directory.iterdir():
            if not UUID.fullmatch(entry.name):
                log.info("Removing an unfinished image", path=str(entry))
                remove_tree(entry)

    def root(self, uuid: str) -> Path:
        """The unpacked tree. Errors: ``ImageError`` when the image is not on this node."""
        path = self.directory / uuid / "rootfs"
        if not path.is_dir():
            raise ImageError(f"Image {uuid} is not on this node", "ImageNotInstalled")
        return path

    def manifest(self, uuid: str) -> dict[str, Any]:
        """The manifest of an image on this node. Errors: ``ImageError``."""
        found = read_json(self.directory / check_uuid(uuid, "image_uuid") / "manifest.json")
        if found is None:
            raise ImageError(f"Image {uuid} is not on this node", "ImageNotInstalled")
        return found

    def list(self) -> list[dict[str, Any]]:
        """The manifests of all images on this node."""
        return [
            manifest
            for entry in sorted(self.directory.iterdir())
            if UUID.fullmatch(entry.name) and (manifest := read_json(entry / "manifest.json"))
        ]

    async def ensure(self, uuid: str) -> dict[str, Any]:
        """The manifest of ``uuid``, after fetching and unpacking the image when it is not here.

        Callers that want the same image wait for the first one. Errors: ``ImageError``.
        """
        uuid = check_uuid(uuid, "image_uuid")
        lock = self._locks.setdefault(uuid, asyncio.Lock())
        async with lock:
            present = read_json(self.directory / uuid / "manifest.json")
            if present is not None:
                return present
            manifest = await self._describe(uuid)
            if manifest is None:
                raise ImageError(f"Image {uuid} does not exist in the image service")
            await self._install(uuid, manifest)
            return manifest

    async def delete(self, uuid: str) -> None:
        """Remove an image from this node. The caller knows that no container uses it."""
        doomed = self.directory / f".gone-{uuid}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.directory / uuid, doomed)
            await asyncio.to_thread(remove_tree, doomed)

    async def _install(self, uuid: str, manifest: Mapping[str, Any]) -> None:
        work = self.directory / f".new-{uuid}"
        await asyncio.to_thread(remove_tree, work)
        work.mkdir(mode=0o711)
        try:
            archive = work / "file"
            root = work / "rootfs"
            root.mkdir(mode=0o755)
            if self._id_base is not None:
                await self._fetch(uuid, archive)
                await _check_digest(archive, uuid, manifest)
                os.chown(root, self._id_base, self._id_base)
                await self._unpack(archive, root, uuid)
                archive.unlink()
            write_json(work / "manifest.json", {**manifest, "uuid": uuid})
            os.rename(work, self.directory / uuid)
        except OSError as error:
            raise ImageError(
                f"Image {uuid} could not be stored in {self.directory}: {error.strerror}",
                "ResourceExhausted",
            ) from error
        finally:
            await asyncio.to_thread(remove_tree, work)

    async def _unpack(self, archive: Path, root: Path, uuid: str) -> None:
        """Unpack inside the containers' user namespace.

        Owners come out shifted, and an archive that tries to write outside has no right to: the
        unpacking process is nobody on the host. Device nodes cannot be made there; containers get
        theirs from LXC.
        """
        with archive.open("rb") as file:
            magic = file.read(8)
        decompress = next((c for start, c in _MAGIC.items() if magic.startswith(start)), ["cat"])
        base, count = self._id_base, self._id_count
        argv = ["lxc-usernsexec", "-m", f"b:0:{base}:{count}", "--", "tar", "--extract", "--file=-",
                "--numeric-owner", "--preserve-permissions", "--delay-directory-restore",
                "--anchored", "--exclude=./dev/*", "--exclude=dev/*",
                "--xattrs", "--xattrs-include=security.capability"]  # fmt: skip
        reader, writer = os.pipe()
        try:
            with archive.open("rb") as file:
                source = await asyncio.create_subprocess_exec(
                    *decompress, stdin=file, stdout=writer, stderr=subprocess.DEVNULL
                )
        finally:
            os.close(writer)
        try:
            with os.fdopen(reader, "rb") as stream:
                await _pipe_into(stream, argv, root)
        except CommandFailed as error:
            raise ImageError(
                f"Image {uuid} is not a root file system in a tar: {error.output.strip()[-500:]}",
                "ImageCorrupt",
            ) from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                source.kill()
            status = await source.wait()
        if status > 0:
            raise ImageError(
                f"Image {uuid} is cut short or damaged ({decompress[0]} says so)", "ImageCorrupt"
            )


async def _pipe_into(stream: Any, argv: list[str], cwd: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=stream, stdout=subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, cwd=cwd
    )
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise CommandFailed(argv, process.returncode, errors.decode("utf-8", "replace"))


async def _check_digest(archive: Path, uuid: str, manifest: Mapping[str, Any]) -> None:
    wanted = manifest.get("sha256")
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
