"""Workflow tasks that are killed, overtaken or cancelled, and what the next engine does with them."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
from tests.waiting import eventually

from vetro.engine.checkpoints import Checkpoints, TakenOver
from vetro.engine.worker import workflow_run
from vetro.engine.worker.messages import send_message

from .conftest import Place, telnet


class Killed(BaseException):
    """The worker was killed here."""


class Deadly:
    """Kills the worker at the n-th step that leaves something behind: before it, or after it."""

    def __init__(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.after, self.steps = 0, False, 0
        for owner, name in (
            (Checkpoints, "save"),
            (Checkpoints, "keep_answer"),
            (place.mailboxes, "send"),
            (place.mailboxes, "discard"),
            (place.stacks, "create"),
            (place.stacks, "update"),
        ):
            monkeypatch.setattr(owner, name, self.wrapped(getattr(owner, name)))

    def wrapped(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """A step that may be the last."""

        async def call(*given: Any, **named: Any) -> Any:
            self.steps += 1
            dies = self.steps == self.at
            if dies and not self.after:
                raise Killed
            result = await step(*given, **named)
            if dies:
                raise Killed
            return result

        return call


async def small(*_given: Any) -> dict[str, bytes]:
    """Definitions of a project: ``SMALL``."""
    return SMALL


SMALL = {
    "workflows/Small.xml": b"""<workflow>
  <rule id="range" match="$[?(not @.networking.cidr)]">
    <get-cidr routerId="r" result="found"><success>
      <set path="networking.cidr"><select source="found" path="cidr"/></set>
      <set path="networking.mark"><uuid/></set>
    </success></get-cidr>
  </rule>
  <rule id="name" match="$.services[*].units[?(not @.state.hostname)]">
    <set path="state.hostname">
      <generate-hostname><parameter name="pattern"><select path="::unitNamingPattern"/></parameter>
        <parameter name="service_id"><select path="::id"/></parameter></generate-hostname>
    </set>
  </rule>
  <rule id="server" match="$[?(@.networking.cidr and not @.temp.server)]">
    <update-cf-stack template="Server"><success><set path="temp.server"><true/></set>
      <report entity="environment"><parameter name="id"><select path="id"/></parameter>
        <parameter name="text">the server is there</parameter></report></success></update-cf-stack>
  </rule>
  <rule id="first" match="$[?(@.temp.server)].services[*].units[?(not @.state.first)]">
    <mute/>
    <send-command template="Plan">
      <parameter name="service"><select path="::id"/></parameter>
      <parameter name="unit"><select path="id"/></parameter>
      <success><set path="state.first"><true/></set></success>
    </send-command>
  </rule>
  <rule id="group" match="$[?(@.temp.server and not @.temp.group)].services[0].units[?(@.state.first)]">
    <update-cf-stack template="Group">
      <success><set path="/temp.group"><true/></set></success></update-cf-stack>
  </rule>
</workflow>""",
    **{
        f"templates/cf/{name}.template": json.dumps(
            {
                "Resources": {
                    name: {
                        "Type": "AWS::EC2::SecurityGroup",
                        "Properties": {"GroupDescription": name},
                    }
                }
            }
        ).encode()
        for name in ("Server", "Group")
    },
    "templates/agent/Plan.template": b'{"FormatVersion": "2.0.0", "Body": "return 1", "Scripts": {}}',
}


async def test_a_task_goes_on_wherever_it_was_killed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between any two steps, a second run ends as an undisturbed one; every plan ran once."""
    # Two networks, two stacks, two plans at once: all that a checkpoint has, at a third of the time.
    monkeypatch.setattr(workflow_run, "definitions_of", small)
    deadly = Deadly(place, monkeypatch)
    units = [{"id": "u1", "name": "n1"}, {"id": "u2", "name": "n2"}]
    given = {**telnet(), "services": [{**telnet()["services"][0], "units": units}]}
    guests = ("ee1-s1-u1", "ee1-s1-u2")
    whole = await place.run(given, guests=guests)
    assert whole.result is None
    assert len(place.plans) == 2
    steps = deadly.steps
    assert steps >= 12
    for point in range(1, steps + 2):
        # Before each step, which is after the one before it; and after the last.
        deadly.at, deadly.after = (point, False) if point <= steps else (steps, True)
        await place.stacks.delete("p", "ee1")
        for queue in guests:
            await place.mailboxes.delete(queue)
        place.plans.clear()
        place.reports.said.clear()
        deadly.steps = 0
        async with place.answering(guests):  # what a guest has accepted it answers, to whom it be
            with pytest.raises(Killed):
                await place.run(given)
            result = await place.run(given)
        assert (result.is_exception, result.model) == (False, whole.model), deadly.at
        assert len(place.plans) == 2, deadly.at
        assert any("was cut off in round" in one[2] for one in place.reports.said) or deadly.at == 1


async def test_an_engine_that_was_overtaken_stores_nothing(place: Place) -> None:
    """Of two engines with a task the later one has it."""
    first, second = (Checkpoints(place.database, "t", fence) for fence in (1, 2))
    assert await first.take_over() is None
    await first.save({"round": 1}, 1)
    assert await second.take_over() == {"round": 1}
    with pytest.raises(TakenOver, match="deployment t"):
        await first.save({"round": 2}, 2)
    with pytest.raises(TakenOver):
        await first.take_over()


@pytest.mark.parametrize("fetched", [True, False], ids=["fetched", "waiting"])
async def test_a_task_that_is_cancelled_ends_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch, fetched: bool
) -> None:
    """It ends while a guest is silent, says why, keeps what was done, and takes its plan back."""
    monkeypatch.setattr(workflow_run, "definitions_of", small)
    place.times = 0
    ours, theirs = socket.socketpair()
    with ours, theirs:
        running = asyncio.create_task(
            place.run(telnet(), guests=("ee1-s1-u1",) if fetched else (), orders=theirs)
        )
        if fetched:
            await eventually(lambda: bool(place.plans))
        else:
            await eventually(lambda: place.mailboxes.unfinished("ee1-s1-u1"))
        send_message(ours, {"cancel": "Cancelled by ann: wrong image"})
        result = await running
    assert result.is_exception
    assert result.result == {"message": "Cancelled by ann: wrong image", "details": None}
    assert place.reports.said[-1] == (
        "e1", "error", "Cancelled by ann: wrong image", None,
    )  # fmt: skip
    unit = result.model["Objects"]["services"][0]["units"][0]
    assert unit["state"] == {"hostname": "linu1"}
    assert [one.awaited for one in await place.mailboxes.unfinished("ee1-s1-u1")] == (
        [False] if fetched else []
    )
