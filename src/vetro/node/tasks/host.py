"""The machine an agent runs on, as operators' tasks use it: scripts, agents' hooks, reboots.

Every task that runs a program on the node itself uses a `Host`. A node with simulated instances has
a simulated machine too: its tasks must not run on the real one.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from vetro.node.commands import run
from vetro.node.errors import CommandFailed, TaskFailure
from vetro.node.tasks.scripts import run_script

log = structlog.get_logger(__name__)


class Host:
    """This machine, and what tasks may do to it. `reboot_command` runs detached from the agent."""

    real = True
    """Whether programs really run."""

    def __init__(self, reboot_command: Sequence[str] = ()) -> None:
        self._reboot_command = reboot_command

    async def execute(
        self,
        script: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        limit_seconds: float,
    ) -> dict[str, object]:
        """Run an operator's script: `{exitCode, signal, stdout, stderr, err?}`."""
        return await run_script(script, arguments, environment, limit_seconds)

    async def hook(self, directory: Path, name: str) -> None:
        """Run an agent's script, if it has one of that name. Errors: `TaskFailure`."""
        script = directory / name
        if script.is_file():
            script.chmod(0o755)
            try:
                await run(str(script), cwd=directory, timeout=600)
            except CommandFailed as error:
                raise TaskFailure(
                    f"{name} ended with {error.status}: {error.output[-2000:]}"
                ) from error

    async def reboot(self) -> None:
        """Reboot the machine soon. Errors: `TaskFailure`."""
        try:
            await asyncio.wait_for(self._fork_reboot(), 10)
        except (OSError, TimeoutError) as error:
            raise TaskFailure(f"The reboot could not be started: {error}") from error

    async def _fork_reboot(self) -> None:
        # Detached, so that it survives the agent; and the answer to the request is sent before the
        # machine goes down.
        starting = await asyncio.create_subprocess_exec(
            "setsid", "--fork", "/bin/sh", "-c", 'sleep 2; exec "$0" "$@"', *self._reboot_command,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        await starting.wait()


class SimulatedHost(Host):
    """A simulated machine: scripts succeed without output, a reboot is only logged."""

    real = False

    async def execute(
        self,
        script: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        limit_seconds: float,
    ) -> dict[str, object]:
        """Succeed without running anything."""
        log.info("script_simulated", bytes=len(script))
        said = "this node is simulated: the script was not run\n"
        return {"exitCode": 0, "signal": None, "stdout": "", "stderr": said}

    async def hook(self, directory: Path, name: str) -> None:
        """Run nothing."""

    async def reboot(self) -> None:
        """Log the reboot only."""
        log.info("reboot_simulated")
