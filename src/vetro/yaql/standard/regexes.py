"""Regular expressions (yaql.md section 6); `vetro.yaql.regex` bounds their running time.

Selectors get `$` (the match), `$2`, `$3`… (its groups) and the named groups by name: each a map of
`value`, `start`, `end`.
"""

import re
from collections.abc import Callable, Iterator
from operator import methodcaller

from vetro.yaql.errors import ArgumentValueException
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.regex import Match, compile_pattern, find_all, is_found, is_guarded, search
from vetro.yaql.registry import Registry
from vetro.yaql.signatures import Boolean, Integer, LambdaAny, RegularExpression, Text
from vetro.yaql.values import Value, preview

registry = Registry()
_WHOLE = methodcaller("group")
_WITHOUT_COUNTING = 1 << 20
"""A replacement whose result has at most this many characters is made in one call."""


@registry.function()
def regex(
    pattern: Text,
    ignore_case: Boolean = False,
    multi_line: Boolean = False,
    dot_all: Boolean = False,
) -> re.Pattern[str]:
    flags = 0
    if ignore_case:
        flags |= re.IGNORECASE
    if multi_line:
        flags |= re.MULTILINE
    if dot_all:
        flags |= re.DOTALL
    return compile_pattern(pattern, flags)


@registry.function()
def is_regex(value: object) -> bool:
    return isinstance(value, re.Pattern)


@registry.function()
def escape_regex(string: Text) -> str:
    return re.escape(string)


@registry.method("matches")
def matches(rt: Evaluation, regexp: RegularExpression, string: Text) -> bool:
    return is_found(rt, regexp, string)


@registry.method("matches")
def matches_pattern(rt: Evaluation, string: Text, regexp: Text) -> bool:
    return is_found(rt, compile_pattern(regexp), string)


@registry.method("matches")
def matches_regex(rt: Evaluation, string: Text, regexp: RegularExpression) -> bool:
    return is_found(rt, regexp, string)


def _selected(found: Match, selector: Callable[..., object]) -> object:
    text = found.string
    groups: list[dict[str, object]] = []
    for start, end in found.regs:
        value = text[start:end] if start >= 0 else None
        groups.append({"value": value, "start": start, "end": end})
    names = found.re.groupindex
    if not names:
        return selector(*groups)
    named: dict[str, object] = {}
    for name, number in names.items():
        named[name] = groups[number]
    return selector(*groups, **named)


@registry.method("search")
def search_(
    rt: Evaluation, regexp: RegularExpression, string: Text, selector: LambdaAny | None = None
) -> object:
    found = search(rt, regexp, string)
    if found is None:
        return None
    return found.group() if selector is None else _selected(found, selector)


@registry.method("searchAll")
def search_all(
    rt: Evaluation, regexp: RegularExpression, string: Text, selector: LambdaAny | None = None
) -> Iterator[object]:
    if selector is None and not is_guarded(regexp, len(string)):
        # Charged in advance: there may be a match at every place.
        rt.charge(1 + len(string) // 4)
        return map(_WHOLE, regexp.finditer(string))
    return _selected_all(rt, find_all(rt, regexp, string), selector)


def _selected_all(
    rt: Evaluation, matches: Iterator[Match], selector: Callable[..., object] | None
) -> Iterator[object]:
    for found in matches:
        rt.charge(1)
        yield found.group() if selector is None else _selected(found, selector)


@registry.method("split")
def split(
    rt: Evaluation, regexp: RegularExpression, string: Text, max_split: Integer = 0
) -> list[Value]:
    if not is_guarded(regexp, len(string)):
        rt.charge(1 + len(string) // 256)
        parts: list[Value] = regexp.split(string, max_split)
        rt.check_items(len(parts))
        return parts
    parts = []
    at = 0
    for number, found in enumerate(find_all(rt, regexp, string)):
        if max_split and number >= max_split:
            break
        parts.append(string[at : found.start()])
        parts.extend(found.groups())
        at = found.end()
    parts.append(string[at:])
    rt.check_items(len(parts))
    return parts


@registry.method("split")
def split_string(
    rt: Evaluation, string: Text, regexp: RegularExpression, max_split: Integer = 0
) -> list[object]:
    return split(rt, regexp, string, max_split)


def _substituted(
    rt: Evaluation,
    regexp: re.Pattern[str],
    string: str,
    replacement: Callable[[Match], str],
    count: int,
) -> str:
    grown = 0

    def counted(found: Match) -> str:
        nonlocal grown
        text = replacement(found)
        start, end = found.span()
        rt.charge(1)
        rt.check_string(start + grown + len(text))
        grown += len(text) - (end - start)
        return text

    if is_guarded(regexp, len(string)):
        parts: list[str] = []
        at = 0
        for number, found in enumerate(find_all(rt, regexp, string)):
            if count and number >= count:
                break
            parts += (string[at : found.start()], counted(found))
            at = found.end()
        parts.append(string[at:])
        result = "".join(parts)
    else:
        rt.charge(1 + len(string) // 256)
        result = regexp.sub(counted, string, count)
    rt.check_string(len(result))
    return result


@registry.method("replace")
def replace(
    rt: Evaluation, regexp: RegularExpression, string: Text, repl: Text, count: Integer = 0
) -> str:
    if "\\" not in repl:
        longest = len(string) + (len(string) + 1) * len(repl)
        if longest <= min(rt.max_string, _WITHOUT_COUNTING) and not is_guarded(regexp, len(string)):
            rt.charge(1 + len(string) // 256)
            return regexp.sub(repl, string, count)
        return _substituted(rt, regexp, string, lambda found: repl, count)

    def expanded(found: Match) -> str:
        try:
            return found.expand(repl)
        except (re.error, IndexError) as error:
            raise ArgumentValueException(f"the replacement {preview(repl)}: {error}") from None

    return _substituted(rt, regexp, string, expanded, count)


@registry.method("replace")
def replace_string(
    rt: Evaluation, string: Text, regexp: RegularExpression, repl: Text, count: Integer = 0
) -> str:
    return replace(rt, regexp, string, repl, count)


@registry.method("replaceBy")
def replace_by(
    rt: Evaluation, regexp: RegularExpression, string: Text, repl: LambdaAny, count: Integer = 0
) -> str:
    def text(found: Match) -> str:
        value = _selected(found, repl)
        if type(value) is not str:
            raise TypeError("the expression of replaceBy must produce a string")
        return value

    return _substituted(rt, regexp, string, text, count)


@registry.method("replaceBy")
def replace_by_string(
    rt: Evaluation, string: Text, regexp: RegularExpression, repl: LambdaAny, count: Integer = 0
) -> str:
    return replace_by(rt, regexp, string, repl, count)
