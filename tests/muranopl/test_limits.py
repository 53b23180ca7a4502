"""Budgets and cancelling: muranopl.md section 28."""

import asyncio
import threading

import pytest
from tests.waiting import eventually

from vetro.muranopl import Cancelled, LimitExceeded, Limits, MuranoError

LOOP = """
Namespaces: {=: t}
Name: Main
Methods:
  run:
    Body:
      - Try:
          While: !yaql 'true'
          Do: []
        Finally: trace(finally)
  query:
    Body:
      - Return: range(1000000).select(range(1000000).sum()).sum()
  recursion:
    Body:
      - Return: $.recursion()
  mutual:
    Arguments: [{n: {Contract: $.int()}}]
    Body:
      - Return: list(1).select($this.mutual($n + 1)).first()
  nested:
    Body:
      - Return: list(1).select(list(1).select(list(1).orderBy(list(1).groupBy(
          $this.nested()).toList()).toList()).toList()).toList()
  slowCleanUp:
    Body:
      - Try: $.run()
        Finally:
          While: !yaql 'true'
          Do: []
  wait:
    Body:
      - Try: sleep(1000)
        Catch: {Do: trace(caught)}
        Finally: trace(finally)
  fine: {Body: {Return: 1}}
"""


@pytest.fixture
def session(load, package):
    def make(**limits):
        from vetro.muranopl import Runtime

        trace = []
        runtime = Runtime()
        runtime.add_function("trace", trace.append)
        session, root = load(LOOP, limits=Limits(**limits), runtime=runtime)
        return session, root, trace

    return make


@pytest.mark.parametrize("method", ["run", "query"])
def test_steps_bound_loops_and_queries(session, method):
    """Loop turns and elements of queries come from one budget; Finally runs."""
    session, root, _ = session(steps=100_000)
    with pytest.raises(LimitExceeded, match="steps"):
        session.call(root, method)


def test_finally_has_a_budget_of_its_own(session):
    """A clean-up that never ends is ended."""
    session, root, _ = session(steps=10_000)
    with pytest.raises(LimitExceeded):
        session.call(root, "slowCleanUp")


@pytest.mark.parametrize("method", ["recursion", "nested"])
def test_endless_recursion_ends(session, method):
    """Neither plain recursion nor recursion through nested lambdas harms the process."""
    session, root, _ = session(depth=1000)
    with pytest.raises(LimitExceeded):
        session.call(root, method)
    assert session.call(root, "fine") == 1


def test_recursion_through_a_lambda_ends(session):
    """The depth limit counts methods called in lambdas."""
    session, root, _ = session(depth=600)
    with pytest.raises(LimitExceeded, match="600 levels deep"):
        session.call(root, "mutual", 1)


def test_wall_time_ends_a_loop(session):
    """A loop is ended by the clock."""
    session, root, trace = session(seconds=0.05)
    with pytest.raises(LimitExceeded, match="time limit"):
        session.call(root, "run")
    assert trace == ["finally"]


def test_wall_time_ends_a_wait(session):
    """A wait is ended by the clock; Catch does not see it."""
    session, root, trace = session(seconds=2)  # enough to come to the wait on a loaded machine
    with pytest.raises(LimitExceeded, match="time limit"):
        session.call(root, "wait")
    assert trace == ["finally"]


def test_a_session_goes_on_after_a_limit(session):
    """Every host call has fresh budgets."""
    session, root, _ = session(steps=10_000)
    with pytest.raises(LimitExceeded):
        session.call(root, "run")
    assert session.call(root, "fine") == 1


def test_cancel_from_another_thread_ends_a_loop(load):
    """The reason is the message; Finally runs, Catch does not."""
    from vetro.muranopl import Runtime

    trace = []
    runtime = Runtime()
    runtime.add_function("trace", trace.append)
    entered = threading.Event()
    runtime.add_function("entered", entered.set)
    session, root = load(
        LOOP.replace("While: !yaql 'true'", "While: entered() = null", 1), runtime=runtime
    )

    def canceller():
        entered.wait()
        session.cancel("the user gave up")

    thread = threading.Thread(target=canceller)
    thread.start()
    with pytest.raises(Cancelled, match="the user gave up"):
        session.call(root, "run")
    thread.join()
    assert trace == ["finally"]


async def test_cancel_ends_a_wait(session):
    """A waiting program is cancelled from the loop."""
    session, root, trace = session()
    task = asyncio.ensure_future(session.call_async(root, "wait"))
    await eventually(lambda: session.run.threads.alive)
    session.cancel("stop")
    with pytest.raises(Cancelled, match="stop"):
        await task
    assert trace == ["finally"]


async def test_concurrent_host_calls_take_turns(load):
    """Two calls of one session run one after the other."""
    text = """
Namespaces: {=: t}
Name: Main
Methods:
  run:
    Arguments: [{n: {Contract: $}}]
    Body:
      - trace($n + ' in')
      - sleep(0)
      - trace($n + ' out')
"""
    from vetro.muranopl import Runtime

    trace = []
    runtime = Runtime()
    runtime.add_function("trace", trace.append)
    session, root = load(text, runtime=runtime)
    await asyncio.gather(session.call_async(root, "run", "a"), session.call_async(root, "run", "b"))
    assert trace == ["a in", "a out", "b in", "b out"]


def test_the_process_survives_python_recursion(load):
    """Deep models are refused, not crashed on."""
    value = None
    for _ in range(5000):
        value = [value]
    text = """
Name: t.Main
Properties: {p: {Contract: $}}
"""
    with pytest.raises(MuranoError):
        load(text, model={"p": value})
