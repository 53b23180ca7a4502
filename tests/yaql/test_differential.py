"""Generated expressions and data, against the `yaql` package.

docs/language/yaql.md lists the deliberate differences, and the generators below stay clear of them.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st
from tests.effort import EFFORT, examples

import yaql as oracle_package
from vetro.yaql import compile, legacy_names
from yaql import legacy as oracle_legacy

from .generated_expressions import (
    anything,
    conditions,
    data,
    legacy_forms,
    loose,
    numbers,
    strings,
)

EXAMPLES = examples(4_000)
SHARDS = 20
"""Pieces of the run, so that several processes can share it."""
OPTIONS = {
    "yaql.limitIterators": 2000,
    "yaql.memoryQuota": 10_000_000,
    "yaql.convertTuplesToLists": True,
    "yaql.convertSetsToLists": True,
}
BOOLEAN = re.compile("true|false")
OF_CURRENT = re.compile(r"range\(|switch|\[|toList")
"""What has another meaning in the legacy flavour."""


@lru_cache(maxsize=1)
def _engines() -> dict[str, Any]:
    # Making a context takes longer than all the rest: each evaluation gets a child of one.
    return {
        "current": (oracle_package.YaqlFactory().create(OPTIONS), oracle_package.create_context()),
        "legacy": (
            oracle_legacy.YaqlFactory().create({**OPTIONS, "yaql.iterableDicts": True}),
            oracle_legacy.create_context(),
        ),
    }


def plain(value: Any) -> Any:
    """Sequences as lists, so that the two can be compared."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return value


def by_oracle(text: str, value: Any, flavour: str) -> tuple[str, Any]:
    """What the reference makes of an expression."""
    engine, context = _engines()[flavour]
    try:
        return "value", plain(
            engine(text).evaluate(data=value, context=context.create_child_context())
        )
    except Exception as error:
        return "error", type(error).__name__


def by_us(text: str, value: Any, flavour: str) -> tuple[str, Any]:
    """What we make of it."""
    try:
        return "value", plain(compile(text, flavour=flavour).evaluate(value))
    except Exception as error:
        names = [name.rpartition(".")[2] for name in legacy_names(error)]
        return "error", "StopIteration" if "StopIteration" in names else names[0]


def compare(text: str, value: Any, flavour: str = "current") -> None:
    """Both agree on value, type of number and failure."""
    expected, ours = by_oracle(text, value, flavour), by_us(text, value, flavour)
    # repr tells 1 from 1.0 and from true, which == does not.
    assert repr(ours) == repr(expected), f"{text} with {value!r}"


def check(
    shard: int,
    share: float,
    strategy: st.SearchStrategy[str],
    compared: Callable[[str, dict[str, Any]], None],
) -> None:
    """Take this shard's examples of one kind, `share` of all there are."""

    @settings(
        max_examples=max(int(EXAMPLES * share) // SHARDS, 1),
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[*HealthCheck],  # pyright: ignore[reportArgumentType]
    )
    @given(strategy, data)
    def each(text: str, value: dict[str, Any]) -> None:
        compared(text, value)

    (each if EFFORT > 1 else seed(shard)(each))()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_expressions_agree(shard: int) -> None:
    """Generated expressions over generated data have the reference's value."""
    check(shard, 0.7, anything, compare)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_failures_agree(shard: int) -> None:
    """Operands of unfitting kinds fail with the reference's exception."""

    def compared(text: str, value: dict[str, Any]) -> None:
        # The reference multiplies by booleans and takes them as indexes: a deliberate difference.
        assume(not (BOOLEAN.search(text) and ("*" in text or "[" in text)))
        compare(text, value)

    check(shard, 0.15, loose, compared)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_legacy_agrees(shard: int) -> None:
    """The legacy flavour agrees, in what is common and in what is its own."""

    def compared(text: str, value: dict[str, Any]) -> None:
        compare(text, value, "legacy")

    common = st.one_of(numbers(2), strings(2), conditions(2)).filter(
        lambda text: not OF_CURRENT.search(text)
    )
    check(shard, 0.15, st.one_of(common, legacy_forms()), compared)
