"""Volumes: storage of its own life, attached to one VM at a time (decision 0235).

``<data_dir>/volumes/<uuid>/`` holds ``record.json``, the file ``data`` and ``snapshots/<uuid>``. The
format is that of the VMs it can be attached to: ``ext4``, a sparse file with a file system for
containers; ``qcow2``, a disk for virtual machines. A driver attaches it; this module keeps the files.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from vetro.node.commands import run
from vetro.node.errors import CommandFailed, DriverError
from vetro.node.files import read_json, remove_tree, write_json
from vetro.node.storage.room import storage_error

GIB = 2**30
FORMATS = ("ext4", "qcow2")
_HOUR = 3600.0


class VolumeRecord(msgspec.Struct, kw_only=True):
    """A volume of this node. ``size`` in GiB; ``vm``: the VM that has it ('': none)."""

    uuid: str
    format: str
    size: int
    vm: str = ""
    snapshots: list[str] = []


class VolumeStore:
    """The volumes of one node. ``pretend``: only records, for the simulated driver."""

    def __init__(self, directory: Path, *, pretend: bool = False) -> None:
        self.directory = directory
        self._pretend = pretend
        self._locks: dict[str, asyncio.Lock] = {}

    def path(self, uuid: str) -> Path:
        """The directory of a volume."""
        return self.directory / uuid

    def data(self, uuid: str) -> Path:
        """The file of a volume."""
        return self.path(uuid) / "data"

    def snapshot(self, uuid: str, name: str) -> Path:
        """The file of a volume's snapshot."""
        return self.path(uuid) / "snapshots" / name

    def __iter__(self) -> Iterator[VolumeRecord]:
        if self.directory.is_dir():
            for entry in sorted(self.directory.iterdir()):
                record = self.find(entry.name)
                if record is not None:
                    yield record

    def find(self, uuid: str) -> VolumeRecord | None:
        """A volume of this node; None for a half-made one, too."""
        found: object = read_json(self.path(uuid) / "record.json")
        return None if found is None else msgspec.convert(found, VolumeRecord)

    def need(self, uuid: str) -> VolumeRecord:
        """A volume of this node. Errors: ``VolumeNotFound``."""
        record = self.find(uuid)
        if record is None:
            raise DriverError(
                f"Volume {uuid} is not on this node", code="ENOENT", rest_code="VolumeNotFound"
            )
        return record

    def save(self, record: VolumeRecord) -> None:
        """Keep a record."""
        write_json(self.path(record.uuid) / "record.json", record)

    @contextlib.asynccontextmanager
    async def locked(self, uuid: str) -> AsyncGenerator[None, None]:
        """Work on a volume: one task at a time."""
        lock = self._locks.setdefault(uuid, asyncio.Lock())
        async with lock:
            yield

    # Making

    async def create(
        self, uuid: str, format_: str, size: int, source: Path | None = None
    ) -> VolumeRecord:
        """Make a volume of ``size`` GiB, empty or as a copy of ``source``; one that exists is kept.

        Errors: ``ResourceExhausted`` when the pool cannot hold it, ``InvalidPayload``.
        """
        known = self.find(uuid)
        if known is not None:
            return known
        if format_ not in FORMATS:
            raise DriverError(
                f"There is no volume format '{format_}': use {' or '.join(FORMATS)}",
                code="EINVAL",
                rest_code="InvalidPayload",
            )
        record = VolumeRecord(uuid=uuid, format=format_, size=size)
        path = self.path(uuid)
        if not self._pretend:
            self._check_room(size)
        self.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        await asyncio.to_thread(remove_tree, path)
        path.mkdir(mode=0o711)
        try:
            if self._pretend:
                self.data(uuid).touch()
            elif source is None:
                await self._format(self.data(uuid), format_, size)
            else:
                await copy_sparse(source, self.data(uuid))
                await self._grow_file(self.data(uuid), format_, size)
        except BaseException:
            await asyncio.to_thread(remove_tree, path)
            raise
        self.save(record)
        return record

    def _check_room(self, size: int) -> None:
        place = self.directory if self.directory.is_dir() else self.directory.parent
        free = shutil.disk_usage(place).free
        if free < size * GIB:
            raise DriverError(
                f"The pool has {free / GIB:.1f} GiB free, which a volume of {size} GiB could not fill",
                code="ENOSPC",
                rest_code="ResourceExhausted",
            )

    async def _format(self, path: Path, format_: str, size: int) -> None:
        if format_ == "qcow2":
            await _tool("qemu-img", "create", "-q", "-f", "qcow2", str(path), f"{size}G")
            return
        with path.open("wb") as file:
            file.truncate(size * GIB)
        # Owners in the file system are the guest's own: they are translated where it is mounted.
        await _tool(
            "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "root_owner=0:0,nodiscard,lazy_itable_init=1",
            str(path),
        )  # fmt: skip

    async def _grow_file(self, path: Path, format_: str, size: int) -> None:
        """Grow the file of a volume that is nowhere attached."""
        if format_ == "qcow2":
            if await virtual_size(path) < size * GIB:
                await _tool("qemu-img", "resize", "-f", "qcow2", str(path), f"{size}G")
            return
        if path.stat().st_size < size * GIB:
            os.truncate(path, size * GIB)
        await _tool("e2fsck", "-f", "-p", str(path), good=(0, 1))
        await _tool("resize2fs", str(path))

    async def grow(self, uuid: str, size: int) -> VolumeRecord:
        """Make a volume larger that is nowhere attached. Errors: ``InvalidPayload`` to shrink it."""
        record = self.need(uuid)
        self.check_growth(record, size)
        if not self._pretend:
            await self._grow_file(self.data(uuid), record.format, size)
        record.size = size
        self.save(record)
        return record

    def check_growth(self, record: VolumeRecord, size: int) -> None:
        """Refuse a smaller size, and one that the pool has no room for."""
        if size < record.size:
            raise DriverError(
                f"Volume {record.uuid} has {record.size} GiB and cannot shrink to {size} GiB",
                code="EINVAL",
                rest_code="InvalidPayload",
            )
        if not self._pretend:
            self._check_room(size - record.size)

    async def delete(self, uuid: str) -> None:
        """Remove a volume with its snapshots; a missing one is not an error."""
        record = self.find(uuid)
        if record is not None and record.vm:
            raise in_use(record)
        await asyncio.to_thread(remove_tree, self.path(uuid))
        self._locks.pop(uuid, None)

    # Snapshots

    async def take(self, uuid: str, name: str) -> VolumeRecord:
        """Copy the file as a snapshot; no writer may change it meanwhile."""
        record = self.need(uuid)
        if name in record.snapshots:
            return record
        kept = self.snapshot(uuid, name)
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        if self._pretend:
            kept.touch()
        else:
            await copy_sparse(self.data(uuid), kept)
        record.snapshots = [*record.snapshots, name]
        self.save(record)
        return record

    async def drop(self, uuid: str, name: str) -> None:
        """Remove a snapshot; a missing one is not an error."""
        record = self.find(uuid)
        if record is None:
            return
        record.snapshots = [one for one in record.snapshots if one != name]
        self.save(record)
        self.snapshot(uuid, name).unlink(missing_ok=True)

    async def pack(self, source: Path, target: Path) -> None:
        """Compress the file of a volume or of a snapshot."""
        if self._pretend:
            target.write_bytes(b"")
            return
        await _tool("zstd", "-q", "-f", "-3", "-T0", str(source), "-o", str(target))

    async def unpack(self, source: Path, target: Path) -> None:
        """What ``pack`` compressed, with its holes."""
        if self._pretend:
            target.touch()
            return
        await _tool("zstd", "-q", "-d", "-f", "--sparse", str(source), "-o", str(target))


def in_use(record: VolumeRecord) -> DriverError:
    """The error for a volume that a VM has."""
    return DriverError(
        f"Volume {record.uuid} is attached to VM {record.vm}: detach it first",
        code="EBUSY",
        rest_code="VolumeInUse",
    )


async def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file with its holes, beside the target first; blocks are shared where possible."""
    fresh = target.with_name(f".{target.name}.new")
    try:
        await _tool("cp", "--reflink=auto", "--sparse=always", str(source), str(fresh))
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    os.replace(fresh, target)


async def virtual_size(path: Path) -> int:
    """The size of a disk in bytes as its guest sees it."""
    info = await _tool("qemu-img", "info", "-U", "--output=json", "-f", "qcow2", str(path))
    return int(cast("dict[str, Any]", json.loads(info))["virtual-size"])


async def _tool(*argv: str, good: tuple[int, ...] = (0,)) -> str:
    try:
        finished = await run(*argv, timeout=_HOUR, check=False, ends_with_us=True)
        if finished.status not in good:
            raise CommandFailed(argv, finished.status, finished.errors or finished.output)
    except CommandFailed as error:
        raise storage_error("A volume", error) from error
    return finished.output
