"""Runs one command through a guest's QEMU agent: ``exec SOCKET DOMAIN REQUEST``, a program of its own.

``REQUEST`` is the agent's ``guest-exec`` as JSON, and ``wait``: for how many seconds an agent that
does not answer may still be starting. The output is written when the command has ended, with its
exit status; 126 when it cannot be run. The agent can neither pass input nor end a command.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from vetro.node.drivers.qemu.libvirt import address_of

_POLL_SECONDS = 0.05
_AGENT_POLL_SECONDS = 0.25
_AGENT_SECONDS = 10
CANNOT_RUN = 126


def run(socket: Path, name: str, request: dict[str, Any]) -> int:
    """Run the command in a domain of the daemon at ``socket``, write its output; returns the exit status."""
    libvirt: object = importlib.import_module("libvirt")
    qemu: object = importlib.import_module("libvirt_qemu")
    libvirt.registerErrorHandler(_be_quiet, None)
    deadline = time.monotonic() + float(request.pop("wait", 0))
    try:
        with address_of(socket) as address:
            connection = libvirt.open(address)
        domain = connection.lookupByName(name)

        def ask(command: str, **arguments: object) -> Any:
            text = json.dumps({"execute": command, "arguments": arguments})
            return json.loads(qemu.qemuAgentCommand(domain, text, _AGENT_SECONDS, 0))["return"]

        while True:
            try:
                pid = ask("guest-exec", **request)["pid"]
                break
            except libvirt.libvirtError as error:
                absent = (libvirt.VIR_ERR_AGENT_UNRESPONSIVE, libvirt.VIR_ERR_OPERATION_INVALID)
                if error.get_error_code() not in absent or time.monotonic() > deadline:
                    raise
            time.sleep(_AGENT_POLL_SECONDS)
        while not (status := ask("guest-exec-status", pid=pid))["exited"]:
            time.sleep(_POLL_SECONDS)
    except libvirt.libvirtError as error:
        sys.stderr.write(f"{request['path']}: {error.get_error_message()}\n")
        return CANNOT_RUN
    for stream, key in ((sys.stdout, "out-data"), (sys.stderr, "err-data")):
        stream.buffer.write(base64.b64decode(status.get(key, "")))
        stream.flush()
    return int(status.get("exitcode", 128 + int(status.get("signal", 0))))


def _be_quiet(_context: object, _error: object) -> None:
    """Ignore the message: every error is also raised as an exception."""


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
