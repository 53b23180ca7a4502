"""Datasets: the pool as the ``zfs_*`` tasks see it, whatever its kind.

``<pool>`` is the pool itself, ``<pool>/<uuid>`` a VM's or an image's storage (created and removed
by their own tasks); every other name below the pool is an operator's dataset: a tree in
``<data>/datasets``, named by a digest of its name, with a record of name, properties and snapshots.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vetro.node.drivers import Driver
from vetro.node.errors import NodeError, TaskFailure
from vetro.node.files import read_json, tree_bytes, write_json
from vetro.node.images.store import ImageStore
from vetro.node.storage import Pool
from vetro.node.tasks.parameters import invalid
from vetro.node.vm_objects import UUID, timestamp

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_SNAPSHOT = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_LIMITS = ("quota", "refquota")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class Datasets:
    """The datasets of one node's pool called ``name``."""

    def __init__(
        self, name: str, directory: Path, pool: Pool, driver: Driver, images: ImageStore
    ) -> None:
        self.name = name
        self._directory = directory
        self._pool = pool
        self._driver = driver
        self._images = images

    # Names

    def vm_of(self, dataset: str) -> str | None:
        """The VM to whose storage a dataset (or a snapshot of it) belongs."""
        rest = dataset.partition("@")[0].removeprefix(f"{self.name}/")
        return rest if UUID.fullmatch(rest) and self._driver.exists(rest) else None

    def _checked(self, dataset: str) -> str:
        parts = dataset.split("/")
        if parts[0] != self.name or not all(_PART.fullmatch(part) for part in parts):
            raise invalid(f"'{dataset}' is not a dataset of the pool {self.name}")
        return dataset

    def _own(self, dataset: str) -> str:
        """The name, checked: neither the pool nor a VM's nor an image's storage."""
        name = self._checked(dataset)
        rest = name.removeprefix(f"{self.name}/")
        if name == self.name or UUID.fullmatch(rest.split("/")[0]):
            raise TaskFailure(
                f"{name} belongs to the node: use the tasks of its VM or image", "DatasetInUse"
            )
        return name

    def _place(self, dataset: str) -> Path:
        return self._directory / hashlib.sha256(dataset.encode()).hexdigest()[:16]

    def _record(self, dataset: str) -> dict[str, Any]:
        found = read_json(self._place(dataset) / "dataset.json")
        if found is None:
            raise TaskFailure(f"dataset '{dataset}' does not exist", "DatasetNotFound")
        return found

    def _save(self, record: Mapping[str, object]) -> None:
        write_json(self._place(str(record["name"])) / "dataset.json", record)

    def _records(self) -> list[dict[str, Any]]:
        if not self._directory.is_dir():
            return []
        found = [read_json(entry / "dataset.json") for entry in sorted(self._directory.iterdir())]
        return sorted((one for one in found if one), key=lambda one: one["name"])

    # Looking

    async def list(self) -> list[dict[str, str]]:
        """``{name, type, used, avail, refer, mountpoint}`` of every dataset, all text."""
        stats = await self._pool.trees.stats()
        free = str(stats.free)
        rows = [_row(self.name, stats.size - stats.free, free, str(self._directory.parent))]
        for vm in await self._driver.list(include_dni=True):
            usage = await self._driver.usage(vm["uuid"])
            place = str(vm.get("zonepath") or "-")
            rows.append(_row(f"{self.name}/{vm['uuid']}", usage.used, free, place))
        for image in self._images.list():
            place = self._images.directory / image["uuid"]
            rows.append(
                _row(f"{self.name}/{image['uuid']}", await tree_bytes(place), free, str(place))
            )
        for record in self._records():
            tree = self._place(record["name"]) / "tree"
            rows.append(_row(record["name"], await self._pool.trees.used(tree), free, str(tree)))
        return sorted(rows, key=lambda row: row["name"])

    async def snapshots(self, dataset: str | None) -> list[dict[str, str]]:
        """The snapshots of one dataset, or of all."""
        found: list[dict[str, str]] = []
        for vm in await self._driver.list(include_dni=True):
            for entry in vm.get("snapshots", []):
                found.append(_snapshot_row(f"{self.name}/{vm['uuid']}@{entry['name']}", 0))
        for record in self._records():
            for name in record["snapshots"]:
                tree = self._place(record["name"]) / f"at-{name}"
                used = await self._pool.trees.used(tree)
                found.append(_snapshot_row(f"{record['name']}@{name}", used))
        if dataset:
            self._checked(dataset)
            found = [row for row in found if row["name"].startswith(f"{dataset}@")]
        return found

    async def pools(self) -> list[dict[str, str]]:
        """The one pool: ``{name, size, allocated, free, cap, health, altroot}``."""
        stats = await self._pool.trees.stats()
        used = stats.size - stats.free
        return [
            {
                "name": self.name,
                "size": str(stats.size),
                "allocated": str(used),
                "free": str(stats.free),
                "cap": f"{used * 100 // (stats.size or 1)}%",
                "health": "ONLINE",
                "altroot": "-",
            }
        ]

    async def properties(self, dataset: str, wanted: Sequence[str]) -> dict[str, dict[str, str]]:
        """``{dataset: {property: text}}`` of one dataset, or of all when ``dataset`` is empty."""
        result: dict[str, dict[str, str]] = {}
        records = {record["name"]: record for record in self._records()}
        for row in await self.list():
            name = row["name"]
            if dataset and name != dataset:
                continue
            vm = self.vm_of(name)
            found = {
                "name": name, "type": row["type"], "used": row["used"], "available": row["avail"],
                "referenced": row["refer"], "mountpoint": row["mountpoint"], "quota": "0",
            }  # fmt: skip
            if vm is not None:
                record = await self._driver.load(vm)
                found["quota"] = str(int(record.get("quota") or 0) * 2**30)
                found["creation"] = record["create_timestamp"]
            elif name in records:
                found["creation"] = records[name]["created"]
                found.update(records[name]["properties"])
            result[name] = {
                key: value for key, value in found.items() if not wanted or key in wanted
            }
        if dataset and not result:
            raise TaskFailure(f"dataset '{dataset}' does not exist", "DatasetNotFound")
        return result

    # Changing

    async def create(self, dataset: str) -> None:
        """Create an empty dataset."""
        name = self._own(dataset)
        await self._new(name)
        await self._pool.trees.create(self._place(name) / "tree")

    async def _new(self, name: str) -> None:
        place = self._place(name)
        if (place / "dataset.json").exists():
            raise TaskFailure(f"dataset '{name}' exists already", "DatasetExists")
        self._directory.mkdir(mode=0o711, exist_ok=True)
        await self._pool.trees.drop(place / "tree")
        place.mkdir(mode=0o711, exist_ok=True)
        self._save({"name": name, "created": timestamp(), "properties": {}, "snapshots": []})

    async def destroy(self, dataset: str) -> None:
        """Remove a dataset without snapshots, or one snapshot (``dataset@name``)."""
        name, separator, snapshot = dataset.partition("@")
        if separator:
            vm = self.vm_of(name)
            if vm is not None:
                await self._driver.delete_snapshot(vm, snapshot)
                return
            record = self._with_snapshot(name, snapshot)
            await self._pool.trees.drop(self._place(name) / f"at-{snapshot}")
            record["snapshots"].remove(snapshot)
            self._save(record)
            return
        record = self._record(self._own(name))
        if record["snapshots"]:
            raise TaskFailure(
                f"'{name}' has snapshots: {', '.join(record['snapshots'][:5])}", "DatasetInUse"
            )
        place = self._place(name)
        await self._pool.trees.drop(place / "tree")
        (place / "dataset.json").unlink(missing_ok=True)
        place.rmdir()

    def _with_snapshot(self, name: str, snapshot: str) -> dict[str, Any]:
        record = self._record(self._own(name))
        if snapshot not in record["snapshots"]:
            raise TaskFailure(f"dataset '{name}@{snapshot}' does not exist", "SnapshotNotFound")
        return record

    async def rename(self, dataset: str, new_name: str) -> None:
        """Rename a dataset without snapshots."""
        record = self._record(self._own(dataset))
        target = self._own(new_name)
        if record["snapshots"]:
            raise TaskFailure(f"'{dataset}' has snapshots", "DatasetInUse")
        await self._clone(self._place(dataset) / "tree", target)
        self._save({**record, "name": target})
        await self.destroy(dataset)

    async def snapshot(self, dataset: str) -> None:
        """Snapshot a dataset (``dataset@name``)."""
        name, snapshot = _split(dataset)
        vm = self.vm_of(name)
        if vm is not None:
            await self._driver.create_snapshot(vm, snapshot)
            return
        record = self._record(self._own(name))
        if snapshot in record["snapshots"]:
            raise TaskFailure(f"dataset '{dataset}' exists already", "SnapshotExists")
        place = self._place(name)
        await self._pool.trees.drop(place / f"at-{snapshot}")
        await self._pool.trees.clone(place / "tree", place / f"at-{snapshot}", read_only=True)
        self._save({**record, "snapshots": [*record["snapshots"], snapshot]})

    async def rollback(self, dataset: str) -> None:
        """Restore a dataset from a snapshot; newer snapshots are removed."""
        name, snapshot = _split(dataset)
        vm = self.vm_of(name)
        if vm is not None:
            await self._driver.rollback_snapshot(vm, snapshot)
            return
        record = self._with_snapshot(name, snapshot)
        place = self._place(name)
        await self._pool.trees.drop(place / "tree")
        await self._pool.trees.clone(place / f"at-{snapshot}", place / "tree")
        kept = record["snapshots"].index(snapshot) + 1
        for newer in record["snapshots"][kept:]:
            await self._pool.trees.drop(place / f"at-{newer}")
        self._save({**record, "snapshots": record["snapshots"][:kept]})

    async def clone(self, snapshot: str, dataset: str) -> None:
        """Create a dataset as a clone of a snapshot."""
        source, name = _split(snapshot)
        self._with_snapshot(source, name)
        await self._clone(self._place(source) / f"at-{name}", self._own(dataset))

    async def _clone(self, source: Path, target: str) -> None:
        """Create a dataset with what a tree has."""
        await self._new(target)
        try:
            await self._pool.trees.clone(source, self._place(target) / "tree")
        except NodeError:
            await self.destroy(target)
            raise

    async def set_properties(self, dataset: str, properties: Mapping[str, object]) -> None:
        """Set ``quota``, ``refquota`` and the operator's properties (their names have a colon)."""
        record = self._record(self._own(dataset))
        for name, value in properties.items():
            if name not in _LIMITS and ":" not in name:
                raise TaskFailure(
                    f"cannot set property '{name}': a {self._pool.trees.kind} pool has only"
                    f" {', '.join(_LIMITS)} and properties with a colon in their name",
                    "NotImplemented",
                )
            if name in _LIMITS:
                await self._pool.trees.limit(self._place(dataset) / "tree", _bytes(value))
        texts = {name: str(value) for name, value in properties.items()}
        self._save({**record, "properties": {**record["properties"], **texts}})


def _row(name: str, used: int, free: str, mountpoint: str) -> dict[str, str]:
    return {
        "name": name, "type": "filesystem", "used": str(used), "avail": free, "refer": str(used),
        "mountpoint": mountpoint,
    }  # fmt: skip


def _snapshot_row(name: str, used: int) -> dict[str, str]:
    return {
        "name": name, "type": "snapshot", "used": str(used), "avail": "-", "refer": str(used),
        "mountpoint": "-",
    }  # fmt: skip


def _split(dataset: str) -> tuple[str, str]:
    name, _, snapshot = dataset.partition("@")
    if not _SNAPSHOT.fullmatch(snapshot) or snapshot in (".", ".."):
        raise invalid(f"'{dataset}' is not a snapshot: it must be dataset@name")
    return name, snapshot


def _bytes(value: object) -> int:
    """A size in ZFS notation: bytes, ``10G``, ``none``."""
    text = str(value).strip().upper()
    if text in ("NONE", "0", ""):
        return 0
    match = re.fullmatch(r"(\d+)([KMGT])?(I?B)?", text)
    if match is None:
        raise invalid(f"'{value}' is not a size")
    return int(match[1]) * _UNITS.get(match[2] or "", 1)
