"""Plans that cannot be read, or not understood, do not stop the agent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.waiting import until


def _nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def _digits(count: int) -> str:
    return "1" + "0" * count


ODD = {
    "a version in superscript": '"FormatVersion": "2.\\u00b2"',
    "a version of other digits": '"FormatVersion": "2.\\u0662"',
    "a version without end": f'"FormatVersion": "{_digits(5000)}"',
    "a version that is deep": f'"FormatVersion": {_nested(900)}',
    "a version that is a map": '"FormatVersion": {}',
    "a time-out of 401 digits": f'"Timeout": {_digits(400)}',
    "a time-out without end": '"Timeout": 1e999',
    "a time-out that is none": '"Timeout": NaN',
    "a time-out of the past": '"Timeout": -1',
    "a lifetime of 401 digits": f'"Lifetime": {_digits(400)}',
    "a lifetime in words": '"Lifetime": "long"',
    "a stamp of 401 digits": f'"Stamp": {_digits(400)}',
    "a stamp in words": '"Stamp": "now"',
    "files that are lists": '"Scripts": {"a": {"Type": "Application", "EntryPoint": "f",'
    ' "Files": [[1]]}}, "Files": {"f": {"Name": "f", "BodyType": "Text", "Body": ""}}',
    "parameters that are deep": f'"Parameters": {{"a": {_nested(900)}}}, "Body": 5',
    "scripts that are deep": f'"Scripts": {{"a": {_nested(900)}}}',
}
DROPPED = {
    "nesting": _nested(100_000),
    "a map of nesting": '{"a": ' + _nested(100_000) + "}",
    "no JSON": "{",
    "half a character": '{"a": "\ud800"}'.encode("utf-8", "surrogatepass").decode("latin-1"),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_odd_plan_is_refused(guest: Any, mailbox: Any, make_plan: Any, odd: str) -> None:
    """It is answered with code 2, once, and the next plan runs."""
    base = (
        '{"ID": "odd", "FormatVersion": "2.0.0", "Body": "return 1", "Scripts": {}, "Files": {}, '
    )
    mailbox.offer((base + odd + "}").encode(), message_id="odd")
    result = guest.result_of(make_plan("return 'next'"))
    assert (result["SourceID"], result["ErrorCode"]) == ("odd", 2)
    assert mailbox.result()["Body"] == "next"
    until(lambda: guest.folders() == [])


@pytest.mark.parametrize("odd", DROPPED.values(), ids=DROPPED)
def test_what_is_no_plan_is_dropped(guest: Any, mailbox: Any, make_plan: Any, odd: str) -> None:
    """It leaves no files behind, and the next plan runs."""
    mailbox.offer(odd.encode("latin-1"), message_id="odd")
    mailbox.offer(make_plan("return 'next'"))
    guest.start()
    assert mailbox.result()["Body"] == "next"
    until(lambda: guest.folders() == [])


@pytest.mark.parametrize("id_", [5, [1], "", "x" * 300, "\ud800", {}])
def test_an_id_that_no_message_can_have(guest: Any, make_plan: Any, id_: object) -> None:
    """The plan gets the id of its message."""
    plan = make_plan("return 'ran'", ID=id_)
    result = guest.result_of(json.dumps(plan).encode(), message_id="its-message")
    assert (result["SourceID"], result["Body"]) == ("its-message", "ran")


def test_an_order_that_cannot_be_read_is_dropped(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """An unreadable message is dropped even when it looks like a cancellation."""
    mailbox.offer(('{"Action": "Cancel", "ID": ' + _nested(100_000) + "}").encode(), message_id="c")
    mailbox.offer(make_plan("return 'next'"))
    guest.start()
    assert mailbox.result()["Body"] == "next"


def test_an_unforeseen_failure_costs_one_plan(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """Any failure of one plan is answered, and the later plans run."""
    guest.tampering = """
import json
real = json.loads
def loads(text, **named):
    value = real(text, **named)
    if isinstance(value, dict) and value.get("Name") == "trap":
        class Trap(dict):
            def get(self, key, default=None):
                if key == "Stamp":
                    raise ZeroDivisionError("a mistake of the agent's own")
                return dict.get(self, key, default)
        value = Trap(value)
    return value
json.loads = loads
"""
    trap = make_plan("return 1", Name="trap")
    mailbox.offer(trap)
    result = guest.result_of(make_plan("return 'next'"))
    assert (result["SourceID"], result["ErrorCode"]) == (trap["ID"], 1)
    assert "a mistake of the agent's own" in result["Body"]["Message"]
    assert mailbox.result()["Body"] == "next"
