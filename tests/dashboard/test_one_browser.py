"""The browser that tests share: one for a run, and gone with it."""

import signal
import socket
import subprocess
import sys
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from tests.one_browser import CHROMIUM, OneBrowser
from tests.waiting import until

pytestmark = [
    pytest.mark.programs,
    pytest.mark.thorough,
    pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed"),
]
ALONE = """
from tests.one_browser import BROWSER
print(BROWSER.address, flush=True)
input()
"""


def is_gone(address: str) -> bool:
    """Whether nobody listens at the address of a browser."""
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname, parts.port)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_workers_of_a_run_have_its_browser() -> None:
    """Each hears the same address; the browser ends with the run, and a worker of none has its own."""
    run, workers = OneBrowser(), [OneBrowser(), OneBrowser()]
    try:
        for worker in workers:
            node = SimpleNamespace(workerinput={})
            run.pytest_configure_node(node)
            worker.pytest_configure(node)
        [address] = {worker.address for worker in workers}
        for worker in workers:
            worker.close()
        assert not is_gone(address)
        run.close()
        until(lambda: is_gone(address), "the browser has ended")
        assert workers[0].address != address
    finally:
        for one in (run, *workers):
            one.close()


def test_a_browser_ends_with_a_process_that_is_killed() -> None:
    """Nobody is left who could end it: it hears of that itself."""
    with subprocess.Popen(
        [sys.executable, "-c", ALONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        address = started.stdout.readline().strip()
        assert not is_gone(address)
        started.send_signal(signal.SIGKILL)
    until(lambda: is_gone(address), "the browser has ended")
