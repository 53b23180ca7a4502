"""Volumes: tasks of the compute service beside those of the document (decision 0235)."""

from __future__ import annotations

import posixpath
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from vetro.node.drivers.volumes import VolumeWork
from vetro.node.files import digest_of
from vetro.node.tasks.parameters import flag, invalid, text, vm_uuid
from vetro.node.vm_objects import check_uuid
from vetro.node.work.queues import TaskContext, TaskKind

Fetch = Callable[[str, Path], Awaitable[None]]
Publish = Callable[[str, Path, Mapping[str, object]], Awaitable[None]]


class VolumeTasks:
    """Handlers. ``fetch`` and ``publish`` move the files of backups from and to the service."""

    def __init__(self, work: VolumeWork, fetch: Fetch, publish: Publish, scratch: Path) -> None:
        self._work = work
        self._fetch = fetch
        self._publish = publish
        self._scratch = scratch

    def kinds(self) -> list[TaskKind]:
        """The tasks. Those that change a VM hold its lock (``uuid``)."""

        def kind(name: str, run: Callable[[TaskContext], Awaitable[object]]) -> TaskKind:
            return TaskKind(f"volume_{name}", "volume_tasks", run, target=_target)

        return [
            kind("create", self.create),
            kind("delete", self.delete),
            kind("attach", self.attach),
            kind("detach", self.detach),
            kind("grow", self.grow),
            kind("snapshot", self.snapshot),
            kind("delete_snapshot", self.delete_snapshot),
            kind("backup", self.backup),
            TaskKind("volume_list", "machine_query", self.list, query=True),
        ]

    async def create(self, context: TaskContext) -> Mapping[str, object]:
        """Make a volume of ``size`` GiB for VMs of ``brand``: empty, or of a ``source``.

        ``source``: ``{kind: volume | snapshot | backup, volume_uuid, uuid}``.
        """
        uuid, size = _volume(context.params), _size(context.params)
        source = context.params.get("source")
        format_ = self._work.format_for(str(context.params.get("brand") or "lx"))
        if not isinstance(source, Mapping):
            return _shown(await self._work.create(uuid, format_, size))
        kind, of = str(source.get("kind")), check_uuid(source.get("uuid"), "source.uuid")  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        store = self._work.store
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._scratch) as name:
            place = Path(name)
            if kind == "snapshot":
                parent = check_uuid(source.get("volume_uuid"), "source.volume_uuid")  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
                format_, path = store.need(parent).format, store.snapshot(parent, of)
            elif kind == "volume":
                format_, path = store.need(of).format, store.snapshot(of, f"for-{uuid}")
                await self._work.snapshot(of, f"for-{uuid}")
            elif kind == "backup":
                packed, path = place / "packed", place / "data"
                context.progress("fetch", 10)
                await self._fetch(of, packed)
                await store.unpack(packed, path)
                packed.unlink()
            else:
                raise invalid("source.kind must be volume, snapshot or backup")
            try:
                made = await self._work.create(uuid, format_, size, path)
            finally:
                if kind == "volume":
                    await self._work.drop_snapshot(of, f"for-{uuid}")
        return _shown(made)

    async def delete(self, context: TaskContext) -> None:
        """Remove a volume with its snapshots; a missing one is not an error."""
        await self._work.delete(_volume(context.params))

    async def attach(self, context: TaskContext) -> None:
        """Give a volume to the VM ``uuid``; for a container at the absolute ``path``."""
        path = text(context.params, "path")
        if not path.startswith("/") or posixpath.normpath(path) != path or path == "/":
            raise invalid(f"path '{path}' is not an absolute path without '..' and '.'")
        if any(ord(character) < 32 for character in path):
            raise invalid("path has control characters")
        await self._work.attach(
            vm_uuid(context.params),
            _volume(context.params),
            path,
            read_only=flag(context.params, "read_only"),
        )

    async def detach(self, context: TaskContext) -> None:
        """Take a volume from the VM ``uuid``; one that it does not have is not an error."""
        await self._work.detach(vm_uuid(context.params), _volume(context.params))

    async def grow(self, context: TaskContext) -> None:
        """Make a volume larger: ``size`` GiB."""
        await self._work.grow(_volume(context.params), _size(context.params))

    async def snapshot(self, context: TaskContext) -> None:
        """Copy a volume as it is now, under ``snapshot_uuid``."""
        name = check_uuid(context.params.get("snapshot_uuid"), "snapshot_uuid")
        await self._work.snapshot(_volume(context.params), name)

    async def delete_snapshot(self, context: TaskContext) -> None:
        """Remove a snapshot; a missing one is not an error."""
        name = check_uuid(context.params.get("snapshot_uuid"), "snapshot_uuid")
        await self._work.drop_snapshot(_volume(context.params), name)

    async def backup(self, context: TaskContext) -> Mapping[str, object]:
        """Send a volume as it is now to the service, as the file of ``backup_uuid``."""
        name = check_uuid(context.params.get("backup_uuid"), "backup_uuid")
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._scratch) as place:
            packed = Path(place) / name
            record = await self._work.pack(_volume(context.params), packed)
            context.progress("pack", 50)
            described = {"sha256": await digest_of(packed), "format": record.format}
            await self._publish(name, packed, described)
            return {"size": packed.stat().st_size, **described}

    async def list(self, context: TaskContext) -> Mapping[str, object]:
        """``{volumes: [{uuid, format, size, vm, snapshots}]}``."""
        return {"volumes": [_shown(one) for one in self._work.store]}


def _target(params: Mapping[str, object]) -> str:
    """What to lock: the VM, or the volume where no VM is named."""
    return str(params.get("uuid") or params.get("volume_uuid") or "")


def _volume(params: Mapping[str, object]) -> str:
    return check_uuid(params.get("volume_uuid"), "volume_uuid")


def _size(params: Mapping[str, object]) -> int:
    size = params.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise invalid("size must be a number of GiB from 1")
    return size


def _shown(record: msgspec.Struct) -> dict[str, object]:
    return msgspec.to_builtins(record)
