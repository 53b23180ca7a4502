"""One pass makes the same nodes and values of a text as PyYAML, and refuses what measuring refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.effort import examples

from vetro.documents import (
    DocumentError,
    DocumentLimits,
    DocumentTooLarge,
    compose_yaml,
    measure_yaml,
    read_yaml,
    safe_loader,
    text_of,
    yaml_value,
)

from .hostile import TEXTS

LIMITS = DocumentLimits(depth=4, aliases=3, nodes=30)
WIDE = DocumentLimits(depth=20, aliases=3, nodes=1000)
"""With these, PyYAML composes what has no alias."""
_Loader = safe_loader()
#: Parts of which every structure of YAML can come about.
PARTS = (
    *("a", "b: c", "1", "0x1f", "2.5", "true", "~", "''", '"q"', "2026-01-31", "=", "<<: "),
    *("- ", "? ", ": ", "\n", "\n  ", "\n    ", "[", "]", "{", "}", ", ", "&x ", "&y ", "*x", "*y"),
    *("!", "!t ", "!!str ", "!!int ", "!!set ", "---\n", "...\n", "# c\n", "|\n", ">-\n ", "\t"),
)
TEXT = st.lists(st.sampled_from(PARTS), max_size=14).map("".join)


def measured(text: str, limits: DocumentLimits = LIMITS) -> Sequence[yaml.Node]:
    """The nodes by two passes: the text is measured, then composed by PyYAML."""
    measure_yaml(text, limits)
    loader: Any = yaml
    return [node for node in loader.compose_all(text, _Loader) if node is not None]


def shown(node: Any, seen: dict[int, int]) -> Any:
    """All that is to be known of a node; a node that stands in several places is one."""
    if id(node) in seen:
        return seen[id(node)]
    seen[id(node)] = len(seen)
    content = node.value
    if isinstance(node, yaml.MappingNode):
        content = [(shown(key, seen), shown(value, seen)) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        content = [shown(one, seen) for one in node.value]
    places = [
        (mark.index, mark.line, mark.column) for mark in (node.start_mark, node.end_mark) if mark
    ]
    style = getattr(node, "style", None), getattr(node, "flow_style", None)
    return node.__class__.__name__, node.tag, content, places, style


def map_ids(nodes: Sequence[Any]) -> Iterator[int]:
    """The maps of documents, in the order in which they begin."""
    for node in nodes:
        if isinstance(node, yaml.MappingNode):
            yield id(node)
            yield from map_ids([one for pair in node.value for one in pair])
        elif isinstance(node, yaml.SequenceNode):
            yield from map_ids(node.value)


@pytest.mark.parametrize("limits", [LIMITS, WIDE], ids=["narrow", "wide"])
@given(text=TEXT)
@example(text="&a [&a 1, 2]")
@example(text="[&a 1, &a 2, {]")
@example(text="&x [&x 1, *x]")
@example(text="- &x [1, 2]\n- [*x, *x]\n--- *x")
@settings(max_examples=examples(1500), deadline=None)
def test_one_pass_makes_the_nodes_that_measuring_and_composing_make(
    limits: DocumentLimits, text: str
) -> None:
    try:
        expected = measured(text, limits)
    except DocumentError as error:
        with pytest.raises(DocumentError) as found:
            compose_yaml(text, limits)
        assert found.type is type(error)
        assert str(found.value) == str(error)
        return
    except yaml.YAMLError as error:  # of composing: an anchor that is there twice
        with pytest.raises(DocumentError) as found:
            compose_yaml(text, limits)
        mark: Any = error
        assert found.value.line == mark.problem_mark.line + 1
        assert found.value.column == mark.problem_mark.column + 1
        return
    maps: list[yaml.MappingNode] = []
    made = compose_yaml(text, limits, maps)
    assert [id(one) for one in maps] == list(dict.fromkeys(map_ids(made)))
    assert [shown(one, {}) for one in made] == [shown(one, {}) for one in expected]


@given(TEXT)
@example("a: &x {b: [1, 2.5, ~, yes, 'q']}\nc: *x")
@example("a: &x {b: 1}\nc: {<<: *x, d: 2}")
@example("? [a]\n: b")
@example("!!str [a]: 1")
@example("a: !!str {b: c}")
@example("=: 1")
@example("a: 1\na: 2")
@settings(max_examples=examples(1500), deadline=None)
def test_a_value_is_the_one_that_the_constructor_of_pyyaml_makes(text: str) -> None:
    try:
        nodes = compose_yaml(text, LIMITS)
    except DocumentError:
        return
    for node, other in zip(nodes, measured(text), strict=True):
        reader = _Loader("")
        try:
            expected = reader.construct_document(other)
        except (yaml.YAMLError, TypeError, ValueError, ArithmeticError):
            with pytest.raises(DocumentError):
                yaml_value(node)
            continue
        value = yaml_value(node)
        assert repr(value) == repr(expected)
        assert value.__class__ is expected.__class__


def test_what_an_alias_repeats_is_one_object() -> None:
    value = read_yaml("a: &x {b: [1]}\nc: *x\nd: {b: [1]}")
    assert value["a"] is value["c"]
    assert value["a"] is not value["d"]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_hostile_texts_are_refused_with_the_words_of_measuring(text: str) -> None:
    limits = DocumentLimits()
    try:
        measure_yaml(text_of(text), limits)
    except DocumentError as error:
        with pytest.raises(DocumentError) as found:
            compose_yaml(text, limits)
        assert (str(found.value), found.type) == (str(error), type(error))
    else:
        assert len(compose_yaml(text, limits)) == measure_yaml(text, limits)


def test_a_second_document_is_refused_where_it_begins() -> None:
    with pytest.raises(DocumentError, match="found another document") as found:
        read_yaml("a: 1\n---\nb: 2\n")
    assert (found.value.line, found.value.column) == (2, 1)


def test_limits_are_kept_before_anything_is_built() -> None:
    for text in ("[" * 400_000, "- " * 20_000 + "a", TEXTS["alias bomb"], "{a: " * 50_000):
        with pytest.raises(DocumentTooLarge):
            compose_yaml(text, DocumentLimits())


@pytest.mark.parametrize(
    ("deepest", "deeper"),
    [
        ("[" * 10 + "]" * 10, "[" * 11 + "]" * 11),
        ("{a: " * 10 + "}" * 10, "{a: " * 11 + "}" * 11),
        ("- " * 10 + "x", "- " * 11 + "x"),
        ("? " * 10 + "x", "? " * 11 + "x"),
        ("[a: " * 5 + "]" * 5, "[a: " * 5 + "[]" + "]" * 5),
    ],
)
def test_a_text_is_nested_as_deep_as_the_limit_says_and_no_deeper(
    deepest: str, deeper: str
) -> None:
    limits = DocumentLimits(depth=10, nodes=1000)
    assert len(compose_yaml(deepest, limits)) == 1
    with pytest.raises(DocumentTooLarge, match="nested deeper than 10"):
        compose_yaml(deeper, limits)
