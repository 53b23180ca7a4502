"""The versions that applications of a model could move to, and how a move changes the model.

An application moves with the objects inside it that belong to its package; an object of another
package inside it moves when the new version requires another version of that package. These
functions do not use the database: the packages that a project can use are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, cast

from vetro.catalog import StoredPackage
from vetro.environments.model import Json, components, header, object_id, walk
from vetro.json_values import JsonObject
from vetro.packages import Version, version_spec

Pins = Mapping[str, Iterable[str]]


@dataclass(frozen=True)
class ObjectClass:
    """The class of an object as the model states it, and the version that it resolves to."""

    name: str
    package: str | None
    version: str | None


SharedObject = TypedDict(
    "SharedObject", {"id": str, "class": str, "used_by": list[dict[str, str | None]]}
)
"""An object that moves, and the applications outside the plan that refer to it: ``id``, ``name``."""
ApplicationRow = TypedDict(
    "ApplicationRow",
    {
        "id": str,
        "name": str | None,
        "class": str,
        "package": str | None,
        "version": str | None,
        "newest": str | None,
        "newer": list[str],
    },
)
"""An application, its version and the newer ones."""
MoveView = TypedDict(
    "MoveView", {"id": str, "class": str, "package": str, "from": str | None, "to": str}
)
"""A move for the API and for the engine."""


class MovePlan(TypedDict):
    """What an engine is asked about an application: its moves, and the properties to set."""

    id: str
    moves: list[MoveView]
    properties: JsonObject


PropertyChange = TypedDict(
    "PropertyChange",
    {
        "property": str,
        "change": str,
        "aspects": list[str],
        "from": dict[str, object] | None,
        "to": dict[str, object] | None,
    },
)
"""How a property differs between two versions of a class: ``change`` is ``added``, ``removed`` or
``changed``, then with the ``aspects``; ``from`` and ``to`` are its declarations."""


class ComparedApplication(TypedDict):
    """What an engine found: ``changes`` by the ids of the moved objects."""

    changes: dict[str, list[PropertyChange]]
    problems: list[str]
    notes: list[str]


class Comparison(TypedDict):
    """An engine's answer about a model and its moves: applications by their ids."""

    applications: dict[str, ComparedApplication]
    problems: list[str]


@dataclass(frozen=True)
class Move:
    """The move of one object to another version of its package."""

    id: str
    class_name: str
    package: str
    old: str | None
    new: str

    @property
    def view(self) -> MoveView:
        """It, for the API and for the engine."""
        return {
            "id": self.id,
            "class": self.class_name,
            "package": self.package,
            "from": self.old,
            "to": self.new,
        }


@dataclass
class ApplicationMove:
    """The move of one application. ``new`` equals ``old`` when it does not move."""

    id: str
    name: str | None
    class_name: str
    package: str | None
    old: str | None
    new: str | None
    moves: list[Move] = field(default_factory=list[Move])
    shared: list[SharedObject] = field(default_factory=list[SharedObject])
    problems: list[str] = field(default_factory=list[str])

    @property
    def direction(self) -> str:
        """``upgrade``, ``downgrade`` or ``none``."""
        if self.new is None or self.new == self.old:
            return "none"
        if self.old is None or Version.parse(self.new) >= Version.parse(self.old):
            return "upgrade"
        return "downgrade"


class Shelf:
    """The packages that a project can use, by name and by class."""

    def __init__(self, usable: Iterable[StoredPackage], pins: Pins | None = None) -> None:
        self.pins = pins or {}
        self._by_name: dict[str, dict[Version, frozenset[str]]] = {}
        self._homes: dict[str, set[str]] = {}
        for package in usable:
            versions = self._by_name.setdefault(package.full_name, {})
            # A project's own package and a public one may have the same name and version.
            version = Version.parse(package.version)
            versions[version] = versions.get(version, frozenset()) | package.class_names
            for name in package.class_names:
                self._homes.setdefault(name, set()).add(package.full_name)

    def knows(self, package: str) -> bool:
        """Whether the catalog has any version of a package."""
        return package in self._by_name

    def versions(self, package: str, class_name: str | None = None) -> list[Version]:
        """The versions of a package (or those that declare a class), oldest first."""
        found = self._by_name.get(package, {})
        return sorted(
            version
            for version, classes in found.items()
            if class_name is None or class_name in classes
        )

    def class_of(self, block: Mapping[str, Json]) -> ObjectClass | None:
        """The class that a header names; ``None`` when it names none."""
        given = block.get("type")
        if not isinstance(given, str) or not given:
            return None
        named, _, package = given.partition("@")
        name, _, stated = named.partition("/")
        package = package or str(block.get("package") or "")
        if not package:
            homes = self._homes.get(name, set())
            package = next(iter(homes)) if len(homes) == 1 else ""
        spec = stated or block.get("classVersion")
        return ObjectClass(name, package or None, self._meant(name, package, spec))

    def _meant(self, class_name: str, package: str, spec: Json) -> str | None:
        """The version that a spec resolves to: one of the last run, else the highest."""
        text = None if spec is None else str(spec)
        try:
            wanted = version_spec(text)
        except ValueError:
            return None
        pinned = [Version.parse(version) for version in self.pins.get(package, ())]
        there = self.versions(package, class_name) if package else []
        for candidates in (pinned, there):
            fitting = [version for version in candidates if version in wanted]
            if fitting:
                return str(max(fitting))
        return _exact(text)

    def newer(self, found: ObjectClass) -> list[str]:
        """The versions that an object could move up to, oldest first.

        Pre-releases are offered only to an object that has one already.
        """
        if found.package is None:
            return []
        old = None if found.version is None else Version.parse(found.version)
        return [
            str(version)
            for version in self.versions(found.package, found.name)
            if (old is None or version > old)
            and (not version.prerelease or (old is not None and bool(old.prerelease)))
        ]

    def best(self, package: str, spec: str | None, class_name: str | None = None) -> str | None:
        """The highest version that matches a spec."""
        wanted = version_spec(spec)
        fitting = [one for one in self.versions(package, class_name) if one in wanted]
        return str(max(fitting)) if fitting else None


def _exact(text: str | None) -> str | None:
    """The version of a spec that names exactly one, else ``None``."""
    stated = (text or "").strip().lstrip("=")
    try:
        return str(Version.parse(stated)) if stated.count(".") >= 2 else None
    except ValueError:
        return None


def application_rows(objects: Json, shelf: Shelf) -> list[ApplicationRow]:
    """The applications of a root object: their versions, and the newer ones available."""
    rows: list[ApplicationRow] = []
    for service in services_of(objects):
        block = header(service) or {}
        found = shelf.class_of(block)
        if found is None:
            continue
        newer = shelf.newer(found)
        rows.append(
            {
                "id": str(object_id(service)),
                "name": name_of(service),
                "class": found.name,
                "package": found.package,
                "version": found.version,
                "newest": newer[-1] if newer else None,
                "newer": newer,
            }
        )
    return rows


def services_of(objects: Json) -> list[dict[str, Json]]:
    """The applications of a root object."""
    return [one for one in components(objects) if header(one) is not None]


def name_of(service: Mapping[str, Json]) -> str | None:
    """The name of an application for users."""
    block = cast("dict[str, Json]", service["?"])
    name = block.get("name") or service.get("name")
    return name if isinstance(name, str) else None


def plan_application(
    service: dict[str, Json], version: str | None, shelf: Shelf
) -> ApplicationMove:
    """Plan an application's move: to the best version of a spec, else to the newest newer one.

    Reasons against the move are among its ``problems``. ``plan_objects`` handles the objects inside
    it, once the requirements of the new version are known.
    """
    found = shelf.class_of(cast("dict[str, Json]", service["?"]))
    id_, name = str(object_id(service)), name_of(service)
    if found is None or found.package is None:
        of = "?" if found is None else found.name
        plan = ApplicationMove(id_, name, of, None, found.version if found else None, None)
        plan.problems.append(f"no package of the catalog, or more than one, has the class {of}")
        return plan
    plan = ApplicationMove(id_, name, found.name, found.package, found.version, found.version)
    if version is None:
        newer = shelf.newer(found)
        plan.new = newer[-1] if newer else found.version
        return plan
    plan.new = shelf.best(found.package, version, found.name)
    if plan.new is None:
        there = ", ".join(map(str, shelf.versions(found.package))) or "none"
        without = shelf.best(found.package, version)
        plan.problems.append(
            f"{found.package} {without} has no class {found.name}"
            if without is not None
            else f"the catalog has no {found.package} {version}; there are: {there}"
        )
    return plan


def plan_objects(
    plan: ApplicationMove,
    service: dict[str, Json],
    requirements: Mapping[str, str | None],
    shelf: Shelf,
) -> None:
    """Add the moves of objects inside an application, by the new version's ``requirements``."""
    assert plan.new is not None
    for node in walk(service):
        found = shelf.class_of(node["?"])
        if found is None or found.package is None:
            continue
        new = found.version
        if found.package == plan.package:
            new = plan.new
            if Version.parse(new) not in shelf.versions(found.package, found.name):
                plan.problems.append(
                    f"{plan.package} {new} has no class {found.name}, which the object"
                    f" {object_id(node)} is of"
                )
        elif found.package in requirements and shelf.knows(found.package):
            spec = requirements[found.package]
            if found.version is None or Version.parse(found.version) not in version_spec(spec):
                new = shelf.best(found.package, spec, found.name)
                if new is None:
                    plan.problems.append(
                        f"{plan.package} {plan.new} requires {found.package} {spec or '0'}, but "
                        f"the catalog has no such version with the class {found.name}"
                    )
        if new is not None and new != found.version:
            plan.moves.append(
                Move(str(object_id(node)), found.name, found.package, found.version, new)
            )


def note_shared(plans: Sequence[ApplicationMove], objects: Json) -> None:
    """Note for each moved object which applications outside the plan refer to it."""
    moving = {plan.id for plan in plans if plan.moves}
    others = [one for one in services_of(objects) if str(object_id(one)) not in moving]
    known = [(str(object_id(one)), name_of(one), set(_texts(one))) for one in others]
    for plan in plans:
        for move in plan.moves:
            users = [{"id": id_, "name": name} for id_, name, texts in known if move.id in texts]
            if users:
                plan.shared.append({"id": move.id, "class": move.class_name, "used_by": users})


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Json]", value).items():
            if key != "?":
                yield from _texts(item)
    elif isinstance(value, list):
        for item in cast("list[Json]", value):
            yield from _texts(item)


def make_moves(
    objects: Json,
    moves: Iterable[MoveView],
    properties: Mapping[str, Mapping[str, Json]],
) -> list[str]:
    """Write new values of properties and moves into a root object; the ids that are missing.

    The keys of ``properties`` are ids of objects. An object that a new value omits does not move.
    """
    nodes = _nodes(objects)
    missing = [str(id_) for id_ in properties if id_ not in nodes]
    for id_, values in properties.items():
        if id_ in nodes:
            nodes[id_].update(values)
    left = _nodes(objects)
    for move in moves:
        id_ = move["id"]
        if id_ not in nodes:
            missing.append(id_)
        elif id_ in left:
            block = left[id_]["?"]
            block["type"] = f"{move['class']}/{move['to']}@{move['package']}"
            block.pop("classVersion", None)
            block.pop("package", None)
    return missing


def _nodes(objects: Json) -> dict[str, dict[str, Json]]:
    return {str(object_id(node)): node for node in walk(objects)}


def repinned(system: Json, objects: Json, packages: Iterable[str]) -> Json:
    """``SystemData`` without pins of ``packages`` that no object needs any more.

    Otherwise a class that is looked up by name alone would still be the old version's.
    """
    if not isinstance(system, dict):
        return system
    data = cast("dict[str, Json]", system)
    pins = dict(cast("dict[str, Json]", data.get("Packages") or {}))
    shelf = Shelf(())
    used: dict[str, set[str]] = {}
    for node in walk(objects):
        found = shelf.class_of(node["?"])
        if found is not None and found.package is not None and found.version is not None:
            used.setdefault(found.package, set()).add(found.version)
    for package in packages:
        if package in pins:
            pins[package] = sorted(used.get(package, set()))
    return {**data, "Packages": pins}
