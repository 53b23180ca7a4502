"""Inspecting a running VM: its agent, QEMU's monitor, its serial line and its screen."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from vetro.node.drivers.hypervisor import ExecRequest, ExecResult, HostCommand
from vetro.node.drivers.qemu.libvirt import Libvirt
from vetro.node.drivers.qemu.processes import VmProcesses
from vetro.node.errors import DriverError, not_implemented, not_running
from vetro.node.guest.instance_files import PATH
from vetro.node.processes import started_at
from vetro.node.vm_objects import MachineStore
from vetro.node.vm_records import Vm

_EXEC_POLL_SECONDS = 0.05
_AGENT_POLL_SECONDS = 0.25
# A guest that has run for less time may still be starting.
_BOOT_SECONDS = 120.0
# machine_info: type → the query to QEMU's monitor.
_QUERIES = {
    "block": "query-block",
    "blockstats": "query-blockstats",
    "cpus": "query-cpus-fast",
    "version": "query-version",
    "chardev": "query-chardev",
    "pci": "query-pci",
    "kvm": "query-kvm",
}


@dataclass(eq=False, repr=False)
class Inside:
    """Inspects the VMs of one agent. ``connection()`` returns libvirt as soon as it can be used."""

    store: MachineStore
    connection: Callable[[], Awaitable[Libvirt]]
    processes: VmProcesses

    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """Run a command through the guest's QEMU agent; wait for an agent that is still starting.

        ``timeout`` counts from the command's start. Errors: ``GuestAgentNotAvailable``.
        """
        connection = await self.connection()
        wanted = {
            "path": command[0],
            "arg": list(command[1:]),
            "env": [f"{name}={value}" for name, value in environment.items()],
            "capture-output": True,
        }
        while True:
            try:
                started = await connection.agent(uuid, "guest-exec", **wanted)
                break
            except DriverError as error:
                if error.rest_code != "GuestAgentNotAvailable" or not self._young(uuid):
                    raise
                await asyncio.sleep(_AGENT_POLL_SECONDS)
        try:
            async with asyncio.timeout(timeout or None):
                while True:
                    status = await connection.agent(uuid, "guest-exec-status", pid=started["pid"])
                    if status["exited"]:
                        break
                    await asyncio.sleep(_EXEC_POLL_SECONDS)
        except TimeoutError as error:
            raise DriverError(
                f"The command in VM {uuid} did not end within {timeout:g} s; it goes on"
            ) from error
        return ExecResult(
            int(status.get("exitcode", 128 + int(status.get("signal", 0)))),
            _text(status.get("out-data")),
            _text(status.get("err-data")),
        )

    def _young(self, uuid: str) -> bool:
        """Whether a VM may still be starting."""
        process = self.processes.follow(uuid)
        began = started_at(process.pid) if process is not None else None
        return began is not None and time.time() - began < _BOOT_SECONDS

    async def exec_command(self, uuid: str, request: ExecRequest, socket: Path) -> HostCommand:
        """The program that runs the command through the guest's agent of the daemon at ``socket``.

        Errors: ``NotImplemented`` for what the agent does not support: a terminal, a user other
        than root.
        """
        if request.tty:
            raise not_implemented(
                "A terminal for a command in a VM (vetro vm console is one)", "qemu"
            )
        if request.user not in ("", "root", "0", "0:0", "root:root"):
            raise not_implemented(f"A command in a VM as user '{request.user}'", "qemu")
        await self.connection()
        words = list(request.command)
        if request.directory:
            words = [
                "/bin/sh",
                "-c",
                'cd "$1" && shift && exec "$@"',
                "sh",
                request.directory,
                *words,
            ]
        environment = {"PATH": PATH, "HOME": "/root", **request.environment}
        wanted = {
            "path": words[0],
            "arg": words[1:],
            "env": [f"{name}={value}" for name, value in environment.items()],
            "capture-output": True,
            "wait": _BOOT_SECONDS if self._young(uuid) else 0,
        }
        module = "vetro.node.drivers.qemu.exec"
        return HostCommand([sys.executable, "-m", module, str(socket), uuid, json.dumps(wanted)])

    async def info(self, uuid: str, types: Sequence[str]) -> dict[str, object]:
        """What QEMU's monitor reports; ``vnc`` ``{host, port, display}``, ``serial`` ``{path}``."""
        wanted = set(types)
        found: dict[str, object] = {}
        connection = await self.connection()
        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "vnc": partial(self._vnc, uuid),
            "serial": partial(self._serial, uuid),
            **{kind: partial(connection.monitor, uuid, query) for kind, query in _QUERIES.items()},
        }
        for kind, ask in asked.items():
            if kind in wanted or "all" in wanted:
                found[kind] = await ask()
        if wanted & {"spice", "all"}:
            # Screens are served by VNC only.
            found["spice"] = None
        return found

    def serial_line(self, uuid: str) -> Path:
        """The socket of the first serial line."""
        return self.store.path(uuid) / "run/console.sock"

    async def _serial(self, uuid: str) -> dict[str, object]:
        return {"path": str(self.serial_line(uuid))}

    async def _vnc(self, uuid: str) -> dict[str, Any] | None:
        connection = await self.connection()
        screen = await connection.monitor(uuid, "query-vnc")
        if not screen.get("enabled"):
            return None
        port = int(screen["service"])
        return {"host": screen["host"], "port": port, "display": port - 5900}

    async def block_counts(self, uuid: str, files: Mapping[str, str]) -> list[dict[str, object]]:
        """Bytes that a running VM's disks have read and written. ``files``: as ``disk_nodes`` takes them."""
        connection = await self.connection()
        nodes = await self.disk_nodes(uuid, files)
        counted = {
            str(entry.get("node-name")): entry["stats"]
            for entry in await connection.monitor(uuid, "query-blockstats")
        }
        return [
            {"device": path, "op": op, "value": int(counted[node][key])}
            for path, node in nodes.items()
            if node in counted
            for op, key in (("read", "rd_bytes"), ("write", "wr_bytes"))
        ]

    async def disk_nodes(self, uuid: str, files: Mapping[str, str]) -> dict[str, str]:
        """QEMU's names of a running VM's disks. ``files``: name → file as QEMU sees it."""
        connection = await self.connection()
        known: dict[str, str] = {}
        for entry in await connection.monitor(uuid, "query-block"):
            inserted: dict[str, object] = entry.get("inserted") or {}
            # A plain name, or the options as JSON: an image in the chain is not its top.
            known[_file_name(str(inserted.get("file", "")))] = str(inserted.get("node-name"))
        missing = [path for path, file in files.items() if file not in known]
        if missing:
            raise DriverError(f"VM {uuid}: QEMU does not have its disks {', '.join(missing)}")
        return {path: known[file] for path, file in files.items()}

    async def screenshot(self, vm: Vm) -> bytes:
        """A picture of the screen (PNG)."""
        if int(vm.get("vnc_port") or 0) < 0:
            raise not_implemented("A screenshot of a VM without a screen (vnc_port -1)", "qemu")
        if self.processes.follow(vm["uuid"]) is None:
            raise not_running(vm["uuid"])
        connection = await self.connection()
        return await connection.screenshot(vm["uuid"])


def _text(data: object) -> str:
    return base64.b64decode(str(data)).decode("utf-8", "replace") if data else ""


def _file_name(described: str) -> str:
    """The file in QEMU's description of an open image: a name, or ``json:`` and its options."""
    if not described.startswith("json:"):
        return described
    options: object = json.loads(described[5:])
    while isinstance(options, dict) and "filename" not in options:
        options = cast("dict[str, object]", options).get("file")
    return str(cast("dict[str, object]", options)["filename"]) if options else ""
