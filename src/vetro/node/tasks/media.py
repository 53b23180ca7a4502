"""Snapshots of VMs, images made of them, and pictures of their screens."""

from __future__ import annotations

import base64
import hashlib
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import structlog

from vetro.node.drivers import Driver
from vetro.node.errors import DriverError, NodeError, TaskFailure
from vetro.node.images.archive import COMPRESSORS
from vetro.node.tasks.parameters import flag, invalid, vm_uuid
from vetro.node.vm_objects import as_object, check_uuid
from vetro.node.work.queues import TaskContext, TaskKind

log = structlog.get_logger(__name__)

Publish = Callable[[Mapping[str, object], Path, str], Awaitable[None]]

_ERROR_LIMIT = 20_000
_PREPARE_SECONDS = 600.0
_DEPTH = 20


class MediaTasks:
    """Handlers over one driver. ``publish(manifest, file, url)`` uploads an image."""

    def __init__(self, driver: Driver, publish: Publish, scratch: Path) -> None:
        self._driver = driver
        self._publish = publish
        self._scratch = scratch

    def kinds(self) -> list[TaskKind]:
        """The kinds of tasks that this does."""
        work = "machine_tasks"
        return [
            TaskKind("machine_create_snapshot", work, self.create_snapshot, label="vmadm.snapshot"),
            TaskKind("machine_rollback_snapshot", work, self.rollback_snapshot,
                     label="vmadm.rollback"),
            TaskKind("machine_delete_snapshot", work, self.delete_snapshot,
                     label="vmadm.delete_snapshot"),
            TaskKind("machine_screenshot", work, self.screenshot, label="vmadm.screenshot"),
            TaskKind("machine_create_image", "machine_images", self.create_image,
                     label="vmadm.create_image"),
        ]  # fmt: skip

    async def create_snapshot(self, context: TaskContext) -> Mapping[str, object]:
        """Snapshot the disks; ``{vm}``."""
        name = context.params.get("snapshot_name")
        vm = await self._driver.create_snapshot(
            vm_uuid(context.params), None if name in (None, "") else str(name)
        )
        return {"vm": vm}

    async def rollback_snapshot(self, context: TaskContext) -> Mapping[str, object]:
        """Restore the disks; ``{vm}``."""
        name = str(context.params.get("snapshot_name") or "")
        return {"vm": await self._driver.rollback_snapshot(vm_uuid(context.params), name)}

    async def delete_snapshot(self, context: TaskContext) -> Mapping[str, object]:
        """Remove a snapshot; ``{vm}``."""
        name = str(context.params.get("snapshot_name") or "")
        return {"vm": await self._driver.delete_snapshot(vm_uuid(context.params), name)}

    async def screenshot(self, context: TaskContext) -> Mapping[str, object]:
        """A picture of the screen, as an event and as ``{image}`` (PNG in base64)."""
        picture = await self._driver.screenshot(vm_uuid(context.params))
        image = base64.b64encode(picture).decode()
        context.entry.event("screenshot", {"image": image})
        return {"image": image}

    async def create_image(self, context: TaskContext) -> None:
        """Create an image of a stopped VM and publish it; ``{}``.

        ``incremental``: only the differences to the VM's own image, which becomes its origin. With
        ``prepare_image_script`` the VM is started and the script runs in it; afterwards the VM is
        restored.
        """
        uuid = vm_uuid(context.params)
        manifest = as_object(context.params.get("manifest"), "manifest")
        for name in ("uuid", "owner", "name", "version"):
            if not manifest.get(name):
                raise invalid(f"manifest.{name} is required")
        check_uuid(manifest["uuid"], "manifest.uuid")
        compression = str(context.params.get("compression") or "none")
        if compression not in COMPRESSORS:
            raise invalid(f"compression must be one of {', '.join(COMPRESSORS)}")
        vm = await self._driver.load(uuid)
        if vm.get("state") != "stopped":
            raise DriverError(
                f"VM {uuid} must be stopped before an image is made of it; it is {vm.get('state')}",
                code="EALREADYRUNNING",
                rest_code="VmAlreadyRunning",
            )
        script = context.params.get("prepare_image_script")
        before = None
        try:
            if script:
                before = await self._prepare(uuid, str(script))
                context.progress("prepare", 30)
            await self._export(context, uuid, manifest, compression)
        except TaskFailure:
            raise
        except NodeError as error:
            code = getattr(error, "rest_code", "") or "PrepareImageError"
            raise TaskFailure(f"vmadm.create_image error: {error}"[:_ERROR_LIMIT], code) from error
        finally:
            if before is not None:
                await self._driver.rollback_snapshot(uuid, before)
                await self._driver.delete_snapshot(uuid, before)

    async def _prepare(self, uuid: str, script: str) -> str:
        """Run the script in the started VM; returns the name of the snapshot taken before."""
        vm = await self._driver.create_snapshot(uuid, None)
        before = str(vm["snapshots"][-1]["name"])
        try:
            await self._driver.start(uuid)
            result = await self._driver.execute(
                uuid, ["/bin/sh", "-c", script],
                {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                _PREPARE_SECONDS,
            )  # fmt: skip
            await self._driver.stop(uuid, timeout=60)
            if result.exit_code != 0:
                said = (result.stderr or result.stdout).strip()[-2000:]
                raise TaskFailure(
                    f"The preparation script ended with {result.exit_code}: {said}"[:_ERROR_LIMIT],
                    "PrepareImageError",
                )
        except NodeError:
            await self._driver.rollback_snapshot(uuid, before)
            await self._driver.delete_snapshot(uuid, before)
            raise
        return before

    async def _export(
        self, context: TaskContext, uuid: str, manifest: Mapping[str, object], compression: str
    ) -> None:
        incremental = flag(context.params, "incremental")
        depth = int(context.params.get("max_origin_depth") or _DEPTH) if incremental else 0
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="image-", dir=self._scratch) as directory:
            path = Path(directory) / "file"
            made = await self._driver.export(
                uuid, path, compression=compression, max_origin_depth=depth
            )
            context.progress("export", 70)
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = path.stat().st_size
            await self._publish(
                {
                    **manifest,
                    **made,
                    "sha256": digest,
                    "size": size,
                    "files": [{"sha256": digest, "size": size, "compression": compression}],
                },
                path,
                str(context.params.get("imgapi_url") or ""),
            )
        context.progress("publish", 100)
