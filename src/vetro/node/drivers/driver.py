"""The life cycle of VMs, the same for every hypervisor.

Creation is all or nothing. The record is written first, marked ``provisioning``; the mark is
removed when the VM runs. After an agent is killed in between, the next start finds the mark and
removes everything: no half-made VM is ever reported as running, and a retried request can succeed.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, cast

import structlog

from vetro.node.drivers.by_brand import Hypervisors
from vetro.node.drivers.hypervisor import (
    Changed,
    DiskUse,
    ExecRequest,
    ExecResult,
    HostCommand,
    Hypervisor,
)
from vetro.node.drivers.records import Records, check_snapshot_name, free_name, no_snapshot
from vetro.node.drivers.volumes import VolumeWork
from vetro.node.errors import (
    DriverError,
    NodeError,
    already_running,
    not_implemented,
    not_running,
    vm_not_found,
)
from vetro.node.guest.root import GuestRoot
from vetro.node.images.store import ImageStore
from vetro.node.storage.volumes import VolumeStore
from vetro.node.vm_objects import MachineStore, check_uuid, later, new_vm, timestamp, updated
from vetro.node.vm_records import SnapshotEntry, Vm, unwritten

log = structlog.get_logger(__name__)

Progress = Callable[[str, int], None]

_AUTOBOOT_SIDE_BY_SIDE = 10
_ROLLBACK_STOP_SECONDS = 60.0


class Driver:
    """What tasks need of VMs; all methods raise ``DriverError``.

    Callers hold a lock per VM (see ``vetro.node.work.queues``).
    """

    def __init__(
        self,
        hypervisors: Hypervisors,
        store: MachineStore,
        images: ImageStore,
        facts: Callable[[], Mapping[str, object]],
        volumes: VolumeStore | None = None,
    ) -> None:
        self._hypervisors = hypervisors
        self._store = store
        self._records = Records(hypervisors, store)
        self._images = images
        self._facts = facts
        self.volumes = VolumeWork(
            hypervisors,
            store,
            volumes or VolumeStore(store.directory.parent / "volumes", pretend=True),
        )
        self._watchers: list[Changed] = []
        self.name = hypervisors.name
        self.brands = hypervisors.brands

    async def open(self) -> None:
        """Check the host, remove half-made VMs and roots, follow running VMs."""
        self._store.open()
        half_made = [vm["uuid"] for vm in self._store if vm.get("mark")]
        whole = [vm for vm in self._store if not vm.get("mark")]
        await self._hypervisors.open(whole, self._ended, self._changed)
        for uuid in half_made:
            log.warning("interrupted_vm_removed", uuid=uuid)
            try:
                await self._remove(uuid)
            except NodeError as error:
                # The mark stays: the state is 'failed', and machine_destroy tries again.
                log.error("interrupted_vm_not_removed", uuid=uuid, error=str(error))
        for vm in whole:
            former = vm.pop("former_state", None)
            if former is None:
                await self._drop_former(vm)
            else:
                log.warning("interrupted_root_put_back", uuid=vm["uuid"])
                await self._go_back(vm, runs=former == "running")

    async def close(self) -> None:
        """Stop following; VMs keep running."""
        await self._hypervisors.close()

    async def autoboot(self) -> list[str]:
        """Start the stopped VMs that are wanted; returns the uuids of those that did not start."""
        due = [
            vm
            for vm in self._store
            if vm.get("autoboot")
            and not vm.get("mark")
            and (await self._hypervisors.of(vm).state(vm["uuid"])).zone_state == "installed"
        ]
        side_by_side = asyncio.Semaphore(_AUTOBOOT_SIDE_BY_SIDE)

        async def start(vm: Vm) -> str | None:
            async with side_by_side:
                try:
                    await self._hypervisors.of(vm).start(vm)
                except NodeError as error:
                    log.error("vm_autoboot_failed", uuid=vm["uuid"], error=str(error))
                    return str(vm["uuid"])
            self._changed(vm["uuid"])
            return None

        outcomes = await asyncio.gather(*(start(vm) for vm in due))
        return [uuid for uuid in outcomes if uuid is not None]

    async def runs_any(self) -> bool:
        """Whether a VM runs, or is about to."""
        for vm in self._store:
            if (await self._hypervisors.of(vm).state(vm["uuid"])).zone_state != "installed":
                return True
        return False

    def watch(self, changed: Changed) -> None:
        """Call ``changed(uuid)`` on every change of state or configuration."""
        self._watchers.append(changed)

    def unwatch(self, changed: Changed) -> None:
        """Stop calling it."""
        self._watchers.remove(changed)

    def _changed(self, uuid: str) -> None:
        for watcher in list(self._watchers):
            watcher(uuid)

    def _ended(self, uuid: str) -> None:
        vm = self._store.get(uuid)
        if vm is not None and not vm.get("mark"):
            try:
                self._store.save({**vm, "exit_timestamp": timestamp()})
            except OSError as error:
                # The disk is full: the end of the VM is reported all the same.
                log.error("vm_end_not_stored", uuid=uuid, error=str(error))
        self._changed(uuid)

    def exists(self, uuid: str) -> bool:
        """Whether this node has the VM."""
        return self._store.get(uuid) is not None

    async def list(self, *, include_dni: bool = False) -> list[Vm]:
        """All VM objects with their states, half-made ones as ``provisioning`` or ``failed``."""
        return [
            await self._records.present(vm)
            for vm in self._store
            if "brand" in vm and (include_dni or not vm.get("do_not_inventory"))
        ]

    async def load(self, uuid: str, *, include_dni: bool = True) -> Vm:
        """One VM object. Errors: ``VmNotFound``."""
        vm = self._records.find(uuid)
        if "brand" not in vm or (vm.get("do_not_inventory") and not include_dni):
            raise vm_not_found(uuid)
        return await self._records.present(vm)

    async def create(self, payload: Mapping[str, object], progress: Progress) -> Vm:
        """Create a VM, and start it when ``autoboot``; after any error nothing is left.

        Errors: ``VmAlreadyExists``, ``InvalidPayload``, image errors, the hypervisor's own.
        """
        vm = new_vm(payload, self._facts(), self.brands)
        hypervisor = self._hypervisors.of(vm)
        vm = hypervisor.describe(vm)
        uuid = vm["uuid"]
        if self.exists(uuid):
            raise DriverError(f"Machine {uuid} exists.", code="EEXIST", rest_code="VmAlreadyExists")
        progress("pre_check", 20)
        if vm["image_uuid"] is None:
            raise DriverError(
                "Invalid VM payload: image_uuid is required",
                code="EINVAL",
                rest_code="InvalidPayload",
            )
        self._store.save({**vm, "mark": "provisioning"})
        try:
            progress("ensure_image", 30)
            # Addresses of nodes that have the image, if the caller sent any.
            known: object = payload.get("imgapiPeers") or []
            peers = [str(one) for one in cast("list[object]", known)]
            await self._images.ensure(vm["image_uuid"], peers)
            progress("import_image", 50)
            await hypervisor.make(vm)
            progress("make", 70)
            if vm.get("autoboot"):
                await hypervisor.start(vm)
            self._store.save(vm)
        except BaseException as error:
            log.warning("vm_not_created", uuid=uuid, error=str(error) or type(error).__name__)
            await self._roll_back(uuid)
            raise
        progress("create", 100)
        return await self._after_change(uuid)

    async def _roll_back(self, uuid: str) -> None:
        try:
            await self._remove(uuid)
        except NodeError as error:
            log.error("failed_vm_not_removed", uuid=uuid, error=str(error))
            vm = self._store.get(uuid)
            if vm is not None:
                self._store.save({**vm, "mark": "failed"})

    async def _remove(self, uuid: str) -> None:
        await self._hypervisors.remove(uuid)
        for volume in [one for one in self.volumes.store if one.vm == uuid]:
            volume.vm = ""
            self.volumes.store.save(volume)
        self._store.forget(uuid)

    def _whole(self, uuid: str) -> tuple[Vm, Hypervisor]:
        """A VM that is not half made, and its hypervisor. Errors: ``VmNotFound``, ``VmNotUsable``."""
        vm = self._records.usable(uuid)
        return vm, self._hypervisors.of(vm)

    async def _running(self, uuid: str) -> tuple[Vm, Hypervisor]:
        """As `_whole`, of a VM that runs. Errors: ``VmNotRunning``."""
        vm, hypervisor = self._whole(uuid)
        if (await hypervisor.state(uuid)).zone_state == "installed":
            raise not_running(uuid)
        return vm, hypervisor

    async def _after_change(self, uuid: str) -> Vm:
        """Tell the watchers of the change; the VM as it is now."""
        self._changed(uuid)
        return await self._records.present(self._records.find(uuid))

    async def start(self, uuid: str) -> Vm:
        """Start a stopped VM; resume a frozen one. Errors: ``VmAlreadyRunning``.

        From now on it starts when the machine boots.
        """
        vm, hypervisor = self._whole(uuid)
        now = await hypervisor.state(uuid)
        with self._wanted(uuid, runs=True):
            if now.frozen is not None:
                await hypervisor.resume(uuid)
            elif now.zone_state != "installed":
                raise already_running(uuid)
            else:
                await hypervisor.start(vm)
        return await self._after_change(uuid)

    @contextlib.contextmanager
    def _wanted(self, uuid: str, *, runs: bool) -> Generator[None, None, None]:
        """Keep over a boot what was asked for, unless it fails. What is so already has not failed."""
        try:
            yield
        except DriverError as error:
            if error.code in ("EALREADYRUNNING", "ENOTRUNNING"):
                self._want(uuid, runs=runs)
            raise
        self._want(uuid, runs=runs)

    def _want(self, uuid: str, *, runs: bool) -> None:
        vm = self._records.find(uuid)
        if vm.get("autoboot") is runs:
            return
        vm = cast("Vm", {**vm, "autoboot": runs, "last_modified": later(vm["last_modified"])})
        try:
            self._store.save(vm)
        except OSError as error:
            # The disk is full: a VM can be stopped all the same.
            log.error("wanted_state_not_stored", uuid=uuid, error=str(error))

    async def stop(self, uuid: str, *, force: bool = False, timeout: float = 60) -> Vm:
        """Stop it, by force after ``timeout`` seconds. Errors: ``VmNotRunning``.

        From now on it does not start when the machine boots.
        """
        with self._wanted(uuid, runs=False):
            _, hypervisor = await self._running(uuid)
            await hypervisor.stop(uuid, force=force, timeout=timeout)
        return await self._after_change(uuid)

    async def reboot(self, uuid: str, *, force: bool = False, timeout: float = 60) -> Vm:
        """Stop and start. Errors: ``VmNotRunning``."""
        vm, hypervisor = await self._running(uuid)
        await hypervisor.check_start(vm)
        await hypervisor.stop(uuid, force=force, timeout=timeout)
        await hypervisor.start(vm)
        return await self._after_change(uuid)

    async def kill(self, uuid: str, signal: int) -> Vm:
        """Send a signal to the guest's first process. Errors: ``VmNotRunning``."""
        _, hypervisor = await self._running(uuid)
        await hypervisor.kill(uuid, signal)
        return await self._after_change(uuid)

    async def update(self, uuid: str, changes: Mapping[str, object]) -> Vm:
        """Apply the update rules (§7.2); a running VM whose interfaces change is restarted.

        Nothing changes when one value is wrong. A VM that does not start with its new record runs on with
        the old one.
        """
        old, hypervisor = self._whole(uuid)
        new = hypervisor.describe(updated(old, changes))
        runs = (await hypervisor.state(uuid)).zone_state == "running"
        if runs:
            await hypervisor.check_start(new)
        try:
            restart = await hypervisor.configure(old, new)
        except BaseException:
            with contextlib.suppress(NodeError):
                await hypervisor.configure(new, old)
            raise
        self._store.save(new)
        if restart and runs:
            try:
                await hypervisor.stop(uuid, force=False, timeout=60)
                await hypervisor.start(new)
            except BaseException:
                await self._go_back(old, runs=True)
                raise
        return await self._after_change(uuid)

    async def reprovision(self, uuid: str, image_uuid: str) -> Vm:
        """Replace the root file system; uuid, interfaces and metadata stay."""
        old, hypervisor = self._whole(uuid)
        if old.get("indestructible_zoneroot"):
            raise DriverError(
                f"VM {uuid} has indestructible_zoneroot set", rest_code="VmIndestructible"
            )
        await self._images.ensure(image_uuid)
        new = copy.deepcopy(old)
        new["image_uuid"] = image_uuid
        new["last_modified"] = later(old["last_modified"])
        await hypervisor.check_root(new)
        await self._replace_root(old, new, hypervisor.remake_root(new), stop_seconds=0)
        return await self._after_change(uuid)

    async def _replace_root(
        self, old: Vm, new: Vm, work: Coroutine[Any, Any, None], *, stop_seconds: float
    ) -> None:
        """Give a VM another root by ``work``, and its record ``new``; started again if it ran.

        Whatever fails, it is as before, and runs if it ran; so it is after an agent that was killed.
        """
        uuid, hypervisor = old["uuid"], self._hypervisors.of(old)
        try:
            runs = (await hypervisor.state(uuid)).zone_state != "installed"
            if runs:
                await hypervisor.check_start(new)
            self._store.save({**old, "former_state": "running" if runs else "stopped"})
            try:
                if runs:
                    await hypervisor.stop(uuid, force=not stop_seconds, timeout=stop_seconds)
                await work
                if runs:
                    await hypervisor.start(new)
                self._store.save(new)
            except BaseException:
                await self._go_back(old, runs=runs)
                raise
        finally:
            work.close()
        await self._drop_former(new)

    async def _drop_former(self, vm: Vm) -> None:
        try:
            await self._hypervisors.of(vm).drop_former_root(vm)
        except NodeError as error:
            # It takes room until the agent's next start.
            log.error("former_root_not_removed", uuid=vm["uuid"], error=str(error))

    async def _go_back(self, old: Vm, *, runs: bool) -> None:
        """Give a VM the root and the record that it had, and start it if it ran."""
        hypervisor = self._hypervisors.of(old)
        try:
            await hypervisor.restore_root(old)
            self._store.save(old)
            if runs:
                await hypervisor.start(old)
        except (NodeError, OSError) as error:
            log.error("vm_not_as_before", uuid=old["uuid"], error=str(error))

    async def amend(self, uuid: str, fields: Mapping[str, object]) -> Vm:
        """Change the record only (for migrations); the VM itself does not change."""
        vm = cast("Vm", {**self._records.usable(uuid), **fields})
        vm["last_modified"] = later(vm["last_modified"])
        self._store.save(vm)
        return await self._after_change(uuid)

    async def limit_storage(self, uuid: str, *, limited: bool) -> None:
        """Remove the quota from the VM's storage, or set it again; the record keeps the quota."""
        vm, hypervisor = self._whole(uuid)
        await hypervisor.limit_storage(vm, int(vm.get("quota") or 0) if limited else 0)

    async def migrate_live(
        self, uuid: str, action: str, params: Mapping[str, object]
    ) -> dict[str, object]:
        """``machine_migrate`` of a VM that moves while it runs."""
        vm = self._records.usable(uuid) if self.exists(uuid) else unwritten(uuid)
        return await self._hypervisors.of(vm).migrate_live(vm, action, params)

    async def create_snapshot(
        self, uuid: str, name: str | None, *, created_at: str | None = None
    ) -> Vm:
        """Snapshot the disks under ``name`` (``None``: a time stamp).

        ``created_at``: when it was created, for a snapshot that comes from another node. Errors:
        ``SnapshotExists``, ``InvalidPayload``.
        """
        vm, hypervisor = self._whole(uuid)
        taken = {entry["name"] for entry in vm.get("snapshots", [])}
        if name is None:
            name = free_name(taken)
        check_snapshot_name(name)
        if name in taken:
            raise DriverError(
                f"VM {uuid} has a snapshot {name} already",
                code="EEXIST",
                rest_code="SnapshotExists",
            )
        await hypervisor.snapshot(vm, name)
        # Recorded once complete: a snapshot without a record is replaced when its name is used
        # again.
        entry: SnapshotEntry = {"name": name, "created_at": created_at or timestamp()}
        self._store.save({**vm, "snapshots": [*vm.get("snapshots", []), entry]})
        return await self._after_change(uuid)

    async def rollback_snapshot(self, uuid: str, name: str) -> Vm:
        """Restore the disks; newer snapshots are removed. A running VM is restarted.

        Whatever fails, the VM is as before, and runs if it ran.

        Errors: ``SnapshotNotFound``.
        """
        vm, hypervisor = self._whole(uuid)
        entries = list(vm.get("snapshots", []))
        names = [entry["name"] for entry in entries]
        if name not in names:
            raise no_snapshot(uuid, name)
        kept = names.index(name) + 1
        await self._replace_root(
            vm,
            {**vm, "snapshots": entries[:kept]},
            hypervisor.rollback(vm, name),
            stop_seconds=_ROLLBACK_STOP_SECONDS,
        )
        for newer in names[kept:]:
            await hypervisor.drop_snapshot(vm, newer)
        return await self._after_change(uuid)

    async def delete_snapshot(self, uuid: str, name: str) -> Vm:
        """Remove a snapshot; a missing one is not an error."""
        vm, hypervisor = self._whole(uuid)
        check_snapshot_name(name)
        await hypervisor.drop_snapshot(vm, name)
        kept = [entry for entry in vm.get("snapshots", []) if entry["name"] != name]
        self._store.save({**vm, "snapshots": kept})
        return await self._after_change(uuid)

    async def delete(self, uuid: str) -> None:
        """Remove a VM; a missing one is not an error."""
        vm = self._store.get(check_uuid(uuid))
        if vm is None:
            return
        if vm.get("indestructible_zoneroot"):
            raise DriverError(
                f"VM {uuid} has indestructible_zoneroot set: clear it with an update first",
                rest_code="VmIndestructible",
            )
        # Marked first: an interrupted removal continues at the agent's next start.
        try:
            self._store.save({**vm, "mark": "failed"})
        except OSError as error:
            # A full disk must not prevent a removal that frees space.
            log.warning("vm_removed_without_mark", uuid=uuid, error=str(error))
        await self._remove(uuid)
        self._changed(uuid)

    async def processes(self, uuid: str) -> dict[str, object]:
        """The VM's processes by pid. Errors: ``VmNotRunning``."""
        _, hypervisor = self._whole(uuid)
        if (await hypervisor.state(uuid)).zone_state == "installed":
            raise DriverError("VM is not running", code="ENOTRUNNING", rest_code="VmNotRunning")
        return await hypervisor.processes(uuid)

    async def info(self, uuid: str, types: Sequence[str]) -> dict[str, object]:
        """What the hypervisor knows of a running VM; every hypervisor knows ``status``."""
        vm, hypervisor = await self._running(uuid)
        known: dict[str, object] = {}
        state = await hypervisor.state(uuid)
        if {"all", "status"} & set(types):
            known["status"] = {"state": state.zone_state, "pid": state.pid}
            if state.frozen is not None:
                known["status"].update(frozen=True, frozen_reason=state.frozen)
        known.update(await hypervisor.info(vm, types))
        unsupported = sorted(set(types) - {"all", *known})
        if unsupported and not known:
            raise not_implemented(f"machine_info of {', '.join(unsupported)}", self.name)
        return known

    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """Run a command inside a running VM. Errors: ``VmNotRunning``."""
        _, hypervisor = await self._running(uuid)
        return await hypervisor.execute(uuid, command, environment, timeout)

    async def exec_command(self, uuid: str, request: ExecRequest) -> HostCommand:
        """The command that runs inside a running VM with the caller's streams. Errors: ``VmNotRunning``."""
        _, hypervisor = await self._running(uuid)
        return await hypervisor.exec_command(uuid, request)

    async def stats(self, uuid: str) -> dict[str, object]:
        """A running VM's resource use, in the form of ``docker stats``. Errors: ``VmNotRunning``."""
        _, hypervisor = await self._running(uuid)
        return await hypervisor.stats(uuid)

    def snapshot_files(self, uuid: str, name: str) -> AbstractAsyncContextManager[GuestRoot]:
        """The tree of a snapshot, readable until the block ends. Errors: ``SnapshotNotFound``."""
        vm, hypervisor = self._whole(uuid)
        if name not in [entry["name"] for entry in vm.get("snapshots", [])]:
            raise no_snapshot(uuid, name)
        return hypervisor.snapshot_files(vm, name)

    async def files(self, uuid: str) -> GuestRoot:
        """A VM's root file system, running or not."""
        vm, hypervisor = self._whole(uuid)
        return await hypervisor.files(vm)

    async def console(self, uuid: str) -> Path | None:
        """The socket of a running VM's serial line; ``None``: output only (``console.log``).

        Errors: ``VmNotRunning``.
        """
        vm, hypervisor = await self._running(uuid)
        return await hypervisor.console(vm)

    async def screenshot(self, uuid: str) -> bytes:
        """A picture of the screen (PNG). Errors: ``VmNotRunning``, ``NotImplemented``."""
        vm, hypervisor = await self._running(uuid)
        return await hypervisor.screenshot(vm)

    async def export(
        self, uuid: str, target: Path, *, compression: str, max_origin_depth: int
    ) -> dict[str, object]:
        """Write a stopped VM's image to ``target``; returns manifest fields, see ``Hypervisor.export``."""
        vm, hypervisor = self._whole(uuid)
        return await hypervisor.export(
            vm, target, compression=compression, max_origin_depth=max_origin_depth
        )

    async def usage(self, uuid: str) -> DiskUse:
        """Bytes on disk; zero for a VM that is being removed."""
        hypervisor = self._hypervisors.of(self._store.get(uuid) or {})
        with contextlib.suppress(FileNotFoundError):
            return await hypervisor.usage(uuid)
        return DiskUse(0)

    def capabilities(self) -> dict[str, Any]:
        """Brands and features."""
        return {
            "driver": self.name,
            "brands": list(self.brands),
            "features": list(self._hypervisors.features),
        }
