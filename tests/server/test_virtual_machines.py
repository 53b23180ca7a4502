"""Virtual machines as a user has them: ``vetro up --driver qemu``, the catalog, the command."""

import json
import os
import pty
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser import somebody
from tests.waiting import until

pytestmark = [pytest.mark.thorough, pytest.mark.root, pytest.mark.e2e]

ROOT = Path(__file__).resolve().parents[2]
VETRO = str(Path(sys.executable).with_name("vetro"))
IMAGE = "debian-12-vm"
# A screen that shows letters has more than one colour.
DRAWN = """() => {
  const canvas = document.querySelector('[data-console] canvas');
  if (!canvas || canvas.width < 300) return false;
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size > 1;
}"""


class Keyboard:
    """``vetro vm console`` in a terminal of its own, as a person uses it."""

    def __init__(self, environ: dict[str, str], *arguments: str) -> None:
        self.terminal, inner = pty.openpty()
        self.process = subprocess.Popen(
            [VETRO, "vm", "console", *arguments],
            env=environ, stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
        )  # fmt: skip
        os.close(inner)

    def until(self, words: str, seconds: float = 90) -> str:
        """Read until these words came."""
        said, deadline = "", time.monotonic() + seconds
        while words not in said:
            ready, _, _ = select.select([self.terminal], [], [], deadline - time.monotonic())
            assert ready, f"'{words}' never came after: {said}"
            said += os.read(self.terminal, 4096).decode("utf-8", "replace")
        return said

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.terminal, keys.encode())

    def close(self) -> int:
        """Wait for the command's end; its exit code."""
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self.terminal)


def test_an_application_on_a_virtual_machine(install: Callable[..., Any]) -> None:
    """An image of type ``vm`` makes the server a VM with console and screen until its end."""
    vetro = install("vms", driver="qemu")
    try:
        life_of_an_application(vetro)
    finally:
        # A test that failed leaves no machine behind; its networks go with the last one.
        for row in vetro.json("vm", "list"):
            vetro.run("vm", "destroy", "--yes", row["uuid"], code=None)


def life_of_an_application(vetro: Any) -> None:
    """Image, deployment, a look at it, snapshot, and its end."""
    cache = ROOT / "var/image-cache"
    # A distribution is fetched and unpacked, unless it is in the cache.
    subprocess.run(
        [VETRO, "image", "build", IMAGE, "--type", "vm", "--cache-dir", str(cache)],
        env=vetro.environ, check=True, timeout=360,
    )  # fmt: skip
    vetro.run("package", "import", "--public", str(ROOT / "library/HelloScript"))
    vetro.run("env", "create", "hello")
    script = (
        '#!/bin/sh\necho "on $(uname -s), $(nproc) processors,'
        " $(awk '/MemTotal/ { print $2 }' /proc/meminfo) kB\"\n"
    )
    arguments = ("--set", f"image={IMAGE}", "--set", "flavor=m1.medium")
    vetro.run("env", "add", "hello", "HelloScript", "--set", f"script={script}", *arguments)
    text = vetro.run("env", "deploy", "hello")
    assert "The script printed: on Linux, 2 processors, " in text

    (row,) = vetro.json("vm", "list")
    shown = vetro.json("vm", "show", row["uuid"])
    assert (shown["brand"], shown["state"]) == ("kvm", "running")
    # The flavor's memory is the guest's.
    assert (shown["ram"], shown["vcpus"]) == (2048, 2)
    kilobytes = int(text.partition("processors, ")[2].split()[0])
    assert 0.85 * shown["ram"] * 1024 < kilobytes < shown["ram"] * 1024
    assert ping(shown["nics"][0]["ip"])

    console = Keyboard(vetro.environ, row["uuid"])
    try:
        console.until("Ctrl-] leaves")
        console.type("\r")
        console.until("login:")
        console.type("nobody-of-this-name\r")
        console.until("Password:")
        console.type("\x1d")
    finally:
        code = console.close()
    assert code == 0
    assert "login:" in vetro.run("vm", "console", row["uuid"], "--log")
    # The guest waits for the password (after a minute for a name again).
    typed_by_a_program(vetro, row["uuid"], b"no\rno\r", b"Login incorrect")

    screen = vetro.json("vm", "vnc", row["uuid"])
    assert len(screen["password"]) == 8
    with socket.create_connection((screen["host"], screen["port"]), 10) as connection:
        assert connection.recv(4) == b"RFB "
    with somebody(vetro) as person:
        page = person.open(f"/machines/{row['server_uuid']}/{row['uuid']}?kind=screen")
        expect(page.get_by_text("Connected")).to_be_visible()
        until(lambda: page.evaluate(DRAWN), "the screen shows something")
    picture = vetro.directory / "screen.png"
    vetro.run("vm", "screenshot", row["uuid"], str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")

    path = f"/compute/servers/{row['server_uuid']}/vms/{row['uuid']}"
    stats = statistics(vetro, path)
    assert stats["cpu_stats"]["cpu_usage"]["total_usage"] > 10**9
    assert stats["networks"]["eth0"]["rx_bytes"] > 0
    assert stats["blkio_stats"]["io_service_bytes_recursive"][0]["value"] > 2**20
    finish(vetro, "PUT", f"{path}/snapshots", {"snapshot_name": "kept"})
    vetro.run("vm", "stop", row["uuid"])
    assert vetro.json("vm", "show", row["uuid"])["state"] == "stopped"
    assert vetro.http("GET", f"{path}/screenshot")[0] == 409
    finish(vetro, "PUT", f"{path}/snapshots/kept/rollback", {})
    finish(vetro, "DELETE", f"{path}/snapshots/kept", None)
    assert vetro.json("vm", "show", row["uuid"])["snapshots"] == []

    vetro.run("env", "destroy", "--yes", "hello")
    until(lambda: not vetro.leftovers(), f"everything is gone: {vetro.leftovers()}")
    assert processes_of(row["uuid"]) == []


def typed_by_a_program(vetro: Any, uuid: str, keys: bytes, words: bytes) -> None:
    """Type at the console through a pipe; it must answer with these words."""
    process = subprocess.Popen(
        [VETRO, "vm", "console", uuid], env=vetro.environ, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        try:
            process.stdin.write(keys)
            # It stays when nobody types any more.
            process.stdin.close()
            said, deadline = b"", time.monotonic() + 90
            while words not in said:
                ready, _, _ = select.select([process.stdout], [], [], deadline - time.monotonic())
                assert ready, said
                chunk = os.read(process.stdout.fileno(), 4096)
                assert chunk, said
                said += chunk
        finally:
            process.kill()
            process.wait()


def statistics(vetro: Any, path: str) -> Any:
    """One line of ``docker-stats``."""
    status, told = vetro.http("POST", f"{path}/docker-stats", {"payload": {"stream": False}})
    assert status == 200, told
    with socket.create_connection((told["host"], told["port"]), 10) as connection:
        connection.sendall(f"{told['token']}\n".encode())
        with connection.makefile("rb") as lines:
            return json.loads(lines.readline())


def ping(address: str) -> bool:
    """Whether an address answers an echo request (there may be no ``ping`` here)."""
    body = b"vetro-ping"
    packet = struct.pack("!BBHHH", 8, 0, 0, os.getpid() & 0xFFFF, 1) + body
    words = struct.unpack(f"!{len(packet) // 2}H", packet)
    total = sum(words)
    total = (total >> 16) + (total & 0xFFFF)
    checksum = ~(total + (total >> 16)) & 0xFFFF
    packet = packet[:2] + struct.pack("!H", checksum) + packet[4:]
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        raw.settimeout(10)
        raw.sendto(packet, (address, 0))
        while True:
            try:
                answer, (sender, _) = raw.recvfrom(2048)
            except TimeoutError:
                return False
            header = (answer[0] & 15) * 4
            if sender == address and answer[header] == 0 and answer.endswith(body):
                return True


def finish(vetro: Any, method: str, path: str, body: Any) -> None:
    """Call, and wait for the node's task."""
    status, told = vetro.http(method, path, body)
    assert status == 200, told
    status, task = vetro.http("GET", f"/compute/tasks/{told['id']}/wait?timeout=240")
    assert (status, task["status"]) == (200, "complete"), json.dumps(task)


def processes_of(word: str) -> list[str]:
    """Command lines with this word."""
    shown = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True)
    return [line for line in shown.stdout.splitlines() if word in line]
