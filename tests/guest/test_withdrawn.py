"""Plans that nobody waits for any more are not begun (guest-agent.md, beyond upstream)."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A pipe that holds a plan until something is written to it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def held(make_plan: Any, gate: Path, **more: Any) -> dict[str, Any]:
    """A plan that waits at the gate."""
    return make_plan("return wait()", {"wait": f"#!/bin/sh\ncat {gate}\n"}, **more)


def cancel(mailbox: Any, plan: dict[str, Any]) -> None:
    """Order the agent to forget a plan, as the engine does, and wait until it has heard it."""
    name = f"{plan['ID']}-cancel"
    order = {
        "FormatVersion": "2.0.0", "Action": "Cancel", "ID": plan["ID"], "Body": "return",
        "Scripts": {}, "Files": {},
    }  # fmt: skip
    mailbox.offer(order, message_id=name)
    mailbox.wait_acknowledged(name)


def keep(guest: Any, plan: dict[str, Any], number: int, **more: Any) -> None:
    """Put a plan on the agent's disk, as one that it has received."""
    folder = guest.storage / "plans" / str(number)
    folder.mkdir(parents=True)
    data = base64.b64encode(json.dumps(plan).encode()).decode()
    kept = {"Data": data, "Signature": "", "ID": plan["ID"], "ReplyTo": None, **more}
    (folder / "plan.json").write_text(json.dumps(kept))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_waiting_plan_is_withdrawn(
    guest: Any, mailbox: Any, make_plan: Any, gate: Path, restarted: bool
) -> None:
    """It is answered at once and never runs, neither after a restart nor as a replay."""
    trace = gate.parent / "trace"
    first = held(make_plan, gate, Stamp=1)
    second = make_plan(f"open({str(trace)!r}, 'w').close()", Stamp=2)
    mailbox.offer(first)
    mailbox.offer(second)
    guest.start()
    mailbox.wait_acknowledged(second["ID"])
    cancel(mailbox, second)
    result = mailbox.result()
    assert (result["SourceID"], result["ErrorCode"]) == (second["ID"], 1)
    assert result["Body"]["Message"] == "The plan was cancelled"
    until(lambda: list(guest.storage.glob("plans/*/answered")))
    if restarted:
        guest.kill()
        guest.start()
    gate.write_text("go\n")
    assert mailbox.result()["SourceID"] == first["ID"]
    until(lambda: guest.folders() == [])
    mailbox.offer(second, message_id="replay")
    mailbox.wait_acknowledged("replay")
    last = make_plan("return 3", Stamp=3)
    mailbox.offer(last)
    assert mailbox.result()["SourceID"] == last["ID"]
    assert not trace.exists()


def test_a_plan_is_not_begun_after_its_lifetime(
    guest: Any, mailbox: Any, make_plan: Any, gate: Path
) -> None:
    """A plan that waited too long is answered instead, and its stamp is stored."""
    first = held(make_plan, gate, Stamp=1)
    second = make_plan("return 'too late'", Lifetime=0.001, Stamp=2)
    third = make_plan("return 'in time'", Lifetime=3600, Stamp=3)
    for plan in (first, second, third):
        mailbox.offer(plan)
    guest.start()
    mailbox.wait_acknowledged(third["ID"])
    gate.write_text("go\n")
    assert mailbox.result()["SourceID"] == first["ID"]
    result = mailbox.result()
    assert (result["SourceID"], result["ErrorCode"]) == (second["ID"], 1)
    assert "nobody waits" in result["Body"]["Message"]
    assert mailbox.result()["Body"] == "in time"


def test_a_lifetime_ends_a_running_plan(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """It limits a plan as its time-out does, so that the next plan is not delayed."""
    mailbox.offer(make_plan("return hang()", {"hang": "#!/bin/sh\nsleep 300\n"}, Lifetime=1))
    mailbox.offer(make_plan("return 'next'"))
    guest.start()
    assert "did not finish" in mailbox.result()["Body"]["Message"]
    assert mailbox.result()["Body"] == "next"


@pytest.mark.parametrize(("age", "runs"), [(100.0, False), (1.0, True)])
def test_a_lifetime_goes_on_while_the_machine_is_off(
    guest: Any, mailbox: Any, make_plan: Any, age: float, runs: bool
) -> None:
    """After a restart of the machine the age of a plan is measured by the wall clock."""
    plan = make_plan("return 'ran'", Lifetime=60)
    came = {"boot": "another", "monotonic": 1e9, "time": time.time() - age}
    keep(guest, plan, 17000000000000, Received=came)
    guest.start()
    result = mailbox.result()
    assert (result["SourceID"], result["Body"] == "ran") == (plan["ID"], runs)


def test_an_agent_that_starts_hears_first_what_was_withdrawn(
    guest: Any, mailbox: Any, make_plan: Any, tmp_path: Path
) -> None:
    """A plan from before the start is not begun while its cancellation is waiting."""
    trace = tmp_path / "trace"
    plan = make_plan(f"open({str(trace)!r}, 'w').close()", Stamp=1)
    keep(guest, plan, 17000000000000)
    mailbox.offer(
        {"Action": "Cancel", "ID": plan["ID"], "Body": "return", "Scripts": {}}, message_id="c"
    )
    guest.start()
    assert mailbox.result()["Body"]["Message"] == "The plan was cancelled"
    until(lambda: guest.folders() == [])
    assert not trace.exists()


def test_what_is_to_hear_does_not_hold_plans_for_long(
    guest: Any, mailbox: Any, make_plan: Any
) -> None:
    """When the service cannot be reached, stored plans are begun all the same."""
    mailbox.refuse = lambda method, path: (503, {}) if "/plans" in path else None
    keep(guest, make_plan("return 'ran'"), 17000000000000)
    guest.start()
    assert mailbox.result()["Body"] == "ran"
