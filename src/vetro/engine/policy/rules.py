"""Rules in the form that Congress had: Datalog with negation, comparisons and ``concat``.

::

    // Nothing may be public.
    predeploy_errors(eid, oid, msg) :-
        murano:properties(oid, "assignFloatingIp", "True"), murano:connected(eid, oid),
        concat("No floating address for ", oid, msg)

A rule ends where the next begins, or with a period. Names that begin with a letter or ``_`` are variables;
texts are in quotes, numbers without. ``not`` asks that there is no such fact; ``equal``, ``lt``, ``lteq``,
``gt``, ``gteq`` compare (numbers as numbers), ``concat(a, b, c)`` makes c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

Row = tuple[str, ...]
MOST_STEPS = 5_000_000
"""Facts that one question may look at; a rule that joins everything with everything needs more."""
_TOKEN = re.compile(
    r"\s+|(?://|#)[^\n]*"
    r'|(?P<text>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
    r"|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<name>[A-Za-z_][\w.]*(?::[A-Za-z_][\w.]*)?[+]?)"
    r"|(?P<mark>:-|[(),.])"
)
_COMPARISONS = {"equal", "lt", "lteq", "gt", "gteq"}
_BUILT_IN = {**dict.fromkeys(_COMPARISONS, 2), "concat": 3}


class RulesError(ValueError):
    """Rules that cannot be read, or take too long; the text says where."""


@dataclass(frozen=True)
class Variable:
    """A name that stands for any value."""

    name: str


Term = Variable | str


@dataclass(frozen=True)
class Atom:
    """A table with terms; ``negated``: there is no such fact."""

    table: str
    terms: tuple[Term, ...]
    negated: bool = False

    @property
    def variables(self) -> set[Variable]:
        """The variables among the terms."""
        return {one for one in self.terms if isinstance(one, Variable)}


@dataclass(frozen=True)
class Rule:
    """``head`` holds when all of ``body`` do."""

    head: Atom
    body: tuple[Atom, ...]
    line: int


class Rules:
    """Rules that were read and ordered: a table is complete before a negation reads it."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = list(rules)
        self.layers = _layers(self.rules)

    def derive(self, facts: Mapping[str, Iterable[Row]]) -> dict[str, set[Row]]:
        """All facts that follow, with the given ones. Errors: ``RulesError``."""
        tables = _Tables(facts)
        for layer in self.layers:
            grown = True
            while grown:
                grown = False
                for rule in layer:
                    # A list: the rule may read the table that it writes.
                    for row in list(tables.rows_of(rule)):
                        grown = tables.add(rule.head.table, row) or grown
        return tables.rows


def read_rules_text(text: str) -> Rules:
    """Read rules. Errors: ``RulesError`` with the line."""
    return Rules(_Reader(text).rules())


class _Tables:
    """Facts, found by any of their places."""

    def __init__(self, facts: Mapping[str, Iterable[Row]]) -> None:
        self.rows: dict[str, set[Row]] = {name: set(rows) for name, rows in facts.items()}
        self._found: dict[tuple[str, tuple[int, ...]], dict[Row, list[Row]]] = {}
        self._steps = 0

    def add(self, table: str, row: Row) -> bool:
        rows = self.rows.setdefault(table, set())
        if row in rows:
            return False
        rows.add(row)
        for (name, places), index in self._found.items():
            if name == table and len(row) > max(places, default=-1):
                index.setdefault(tuple(row[place] for place in places), []).append(row)
        return True

    def rows_of(self, rule: Rule) -> Iterator[Row]:
        """The rows that a rule gives now."""
        for bound in self._solve(list(rule.body), {}):
            yield tuple(_value(term, bound) or "" for term in rule.head.terms)

    def _solve(self, body: list[Atom], bound: dict[Variable, str]) -> Iterator[dict[Variable, str]]:
        if not body:
            yield bound
            return
        at = min(range(len(body)), key=lambda place: _cost(body[place], bound))
        atom, rest = body[at], body[:at] + body[at + 1 :]
        if atom.table in _BUILT_IN and _cost(atom, bound) > 0:
            names = ", ".join(sorted(one.name for one in atom.variables if one not in bound))
            raise RulesError(f"nothing says what {names} is, of {atom.table}")
        for found in self._match(atom, bound):
            yield from self._solve(rest, found)

    def _match(self, atom: Atom, bound: dict[Variable, str]) -> Iterator[dict[Variable, str]]:
        self._steps += 1
        if atom.table in _BUILT_IN:
            if (found := _built_in(atom, bound)) is not None:
                yield found
            return
        places = tuple(i for i, one in enumerate(atom.terms) if _value(one, bound) is not None)
        wanted = tuple(_value(atom.terms[place], bound) or "" for place in places)
        rows = self._index(atom.table, places).get(wanted, [])
        if atom.negated:
            if not any(_agrees(atom, row, bound) for row in rows):
                yield bound
            return
        for row in list(rows):
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise RulesError(
                    f"the rules look at more than {MOST_STEPS} facts; join their tables by shared names"
                )
            found = _agrees(atom, row, bound)
            if found is not None:
                yield found

    def _index(self, table: str, places: tuple[int, ...]) -> dict[Row, list[Row]]:
        index = self._found.get((table, places))
        if index is None:
            index = self._found[table, places] = {}
            for row in sorted(self.rows.get(table, ())):
                if len(row) > max(places, default=-1):
                    index.setdefault(tuple(row[place] for place in places), []).append(row)
        return index


def _value(term: Term, bound: Mapping[Variable, str]) -> str | None:
    return bound.get(term) if isinstance(term, Variable) else term


def _cost(atom: Atom, bound: Mapping[Variable, str]) -> float:
    """What to ask first: what is known is only compared; then tables with the fewest unknowns."""
    unknown = sum(one not in bound for one in atom.variables)
    if atom.table == "concat" and _value(atom.terms[0], bound) is not None:
        unknown = int(_value(atom.terms[1], bound) is None)
    elif atom.table == "equal":
        unknown = int(unknown == len(atom.terms))
    if atom.negated or atom.table in _BUILT_IN:
        return -1 if not unknown else 1000
    return unknown - 0.1 * (len(atom.terms) - unknown)


def _agrees(atom: Atom, row: Row, bound: dict[Variable, str]) -> dict[Variable, str] | None:
    """What is bound when a fact is taken for an atom; ``None`` when it is another."""
    if len(row) != len(atom.terms):
        return None
    found = dict(bound)
    for term, value in zip(atom.terms, row, strict=True):
        if isinstance(term, Variable):
            if found.setdefault(term, value) != value:
                return None
        elif term != value:
            return None
    return found


def _built_in(atom: Atom, bound: dict[Variable, str]) -> dict[Variable, str] | None:
    values = [_value(one, bound) for one in atom.terms]
    if atom.table == "concat":
        made = f"{values[0]}{values[1]}"
        return _agrees(Atom("", (atom.terms[2],)), (made,), bound)
    one, other = values
    if atom.table == "equal" and not atom.negated and (one is None or other is None):
        known = one if other is None else other
        return _agrees(Atom("", atom.terms), (known or "", known or ""), bound)
    holds = _compare(atom.table, one or "", other or "")
    return bound if holds != atom.negated else None


def _compare(name: str, one: str, other: str) -> bool:
    try:
        smaller, same = float(one) < float(other), float(one) == float(other)
    except ValueError:
        smaller, same = one < other, one == other
    if name == "equal":
        return same
    return {
        "lt": smaller,
        "lteq": smaller or same,
        "gt": not smaller and not same,
        "gteq": not smaller,
    }[name]


def _layers(rules: list[Rule]) -> list[list[Rule]]:
    """Rules in groups: whatever a group negates is made by earlier ones."""
    height = {rule.head.table: 0 for rule in rules}
    for _ in range(len(height) + 1):
        changed = False
        for rule in rules:
            for atom in rule.body:
                needed = height.get(atom.table, 0) + atom.negated
                if atom.table in height and height[rule.head.table] < needed:
                    height[rule.head.table] = needed
                    changed = True
                    if needed > len(height):
                        raise RulesError(
                            f"line {rule.line}: {rule.head.table} depends on there being no"
                            f" {atom.table}, which depends on {rule.head.table}"
                        )
        if not changed:
            break
    most = max(height.values(), default=0)
    return [[one for one in rules if height[one.head.table] == at] for at in range(most + 1)]


class _Reader:
    """Reads a text rule by rule."""

    def __init__(self, text: str) -> None:
        self.tokens = list(self._tokens(text))
        self.at = 0

    def _tokens(self, text: str) -> Iterator[tuple[str, str, int]]:
        at, line = 0, 1
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise RulesError(f"line {line}: cannot be read at {text[at : at + 20]!r}")
            if found.lastgroup is not None:
                yield found.lastgroup, found[0], line
            line += found[0].count("\n")
            at = found.end()
        yield "end", "", line

    def rules(self) -> Iterator[Rule]:
        """All rules."""
        while self.tokens[self.at][0] != "end":
            line = self.tokens[self.at][2]
            head = self._atom()
            body: list[Atom] = []
            if self._takes(":-"):
                body.append(self._atom())
                while self._takes(","):
                    body.append(self._atom())
            self._takes(".")
            yield self._checked(Rule(head, tuple(body), line))

    def _checked(self, rule: Rule) -> Rule:
        """A rule that says what everything is. Errors: ``RulesError``."""
        if rule.head.negated or rule.head.table in _BUILT_IN or ":" in rule.head.table:
            raise RulesError(f"line {rule.line}: {rule.head.table} cannot be what a rule makes")
        known = {one for atom in rule.body if not atom.negated for one in atom.variables
                 if atom.table not in _COMPARISONS or atom.table == "equal"}  # fmt: skip
        # That there is no fact with any value there: _ after not.
        used = rule.head.variables.union(
            *(
                {one for one in atom.variables if not (atom.negated and one.name.startswith("_ "))}
                for atom in rule.body
            )
        )
        for one in sorted(used - known, key=lambda one: one.name):
            raise RulesError(f"line {rule.line}: nothing says what {one.name} is")
        for atom in rule.body:
            wanted = _BUILT_IN.get(atom.table)
            if wanted is not None and len(atom.terms) != wanted:
                raise RulesError(f"line {rule.line}: {atom.table} takes {wanted} values")
            if atom.table == "concat" and atom.negated:
                raise RulesError(f"line {rule.line}: concat cannot be negated")
        return rule

    def _takes(self, mark: str) -> bool:
        kind, text, _ = self.tokens[self.at]
        if kind != "mark" or text != mark:
            return False
        self.at += 1
        return True

    def _needs(self, mark: str) -> None:
        if not self._takes(mark):
            _, text, line = self.tokens[self.at]
            raise RulesError(f"line {line}: {mark} is missing before {text or 'the end'!r}")

    def _atom(self) -> Atom:
        kind, name, line = self.tokens[self.at]
        negated = kind == "name" and name == "not"
        if negated:
            self.at += 1
            kind, name, line = self.tokens[self.at]
        if kind != "name":
            raise RulesError(f"line {line}: the name of a table is missing before {name!r}")
        self.at += 1
        self._needs("(")
        terms: list[Term] = []
        if not self._takes(")"):
            terms.append(self._term())
            while self._takes(","):
                terms.append(self._term())
            self._needs(")")
        return Atom(name.removesuffix("+"), tuple(terms), negated)

    def _term(self) -> Term:
        kind, text, line = self.tokens[self.at]
        self.at += 1
        if kind == "name":
            # Each _ is another one.
            return Variable(f"_ {self.at}" if text == "_" else text)
        if kind == "number":
            return text
        if kind == "text":
            return re.sub(r"\\(.)", r"\1", text[1:-1])
        raise RulesError(f"line {line}: a value is missing before {text or 'the end'!r}")
