"""Applications before they are sent: their properties by the class, what they name by the service.

The service takes any object; what is wrong with one shows when it is deployed, or never: an engine drops
what a class does not have. So the command line looks first, in the same way for ``env add`` and
``env edit``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, cast

from vetro.cli.client.answers import JsonObject
from vetro.cli.client.connection import Connection, error_text, segment
from vetro.cli.terminal.output import fail, remark
from vetro.digits import is_number

_NO_IMAGES = "there are none yet: 'vetro image build {0}' or 'vetro image import {0} FILE' makes it"
INSTANCE = "io.murano.resources.Instance"
"""The class of the core library that every machine inherits."""
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")


def application_name(service: JsonObject) -> str | None:
    """The name that commands know an application by."""
    header = service.get("?")
    block = cast("JsonObject", header) if isinstance(header, dict) else {}
    name = block.get("name") or service.get("name")
    return name if isinstance(name, str) else None


class Checker:
    """Checks objects against one service; what it asks it asks once. ``region``: that of the environment."""

    def __init__(self, connection: Connection, region: str | None = None) -> None:
        self._connection = connection
        self._region = region
        self._schemas: dict[tuple[str, str, str], JsonObject | None] = {}
        self._names: dict[str, dict[str, set[str]] | None] = {}
        self._left_out: dict[str, set[str]] = {}
        """What templates do without (`excludeProperties`), by the path before their properties."""

    def refuse_wrong(self, service: dict[str, object], others: Iterable[dict[str, object]]) -> None:
        """End the command when an application that is to be added cannot be what is meant."""
        wrong = [*self._same_name(service, others)]
        for where, node in objects_of(service):
            wrong += self._wrong_properties(node, where, set(node) - {"?"}, whole=True)
            wrong += self._wrong_names(node, where, set(node))
        self._end(service, wrong)

    def refuse_wrong_change(
        self, service: dict[str, object], paths: Iterable[str], others: Iterable[dict[str, object]]
    ) -> None:
        """End the command when one of the changed properties cannot be what is meant.

        Only those are looked at: what the program itself has set is its own.
        """
        wrong = [*self._same_name(service, others)]
        for path in paths:
            node, where, name = nearest_object(service, path)
            if name == "?":
                continue
            wrong += self._wrong_properties(node, where, {name}, whole=False)
            value = node.get(name)
            wrong += self._wrong_names(node, where, {name})
            for below, inner in objects_of(value, f"{where}{name}."):
                wrong += self._wrong_properties(inner, below, set(inner) - {"?"}, whole=True)
                wrong += self._wrong_names(inner, below, set(inner))
        self._end(service, wrong)

    def inputs(self, node: JsonObject) -> frozenset[str] | None:
        """The names of what an object's class takes; ``None`` when nobody can say it now."""
        schema = self._schema(node)
        return None if schema is None else frozenset(schema["properties"])

    def derives(self, node: JsonObject, core: str) -> bool:
        """Whether an object's class is a class of the core library, or inherits it.

        A schema does not say whom a class inherits, but it has all that is inherited: no class has every
        property of the core's by chance. Where nobody can say it now, the library's own go by their names.
        """
        own = str(node["?"].get("type", "")).partition("/")[0].partition("@")[0]
        if own == core:
            return True
        mine = self._schema(node, must_be=False)
        inherited = self._schema({"?": {"type": core}}, must_be=False) if mine else None
        if mine is None or inherited is None:
            return own.startswith("io.murano.") and own.endswith(core.rpartition(".")[2])
        return set(mine["properties"]) >= set(inherited["properties"])

    @cached_property
    def is_of_cloud(self) -> bool:
        """Whether an OpenStack has what the region's applications name: then nothing is looked up here."""
        params = {"region": self._region} if self._region else None
        answer = self._connection.answer("GET", "/v1/quotas", params=params)
        found: Any = answer.json() if answer.status < 400 else {}
        makers = {one.get("enforced_by") for one in found.get("quotas", {}).values()}
        is_of_cloud = "openstack" in makers or bool(found.get("warnings"))
        if is_of_cloud:
            remark(
                "Nothing is looked up: an OpenStack makes what is named. Ids and names stay as they are."
            )
        return is_of_cloud

    def wrong_value(self, node: JsonObject, where: str, name: str) -> list[str]:
        """What is wrong with the value of a property, by the class of its object."""
        return list(self._wrong_properties(node, where, {name}, whole=False))

    def _end(self, service: dict[str, object], wrong: list[str]) -> None:
        if wrong:
            header = cast("JsonObject", service.get("?") or {})
            kind = str(header.get("type", "")).partition("/")[0]
            fail(
                f"{application_name(service) or kind}: {'; '.join(dict.fromkeys(wrong))}",
                f"'vetro package schema {kind}' shows what the class takes.",
            )

    def _same_name(
        self, service: dict[str, object], others: Iterable[dict[str, object]]
    ) -> Iterator[str]:
        name = application_name(service)
        if name is not None and name in (application_name(one) for one in others):
            yield f"there is an application of this name already: choose another name than {name}"

    def _wrong_properties(
        self, node: JsonObject, where: str, names: set[str], *, whole: bool
    ) -> Iterator[str]:
        from vetro.packages import did_you_mean, missing_arguments, value_problems

        schema = self._schema(node)
        if schema is None:
            return
        known = cast("dict[str, JsonObject]", schema["properties"])
        for name in sorted(names):
            if name not in known:
                yield f"{node['?']['type']} takes no {where}{name}{did_you_mean(name, known)}"
            else:
                yield from value_problems(node.get(name), known[name], f"{where}{name}")
                self._left_out[f"{where}{name}."] = set(_excluded(known[name]))
        if whole:
            missing = [f"{where}{name}" for name in missing_arguments(node, known)]
            yield from (f"{path} is required" for path in missing if not self._is_left_out(path))

    def _is_left_out(self, path: str) -> bool:
        """Whether a template that the path leads into does without the property."""
        for start, names in self._left_out.items():
            inside = path[len(start) :].split(".") if path.startswith(start) else []
            if ".".join(part for part in inside if not is_number(part)) in names:
                return True
        return False

    def _schema(self, node: JsonObject, *, must_be: bool = True) -> JsonObject | None:
        """The schema of an object's class; ``None`` when nobody can say it now.

        ``must_be``: a class that does not exist ends the command.
        """
        header = node["?"]
        name, _, home = str(header.get("type", "")).partition("/")
        version, _, package = home.partition("@")
        version = str(header.get("classVersion") or version)
        package = str(header.get("package") or package)
        key = (name, version, package)
        if key not in self._schemas:
            asked = {"classVersion": version, "packageName": package}
            path = f"/v1/schemas/{segment(name)}"
            answer = self._connection.answer(
                "GET", path, params={word: text for word, text in asked.items() if text}
            )
            if answer.status in (400, 404):
                if not must_be:
                    return None
                fail(error_text(answer), self._which_version(name, version))
            if answer.status >= 400:
                remark(f"{name} is not checked: {error_text(answer)}")
                self._schemas[key] = None
            else:
                self._schemas[key] = answer.json().get("")
        return self._schemas[key]

    def _which_version(self, name: str, given: str) -> str:
        """What to write in the place of a class that was not found."""
        from vetro.packages import Version

        params = {"catalog": "true", "class_name": name}
        rows = self._connection.get("/v1/catalog/packages", params=params)["packages"]
        versions = sorted({Version.parse(str(row["version"])) for row in rows}, reverse=True)
        if not versions:
            return "'vetro package list' shows the packages and versions."
        newest = versions[0]
        write = f'write "type": "{name}/{newest}" (or "classVersion": "{newest}" beside it)'
        if not given:
            return f"Without a version a class is one of 0.x: {write}."
        there = ", ".join(str(one) for one in versions)
        return f"There is {there}: {write}."

    def _wrong_names(self, node: dict[str, object], where: str, names: set[str]) -> Iterator[str]:
        """What a machine names that is not there, and what is no host name.

        One that another machine has the service refuses, whoever asks for it.
        """
        if not is_machine(node) or not self.derives(node, INSTANCE):
            return
        for name, path, key in (
            ("image", "/compute/images", ""),
            ("flavor", "/v1/flavors", "flavors"),
        ):
            value = node.get(name)
            if name in names and isinstance(value, str) and value:
                known = self._known(path, key)
                if known is None or value in known:
                    continue
                if not any(value in ids for ids in known.values()):
                    close = difflib.get_close_matches(value, known, 1)
                    there = ", ".join(sorted(known)[:20])
                    hint = f"did you mean {close[0]}?" if close else f"there are: {there}"
                    if not known and name == "image":
                        hint = _NO_IMAGES.format(value)
                    yield f"{where}{name}: there is no {name} {value}; {hint}"
        host = node.get("name")
        # A # stands for a number.
        if (
            "name" in names
            and isinstance(host, str)
            and not _HOST.match(host.lower().replace("#", "1"))
        ):
            yield f"{where}name: {host!r:.80} is not a host name: letters, digits and dashes, at most 63"

    def _known(self, path: str, key: str) -> dict[str, set[str]] | None:
        """The ids of each name below a path; ``None``, with a warning, when the service lists none."""
        if self.is_of_cloud:
            return None
        if path not in self._names:
            answer = self._connection.answer("GET", path)
            if answer.status >= 400:
                remark(f"Not looked up: {path}: {error_text(answer)}")
                self._names[path] = None
            else:
                found: Any = answer.json()
                rows = cast("list[JsonObject]", found[key] if key else found)
                names: dict[str, set[str]] = {}
                for row in rows:
                    names.setdefault(str(row["name"]), set()).add(str(row.get("uuid")))
                self._names[path] = names
        return self._names[path]


def is_machine(node: dict[str, object]) -> bool:
    """Whether an object is an instance: it has a size, and an image or the place of one."""
    return isinstance(node.get("flavor"), str) and "name" in node


def _excluded(schema: object) -> Iterator[str]:
    """The properties that templates in a value of this schema do without."""
    if isinstance(schema, dict):
        for key, item in cast("JsonObject", schema).items():
            if key == "excludedProperties":
                yield from item
            else:
                yield from _excluded(item)
    elif isinstance(schema, list):
        for item in cast("list[object]", schema):
            yield from _excluded(item)


def objects_of(value: object, where: str = "") -> Iterator[tuple[str, JsonObject]]:
    """Every object in a value, itself too, with the path before its properties."""
    if isinstance(value, dict):
        node = cast("JsonObject", value)
        if isinstance(node.get("?"), dict):
            yield where, node
        for key, item in node.items():
            if key != "?":
                yield from objects_of(item, f"{where}{key}.")
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[object]", value)):
            yield from objects_of(item, f"{where}{number}.")


def nearest_object(service: dict[str, object], path: str) -> tuple[dict[str, object], str, str]:
    """The innermost object on the way to ``a.b.c``: it, the path before it, and its property."""
    found, where, name = service, "", path.split(".")[0]
    place: Any = service
    parts = path.split(".")
    for number, part in enumerate(parts[:-1]):
        place = below(place, part)
        if isinstance(place, dict) and "?" in place:
            found = cast("JsonObject", place)
            where = ".".join(parts[: number + 1]) + "."
            name = parts[number + 1]
    return found, where, name


def below(place: Any, part: str) -> object:
    """One step down a path: a key of a map, or a number of a list."""
    if isinstance(place, list):
        items = cast("list[object]", place)
        return items[int(part)] if is_number(part) and int(part) < len(items) else None
    return cast("JsonObject", place).get(part) if isinstance(place, dict) else None


def set_path(target: dict[str, object], path: str, value: object) -> None:
    """Set ``a.b.c`` below ``target``, making maps on the way; a number is a place in a list."""
    *parents, last = path.split(".")
    place: object = target
    for name in parents:
        found = below(place, name)
        if found is None and isinstance(place, dict):
            found = cast("JsonObject", place).setdefault(name, {})
        if not isinstance(found, (dict, list)):
            fail(f"--set {path}: {name} is not a map in this application")
        place = cast("Any", found)
    if isinstance(place, dict):
        cast("JsonObject", place)[last] = value
    elif below(place, last) is not None:
        cast("list[object]", place)[int(last)] = value
    else:
        fail(f"--set {path}: the list has no element {last}")
