"""Tasks, actions and sessions: muranopl.md sections 6, 15, 21 and 23."""

import pytest

from vetro.muranopl import DirectEffects, MuranoError, Runtime

APP = """
Namespaces: {=: t, sys: io.murano.system}
Name: Main
Properties:
  parts: {Contract: [$.class(Part).owned()], Usage: InOut}
  state: {Contract: $.string(), Usage: Out}
  size: {Contract: $.int(), Usage: Const}
  log: {Contract: [$.string()], Usage: Static, Default: []}
Methods:
  deploy:
    Scope: Public
    Arguments: [{to: {Contract: $.string(), Default: up}}]
    Body:
      - $.state: $to
      - new(Part, name => temporary)
      - $.setAttr(deployed, $to)
      - Return: {state: $to, me: $}
  fail:
    Scope: Public
    Body:
      - $.state: failing
      - Throw: oops
        Message: it broke
  inner: {Body: {Return: 1}}
  static:
    Usage: Static
    Scope: Public
    Arguments: [{x: {Contract: $.int()}}]
    Body: {Return: $x * 2}
---
Name: Part
Properties:
  name: {Contract: $.string()}
Methods:
  destroy:
    Body: trace(format('destroyed {0}', $.name))
"""


@pytest.fixture
def run(package):
    """`run(task, model) -> (reply, trace)`"""

    async def runner(action, model):
        trace = []
        runtime = Runtime()
        runtime.add_function("trace", trace.append)
        runtime.add_package(package("t", APP))
        session = runtime.session(effects=DirectEffects(seed=1))
        return await session.run_task_async({"action": action, "model": model}), trace

    return runner


def model(**properties):
    return {"Objects": {"?": {"type": "t.Main", "id": "a"}, **properties}}


async def test_an_action_changes_the_model_and_returns_a_result(run):
    """The reply holds the new model, the copy before the action, attributes and the result."""
    action = {"object_id": "a", "method": "deploy", "args": {"to": "ready"}}
    reply, trace = await run(action, model())
    assert not reply.is_exception
    assert reply.result["state"] == "ready"
    assert reply.result["me"]["?"]["id"] == "a"
    assert reply.model["Objects"]["state"] == "ready"
    assert reply.model["ObjectsCopy"]["state"] is None
    assert reply.model["Attributes"] == [["a", "t.Main", "deployed", "ready"]]
    assert reply.model["SystemData"]["Packages"]["t"] == ["0.0.0"]
    assert trace == ["destroyed temporary"]
    assert reply.as_json()["action"]["isException"] is False


async def test_a_failing_action_still_saves_the_model(run):
    """The model of the failed run is returned, with message and trace."""
    reply, _ = await run({"object_id": "a", "method": "fail", "args": {}}, model())
    assert (reply.is_exception, reply.stage, reply.message) == (True, "fail", "it broke")
    assert "in method fail of type t.Main" in reply.details
    assert reply.model["Objects"]["state"] == "failing"
    assert reply.as_json()["action"]["result"]["message"] == "it broke"


async def test_what_the_user_removed_is_destroyed_first(run):
    """Objects of the copy that are not in the model are destroyed before the action."""
    given = model()
    part = {"?": {"type": "t.Part", "id": "p"}, "name": "old"}
    given["ObjectsCopy"] = {**given["Objects"], "parts": [part]}
    reply, trace = await run(None, given)
    assert not reply.is_exception
    assert trace == ["destroyed old"]


async def test_an_edited_out_value_is_put_back_with_a_warning(run):
    """Out belongs to the application."""
    given = model(state="hacked")
    given["ObjectsCopy"] = {**given["Objects"], "state": "saved"}
    reply, _ = await run(None, given)
    assert reply.model["Objects"]["state"] == "saved"
    assert any("t.Main.state" in text for text in reply.warnings)


async def test_an_edited_const_value_fails_the_task(run):
    """Const cannot be changed after the first deployment."""
    given = model(size=2)
    given["ObjectsCopy"] = {**given["Objects"], "size": 1}
    reply, _ = await run(None, given)
    assert (reply.is_exception, reply.stage) == (True, "<validate>")
    assert "t.Main.size" in reply.message
    assert reply.model is given


async def test_a_model_that_does_not_load_is_returned_unchanged(run):
    """The stage says that loading failed."""
    given = model(parts=["nobody"])
    reply, _ = await run({"object_id": "a", "method": "deploy", "args": {}}, given)
    assert (reply.is_exception, reply.stage) == (True, "<load>")
    assert reply.model is given


@pytest.mark.parametrize(
    ("object_id", "method", "message"),
    [
        ("a", "inner", "is not an action"),
        ("a", "nothing", "has no method"),
        ("b", "deploy", 'Object "b" is not found'),
    ],
)
async def test_only_actions_of_known_objects_are_called(run, object_id, method, message):
    """A method that is not Public, an unknown method and an unknown object are errors."""
    reply, _ = await run({"object_id": object_id, "method": method, "args": {}}, model())
    assert reply.is_exception
    assert message in reply.message


async def test_static_actions_need_no_model(package):
    """A Public Static method is called by class name; others are refused."""
    runtime = Runtime()
    runtime.add_package(package("t", APP))
    session = runtime.session()
    assert await session.call_static_action_async("t.Main", "static", {"x": "4"}) == 8
    with pytest.raises(MuranoError, match="is not a static action"):
        await session.call_static_action_async("t.Main", "deploy", {})


async def test_hooks_run_around_the_action_and_cannot_fail_the_task(package):
    """Start hooks, finish hooks; an error in one is only logged."""
    trace = []
    runtime = Runtime()
    runtime.add_function("trace", trace.append)
    runtime.add_package(package("t", APP))
    session = runtime.session()
    session.on_start(lambda: trace.append("start"))

    async def finish():
        trace.append("finish")

    session.on_finish(finish)
    session.on_finish(lambda: 1 / 0)
    action = {"object_id": "a", "method": "deploy", "args": {}}
    assert not (await session.run_task_async({"action": action, "model": model()})).is_exception
    assert trace[:2] == ["start", "finish"]


def test_the_end_of_a_session_destroys_what_is_not_in_the_model(package):
    """`with session:` destroys objects that only the program knew."""
    trace = []
    runtime = Runtime()
    runtime.add_function("trace", trace.append)
    runtime.add_package(package("t", APP))
    with runtime.session() as session:
        root = session.load(model())
        session.call(root, "deploy")
        assert trace == []
    assert trace == ["destroyed temporary"]


def test_a_model_that_was_saved_loads_again_as_it_was(package):
    """Dump and load are inverse."""
    runtime = Runtime()
    runtime.add_package(package("t", APP))
    first = runtime.session()
    parts = [{"?": {"type": "t.Part", "id": f"p{i}", "_x": i}, "name": str(i)} for i in range(3)]
    first.load(model(parts=parts, size="3"))
    saved = first.dump()
    second = runtime.session()
    second.load(saved)
    assert second.dump()["Objects"] == saved["Objects"]
