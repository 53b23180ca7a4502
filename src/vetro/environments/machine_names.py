"""Host names in a model: a machine has its own for its life (core-library.md §5.2).

A machine is the resource of its region's stack that has its host name. Of two machines of one name the
second would take over the first one's, with its data. So a change that gives a name twice is refused, and
``web-#`` asks for the next number that is free.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import cast

from vetro.environments.model import Json, component_name, components, header, object_id
from vetro.http import Conflict
from vetro.json_values import JsonObject

LONGEST = 63
"""Letters of a host name."""
PLACE = "#"
"""Stands for a number in a host name: its first one."""
_Key = tuple[str, str]
_Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Machine:
    """A machine in a model: its object, where it is, and the region that it is made in."""

    node: JsonObject
    component: str
    """The name of the application that it is in, or its id."""
    path: str
    """Dotted, from the application: ``instance.name``."""
    region: str

    @property
    def id(self) -> str:
        """The object's."""
        return str(object_id(self.node))

    @property
    def name(self) -> str:
        """As it is written."""
        return str(self.node["name"])

    @property
    def key(self) -> _Key:
        """Equal for machines that would be one."""
        return self.region, host_name(self.name)

    def __str__(self) -> str:
        return f"{self.component} ({self.path})"


def host_name(name: str) -> str:
    """What a guest makes of a name: ``Web_1.example`` and ``web-1-example`` are one host."""
    plain = name.strip().lower()
    return re.sub(r"[^a-z0-9-]+", "-", plain).strip("-")[:LONGEST].strip("-") or plain


def machines(objects: Json) -> Iterator[Machine]:
    """The machines in the applications of a root object, in either spelling of it.

    A service does not know classes: a machine is what has a host name and a flavor, inside an
    application. Those that only programs make are not in a model before; the engine refuses them.
    """
    home = cast("JsonObject", objects).get("region") if isinstance(objects, dict) else None
    for service in components(objects):
        region = home if isinstance(home, str) else ""
        yield from _below(service, component_name(service), region)


def _below(service: JsonObject, component: str, home: str) -> Iterator[Machine]:
    waiting: list[tuple[Json, _Path, str]] = [(service, (), home)]
    while waiting:
        value, path, region = waiting.pop()
        if isinstance(value, list):
            items = enumerate(cast("list[Json]", value))
            waiting.extend(reversed([(one, (*path, place), region) for place, one in items]))
            continue
        if not isinstance(value, dict):
            continue
        node = cast("JsonObject", value)
        if header(node) is not None:
            own = node.get("regionName")
            region = own if isinstance(own, str) else region
            name = node.get("name")
            if path and isinstance(node.get("flavor"), str) and isinstance(name, str) and name:
                yield Machine(node, component, ".".join(map(str, (*path, "name"))), region)
        members = [(one, (*path, key), region) for key, one in node.items() if key != "?"]
        waiting.extend(reversed(members))


class TakenNames:
    """The host names that a model has before a change.

    Made before it, asked after it: what was there twice already does not stop other changes.
    """

    def __init__(self, objects: Json, leaving: Json = None) -> None:
        """``leaving``: a model of what is deployed; its names are not given to others by numbers."""
        self._of = {one.id: (one.key, one.name) for one in machines(objects)}
        self._leaving = {one.key for one in machines(leaving)}

    def number(self, objects: Json) -> None:
        """Give the new names that have a ``#`` the lowest free number in its place."""
        found = list(machines(objects))
        wanted = [one for one in found if PLACE in one.name and self._had(one) != one.name]
        taken = {one.key for one in found if PLACE not in one.name}
        taken |= self._leaving | {key for key, _ in self._of.values()}
        for one in wanted:
            before, _, after = one.name.partition(PLACE)
            had = self._had(one)
            if re.fullmatch(rf"{re.escape(before)}\d+{re.escape(after)}", had):
                # It was numbered already: its machine has that name.
                one.node["name"] = had
                continue
            one.node["name"] = counted(before, 1, after, _taken_beside(one, taken))
            taken.add(one.key)

    def count_on(self, objects: Json) -> None:
        """Give new machines whose numbered names others have by now the next free numbers.

        For changes that were made before those of the others, and were offered the same number.
        """
        found = list(machines(objects))
        had = {key for key, _ in self._of.values()}
        taken = {one.key for one in found} | self._leaving
        for one in found:
            if one.id not in self._of and one.key in had and re.search(r"\d", one.name):
                one.node["name"] = next_name(one.name, _taken_beside(one, taken))
                taken.add(one.key)

    def refuse(self, objects: Json) -> None:
        """Refuse a new name that another machine has. Errors: 409."""
        found = [one for one in machines(objects) if PLACE not in one.name]
        holders: dict[_Key, Machine] = {}
        # Those that have had their names come first: it is the new one that is wrong.
        for one in sorted(found, key=lambda machine: not self._is_old(machine)):
            holder = holders.setdefault(one.key, one)
            if holder is not one and holder.id != one.id and not self._is_old(one):
                raise _taken(holder, one)

    def _is_old(self, machine: Machine) -> bool:
        return machine.id in self._of and self._of[machine.id][0] == machine.key

    def _had(self, machine: Machine) -> str:
        return self._of[machine.id][1] if machine.id in self._of else ""


def counted(before: str, number: int, after: str, is_taken: Callable[[str], bool]) -> str:
    """The first name of a pattern that is free, from a number on.

    A guest cuts its name off (`host_name`), so what is before the number makes room for it: else all
    numbers would be one name, and none of them free.
    """
    while True:
        count = f"{number}{after}"
        name = f"{before[: max(LONGEST - len(count), 0)]}{count}"
        if not is_taken(name):
            return name
        number += 1


def next_name(name: str, is_taken: Callable[[str], bool]) -> str:
    """What comes after a name that is taken: its last number counts on, or it gets one."""
    number = re.search(r"\d+(?=\D*$)", name)
    if number is None:
        return counted(f"{name}-", 2, "", is_taken)
    return counted(name[: number.start()], int(number[0]) + 1, name[number.end() :], is_taken)


def _taken_beside(one: Machine, taken: Set[_Key]) -> Callable[[str], bool]:
    """Whether a machine's region has a machine of a name."""
    return lambda name: (one.region, host_name(name)) in taken


def settle_new(objects: Json) -> None:
    """Number and check the names of a model that is new as a whole. Errors: 409."""
    names = TakenNames(None)
    names.number(objects)
    names.refuse(objects)


def _taken(holder: Machine, one: Machine) -> Conflict:
    """The refusal: who has the name, who asks for it, and what to do."""
    stem = re.sub(r"-?\d+$", "", one.key[1]) or one.key[1]
    return Conflict(
        f"The host name {one.name} of {one} is taken: {holder} has the machine {holder.name}, and two"
        f" machines of one name would be one. Choose another name, or {stem}-{PLACE} for the next free"
        " number",
        type_="HostNameTaken",
        extra={
            "host_name": one.name,
            "holder": {"component": holder.component, "path": holder.path, "id": holder.id},
            "asking": {"component": one.component, "path": one.path, "id": one.id},
        },
    )
