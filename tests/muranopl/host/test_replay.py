"""Recording and replaying random parallel programs (issue 3, item 5)."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from vetro.muranopl import (
    CallContext,
    DirectEffects,
    MemoryPackage,
    MuranoError,
    RecordingEffects,
    ReplayingEffects,
    Runtime,
)

HEAD = """
Namespaces: {=: t}
Name: Main
Properties:
  log: {Contract: [], Usage: Out}
Methods:
  note:
    Arguments: [{what: {Contract: $}}]
    Body:
      - $.log: $.log.append($what)
"""


class Door:
    """A native class whose calls are effects that take a while, or fail."""

    performed = 0

    def call(self, ctx: CallContext, n: int):
        async def execute():
            Door.performed += 1
            await asyncio.sleep(n % 3 * 0.0005)
            if n == 7:
                raise MuranoError("it broke", names=["t.oops"])
            return n * 3

        return ctx.effect("door.call", {"n": n}, execute)


def _parallel(branches):
    return {"Parallel": [{"Do": branch} for branch in branches]}


LEAVES = st.one_of(
    st.integers(0, 9).map(lambda n: f"$.note({n})"),
    st.integers(0, 2).map(lambda n: f"sleep({n * 0.0005})"),
    st.integers(0, 9).map(
        lambda n: {"Try": [f"$.note(new(Door).call({n}))"], "Catch": {"As": "e"}}
    ),
    st.sampled_from(["$.note(random())", "$.note(now().timestamp)", "$.note(randomName())"]),
    st.integers(1, 3).map(lambda n: f"range({n}).pselect($this.note($ + 100))"),
)
BLOCKS = st.recursive(
    st.lists(LEAVES, min_size=1, max_size=3),
    lambda inner: st.lists(
        st.one_of(LEAVES, st.lists(inner, min_size=1, max_size=3).map(_parallel)),
        min_size=1,
        max_size=3,
    ),
    max_leaves=6,
)


def write(block, indent):
    pad = " " * indent
    lines = []
    for item in block:
        if isinstance(item, str):
            lines.append(f"{pad}- {item}")
        elif "Parallel" in item:
            lines.append(f"{pad}- Parallel:")
            for branch in item["Parallel"]:
                lines.append(f"{pad}    - Do:")
                lines.append(write(branch["Do"], indent + 8))
        else:
            lines.append(f"{pad}- Try:")
            lines.append(write(item["Try"], indent + 4))
            lines.append(f"{pad}  Catch:")
            lines.append(f"{pad}    As: e")
            lines.append(f"{pad}    Do:")
            lines.append(f"{pad}      - $.note($e.message)")
    return "\n".join(lines)


def run(block, effects):
    text = HEAD + "  run:\n    Body:\n" + write(block, 6) + "\n      - Return: [$.log, id($this)]\n"
    runtime = Runtime()
    runtime.add_native_class("t.Door", Door, package="t")
    runtime.add_package(MemoryPackage("t", {"a": text}, {"t.Main": "a"}))
    session = runtime.session(effects=effects)
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})
    return session.serialize(session.call(root, "run")), session.dump()["Objects"]


@given(BLOCKS)
@settings(max_examples=examples(40), deadline=None)
def test_a_replay_is_the_same_run(block):
    """The same result, model and effects in the same order, and nothing is performed again."""
    recording = RecordingEffects(DirectEffects())
    first = run(block, recording)
    performed = Door.performed
    again = RecordingEffects(ReplayingEffects(recording.record, DirectEffects()))
    assert run(block, again) == first
    assert Door.performed == performed
    assert again.record == recording.record


@given(BLOCKS, st.data())
@settings(max_examples=examples(25), deadline=None)
def test_a_replay_goes_on_where_the_record_ends(block, data):
    """Of a record that was cut when the engine died, what was completed is not performed again."""
    recording = RecordingEffects(DirectEffects())
    run(block, recording)
    kept = data.draw(st.integers(0, recording.record["completions"]))
    threads: dict = {}
    for key, entries in recording.record["threads"].items():
        for entry in entries:
            if entry[3] is not None and entry[3] >= kept:
                break
            threads.setdefault(key, []).append(entry)
    known = sum(entry[0] == "door.call" for entries in threads.values() for entry in entries)
    total = sum(
        entry[0] == "door.call"
        for entries in recording.record["threads"].values()
        for entry in entries
    )
    before = Door.performed
    result, _ = run(
        block, ReplayingEffects({"threads": threads, "completions": kept}, DirectEffects())
    )
    assert result[1] == "root"
    assert Door.performed - before == total - known
