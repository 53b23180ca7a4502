"""Running the distribution's tools without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vetro.node.errors import CommandFailed, ConfigurationError

# Where the distribution keeps tools for root; a user's PATH often lacks them.
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    path = os.environ.get("PATH", "")
    return {
        "PATH": f"{path}:{_SYSTEM_PATH}" if path else _SYSTEM_PATH,
        # The tools' messages are parsed in a few places, so they must not be translated.
        "LC_ALL": "C.UTF-8",
        **(extra or {}),
    }


def ending_with_us(*argv: str) -> list[str]:
    """The argument list of a command that the kernel kills when this process ends for any reason.

    For a command that writes where the next agent cleans up: it must not continue meanwhile.
    """
    return ["setpriv", "--pdeathsig", "KILL", "--", *argv]


@dataclass(frozen=True)
class Finished:
    """The result of a command."""

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
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    """Run a command to its end; a cancelled caller's command is killed with its process group.

    ``ends_with_us``: the command is also killed when the agent is (see ``ending_with_us``).
    ``on_line`` is called with each line of the command's standard error as it arrives.

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
            output, errors = await _communicate(process, stdin, on_line)
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


async def _communicate(
    process: asyncio.subprocess.Process,
    stdin: bytes | None,
    on_line: Callable[[str], None] | None,
) -> tuple[bytes, bytes]:
    if on_line is None:
        return await process.communicate(stdin)
    assert process.stderr is not None
    stream = process.stderr
    errors = bytearray()

    async def lines() -> None:
        begun = b""
        while some := await stream.read(1 << 16):
            errors.extend(some)
            *whole, begun = (begun + some).split(b"\n")
            for line in whole:
                on_line(line.decode("utf-8", "replace"))

    reading = asyncio.create_task(lines())
    try:
        output = await _output_of(process, stdin)
        await reading
    finally:
        reading.cancel()
    await process.wait()
    return output, bytes(errors)


async def _output_of(process: asyncio.subprocess.Process, stdin: bytes | None) -> bytes:
    assert process.stdout is not None
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(stdin or b"")
            await process.stdin.drain()
        process.stdin.close()
    return await process.stdout.read()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # A daemonised grandchild may keep the pipes open: the caller must not wait for it.
        await process.wait()
