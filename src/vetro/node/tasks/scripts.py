"""Running an operator's script on the node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal as signals
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_OUTPUT_LIMIT = 5 * 2**20


async def run_script(
    script: str, arguments: Sequence[str], environment: Mapping[str, str], limit_seconds: float
) -> dict[str, object]:
    """Run a script from a private file; ``{exitCode, signal, stdout, stderr, err?}``.

    Each stream is truncated after 5 MiB; ``limit_seconds`` 0: no limit.
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
            # Processes that the script started may hold the pipes: they are not awaited.
            async with asyncio.timeout(2):
                output, errors = await reading
        except TimeoutError:
            output, errors = b"", b""
        status = process.returncode or 0
        result: dict[str, object] = {
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
