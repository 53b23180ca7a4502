"""Somebody who sits at a terminal: a command in a pseudo-terminal, its window and its keyboard."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from typing import Any

SECONDS = 240.0


class Sitting:
    """A command with a controlling terminal of its own, until the block ends."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._master, self._slave = os.openpty()
        self.resize(80, 24)
        self.before = termios.tcgetattr(self._slave)
        self.shown = b""
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *argv],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env=environment,
        )

    def __enter__(self) -> Sitting:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for descriptor in (self._master, self._slave):
            os.close(descriptor)

    @property
    def mode(self) -> list[Any]:
        """What ``stty`` would say."""
        return termios.tcgetattr(self._slave)

    @property
    def raw(self) -> bool:
        """Whether keys go through one by one, Ctrl-C as well."""
        return not self.mode[3] & (termios.ICANON | termios.ISIG)

    def resize(self, columns: int, rows: int) -> None:
        """Drag the window: its processes hear of it."""
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def paste(self, text: bytes) -> None:
        """Press very many, as fast as they are taken."""
        while text:
            _, ready, _ = select.select([], [self._master], [], SECONDS)
            assert ready, self.shown
            text = text[os.write(self._master, text[:1024]) :]

    def until(self, text: bytes) -> bytes:
        """Look at the screen until ``text`` is on it; forgets what came up to there."""
        while text not in self.shown:
            self._look()
        seen, _, self.shown = self.shown.partition(text)
        return seen + text

    def end(self) -> int:
        """Look at the screen until the command has ended; its exit code."""
        deadline = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown
            self._look(0.05)
        self._look(0)
        return self.process.returncode

    def _look(self, seconds: float = SECONDS) -> None:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if ready:
            self.shown += os.read(self._master, 65536)
        else:
            assert seconds != SECONDS, self.shown
