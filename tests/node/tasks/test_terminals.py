"""``vetro vm exec -t`` at a real terminal, in a real container: keys, window, end, broken lines."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.node import terminal
from tests.waiting import eventually

pytestmark = pytest.mark.root

# The command without its way through the service: what the node answered is its argument.
CLIENT = """
import msgspec, sys
from vetro.cli.terminal.output import CommandError
from vetro.cli.terminal.streams import END_OF_INPUT, END_OF_TERMINAL, Line, Manner, attach
from vetro.compute.wire import Stream
tty = sys.argv[2] == "tty"
at_end = END_OF_TERMINAL if tty else END_OF_INPUT
try:
    with Line(msgspec.json.decode(sys.argv[1], type=Stream)) as line:
        sys.exit(attach(line, Manner(terminal=tty, at_end=at_end)))
except CommandError as error:
    error.show()
    sys.exit(1)
"""


@pytest.fixture
async def node(containers: Any, kit: SimpleNamespace) -> AsyncIterator[Any]:
    """The tasks of a node with a running container ``node.vm``."""
    async with kit.node_over(containers.driver, containers.images, containers.directory) as made:
        nic = await containers.plugged(5)
        made.vm = (await containers.create([nic]))["uuid"]
        yield made


async def client(node: Any, script: str, *, tty: bool = True) -> list[str]:
    """The words of a command that runs ``script`` in the container."""
    where = await node.good(
        "docker_exec", uuid=node.vm,
        command={"Cmd": ["sh", "-c", script], "Tty": tty, "ConsoleSize": [24, 80]},
    )  # fmt: skip
    return [sys.executable, "-c", CLIENT, json.dumps(where), "tty" if tty else "pipe"]


def sit(argv: list[str]) -> Any:
    """Somebody at that command."""
    return terminal.Sitting(argv, dict(os.environ))


async def test_keys_window_and_exit_status(node: Any) -> None:
    """The window's size goes there, also when it changes; Ctrl-C ends what runs there, not us."""
    script = (
        "trap 'stty size' WINCH; trap 'echo stopped; exit 42' INT; stty size; echo ready;"
        " until read name; do :; done; printf 'hello %s\\ndown' \"$name\"; stty -opost;"
        " printf '\\nhere\\n'; stty opost; echo waiting; while :; do sleep 1; done"
    )
    argv = await client(node, script)

    def person() -> None:
        with sit(argv) as one:
            assert b"24 80" in one.until(b"ready")
            assert one.raw
            one.resize(132, 43)
            one.until(b"43 132")
            one.type(b"world\r")
            # Line ends are the inner terminal's affair alone: a bare line feed stays one.
            assert one.until(b"waiting").endswith(b"hello world\r\ndown\nhere\nwaiting")
            one.type(b"\x03")
            one.until(b"stopped")
            assert one.end() == 42
            assert one.mode == one.before

    await asyncio.to_thread(person)


async def test_a_broken_line_leaves_the_terminal_as_it_was(node: Any) -> None:
    """The agent goes: one line says so, exit code 1, and what is typed is shown again."""
    argv = await client(node, "echo ready; sleep 1000")
    with sit(argv) as one:
        await asyncio.to_thread(one.until, b"ready")
        assert one.raw
        await node.parts.streams.close()
        assert await asyncio.to_thread(one.end) == 1
        assert one.mode == one.before
        assert b"The connection to the node was lost" in one.shown


@pytest.mark.parametrize("signal", [15, 1])
async def test_a_command_that_is_told_to_end_leaves_the_terminal_as_it_was(
    node: Any, signal: int
) -> None:
    """By SIGTERM or by the end of its session; what ran in the container ends too."""
    argv = await client(node, "echo ready; exec sleep 12345")
    with sit(argv) as one:
        await asyncio.to_thread(one.until, b"ready")
        one.process.send_signal(signal)
        assert await asyncio.to_thread(one.end) == 128 + signal
        assert one.mode == one.before

    async def ended() -> bool:
        processes = (await node.driver.processes(node.vm)).values()
        return not any("12345" in process["command"] for process in processes)

    await eventually(ended)


async def test_much_that_is_pasted_waits_for_its_reader(node: Any) -> None:
    """More than a terminal holds: the agent goes on meanwhile, and not a byte is lost."""
    argv = await client(
        node,
        "stty raw -echo; echo ready; read -r go < /root/go; head -c 300000 | md5sum; echo over",
    )
    await node.driver.execute(node.vm, ["mkfifo", "/root/go"], {"PATH": "/bin:/sbin"}, 20)
    text = b"0123456789" * 30000
    expected = hashlib.md5(text, usedforsecurity=False).hexdigest()

    with sit(argv) as one:
        await asyncio.to_thread(one.until, b"ready")
        pasting = asyncio.create_task(asyncio.to_thread(one.paste, text))
        # While nobody reads it, the node still does its work: this command is what lets it be read.
        result = await node.driver.execute(
            node.vm, ["sh", "-c", "echo > /root/go"], {"PATH": "/bin:/sbin"}, 20
        )
        assert result.exit_code == 0
        await pasting
        assert expected.encode() in await asyncio.to_thread(one.until, b"over")
        assert await asyncio.to_thread(one.end) == 0


async def test_much_goes_through_a_command_and_comes_back(node: Any, tmp_path: Path) -> None:
    """``cat`` of 64 MiB: neither side waits for the other to read first."""
    argv = await client(node, "cat", tty=False)
    data = os.urandom(1 << 20) * 64
    (tmp_path / "in").write_bytes(data)
    with (tmp_path / "in").open("rb") as given, (tmp_path / "out").open("wb") as taken:
        process = await asyncio.create_subprocess_exec(*argv, stdin=given, stdout=taken)
        try:
            async with asyncio.timeout(120):
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert (tmp_path / "out").read_bytes() == data
