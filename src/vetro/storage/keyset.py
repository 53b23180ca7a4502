"""Pages of a list by the values of the row before, so that rows which come or go disturb no other page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, or_


def following(keys: Sequence[tuple[Any, Any, bool]]) -> ColumnElement[bool]:
    """Whether a row comes after another one in an order.

    ``keys``: what the list is ordered by, each with the value that the other row has and whether it is
    descending; the last of them is unique.
    """
    alternatives: list[ColumnElement[bool]] = []
    for place, (key, value, descending) in enumerate(keys):
        equal = [one == known for one, known, _ in keys[:place]]
        alternatives.append(and_(*equal, key < value if descending else key > value))
    return or_(*alternatives)
