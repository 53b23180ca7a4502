"""Plan validation, rule by rule (guest-agent.md §7.3), and bodies (§7.6)."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vetro.guest.agent import body, plan
from vetro.guest.agent.errors import AgentError, InvalidPlan, UnsupportedFormat

INLINE = {"Name": "a.sh", "BodyType": "Text", "Body": "#!/bin/sh\n"}
DOWNLOAD = {"Name": "a", "Type": "Downloadable", "URL": "http://h/a"}
APPLICATION = {"Type": "Application", "EntryPoint": "f"}
CHEF = {"Type": "Chef", "EntryPoint": "c::r", "Files": []}


def _document(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "FormatVersion": "2.2.0",
        "Body": "return",
        "Scripts": {"s": dict(APPLICATION)},
        "Files": {"f": dict(INLINE)},
    }
    document.update(changes)
    return document


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"FormatVersion": "2.0.0"},
        {"FormatVersion": "2.1"},
        {"Scripts": {}, "Files": {}},
        {"Options": {}},
        {"Scripts": {"s": {**APPLICATION, "Files": ["f", {"f": 1}], "Options": None}}},
        {"Scripts": {"c": CHEF}},
        {"Scripts": {"c": {**CHEF, "Options": {"useBerkshelf": True, "berksfilePath": "B"}}}},
        {"Scripts": {"c": {"Type": "Puppet", "EntryPoint": "m::"}}},
        {"Files": {"f": INLINE, "d": DOWNLOAD}},
        {"Timeout": 2.5},
        {"Parameters": None},
    ],
)
def test_valid_plans_are_accepted(changes: dict[str, Any]) -> None:
    """Plans that keep the rules are accepted."""
    plan.validate(_document(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"Scripts": []},
        {"Files": []},
        {"Options": []},
        {"FormatVersion": "two"},
        {"FormatVersion": None},
        {"Body": None},
        {"Body": 3},
        {"Parameters": []},
        {"Timeout": 0},
        {"Timeout": True},
        {"Timeout": "5"},
        {"Scripts": {"s": "f"}},
        {"Scripts": {"s": {"Type": "Application"}}},
        {"Scripts": {"s": {"EntryPoint": "f"}}},
        {"Scripts": {"s": {"Type": 1, "EntryPoint": "f"}}},
        {"Scripts": {"s": {**APPLICATION, "EntryPoint": "g"}}},
        {"Scripts": {"s": {**APPLICATION, "Files": ["g"]}}},
        {"Scripts": {"s": {**APPLICATION, "Files": "f"}}},
        {"Scripts": {"s": {**APPLICATION, "Files": [{}]}}},
        {"Scripts": {"s": {**APPLICATION, "Options": {"useBerkshelf": False}}}},
        {"Scripts": {"s": {**APPLICATION, "Options": {"verifyExitcode": "no"}}}},
        {"Scripts": {"s": {"Type": "Ansible", "EntryPoint": "f"}}},
        {"Scripts": {"../s": APPLICATION}},
        {"Scripts": {"c": {"Type": "Chef", "EntryPoint": "cookbook/recipe"}}},
        {"FormatVersion": "2.0.0", "Scripts": {"c": CHEF}},
        {
            "FormatVersion": "2.1.0",
            "Scripts": {"c": {**CHEF, "Options": {"useBerkshelf": True}}},
        },
        {"FormatVersion": "2.0.0", "Files": {"f": INLINE, "d": DOWNLOAD}},
        {"FormatVersion": "2.0.0", "Files": {"f": {**INLINE, "URL": "http://h/a"}}},
        {"Files": {"f": INLINE, "d": {"Type": "Downloadable", "Name": "a"}}},
        {"Files": {"f": INLINE, "d": {**DOWNLOAD, "Type": "Torrent"}}},
        {"Files": {"f": {**INLINE, "BodyType": "Zip"}}},
        {"Files": {"f": {"Name": "a", "Body": ""}}},
        {"Files": {"f": {"Name": "a"}}},
        {"Files": {"f": "text"}},
        {"Files": {"f": {**INLINE, "Name": "../../etc/passwd"}}},
        {"Files": {"f": {**INLINE, "Name": "/etc/passwd"}}},
        {"Files": {"f": INLINE, "../g": INLINE}},
    ],
)
def test_broken_rules_are_code_2(changes: dict[str, Any]) -> None:
    """Each broken rule is refused as an invalid plan with a sentence about it."""
    with pytest.raises(InvalidPlan) as caught:
        plan.validate(_document(**changes))
    assert caught.value.code == 2
    assert len(caught.value.message) > 10


@pytest.mark.parametrize("version", ["2.2.1", "2.3.0", "3", "10.0.0"])
def test_newer_formats_are_code_9(version: str) -> None:
    """A format newer than 2.2.0 is refused by its own code, before any other rule."""
    with pytest.raises(UnsupportedFormat) as caught:
        plan.validate({"FormatVersion": version})
    assert caught.value.code == 9


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = ["Scripts", "Files", "Options", "Body", "Parameters", "FormatVersion", "Timeout"]


@given(st.dictionaries(st.sampled_from(KEYS), JSON), JSON, JSON)
def test_no_document_crashes_the_validator(changes: dict[str, Any], script: Any, file: Any) -> None:
    """Any JSON map is either a plan or refused with an agent error."""
    document = _document(**changes)
    if isinstance(document["Scripts"], dict):
        document["Scripts"]["x"] = copy.deepcopy(script)
    if isinstance(document["Files"], dict):
        document["Files"]["y"] = copy.deepcopy(file)
    with contextlib.suppress(InvalidPlan, UnsupportedFormat):
        plan.validate(document)


def test_results_of_errors_carry_code_message_and_details() -> None:
    """An agent error keeps its code; any other exception is code 1 with its text."""
    own = plan.failure("p", InvalidPlan("why", {"at": 1}))
    assert (own["ErrorCode"], own["Body"]) == (2, {"Message": "why", "AdditionalInfo": {"at": 1}})
    other = plan.failure("p", KeyError("k"))
    assert (other["ErrorCode"], other["Body"]["Message"]) == (1, "'k'")
    assert other["SourceID"] == "p"
    assert own["ID"] != other["ID"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("   \n\n", None),
        ("return", None),
        ("return args.n + 1", 3),
        ("x = 1\n\nif x:\n\treturn [x]\n", [1]),
        ("    import math\n    return math.floor(args['deep'].list[0].k)\n", 7),
        ("return '''a\n  b'''", "a\n  b"),
        ("def f(v):\n    return v * 2\nreturn [f(i) for i in range(3)]", [0, 2, 4]),
        ("return run('x')", "ran x"),
    ],
)
def test_bodies(text: str, value: object) -> None:
    """A body may have one line or many, tabs or common indentation, be blank or return."""
    scripts: dict[str, Callable[[str], str]] = {"run": lambda what: "ran " + what}
    parameters = {"n": 2, "deep": {"list": [{"k": 7.5}]}}
    assert body.execute(text, parameters, scripts) == value


def test_a_body_that_is_no_python_says_where() -> None:
    """A syntax error is an agent error with its line."""
    with pytest.raises(AgentError, match="line 2"):
        body.execute("x = 1\nreturn )", {}, {})


def test_an_unknown_parameter_is_named() -> None:
    """The error for an unknown `args.x` names the known parameters."""
    with pytest.raises(AttributeError, match=r"'port'.*host"):
        body.execute("return args.port", {"host": "h"}, {})
