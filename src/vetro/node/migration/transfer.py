"""The process that moves a tree: ``send`` connects to another node's ``receive``.

Its command line carries ``vetro-migration`` and the VM's uuid, so that no other process is ended by
its pid. The token is read from standard input. The first line of standard output is ``{"host",
"port"}``: where a receiver waits for the tree, or where a sender reports its progress (a line of
JSON for each change, at last ``{"type": "end", "ok": …}``). Exit status 0 means that the trees are
equal.
"""

from __future__ import annotations

import argparse
import contextlib
import hmac
import json
import select
import socket
import sys
import time

from vetro.node.migration import tree

_WAIT_SECONDS = 600.0
_PROGRESS_SECONDS = 0.5
_LINGER_SECONDS = 30.0


class ProgressServer:
    """Reports the progress to every client that connects."""

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=8)
        self._listener.setblocking(False)
        self._clients: list[socket.socket] = []
        self._last: dict[str, object] = {
            "type": "progress",
            "transferred_bytes": 0,
            "total_bytes": 0,
        }
        self._reported = 0.0
        self.port = int(self._listener.getsockname()[1])

    def progress(self, transferred: int, total: int) -> None:
        """Report the bytes transferred so far."""
        self._last = {
            "type": "progress", "transferred_bytes": transferred, "total_bytes": total,
        }  # fmt: skip
        if time.monotonic() - self._reported >= _PROGRESS_SECONDS:
            self._report()

    def end(self, *, ok: bool, message: str) -> None:
        """Report the end to all clients, also to those that connect within the next moments."""
        self._last = {**self._last, "type": "end", "ok": ok, "message": message[:5000]}
        self._report()
        deadline = time.monotonic() + _LINGER_SECONDS
        while not self._clients and (left := deadline - time.monotonic()) > 0:
            select.select([self._listener], [], [], left)
            self._report()

    def _report(self) -> None:
        self._reported = time.monotonic()
        with contextlib.suppress(BlockingIOError):
            while True:
                client, _ = self._listener.accept()
                client.settimeout(2)
                self._clients.append(client)
        line = json.dumps(self._last).encode() + b"\n"
        for client in list(self._clients):
            try:
                client.sendall(line)
            except OSError:
                self._clients.remove(client)


def receive(arguments: argparse.Namespace, token: str) -> None:
    """Wait for one sender with the token, and receive its tree."""
    family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
    with socket.create_server((arguments.host, 0), family=family, backlog=4) as listener:
        _announce(arguments.host, int(listener.getsockname()[1]))
        listener.settimeout(_WAIT_SECONDS)
        while True:
            connection, _ = listener.accept()
            connection.settimeout(_WAIT_SECONDS)
            with connection, connection.makefile("rwb", buffering=1 << 20) as stream:
                greeting = stream.readline(4096)
                if not hmac.compare_digest(greeting.strip(), f"{token} {arguments.vm}".encode()):
                    continue
                tree.write_line(stream, {"ready": True})
                stream.flush()
                tree.receive(arguments.root, arguments.shift, stream)
                return


def send(arguments: argparse.Namespace, token: str) -> None:
    """Connect to a receiver and send it the tree."""
    progress = ProgressServer(arguments.host)
    _announce(arguments.host, progress.port)
    try:
        host, _, port = arguments.connect.rpartition(":")
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=60) as connection,
            connection.makefile("rwb", buffering=1 << 20) as stream,
        ):
            connection.settimeout(_WAIT_SECONDS)
            stream.write(f"{token} {arguments.vm}\n".encode())
            stream.flush()
            if not tree.read_line(stream).get("ready"):
                raise tree.TreeError("the other node does not know this transfer")
            sent = tree.send(arguments.root, arguments.shift, stream, progress.progress)
        _result(ok=True, sent=sent, message="")
        progress.end(ok=True, message=f"{sent} bytes")
    except (OSError, tree.TreeError) as error:
        _result(ok=False, sent=0, message=str(error))
        progress.end(ok=False, message=str(error))
        raise


def _announce(host: str, port: int) -> None:
    print(json.dumps({"host": host, "port": port}), flush=True)


def _result(*, ok: bool, sent: int, message: str) -> None:
    # The agent that started this process may have ended: then the output has no reader.
    with contextlib.suppress(OSError):
        print(json.dumps({"ok": ok, "sent": sent, "message": message}), flush=True)


def main() -> int:
    """Run one transfer."""
    parser = argparse.ArgumentParser(prog="vetro-migration")
    parser.add_argument("role", choices=["send", "receive"])
    parser.add_argument("--marker", required=True)
    parser.add_argument("--vm", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--shift", type=int, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--connect", default="")
    arguments = parser.parse_args()
    token = sys.stdin.readline().strip()
    try:
        (send if arguments.role == "send" else receive)(arguments, token)
    except (OSError, tree.TreeError) as error:
        with contextlib.suppress(OSError):
            print(f"vetro-migration: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
