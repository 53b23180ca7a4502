"""docs/operations: from one process to three machines with PostgreSQL and RabbitMQ, of which one is lost."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.networks import unused_number
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
BROKER = os.environ.get("VETRO_TEST_RABBITMQ_URL")
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.root,
    pytest.mark.e2e,
    pytest.mark.postgres,
    pytest.mark.rabbitmq,
]


def do(*command: str) -> None:
    """Run a command of this machine's."""
    subprocess.run(command, capture_output=True, check=True)


def remove(space: str) -> None:
    """End what is left in a network namespace, such as instances, and remove it."""
    listed = subprocess.run(
        ["ip", "netns", "pids", space], capture_output=True, text=True, check=True
    )
    for pid in listed.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    do("ip", "netns", "del", space)


def blocks() -> list[tuple[str, str]]:
    """The machine and the commands of each block of the page, in order."""
    text = (ROOT / "docs/operations/README.md").read_text(encoding="utf-8")
    found = re.findall(r"^```sh\n# on ([abc])\n(.*?)^```$", text, re.M | re.S)
    assert len(found) == text.count("```sh\n")
    return [(str(machine), str(commands)) for machine, commands in found]


@contextmanager
def forwarding(address: str, host: str, port: int) -> Generator[int]:
    """A port of an address of this machine that leads to a server on its loopback."""
    loop = asyncio.new_event_loop()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # the other side has gone
        finally:
            writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        await asyncio.gather(pump(reader, back), pump(there, writer))

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(connected, address, 0)

    server = loop.run_until_complete(listen())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def end() -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Machine:
    """A terminal on one machine: a shell in a network namespace, in a directory of its own."""

    def __init__(self, name: str, space: str, directory: Path, variables: dict[str, str]) -> None:
        self.name, self.directory = name, directory
        directory.mkdir()
        self.said = directory / "terminal"
        self._log = self.said.open("wb")
        self.shell = subprocess.Popen(
            ["ip", "netns", "exec", space, "bash"],
            cwd=directory,
            env={**os.environ, **variables, "VETRO_NODE_SERVER_UUID": str(uuid.uuid4())},
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        # A failed command is remembered, and the next one runs, as in a terminal.
        self._type("set -o pipefail; trap 'echo \"FAILED: $BASH_COMMAND\"' ERR")

    def _type(self, text: str) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write(text.encode() + b"\n")
        self.shell.stdin.flush()

    def run(self, commands: str) -> str:
        """Type the commands, and wait until the last has ended; what they said."""
        begun, end = len(self.text()), f"END-{secrets.token_hex(8)}"
        # The words of the mark are not next to each other where it is typed.
        self._type(f"{commands}\necho '{end[:6]}''{end[6:]}'")
        until(lambda: end in self.text()[begun:], f"{self.name} runs {commands[:60]!r}")
        said = self.text()[begun:]
        assert "FAILED: " not in said, f"on {self.name}:\n{said}\n{self.logs()}"
        return said

    def text(self) -> str:
        """What the terminal shows."""
        return self.said.read_text(errors="replace")

    def logs(self) -> str:
        """The ends of the logs of its processes."""
        return "\n".join(
            f"== {log.name}\n{log.read_text(errors='replace')[-3000:]}"
            for log in sorted(self.directory.glob("*.log"))
        )

    def close(self) -> None:
        """End the shell and what it started."""
        self._type("kill $(jobs -p) 2>/dev/null; wait; exit 0")
        try:
            self.shell.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(self.shell.pid, signal.SIGKILL)
            self.shell.wait(60)
        self._log.close()


def test_the_walk_to_three_machines(postgres_database: str, tmp_path: Path, place: Path) -> None:
    """Every command of the page works; the environment of one process is there on three machines, and a
    deployment whose engine was killed is finished by another machine.
    """
    if BROKER is None:
        pytest.skip("VETRO_TEST_RABBITMQ_URL is not set; tools/with-rabbitmq.sh sets it")
    token = secrets.token_hex(3)
    net = f"10.{unused_number()}.77"
    bridge = f"vo{token}"
    database, broker = urlsplit(postgres_database), urlsplit(BROKER)
    with ExitStack() as ending:
        do("ip", "link", "add", bridge, "type", "bridge")
        ending.callback(do, "ip", "link", "del", bridge)
        do("ip", "address", "add", f"{net}.1/24", "dev", bridge)
        do("ip", "link", "set", bridge, "up")
        at = ending.enter_context(
            forwarding(f"{net}.1", str(database.hostname), database.port or 5432)
        )
        variables = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "A": f"{net}.11",
            "B": f"{net}.12",
            "C": f"{net}.13",
            "DATABASE": f"postgresql://{database.username}@{net}.1:{at}{database.path}",
            "BROKER_HOST": f"{net}.1",
            "BROKER_PORT": str(
                ending.enter_context(
                    forwarding(f"{net}.1", str(broker.hostname), broker.port or 5672)
                )
            ),
            "LIBRARY": str(ROOT / "library"),
            "FILES_OF_A": str(tmp_path / "a"),
            "PLACE": str(place),
            "VETRO_NODE_PREFIX": f"v{token[:4]}",
        }
        machines: dict[str, Machine] = {}
        for name, number in zip("abc", (11, 12, 13), strict=True):
            space = f"vo{token}{name}"
            do("ip", "netns", "add", space)
            ending.callback(remove, space)
            do(
                "ip",
                "link",
                "add",
                f"{space}w",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                space,
            )
            do("ip", "link", "set", f"{space}w", "master", bridge, "up")
            do("ip", "-n", space, "address", "add", f"{net}.{number}/24", "dev", "eth0")
            do("ip", "-n", space, "link", "set", "eth0", "up")
            do("ip", "-n", space, "link", "set", "lo", "up")
            here = {**variables, "HERE": f"{net}.{number}"}
            machines[name] = Machine(name, space, tmp_path / name, here)
            ending.callback(machines[name].close)
        said = ""
        for name, commands in blocks():
            if "env destroy" in commands:
                rows = sorted(line for line in said.splitlines() if line.endswith("ready"))
                assert [row.split() for row in rows] == [["shop", "ready"], ["slow", "ready"]]
            said = machines[name].run(commands)
        assert "interrupted" in (tmp_path / "a/engine.log").read_text()
