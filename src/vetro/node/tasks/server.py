"""The node itself: sysinfo, setup, reboot, tags, scripts."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

import structlog

from vetro.node.errors import TaskFailure
from vetro.node.files import read_json, write_json
from vetro.node.tasks.parameters import array, flag, invalid, objects, seconds, text
from vetro.node.tasks.parts import NodeParts
from vetro.node.vm_objects import as_object, timestamp
from vetro.node.work.queues import TaskContext, TaskKind, TaskRunner

log = structlog.get_logger(__name__)

# By convention the exit status of a script that requests a reboot.
REBOOT_STATUS = 113
_DRAIN_SECONDS = 900.0
_HOSTNAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
# Layouts with several disks: those pools are created before the agent starts.
_LAYOUTS = ("single", "mirror", "raidz1", "raidz2", "raidz3")


class ServerTasks:
    """Handlers of one node."""

    def __init__(self, node: NodeParts, runner: TaskRunner) -> None:
        self._node = node
        self._runner = runner

    def kinds(self) -> list[TaskKind]:
        """The kinds of tasks that this does."""
        work = "server_tasks"
        return [
            TaskKind("command_execute", work, self.command_execute),
            TaskKind("server_sysinfo", work, self.sysinfo, query=True),
            TaskKind("server_overprovision_ratio", work, self.overprovision_ratio),
            TaskKind("server_reboot", work, self.reboot),
            TaskKind("server_setup", work, self.setup),
            TaskKind("server_factory_reset", work, self.factory_reset),
            TaskKind("recovery_config", work, self.recovery_config),
            TaskKind("server_update_nics", "server_nic_tasks", self.update_nics),
            TaskKind("nop", "nop", self.nop, query=True, aliases=("test_subtask",)),
            TaskKind("sleep", "nop", self.sleep, query=True, aliases=("test_sleep",)),
        ]

    async def sysinfo(self, _context: TaskContext) -> Mapping[str, object]:
        """``{sysinfo}``, read now."""
        return {"sysinfo": await self._node.sysinfo()}

    async def overprovision_ratio(self, context: TaskContext) -> None:
        """Store the ratios that the service has set."""
        value = context.params.get("value")
        if not value:
            raise invalid("no value given")
        self._configure(overprovision_ratio=unquote(str(value)))

    def _configure(self, **values: str) -> None:
        """Site facts, in ``node.json``."""
        file = self._node.data_dir / "node.json"
        kept = cast("dict[str, Any]", read_json(file) or {})
        write_json(file, {**kept, **values})

    async def nop(self, context: TaskContext) -> None:
        """Sleep ``sleep`` seconds, then fail with ``error`` when given."""
        await asyncio.sleep(seconds(context.params.get("sleep"), 0, "sleep"))
        if context.params.get("error"):
            raise TaskFailure(str(context.params["error"]))

    async def sleep(self, context: TaskContext) -> None:
        """Sleep ``timeout`` milliseconds."""
        await asyncio.sleep(seconds(context.params.get("timeout"), 5000, "timeout") / 1000)

    async def command_execute(self, context: TaskContext) -> Mapping[str, object]:
        """Run a script on the node; the task succeeds even if the script fails."""
        script = context.params.get("script")
        if not isinstance(script, str) or not script:
            raise invalid("no script given")
        arguments = [str(item) for item in array(context.params, "args")]
        environment = {
            name: str(value) for name, value in as_object(context.params.get("env"), "env").items()
        }
        limit = seconds(context.params.get("timeout"), 0, "timeout") / 1000
        result = await self._node.host.execute(script, arguments, environment, limit)
        if result["exitCode"] == REBOOT_STATUS:
            await self._start_reboot("a script asked for it")
        return result

    async def reboot(self, context: TaskContext) -> None:
        """Reboot the machine soon; ``{}`` at once.

        With ``drain`` no new task is accepted, and running tasks may end first (at most 15
        minutes).
        """
        if flag(context.params, "drain"):
            self._runner.paused = True
            if not await self._runner.drained(_DRAIN_SECONDS, beside=context.entry):
                self._runner.paused = False
                raise TaskFailure(
                    f"Tasks still run after {_DRAIN_SECONDS:g} s: the server was not rebooted",
                    "NotDrained",
                )
        await self._start_reboot("the service asked for it")

    async def _start_reboot(self, reason: str) -> None:
        log.warning("machine_reboots", reason=reason)
        await self._node.host.reboot()

    async def setup(self, context: TaskContext) -> Mapping[str, object]:
        """Prepare the node for VMs; ``{sysinfo}``. Repeating it is harmless.

        The storage pool exists before the agent starts (setting ``node.pool``): this task
        never formats disks (docs/decisions/0041). Errors: when there are VMs already.
        """
        params = context.params
        if (read_json(self._node.data_dir / "setup.json") or {}).get("complete") is True:
            return {"sysinfo": await self._node.sysinfo()}
        vms = await self._node.driver.list(include_dni=True)
        if vms:
            raise TaskFailure(
                f"This server has VMs ({vms[0]['uuid']} and {len(vms) - 1} more): it is not set up"
                " again",
                "ServerHasVms",
            )
        await self._check_pool(params)
        context.progress("pool", 40)
        hostname = params.get("hostname")
        if hostname:
            if not _HOSTNAME.fullmatch(str(hostname)):
                raise invalid(f"hostname: '{hostname}' is not a host name")
            # The node's name in the service; the operator owns the machine's own host name.
            self._configure(hostname=str(hostname))
        nics = objects(params, "nics")
        if nics:
            self._node.tags.update(nics)
        context.progress("configuration", 80)
        write_json(self._node.data_dir / "setup.json", {"complete": True, "at": timestamp()})
        self._node.changed()
        return {"sysinfo": await self._node.sysinfo()}

    async def _check_pool(self, params: Mapping[str, object]) -> None:
        layout = params.get("disk_layout")
        if layout is not None and layout not in _LAYOUTS:
            raise invalid(
                "disk_layout must be one of: " + ", ".join(f"'{name}'" for name in _LAYOUTS)
            )
        stats = await self._node.pool.trees.stats()
        have = f"a {self._node.pool.trees.kind} pool ({stats.profile})"
        if layout not in (None, "single") and not stats.profile.startswith(str(layout)):
            raise TaskFailure(
                f"This node has {have}, not '{layout}': make the pool you want, start the agent"
                " with it (node.pool) and set the server up again",
                "PoolMismatch",
            )
        if flag(params, "encryption_enabled") and not stats.encrypted:
            raise TaskFailure(f"This node has {have}, which is not encrypted", "PoolMismatch")

    async def factory_reset(self, context: TaskContext) -> None:
        """Delete all data of this node and reboot it; ``{}``.

        ``confirm`` must be the server's uuid. Errors: while it has VMs.
        """
        if str(context.params.get("confirm") or "").lower() != self._node.server_uuid:
            raise invalid(f"confirm must be this server's uuid, {self._node.server_uuid}")
        vms = await self._node.driver.list(include_dni=True)
        if vms:
            raise TaskFailure(
                f"This server still has {len(vms)} VMs: destroy or move them first", "ServerHasVms"
            )
        while await self._node.images.collect((), 0):
            continue
        for name in ("node.json", "networking.json", "id-ranges.json", "fences.json"):
            (self._node.data_dir / name).unlink(missing_ok=True)
        write_json(self._node.data_dir / "setup.json", {"complete": False, "at": timestamp()})
        self._node.changed()
        await self._start_reboot("factory reset")

    async def recovery_config(self, context: TaskContext) -> None:
        """Stage or activate a recovery configuration of an encrypted pool; ``{}``."""
        params = context.params
        action = params.get("action")
        needed = {
            "stage": ("pivtoken", "recovery_uuid", "template", "token"),
            "activate": ("pivtoken", "recovery_uuid"),
        }.get(str(action))
        if needed is None:
            raise invalid("action must be 'stage' or 'activate'")
        missing = [name for name in needed if not params.get(name)]
        if missing:
            raise invalid(f"Missing required request parameters: {', '.join(missing)}")
        stats = await self._node.pool.trees.stats()
        if not stats.encrypted:
            raise TaskFailure(
                f"The {self._node.pool.trees.kind} pool of this node is not encrypted",
                "NotImplemented",
            )
        directory = self._node.data_dir / "recovery"
        directory.mkdir(mode=0o700, exist_ok=True)
        uuid = re.sub(r"[^0-9a-f-]", "", text(params, "recovery_uuid").lower())
        staged = directory / f"{uuid}.staged.json"
        if action == "stage":
            write_json(staged, {name: params[name] for name in needed})
        else:
            if not staged.exists():
                raise TaskFailure(f"No recovery configuration {uuid} is staged", "NotStaged")
            os.replace(staged, directory / "active.json")

    async def update_nics(self, context: TaskContext) -> Mapping[str, object]:
        """Change which tags the machine's interfaces carry; ``{sysinfo}``, read again."""
        self._node.tags.update(objects(context.params, "nics"))
        self._node.changed()
        return {"sysinfo": await self._node.sysinfo()}
