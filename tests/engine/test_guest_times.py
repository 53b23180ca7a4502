"""Spans of guests, made from what their results report (guest-agent.md §5.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tracing.collector import Collector, collecting

from vetro import tracing
from vetro.engine.guest_times import MOST_SCRIPTS, trace_guest
from vetro.tracing import TracingSection


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that this process sends its spans to."""
    with collecting() as collector:
        tracing.configure(TracingSection(endpoint=collector.url), "worker")
        yield collector
        tracing.configure(TracingSection(), "")


def _result(timings: object, code: int = 0) -> dict[str, Any]:
    return {"FormatVersion": "2.0.0", "ErrorCode": code, "Body": 1, "Timings": timings}


def test_scripts_are_within_their_plan(collector: Collector) -> None:
    """A plan and its scripts become spans with the times of the guest, below the span that waited."""
    scripts = [
        {"Name": "install", "Ago": 8.5, "Seconds": 5},
        {"Name": "start\n\x1b[2J", "Ago": 3, "Seconds": 2.5, "Failed": True},
    ]
    result = _result({"Seconds": 9, "Scripts": scripts}, 1)
    with tracing.span("agent.result"):
        trace_guest(result, "e1-h2")
    tracing.flush(60)
    assert "Timings" not in result
    spans = {one.name: one for one in collector.spans}
    assert set(spans) == {
        "agent.result", "guest plan", "guest script install", "guest script start??[2J",
    }  # fmt: skip
    plan, install = spans["guest plan"], spans["guest script install"]
    assert collector.above(install) == ["guest plan", "agent.result"]
    assert (round(plan.seconds, 3), round(install.seconds, 3)) == (9, 5)
    # Each is counted back from its own moment, so what passes between them is added.
    assert 0.499 < install.began - plan.began < 4
    assert {name for name, one in spans.items() if one.failed} == {
        "guest plan", "guest script start??[2J",
    }  # fmt: skip
    assert install.attributes == {"vetro.guest": "e1-h2"}


@pytest.mark.parametrize(
    "timings",
    [
        None, 1, "x", [], {}, {"Seconds": True}, {"Seconds": -1}, {"Seconds": "1"},
        {"Seconds": float("nan")}, {"Seconds": float("inf")}, {"Seconds": 1e300},
        {"Seconds": 10**400},
    ],
)  # fmt: skip
def test_what_is_no_time_makes_no_span(timings: object, collector: Collector) -> None:
    """A guest is a tenant's machine: whatever it reports, its result counts and nothing is raised."""
    result = _result(timings)
    with tracing.span("agent.result"):
        trace_guest(result, "q")
    trace_guest(timings, "q")
    tracing.flush(60)
    assert [one.name for one in collector.spans] == ["agent.result"]
    assert result["Body"] == 1


def test_spans_of_a_guest_are_limited(collector: Collector) -> None:
    """Neither their number nor their names or times can flood a trace."""
    wrong = [3, {}, {"Name": 1, "Ago": 1, "Seconds": 1}, {"Name": "longer", "Ago": 1, "Seconds": 2},
             {"Name": "before", "Ago": 11, "Seconds": 1}]  # fmt: skip
    many = [{"Name": "n" * 5000, "Ago": 1, "Seconds": 1}] * 1000
    with tracing.span("agent.result"):
        trace_guest(_result({"Seconds": 10, "Scripts": [*wrong, *many]}), "q")
    tracing.flush(60)
    scripts = [one for one in collector.spans if one.name.startswith("guest script")]
    assert len(scripts) == MOST_SCRIPTS - len(wrong)
    assert {len(one.name) for one in scripts} == {len("guest script ") + 100}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["Seconds", "Scripts", "Name", "Ago", "Failed"]), inner
    ),
)  # fmt: skip


@pytest.mark.usefixtures("collector")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_json)
def test_nothing_that_a_guest_reports_is_an_error(timings: object) -> None:
    """Any JSON value as times leaves the result as it is without them."""
    # The collector is there: a thread that tries again draws random numbers, which confuses Hypothesis.
    result = _result(timings)
    trace_guest(result, "q")
    assert result == {"FormatVersion": "2.0.0", "ErrorCode": 0, "Body": 1}
