"""One Chromium for a whole run of tests, which the first test that needs it starts (decision 0789).

The process that pytest was started as has it; with xdist the workers ask that for its address, by a socket
whose name is known to their network namespace only. A worker with a network of its own, as tests marked
`root` have it, could not reach the browser either: it has its own. So has a process that is no pytest.
"""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import playwright
import pytest
from tests.times import note, processor_seconds

# The one without windows, where it is installed: a page in the other one takes four times the processor time,
# most of it for the window around the page.
CHROMIUM = next(
    (
        one
        for one in ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium")
        if Path(one).exists()
    ),
    "",
)
# Its graphics are drawn in software, and what it asks for is on this machine. Letters are as wide on every
# machine, whatever it says of how they are drawn: pages are compared with pictures.
OPTIONS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-proxy-server",
    "--font-render-hinting=none",
)
SCRIPT = Path(__file__).with_name("browser_server.js")


class Chromium:
    """A browser, and Playwright's server before it; its users see their own contexts only.

    It ends with this process, also when that is killed: the server reads what this process never writes.
    """

    def __init__(self) -> None:
        driver = Path(playwright.__file__).parent / "driver"
        options = {"executablePath": CHROMIUM, "args": OPTIONS, "host": "127.0.0.1"}
        self._process = subprocess.Popen(
            [driver / "node", SCRIPT, driver / "package", json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # who presses Ctrl-C interrupts the tests, which close it
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        if not self.address:
            self.close()
            raise OSError(f"{CHROMIUM} cannot be started: what it said stands above")

    @property
    def is_there(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def seconds(self) -> float:
        """Processor seconds that it has used."""
        return processor_seconds(self._process.pid)

    def close(self) -> None:
        """End it, and wait for that."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class OneBrowser:
    """What a process of the run has: the browser, started when it is needed, or somebody to ask for it."""

    def __init__(self) -> None:
        self._started: Chromium | None = None
        self._socket: socket.socket | None = None
        self._asked = ""

    @property
    def address(self) -> str:
        """Where the browser of the run listens, or that of this process; a crashed one is started again."""
        return self._ask() or self._own()

    def _own(self) -> str:
        if self._started is not None and not self._started.is_there:
            self._started.close()
            self._started = None
        self._started = self._started or Chromium()
        return self._started.address

    def _ask(self) -> str:
        if not self._asked:
            return ""
        with socket.socket(socket.AF_UNIX) as asking:
            try:
                asking.connect(f"\0{self._asked}")
            except ConnectionRefusedError:
                return ""  # nobody has this name in this network
            return asking.recv(4096).decode()

    def _give(self, given: socket.socket) -> None:
        while True:
            try:
                asking, _ = given.accept()
            except OSError:
                return  # the run ends
            with asking:
                try:
                    asking.sendall(self._own().encode())
                except OSError:
                    continue  # who asked starts one of its own, and tells why not

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of xdist whom to ask."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX)
            self._asked = f"vetro-browser-{secrets.token_hex(16)}"
            self._socket.bind(f"\0{self._asked}")
            self._socket.listen(64)
            threading.Thread(target=self._give, args=(self._socket,), daemon=True).start()
        node.workerinput["browser"] = self._asked

    def pytest_configure(self, config: Any) -> None:
        """Hear whom to ask."""
        self._asked = getattr(config, "workerinput", {}).get("browser", "")

    def pytest_unconfigure(self) -> None:
        """End the browser of this process; note what tests used of it that other processes ran."""
        if self._started is not None and self._socket is not None:
            note("tests/dashboard/conftest.py::chromium", self._started.seconds)
        self.close()

    def close(self) -> None:
        """Give nobody the browser any more; end it, if it was started."""
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = None
        if self._started is not None:
            self._started.close()
            self._started = None


BROWSER = OneBrowser()


def pytest_configure(config: pytest.Config) -> None:
    """Let the run have its browser."""
    config.pluginmanager.register(BROWSER, "one browser")
