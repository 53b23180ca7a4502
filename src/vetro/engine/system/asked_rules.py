"""Who asked for which rules of a stack's security groups, which applications share (decisions 0581, 0795).

Rules are merged into the template, and merging alone can only add. So the region keeps, for each rule, the
places of programs that have asked for it. What a place asked for before, and does not ask for in a whole
deployment in which it asks at all, is given up. A place that is not reached gives nothing up: most packages
ask once, when they are installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias, cast

from vetro.engine.system.leaving import application_of, region_of
from vetro.engine.system.template_spelling import section
from vetro.json_values import Json
from vetro.muranopl import CallContext, MuranoObject, MuranoType, calling_places, statements_of

if TYPE_CHECKING:
    from vetro.muranopl import CallingPlace

NOBODY = ""
"""In place of who asked: the region itself, or whoever asked before this was kept."""
SHIPPED = ("io.murano", "io.murano.applications")
"""Packages whose code comes with Vetro."""

Rules: TypeAlias = dict[str, list[tuple[str, Json]]]
"""Rules by groups: the property that has them, and what they say."""
Statement: TypeAlias = tuple[str, str, bool]
"""A class, a digest of a method and a statement of it, and whether it was run for the place's object."""
_Name: TypeAlias = tuple[str, str, str]
"""A rule: its group, the property that has it, and its text."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program asks: the statements that lead to it from the nearest ``deploy`` on, for one object."""

    application: str
    object: str
    statements: tuple[Statement, ...]


@dataclass(slots=True)
class _Asker:
    """Who asked for one rule; without a place it was written down before places were."""

    application: str
    place: Place | None = None
    is_kept: bool = False
    """Whether the place's object was in the model after a deployment: when it is gone, it was removed."""

    @classmethod
    def read(cls, kept: Json) -> _Asker:
        if isinstance(kept, str):
            return cls(kept)
        row = cast("dict[str, Json]", kept)
        statements = tuple(cast("Statement", tuple(one)) for one in row["at"])
        place = Place(row["app"], row["object"], statements)
        return cls(place.application, place, bool(row.get("kept")))

    def written(self) -> Json:
        if self.place is None:
            return self.application
        return {
            "app": self.application,
            "object": self.place.object,
            "at": [list(one) for one in self.place.statements],
            **({"kept": True} if self.is_kept else {}),
        }


@dataclass(slots=True)
class _Row:
    """One rule of a group, and who asked for it."""

    group: str
    key: str
    rule: Json
    by: list[_Asker]

    @property
    def name(self) -> _Name:
        return self.group, self.key, json.dumps(self.rule, sort_keys=True)


@dataclass(slots=True)
class _Now:
    """What was asked since the session began, or since the last whole deployment."""

    rules: dict[Place, set[_Name]] = field(default_factory=dict[Place, set[_Name]])
    code: dict[str, dict[str, set[str]]] = field(default_factory=dict[str, dict[str, set[str]]])
    """By application and class: the statements of the classes that were running then."""


class AskedRules:
    """The rules of one stack."""

    def __init__(self, stack: str) -> None:
        self._attribute = f"rules {stack}"
        self._now = _Now()
        self._rows: dict[_Name, _Row] | None = None
        """As they are kept with the region; read once in a session."""
        self._code: dict[MuranoType, set[str]] = {}
        self._is_written, self._writes = True, False

    def note(
        self, ctx: CallContext, template: dict[str, Json], group: str, key: str, rules: list[Json]
    ) -> None:
        """The calling program asks for rules; ``template`` does not have them yet."""
        region = region_of(ctx)
        if region is None:
            return
        rows = self._kept(ctx, region)
        there = _rules_of(template, group, key)
        place = self._calling_place()
        asker = _Asker(NOBODY) if place is None else _Asker(place.application, place)
        asked = set[_Name]() if place is None else self._now.rules.setdefault(place, set())
        is_new = False
        for rule in rules:
            new = _Row(group, key, rule, [_Asker(NOBODY)] if rule in there else [])
            row = rows.setdefault(new.name, new)
            asked.add(row.name)
            if all((one.application, one.place) != (asker.application, place) for one in row.by):
                # From now on it is known where this application asks for it.
                row.by = [one for one in row.by if one != _Asker(asker.application)]
                row.by.append(asker)
                is_new = True
        if is_new:
            self._write_later(ctx, region)

    def forsaken(self, ctx: CallContext) -> Rules:
        """The rules whose applications or objects are all gone."""
        return self._settled(ctx, is_whole=False)[1]

    def given_up(self, ctx: CallContext) -> Rules:
        """The rules that nobody asks for any more, now that a whole deployment has ended well.

        `forget` them when the stack does not have them any more.
        """
        return self._settled(ctx, is_whole=True)[1]

    def forget(self, ctx: CallContext) -> None:
        """The stack has the rules that are asked for, and no others."""
        region = region_of(ctx)
        if region is not None:
            self._rows = {row.name: row for row in self._settled(ctx, is_whole=True)[0]}
            self._write_later(ctx, region)
        self._now = _Now()

    def _settled(self, ctx: CallContext, *, is_whole: bool) -> tuple[list[_Row], Rules]:
        """The rules that somebody asks for, and the others."""
        region = region_of(ctx)
        left: list[_Row] = []
        gone: Rules = {}
        model = _Model(ctx)
        rows = {} if region is None else self._kept(ctx, region)
        for row in rows.values():
            by = [
                asker
                for one in row.by
                if (asker := self._stays(model, row, one, is_whole=is_whole)) is not None
            ]
            if by:
                left.append(_Row(row.group, row.key, row.rule, by))
            else:
                gone.setdefault(row.group, []).append((row.key, row.rule))
        return left, gone

    def _stays(self, model: _Model, row: _Row, asker: _Asker, *, is_whole: bool) -> _Asker | None:
        """Who asked for a rule, if that still counts."""
        if asker.application == NOBODY:
            return asker
        if model.find(asker.application) is None:
            return None
        place = asker.place
        if place is None:
            return asker
        target = model.find(place.object)
        if target is None and asker.is_kept:
            return None
        if is_whole:
            if place in self._now.rules:
                if row.name not in self._now.rules[place]:
                    return None
            elif self._is_elsewhere(place, target):
                return None
        if target is None:
            # An object for the time of a deployment: the application stands for it.
            return asker
        return _Asker(asker.application, place, asker.is_kept or model.has(target))

    def _is_elsewhere(self, place: Place, target: MuranoObject | None) -> bool:
        """Whether the application asks at another place instead: its code was changed, the object has another
        class, or is one that is made anew each time."""
        code = self._now.code.get(place.application)
        if code is None:
            return False
        if any(name in code and text not in code[name] for name, text, _ in place.statements):
            return True
        if target is not None:
            classes = {one.name for one in target.type.ancestors}
            return any(is_own and name not in classes for name, _, is_own in place.statements)
        return any(
            one.application == place.application and one.statements == place.statements
            for one in self._now.rules
        )

    def _calling_place(self) -> Place | None:
        """Where the running program asks; None when it does so for no application."""
        application: MuranoObject | None = None
        target: MuranoObject | None = None
        found: list[CallingPlace] = []
        types: dict[MuranoType, None] = {}
        is_deploying = False
        for one in calling_places():
            types[one.owner] = None
            if one.this is not None:
                application = application or application_of(one.this)
                # Also what it has left to the classes that it extends.
                types.update(dict.fromkeys(one.this.type.ancestors))
            if one.method and not is_deploying:
                found.append(one)
                target = one.this or target
                is_deploying = one.method == "deploy"
        if application is None:
            return None
        code = self._now.code.setdefault(application.id, {})
        for type_ in types:
            if type_.name not in code:
                code[type_.name] = self._statements(type_)
        object_id = application.id if target is None else target.id
        statements = tuple(
            _statement(one.owner, one.method, one.statement, is_own=one.this is target)
            for one in found
        )
        return Place(application.id, object_id, statements)

    def _statements(self, type_: MuranoType) -> set[str]:
        if type_ not in self._code:
            self._code[type_] = {_digest(type_, *one) for one in statements_of(type_)}
        return self._code[type_]

    def _kept(self, ctx: CallContext, region: MuranoObject) -> dict[_Name, _Row]:
        if self._rows is None:
            known: dict[str, list[dict[str, Json]]]
            known = ctx.get_attribute(self._attribute, {}, of=region)
            rows = [
                _Row(group, one["key"], one["rule"], [_Asker.read(by) for by in one["by"]])
                for group, of_group in known.items()
                for one in of_group
            ]
            self._rows = {row.name: row for row in rows}
        return self._rows

    def _write_later(self, ctx: CallContext, region: MuranoObject) -> None:
        """Keep what is known with the region when the program ends, however it does."""

        def write() -> None:
            if self._is_written:
                return
            known: dict[str, list[Json]] = {}
            for row in (self._rows or {}).values():
                by = [one.written() for one in row.by]
                known.setdefault(row.group, []).append({"key": row.key, "rule": row.rule, "by": by})
            ctx.set_attribute(self._attribute, known or None, of=region)
            self._is_written = True

        self._is_written = False
        if not self._writes:
            self._writes = True
            ctx.session.on_finish(write)


class _Model:
    """The objects that there are, and those of them that will be written down."""

    def __init__(self, ctx: CallContext) -> None:
        self.find = ctx.session.find
        self._held: dict[str, set[str]] = {}

    def has(self, one: MuranoObject) -> bool:
        """Whether the owners of an object hold it in their properties, up to the outermost."""
        owner = one.owner
        if owner is None:
            return True
        held = self._held.get(owner.id)
        if held is None:
            stored = [
                name
                for name in owner.type.property_names()
                if (known := owner.type.find_property(name)) is not None and known.is_stored
            ]
            values = [owner.get(name) for name in stored]
            held = self._held[owner.id] = {one.id for one in _objects_in(values)}
        return one.id in held and self.has(owner)


def without_rules(template: dict[str, Json], gone: Rules) -> dict[str, Json]:
    """A template without rules; a group that has none any more goes as well."""
    resources = dict(section(template, "resources"))
    for group, rules in gone.items():
        body: Json = resources.get(group)
        if not body:
            continue
        properties: dict[str, Json] = dict(body.get("properties") or {})
        for key in {key for key, _ in rules}:
            dropped = [rule for its, rule in rules if its == key]
            rules_left: list[Json] = properties.get(key) or []
            properties[key] = [one for one in rules_left if one not in dropped]
        if any(properties.get(key) for key, _ in rules):
            resources[group] = {**body, "properties": properties}
        else:
            del resources[group]
    return {**template, "resources": resources}


def _rules_of(template: dict[str, Json], group: str, key: str) -> list[Json]:
    body: Json = section(template, "resources").get(group) or {}
    properties: Json = body.get("properties") or {}
    return properties.get(key) or []


def _objects_in(value: Json) -> Iterator[MuranoObject]:
    if isinstance(value, MuranoObject):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[str, Json]", value).values():
            yield from _objects_in(item)
    elif isinstance(value, list | tuple):
        for item in cast("list[Json]", value):
            yield from _objects_in(item)


def _statement(type_: MuranoType, method: str, text: str, *, is_own: bool) -> Statement:
    return type_.name, _digest(type_, method, text), is_own


def _digest(type_: MuranoType, method: str, text: str) -> str:
    # A new release of Vetro may put other words into its methods, and is no reason to close a port.
    said = "" if type_.package.name in SHIPPED else text
    return blake2b(f"{method}\n{said}".encode(), digest_size=8).hexdigest()
