"""The effects port: recording and replaying (issue 3, item 5)."""

import asyncio
from datetime import UTC, datetime

import pytest

from vetro.muranopl import CallContext, DirectEffects, MuranoError
from vetro.muranopl.host.replay import RecordingEffects, ReplayingEffects, ReplayMismatch

APP = """
Namespaces: {=: t}
Name: Main
Properties:
  log: {Contract: [$.string()], Usage: Out}
Methods:
  note:
    Arguments: [{text: {Contract: $.string()}}]
    Body:
      - $.log: $.log.append($text)
  branch:
    Arguments: [{n: {Contract: $.int()}}]
    Body:
      - $x: $.call($n)
      - $.note(format('{0} got {1}', $n, $x))
      - sleep($x / 1000.0)
      - $.note(format('{0} slept', $n))
  call:
    Arguments: [{n: {Contract: $.int()}}]
    Body:
      - Return: new(Door).call($n)
  run:
    Body:
      - $.log: []
      - list(1, 2, 3, 4).pselect($this.branch($))
      - $name: randomName()
      - Return: list($.log, $name, id(new(Door)), now().timestamp, random())
  failing:
    Body:
      - Try: new(Door).call(99)
        Catch: {With: oops, As: e, Do: {Return: $e.message}}
"""


class Door:
    """A native class whose calls are effects."""

    performed = 0

    def call(self, ctx: CallContext, n: int):
        async def execute():
            Door.performed += 1
            await asyncio.sleep(0.002 * (5 - n) if n < 9 else 0)
            if n == 99:
                raise MuranoError("it broke", names=["t.oops"])
            return n * 7 % 5

        return ctx.effect("door.call", {"n": n}, execute)


@pytest.fixture
def run(load):
    def runner(effects, method="run"):
        session, root = load(APP, natives={"t.Door": Door}, effects=effects)
        return session.call(root, method), session.dump()["Objects"]

    return runner


def test_a_replay_gives_the_same_result_without_effects(run):
    """Result, model and interleaving of parallel branches come from the record."""
    recording = RecordingEffects(DirectEffects())
    first = run(recording)
    before = Door.performed
    assert run(ReplayingEffects(recording.record, DirectEffects())) == first
    assert Door.performed == before


def test_failures_are_replayed(run):
    """A recorded failure is raised again under its names."""
    recording = RecordingEffects(DirectEffects())
    assert run(recording, "failing")[0] == "it broke"
    before = Door.performed
    assert run(ReplayingEffects(recording.record, DirectEffects()), "failing")[0] == "it broke"
    assert Door.performed == before


def test_another_program_is_noticed(run):
    """A replay that asks for something else fails with both questions."""
    recording = RecordingEffects(DirectEffects())
    run(recording)
    with pytest.raises(ReplayMismatch, match="asks for"):
        run(ReplayingEffects(recording.record, DirectEffects()), "failing")


def test_a_seeded_port_gives_the_same_run_twice(run):
    """Ids and random numbers of a seeded port repeat."""
    start = datetime(2024, 5, 1, tzinfo=UTC)
    one = run(DirectEffects(seed=7, start=start))
    two = run(DirectEffects(seed=7, start=start))
    assert one[0][1:] == two[0][1:]
