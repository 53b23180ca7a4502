"""Helper processes of migrations, as the agent controls them: start, wait, end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from vetro.node.errors import TaskFailure
from vetro.node.guest.root import GuestRoot
from vetro.node.processes import FollowedProcess

log = structlog.get_logger(__name__)

MARKER = "vetro-migration"
_CLIPPED = 5000
_START_SECONDS = 60.0


@dataclass
class _Running:
    process: asyncio.subprocess.Process
    finished: asyncio.Task[dict[str, Any]]


class Migrations:
    """The transfers of one agent, from or to ``host``."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._running: dict[int, _Running] = {}
        self._reaping: set[asyncio.Task[int]] = set()

    async def start(
        self, role: str, vm: str, root: GuestRoot, *, connect: str = "", token: str = ""
    ) -> dict[str, Any]:
        """Start a helper; ``{pid, host, port, token}``. ``role``: ``send`` or ``receive``.

        Errors: ``TaskFailure`` with the helper's message.
        """
        token = token or secrets.token_urlsafe(24)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "vetro.node.migration.transfer", role,
            "--marker", MARKER, "--vm", vm, "--root", str(root.path), "--shift", str(root.shift),
            "--host", self._host, "--connect", connect,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{token}\n".encode())
        with contextlib.suppress(ConnectionError):
            await process.stdin.drain()
        process.stdin.close()
        try:
            async with asyncio.timeout(_START_SECONDS):
                line = await process.stdout.readline()
            where = msgspec.json.decode(line)
        except (TimeoutError, msgspec.DecodeError) as error:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            _, said = await process.communicate()
            raise TaskFailure(
                f"The migration of VM {vm} did not start: {_clip(said)}", "MigrationFailed"
            ) from error
        finished = asyncio.create_task(self._wait(process), name=f"migration of {vm}")
        self._running[process.pid] = _Running(process, finished)
        reaping = asyncio.create_task(process.wait(), name=f"migration process {process.pid}")
        self._reaping.add(reaping)
        reaping.add_done_callback(lambda done: self._ended(process.pid, done))
        return {**where, "pid": process.pid, "token": token}

    def _ended(self, pid: int, reaping: asyncio.Task[int]) -> None:
        self._running.pop(pid, None)
        self._reaping.discard(reaping)

    async def _wait(self, process: asyncio.subprocess.Process) -> dict[str, object]:
        assert process.stdout is not None
        assert process.stderr is not None
        # A sender reports its result before it ends, and stays a moment for late clients.
        result = await process.stdout.readline()
        if result.strip():
            state: dict[str, object] = msgspec.json.decode(result)
            return {**state, "said": ""}
        said = await process.stderr.read()
        status = await process.wait()
        return {"ok": status == 0, "said": _clip(said)}

    async def outcome(self, pid: int) -> dict[str, Any]:
        """Wait until a helper ends; ``{transferred}``. Errors: ``TaskFailure``."""
        running = self._running.get(pid)
        if running is None:
            raise TaskFailure(f"There is no migration process {pid}", "NotFound")
        result = await asyncio.shield(running.finished)
        if not result["ok"]:
            words = result.get("message") or result["said"]
            raise TaskFailure(f"The migration failed: {words}", "MigrationFailed")
        return {"transferred": result.get("sent", 0)}

    async def kill(self, pid: int, vm: str) -> bool:
        """End a helper, if ``pid`` is one of this VM's; returns whether it was.

        Also ends a helper that an earlier agent started, but never any other process.
        """

        def is_it(argv: list[str]) -> bool:
            return MARKER in argv and vm in argv

        found = FollowedProcess.attach(pid, is_it, lambda: None)
        if found is None:
            log.info("migration_process_unknown", pid=pid, vm=vm)
            return False
        found.signal(signal.SIGKILL)
        await found.wait(10)
        found.close()
        return True

    async def close(self) -> None:
        """End all transfers: the next one continues where they stopped."""
        for running in list(self._running.values()):
            with contextlib.suppress(ProcessLookupError):
                running.process.kill()
        ours: list[asyncio.Task[object]] = [
            *(running.finished for running in self._running.values()),
            *self._reaping,
        ]
        for work in ours:
            work.cancel()
        await asyncio.gather(*ours, return_exceptions=True)


def _clip(said: bytes) -> str:
    return said.decode("utf-8", "replace").strip()[-_CLIPPED:]
