"""Running the distribution's tools without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vetro.node.errors import CommandFailed, ConfigurationError

# Where the distribution keeps tools for root; a user's PATH often lacks them.
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    path = os.environ.get("PATH", "")
    return {
        "PATH": f"{path}:{_SYSTEM_PATH}" if path else _SYSTEM_PATH,
        # The tools' messages are read in a few places: they must not be translated.
        "LC_ALL": "C.UTF-8",
        **(extra or {}),
    }


def ending_with_us(*argv: str) -> list[str]:
    """The words of a command that the kernel ends when this process ends, however that happens.

    For what writes where the next agent cleans up: it must not go on meanwhile.
    """
    return ["setpriv", "--pdeathsig", "KILL", "--", *argv]


@dataclass(frozen=True)
class Finished:
    """What a command left behind."""

    status: int
    output: str
    errors: str


async def run(
    *argv: str,
    stdin: bytes | None = None,
    check: bool = True,
    timeout: float | None = 300.0,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    ends_with_us: bool = False,
) -> Finished:
    """Run a command to its end; a cancelled caller takes the command's process group with it.

    ``ends_with_us``: so does an agent that is killed (see ``ending_with_us``).

    Errors: ``CommandFailed`` for a failure (when ``check``) or after ``timeout`` seconds;
    ``ConfigurationError`` when the tool is not installed.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *(ending_with_us(*argv) if ends_with_us else argv),
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd,
            env=_environment(environment),
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{argv[0]} is not installed; run tools/system-packages.sh or install it by hand"
        ) from error
    try:
        async with asyncio.timeout(timeout):
            output, errors = await process.communicate(stdin)
    except TimeoutError as error:
        await _end(process)
        raise CommandFailed(argv, -signal.SIGKILL, f"no answer within {timeout} s") from error
    except asyncio.CancelledError:
        await _end(process)
        raise
    assert process.returncode is not None
    finished = Finished(
        process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")
    )
    if check and finished.status != 0:
        raise CommandFailed(argv, finished.status, finished.errors or finished.output)
    return finished


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Pipes held open by a daemonised grandchild must not hold the caller.
        await process.wait()
