"""What is kept with a region about its stacks: resources that leave later, and who asked for rules.

Objects remove resources while others still use them (decision 0530). An object that is taken out of a
model may be used by one that stays: its volume, its network, its affinity group. That one lets go when it
is deployed, and until then everybody pushes. So what was removed stays in what is pushed until nothing
refers to it. What has to leave is kept in the model as well, for a session that comes when it may.
"""

from __future__ import annotations

from collections.abc import Iterable

from vetro.engine.system.template_parts import (
    named_in,
    with_needed,
    without,
    without_orphans,
)
from vetro.engine.system.template_spelling import section
from vetro.json_values import Json
from vetro.muranopl import CallContext, MuranoObject, calling_objects


class Leaving:
    """What has to leave one stack."""

    def __init__(self, stack: str) -> None:
        self._attribute = f"leaving {stack}"
        self._has: dict[str, Json] = {}
        """The resources that the back end has, or may have."""
        self._names: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._names)

    def has(self, name: str) -> bool:
        """Whether the back end has the resource, or may have it."""
        return name in self._has

    def found(self, ctx: CallContext, template: dict[str, Json]) -> dict[str, Json]:
        """The template of the back end without what earlier sessions have removed."""
        self._has = section(template, "resources")
        owner = region_of(ctx)
        names: list[str] = []
        if owner is not None:
            names = ctx.get_attribute(self._attribute, [], of=owner)
        self._names = {name for name in names if name in self._has}
        return without_orphans(without(template, self._names, []), template)

    def change(self, before: dict[str, Json], after: dict[str, Json], unmade: set[str]) -> None:
        """Objects have made ``after`` of the template ``before``; ``unmade``: what nobody ever made."""
        wanted = section(after, "resources").keys()
        gone = section(before, "resources").keys() - wanted - unmade
        self._names = (self._names | (gone & self._has.keys())) - wanted

    def replaced(self, template: dict[str, Json]) -> None:
        """A whole template was set: what it does not have is its author's decision."""
        self._names -= section(template, "resources").keys()

    def complete(self, template: dict[str, Json]) -> dict[str, Json]:
        """What is pushed: with what is still used, without outputs of what is not there."""
        template = without_orphans(template, {"resources": self._has})
        return with_needed(template, {name: self._has[name] for name in self._names})

    def pushed(self, template: dict[str, Json], *, well: bool) -> None:
        """The back end was given a template."""
        given = section(template, "resources")
        if well:
            self._has = given
            self._names &= given.keys()
        else:
            self._has = {**self._has, **given}

    def remember(self, ctx: CallContext) -> None:
        """Keep in the model what has to leave."""
        owner = region_of(ctx)
        if owner is not None:
            ctx.set_attribute(self._attribute, sorted(self._names) or None, of=owner)

    def forget(self, ctx: CallContext) -> None:
        """There is no stack."""
        self._has, self._names = {}, set()
        self.remember(ctx)

    def explained(self, template: dict[str, Json]) -> Iterable[str]:
        """Why what has to leave stays."""
        bodies = section(template, "resources")
        for name in sorted(self._names):
            users = sorted(user for user, body in bodies.items() if name in named_in(body))
            if users:
                yield f"{name} was removed; it stays until {', '.join(users)} no longer uses it"


def region_of(ctx: CallContext) -> MuranoObject | None:
    """The region of the stack that is called."""
    return None if ctx.this is None else ctx.this.find_owner("io.murano.CloudRegion")


NOBODY = ""
"""In place of an application's id: the region itself, or whoever asked before this was kept."""


class AskedRules:
    """Who asked for which rules of the security groups of a stack, which applications share (decision 0581).

    Rules are merged into the template; merging alone can only add. So what each application has asked
    for is kept with the region, and what only removed applications have asked for is taken out when the
    environment is deployed. A rule that nobody in particular has asked for stays.
    """

    def __init__(self, stack: str) -> None:
        self._attribute = f"rules {stack}"

    def note(
        self, ctx: CallContext, template: dict[str, Json], group: str, key: str, rules: list[Json]
    ) -> None:
        """The calling application asks for rules; ``template`` does not have them yet."""
        region = region_of(ctx)
        if region is None:
            return
        known = ctx.get_attribute(self._attribute, {}, of=region)
        rows: list[dict[str, Json]] = known.setdefault(group, [])
        there = _rules_of(template, group, key)
        who = _asking()
        for rule in rules:
            row = next((one for one in rows if one["key"] == key and one["rule"] == rule), None)
            if row is None:
                row = dict[str, Json](key=key, rule=rule, by=[NOBODY] if rule in there else [])
                rows.append(row)
            if who not in row["by"]:
                row["by"].append(who)
        ctx.set_attribute(self._attribute, known, of=region)

    def forsaken(self, ctx: CallContext) -> dict[str, list[tuple[str, Json]]]:
        """The rules, by groups, whose applications are all gone; they are not kept any more."""
        region = region_of(ctx)
        kept = None if region is None else ctx.get_attribute(self._attribute, of=region)
        known: dict[str, list[dict[str, Json]]] = kept or {}
        gone: dict[str, list[tuple[str, Json]]] = {}
        left: dict[str, list[Json]] = {}
        for group, rows in known.items():
            for row in rows:
                by: list[str] = [id_ for id_ in row["by"] if id_ == NOBODY or ctx.session.find(id_)]
                if by:
                    left.setdefault(group, []).append({**row, "by": by})
                else:
                    gone.setdefault(group, []).append((row["key"], row["rule"]))
        if left != known:
            ctx.set_attribute(self._attribute, left or None, of=region)
        return gone


def without_rules(
    template: dict[str, Json], gone: dict[str, list[tuple[str, Json]]]
) -> dict[str, Json]:
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


def _asking() -> str:
    """The id of the application in whose name the call is made."""
    for one in calling_objects():
        found: MuranoObject | None = None
        owner: MuranoObject | None = one
        while owner is not None:
            if owner.is_a("io.murano.Application"):
                found = owner
            owner = owner.owner
        if found is not None:
            return found.id
    return NOBODY
