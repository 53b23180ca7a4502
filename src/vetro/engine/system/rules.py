"""Who asked for which rules of the security groups that applications share (decision 0581).

Rules are merged into the template; merging alone can only add. So what each application has asked for is
kept with the region, and what only removed applications have asked for is taken out when the environment is
deployed. A rule that nobody in particular has asked for stays.
"""

from __future__ import annotations

from vetro.engine.system.leaving import region_of
from vetro.engine.system.template_spelling import section
from vetro.json_values import Json
from vetro.muranopl import CallContext, MuranoObject, calling_objects

NOBODY = ""
"""In place of an application's id: the region itself, or whoever asked before this was kept."""


class AskedRules:
    """The rules of one stack's security groups."""

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
