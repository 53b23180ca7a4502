"""The clock of the guest may be set while plans wait and run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

TAMPERING = """
import os, time
real = time.time
time.time = lambda: real() + (float(open({path!r}).read()) if os.path.exists({path!r}) else 0)
"""


@pytest.fixture
def leap(guest: Any, tmp_path: Path) -> Any:
    """Sets the guest's clock, by so many seconds."""
    path = tmp_path / "leap"
    guest.tampering = TAMPERING.format(path=str(path))

    def set_clock(seconds: float) -> None:
        path.with_suffix(".new").write_text(str(seconds))
        path.with_suffix(".new").rename(path)

    return set_clock


@pytest.mark.parametrize("adopted", [False, True])
def test_a_clock_that_is_set_ends_no_plan(
    guest: Any, mailbox: Any, make_plan: Any, tmp_path: Path, leap: Any, adopted: bool
) -> None:
    """A plan's time-out is elapsed time, also for an agent that took the plan over."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    plan = make_plan(
        "return wait().stdout", {"wait": f"#!/bin/sh\ncat {gate}\n"}, Timeout=1000, Lifetime=1000
    )
    mailbox.offer(plan)
    guest.start()
    until(lambda: list(guest.storage.glob("files/*/.output/*")))
    leap(1e6)
    if adopted:
        guest.kill()
        guest.start()
    for number in range(2):  # it looks after the running plan in between
        mailbox.offer(make_plan("return"), message_id=f"p{number}")
        mailbox.wait_acknowledged(f"p{number}")
    gate.write_text("finished\n")
    assert mailbox.result()["Body"] == "finished"


def test_plans_run_in_order_when_the_clock_is_set_back(
    guest: Any, mailbox: Any, make_plan: Any, tmp_path: Path, leap: Any
) -> None:
    """Plans run in order of arrival, whatever the clock says."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    guest.start()
    mailbox.offer(make_plan("return wait().stdout", {"wait": f"#!/bin/sh\ncat {gate}\n"}))
    for number in range(3):
        leap(-1e6 * number)
        mailbox.offer(make_plan(f"return {number}"), message_id=f"m{number}")
        mailbox.wait_acknowledged(f"m{number}")
    gate.write_text("first\n")
    assert [mailbox.result()["Body"] for _ in range(4)] == ["first", 0, 1, 2]
