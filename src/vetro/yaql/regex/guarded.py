"""A backtracking matcher that counts its steps and never fails twice at one place.

A pattern becomes a small program (as in Pike's and Cox's machines). Backtracking uses an explicit
stack. Without back-references, the result from a place of the program at a place of the text
depends only on these two places, so a pair of places that has failed is not tried again. This
bounds the work by the product of both lengths. For patterns with back-references only the count of
steps bounds the work.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from vetro.yaql.errors import ArgumentValueException, TimeLimitExceeded
from vetro.yaql.evaluation import Evaluation

from .tree import MAXREPEAT, SINGLE, Item, Test, character_test, name_of, parse, subpattern

Instruction: TypeAlias = tuple[int, Any, Any]
_MAX_PROGRAM = 20_000

CHAR = 0
"""argument: a test of one character"""
SPLIT = 1
"""argument: the place to try first; other: the place to try second"""
JUMP = 2
SAVE = 3
"""argument: index into the saved places"""
AT = 4
"""argument: the name of a place such as AT_BEGINNING"""
LOOK = 5
"""argument: a program; other: (direction, width, negate)"""
BACK = 6
"""argument: a group"""
ATOMIC = 7
"""argument: a program"""
EXISTS = 8
"""argument: a group; other: where to continue if it did not match"""
FAIL = 9
DONE = 10
ENTER = 11
"""argument: the register for the place where a round of a loop begins"""
ADVANCE = 12
"""argument: that register; other: where to continue if the round matched the empty text"""


@dataclass(slots=True)
class Program:
    """A compiled pattern."""

    code: list[Instruction] = field(default_factory=list[Instruction])
    groups: int = 0
    names: dict[str, int] = field(default_factory=dict[str, int])
    registers: int = 0
    remembers: bool = True
    """Whether failures can be remembered: the pattern has no back-references."""
    flags: int = 0


class GuardedMatch:
    """The result of a match, with the interface of `re.Match`."""

    __slots__ = ("_names", "_saved", "re", "string")

    def __init__(
        self, pattern: re.Pattern[str], program: Program, text: str, saved: list[int]
    ) -> None:
        self.re = pattern
        self.string = text
        self._names = program.names
        self._saved = saved

    def _number(self, group: int | str) -> int:
        return self._names[group] if isinstance(group, str) else group

    def start(self, group: int | str = 0) -> int:
        return self._saved[2 * self._number(group)]

    def end(self, group: int | str = 0) -> int:
        return self._saved[2 * self._number(group) + 1]

    def span(self) -> tuple[int, int]:
        return self.start(), self.end()

    def group(self, group: int | str = 0) -> str | None:
        start, end = self.start(group), self.end(group)
        return None if start < 0 or end < 0 else self.string[start:end]

    @property
    def regs(self) -> tuple[tuple[int, int], ...]:
        """Start and end of the match and of each group, -1 for a group that did not match."""
        places = self._saved
        return tuple((places[at], places[at + 1]) for at in range(0, len(places) - 1, 2))

    def groups(self) -> tuple[str | None, ...]:
        return tuple(self.group(number) for number in range(1, len(self._saved) // 2))

    def groupdict(self) -> dict[str, str | None]:
        return {name: self.group(name) for name in self._names}

    def expand(self, template: str) -> str:
        """`template` with `\\1`, `\\g<1>`, `\\g<name>` and simple escapes replaced."""
        return _REFERENCE.sub(self._expanded, template)

    def _expanded(self, found: re.Match[str]) -> str:
        number, name, escape = found.groups()
        if escape is not None:
            if escape in _ESCAPES:
                return _ESCAPES[escape]
            if escape.isascii() and escape.isalpha():
                raise ArgumentValueException(f"bad escape \\{escape} in a replacement")
            return found[0]
        reference = number or name
        try:
            if reference.isdecimal():
                return self.group(int(reference)) or ""
            return self.group(reference) or ""
        except (KeyError, IndexError):
            raise ArgumentValueException(f"no group {reference} in the pattern") from None


_REFERENCE = re.compile(r"\\(?:([1-9]\d?)|g<(\w+)>|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\"}


def compile_program(pattern: str, flags: int) -> Program:
    """The program of a pattern; raises `ArgumentValueException` when it would be too large."""
    items, state = parse(pattern, flags)
    program = Program(
        groups=int(state.groups), names=dict(state.groupdict), flags=int(state.flags) | flags
    )
    compiler = _Compiler(program)
    compiler.add(SAVE, 0)
    compiler.sequence(items, program.flags)
    compiler.add(SAVE, 1)
    compiler.add(DONE)
    return program


class _Compiler:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.code = program.code

    def add(self, operation: int, argument: object = None, other: object = None) -> int:
        if len(self.code) >= _MAX_PROGRAM:
            raise ArgumentValueException(
                "the regular expression is too large: its counted repetitions multiply"
            )
        self.code.append((operation, argument, other))
        return len(self.code) - 1

    def patch(self, place: int, argument: object, other: object = None) -> None:
        self.code[place] = (self.code[place][0], argument, other)

    def sequence(self, items: Any, flags: int) -> None:
        for item in items:
            self.item(item, flags)

    def item(self, item: Item, flags: int) -> None:
        name, argument = name_of(item), item[1]
        if name in SINGLE:
            self.add(CHAR, _remembering(character_test(item, flags)))
        elif name == "SUBPATTERN":
            group, add, remove, items = subpattern(argument)
            flags = flags & ~remove | add
            if group is None:
                self.sequence(items, flags)
            else:
                self.add(SAVE, 2 * group)
                self.sequence(items, flags)
                self.add(SAVE, 2 * group + 1)
        elif name == "BRANCH":
            self.branch([list(branch) for branch in argument[1]], flags)
        elif name in {"MAX_REPEAT", "MIN_REPEAT"}:
            self.repeat(argument, flags, name == "MAX_REPEAT")
        elif name == "POSSESSIVE_REPEAT":
            self.add(ATOMIC, self.nested(lambda inner: inner.repeat(argument, flags, True)))
        elif name == "ATOMIC_GROUP":
            self.add(ATOMIC, self.nested(lambda inner: inner.sequence(argument, flags)))
        elif name in {"ASSERT", "ASSERT_NOT"}:
            direction, items = argument
            width = int(items.getwidth()[0]) if direction < 0 else 0
            look = self.nested(lambda inner: inner.sequence(items, flags))
            self.add(LOOK, look, (width, name == "ASSERT_NOT"))
        elif name == "AT":
            self.add(AT, _place(str(argument), flags))
        elif name == "GROUPREF":
            self.program.remembers = False
            self.add(BACK, int(argument), bool(flags & re.IGNORECASE))
        elif name == "GROUPREF_EXISTS":
            self.program.remembers = False
            group, yes, no = argument
            test = self.add(EXISTS)
            self.sequence(yes, flags)
            over = self.add(JUMP)
            self.patch(test, int(group), len(self.code))
            if no is not None:
                self.sequence(no, flags)
            self.patch(over, len(self.code))
        elif name == "FAILURE":
            self.add(FAIL)
        else:
            raise ArgumentValueException(f"{name} in a regular expression is not supported")

    def nested(self, write: Callable[[_Compiler], None]) -> list[Instruction]:
        outer = self.code
        self.code = list[Instruction]()
        write(self)
        self.add(DONE)
        inner, self.code = self.code, outer
        return inner

    def branch(self, branches: list[list[Item]], flags: int) -> None:
        ends: list[int] = []
        for number, branch in enumerate(branches):
            last = number == len(branches) - 1
            split = None if last else self.add(SPLIT)
            self.sequence(branch, flags)
            if split is not None:
                ends.append(self.add(JUMP))
                self.patch(split, split + 1, len(self.code))
        for end in ends:
            self.patch(end, len(self.code))

    def repeat(self, argument: Any, flags: int, greedy: bool) -> None:
        low, high, body = int(argument[0]), int(argument[1]), list(argument[2])
        for _ in range(low):
            self.sequence(body, flags)
        if high == MAXREPEAT:
            register = self.program.registers
            self.program.registers += 1
            split = self.add(SPLIT)
            self.add(ENTER, register)
            self.sequence(body, flags)
            advance = self.add(ADVANCE)
            self.add(JUMP, split)
            self.patch(advance, register, len(self.code))
            self.choose(split, len(self.code), greedy)
            return
        splits: list[int] = []
        for _ in range(high - low):
            splits.append(self.add(SPLIT))
            self.sequence(body, flags)
        for split in splits:
            self.choose(split, len(self.code), greedy)

    def choose(self, split: int, leave: int, greedy: bool) -> None:
        if greedy:
            self.patch(split, split + 1, leave)
        else:
            self.patch(split, leave, split + 1)


def _remembering(test: Test) -> dict[str, bool]:
    """A table that caches the test's result for each character."""

    class Table(dict[str, bool]):
        def __missing__(self, char: str) -> bool:
            found = test(char)
            if len(self) < 4096:
                self[char] = found
            return found

    return Table()


def _place(name: str, flags: int) -> str:
    if flags & re.MULTILINE:
        name = {"AT_BEGINNING": "AT_BEGINNING_LINE", "AT_END": "AT_END_LINE"}.get(name, name)
    if name in {"AT_BOUNDARY", "AT_NON_BOUNDARY"} and flags & re.ASCII:
        name += "_ASCII"
    return name


_WORD = re.compile(r"\w")
_ASCII_WORD = re.compile(r"\w", re.ASCII)


def _is_at(name: str, text: str, at: int) -> bool:
    end = len(text)
    if name in {"AT_BEGINNING", "AT_BEGINNING_STRING"}:
        return at == 0
    if name == "AT_BEGINNING_LINE":
        return at == 0 or text[at - 1] == "\n"
    if name == "AT_END_STRING":
        return at == end
    if name == "AT_END":
        return at == end or (at == end - 1 and text[at] == "\n")
    if name == "AT_END_LINE":
        return at == end or text[at] == "\n"
    word = _ASCII_WORD if name.endswith("_ASCII") else _WORD
    before = at > 0 and word.match(text[at - 1]) is not None
    after = at < end and word.match(text[at]) is not None
    if name.startswith("AT_BOUNDARY"):
        return before is not after
    return end > 0 and before is after


class _Run:
    """One search: the count of its steps and the remembered failures."""

    def __init__(self, rt: Evaluation, program: Program, text: str) -> None:
        self.rt = rt
        self.program = program
        self.text = text
        self.left = rt.limits.regex_steps

    def pay(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TimeLimitExceeded(
                f"a regular expression took more than {self.rt.limits.regex_steps} steps on a text "
                f"of {len(self.text)} characters",
                hint="make its repetitions unambiguous, or the text shorter",
            )
        self.rt.charge(steps // 16 + 1)

    def match(
        self,
        code: list[Instruction],
        start: int,
        saved: list[int],
        failed: set[int] | None,
        end_at: int | None = None,
        not_end: int | None = None,
    ) -> list[int] | None:
        """The saved places after a match from `start`, or None. The last one is the end."""
        text = self.text
        length = len(text)
        stack: list[tuple[int, int, list[int]]] = [(0, start, saved)]
        steps = 0
        width = length + 1
        while stack:
            place, at, saved = stack.pop()
            while True:
                steps += 1
                if steps >= 2048:
                    self.pay(steps)
                    steps = 0
                operation, argument, other = code[place]
                if operation == CHAR:
                    if at >= length or not argument[text[at]]:
                        break
                    at += 1
                    place += 1
                elif operation == SPLIT:
                    if failed is not None:
                        key = place * width + at
                        if key in failed:
                            break
                        failed.add(key)
                    stack.append((other, at, saved))
                    place = argument
                elif operation == JUMP:
                    place = argument
                elif operation == SAVE:
                    saved = [*saved]
                    saved[argument] = at
                    place += 1
                elif operation == ENTER:
                    saved = [*saved]
                    saved[self.first_register + argument] = at
                    place += 1
                elif operation == ADVANCE:
                    register: int = argument
                    empty = saved[self.first_register + register] == at
                    place = other if empty else place + 1
                elif operation == DONE:
                    if (end_at is not None and at != end_at) or at == not_end:
                        break
                    self.pay(steps)
                    return [*saved, at]
                else:
                    found = self.other(operation, argument, other, at, saved)
                    if found is None:
                        break
                    moved, at, saved = found
                    place = place + 1 if moved < 0 else moved
        self.pay(steps)
        return None

    @property
    def first_register(self) -> int:
        return 2 * self.program.groups

    def other(
        self, operation: int, argument: Any, other: Any, at: int, saved: list[int]
    ) -> tuple[int, int, list[int]] | None:
        """The rarer operations: the next place (-1: the following), text place, saved places."""
        if operation == AT:
            return (-1, at, saved) if _is_at(argument, self.text, at) else None
        if operation == LOOK:
            width, negate = other
            begin = at - width
            found = None
            if begin >= 0:
                # A look-behind must end at `at`; a look-ahead (width 0) may end anywhere.
                found = self.match(
                    argument, begin, saved, self.memory(), end_at=at if width else None
                )
            if negate:
                return (-1, at, saved) if found is None else None
            return None if found is None else (-1, at, found[:-1])
        if operation == BACK:
            group: int = argument
            start, end = saved[2 * group], saved[2 * group + 1]
            if start < 0 or end < 0:
                return None
            piece, there = self.text[start:end], self.text[at : at + end - start]
            same = piece.lower() == there.lower() if other else piece == there
            self.pay(1 + len(piece) // 64)
            return (-1, at + len(piece), saved) if same else None
        if operation == ATOMIC:
            found = self.match(argument, at, saved, self.memory())
            return None if found is None else (-1, found[-1], found[:-1])
        if operation == EXISTS:
            group = int(argument)
            present = saved[2 * group + 1] >= 0
            return (-1 if present else other, at, saved)
        return None

    def memory(self) -> set[int] | None:
        return set() if self.program.remembers else None


def run(
    rt: Evaluation,
    program: Program,
    pattern: re.Pattern[str],
    text: str,
    position: int = 0,
    must_advance: bool = False,
) -> GuardedMatch | None:
    """The first match at or after `position`; `must_advance` excludes an empty match at it."""
    search = _Run(rt, program, text)
    failed = search.memory()
    nothing = [-1] * (2 * program.groups + program.registers)
    for start in range(position, len(text) + 1):
        not_end = start if must_advance and start == position else None
        if not_end is not None:
            # This start has a stricter condition: failures here may be successes elsewhere.
            found = search.match(program.code, start, nothing, search.memory(), not_end=not_end)
        else:
            found = search.match(program.code, start, nothing, failed)
        if found is not None:
            return GuardedMatch(pattern, program, text, found[: 2 * program.groups])
    return None
