"""The agent's machine may end between any two steps of taking and beginning a plan."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

TAMPERING = """
import os, signal

agent, steps, last = os.getpid(), 0, {last}

def counted(name):
    real = getattr(os, name)
    def call(*arguments, **named):
        global steps
        if os.getpid() == agent:
            steps += 1
            if steps == last:
                os.kill(agent, signal.SIGKILL)
        return real(*arguments, **named)
    setattr(os, name, call)

for name in ("mkdir", "rename", "fork"):  # each makes a state that the next agent may find
    counted(name)
"""
MANY = 200


def test_no_step_loses_a_plan(guest: Any, mailbox: Any, make_plan: Any, tmp_path: Path) -> None:
    """Killed before any step on disk, the agent answers the plan and runs it at most once."""
    taken = False
    for last in range(1, MANY):
        runs = tmp_path / f"runs-{last}"
        guest.directory = tmp_path / str(last)
        for folder in ("plans", "files"):
            (guest.storage / folder).mkdir(parents=True)
        plan = make_plan(f"open({str(runs)!r}, 'a').write('run;')", Stamp=last)
        guest.tampering = TAMPERING.format(last=last)
        mailbox.offer(plan)
        guest.start()
        until(lambda: guest.process.poll() is not None or not mailbox.results.empty())
        if guest.process.poll() is None:
            taken = True
            guest.kill()
            break
        guest.tampering = ""
        guest.start()
        result = mailbox.result()
        assert result["SourceID"] == plan["ID"]
        ran = runs.read_text() if runs.exists() else ""
        if result["ErrorCode"] == 0:
            assert ran == "run;"
        else:
            assert "interrupted" in result["Body"]["Message"]
            assert ran in ("", "run;")
        until(lambda: not guest.folders())
        guest.kill()
        while not mailbox.results.empty():  # killed before it had noted that it was sent
            assert mailbox.result()["SourceID"] == plan["ID"]
    assert taken, "the plan was never finished without being killed"


@pytest.mark.parametrize("name", ["unacknowledged", "stamp"])
@pytest.mark.parametrize("content", [b"", b"\x00" * 40, b"[1]"])
def test_damaged_notes_do_not_stop_the_agent(
    guest: Any, mailbox: Any, make_plan: Any, name: str, content: bytes
) -> None:
    """The agent does not depend on files that a power cut damaged."""
    (guest.storage / "plans").mkdir(parents=True)
    (guest.storage / "plans" / name).write_bytes(content)
    plan = make_plan("return 1", Stamp=5)
    mailbox.offer(plan)
    guest.start()
    assert mailbox.result()["SourceID"] == plan["ID"]


@pytest.mark.parametrize("content", [b"", b"\x00" * 40, b"[" * 100_000, b'{"SourceID": 5}'])
def test_a_damaged_result_is_an_error(
    guest: Any, mailbox: Any, make_plan: Any, content: bytes
) -> None:
    """The waiter gets an error; later results are sent."""
    plan = make_plan("return 1", Stamp=5)
    mailbox.refuse = lambda method, path: (503, {}) if path.endswith("/results") else None
    mailbox.offer(plan)
    guest.start()
    mailbox.until(lambda: any(r[1].endswith("/results") for r in mailbox.requests))
    guest.kill()
    (folder,) = guest.folders()
    (folder / "result.json").write_bytes(content)
    mailbox.refuse = lambda method, path: None
    result = guest.result_of(make_plan("return 2"))
    assert (result["SourceID"], result["ErrorCode"]) == (plan["ID"], 1)
    assert "damaged" in result["Body"]["Message"]
    assert mailbox.result()["Body"] == 2


def test_two_agents_on_one_storage(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """The second agent refuses with code 2 and names the first, which keeps running."""
    guest.start()
    mailbox.until(lambda: mailbox.polls > 0)
    command = [sys.executable, str(guest.archive), "--config-file", str(guest.configure())]
    second = subprocess.run(command, capture_output=True, check=False)
    assert second.returncode == 2
    said = second.stderr.decode()
    assert str(guest.storage) in said
    assert f"process {guest.process.pid}" in said
    mailbox.offer(make_plan("return 1"))
    assert mailbox.result()["Body"] == 1


def test_a_full_disk_is_waited_out(
    guest: Any, mailbox: Any, make_plan: Any, tmp_path: Path
) -> None:
    """A plan that cannot be stored is not acknowledged, nor taken for a stored one."""
    full = tmp_path / "full"
    full.touch()
    guest.tampering = f"""
import errno, os
real = os.rename
def rename(source, target):
    if os.path.exists({str(full)!r}) and ".incoming-" in source:
        raise OSError(errno.ENOSPC, "No space left on device")
    return real(source, target)
os.rename = rename
"""
    plan = make_plan("return 1", Stamp=1)
    mailbox.offer(plan)
    guest.start()
    until(lambda: "No space left" in guest.log)
    assert mailbox.acknowledged == []
    full.unlink()
    guest.kill()  # the mailbox hands it out again to another session only
    guest.start()
    assert mailbox.result()["Body"] == 1
    assert mailbox.acknowledged == [plan["ID"]]
