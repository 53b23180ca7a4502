"""What applications name of the installation they are in: images, networks, volumes, key pairs and others.

An id means something in one installation only. So what is taken elsewhere has names, and the id beside each:
a *reference* says of one place in an application what kind of thing is named there. Where an application
comes in, the thing with that id is taken if it is here, else the one of that name. What is not here is said
by name before anything is made.

Ids are found by what they are and not by where they stand, so properties of any class are covered, keys of
maps and longer texts too. Names are looked up where the core library has them: in properties that a class
inherits from it. A property of that name in another class is its author's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from vetro.cli.client.answers import JsonObject
from vetro.cli.client.connection import Connection, error_text
from vetro.cli.environments.objects import INSTANCE, Checker
from vetro.cli.terminal.output import remark
from vetro.compute.client import keypairs, vm_calls
from vetro.compute.client.calls import (
    FLOATING_IPS,
    NETWORKS,
    PORTS,
    ROUTERS,
    SECURITY_GROUPS,
    SUBNETS,
    VOLUME_BACKUPS,
    VOLUME_SNAPSHOTS,
    VOLUMES,
    Call,
)
from vetro.digits import is_number

_LISTS: Mapping[str, Callable[[str], Call[Any]]] = {
    "image": lambda _project: vm_calls.images(),
    "key pair": keypairs,
    **{
        kind.noun: kind.all
        for kind in (
            *(NETWORKS, SUBNETS, ROUTERS, SECURITY_GROUPS, PORTS, FLOATING_IPS),
            *(VOLUMES, VOLUME_SNAPSHOTS, VOLUME_BACKUPS),
        )
    },
}
#: What programs take by its name as well as by its id.
BY_NAME = frozenset({"image", "network", "subnet", "security group"})
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.I)
_INSIDE = re.compile(r"(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])", re.I)
_RESOURCES = "io.murano.resources."
_OF_CLASSES: Mapping[str, Mapping[str, str]] = {
    INSTANCE: {
        "image": "image",
        "flavor": "flavor",
        "keyname": "key pair",
        "securityGroups": "security group",
    },
    f"{_RESOURCES}ExistingNeutronNetwork": {
        "internalNetworkName": "network",
        "internalSubnetworkName": "subnet",
        "externalNetworkName": "network",
    },
    f"{_RESOURCES}NeutronNetwork": {"externalRouterId": "router"},
    f"{_RESOURCES}CinderVolume": {"sourceImage": "image"},
}
"""What properties name, by the class of the core library that has them."""
_BY_CLASS = {
    f"{_RESOURCES}ExistingCinderVolume": "volume",
    f"{_RESOURCES}CinderVolumeSnapshot": "volume snapshot",
    f"{_RESOURCES}CinderVolumeBackup": "volume backup",
}
"""The kind of what `openstackId` names: of these classes themselves, as others have the property, too."""
_CHOSEN_LATER = "externalRouterId"
"""A deployment writes the default router there, so nobody may have asked for it."""
_SHOWN = 10


@dataclass(frozen=True)
class Thing:
    """Something of an installation. ``within``: of a subnet, the name of its network."""

    kind: str
    uuid: str
    name: str
    within: str = ""

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}'" + (
            f" of network '{self.within}'" if self.within else ""
        )


class NotHere(Exception):
    """A thing that is not here, or not the only one of its name; the message names it."""


@dataclass(frozen=True)
class _Place:
    """A text in an application: where it stands in its object, and below which object with an id."""

    holder: Any
    key: str | int
    node: JsonObject
    within: tuple[str, ...]
    object_id: str
    at: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.holder[self.key]

    def __str__(self) -> str:
        return f"{'.'.join(self.at)} of {self.node['?'].get('type', 'an object')}"

    @property
    def address(self) -> tuple[str, tuple[str, ...]]:
        return self.object_id, self.at

    def is_called(self, kind: str) -> bool:
        """Whether the property's name ends with the kind: ``balancerImage``, ``securityGroups``."""
        name = next((part for part in reversed(self.within) if not is_number(part)), "")
        return name.lower().removesuffix("s").endswith(kind.replace(" ", ""))

    def kind(self, classes: Checker) -> str | None:
        """The kind of what is named here, as far as the core library says."""
        name = ".".join(part for part in self.within if not is_number(part))
        if name == "openstackId":
            class_name = str(self.node["?"].get("type", ""))
            return _BY_CLASS.get(class_name.partition("/")[0].partition("@")[0])
        for core, properties in _OF_CLASSES.items():
            if name in properties and classes.derives(self.node, core):
                return properties[name]
        return None


class Things:
    """What there is in a project of one installation, in a region; what it asks it asks once."""

    def __init__(self, connection: Connection, region: str | None = None) -> None:
        self._connection = connection
        self.classes = Checker(connection, region)
        self._listed: dict[str, list[Thing] | None] = {}

    def of(self, kind: str) -> list[Thing] | None:
        """Those of a kind, oldest first; ``None``, with a warning, when the service lists none."""
        if self.classes.is_of_cloud:
            return None
        if kind not in self._listed:
            answer = (
                self._connection.answer("GET", "/v1/flavors")
                if kind == "flavor"
                else self._connection.answer_to(_LISTS[kind](self._connection.project_id))
            )
            if answer.status >= 400:
                if None not in self._listed.values():  # once is enough
                    remark(f"Not looked up: {kind}: {error_text(answer)}")
                self._listed[kind] = None
            else:
                found: Any = answer.json()
                rows = cast("list[JsonObject]", found["flavors"] if kind == "flavor" else found)
                self._listed[kind] = [self._thing(kind, row) for row in rows]
        return self._listed[kind]

    def _thing(self, kind: str, row: JsonObject) -> Thing:
        name = next((str(row[key]) for key in ("name", "cidr", "address") if row.get(key)), "")
        uuid = str(row.get("uuid", ""))
        if kind != "subnet":
            return Thing(kind, uuid, name)
        networks = {one.uuid: one.name for one in self.of("network") or []}
        return Thing(kind, uuid, name, networks.get(str(row.get("network_uuid")), ""))

    def by_id(self) -> dict[str, Thing]:
        """Everything that has an id, by it."""
        known = [thing for kind in _LISTS for thing in self.of(kind) or []]
        return {thing.uuid: thing for thing in known if thing.uuid}

    def find(self, wanted: Thing) -> Thing | None:
        """The thing of this id, or the only one of this name; of images the newest.

        ``None`` when its kind cannot be looked up. Errors: ``NotHere``.
        """
        rows = self.of(wanted.kind)
        if rows is None:
            return None
        found = [one for one in rows if one.uuid and one.uuid == wanted.uuid]
        found = found or [
            one
            for one in rows
            if one.name == wanted.name and (not wanted.within or one.within == wanted.within)
        ]
        if not found:
            names = sorted({one.name for one in rows if one.name})
            there = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            raise NotHere(f"there is no {wanted}" + (f" (there are: {there})" if there else ""))
        if len(found) > 1 and wanted.kind != "image":
            ids = ", ".join(one.uuid for one in found)
            raise NotHere(f"there is more than one {wanted}: write the id of one instead ({ids})")
        return found[-1]


def with_names(things: Things, services: object) -> list[JsonObject]:
    """Write names in the place of ids; the references: for each place ``kind``, ``name`` and ``uuid``,
    the ``object`` and where in it (``at``). What has no name keeps its id.

    So do longer texts and keys of maps; the rows of those have ``inside``.
    """
    references: list[JsonObject] = []

    def add(thing: Thing, object_id: str, at: tuple[str, ...], **more: object) -> None:
        row: JsonObject = {"kind": thing.kind, "name": thing.name, "uuid": thing.uuid}
        row |= {"within": thing.within} if thing.within else {}
        references.append({**row, "object": object_id, "at": list(at), **more})

    for place, thing in _identified(things, services):
        place.holder[place.key] = thing.name
        add(thing, place.object_id, place.at)
    mentions = list(_mentions(services))
    known = things.by_id() if mentions else {}
    for uuid, object_id, at in mentions:
        if (thing := known.get(uuid)) is not None and thing.name:
            add(thing, object_id, at, inside=True)
    return references


def with_lasting_names(things: Things, services: object) -> None:
    """Write names in the place of ids where the name is as good: a template outlives what it names.

    An id stays that programs take nothing else for, or whose name leads to another thing. So does one in a
    property of another class that is not called by the kind: what ``imageId`` is used for nobody can say.
    """
    for place, thing in _identified(things, services):
        if thing.kind not in BY_NAME:
            continue
        if place.kind(things.classes) != thing.kind and not place.is_called(thing.kind):
            continue
        try:
            same = things.find(Thing(thing.kind, "", thing.name))
        except NotHere:
            continue
        if same == thing:
            place.holder[place.key] = thing.name


def _identified(things: Things, services: object) -> Iterator[tuple[_Place, Thing]]:
    """The places with an id of something here; an id of nothing is said where one must be."""
    places = [place for place in _places(services) if _UUID.match(place.text)]
    known = things.by_id() if places else {}
    for place in places:
        thing = known.get(place.text.lower())
        if thing is not None and thing.name:
            yield place, thing
        elif thing is None and (kind := place.kind(things.classes)) and things.of(kind) is not None:
            remark(f"There is no {kind} with the id {place.text} ({place}): it stays as it is")


def _mentions(
    value: object, object_id: str = "", at: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Every id inside a longer text or in a key, headers apart: it, its object, and the way from there."""
    if isinstance(value, str):
        if not _UUID.match(value):
            yield from ((found.lower(), object_id, at) for found in _INSIDE.findall(value))
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[object]", value)):
            yield from _mentions(item, object_id, (*at, str(number)))
    elif isinstance(value, dict):
        fields = cast("JsonObject", value)
        header: object = fields.get("?")
        own = cast("JsonObject", header).get("id") if isinstance(header, dict) else None
        if isinstance(own, str):
            object_id, at = own, ()
        for key, item in fields.items():
            if key != "?":
                way = (*at, key)
                yield from ((found.lower(), object_id, way) for found in _INSIDE.findall(key))
                yield from _mentions(item, object_id, way)


def _exchange(value: object, ids: Mapping[str, str]) -> object:
    """A value with other ids in longer texts and in keys, headers apart; lists and maps stay the same."""

    def changed(text: str) -> str:
        return _INSIDE.sub(lambda found: ids.get(found[0].lower(), found[0]), text)

    if isinstance(value, str):
        return value if _UUID.match(value) else changed(value)
    if isinstance(value, list):
        items = cast("list[object]", value)
        items[:] = [_exchange(item, ids) for item in items]
    elif isinstance(value, dict):
        fields = cast("JsonObject", value)
        pairs = [
            (key, item) if key == "?" else (changed(key), _exchange(item, ids))
            for key, item in fields.items()
        ]
        fields.clear()
        fields.update(pairs)
    return cast("object", value)


def settle(things: Things, services: object, references: Iterable[JsonObject] = ()) -> list[str]:
    """Write the ids of this installation where references say; what is not here, in words.

    A place that was edited names what it says now.
    """
    references = list(references)
    rows = {
        (str(one["object"]), tuple(map(str, one["at"]))): one
        for one in references
        if not one.get("inside")
    }
    ids: dict[tuple[str, str, str], set[str]] = {}
    for one in rows.values():
        ids.setdefault(_named(one), set()).add(str(one["uuid"]))
    wrong: list[str] = []
    for place in list(_places(services)):
        row = rows.get(place.address)
        kind = str(row["kind"]) if row else place.kind(things.classes)
        if kind is None or not place.text:
            continue
        is_row = row is not None and place.text == row["name"]
        wanted = Thing(kind, place.text, place.text)
        if row is not None and is_row:
            wanted = Thing(kind, str(row["uuid"]), place.text, str(row.get("within", "")))
        try:
            found = things.find(wanted)
            if found is not None and row is not None:
                if is_row and found.uuid != wanted.uuid and kind != "image":
                    _refuse_merging(wanted, ids[_named(row)])
                place.holder[place.key] = found.uuid or found.name
            elif row is not None:
                place.holder[place.key] = wanted.uuid
        except NotHere as error:
            if place.at[-1] == _CHOSEN_LATER and place.node.get("autoUplink") is not False:
                remark(f"{wanted} is not here: the default router takes its place")
                place.holder[place.key] = None
                continue
            wrong.append(str(error))
    there = {uuid for uuid, _, _ in _mentions(services)}
    exchanged: dict[str, str] = {}
    for row in references:
        if row.get("inside") and (uuid := str(row["uuid"]).lower()) in there:
            wanted = Thing(
                str(row["kind"]), str(row["uuid"]), str(row["name"]), str(row.get("within", ""))
            )
            try:
                found = things.find(wanted)
            except NotHere as error:
                wrong.append(str(error))
            else:
                exchanged[uuid] = found.uuid if found is not None else uuid
    _exchange(services, exchanged)
    return list(dict.fromkeys(wrong))


def _named(row: JsonObject) -> tuple[str, str, str]:
    return str(row["kind"]), str(row["name"]), str(row.get("within", ""))


def _refuse_merging(wanted: Thing, ids: Collection[str]) -> None:
    if len(ids) > 1:
        raise NotHere(f"{len(ids)} different things are called {wanted}: write ids instead")


def wrong_reference(row: object) -> bool:
    """Whether a part of a file is not a reference as `with_names` writes them."""
    one = cast("JsonObject", row) if isinstance(row, dict) else {}
    at: object = one.get("at")
    texts = [one.get(key) for key in ("kind", "name", "uuid", "object")]
    return (
        not all(isinstance(text, str) for text in (*texts, one.get("within", "")))
        or one.get("kind") not in _LISTS
        or not isinstance(one.get("inside", False), bool)
        or not isinstance(at, list)
        or not all(isinstance(part, str) for part in cast("list[object]", at))
    )


def _places(
    value: object,
    node: JsonObject | None = None,
    within: tuple[str, ...] = (),
    id_: str = "",
    at: tuple[str, ...] = (),
) -> Iterator[_Place]:
    """Every text below objects, headers apart."""
    items: Iterable[tuple[Any, object]] = ()
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        header: object = fields.get("?")
        if isinstance(header, dict):
            node, within = fields, ()
            own = cast("JsonObject", header).get("id")
            if isinstance(own, str):
                id_, at = own, ()
        items = [(key, item) for key, item in fields.items() if key != "?"]
    elif isinstance(value, list):
        items = enumerate(cast("list[object]", value))
    for key, item in items:
        inner, path = (*within, str(key)), (*at, str(key))
        if not isinstance(item, str):
            yield from _places(item, node, inner, id_, path)
        elif node is not None:
            yield _Place(value, key, node, inner, id_, path)
