"""Object models as JSON: paths, ids, statuses, masks (catalog-api.md §5.1, §5.3, §5.5).

A model's objects are maps with a ``?`` header. These functions do not use the database.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import cast

import msgspec

from vetro.digits import is_number
from vetro.http import BadRequest, NotFound
from vetro.json_values import Json, JsonObject
from vetro.packages import argument_problems
from vetro.random_ids import random_hex
from vetro.secrecy import is_secret, masked

SMALL_VALUES = 2000
SMALL_CHARACTERS = 200_000
MASK = "*** SANITIZED ***"
_SECRET = re.compile(r"token|pass|trustid", re.IGNORECASE)


def is_small(value: Json) -> bool:
    """Whether a value is written in less time than handing it to a thread takes."""
    # Nearly every answer comes here: types are compared, because that is the fastest.
    left = SMALL_VALUES
    characters = 0
    waiting = [value]
    take, more = waiting.pop, waiting.extend
    while waiting:
        one = take()
        kind = one.__class__
        left -= 1
        if kind is str:
            characters += len(one)
        elif kind is dict:
            left -= len(one)
            if left > 0:
                more(one.values())
        elif kind is list:
            left -= len(one)
            if left > 0:
                more(one)
        if left <= 0 or characters > SMALL_CHARACTERS:
            return False
    return True


async def encoded(value: Json) -> bytes:
    """A value as JSON, written in a thread when it may be large."""
    if is_small(value):
        return msgspec.json.encode(value)
    return await asyncio.to_thread(msgspec.json.encode, value)


def new_id() -> str:
    """A random id: 32 lower-case hex digits."""
    return random_hex()


def initial_model(
    *,
    environment_id: str,
    name: str,
    default_networks: Json,
    properties: dict[str, Json],
    project_id: str,
    user_id: str,
) -> dict[str, Json]:
    """The model of a new environment."""
    return {
        "Objects": {
            "?": {"id": environment_id, "type": "io.murano.Environment", "metadata": {}},
            "name": name,
            **properties,
            "defaultNetworks": default_networks,
        },
        "Attributes": [],
        "project_id": project_id,
        "user_id": user_id,
    }


def default_networks(name: str, driver: str = "neutron") -> Json:
    """The networks of an environment that names none."""
    type_ = "NovaNetwork" if driver == "nova" else "NeutronNetwork"
    return {
        "environment": {
            "?": {"id": new_id(), "type": f"io.murano.resources.{type_}"},
            "name": f"{name}-network",
        },
        "flat": None,
    }


def networks_of_template(template: dict[str, Json], name: str) -> dict[str, Json]:
    """The networks that a template says, for an environment of this name: with new ids."""

    def filled(value: Json) -> Json:
        if isinstance(value, str):
            return value.replace("%ENV%", name)
        if isinstance(value, list):
            return [filled(one) for one in cast("list[Json]", value)]
        if isinstance(value, dict):
            copy = {key: filled(one) for key, one in cast("dict[str, Json]", value).items()}
            if isinstance(copy.get("?"), dict):
                copy["?"]["id"] = new_id()
            return copy
        return value

    return cast("dict[str, Json]", filled(template))


def header(value: Json) -> dict[str, Json] | None:
    """The ``?`` block of an object, or ``None``."""
    if isinstance(value, dict):
        block = cast("dict[str, Json]", value).get("?")
        if isinstance(block, dict):
            return cast("dict[str, Json]", block)
    return None


def object_id(value: Json) -> str | None:
    """The id of an object (old data: its ``id``)."""
    block = header(value)
    if block is not None:
        return cast("str | None", block.get("id"))
    if isinstance(value, dict):
        return cast("dict[str, Json]", value).get("id")
    return None


def walk(value: Json) -> Iterator[dict[str, Json]]:
    """Every object with a ``?`` block below ``value``, outermost first; what is in headers is none."""
    pending = [value]
    while pending:
        current = pending.pop()
        kind = current.__class__
        if kind is dict:
            if isinstance(current.get("?"), dict):
                yield current
            pending.extend(reversed([one for key, one in current.items() if key != "?"]))
        elif kind is list:
            pending.extend(reversed(current))


def ids_below(value: Json) -> set[str]:
    """The ids of all objects below ``value``."""
    return {str(object_id(node)) for node in walk(value)}


def components(objects: Json) -> Iterator[dict[str, Json]]:
    """The applications of a root object, in the API's spelling or the engine's."""
    root = cast("dict[str, Json]", objects) if isinstance(objects, dict) else {}
    services = root.get("services", root.get("applications"))
    for one in cast("list[Json]", services if isinstance(services, list) else []):
        if isinstance(one, dict):
            yield cast("dict[str, Json]", one)


def component_name(service: Json) -> str:
    """The name that people know an application by, else its id."""
    block = header(service) or {}
    given = block.get("name") or cast("dict[str, Json]", service).get("name")
    return given if isinstance(given, str) and given else str(object_id(service))


def with_status(services: Json, status: str) -> Json:
    """Services with the computed ``?.status``; the stored ones are not changed."""
    if not isinstance(services, list):
        return services
    result: list[Json] = []
    for service in cast("list[Json]", services):
        block = header(service)
        if block is not None:
            result.append({**service, "?": {**block, "status": status}})
        else:
            result.append(service)
    return result


def segments(path: str) -> list[str]:
    """The parts of a tree path; empty ones are dropped."""
    return [part for part in path.split("/") if part]


def step(value: Json, segment: str) -> Json:
    """The member or element that a segment names. Errors: ``NotFound``."""
    if isinstance(value, dict):
        node = cast("dict[str, Json]", value)
        if segment in node:
            return node[segment]
    elif isinstance(value, list):
        items = cast("list[Json]", value)
        return items[list_index(items, segment)]
    raise NotFound(f"There is nothing at '{segment}'")


def list_index(items: list[Json], segment: str) -> int:
    """The position of the element with this id, or this number. Errors: ``NotFound``."""
    for position, item in enumerate(items):
        if object_id(item) == segment:
            return position
    if is_number(segment) and int(segment) < len(items):
        return int(segment)
    raise NotFound(f"There is no element '{segment}'")


def get_path(root: Json, parts: list[str]) -> Json:
    """The value at a path. Errors: ``NotFound``."""
    value = root
    for part in parts:
        value = step(value, part)
    return value


def put_path(root: Json, parts: list[str], value: Json) -> None:
    """Replace (or add to an object) the value at a path. Errors: ``NotFound``."""
    parent = get_path(root, parts[:-1])
    last = parts[-1]
    if isinstance(parent, dict):
        cast("dict[str, Json]", parent)[last] = value
    elif isinstance(parent, list):
        items = cast("list[Json]", parent)
        items[list_index(items, last)] = value
    else:
        raise NotFound(f"There is nothing at '{last}'")


def delete_path(root: Json, parts: list[str]) -> None:
    """Remove a key or an element. Errors: ``NotFound``."""
    parent = get_path(root, parts[:-1])
    last = parts[-1]
    if isinstance(parent, dict) and last in parent:
        del cast("dict[str, Json]", parent)[last]
    elif isinstance(parent, list):
        items = cast("list[Json]", parent)
        del items[list_index(items, last)]
    else:
        raise NotFound(f"There is nothing at '{last}'")


RENAMED = "renamed"
"""Beside a stored model's objects: its environment has another name since, for the next session."""


def named(model: JsonObject, name: str) -> JsonObject:
    """The model for a new session: after a renaming it has the environment's name.

    So has the network that was named after the environment, while nothing is deployed: afterwards the
    names of its resources come from it.
    """
    if not model.get(RENAMED):
        return model
    kept = {key: value for key, value in model.items() if key != RENAMED}
    objects = kept.get("Objects")
    if not isinstance(objects, dict):
        return kept
    root = cast("dict[str, object]", objects)
    renamed = {**root, "name": name}
    networks: object = root.get("defaultNetworks")
    if kept.get("ObjectsCopy") is None and isinstance(networks, dict):
        own = cast("dict[str, object]", networks).get("environment")
        if isinstance(own, dict) and own.get("name") == f"{root.get('name')}-network":
            network = {**cast("dict[str, object]", own), "name": f"{name}-network"}
            renamed["defaultNetworks"] = {
                **cast("dict[str, object]", networks),
                "environment": network,
            }
    return {**kept, "Objects": renamed}


def sanitise(value: Json) -> Json:
    """A copy with secret values masked: those under the keys of §5.5, and those that Vetro's own
    rule calls secret."""
    if isinstance(value, dict):
        node = cast("dict[str, Json]", value)
        return {
            key: MASK if _is_hidden(key, item) else sanitise(item) for key, item in node.items()
        }
    if isinstance(value, list):
        return [sanitise(item) for item in cast("list[Json]", value)]
    return value


def _is_hidden(key: str, value: Json) -> bool:
    if isinstance(value, str) and _SECRET.search(key):
        return True
    # An object under such a name is not masked as a whole: its secret members have own names.
    return is_secret(key) and not isinstance(value, bool | dict) and value not in (None, "", [])


def without_secrets(value: Json, parts: Sequence[str] = ()) -> Json:
    """What stands at a path of a model, as those see it who only read: without what is secret by its name,
    by the path's names or by names above it."""
    for part in reversed(parts):
        value = {part: value}
    shown = sanitise(masked(value))
    for part in parts:
        if not isinstance(shown, dict):
            break
        shown = cast("dict[str, Json]", shown)[part]
    return shown


def to_engine(objects: Json) -> Json:
    """A root object in the engine's spelling: ``services`` becomes ``applications``.

    Regions follow the environment to another default network.
    """
    if isinstance(objects, dict) and "services" in objects:
        node = dict(cast("dict[str, Json]", objects))
        node["applications"] = node.pop("services")
        return _with_networks(node)
    return cast("Json", objects)


def _with_networks(root: dict[str, Json]) -> dict[str, Json]:
    """The root object whose own region has the default networks that the environment has now.

    Programs write these references, and users cannot: who replaces or removes the network of a deployed
    environment does not know of them. Further regions have copies of their own.
    """
    regions = root.get("regions")
    if not isinstance(regions, dict):
        return root
    known = cast("dict[str, Json]", regions)
    region = known.get("")
    place = next((one for one, its in known.items() if object_id(its) == region), "")
    region = known.get(place)
    own: dict[str, Json] = root.get("defaultNetworks") or {}
    networks = cast("Json", region).get("defaultNetworks") if header(region) else None
    if not isinstance(networks, dict):
        return root
    followed = dict(cast("dict[str, Json]", networks))
    for key in ("environment", "flat"):
        if not isinstance(followed.get(key), dict):
            followed[key] = object_id(own.get(key)) if header(own.get(key)) else own.get(key)
    changed = {**cast("dict[str, Json]", region), "defaultNetworks": followed}
    return {**root, "regions": {**known, place: changed}}


def from_engine(objects: Json) -> Json:
    """A root object in the API's spelling."""
    if isinstance(objects, dict) and "applications" in objects:
        node = dict(cast("dict[str, Json]", objects))
        node["services"] = node.pop("applications")
        return node
    return cast("Json", objects)


def find_action(objects: Json, action_id: str) -> tuple[str, dict[str, Json]]:
    """The object id and description of an action anywhere in the model. Errors: 404, 400 disabled."""
    for node in walk(objects):
        actions = node["?"].get("_actions")
        found = cast("JsonObject", actions).get(action_id) if isinstance(actions, dict) else None
        if isinstance(found, dict):
            action = cast("JsonObject", found)
            if not action.get("enabled"):
                raise BadRequest(f"Action {action_id} is disabled")
            return str(object_id(node)), action
    raise NotFound(f"There is no action {action_id} in this environment", type_="ActionNotFound")


def check_arguments(action: dict[str, object], given: dict[str, Json]) -> None:
    """Refuse arguments that an action does not take, as far as the model describes them. 400.

    Models of an earlier engine do not describe them: the deployment checks the arguments.
    """
    wanted = action.get("arguments")
    if not isinstance(wanted, dict):
        return
    found = argument_problems(given, cast("JsonObject", wanted))
    if found:
        call = f"{action['name']}({', '.join(cast('dict[str, object]', wanted))})"
        raise BadRequest(f"{call}: {'; '.join(found)}", type_="WrongArguments")
