"""Values: final forms, equality, plain results, previews."""

from __future__ import annotations

import copy
import datetime
import pickle
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from tests.effort import examples

from vetro.yaql import (
    CollectionTooLargeException,
    DepthLimitExceeded,
    Evaluation,
    FrozenDict,
    Limits,
    Memorized,
    MemoryQuotaExceededException,
    collect,
    declare_final,
    equal,
    finalize,
    hashable,
    preview,
    standard_library,
    to_plain,
)
from vetro.yaql.comparing import weight
from vetro.yaql.inline_caches import method_site
from vetro.yaql.sequences import Linked, depth_of, linked
from vetro.yaql.values import FINAL_TYPES

plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


def is_final(value: Any) -> bool:
    """Whether a value is final through all levels."""
    if isinstance(value, FrozenDict):
        return all(is_final(item) for item in (*value, *value.values()))
    if isinstance(value, (tuple, frozenset)):
        return all(is_final(item) for item in value)
    return not isinstance(value, (list, dict, set))


@seed(1)
@settings(deadline=None, database=None, max_examples=examples(300))
@given(plain)
def test_finalize_and_back(value: Any) -> None:
    """The final form is final throughout, hashable, and gives the same plain data again."""
    rt = Evaluation(standard_library())
    final = finalize(value, rt)
    assert is_final(final)
    hash(final)
    assert to_plain(final, rt) == value
    assert repr(to_plain(final, rt)) == repr(value)
    assert finalize(final, rt) is final


@seed(2)
@settings(deadline=None, database=None, max_examples=examples(300))
@given(plain, plain)
def test_equality_is_structural(left: Any, right: Any) -> None:
    """Equality does not depend on how far a value has come; lists and mappings are never equal."""
    rt = Evaluation(standard_library())
    expected = left == right
    for one in (left, finalize(left, rt)):
        for other in (right, finalize(right, rt)):
            assert equal(one, other, rt) is expected
    assert equal(copy.deepcopy(left), left, rt)


def test_finalize_shares_what_is_shared(evaluation: Evaluation) -> None:
    """A part that occurs many times stays one part, so the work is that of the parts there are."""
    value: Any = [1]
    for _ in range(100):
        value = [value, value]
    final = finalize(value, evaluation)
    assert final[0] is final[1]
    assert finalize({"a": value, "b": value}, evaluation)["a"] is not None


def test_finalize_takes_only_what_is_new(evaluation: Evaluation) -> None:
    """A final part is taken as it is."""
    part = finalize([[1, 2], {"a": [3]}], evaluation)
    assert finalize([part, 5], evaluation)[0] is part
    assert finalize({"k": part}, evaluation)["k"] is part


def test_rows(evaluation: Evaluation) -> None:
    """A table's rows become FrozenDicts, plain ones and those that hold lists alike."""
    final = finalize([{"a": 1}, {"a": [1, {"b": []}]}], evaluation)
    assert final == ({"a": 1}, {"a": (1, {"b": ()})})
    assert is_final(final)
    assert all(type(row) is FrozenDict for row in final)


def test_cycles_end(evaluation: Evaluation) -> None:
    """Data of the host that contain themselves are refused, not followed without end."""
    cycle: list[Any] = []
    cycle.append(cycle)
    mapping: dict[str, Any] = {}
    mapping["self"] = mapping
    for value in (cycle, mapping):
        for function in (finalize, to_plain, hashable):
            with pytest.raises(DepthLimitExceeded):
                function(value, evaluation)
        assert len(preview(value)) <= 60


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": 1, "b": "x"}, {"c": [1]}, {}],
        [{str(number): "x" * number for number in range(20)}] * 3,
        [{"a": {"b": {"c": [{"d": 1}]}}}, {"a": None, "b": True, "c": 1.5}],
    ],
)
def test_plain_rows(rows: list[dict[str, Any]]) -> None:
    """Lists of mappings become lists of dicts of their own, and their texts are counted."""
    for value in (rows, finalize(rows, Evaluation(standard_library()))):
        made = to_plain(value, Evaluation(standard_library()))
        assert made == rows
        assert all(type(row) is dict for row in made)
        made[0]["new"] = 1
        assert "new" not in rows[0]
    with pytest.raises(MemoryQuotaExceededException):
        to_plain(
            [*rows, {"long": "y" * 5000}], Evaluation(standard_library(), Limits(memory_bytes=5000))
        )


def test_frozen_dict() -> None:
    """It cannot be changed, is its own copy, hashes by content and survives pickling."""
    frozen = FrozenDict({"a": 1, "b": (2,)})
    for change in (
        lambda: frozen.__setitem__("a", 2),
        lambda: frozen.__delitem__("a"),
        lambda: frozen.update(a=2),
        lambda: frozen.setdefault("c", 1),
        lambda: frozen.pop("a"),
        frozen.popitem,
        frozen.clear,
        lambda: frozen.__ior__({"a": 2}),
    ):
        with pytest.raises(TypeError, match="immutable"):
            change()
    assert copy.copy(frozen) is copy.deepcopy(frozen) is frozen.copy() is frozen
    assert hash(frozen) == hash(FrozenDict({"b": (2,), "a": 1}))
    assert frozen == {"a": 1, "b": (2,)}
    again = pickle.loads(pickle.dumps(frozen))
    assert type(again) is FrozenDict
    assert again == frozen
    with pytest.raises(KeyError, match="did you mean a"):
        FrozenDict({"a": 1})["aa"]


def test_memorized() -> None:
    """It goes through its source once, however often and however interleaved it is read."""
    taken: list[int] = []

    def source() -> Any:
        for number in range(4):
            taken.append(number)
            yield number

    memorized = Memorized(source())
    first, second = iter(memorized), iter(memorized)
    assert [next(first), next(second), next(second), next(first)] == [0, 0, 1, 1]
    assert taken == [0, 1]
    assert list(memorized) == list(memorized) == [0, 1, 2, 3]
    assert taken == [0, 1, 2, 3]


def test_weight_counts_every_occurrence() -> None:
    """A part counts as often as it occurs, found in time of the parts that are there."""
    assert weight((1, 2, 3)) == 4
    assert weight(((1,), (1,))) == 3 + 2 + 2
    assert weight(FrozenDict({"a": (1, 2)})) == 2 + 3
    value: Any = (1,)
    for _ in range(150):
        value = (value, value)
    assert weight(value) == 1 << 60
    for _ in range(100):
        value = (value,)
    with pytest.raises(DepthLimitExceeded):
        weight(value)


def test_keys_of_host_tuples(evaluation: Evaluation) -> None:
    """A tuple of the host that holds lists is refused as a key, in words."""
    with pytest.raises(TypeError, match="cannot be a key"):
        hashable(([1], 2), evaluation)


def test_depth_of_sequences(evaluation: Evaluation) -> None:
    """Sequences over lists are plain; over other sequences they know how deep they are."""
    over_list = linked(evaluation, filter(None, [1]), [1])
    assert type(over_list) is filter
    assert depth_of([1]) == 0
    assert depth_of(over_list) == 1
    twice = linked(evaluation, map(str, over_list), over_list)
    assert type(twice) is Linked
    assert depth_of(twice) == 2
    assert depth_of(Memorized(twice)) == 3
    assert list(twice) == ["1"]


def test_declared_classes_are_final(evaluation: Evaluation) -> None:
    """A host class declared final is taken as it is."""

    class Thing:
        pass

    declare_final(Thing)
    try:
        thing = Thing()
        assert finalize([thing], evaluation) == (thing,)
    finally:
        FINAL_TYPES.discard(Thing)


def test_collect_stops(evaluation: Evaluation) -> None:
    """No more is taken from a sequence than the limit and one."""
    taken: list[int] = []

    def endless() -> Any:
        while True:
            taken.append(1)
            yield 1

    evaluation.max_items = 10
    with pytest.raises(CollectionTooLargeException, match="more than 10 elements"):
        collect(endless(), evaluation)
    assert len(taken) == 11


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"), (True, "true"), (5, "5"), (1.5, "1.5"), ("a'b", "\"a'b\""),
        ([1, [2, [3, [4]]]], "[1, [2, [3, […]]]]"), (list(range(9)), "[0, 1, 2, 3, 4, …]"),
        ({"a": {"b": 1}}, "{'a' => {'b' => 1}}"), (10**400, "a number of many digits"),
        (datetime.timedelta(1), "1 day, 0:00:00"), (iter([]), "<iterator>"), (object(), "<object>"),
        ("x" * 500, "'" + "x" * 58 + "…"), (len, "<builtin_function_or_method>"),
    ],
)  # fmt: skip
def test_previews(value: Any, text: str) -> None:
    """A preview is short, in the language's own spelling, and runs no code of the host."""
    assert preview(value) == text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("set", ("k", 1)),
        ("set", (FrozenDict(k=1),)),
        ("delete", ("a",)),
        ("mergeWith", (FrozenDict(m=FrozenDict(y=1), k=(1,)),)),
        ("insert", (0, 5)),
        ("delete", (0,)),
        ("replace", (0, 7)),
    ],
)
def test_a_changed_copy_of_final_data_is_final(name, arguments):
    """Nobody looks at every entry again: programs change large values little by little."""
    takes_position = isinstance(arguments[0], int)
    value = (1, 2) if takes_position else FrozenDict(a=1, m=FrozenDict(x=1))
    before = dict(value) if isinstance(value, dict) else value
    with_class = type(value)
    site = method_site(standard_library(), name, ("",) * len(arguments), (), 0)
    made = site(Evaluation(standard_library()), value, None, *arguments)
    assert type(made) is with_class
    assert value == before
    assert made != value
    if name == "mergeWith":
        assert type(made["m"]) is FrozenDict
