"""Fixtures of the expression language's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vetro.yaql import Evaluation, Limits, compile, standard_library


@pytest.fixture
def limited() -> Callable[..., Any]:
    """Evaluate with chosen limits: `limited("range(9)", collection_items=5)`."""

    def evaluate(text: str, data: Any = None, *, flavour: str = "current", **limits: Any) -> Any:
        return compile(text, flavour=flavour).evaluate(data, limits=Limits(**limits))

    return evaluate


@pytest.fixture
def evaluation() -> Evaluation:
    """An evaluation of the current flavour with the usual limits."""
    return Evaluation(standard_library())
