"""The tasks a node serves (compute-node-agent.md §5), over a driver, images and networks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal as signals
import tempfile
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from vetro.node.drivers import Driver
from vetro.node.errors import DriverError, TaskFailure, not_implemented
from vetro.node.files import write_json
from vetro.node.image_store import ImageStore
from vetro.node.machines import as_object, check_uuid
from vetro.node.network import NetworkApplier
from vetro.node.queues import TaskContext, TaskKind, TaskRunner

_OUTPUT_LIMIT = 5 * 2**20
_STOP_SECONDS = 60.0

# Known tasks that this version's drivers do not do: the answer says so instead of "unknown".
_UNSUPPORTED = {
    "machine_screenshot": "machine_tasks",
    "machine_update_nics": "machine_tasks",
    "server_reboot": "server_tasks",
    "server_setup": "server_tasks",
    "server_factory_reset": "server_tasks",
    "machine_create_snapshot": "machine_tasks",
    "machine_rollback_snapshot": "machine_tasks",
    "machine_delete_snapshot": "machine_tasks",
    "machine_migrate": "machine_tasks",
    "machine_create_image": "machine_images",
    "docker_exec": "machine_query",
    "docker_copy": "machine_query",
    "docker_stats": "machine_query",
    "docker_build": "machine_query",
    "agent_install": "agents_tasks",
    "agents_uninstall": "agents_tasks",
    "recovery_config": "server_tasks",
    "server_update_nics": "server_nic_tasks",
    "zfs_list_datasets": "zfs_query",
    "zfs_list_pools": "zfs_query",
    "zfs_list_snapshots": "zfs_query",
    "zfs_get_properties": "zfs_query",
    "zfs_create_dataset": "zfs_tasks",
    "zfs_destroy_dataset": "zfs_tasks",
    "zfs_rename_dataset": "zfs_tasks",
    "zfs_snapshot_dataset": "zfs_tasks",
    "zfs_rollback_dataset": "zfs_tasks",
    "zfs_clone_dataset": "zfs_tasks",
    "zfs_set_properties": "zfs_tasks",
}


class NodeTasks:
    """Handlers of one agent."""

    def __init__(
        self,
        driver: Driver,
        images: ImageStore,
        network: NetworkApplier | None,
        *,
        sysinfo: Callable[[], Awaitable[dict[str, Any]]],
        refresh_agents: Callable[[], Awaitable[None]],
        data_dir: Path,
    ) -> None:
        self._driver = driver
        self._images = images
        self._network = network
        self._sysinfo = sysinfo
        self._refresh_agents = refresh_agents
        self._data_dir = data_dir

    def register(self, runner: TaskRunner) -> None:
        """Serve every task."""
        for kind in (
            TaskKind("machine_create", "machine_creation", self.machine_create, label="vmadm.create"),
            TaskKind("machine_reprovision", "machine_creation", self.machine_reprovision,
                     label="vmadm.reprovision"),
            TaskKind("machine_boot", "machine_tasks", self.machine_boot, label="vmadm.start",
                     aliases=("machine_start",)),
            TaskKind("machine_shutdown", "machine_tasks", self.machine_shutdown, label="vmadm.stop",
                     aliases=("machine_stop",)),
            TaskKind("machine_reboot", "machine_tasks", self.machine_reboot, label="vmadm.reboot"),
            TaskKind("machine_kill", "machine_tasks", self.machine_kill, label="vmadm.kill"),
            TaskKind("machine_destroy", "machine_tasks", self.machine_destroy, label="delete"),
            TaskKind("machine_update", "machine_tasks", self.machine_update, label="vmadm.update"),
            TaskKind("machine_load", "machine_query", self.machine_load, query=True, label="VM.load"),
            TaskKind("machine_list", "machine_query", self.machine_list, query=True, label="VM.list"),
            TaskKind("machine_info", "machine_query", self.machine_info, query=True, label="VM.info"),
            TaskKind("machine_proc", "machine_query", self.machine_proc, query=True),
            TaskKind("machine_execute", "machine_tasks", self.machine_execute, label="VM.exec"),
            TaskKind("image_ensure_present", "image_import_tasks", self.image_ensure_present),
            TaskKind("image_get", "image_query", self.image_get, query=True, label="Image.get"),
            TaskKind("image_list", "image_query", self.image_list, query=True),
            TaskKind("image_delete", "image_import_tasks", self.image_delete),
            TaskKind("network_apply", "network_tasks", self.network_apply),
            TaskKind("command_execute", "server_tasks", self.command_execute),
            TaskKind("server_sysinfo", "server_tasks", self.server_sysinfo, query=True),
            TaskKind("server_overprovision_ratio", "server_tasks", self.server_overprovision_ratio),
            TaskKind("refresh_agents", "agents_tasks", self.refresh_agents),
            TaskKind("nop", "nop", self.nop, query=True),
            TaskKind("sleep", "nop", self.sleep, query=True, aliases=("test_sleep",)),
            *(
                TaskKind(name, queue, self._unsupported(name), query=True)
                for name, queue in _UNSUPPORTED.items()
            ),
        ):  # fmt: skip
            runner.register(kind)

    def _unsupported(self, name: str) -> Callable[[TaskContext], Awaitable[Mapping[str, Any]]]:
        async def refuse(_context: TaskContext) -> Mapping[str, Any]:
            raise not_implemented(name, self._driver.name)

        return refuse

    # Machines

    async def machine_create(self, context: TaskContext) -> Mapping[str, Any]:
        """Create a VM; ``{vm}``."""
        params = dict(context.params)
        disks = params.get("disks")
        if not params.get("image_uuid") and isinstance(disks, list) and disks:
            params["image_uuid"] = as_object(cast("list[object]", disks)[0], "disks[0]").get(
                "image_uuid"
            )
        return {"vm": await self._driver.create(params, context.progress)}

    async def machine_reprovision(self, context: TaskContext) -> Mapping[str, Any]:
        """Replace the root file system; ``{vm}``."""
        uuid = _uuid(context.params)
        image = check_uuid(context.params.get("image_uuid"), "image_uuid")
        return {"vm": await self._driver.reprovision(uuid, image)}

    async def machine_boot(self, context: TaskContext) -> Mapping[str, Any]:
        """Apply ``update``, then start; ``{vm}``."""
        uuid = _uuid(context.params)
        await self._update_first(uuid, context.params)
        with _tolerate(context.params, "EALREADYRUNNING"):
            await self._driver.start(uuid)
        return {"vm": await self._driver.load(uuid)}

    async def machine_shutdown(self, context: TaskContext) -> Mapping[str, Any]:
        """Stop; ``{vm}``."""
        uuid = _uuid(context.params)
        with _tolerate(context.params, "ENOTRUNNING", "ESRCH"):
            await self._driver.stop(
                uuid, force=_flag(context.params, "force"), timeout=_timeout(context.params)
            )
        return {"vm": await self._driver.load(uuid)}

    async def machine_reboot(self, context: TaskContext) -> Mapping[str, Any]:
        """Apply ``update``, then stop and start; ``{vm}``."""
        uuid = _uuid(context.params)
        await self._update_first(uuid, context.params)
        with _tolerate(context.params, "ENOTRUNNING"):
            await self._driver.reboot(
                uuid, force=_flag(context.params, "force"), timeout=_timeout(context.params)
            )
        return {"vm": await self._driver.load(uuid)}

    async def machine_kill(self, context: TaskContext) -> Mapping[str, Any]:
        """Signal the VM's first process; ``{vm}``."""
        uuid = _uuid(context.params)
        number = signal_number(context.params.get("signal", "SIGTERM"))
        with _tolerate(context.params, "ESRCH", "ENOTRUNNING"):
            await self._driver.kill(uuid, number)
        return {"vm": await self._driver.load(uuid)}

    async def machine_destroy(self, context: TaskContext) -> Mapping[str, Any]:
        """Remove a VM and everything of it; ``{}``."""
        await self._driver.delete(_uuid(context.params))
        return {}

    async def machine_update(self, context: TaskContext) -> Mapping[str, Any]:
        """Apply the update rules; ``{vm}``."""
        return {"vm": await self._driver.update(_uuid(context.params), context.params)}

    async def _update_first(self, uuid: str, params: Mapping[str, Any]) -> None:
        changes = as_object(params.get("update"), "update")
        if changes:
            await self._driver.update(uuid, {**changes, "uuid": uuid})

    async def machine_load(self, context: TaskContext) -> Mapping[str, Any]:
        """The VM object itself."""
        return await self._driver.load(
            _uuid(context.params), include_dni=_flag(context.params, "include_dni")
        )

    async def machine_list(self, context: TaskContext) -> Mapping[str, Any]:
        """``{vms: [VM object]}``."""
        vms = await self._driver.list(include_dni=_flag(context.params, "include_dni"))
        return {"vms": vms}

    async def machine_info(self, context: TaskContext) -> Mapping[str, Any]:
        """What the hypervisor knows, by type."""
        types = context.params.get("types") or ["all"]
        if isinstance(types, str):
            types = types.split(",")
        return await self._driver.info(_uuid(context.params), [str(t) for t in types])

    async def machine_proc(self, context: TaskContext) -> Mapping[str, Any]:
        """Processes by pid."""
        return await self._driver.processes(_uuid(context.params))

    async def machine_execute(self, context: TaskContext) -> Mapping[str, Any]:
        """Run ``command`` (array) inside a VM; ``{exitCode, stdout, stderr}``."""
        command = context.params.get("command")
        if not isinstance(command, list) or not command:
            raise TaskFailure("command must be an array of words", {"restCode": "InvalidPayload"})
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        environment.update(as_object(context.params.get("env"), "env"))
        result = await self._driver.execute(
            _uuid(context.params),
            [str(word) for word in cast("list[object]", command)],
            environment,
            _timeout(context.params),
        )
        return {"exitCode": result.exit_code, "stdout": result.stdout, "stderr": result.stderr}

    # Images and networks

    async def image_ensure_present(self, context: TaskContext) -> Mapping[str, Any]:
        """Fetch and unpack an image when it is not here; ``{}``."""
        await self._images.ensure(str(context.params.get("image_uuid")))
        return {}

    async def image_get(self, context: TaskContext) -> Mapping[str, Any]:
        """The manifest of an image on this node."""
        return self._images.manifest(
            str(context.params.get("uuid") or context.params.get("image_uuid"))
        )

    async def image_list(self, _context: TaskContext) -> Mapping[str, Any]:
        """``{images: [manifest]}``."""
        return {"images": self._images.list()}

    async def image_delete(self, context: TaskContext) -> Mapping[str, Any]:
        """Remove an image no VM here is made from; ``{}``."""
        uuid = check_uuid(context.params.get("uuid") or context.params.get("image_uuid"))
        users = [
            vm["uuid"]
            for vm in await self._driver.list(include_dni=True)
            if vm.get("image_uuid") == uuid
        ]
        if users:
            raise TaskFailure(
                f"Image {uuid} is used by VM {', '.join(users[:5])}", {"restCode": "ImageInUse"}
            )
        await self._images.delete(uuid)
        return {}

    async def network_apply(self, context: TaskContext) -> Mapping[str, Any]:
        """Bring the node's networks to the wanted state; ``{version, applied, kept}``."""
        if self._network is None:
            # Instances of this driver have the machine's own network.
            return {"version": context.params.get("version", 0), "applied": False, "kept": []}
        return await self._network.apply(context.params)

    # The node itself

    async def server_sysinfo(self, _context: TaskContext) -> Mapping[str, Any]:
        """``{sysinfo}``, read now."""
        return {"sysinfo": await self._sysinfo()}

    async def server_overprovision_ratio(self, context: TaskContext) -> Mapping[str, Any]:
        """Keep the ratios the service decided on."""
        value = context.params.get("value")
        if not value:
            raise TaskFailure("no value given", {"restCode": "InvalidPayload"})
        write_json(self._data_dir / "overprovision.json", {"value": str(value)})
        return {}

    async def refresh_agents(self, _context: TaskContext) -> Mapping[str, Any]:
        """Report the node's agents again."""
        await self._refresh_agents()
        return {}

    async def nop(self, context: TaskContext) -> Mapping[str, Any]:
        """Sleep ``sleep`` seconds, then fail with ``error`` when given."""
        await asyncio.sleep(_seconds(context.params.get("sleep"), 0, "sleep"))
        if context.params.get("error"):
            raise TaskFailure(str(context.params["error"]))
        return {}

    async def sleep(self, context: TaskContext) -> Mapping[str, Any]:
        """Sleep ``timeout`` milliseconds."""
        await asyncio.sleep(_seconds(context.params.get("timeout"), 5000, "timeout") / 1000)
        return {}

    async def command_execute(self, context: TaskContext) -> Mapping[str, Any]:
        """Run a script on the node; its failure is a success of the task."""
        script = context.params.get("script")
        if not isinstance(script, str) or not script:
            raise TaskFailure("no script given", {"restCode": "InvalidPayload"})
        arguments = [str(item) for item in _array(context.params, "args")]
        environment = {
            name: str(value) for name, value in as_object(context.params.get("env"), "env").items()
        }
        limit = _seconds(context.params.get("timeout"), 0, "timeout") / 1000
        return await run_script(script, arguments, environment, limit)


async def run_script(
    script: str, arguments: Sequence[str], environment: Mapping[str, str], limit_seconds: float
) -> dict[str, Any]:
    """Run a script from a private file; ``{exitCode, signal, stdout, stderr, err?}``.

    A stream is cut after 5 MiB; ``limit_seconds`` 0 is no limit.
    """
    descriptor, name = tempfile.mkstemp(prefix="vetro-script-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(script)
        Path(name).chmod(0o700)
        try:
            process = await asyncio.create_subprocess_exec(
                name, *arguments, env=dict(environment), stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return {"exitCode": None, "signal": None, "stdout": "", "stderr": "", "err": str(error)}
        assert process.stdout is not None
        assert process.stderr is not None
        timed_out = False
        reading = asyncio.gather(_limited(process.stdout), _limited(process.stderr))
        try:
            async with asyncio.timeout(limit_seconds or None):
                await asyncio.shield(process.wait())
        except TimeoutError:
            timed_out = True
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signals.SIGKILL)
                await process.wait()
        try:
            # What the script left running may hold the pipes: it is not waited for.
            async with asyncio.timeout(2):
                output, errors = await reading
        except TimeoutError:
            output, errors = b"", b""
        status = process.returncode or 0
        result: dict[str, Any] = {
            "exitCode": status if status >= 0 else None,
            "signal": signals.Signals(-status).name if status < 0 else None,
            "stdout": output.decode("utf-8", "replace"),
            "stderr": errors.decode("utf-8", "replace"),
        }
        if timed_out:
            result["err"] = f"the script was killed after {limit_seconds:g} s"
        return result
    finally:
        Path(name).unlink(missing_ok=True)


async def _limited(stream: asyncio.StreamReader) -> bytes:
    kept = bytearray()
    while chunk := await stream.read(65536):
        kept += chunk[: _OUTPUT_LIMIT - len(kept)]
    return bytes(kept)


def _uuid(params: Mapping[str, Any]) -> str:
    return check_uuid(params.get("uuid") or params.get("vm_uuid"))


def _array(params: Mapping[str, Any], name: str) -> list[object]:
    value = params.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise TaskFailure(f"{name} must be an array", {"restCode": "InvalidPayload"})
    return cast("list[object]", value)


def _flag(params: Mapping[str, Any], name: str) -> bool:
    return params.get(name) in (True, "true")


def _timeout(params: Mapping[str, Any]) -> float:
    return _seconds(params.get("timeout"), _STOP_SECONDS, "timeout")


def _seconds(value: object, default: float, name: str) -> float:
    if value is None:
        return default
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise TaskFailure(
            f'Invalid type: "{type(value).__name__}" for {name}', {"restCode": "InvalidPayload"}
        )
    return float(value)


def signal_number(value: object) -> int:
    """A signal by number or name, with or without ``SIG``. Errors: ``TaskFailure``."""
    text = str(value).upper()
    if text.isdigit():
        try:
            return signals.Signals(int(text)).value
        except ValueError:
            text = f"number {text}"
    name = text if text.startswith("SIG") else f"SIG{text}"
    known = {signal.name: signal.value for signal in signals.Signals}
    if name not in known:
        raise TaskFailure(f"There is no signal '{value}'", {"restCode": "InvalidPayload"})
    return known[name]


@contextlib.contextmanager
def _tolerate(params: Mapping[str, Any], *codes: str) -> Generator[None, None, None]:
    """An idempotent request takes "it is so already" for success."""
    try:
        yield
    except DriverError as error:
        if not (_flag(params, "idempotent") and error.code in codes):
            raise
