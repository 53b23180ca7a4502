"""What services write to their logs."""

import subprocess
import sys

import pytest

PROGRAM = """
import structlog
from vetro.http import configure_logging
configure_logging("info", {style!r})
def fails(password):
    raise ValueError("it broke")
try:
    fails("se" + "cret")
except ValueError as error:
    structlog.get_logger().error("request failed", exc_info=error)
"""


@pytest.mark.parametrize("style", ["console", "json"])
def test_an_exception_is_logged_without_the_values_of_variables(style: str) -> None:
    """The log has the place and the message, but no values such as passwords."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(style=style)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "ValueError: it broke" in done.stderr
    assert "in fails" in done.stderr
    assert "secret" not in done.stderr


UNREAD = """
import os, sys
ours, theirs = os.pipe()
os.dup2(theirs, 2)
os.close(theirs)
os.close(ours)
import structlog
from vetro.http import configure_logging
configure_logging("info", "json")
for number in range(3):
    structlog.get_logger().info("told", number=number)
print("went on", flush=True)
"""


def test_a_service_goes_on_when_nobody_reads_its_log() -> None:
    """A log line for a pipe whose reader has gone is dropped; whoever logs does not fail by it."""
    done = subprocess.run(
        [sys.executable, "-c", UNREAD], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "went on\n"
