"""Expressions of forms: the functions of B6, limits, and the evaluation of nested values.

A `Scope` holds what expressions see: ``data`` (``$``: pages and their fields), ``variables`` (``$name``:
parameters and templates) and an `Ingredients` for the functions that need more than values. One
`Budget` is shared by all expressions of one request, so that a hostile form ends. Patterns, ``pattern`` or
``/pattern/flags`` (B3), are searched as expressions, in bounded time.
"""

from __future__ import annotations

import re
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from typing import Any, TypeVar, cast

from vetro.packages.forms.errors import FormError
from vetro.packages.forms.source import Marked
from vetro.yaql import (
    Evaluation,
    Expression,
    Library,
    Limits,
    Text,
    YaqlException,
    YaqlParsingException,
    ast,
    compile,
    standard_library,
)

LIMITS = Limits(
    collection_items=10_000, memory_bytes=1_000_000, string_length=1_000_000,
    steps=1_000_000, seconds=1.0, depth=60, regex_steps=500_000,
)  # fmt: skip
"""Of one expression (B1)."""
MAX_DEPTH = 60
"""Nesting of templates within each other and of what they make."""
MAX_VALUES = 100_000
"""Values that one request may make."""
LONGEST_HOST_NAME = 63
"""Letters."""
MAX_SECONDS = 5.0
"""Time that the expressions of one request may take."""
UNKNOWN = "\0unknown"
"""The value of an expression that fails, where that is no error."""
KEPT = "\0kept "
"""Before the path of a field: what stands for a value that cannot be read from a component."""
GENERATING = frozenset({"generateHostname", "random", "encryptData", "now"})
"""Functions whose results are those of a component's whole life."""
T = TypeVar("T")
FAILURES = (YaqlException, ArithmeticError, LookupError, TypeError, ValueError, AssertionError)
"""What evaluating an expression raises."""


class Budget:
    """What all expressions of one request may use up together."""

    def __init__(self, seconds: float = MAX_SECONDS, values: int = MAX_VALUES) -> None:
        self._deadline = time.monotonic() + seconds
        self._values = values
        self.seconds = seconds

    def spend(self, marked: Marked | None = None) -> None:
        """Count a value; check the time for an expression. Errors: ``FormError``."""
        self._values -= 1
        place = (None, None) if marked is None else (marked.line, marked.column)
        if self._values < 0:
            raise FormError(f"The form makes more than {MAX_VALUES} values", *place)
        if marked is not None and time.monotonic() > self._deadline:
            raise FormError(
                f"The form's expressions take more than {self.seconds:g} seconds", *place
            )


@dataclass
class Ingredients:
    """What the functions of an object's expressions need (B6).

    ``name``: the application's name. ``templates``: those that ``ref`` finds. ``encrypt`` keeps a
    secret and returns its id. ``made``: objects that ``ref`` has made, by name. ``taken``: host names in
    lower case that ``generateHostname`` gives no other machine. ``generated``: what ids and generating
    expressions gave, by their place in the object; a second object that is built with it has the same
    there. ``tolerant``: an expression that fails has the value `UNKNOWN`.
    """

    name: str | None = None
    templates: dict[str, Any] = field(default_factory=dict[str, Any])
    encrypt: Callable[[str], str] | None = None
    made: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    taken: Collection[str] | None = None
    generated: dict[object, Any] = field(default_factory=dict[object, Any])
    tolerant: bool = False
    hosts: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    asked: Counter[object] = field(default_factory=Counter[object])

    def once(self, place: object, make: Callable[[], T]) -> T:
        """What was generated at a place, or is generated now."""
        key = (place, self.asked[place])
        self.asked[place] += 1
        if key not in self.generated:
            self.generated[key] = make()
        return self.generated[key]

    def host(self, pattern: str, number: object) -> str:
        """The host name of a pattern and a number: it counts on while the name is taken.

        The same pattern and number have the same name everywhere in one object.
        """
        if self.taken is None or "#" not in pattern or not isinstance(number, int):
            return pattern.replace("#", str(number))
        if (pattern, number) not in self.hosts:
            used = {name.lower() for name in self.hosts.values()}
            before, _, after = pattern.partition("#")
            count = number
            while True:
                end = f"{count}{after.replace('#', str(count))}"
                # A guest cuts its name off: without room for it all numbers would be one name.
                name = f"{before[: max(LONGEST_HOST_NAME - len(end), 0)]}{end}"
                if name.lower() not in used and name.lower() not in self.taken:
                    break
                count += 1
            self.hosts[pattern, number] = name
        return self.hosts[pattern, number]


@dataclass(frozen=True)
class Repeated:
    """One of the elements of ``repeat``, not evaluated."""

    template: Any
    number: int


@dataclass
class Scope:
    """What expressions see. ``lazy``: ``repeat`` gives its elements as `Repeated`."""

    data: dict[str, Any]
    variables: dict[str, Any] = field(default_factory=dict[str, Any])
    ingredients: Ingredients = field(default_factory=Ingredients)
    budget: Budget = field(default_factory=Budget)
    depth: int = 0
    path: list[object] = field(default_factory=list[object])
    lazy: bool = False

    def evaluate(self, marked: Marked, data: object = ...) -> Any:
        """The value of one expression, with ``$`` as given. Errors: `FAILURES`, ``FormError``."""
        self.budget.spend(marked)
        expression = compiled(marked)
        run = FormEvaluation(expression.library, LIMITS, self.variables)
        run.scope = self
        return expression.run(run, self.data if data is ... else data)

    def value(self, node: Any) -> Any:
        """A value of the definition with its expressions evaluated, and what they return in turn.

        Every map under a ``?`` key gets an id unless it has one (B8). Errors: ``FormError``.
        """
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                raise FormError(
                    f"The templates are nested deeper than {MAX_DEPTH} levels: check whether one"
                    " contains itself"
                )
            return self._value(node)
        finally:
            self.depth -= 1

    def _value(self, node: object) -> object:
        if isinstance(node, Marked):
            return self.value(self._reported(node))
        self.budget.spend()
        if isinstance(node, dict):
            result: dict[str, object] = {}
            for key, body in cast("dict[object, object]", node).items():
                name: object = self.value(key) if isinstance(key, Marked) else key
                word = name if isinstance(name, str) else str(name)
                result[word] = self._at(word, body)
            header = result.get("?")
            if isinstance(header, dict) and "id" not in header:
                cast("dict[str, object]", header)["id"] = self.new_id()
            return result
        if isinstance(node, (list, tuple)):
            items = cast("list[object]", node)
            return [self._at(place, item) for place, item in enumerate(items)]
        return node

    def _at(self, part: object, node: object) -> object:
        self.path.append(part)
        try:
            return self.value(node)
        finally:
            self.path.pop()

    def new_id(self) -> str:
        """The id of the object at this place."""
        return self.ingredients.once(("?", *self.path), lambda: uuid.uuid4().hex)

    def _reported(self, marked: Marked) -> object:
        try:
            if not generates(marked):
                return self._known(marked) if self.ingredients.tolerant else self.evaluate(marked)
            known = [_field_value(self.data, *one) for one in fields_of(marked.tree)]
            place = (marked.text, *self.path, *map(repr, known))
            return self.ingredients.once(place, lambda: self.evaluate(marked))
        except (FormError, *FAILURES) as error:
            if self.ingredients.tolerant:
                return UNKNOWN
            raise self._placed(marked, error) from error

    def _known(self, marked: Marked) -> object:
        """The value of an expression that does not depend on what is `KEPT`; else a mark of its own.

        Two expressions have the same mark when the other fields have the same values in them.
        """
        paths = dict.fromkeys(fields_of(marked.tree))
        values = {path: _field_value(self.data, *path) for path in paths}
        kept = {
            path: value
            for path, value in values.items()
            if isinstance(value, str) and value.startswith(KEPT)
        }
        if not kept:
            return self.evaluate(marked)
        mark = f"{UNKNOWN} {[value for value in values.values() if value not in kept.values()]!r}"
        mark += "".join(kept.values())
        try:
            first = self.evaluate(marked)
            for (page, name), value in kept.items():
                self.data[page][name] = f"{value} or another"
            second = self.evaluate(marked)
        except (FormError, *FAILURES):
            return mark
        finally:
            for (page, name), value in kept.items():
                self.data[page][name] = value
        return first if first == second else mark

    def _placed(self, marked: Marked, error: Exception) -> Exception:
        if isinstance(error, FormError):
            if error.line is not None:
                return error
            return FormError(f"{marked.text}: {error}", marked.line, marked.column)
        return self.explained(marked, error)

    def explained(self, marked: Marked, error: Exception) -> FormError:
        """Why an expression has no value; names the page that has no values, if that is it."""
        reason = str(error)
        for page, name in fields_of(marked.tree):
            if not isinstance(self.data.get(page), dict):
                reason = f"there is no page {page} with values (its field {name} is wanted)"
        return FormError(f"{marked.text}: {reason}", marked.line, marked.column)

    def with_index(self, number: int) -> Scope:
        """The same with ``$index``."""
        return Scope(
            self.data,
            {**self.variables, "index": number},
            self.ingredients,
            self.budget,
            self.depth,
            [*self.path, number],
            self.lazy,
        )


class FormEvaluation(Evaluation):
    """An evaluation that knows its scope."""

    __slots__ = ("scope",)
    scope: Scope


@lru_cache(maxsize=1)
def library() -> Library:
    """The functions of forms: the legacy flavour and B6. Shared, so that expressions stay compiled."""
    made = standard_library("legacy").child()
    made.register(_generate_hostname, "generateHostname")
    made.register(_repeat, "repeat")
    made.register(_name, "name")
    made.register(_ref, "ref")
    made.register(_encrypt_data, "encryptData")
    made.register(_range, "range", function=False, method=True)
    return made


def compiled(marked: Marked) -> Expression:
    """An expression, compiled. Errors: ``FormError`` with its place."""
    try:
        return compile(marked.text, library=library())
    except (YaqlParsingException, RecursionError) as error:
        raise FormError(
            f"{marked.text!r:.200} is not an expression: {error}", marked.line, marked.column
        ) from error


def has_expressions(node: object) -> bool:
    """Whether there is an expression anywhere in a value."""
    if isinstance(node, Marked):
        return True
    if isinstance(node, dict):
        pairs = cast("dict[object, object]", node)
        return any(has_expressions(one) for pair in pairs.items() for one in pair)
    if isinstance(node, (list, tuple)):
        return any(has_expressions(one) for one in cast("list[object]", node))
    return False


def fields_of(tree: ast.Expression) -> Iterator[tuple[str, str]]:
    """Page and field of each ``$.page.field``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Property) and isinstance(node.target, ast.Property):
            root = node.target.target
            if isinstance(root, ast.Variable) and root.name in ("", "forms"):
                yield node.target.name, node.name


def _field_value(data: dict[str, Any], page: str, name: str) -> object:
    values = data.get(page)
    return cast("dict[str, object]", values).get(name) if isinstance(values, dict) else None


def generates(marked: Marked) -> bool:
    """Whether an expression has a function of `GENERATING`. Errors: ``FormError``."""
    return any(name in marked.text for name in GENERATING) and any(
        isinstance(node, (ast.Call, ast.MethodCall)) and node.name in GENERATING
        for node in ast.walk(marked.tree)
    )


# -- functions (B6) ------------------------------------------------------------------------------

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_counter = count()


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"


def random_hostname() -> str:
    """5 random letters, 8 digits of the time, a counter: 14 or 15 characters ``[a-z0-9]``."""
    letters = "".join(secrets.choice(_DIGITS[10:]) for _ in range(5))
    moment = _base36(int(time.time() * 1000))[-8:].rjust(8, "0")
    return letters + moment + _base36(next(_counter) % 1296)


def _generate_hostname(rt: Evaluation, pattern: object, number: object) -> str:
    text = "" if pattern is None else str(pattern)
    if not text or text.startswith(KEPT):
        return random_hostname()
    return _scope_of(rt).ingredients.host(text, number)


def _scope_of(rt: Evaluation) -> Scope:
    assert isinstance(rt, FormEvaluation)
    return rt.scope


def _repeat(rt: Evaluation, template: object, times: int) -> list[object]:
    rt.check_items(max(0, times))
    scope = _scope_of(rt)
    if scope.lazy:
        return [Repeated(template, number) for number in range(1, times + 1)]
    return [scope.with_index(number).value(template) for number in range(1, times + 1)]


def _range(rt: Evaluation, start: int, stop: int | None = None) -> Iterable[int]:
    """``0.range(3)``; without an end it goes on until it hits the limit of elements (B1)."""
    if stop is None:
        return _counted(rt, start)
    rt.check_items(max(0, stop - start))
    return list(range(start, stop))


def _counted(rt: Evaluation, start: int) -> Iterator[int]:
    for number in range(start, start + LIMITS.collection_items):
        rt.charge(1)
        yield number
    rt.check_items(LIMITS.collection_items + 1)


def _name(rt: Evaluation) -> str | None:
    return _scope_of(rt).ingredients.name


def _ref(
    rt: Evaluation, template_name: Text, parameter_name: object = None, id_only: bool | None = None
) -> object:
    if isinstance(parameter_name, bool):
        parameter_name, id_only = None, parameter_name
    scope = _scope_of(rt)
    key = str(parameter_name or template_name)
    known = scope.ingredients.made
    is_first = key not in known
    if is_first:
        template = scope.ingredients.templates.get(template_name)
        if not isinstance(template, dict):
            return None
        place = replace(scope, path=["ref", key])
        made = cast("dict[str, object]", place.value(template))
        header = made.setdefault("?", {})
        if not isinstance(header, dict):
            return None
        if "id" not in header:
            cast("dict[str, object]", header)["id"] = place.new_id()
        known[key] = made
    if id_only is None:
        id_only = not is_first
    return known[key]["?"]["id"] if id_only else known[key]


def _encrypt_data(rt: Evaluation, text: object) -> str:
    encrypt = _scope_of(rt).ingredients.encrypt
    if encrypt is None:
        raise FormError(
            "encryptData() needs a key manager to keep secrets in, and none is set up: ask the"
            " operator for one, or use a form without it"
        )
    return encrypt(str(text))


_SLASHED = re.compile(r"/(.*)/([A-Za-z]*)", re.DOTALL)
_FLAGS = "aimsux"


def split_pattern(pattern: str) -> tuple[str, str]:
    """A pattern and its flags. Errors: ``FormError`` for flags that there are not."""
    slashed = _SLASHED.fullmatch(pattern)
    if slashed is None:
        return pattern, ""
    flags = slashed[2].lower()
    unknown = sorted(set(flags) - set(_FLAGS))
    if unknown:
        raise FormError(f"The pattern {pattern!r:.200} has unknown flags: {', '.join(unknown)}")
    return slashed[1], "".join(dict.fromkeys(flags.replace("u", "")))


def matches(pattern: str, value: str) -> bool:
    """Whether a pattern is found in a text. Errors: ``FormError`` for a pattern that is wrong.

    It is searched by the expression language, which bounds the time of patterns that backtrack.
    """
    inner, flags = split_pattern(pattern)
    text = f"(?{flags}){inner}" if flags else inner
    search = compile("regex($.pattern).search($.value) != null")
    try:
        return bool(search.evaluate({"pattern": text, "value": value}, limits=LIMITS))
    except (YaqlException, ValueError, re.error) as error:
        raise FormError(f"The pattern {pattern!r:.200} of the form is wrong: {error}") from error
