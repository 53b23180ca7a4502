"""Regular expressions of affinities, in time linear in the text (allocation.md §6.1).

Users write these patterns and the service runs them, so no pattern may take more time than its
length times the text's: the pattern becomes a set of states that is walked once, without
backtracking. Supported: characters, ``.``, classes, ``\\d \\w \\s \\b`` and their opposites, ``^
$``, groups, ``|``, ``* + ? {m,n}`` (lazy ones too; they have no effect here). Not supported,
because they cannot be matched in linear time: back references and look-around.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from vetro.compute.allocation.errors import PatternError
from vetro.digits import is_number

STATES_LIMIT = 5000
REPEAT_LIMIT = 200
DEPTH_LIMIT = 50
Test = Callable[[str], bool]

_CLASSES: dict[str, Test] = {
    "d": lambda c: c in "0123456789",
    "w": lambda c: c == "_" or (c.isascii() and c.isalnum()),
    "s": lambda c: c.isspace(),
}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}


@dataclass
class _State:
    """A state: the characters it reads (None: nothing), an assertion, and its successors."""

    test: Test | None = None
    assertion: str | None = None
    after: tuple[int, ...] = ()


@lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A predicate: does the text contain a match? Errors: ``PatternError``."""
    return _Compiler(pattern).whole()


class _Compiler:
    """Builds the states from back to front: each part is given its successor."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.states: list[_State] = [_State()]  # state 0 is the end

    def error(self, message: str) -> PatternError:
        return PatternError(f"{message} at {self.at} in the pattern {self.pattern!r}")

    def whole(self) -> Callable[[str], bool]:
        tree = self._choice()
        if self.at < len(self.pattern):
            raise self.error("unexpected ')'")
        start = tree(0)
        states = self.states
        return lambda text: _search(states, start, text)

    def state(
        self, test: Test | None = None, assertion: str | None = None, after: tuple[int, ...] = ()
    ) -> int:
        if len(self.states) >= STATES_LIMIT:
            raise PatternError(f"the pattern {self.pattern!r} is too large")
        self.states.append(_State(test, assertion, after))
        return len(self.states) - 1

    def peek(self) -> str:
        return self.pattern[self.at] if self.at < len(self.pattern) else ""

    def next(self) -> str:
        character = self.peek()
        if not character:
            raise self.error("the pattern ends too early")
        self.at += 1
        return character

    # Each part is a function from its successor state to its first state.

    def _choice(self) -> Callable[[int], int]:
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise self.error(f"groups nest deeper than {DEPTH_LIMIT}")
        branches = [self._sequence()]
        while self.peek() == "|":
            self.at += 1
            branches.append(self._sequence())
        self.depth -= 1
        if len(branches) == 1:
            return branches[0]
        return lambda after: self.state(after=tuple(branch(after) for branch in branches))

    def _sequence(self) -> Callable[[int], int]:
        parts: list[Callable[[int], int]] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))

        def build(after: int) -> int:
            for part in reversed(parts):
                after = part(after)
            return after

        return build

    def _repeated(self, part: Callable[[int], int]) -> Callable[[int], int]:
        while True:
            sign = self.peek()
            if sign == "*":
                least, most = 0, None
            elif sign == "+":
                least, most = 1, None
            elif sign == "?":
                least, most = 0, 1
            elif sign == "{" and (bounds := self._bounds()) is not None:
                least, most = bounds
            else:
                return part
            if sign != "{":
                self.at += 1
            if self.peek() == "?":
                self.at += 1  # lazy: the same texts match
            part = self._times(part, least, most)

    def _bounds(self) -> tuple[int, int | None] | None:
        end = self.pattern.find("}", self.at)
        inner = self.pattern[self.at + 1 : end] if end > 0 else ""
        low, comma, high = inner.partition(",")
        if not is_number(low) or not (high == "" or is_number(high)):
            return None  # a literal brace
        self.at = end + 1
        least = int(low)
        most = least if not comma else int(high) if high else None
        if max(least, most or 0) > REPEAT_LIMIT or (most is not None and most < least):
            raise self.error(f"a repetition must be within 0..{REPEAT_LIMIT}")
        return least, most

    def _times(
        self, part: Callable[[int], int], least: int, most: int | None
    ) -> Callable[[int], int]:
        def build(after: int) -> int:
            if most is None:
                loop = self.state()
                self.states[loop].after = (part(loop), after)
                after = loop
            else:
                end = after
                for _ in range(most - least):
                    after = self.state(after=(part(after), end))
            for _ in range(least):
                after = part(after)
            return after

        return build

    def _atom(self) -> Callable[[int], int]:
        character = self.next()
        if character == "(":
            if self.peek() == "?":
                if self.pattern[self.at : self.at + 2] != "?:":
                    raise self.error("look-around and named groups are not offered")
                self.at += 2
            inner = self._choice()
            if self.peek() != ")":
                raise self.error("a ')' is missing")
            self.at += 1
            return inner
        if character in "^$":
            return lambda after: self.state(assertion=character, after=(after,))
        if character in "*+?":
            raise self.error("nothing to repeat")
        if character == ".":
            return self._reading(lambda c: c not in "\n\r\u2028\u2029")
        if character == "[":
            return self._reading(self._set())
        if character == "\\":
            return self._escape()
        return self._reading(lambda c: c == character)

    def _reading(self, test: Test) -> Callable[[int], int]:
        return lambda after: self.state(test, after=(after,))

    def _escape(self) -> Callable[[int], int]:
        character = self.next()
        if character in "bB":
            return lambda after: self.state(assertion=character, after=(after,))
        if is_number(character) and character != "0":
            raise self.error("back references are not offered")
        return self._reading(self._escaped(character))

    def _escaped(self, character: str) -> Test:
        lowered = character.lower()
        if lowered in _CLASSES:
            test = _CLASSES[lowered]
            return test if character == lowered else lambda c: not test(c)
        if character in "xu":
            size = 2 if character == "x" else 4
            digits = self.pattern[self.at : self.at + size]
            try:
                character = chr(int(digits, 16)) if len(digits) == size else character
                self.at += size if len(digits) == size else 0
            except ValueError:
                pass  # like any other escaped letter: a literal
        character = _CONTROLS.get(character, character)
        return lambda c: c == character

    def _set(self) -> Test:
        negated = self.peek() == "^"
        self.at += negated
        tests: list[Test] = []
        while self.peek() != "]":
            low = self.next()
            if low == "\\":
                escaped = self.next()
                if escaped == "b":
                    escaped = "\b"
                if escaped.lower() in _CLASSES or escaped in "xu" or escaped in _CONTROLS:
                    tests.append(self._escaped(escaped))
                    continue
                low = escaped
            if self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.next()
                if high == "\\":
                    high = self.next()
                if high < low:
                    raise self.error(f"the range {low}-{high} is in the wrong order")
                tests.append(lambda c, low=low, high=high: low <= c <= high)
            else:
                tests.append(lambda c, low=low: c == low)
        self.at += 1
        return lambda c: any(test(c) for test in tests) is not negated


def _search(states: list[_State], start: int, text: str) -> bool:
    """Follow all possibilities at once; a match may begin anywhere."""
    current: set[int] = set()
    for at in range(len(text) + 1):
        current.add(start)
        reached = _closure(states, current, text, at)
        if 0 in reached:
            return True
        if at == len(text):
            return False
        character = text[at]
        current = set()
        for index in reached:
            state = states[index]
            if state.test is not None and state.test(character):
                current.update(state.after)
    return False


def _closure(states: list[_State], current: set[int], text: str, at: int) -> set[int]:
    reached: set[int] = set()
    waiting = list(current)
    while waiting:
        index = waiting.pop()
        if index in reached:
            continue
        reached.add(index)
        state = states[index]
        if state.test is None and (state.assertion is None or _holds(state.assertion, text, at)):
            waiting.extend(state.after)
    return reached


def _holds(assertion: str, text: str, at: int) -> bool:
    if assertion == "^":
        return at == 0
    if assertion == "$":
        return at == len(text)
    word = _CLASSES["w"]
    before = at > 0 and word(text[at - 1])
    after = at < len(text) and word(text[at])
    return (before is not after) is (assertion == "b")


def glob_matches(glob: str, text: str) -> bool:
    """Whether the whole text matches ``glob``, in which ``*`` stands for any text."""
    first, *others = glob.split("*")
    if not others:
        return text == glob
    *middle, last = others
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    if not text.endswith(last):
        return False
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
