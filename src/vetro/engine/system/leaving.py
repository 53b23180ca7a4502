"""Resources that leave a region's stack later than their object takes them out.

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
from vetro.muranopl import CallContext, MuranoObject


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


def application_of(one: MuranoObject | None) -> MuranoObject | None:
    """The outermost application that an object is in; one that a program has just made is in none."""
    found: MuranoObject | None = None
    while one is not None:
        if one.is_a("io.murano.Application"):
            found = one
        one = one.owner
    return found


def region_of(ctx: CallContext) -> MuranoObject | None:
    """The region of the stack that is called."""
    return None if ctx.this is None else ctx.this.find_owner("io.murano.CloudRegion")
