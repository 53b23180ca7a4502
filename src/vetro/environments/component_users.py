"""Who uses a component: references of others to it and to the objects in it (catalog-api.md §5.3).

A reference is the id of an object in a property of another one. When a component is taken out that others
still refer to, each deployment fails. A caller can ask to be refused before that (``uses=refuse``), and
its deployment is refused at the latest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from vetro.environments.model import Json, component_name, components, object_id, walk
from vetro.http import Conflict
from vetro.json_values import JsonObject

_Path = tuple[str | int, ...]
_Owner = tuple[str, str]


@dataclass(frozen=True)
class Use:
    """One reference from a component to something that was taken out."""

    component: str
    """The name of the component that refers, or its id."""
    component_id: str
    path: str
    """Of the reference, dotted, from the component: ``database.server``."""
    of: str
    """The name of the component that it needs, or its id."""
    id: str
    """The object that it needs."""
    is_own: bool = False
    """Whether that was in the same component."""

    @property
    def gone(self) -> str:
        """What was taken out."""
        return f"a part of {self.of}" if self.is_own else self.of

    @property
    def text(self) -> str:
        """``blog (database) uses db``; ``blog (server) refers to it itself``."""
        what = "refers to it itself" if self.is_own else f"uses {self.of}"
        return f"{self.component} ({self.path}) {what}"

    def as_json(self) -> JsonObject:
        """As refusals give it."""
        return {
            "component": self.component,
            "component_id": self.component_id,
            "path": self.path,
            "of": self.of,
            "id": self.id,
        }


class Dangling(Conflict):
    """409: components refer to what was taken out. Nothing was changed."""

    def __init__(self, uses: Sequence[Use], message: str) -> None:
        super().__init__(
            message, type_="ComponentInUse", extra={"uses": [one.as_json() for one in uses]}
        )
        self.uses = list(uses)


def owners(objects: Json) -> dict[str, _Owner]:
    """The component's name and id for the id of each object in the components of a root object."""
    return {
        str(object_id(node)): (component_name(service), str(object_id(service)))
        for service in components(objects)
        for node in walk(service)
    }


def uses(objects: Json, gone: Mapping[str, _Owner]) -> list[Use]:
    """The references in a root object's components to what is ``gone``, as of `owners`."""
    found: list[Use] = []
    for service in components(objects) if gone else ():
        for path, id_ in _texts(service):
            if id_ in gone:
                where = ".".join(map(str, path))
                user = str(object_id(service))
                of, owner = gone[id_]
                name = component_name(service)
                found.append(Use(name, user, where, of, id_, is_own=owner == user))
    return found


def gone_between(before: Mapping[str, _Owner], objects: Json) -> dict[str, _Owner]:
    """What is in ``before`` (`owners` of an earlier model) and in no place of a root object any more."""
    there = {str(object_id(node)) for node in walk(objects)}
    return {id_: owner for id_, owner in before.items() if id_ not in there}


def refuse_used(before: Mapping[str, _Owner], objects: Json) -> None:
    """Refuse a change that takes out what other components use. Errors: 409 that names them."""
    found = [one for one in uses(objects, gone_between(before, objects)) if not one.is_own]
    if found:
        of = ", ".join(dict.fromkeys(one.of for one in found))
        raise Dangling(
            found,
            f"{of} is in use: {described(found)}. Nothing was taken out. Let them use another one or none"
            " first, or take them out as well",
        )


def dangling(deployed: Sequence[Json], objects: Json) -> Dangling | None:
    """The refusal to deploy components that refer to what is in a ``deployed`` model and not in theirs.

    Those in values that programs have written do no harm: only an engine knows (`Upgrades.needs`).
    """
    before: dict[str, _Owner] = {}
    for one in deployed:
        before = {**before, **owners(one)}
    found = uses(objects, gone_between(before, objects))
    if not found:
        return None
    of = ", ".join(dict.fromkeys(one.gone for one in found))
    return Dangling(
        found,
        f"{of} was taken out and is in use: {described(found)}. Nothing was deployed: let them use another"
        " one or none, or take the removal back by dropping the session's changes (vetro env changes"
        " --discard)",
    )


def described(found: Sequence[Use]) -> str:
    """``blog (database) uses db; shop (database) uses db``."""
    return "; ".join(one.text for one in found)


def _texts(service: JsonObject) -> Iterator[tuple[_Path, str]]:
    """The texts in the properties of a component's objects, with their paths."""
    waiting: list[tuple[Json, _Path]] = [(service, ())]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, list):
            items = enumerate(cast("list[Json]", value))
            waiting.extend(reversed([(one, (*path, place)) for place, one in items]))
        elif isinstance(value, dict):
            members = cast("JsonObject", value).items()
            waiting.extend(reversed([(one, (*path, key)) for key, one in members if key != "?"]))
