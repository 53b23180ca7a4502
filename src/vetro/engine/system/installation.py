"""``Installation``: whether something has to be installed on a machine, by this package, with these values.

A program that compares a list of its own with what it has noted forgets something: the version of its
package, or that its machine was made anew. Here both count always (docs/decisions/0804).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, cast

from vetro.engine.services import ATTRIBUTE_KEPT
from vetro.engine.system.asked_rules import SHIPPED
from vetro.json_values import Json
from vetro.muranopl import CallContext, MuranoObject, MuranoType

if TYPE_CHECKING:
    from vetro.muranopl import MuranoPackage

CLASS = "io.murano.system.Installation"
INSTANCE = "io.murano.resources.Instance"
#: The record of what was begun: it equals nothing that is wanted.
BEGUN: dict[str, Json] = {"begun": True}


class Installation:
    """What an object has installed, and whether it is what is wanted now.

    ``of`` is who installs, ``on`` the machine, ``values`` what the result depends on; a machine among the
    values counts with its disk. The packages of the classes of ``of`` count with their versions and
    their contents, those that ship with Vetro do not. ``name`` tells several installations of one object
    on one machine apart.
    """

    def __init__(
        self,
        of: MuranoObject,
        on: MuranoObject | None = None,
        values: object = None,
        name: str = "install",
    ) -> None:
        self._of = of
        self._on = on
        self._attribute = name if on is None else f"{name}/{on.id}"
        self._values = _digest(values)

    def is_due(self, ctx: CallContext, marked: bool = False) -> bool:
        """Whether it was never done, or for another machine, package or values; if so, it begins.

        ``marked``: somebody knows that it was done, before records like this one were kept. That counts as
        done, and is noted, unless the machine was made anew since.
        """
        known = self._known(ctx)
        if known is None and marked and not self._was_made_anew():
            self.done(ctx)
            return False
        due = known != self._wanted()
        if due:
            self.begin(ctx)
        return due

    def begin(self, ctx: CallContext) -> None:
        """It is due until ``done()``, whatever is wanted then: half of it may be on the machine.

        ``isDue()`` begins by itself. A program that does not ask says it before it changes the machine.
        """
        if self._known(ctx) == BEGUN:
            return
        row: Json = [self._of.id, CLASS, self._attribute, BEGUN]

        async def kept() -> Json:
            return row

        # In the journal too: when the engine is killed, the model stays as it was before (0823).
        ctx.effect(ATTRIBUTE_KEPT, row, kept)
        self._note(ctx, BEGUN)

    def done(self, ctx: CallContext) -> None:
        """It was done: it is not due until something changes."""
        self._note(ctx, self._wanted())

    def forget(self, ctx: CallContext) -> None:
        """It is as if it had never been done."""
        self._note(ctx, None)

    def _note(self, ctx: CallContext, record: dict[str, Json] | None) -> None:
        ctx.set_attribute(self._attribute, record, of=self._of, owner=CLASS)

    def _known(self, ctx: CallContext) -> Json:
        return ctx.get_attribute(self._attribute, of=self._of, owner=CLASS)

    def _wanted(self) -> dict[str, Json]:
        # Not before: the machine may have been deployed since this object was made.
        machine = None if self._on is None else incarnation_of(self._on)
        return {"packages": _packages(self._of), "machine": machine, "values": self._values}

    def _was_made_anew(self) -> bool:
        """Whether the machine has another disk than it had when such things were not counted."""
        return self._on is not None and incarnation_of(self._on) != self._on.get("openstackId")


def incarnation_of(machine: MuranoObject) -> str | None:
    """Which disk a machine has; of a class that does not say it, its server."""
    found = machine.get("incarnation") or machine.get("openstackId")
    return None if found is None else str(found)


def _packages(of: MuranoObject) -> list[Json]:
    """The packages whose code the object runs: their versions and contents."""
    packages = {type_.package for type_ in of.type.ancestors}
    return sorted(_content(one) for one in packages if one.name not in SHIPPED)


def _content(package: MuranoPackage) -> str:
    # Not every source knows it: loose classes have no files.
    digest = getattr(package.source, "content_digest", "")
    return f"{package.name} {package.version} {digest}".strip()


def _digest(values: object) -> str:
    """Values may hold passwords: what is kept does not."""
    text = json.dumps(_plain(values), sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()


def _plain(value: object) -> Json:
    """A value as JSON: objects by their ids, machines with their disks."""
    if isinstance(value, MuranoObject):
        return [value.id, incarnation_of(value) if value.is_a(INSTANCE) else None]
    if isinstance(value, MuranoType):
        return value.name
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): _plain(one) for key, one in items}
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(one) for one in cast("set[object]", value)), key=repr)
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in cast("list[object]", value)]
    return value
