"""Merging template fragments (core-library.md §4.4.1)."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vetro.engine.system.template_parts import merge

TEMPLATES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ([1, 2], [2, 3], [1, 2, 3]),
        ([{"p": 1}], [{"p": 1}, {"p": 2}], [{"p": 1}, {"p": 2}]),
        ("a", "b", "b"),
        (1, 2.5, 2.5),
        (None, "b", "b"),
        ("a", None, "a"),
        (None, {"a": 1}, {"a": 1}),
    ],
)
def test_the_merge_table(old: Any, new: Any, expected: Any) -> None:
    """Maps join, lists gain missing items, values are replaced; null and text have own rules."""
    assert merge(old, new) == expected


@pytest.mark.parametrize(("old", "new"), [({}, []), ([], "x"), (1, "1"), (True, 1), ({}, None)])
def test_types_that_do_not_fit_are_errors(old: Any, new: Any) -> None:
    """The error names the path of the conflicting types."""
    with pytest.raises(TypeError, match="at /resources/x"):
        merge({"resources": {"x": old}}, {"resources": {"x": new}})


@given(TEMPLATES, TEMPLATES)
def test_nothing_given_is_changed_and_repeating_adds_nothing(old: Any, new: Any) -> None:
    """Merging leaves its arguments unchanged, and merging the same fragment again adds nothing."""
    before = copy.deepcopy((old, new))
    try:
        merged = merge(old, new)
    except TypeError:
        merged = None
    assert (old, new) == before
    if merged is not None:
        assert merge(merged, new) == merged
