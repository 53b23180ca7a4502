"""The values of a form's fields, read back from a component: the inverse of building one (B8).

    readings = read_back(definition, pages, component, parameters)

The ``Application`` section is walked beside the component. Where an expression is a field, the field
has the component's value. Where it computes with one field, values are tried until the expression gives
what the component has; so nothing is believed that building does not confirm. What cannot be read is
``kept``: the form shows no value of it, and it stays as it is in the component unless it is entered.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from vetro.digits import is_number
from vetro.json_values import JsonObject
from vetro.packages.forms.definition import MANAGEMENT, NAME, Definition, Page
from vetro.packages.forms.errors import FormError
from vetro.packages.forms.expressions import (
    FAILURES,
    Budget,
    Ingredients,
    Repeated,
    Scope,
    fields_of,
    has_expressions,
)
from vetro.packages.forms.fields import Field, FieldSource
from vetro.packages.forms.readers import as_text, rows_of
from vetro.packages.forms.source import Marked
from vetro.packages.forms.vocabulary import BOOLEANS, LINE_TYPES
from vetro.yaql import ast

Path = tuple[str, str]
MOST_TRIED = 64
"""Values, or combinations of values, that one expression is tried with."""
ROUNDS = 4
"""How often an expression of several fields is tried again, when some of them are known."""
_PROBE = "\1probe\1"


@dataclass(frozen=True)
class Readings:
    """``values`` by page and field; ``kept``: fields of which the component has what cannot be read;
    ``inactive``: fields of parts that the component does not have now; ``hosts``: numbers and the host names
    that were made with them, of fields that are patterns of names."""

    values: dict[Path, Any]
    kept: set[Path]
    inactive: set[Path]
    hosts: Mapping[Path, Sequence[tuple[object, str]]] = field(
        default_factory=dict[Path, Sequence[tuple[object, str]]]
    )


def read_back(
    definition: Definition,
    pages: Sequence[Page],
    component: Mapping[str, object],
    parameters: Mapping[str, object],
) -> Readings:
    """What a component tells about the fields of its form."""
    reader = _Reader(definition, pages, parameters)
    reader.read(definition.application, component)
    return reader.finished(component)


class _Reader:
    """One reading. ``found``: values; ``mixed``: fields of which the component has several."""

    def __init__(
        self, definition: Definition, pages: Sequence[Page], parameters: Mapping[str, object]
    ) -> None:
        self.definition = definition
        self.sources: dict[Path, FieldSource] = {
            (page.name, one.name): one for page in pages for one in page.fields
        }
        self.fields: dict[Path, Field] = {}
        self.data: JsonObject = {page.name: {} for page in pages}
        variables = {**definition.templates, **parameters, "forms": self.data}
        self.scope = Scope(
            self.data, variables, Ingredients("", definition.templates), Budget(), lazy=True
        )
        self.found: dict[Path, Any] = {}
        self.mixed: set[Path] = set()
        self.parts: dict[Path, dict[int, Any]] = {}
        self.hosts: dict[Path, list[tuple[object, str, bool]]] = {}
        self.met: set[Path] = set()
        self.waiting: list[tuple[Marked, Any, Scope]] = []

    def read(self, node: object, value: Any, scope: Scope | None = None) -> None:
        """Read what a part of the definition has become."""
        scope = scope or self.scope
        if isinstance(node, Marked):
            try:
                self._expression(node, node.tree, value, scope)
            except (FormError, *FAILURES):
                self.met.update(self._known_fields(node.tree))
        elif isinstance(node, Repeated):
            self.read(node.template, value, scope.with_index(node.number))
        elif isinstance(node, dict) and isinstance(value, dict):
            given = cast("dict[str, object]", value)
            names = {key for key in cast("dict[object, object]", node) if isinstance(key, str)}
            others = [key for key in given if key not in names and key != "?"]
            for key, one in cast("dict[object, object]", node).items():
                if isinstance(key, str) and key in given:
                    self.read(one, given[key], scope)
                elif isinstance(key, Marked) and len(others) == 1:
                    self.read(key, others[0], scope)
                    self.read(one, given[others[0]], scope)
                else:
                    self._meet([key, one])
        elif isinstance(node, (list, tuple)) and isinstance(value, list):
            items = cast("list[object]", value)
            for one, its in zip(cast("list[object]", node), items, strict=False):
                self.read(one, its, scope)
        else:
            self._meet(cast("object", node))

    def _meet(self, node: object) -> None:
        """Note the fields of what the component does not have."""
        if isinstance(node, Marked):
            self.met.update(self._known_fields(node.tree))
        elif isinstance(node, dict):
            for one in cast("dict[object, object]", node).values():
                self._meet(one)
        elif isinstance(node, (list, tuple)):
            for one in cast("list[object]", node):
                self._meet(one)

    def _known_fields(self, tree: ast.Expression) -> list[Path]:
        return [one for one in dict.fromkeys(fields_of(tree)) if one in self.sources]

    # -- expressions

    def _expression(self, marked: Marked, tree: ast.Expression, value: Any, scope: Scope) -> None:
        """Read one expression, or a part of one."""
        path = self._field(tree)
        if path is not None:
            self._have(path, value)
        elif isinstance(tree, ast.Index) and self._field(tree.target) is not None:
            self._element(tree, value)
        elif isinstance(tree, ast.Variable) and tree.name in scope.variables:
            self.read(scope.variables[tree.name], value, scope)
        elif isinstance(tree, ast.Call) and tree.name == "generateHostname":
            self._host(marked, tree, value, scope)
        elif isinstance(tree, ast.Call) and tree.name == "repeat" and isinstance(value, list):
            self._repeated(marked, tree, cast("list[Any]", value), scope)
        elif isinstance(tree, ast.Call) and tree.name == "name" and not tree.arguments:
            self._have((MANAGEMENT, NAME), value)
        elif isinstance(tree, ast.Call) and tree.name == "ref":
            word = tree.arguments[0] if tree.arguments else None
            name = word.name if isinstance(word, ast.Keyword) else getattr(word, "value", None)
            if isinstance(value, dict):
                self.read(self.definition.templates.get(str(name)), value, scope)
        elif isinstance(tree, ast.Call) and tree.name == "encryptData":
            self.met.update(self._known_fields(tree))
        elif _listed(tree) is not None and isinstance(value, list):
            parts, items = _listed(tree) or [], cast("list[Any]", value)
            for part, item in zip(parts, items, strict=False):
                self._expression(marked, part, item, scope)
        else:
            self._computed(_part(marked, tree), value, scope)

    def _field(self, tree: ast.Node) -> Path | None:
        """The field that an expression is."""
        if isinstance(tree, ast.Property) and isinstance(tree.target, ast.Property):
            root = tree.target.target
            if isinstance(root, ast.Variable) and root.name in ("", "forms"):
                path = (tree.target.name, tree.name)
                return path if path in self.sources else None
        return None

    def _have(self, path: Path, value: Any) -> None:
        self.met.add(path)
        if path in self.found and self.found[path] != value:
            self.mixed.add(path)
        elif path in self.sources:
            self.found[path] = value
            self.data[path[0]][path[1]] = value

    def _element(self, tree: ast.Index, value: Any) -> None:
        """An element of a field with several, such as a network and its subnet."""
        path = self._field(tree.target)
        place = tree.arguments[0] if len(tree.arguments) == 1 else None
        assert path is not None
        self.met.add(path)
        if isinstance(place, ast.Constant) and isinstance(place.value, int):
            known = self.parts.setdefault(path, {})
            if known.setdefault(place.value, value) != value:
                self.mixed.add(path)

    def _host(self, marked: Marked, tree: ast.Call, value: Any, scope: Scope) -> None:
        """A name that was made of a pattern: which pattern is decided when all are known."""
        path = self._field(tree.arguments[0]) if len(tree.arguments) == 2 else None
        if path is None or not isinstance(value, str):
            self.met.update(self._known_fields(tree))
            return
        self.met.add(path)
        number = scope.evaluate(_part(marked, cast("ast.Expression", tree.arguments[1])))
        self.hosts.setdefault(path, []).append((number, value, "index" in scope.variables))

    def _repeated(self, marked: Marked, tree: ast.Call, value: list[Any], scope: Scope) -> None:
        if len(tree.arguments) != 2:
            return
        template, times = (cast("ast.Expression", one) for one in tree.arguments)
        self._expression(marked, times, len(value), scope)
        node = scope.evaluate(_part(marked, template))
        for number, one in enumerate(value, 1):
            self.read(node, one, scope.with_index(number))

    def _computed(self, marked: Marked, value: Any, scope: Scope, *, again: bool = False) -> bool:
        """An expression that computes: the value of its field is one that gives what is there."""
        wanted = self._known_fields(marked.tree)
        unknown = [one for one in wanted if one not in self.found]
        for tried in self._trials(unknown, marked, value, scope):
            made = self._tried(marked, tried, scope)
            if made is not _FAILED and _fits(made, value):
                for path, one in tried.items():
                    if not _is_probe(one):
                        self._have(path, one)
                if _is_open(made):
                    self.read(made, value, scope)
                return True
        self.met.update(wanted)
        if unknown and not again:
            self.waiting.append((marked, value, scope))
        return False

    def _tried(self, marked: Marked, tried: Mapping[Path, object], scope: Scope) -> object:
        for (page, name), one in tried.items():
            self.data[page][name] = one
        try:
            return scope.evaluate(marked)
        except (FormError, *FAILURES):
            return _FAILED
        finally:
            for page, name in tried:
                self.data[page].pop(name, None)

    def _trials(
        self, unknown: list[Path], marked: Marked, value: Any, scope: Scope
    ) -> Iterator[dict[Path, object]]:
        """What the unknown fields may have: all values of those with few, and of one more."""
        if not unknown:
            yield {}
            return
        few = [one for one in unknown if self._values(one) is not None]
        others = [one for one in unknown if one not in few]
        combined = itertools.product(*(self._values(one) or [] for one in few))
        for chosen in itertools.islice(combined, MOST_TRIED):
            start = dict(zip(few, chosen, strict=True))
            if not others:
                yield start
                continue
            # A probe fits where a field has no part in what is there.
            yield {**start, **{one: _probe(self._settled(one)) for one in others}}
            if len(others) == 1:
                field = self._settled(others[0])
                for one in self._guesses(field, marked, {**start}, others[0], value, scope):
                    yield {**start, others[0]: one}

    def _settled(self, path: Path) -> Field:
        if path not in self.fields:
            self.fields[path] = self.sources[path].settle(self.scope)
        return self.fields[path]

    def _values(self, path: Path) -> list[object] | None:
        """All values of a field that has only few."""
        field = self._settled(path)
        if field.kind in BOOLEANS:
            return [False, True]
        if field.kind == "choice":
            return [one.value for one in field.own_choices][:MOST_TRIED]
        return None

    def _guesses(
        self,
        field: Field,
        marked: Marked,
        start: dict[Path, object],
        path: Path,
        value: Any,
        scope: Scope,
    ) -> Iterator[object]:
        """Values that may give what is there; each is tried."""
        if field.kind == "network":
            yield [None, None]
            yield [value, None]
            return
        if field.kind == "table":
            yield rows_of(value, field.columns())
            return
        if isinstance(value, list) and field.kind in ("integer", "instance"):
            count = len(cast("list[object]", value))
            yield from range(count, max(-1, count - MOST_TRIED), -1)
            return
        if field.kind in LINE_TYPES and value is None:
            yield ""
        elif field.kind in LINE_TYPES and isinstance(value, (bool, int, float)):
            yield as_text(value)
        elif field.kind == "integer" and is_number(text := str(cast("object", value))):
            yield int(text[:18])
        yield value
        yield from _joined(cast("object", value))
        if isinstance(value, str) and field.kind != "integer":
            made = self._tried(marked, {**start, path: _PROBE}, scope)
            if isinstance(made, str) and made.count(_PROBE) == 1:
                before, _, after = made.partition(_PROBE)
                if value.startswith(before) and value.endswith(after):
                    yield value[len(before) : len(value) - len(after)]
        goal = cast("object", value)
        if isinstance(goal, str) and is_number(goal):
            goal = int(goal)
        if isinstance(goal, (int, float)) and field.kind in ("integer", "instance"):
            ends = [self._tried(marked, {**start, path: one}, scope) for one in (0, 1)]
            low, high = ends
            if isinstance(low, (int, float)) and isinstance(high, (int, float)) and high != low:
                yield round((goal - low) / (high - low))

    # -- the end

    def finished(self, component: Mapping[str, object]) -> Readings:
        """Try what had to wait, decide the patterns, and say what is not known."""
        header = component.get("?")
        name = cast("JsonObject", header).get("name") if isinstance(header, dict) else None
        if isinstance(name, str) and name and (MANAGEMENT, NAME) in self.sources:
            self.found[MANAGEMENT, NAME] = name
            self.mixed.discard((MANAGEMENT, NAME))
        self.met.add((MANAGEMENT, NAME))
        for path, known in self.hosts.items():
            self._pattern(path, known)
        for path, parts in self.parts.items():
            if path not in self.found:
                self._have(path, [parts.get(0), parts.get(1)])
        for _ in range(ROUNDS):
            waiting, self.waiting = self.waiting, []
            left = [one for one in waiting if not self._computed(*one, again=True)]
            if len(left) == len(waiting):
                break
            self.waiting += left
        values = {path: one for path, one in self.found.items() if path not in self.mixed}
        kept = {one for one in self.met if one in self.sources and one not in values}
        self.met = set()
        self._meet([self.definition.application, *self.definition.templates.values()])
        hosts = {path: [one[:2] for one in known] for path, known in self.hosts.items()}
        return Readings(values, kept, self.met - kept - set(values), hosts)

    def _pattern(self, path: Path, known: list[tuple[object, str, bool]]) -> None:
        """The pattern of all names: with ``#`` where their numbers are, if they can become more."""
        if path in self.found:
            return
        known = [one for one in known if isinstance(one[0], int)] or known
        fitting: list[str] | None = None
        for _, name, _ in known:
            own = [
                f"{name[: one.start()]}#{name[one.end() :]}" for one in re.finditer("[0-9]+", name)
            ]
            fitting = own if fitting is None else [one for one in fitting if one in own]
        exact = [
            one
            for one in fitting or []
            if all(one.replace("#", str(number)) == name for number, name, _ in known)
        ]
        if len({name for _, name, _ in known}) > 1:
            if fitting:
                self._have(path, (exact or fitting)[-1])
        else:
            self._have(path, exact[-1] if exact and known[0][2] else known[0][1])


_FAILED = object()


def _part(marked: Marked, tree: ast.Expression) -> Marked:
    """A part of an expression as one of its own."""
    return Marked(marked.text[tree.start : tree.end], marked.line, marked.column)


def _listed(tree: ast.Expression) -> list[ast.Expression] | None:
    """The elements of a list that an expression writes down."""
    if isinstance(tree, ast.ListLiteral):
        found = tree.items
    elif isinstance(tree, ast.Call) and tree.name == "list":
        found = tree.arguments
    else:
        return None
    parts = [one for one in found if isinstance(one, ast.Expression)]
    return parts if len(parts) == len(found) else None


def _probe(field: Field) -> object:
    return [_PROBE, _PROBE] if field.kind == "network" else _PROBE


def _is_probe(value: object) -> bool:
    return value in (_PROBE, [_PROBE, _PROBE])


def _is_open(made: object) -> bool:
    """Whether there are templates in what an expression has made."""
    if isinstance(made, Repeated):
        return True
    if isinstance(made, (list, tuple)):
        return any(_is_open(one) for one in cast("list[object]", made))
    return has_expressions(made)


def _fits(made: object, value: object) -> bool:
    """Whether a component's value may come of what an expression has made, templates included."""
    if isinstance(made, Repeated):
        return _fits(made.template, value)
    if isinstance(made, Marked):
        return True
    if isinstance(made, dict):
        if not isinstance(value, dict):
            return False
        there = cast("dict[str, object]", value)
        for key, one in cast("dict[object, object]", made).items():
            if key == "?":
                if _class(one) not in (None, _class(there.get("?"))):
                    return False
            elif isinstance(key, str) and not _fits(one, there.get(key)):
                return False
        return True
    if isinstance(made, (list, tuple)):
        if not isinstance(value, list):
            return False
        parts, items = cast("list[object]", made), cast("list[object]", value)
        return len(parts) == len(items) and all(map(_fits, parts, items))
    if isinstance(made, bool) or isinstance(value, bool) or made is None or value is None:
        return made is value
    # Contracts make numbers of texts, and texts of numbers.
    return made == value or as_text(made) == as_text(value)


def _class(header: object) -> object:
    given = cast("JsonObject", header).get("type") if isinstance(header, dict) else None
    return None if isinstance(given, Marked) else str(given).partition("/")[0]


def _joined(value: object) -> Iterator[str]:
    """Lists and maps of scalars as fields of text take them."""
    if isinstance(value, list):
        items = cast("list[object]", value)
        if not any(isinstance(one, (dict, list)) for one in items):
            for between in ("\n", ", ", ",", " ", ";"):
                yield between.join(as_text(one) for one in items)
    elif isinstance(value, dict):
        lines: list[str] = []
        for key, one in cast("JsonObject", value).items():
            several = cast("list[object]", one) if isinstance(one, list) else [one]
            lines.append(f"{key}={', '.join(as_text(part) for part in several)}")
        yield "\n".join(lines)
