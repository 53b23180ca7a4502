"""Calls that the host drives slice by slice (`docs/language/embedding.md`)."""

import asyncio
from datetime import UTC, datetime

import pytest

from vetro.muranopl import (
    Cancelled,
    DirectEffects,
    MuranoError,
    Runtime,
    Steps,
    loose_package,
)

PARALLEL = """
Namespaces: {=: p}
Name: A
Properties:
  log: {Contract: [], Usage: InOut, Default: []}
Methods:
  run:
    Body:
      - Parallel:
          - Do:
              - $.log: $.log.append(a1)
              - sleep(5)
              - $.log: $.log.append(a2)
          - Do:
              - $.log: $.log.append(b1)
              - sleep(3)
              - $.log: $.log.append(b2)
      - Return: done
  guarded:
    Body:
      - Try:
          - sleep(100)
        Finally:
          - $.log: $.log.append(cleaned)
  fails:
    Body:
      - Throw: Broken
        Message: it is broken
"""


@pytest.fixture
def stepped():
    runtime = Runtime()
    runtime.add_package(loose_package("p", PARALLEL))
    session = runtime.session(effects=DirectEffects(seed=1, start=datetime(2030, 1, 1, tzinfo=UTC)))
    return session, session.load({"Objects": {"?": {"type": "p.A", "id": "a"}}})


def test_a_host_steps_through_a_call(stepped):
    """Every slice runs one thread until it waits; objects can be looked at in between."""
    session, root = stepped
    steps = Steps(session, root, "run")
    seen = [root["log"]]
    while steps.step():
        if root["log"] != seen[-1]:
            seen.append(root["log"])
    assert seen == [[], ["a1"], ["a1", "b1"], ["a1", "b1", "b2"], ["a1", "b1", "b2", "a2"]]
    assert steps.done
    assert steps.result() == "done"
    assert session.call(root, "run") == "done", "an ordinary call goes on as before"


def test_a_host_stops_where_it_likes(stepped):
    """Between two slices the host sees what each thread waits for, and goes on later."""
    session, root = stepped
    steps = Steps(session, root, "run")
    assert steps.run_until(lambda: "b1" in root["log"]) is True
    assert sorted(steps.waiting().values())[-1] == "the time 2030-01-01T00:00:05+00:00"
    assert steps.run_until(lambda: False) is False
    assert steps.result() == "done"


def test_closing_a_stepped_call_runs_its_clean_up(stepped):
    """Giving up in the middle cancels the program; its Finally blocks run."""
    session, root = stepped
    steps = Steps(session, root, "guarded")
    steps.step()
    steps.close()
    assert root["log"] == ["cleaned"]
    again = Steps(session, root, "guarded")
    again.step()
    session.cancel("the host says so")
    with pytest.raises(Cancelled, match="the host says so"):
        again.result()


def test_steps_bring_what_comes_from_outside():
    """A native method that awaits is resumed by a step of its own."""

    class Remote:
        async def fetch(self, value):
            await asyncio.sleep(0)
            return value + 1

    runtime = Runtime()
    runtime.add_native_class("p.Remote", Remote, package="p")
    text = "Namespaces: {=: p}\nName: A\nMethods: {run: {Body: {Return: new(Remote).fetch(1)}}}\n"
    runtime.add_package(loose_package("p", text))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"type": "p.A", "id": "a"}}})
    steps = Steps(session, root, "run")
    assert steps.step() is True
    assert list(steps.waiting().values()) == ["an effect"]
    assert steps.result() == 2


def test_a_stepped_call_fails_as_any_other(stepped):
    """What the program throws comes from `result`, and the session goes on."""
    session, root = stepped
    steps = Steps(session, root, "fails")
    with pytest.raises(MuranoError, match="it is broken"):
        steps.result()
    assert session.call(root, "run") == "done"
