"""Traces: spans, their parents in other processes, and collectors that are away."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import structlog
from tests.tracing.collector import Collector, collecting

from vetro import tracing
from vetro.tracing import TracingSection

ROOT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that this process sends its spans to."""
    with collecting() as collector:
        tracing.configure(TracingSection(endpoint=collector.url), "test")
        yield collector
        tracing.configure(TracingSection(), "")


def test_without_settings_nothing_is_loaded() -> None:
    """Every call does nothing, and the libraries are not imported."""
    program = """
import json, sys
from vetro import tracing
headers = {}
with tracing.span("one", parent="00-1-2-3", some_thing=1) as span:
    span.name("two"); span.note(other=2); span.fail("x")
    tracing.inject(headers)
    assert tracing.traceparent() == "" and not headers and not tracing.is_on()
    assert tracing.add_trace_id(None, "", {"event": "e"}) == {"event": "e"}
tracing.flush()
print(json.dumps([name for name in sys.modules if "opentelemetry" in name]))
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(found.stdout) == []


async def test_spans_have_parents(collector: Collector) -> None:
    """A span within another, in a task that it started, and in another process."""

    async def inner() -> None:
        with tracing.span("task", vetro_thing=3, http_response_status__code=200):
            pass

    headers: dict[str, str] = {}
    with tracing.span("outer", "server", parent=ROOT) as outer:
        outer.name("POST /things")
        tracing.inject(headers)
        await asyncio.create_task(inner())
    with tracing.span("elsewhere", parent=headers["traceparent"]):
        assert tracing.add_trace_id(None, "", {}) == {"trace_id": ROOT.split("-")[1]}
    tracing.flush(60)
    spans = {one.name: one for one in collector.spans}
    assert set(spans) == {"POST /things", "task", "elsewhere"}
    assert {one.trace for one in spans.values()} == {ROOT.split("-")[1]}
    assert spans["POST /things"].parent == ROOT.split("-")[2]
    assert spans["task"].parent == spans["elsewhere"].parent == spans["POST /things"].id
    assert spans["task"].attributes == {"vetro.thing": "3", "http.response.status_code": "200"}
    assert {one.part for one in spans.values()} == {"test"}


def test_failed_spans_name_the_kind_of_error_only(collector: Collector) -> None:
    """The text of an error may have secrets: it is in no span."""
    with pytest.raises(ValueError, match="secret"), tracing.span("fails"):
        raise ValueError("the secret is 42")
    tracing.flush(60)
    [span] = collector.spans
    assert span.failed
    assert span.attributes == {"error.type": "ValueError"}


def test_what_was_given_up_has_not_failed(collector: Collector) -> None:
    """Its answer came another way, or nobody wanted it any more: the span says that it was cancelled."""
    with pytest.raises(asyncio.CancelledError), tracing.span("waits"):
        raise asyncio.CancelledError
    tracing.flush(60)
    [span] = collector.spans
    assert not span.failed
    assert span.attributes == {"vetro.outcome": "cancelled"}


@pytest.mark.parametrize("given", ["", "x", "00-0-0-00", ROOT[:-1], ROOT.replace("00-", "ff-", 1),
                                   "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])  # fmt: skip
def test_a_wrong_parent_begins_a_trace(given: str, collector: Collector) -> None:
    """What is not a ``traceparent`` is not continued; and nothing begins where a parent is needed."""
    with tracing.span("one", parent=given, only_inside=True):
        assert tracing.traceparent() == ""
    with tracing.span("two", parent=given):
        pass
    tracing.flush(60)
    [span] = collector.spans
    assert (span.name, span.parent) == ("two", "")


def test_what_another_does_not_keep_is_not_sent(collector: Collector) -> None:
    """A trace that was not sampled where it began has no spans here."""
    with tracing.span("one", parent=ROOT[:-2] + "00"):
        assert tracing.traceparent().endswith("-00")
    tracing.flush(60)
    assert collector.spans == []


def test_a_collector_that_is_away_is_logged_once() -> None:
    """Spans are dropped, the program goes on, and one line says so."""
    tracing.configure(TracingSection(endpoint="http://127.0.0.1:1/v1/traces"), "test")
    try:
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                with tracing.span("lost"):
                    pass
                tracing.flush(60)
    finally:
        tracing.configure(TracingSection(), "")
    assert [line["event"] for line in logs] == ["traces_not_sent"]


def test_settings_that_send_elsewhere_end_what_was_sent_before() -> None:
    """No thread is left that tries again to reach a collector which is away, nor what waited for it."""
    before = set(threading.enumerate())
    tracing.configure(TracingSection(endpoint="http://127.0.0.1:1/v1/traces"), "test")
    with tracing.span("lost"):
        pass
    assert set(threading.enumerate()) > before
    tracing.configure(TracingSection(), "")
    assert {one for one in threading.enumerate() if one not in before and one.is_alive()} == set()
