"""Regular expressions that end in time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from ..evaluation import Evaluation


@lru_cache(maxsize=512)
def compile_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(text, flags)


def search(
    rt: Evaluation, pattern: re.Pattern[str], text: str, position: int = 0
) -> re.Match[str] | None:
    return pattern.search(text, position)


def find_all(rt: Evaluation, pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    return pattern.finditer(text)
