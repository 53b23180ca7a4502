"""A node's temporary stream and the terminal here, bound to each other: commands and consoles.

Both talk in lines of JSON (``vetro.node.tasks.docker``). Neither side ever waits for the other to read:
what is typed is held back while the node does not take it, and what the node says is shown meanwhile.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import socket
import sys
import termios
import tty
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from types import FrameType

import msgspec

from vetro.cli.terminal.output import CommandError, fail, remark
from vetro.compute.wire import Stream

_CONNECT_SECONDS = 30.0
_CHUNK = 65536
# No more is read from the keyboard (or the file in its place) while this much waits for the node.
_WAITING = 256 * 1024


class Heard(msgspec.Struct):
    """A line from a node: ``stdout`` or ``stderr`` with its ``data``, or the ``end`` with its ``code``."""

    type: str = ""
    data: bytes = b""
    code: int | None = None


class Line:
    """One connection to a node: lines out through a buffer, lines in as they come."""

    def __init__(self, where: Stream) -> None:
        """Open it with its token. Errors: ``CommandError`` when the node does not answer."""
        try:
            self._socket = socket.create_connection((where.host, where.port), _CONNECT_SECONDS)
        except OSError as error:
            fail(
                f"The node does not answer at {where.address}: {error.strerror or error}",
                "Streams come straight from the node: its admin address must be reachable from here.",
            )
        self._socket.setblocking(False)
        self._out = bytearray(f"{where.token}\n".encode())
        self._rest = b""

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """For ``select``."""
        return self._socket.fileno()

    @property
    def waiting(self) -> int:
        """Bytes that the node has not taken yet."""
        return len(self._out)

    def send_line(self, kind: str, data: bytes | None = None, **more: int) -> None:
        """Say something, when the node takes it."""
        message: dict[str, str | int] = {"type": kind, **more}
        if data is not None:
            message["data"] = base64.b64encode(data).decode()
        self._out += json.dumps(message).encode() + b"\n"

    def push(self) -> None:
        """Send what the node takes now. Errors: ``OSError``."""
        with contextlib.suppress(BlockingIOError):
            while self._out:
                del self._out[: self._socket.send(self._out[:_CHUNK])]

    def hear(self) -> Iterator[Heard]:
        """The data that has arrived. Errors: ``OSError``, ``EOFError`` when the node ended the
        connection."""
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        if not data:
            raise EOFError
        *lines, self._rest = (self._rest + data).split(b"\n")
        for one in lines:
            yield msgspec.json.decode(one, type=Heard)


def collect(line: Line) -> tuple[int, dict[str, bytes]]:
    """Let a command run without input: its exit code and what it said, by stream."""
    line.send_line("stdin_end")
    found = {"stdout": b"", "stderr": b""}
    for message in _until_broken(line):
        if message.type == "end":
            return exit_code(message), found
        if message.type in found:
            found[message.type] += message.data
    raise _broken()


def _until_broken(line: Line) -> Iterator[Heard]:
    with contextlib.suppress(OSError, EOFError):
        while True:
            _, writable, _ = select.select([line], [line] if line.waiting else [], [])
            if writable:
                line.push()
            yield from line.hear()


def exit_code(message: Heard) -> int:
    """Of the last line of a stream."""
    return 1 if message.code is None else message.code


def _broken() -> CommandError:
    return CommandError(
        "The connection to the node was lost",
        "Its agent was stopped, or the network to it is interrupted.",
    )


#: The line for the end of the input: a line of its kind, with its data.
END_OF_INPUT = ("stdin_end", None)
#: A terminal has no end of input but the one that is typed.
END_OF_TERMINAL = ("stdin", b"\x04")


@dataclass(frozen=True)
class Manner:
    """How a stream and the terminal here are bound to each other.

    ``terminal``: the other side has one, so ours is set raw (if it is one) and its size is sent.
    ``watching``: the keyboard is looked at; ``typing``: and what is typed is sent.
    ``leave``: the key that ends it from here. ``at_end``: said when the keyboard has no more.
    """

    terminal: bool = False
    watching: bool = True
    typing: bool = True
    leave: bytes = b""
    at_end: tuple[str, bytes | None] | None = END_OF_INPUT


def attach(line: Line, manner: Manner) -> int:
    """Bind our streams to the node's until it says the end; the exit code.

    Errors: ``CommandError`` when the node closes the connection early. The terminal is as before in any
    case.
    """
    keyboard = _keyboard() if manner.watching else None
    ended: int | None = None
    with _raw(keyboard if manner.terminal else None), _resizes(manner.terminal) as resized:
        if manner.terminal:
            # It may have changed since the command was asked for.
            _send_size(line)
        if keyboard is None and manner.watching and manner.at_end:
            line.send_line(*manner.at_end)
        # A terminal must be itself again before an error is printed.
        with contextlib.suppress(OSError, EOFError):
            ended = _converse(line, manner, keyboard, resized)
    if ended is None:
        if manner.terminal and sys.stdout.isatty():
            remark("")
        raise _broken()
    return ended


def _converse(line: Line, manner: Manner, keyboard: int | None, resized: int | None) -> int:
    while True:
        sources: list[Line | int] = [line]
        if resized is not None:
            sources.append(resized)
        if keyboard is not None and line.waiting < _WAITING:
            sources.append(keyboard)
        ready, writable, _ = select.select(sources, [line] if line.waiting else [], [])
        if resized is not None and resized in ready:
            os.read(resized, _CHUNK)
            _send_size(line)
        if keyboard is not None and keyboard in ready:
            keys = _read(keyboard)
            typed, left, _ = keys.partition(manner.leave) if manner.leave else (keys, b"", b"")
            if typed and manner.typing:
                line.send_line("stdin", typed)
            if left:
                line.push()
                return 0
            if not keys:
                # The input has ended; output is still shown.
                keyboard = None
                if manner.at_end:
                    line.send_line(*manner.at_end)
        if writable:
            line.push()
        if line in ready:
            for message in line.hear():
                if message.type == "end":
                    return exit_code(message)
                _show(message)


def _read(keyboard: int) -> bytes:
    try:
        return os.read(keyboard, _CHUNK)
    except OSError:
        # The terminal is gone.
        return b""


def _show(message: Heard) -> None:
    data = message.data
    stream = sys.stderr if message.type == "stderr" else sys.stdout
    try:
        while data:
            data = data[os.write(stream.fileno(), data) :]
    except BrokenPipeError:
        # Who reads us has enough, as `head` does.
        sys.exit(141)


def _keyboard() -> int | None:
    """Standard input, unless it is closed."""
    try:
        descriptor = sys.stdin.fileno()
        os.fstat(descriptor)
    except (AttributeError, OSError, ValueError):
        return None
    return descriptor


def window() -> tuple[int, int] | None:
    """Columns and rows of the terminal we print on, if it is one."""
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return None


def _send_size(line: Line) -> None:
    size = window()
    if size is not None:
        line.send_line("resize", columns=size[0], rows=size[1])


@contextlib.contextmanager
def _raw(keyboard: int | None) -> Generator[None, None, None]:
    """Every key as it is, Ctrl-C as well; as before at the end, also when the command is terminated."""
    if keyboard is None or not os.isatty(keyboard):
        yield
        return

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = termios.tcgetattr(keyboard)
    handlers = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setraw(keyboard)
        yield
    finally:
        with contextlib.suppress(termios.error):
            # A terminal that was closed has nothing to restore.
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _resizes(wanted: bool) -> Generator[int | None, None, None]:
    """A descriptor that can be read whenever the window has another size."""
    if not wanted or not sys.stdout.isatty():
        yield None
        return
    inner, outer = socket.socketpair()
    with inner, outer:
        inner.setblocking(False)
        outer.setblocking(False)

        def notice(_number: int, _frame: FrameType | None) -> None:
            # One byte that waits is enough.
            with contextlib.suppress(BlockingIOError):
                outer.send(b".")

        before = signal.signal(signal.SIGWINCH, notice)
        try:
            yield inner.fileno()
        finally:
            signal.signal(signal.SIGWINCH, before)
