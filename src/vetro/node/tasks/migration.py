"""``machine_migrate``: the steps of moving a VM, each idempotent, in the service's order.

A move with a short downtime: ``setup-filesystem`` on the target, ``receive`` there and ``sync``
here while the VM runs (before that, oldest first, the same with each snapshot's files and
``keep-snapshot`` there); then stop the VM, ``receive`` and ``sync`` again for later changes; then
``set-do-not-inventory`` and ``set-autoboot`` on the target, start it there, destroy it here.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from vetro.digits import is_number
from vetro.json_values import JsonObject
from vetro.node.drivers import Driver
from vetro.node.errors import TaskFailure
from vetro.node.migration import Migrations
from vetro.node.tasks.parameters import flag, invalid
from vetro.node.vm_objects import as_object, check_uuid
from vetro.node.work.queues import TaskContext, TaskKind

_SYNC_SNAPSHOT = re.compile(r"vm-migration-\d+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):\d{1,5}")

Action = Callable[[str, Mapping[str, object]], Awaitable[Mapping[str, object] | None]]


class MigrationTasks:
    """Handlers over one driver and its transfers."""

    def __init__(self, driver: Driver, migrations: Migrations) -> None:
        self._driver = driver
        self._migrations = migrations
        self._actions: dict[str, Action] = {
            "sync": self._sync,
            "receive": self._receive,
            "estimate": self._estimate,
            "get-filesystem-details": self._details,
            "set-create-timestamp": self._set_create_timestamp,
            "remove-zfs-quota": self._remove_quota,
            "restore-zfs-quota": self._restore_quota,
            "keep-snapshot": self._keep_snapshot,
            "remove-sync-snapshots": self._remove_snapshots,
            "setup-filesystem": self._setup,
            "set-do-not-inventory": self._flag("do_not_inventory"),
            "set-autoboot": self._flag("autoboot"),
            "set-indestructible-zoneroot": self._flag("indestructible_zoneroot"),
            "set-indestructible-delegated": self._flag("indestructible_delegated"),
            "kill_migration_process": self._kill,
        }

    def kinds(self) -> list[TaskKind]:
        """The kinds of tasks that this does."""
        return [TaskKind("machine_migrate", "machine_tasks", self.migrate, label="vmadm.migrate",
                         target=_target)]  # fmt: skip

    async def migrate(self, context: TaskContext) -> Mapping[str, object] | None:
        """Run one step. Parameters may be in ``migrationTask`` and in its ``record``."""
        params = _flat(context.params)
        action = str(params.get("action") or "")
        if action not in self._actions:
            raise invalid(f"Unexpected payload.action: {action}")
        uuid = check_uuid(params.get("vm_uuid") or params.get("uuid"), "vm_uuid")
        features = self._driver.capabilities()["features"]
        if action in ("sync", "receive") and "live-migration" in features:
            brand = (await self._driver.load(uuid))["brand"] if self._driver.exists(uuid) else (
                as_object(params.get("vm"), "vm").get("brand")
            )  # fmt: skip
            if brand in ("kvm", "bhyve"):
                return await self._driver.migrate_live(uuid, action, params)
        return await self._actions[action](uuid, params)

    async def _sync(self, uuid: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Send the files to ``host``, ``port`` with ``token``; progress at ``{pid, host, port}``.

        With ``wait`` it returns at the end of the transfer, with ``transferred`` bytes; also with
        ``snapshot_name``: then the files are those of that snapshot.
        """
        host, port = str(params.get("host") or ""), str(params.get("port") or "")
        shown = f"[{host}]" if ":" in host else host
        if not _ADDRESS.fullmatch(f"{shown}:{port}"):
            raise invalid("host and port must say where the other node waits (action 'receive')")
        way = {"connect": f"{shown}:{port}", "token": str(params.get("token") or "")}
        if (name := params.get("snapshot_name")) is not None:
            # Its tree may exist only while it is in use.
            async with self._driver.snapshot_files(uuid, str(name)) as root:
                sending = await self._migrations.start("send", uuid, root, **way)
                sent = await self._migrations.outcome(int(sending["pid"]))
            return {**sent, "snapshot_name": name}
        where = await self._migrations.start("send", uuid, await self._driver.files(uuid), **way)
        answer = {key: where[key] for key in ("pid", "host", "port")}
        if flag(params, "wait"):
            answer |= await self._migrations.outcome(int(where["pid"]))
        return answer

    async def _receive(self, uuid: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Wait for the files; ``{pid, host, port, token}``."""
        vm = await self._driver.load(uuid)
        if vm.get("state") != "stopped":
            raise TaskFailure(
                f"VM {uuid} is {vm.get('state')} on this node: only a stopped one can be received",
                "VmAlreadyRunning",
            )
        return await self._migrations.start("receive", uuid, await self._driver.files(uuid))

    async def _estimate(self, uuid: str, params: Mapping[str, object]) -> Mapping[str, object]:
        return {"size": (await self._driver.usage(uuid)).used}

    async def _details(self, uuid: str, params: Mapping[str, object]) -> Mapping[str, object]:
        quota = int((await self._driver.load(uuid)).get("quota") or 0) * 2**30
        return {"quotaStr": str(quota), "reservationStr": "0"}

    async def _set_create_timestamp(
        self, uuid: str, params: Mapping[str, object]
    ) -> Mapping[str, object]:
        vm = as_object(params.get("vm"), "vm")
        stamp = params.get("create_timestamp") or vm.get("create_timestamp")
        if not _TIME.fullmatch(str(stamp)):
            raise invalid("create_timestamp must be an ISO time in UTC")
        return {"vm": await self._driver.amend(uuid, {"create_timestamp": str(stamp)})}

    async def _remove_quota(self, uuid: str, params: Mapping[str, object]) -> None:
        await self._driver.limit_storage(uuid, limited=False)

    async def _restore_quota(self, uuid: str, params: Mapping[str, object]) -> None:
        await self._driver.limit_storage(uuid, limited=True)

    async def _keep_snapshot(self, uuid: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Keep the received files as the snapshot ``snapshot_name`` of ``created_at``; ``{vm}``."""
        name, stamp = str(params.get("snapshot_name") or ""), str(params.get("created_at") or "")
        if not _TIME.fullmatch(stamp):
            raise invalid("created_at must be an ISO time in UTC")
        vm = await self._driver.load(uuid)
        if {"name": name, "created_at": stamp} not in vm.get("snapshots", []):
            vm = await self._driver.create_snapshot(uuid, name, created_at=stamp)
        return {"vm": vm}

    async def _remove_snapshots(self, uuid: str, params: Mapping[str, object]) -> None:
        vm = await self._driver.load(uuid)
        for entry in vm.get("snapshots", []):
            if _SYNC_SNAPSHOT.fullmatch(entry["name"]):
                await self._driver.delete_snapshot(uuid, entry["name"])

    async def _setup(self, uuid: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Create the VM here, stopped and hidden, with an unchanged root; ``{vm}``. Repeatable."""
        if self._driver.exists(uuid):
            vm = await self._driver.load(uuid)
            if vm.get("state") == "stopped" and vm.get("do_not_inventory"):
                return {"vm": vm}
            raise TaskFailure(f"Machine {uuid} exists.", "VmAlreadyExists", state=vm.get("state"))
        given = as_object(params.get("vm"), "vm")
        if not given:
            raise invalid("vm must be the VM object of the source")
        payload = {key: value for key, value in given.items() if key not in _OF_THE_SOURCE}
        payload |= {"uuid": uuid, "autoboot": False, "do_not_inventory": True}
        vm = await self._driver.create(payload, lambda _step, _percent: None)
        return {"vm": vm}

    def _flag(self, name: str) -> Action:
        async def change(uuid: str, params: Mapping[str, object]) -> Mapping[str, object]:
            value = params.get("value", True)
            if value not in (True, False, "true", "false"):
                raise invalid("value must be true or false")
            return {"vm": await self._driver.amend(uuid, {name: value in (True, "true")})}

        return change

    async def _kill(self, uuid: str, params: Mapping[str, object]) -> Mapping[str, object]:
        pid = params.get("pid")
        if isinstance(pid, bool) or not is_number(str(pid)):
            raise invalid("pid must be the number of a process")
        return {"killed": await self._migrations.kill(int(str(pid)), uuid)}


# The fields of a VM object that describe its former node.
_OF_THE_SOURCE = frozenset(
    {
        "state", "zone_state", "pid", "boot_timestamp", "exit_timestamp", "exit_status", "snapshots",
        "zonepath", "zfs_filesystem", "zonename", "zoneid", "server_uuid", "datacenter_name", "zpool",
        "id_base", "last_modified", "create_timestamp", "v", "type",
    }
)  # fmt: skip


def _flat(params: Mapping[str, object]) -> JsonObject:
    task = as_object(params.get("migrationTask"), "migrationTask")
    record = as_object(task.get("record"), "migrationTask.record")
    return {**record, **params, **{key: value for key, value in task.items() if key != "record"}}


def _target(params: Mapping[str, object]) -> str:
    """The VM to lock; '' for a kill, which must end a running task."""
    flat = _flat(params)
    if flat.get("action") == "kill_migration_process":
        return ""
    return str(flat.get("vm_uuid") or flat.get("uuid") or "")
