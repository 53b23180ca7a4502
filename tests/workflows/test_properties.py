"""Properties of paths, expressions and substitution, on generated values."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from vetro.documents import read_yaml
from vetro.workflows import WorkflowSyntaxError, run_case
from vetro.workflows.paths import follow, parse_path, write
from vetro.workflows.queries import compile_query
from vetro.workflows.templates import merge, substitute
from vetro.workflows.values import equal, plain_copy

KEYS = st.text("abc", min_size=1, max_size=2)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab$'\"\\{}", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
MODELS = st.dictionaries(KEYS, JSON, max_size=4)


@given(MODELS, st.lists(KEYS, min_size=1, max_size=4), JSON)
def test_what_was_set_can_be_selected(model: dict[str, Any], steps: list[str], value: Any) -> None:
    """A path that can be written reads what was written; writing it again changes nothing."""
    from vetro.workflows import EvaluationError

    path = parse_path(".".join(steps)).steps
    try:
        write(model, path, value, "p")
    except EvaluationError:
        return
    assert equal(follow(model, path), value)
    assert not write(model, path, plain_copy(value), "p")


@given(MODELS)
def test_every_match_has_its_cursor(model: dict[str, Any]) -> None:
    """The steps of each match lead from the root to its value, each match once."""
    for text in ("$..[*]", "$[*]", "$.a[?(@)]", "$..a", "$.*[0]"):
        matches = compile_query(text).select(model, ())
        assert all(follow(model, steps) is value for steps, value in matches)
        assert len({steps for steps, _ in matches}) == len(matches)


@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_an_error(text: str) -> None:
    """No text makes the parser fail in another way."""
    for start in ("", "$", "$[?(", "$.a[("):
        with contextlib.suppress(WorkflowSyntaxError):
            compile_query(start + text).select({"a": [1]}, ())


@settings(max_examples=examples(60))
@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12))
def test_a_value_in_an_expression_is_data(value: str) -> None:
    """Whatever a value is, an expression with it in quotes matches exactly that value."""
    rules = (
        "<workflow><set path='hits'><select-all><parameter name='path'>$.l[?(@.n == '"
        "<select path='#v'/>')].i</parameter></select-all></set></workflow>"
    )
    rules = rules.replace("<set path='hits'>", "<set path='#v'><select path='v'/></set>"
                          "<set path='hits'>", 1)  # fmt: skip
    model = {"id": "e", "v": value, "l": [{"n": value, "i": 1}, {"n": value + "'", "i": 2}]}
    result = run_case({"model": model, "files": {"workflows/A.xml": rules}}, read_yaml)
    if value.strip() == value:  # content strips its ends
        assert result["error"] is None
        assert result["model"]["hits"] == [1]


@given(JSON, st.dictionaries(KEYS, JSON, max_size=3))
def test_substitution_replaces_once(template: Any, mappings: dict[str, Any]) -> None:
    """What is put in is not looked at again, and what does not begin with `$` stays."""
    from vetro.workflows import EvaluationError

    before = json.dumps([template, mappings])
    try:
        result, _ = substitute(["$key", template], {**mappings, "key": "$key"})
    except EvaluationError:
        return
    assert result[0] == "$key"
    assert json.dumps([template, mappings]) == before


@given(st.dictionaries(KEYS, st.lists(st.integers(0, 3), max_size=3)), st.data())
def test_merging_again_changes_nothing(one: dict[str, Any], data: st.DataObject) -> None:
    """A fragment merged twice is as merged once."""
    other = data.draw(st.dictionaries(KEYS, st.lists(st.integers(0, 3), max_size=3)))
    both = merge(one, other)
    assert equal(merge(both, other), merge(merge(both, other), other))
    assert set(both) == set(one) | set(other)
