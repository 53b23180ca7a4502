"""Results that are too large: outputs are cut, their ends and everything else are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import until

from vetro.guest.agent import results
from vetro.guest.agent.process import Outcome, Output

LIMIT = 100_000
FLOOD = "#!/bin/sh\nyes 0123456789 | head -c 3000000\necho the end of out\n"
FAILING = FLOOD + "yes broken | head -c 2000000 >&2\necho the reason >&2\nexit 7\n"


def result(body: Any, code: int = 0) -> dict[str, Any]:
    """A result with this body."""
    return {"FormatVersion": "2.0.0", "SourceID": "m", "ErrorCode": code, "Body": body}


def fitted(document: dict[str, Any], limit: int = LIMIT) -> Any:
    """What goes out, which has to be within the limit."""
    data = results.fit(document, limit)
    assert len(data) <= limit
    return json.loads(data)


def test_a_result_that_fits_is_as_it_is() -> None:
    """A result that fits is unchanged to the byte."""
    given = result({"stdout": "x" * 1000, "a": ["é", None]})
    assert fitted(given) == given
    exact = len(results.dump(given))
    assert fitted(given, exact) == given
    assert fitted(given, exact - 1) != given


@given(
    st.lists(st.text(max_size=50), max_size=4),
    st.sampled_from(["x", "é", "\x00", "\U0001f600", "\\", '"\n', "\ud800"]),
    st.integers(2_000, 20_000),
)
def test_whatever_is_printed_fits(small: list[str], unit: str, limit: int) -> None:
    """Small outputs stay whole; large ones are cut at the front as far as needed."""
    bodies = [Outcome(exitCode=1, stdout=Output(text), stderr=None) for text in small]
    large = Output(unit * 9000 + "END")
    out = fitted(result([*bodies, {"exitCode": 2, "stdout": large, "stderr": large}]), limit)
    assert out["ErrorCode"] == 0
    assert [one["stdout"] for one in out["Body"][:-1]] == small
    last = out["Body"][-1]
    assert last["exitCode"] == 2
    for stream in ("stdout", "stderr"):
        assert last[stream].endswith("END")
    assert len(results.dump(out)) > limit * 0.8 or last["stdout"] == large


def test_one_stream_may_have_the_room_that_the_other_leaves() -> None:
    """A short output stays whole; the long one gets the rest of the room."""
    out = fitted(result({"exitCode": 7, "stdout": "x" * 10 * LIMIT, "stderr": "why"}, 100))
    assert out["Body"]["stderr"] == "why"
    assert len(out["Body"]["stdout"]) > 0.9 * LIMIT
    assert out["Body"]["stdout"].startswith("[the first ")


def test_an_output_alone_is_cut_too() -> None:
    """The output that `return script().stdout` returns is cut as well."""
    out = fitted(result(Output("x" * 10 * LIMIT + "END")))
    assert out["ErrorCode"] == 0
    assert out["Body"].endswith("END")


@pytest.mark.parametrize("body", ["x" * 10 * LIMIT, {"data": ["x" * LIMIT]}, list(range(LIMIT))])
def test_data_is_never_cut(body: Any) -> None:
    """Other data is not cut, which would change its meaning: it becomes an error that says so."""
    out = fitted(result(body))
    assert out["ErrorCode"] == 1
    assert f"limit of {LIMIT}" in out["Body"]["Message"]
    assert out["SourceID"] == "m"


def test_an_error_keeps_its_code_and_reason_whatever_is_with_it() -> None:
    """Both are kept even when cutting the outputs does not help."""
    info = {"exitCode": 7, "stdout": "x" * LIMIT, "stderr": "why", "more": ["y" * 2 * LIMIT]}
    out = fitted(result({"Message": "Script 'a' failed", "AdditionalInfo": info}, 100))
    assert out["ErrorCode"] == 100
    assert out["Body"]["Message"].startswith("Script 'a' failed (The result has ")
    told = out["Body"]["AdditionalInfo"]
    assert (told["exitCode"], told["stderr"]) == (7, "why")


@pytest.mark.parametrize("said", [None, 300_000])
def test_a_failing_script_that_floods_is_understood(
    guest: Any, mailbox: Any, make_plan: Any, said: int | None
) -> None:
    """Exit code and the ends of both outputs arrive, within the given limit or 1 MiB."""
    mailbox.result_limit = said
    mailbox.largest_result = said or 1 << 20
    out = guest.result_of(make_plan("return flood()", {"flood": FAILING}))
    assert out["ErrorCode"] == 100
    told = out["Body"]["AdditionalInfo"]
    assert told["exitCode"] == 7
    assert told["stdout"].endswith("the end of out")
    assert told["stderr"].endswith("the reason")
    assert len(json.dumps(out)) > mailbox.largest_result * 0.8
    assert [status for _, path, status in mailbox.requests if path.endswith("/results")] == [202]


def test_a_limit_of_the_guests_own_comes_first(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """A limit set by the guest's operator is used."""
    guest.extra = "result_limit = 50000"
    mailbox.result_limit = 300_000
    mailbox.offer(make_plan("return flood().stdout", {"flood": FLOOD}))
    guest.start()
    body = mailbox.result()["Body"]
    assert body.endswith("the end of out")
    assert len(body) < 50_000


def test_a_limit_that_was_lowered_meanwhile(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """A refused result is shortened to the limit in the refusal."""
    mailbox.result_limit = 300_000
    mailbox.largest_result = mailbox.limit_when_refused = 30_000
    out = guest.result_of(make_plan("return flood()", {"flood": FAILING}))
    told = out["Body"]["AdditionalInfo"]
    assert (out["ErrorCode"], told["exitCode"]) == (100, 7)
    assert told["stderr"].endswith("the reason")
    assert len(json.dumps(out)) > 20_000


def test_a_plan_that_is_killed_tells_what_fits(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """Its output so far is shortened like any other output."""
    mailbox.result_limit = mailbox.largest_result = 50_000
    plan = make_plan("return f()", {"f": FLOOD + "sleep 300\n"})
    mailbox.offer(plan)
    guest.start()

    def printed() -> bool:
        outputs = guest.storage.glob("files/*/.output/*")
        return any(one.read_bytes().endswith(b"end of out\n") for one in outputs)

    until(printed)
    mailbox.offer({"Action": "Cancel", "ID": plan["ID"]}, message_id="c")
    out = mailbox.result()
    assert "was cancelled" in out["Body"]["Message"]
    assert out["Body"]["AdditionalInfo"]["stdout"].endswith("the end of out")
