"""Query parameters of the package list."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vetro.catalog.search import parse_in, parse_query
from vetro.http import BadRequest


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ('a,"c,d"', ["a", "c,d"]),
        (r'"say \"hi\""', ['say "hi"']),
        ('"open', None),
        ("", []),
    ],
)
def test_lists_of_alternatives(text: str, items: list[str] | None) -> None:
    """Commas separate values, quotes protect them, and broken quoting ignores the filter."""
    assert parse_in(text) == items


@pytest.mark.parametrize(
    ("pairs", "members"),
    [
        ([("catalog", "True"), ("owned", "yes")], {"catalog": True, "owned": False}),
        ([("id", "in:a,b"), ("id", "c")], {"ids": ["a", "b", "c"]}),
        ([("id", 'in:"a')], {"ids": None}),
        ([("version", "1")], {"version": "1.0.0"}),
        ([("version", "one")], {"version": "one"}),
        ([("search", "a; b,, ")], {"search": ["a", "b"]}),
        ([("order_by", "created"), ("order_by", "size")], {"order_by": ["created"]}),
        ([("order_by", "size")], {"order_by": ["name"]}),
        ([("limit", "1000")], {"limit": 100}),
        ([], {"limit": 20, "descending": False, "marker": None}),
    ],
)
def test_parameters_become_filters(
    pairs: list[tuple[str, str]], members: dict[str, object]
) -> None:
    """Each parameter sets its filter; unknown orders are left out, large limits are lowered."""
    query = parse_query(pairs)
    assert {name: getattr(query, name) for name in members} == members


@pytest.mark.parametrize(
    ("name", "value"), [("limit", "0"), ("limit", "-1"), ("limit", "x"), ("sort_dir", "up")]
)
def test_bad_parameters_are_refused(name: str, value: str) -> None:
    """Limits of nothing and unknown directions are the caller's errors, which name the parameter."""
    with pytest.raises(BadRequest, match=name):
        parse_query([(name, value)])


@given(st.text())
def test_any_text_is_a_list_or_ignored(text: str) -> None:
    """No text makes the parser fail."""
    found = parse_in(text)
    assert found is None or all(isinstance(one, str) for one in found)


@example([("limit", "²")])
@example([("limit", "9" * 5000)])
@given(st.lists(st.tuples(st.sampled_from(["limit", "id", "version", "search"]), st.text())))
def test_any_parameters_are_read_or_refused(pairs: list[tuple[str, str]]) -> None:
    """No value of a parameter makes the parser fail with anything but a refusal."""
    try:
        assert 0 < parse_query(pairs).limit <= 100
    except BadRequest as error:
        assert "limit" in str(error)
