"""The expressions of class code as trees."""

from __future__ import annotations

from typing import Any

from vetro.yaql.grammar import MURANOPL
from vetro.yaql.parser import parse


def parse_expression(text: str) -> Any:
    """The tree of an expression of class code; raises YaqlParsingException."""
    return parse(text, MURANOPL)
