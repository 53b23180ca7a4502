"""The agent's log neither stops the agent nor fills the disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from vetro.guest.agent import log

PRINTING = (
    "import sys\nfor _ in range(4000): print('a line')\nsys.stderr.write('x' * 9000)\nreturn 1"
)


def test_a_full_log_disk_is_no_trouble(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """The agent runs plans, even with much output, while no line can be written."""
    guest.extra = "log_file = /dev/full"
    mailbox.offer(make_plan(PRINTING))
    guest.start()
    assert mailbox.result()["Body"] == 1
    mailbox.offer(make_plan("return 2"))
    assert mailbox.result()["Body"] == 2


def test_a_full_disk_under_standard_error_is_no_trouble(
    guest: Any, mailbox: Any, make_plan: Any
) -> None:
    """The agent runs plans while standard error is on a full disk."""
    mailbox.offer(make_plan(PRINTING))
    command = [sys.executable, str(guest.archive), "--config-file", str(guest.configure())]
    with open("/dev/full", "w") as full:
        guest.process = subprocess.Popen(command, stdout=full, stderr=full)
    assert mailbox.result()["Body"] == 1


def test_a_log_that_cannot_be_opened_goes_to_standard_error(
    guest: Any, mailbox: Any, make_plan: Any
) -> None:
    """A line on standard error says so, and the agent works."""
    guest.extra = f"log_file = {guest.directory}/agent.conf/log"
    mailbox.offer(make_plan("return 1"))
    guest.start()
    assert mailbox.result()["Body"] == 1
    assert "The log goes to standard error" in guest.log


def test_the_log_is_bounded(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """A long log is rotated, also when plans write to it, and one former file is kept."""
    path = guest.directory / "own.log"
    guest.extra = f"log_file = {path}\nlog_limit = 20000"
    guest.start()
    for number in range(4):
        mailbox.offer(make_plan(f"print('start of {number}')\n" + PRINTING))
        assert mailbox.result()["Body"] == 1
        until(lambda: guest.folders() == [])
    mailbox.offer(make_plan("return 'the last'", Name="the last"))
    assert mailbox.result()["Body"] == "the last"
    guest.kill()
    former = path.with_name("own.log.1")
    assert "Running the plan" in path.read_text()
    assert path.stat().st_size < 20_000 + 45_000  # the limit, and what one plan has printed
    assert former.stat().st_size < 20_000 + 45_000
    assert sorted(one.name for one in guest.directory.glob("own.log*")) == ["own.log", "own.log.1"]
    assert former.stat().st_mode & 0o077 == 0


def test_missing_lines_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next written line says how many lines are missing."""
    for name in ("_descriptor", "_path", "_lost"):
        monkeypatch.setattr(log, name, getattr(log, name))
    full = open("/dev/full", "wb")
    monkeypatch.setattr(log, "_descriptor", full.fileno())
    log.info("one")
    log.error("two")
    assert log.to_file(str(tmp_path / "made" / "agent.log"))
    log.info("three")
    log.info("four")
    full.close()
    lines = (tmp_path / "made" / "agent.log").read_text().splitlines()
    assert lines[0].startswith("[2 lines are missing")
    assert [line.split()[-1] for line in lines[1:]] == ["three", "four"]
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o755


def test_a_full_disk_makes_room_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the former log cannot be copied, it is dropped for new lines."""
    for name in ("_descriptor", "_path", "_lost", "_limit"):
        monkeypatch.setattr(log, name, getattr(log, name))
    path = tmp_path / "agent.log"
    path.with_name("agent.log.1").mkdir()  # a copy cannot take this name
    assert log.to_file(str(path))
    log.keep(100)
    for number in range(10):
        log.info(f"line {number} " + "x" * 60)
    assert path.stat().st_size < 300
    assert "line 9" in path.read_text()
