"""Strings (yaql.md sections 6 and 7)."""

import string as characters_of

from vetro.yaql.evaluation import Evaluation
from vetro.yaql.registry import Registry
from vetro.yaql.signatures import Boolean, Dictionary, Integer, Items, Text
from vetro.yaql.text import format_template, joined, to_text
from vetro.yaql.values import Value

registry = Registry()


@registry.method()
def to_upper(rt: Evaluation, string: Text) -> str:
    rt.check_string(len(string))
    return string.upper()


@registry.method()
def to_lower(rt: Evaluation, string: Text) -> str:
    rt.check_string(len(string))
    return string.lower()


@registry.both("len")
def length(string: Text) -> int:
    return len(string)


@registry.method()
def trim(rt: Evaluation, string: Text, chars: Text | None = None) -> str:
    rt.check_string(len(string))
    return string.strip(chars)


@registry.method()
def trim_left(rt: Evaluation, string: Text, chars: Text | None = None) -> str:
    rt.check_string(len(string))
    return string.lstrip(chars)


@registry.method()
def trim_right(rt: Evaluation, string: Text, chars: Text | None = None) -> str:
    rt.check_string(len(string))
    return string.rstrip(chars)


@registry.both()
def norm(rt: Evaluation, string: Text | None, chars: Text | None = None) -> str | None:
    if string is None:
        return None
    rt.check_string(len(string))
    return string.strip(chars) or None


@registry.both()
def is_empty(string: Text | None, trim_: Boolean = True, chars: Text | None = None) -> bool:
    if string is None:
        return True
    return not (string.strip(chars) if trim_ else string)


@registry.method()
def split(
    rt: Evaluation, string: Text, separator: Text | None = None, max_splits: Integer = -1
) -> list[str]:
    rt.check_string(len(string))
    parts = string.split(_separator(separator), max_splits)
    rt.check_items(len(parts))
    return parts


@registry.method()
def right_split(
    rt: Evaluation, string: Text, separator: Text | None = None, max_splits: Integer = -1
) -> list[str]:
    rt.check_string(len(string))
    parts = string.rsplit(_separator(separator), max_splits)
    rt.check_items(len(parts))
    return parts


def _separator(text: str | None) -> str | None:
    if text == "":
        raise ValueError("the separator cannot be empty; toCharArray() splits into characters")
    return text


@registry.method("join")
def join_with(rt: Evaluation, separator: Text, sequence: Items) -> str:
    return joined(rt, separator, sequence)


@registry.method_legacy_both("join")
def join_sequence(rt: Evaluation, sequence: Items, separator: Text) -> str:
    return joined(rt, separator, sequence)


@registry.function("str")
def str_(rt: Evaluation, value: Value) -> str:
    return to_text(rt, value)


@registry.function("concat")
def concat_strings(rt: Evaluation, *args: Text) -> str:
    rt.check_string(sum(map(len, args)))
    return "".join(args)


@registry.method()
def starts_with(string: Text, *prefixes: Text) -> bool:
    return string.startswith(prefixes)


@registry.method()
def ends_with(string: Text, *suffixes: Text) -> bool:
    return string.endswith(suffixes)


@registry.method()
def substring(rt: Evaluation, string: Text, start: Integer, length: Integer = -1) -> str:
    rt.check_string(len(string))
    if length < 0:
        length = len(string)
    if start < 0:
        start += len(string)
    return string[start : start + length]


@registry.method("indexOf")
def index_of(string: Text, sub: Text, start: Integer = 0) -> int:
    return string.find(sub, start)


@registry.method("indexOf")
def index_of_within(string: Text, sub: Text, start: Integer, length: Integer) -> int:
    first, last = _window(string, start, length)
    return string.find(sub, first, last)


@registry.method("lastIndexOf")
def last_index_of(string: Text, sub: Text, start: Integer = 0) -> int:
    return string.rfind(sub, start)


@registry.method("lastIndexOf")
def last_index_of_within(string: Text, sub: Text, start: Integer, length: Integer) -> int:
    first, last = _window(string, start, length)
    return string.rfind(sub, first, last)


def _window(string: str, start: int, length: int) -> tuple[int, int]:
    if start < 0:
        start += len(string)
    return start, len(string) if length < 0 else start + length


@registry.method("replace")
def replace(rt: Evaluation, string: Text, old: Text, new: Text, count: Integer = -1) -> str:
    found = string.count(old)
    if 0 <= count < found:
        found = count
    rt.check_string(len(string) + found * (len(new) - len(old)))
    return string.replace(old, new, count)


@registry.method("replace")
def replace_each(
    rt: Evaluation, string: Text, replacements: Dictionary, count: Integer = -1
) -> str:
    for old, new in replacements.items():
        string = replace(rt, string, to_text(rt, old), to_text(rt, new), count)
    return string


@registry.method()
def to_char_array(rt: Evaluation, string: Text) -> list[str]:
    rt.check_items(len(string))
    return list(string)


@registry.function()
def is_string(arg: Value) -> bool:
    return type(arg) is str


@registry.function("hex")
def hex_(num: Integer) -> str:
    return hex(num)


@registry.function()
def characters(
    digits: Boolean = False,
    hexdigits: Boolean = False,
    ascii_lowercase: Boolean = False,
    ascii_uppercase: Boolean = False,
    ascii_letters: Boolean = False,
    letters: Boolean = False,
    octdigits: Boolean = False,
    punctuation: Boolean = False,
    printable: Boolean = False,
    lowercase: Boolean = False,
    uppercase: Boolean = False,
    whitespace: Boolean = False,
) -> list[str]:
    chosen = (
        (digits, characters_of.digits),
        (hexdigits, characters_of.hexdigits),
        (ascii_lowercase or lowercase, characters_of.ascii_lowercase),
        (ascii_uppercase or uppercase, characters_of.ascii_uppercase),
        (ascii_letters or letters, characters_of.ascii_letters),
        (octdigits, characters_of.octdigits),
        (punctuation, characters_of.punctuation),
        (printable, characters_of.printable),
        (whitespace, characters_of.whitespace),
    )
    return list(dict.fromkeys("".join(group for wanted, group in chosen if wanted)))


@registry.both("format")
def format_(rt: Evaluation, template: Text, /, *args: object, **kwargs: object) -> str:
    return format_template(rt, template, args, kwargs)
