"""Regular expressions with bounded running time.

Python's engine backtracks and cannot be interrupted, so a pattern may block a thread for years.
Here `analysis` first estimates how often the repetitions of a pattern can be retried for a text of
a given length. If the worst case is affordable, as for nearly every pattern and text in practice,
Python's engine is used. Otherwise the `guarded` matcher is used: it has the same results and is
many times slower on easy input, but it remembers failures, so that its work grows with the product
of the lengths of pattern and text, and it counts its steps (`Limits.regex_steps`,
`TimeLimitExceeded`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from vetro.yaql.errors import ArgumentValueException
from vetro.yaql.evaluation import Evaluation

if TYPE_CHECKING:
    from .guarded import GuardedMatch, Program

Match: TypeAlias = "re.Match[str] | GuardedMatch"

AFFORDABLE = 20_000_000
"""The worst-case steps allowed for Python's engine: some tenths of a second."""
MAX_PATTERN = 10_000
"""The most characters of one pattern."""


@lru_cache(maxsize=512)
def compile_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """The compiled pattern; raises `ArgumentValueException` for an invalid regular expression."""
    if len(text) > MAX_PATTERN:
        raise ArgumentValueException(f"a regular expression has at most {MAX_PATTERN} characters")
    try:
        return re.compile(text, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ArgumentValueException(
            f"`{text[:80]}` is not a valid regular expression: {error}"
        ) from None


_safe_lengths: dict[re.Pattern[str], int] = {}
_CHOICE = re.compile(r"[*+?{|]")
_BEFORE = re.compile(r"(?:\.\*\??(?![*+?{]))+")
_AFTER = re.compile(r"(?<!\\)((?:\\\\)*)(?:\.\*[?+]?)+\Z")


@lru_cache(maxsize=512)
def essence(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """A faster pattern that matches in exactly the same texts.

    `.*` at an end of a pattern also matches the empty text, so it affects only the extent of a
    match, not its existence; at the beginning it makes a search quadratic.
    """
    text = pattern.pattern
    if pattern.flags & re.VERBOSE or ".*" not in text:
        return pattern
    before = _BEFORE.match(text)
    shorter = text[before.end() :] if before is not None else text
    shorter = _AFTER.sub(r"\1", shorter)
    return compile_pattern(shorter, pattern.flags) if shorter != text else pattern


def safe_length(pattern: re.Pattern[str]) -> int:
    """The longest text that Python's engine may be given with this pattern."""
    length = _safe_lengths.get(pattern)
    if length is None:
        if len(_safe_lengths) >= 512:
            _safe_lengths.clear()
        # The whole pattern may be tried at each place of the text.
        affordable = AFFORDABLE // (1 + len(pattern.pattern) // 64)
        if _CHOICE.search(pattern.pattern) is None:
            # Nothing to retry.
            length = affordable
        else:
            from .analysis import assess

            length = assess(pattern.pattern, pattern.flags).longest(affordable)
        _safe_lengths[pattern] = length
    return length


@lru_cache(maxsize=128)
def _program(pattern: str, flags: int) -> Program:
    from .guarded import compile_program

    return compile_program(pattern, flags)


def is_guarded(pattern: re.Pattern[str], length: int) -> bool:
    """Whether a text of this length goes to the guarded matcher."""
    return length > safe_length(pattern)


def search(rt: Evaluation, pattern: re.Pattern[str], text: str, position: int = 0) -> Match | None:
    """The first match at or after `position`."""
    rt.fuel -= 1 + (len(text) >> 8)
    if rt.fuel < 0:
        rt.refuel()
    if len(text) > safe_length(pattern):
        from .guarded import run

        return run(rt, _program(pattern.pattern, pattern.flags), pattern, text, position)
    return pattern.search(text, position)


def is_found(rt: Evaluation, pattern: re.Pattern[str], text: str) -> bool:
    """Whether there is a match."""
    return search(rt, essence(pattern), text) is not None


def find_all(rt: Evaluation, pattern: re.Pattern[str], text: str) -> Iterator[Match]:
    """All matches in order, not overlapping; empty matches as in Python's `finditer`."""
    rt.charge(1 + len(text) // 256)
    if len(text) > safe_length(pattern):
        return _find_guarded(rt, pattern, text)
    return pattern.finditer(text)


def _find_guarded(rt: Evaluation, pattern: re.Pattern[str], text: str) -> Iterator[Match]:
    from .guarded import run

    program = _program(pattern.pattern, pattern.flags)
    position = 0
    must_advance = False
    while position <= len(text):
        found = run(rt, program, pattern, text, position, must_advance)
        if found is None:
            return
        yield found
        must_advance = found.end() == found.start()
        position = found.end()
