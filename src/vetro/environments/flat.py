"""Flat services of workflow environments: their types, checks, ids and reads (catalog-api.md §7).

A flat service is an object with ``id``, ``type``, ``name`` and ``units``; its type is one of the nine
below, or a service of the metadata repository. These functions do not use the database.
"""

from __future__ import annotations

import copy
import ipaddress
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from vetro.environments.headers import ID_RULE, is_id
from vetro.environments.model import Json, get_path, new_id, with_status
from vetro.http import BadRequest, NotFound

WORKFLOW = "workflow"
MURANOPL = "muranopl"
#: Attributes that cannot be changed once they are set.
FIXED = ("id", "type", "created")
NO_FLAT = (
    "This environment has applications (model_kind muranopl): a flat service cannot be in it;"
    " create an environment at /environments for it"
)
_TEXT, _FLAG, _PORT, _ADDRESS, _UNITS, _ANY = "text", "bool", "port", "address", "units", "any"


@dataclass(frozen=True)
class ServiceType:
    """What a type requires and allows, by attribute; ``hidden``: written, and never read."""

    required: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict[str, str])
    unit: Mapping[str, str] = field(default_factory=dict[str, str])
    hidden: frozenset[str] = frozenset()
    hidden_of_unit: frozenset[str] = frozenset()


_BASE = {"name": _TEXT, "units": _UNITS}
_WEB = frozenset({"adminPassword"})
_MAYBE = {"domain": _TEXT, "adminPassword": _TEXT}

TYPES: Mapping[str, ServiceType] = {
    "activeDirectory": ServiceType(
        {**_BASE, "adminPassword": _TEXT, "domain": _TEXT},
        unit={"isMaster": _FLAG, "recoveryPassword": _TEXT},
        hidden=_WEB,
        hidden_of_unit=frozenset({"recoveryPassword"}),
    ),
    "webServer": ServiceType(_BASE, _MAYBE, hidden=_WEB),
    "aspNetApp": ServiceType({**_BASE, "repository": _TEXT}, _MAYBE, hidden=_WEB),
    "webServerFarm": ServiceType({**_BASE, "loadBalancerPort": _PORT}, _MAYBE, hidden=_WEB),
    "aspNetAppFarm": ServiceType(
        {**_BASE, "repository": _TEXT, "loadBalancerPort": _PORT}, _MAYBE, hidden=_WEB
    ),
    "msSqlServer": ServiceType({**_BASE, "mixedModeAuth": _FLAG}, {**_MAYBE, "saPassword": _TEXT}),
    "msSqlClusterServer": ServiceType(
        {
            **_BASE,
            "adminPassword": _TEXT,
            "externalAD": _FLAG,
            "mixedModeAuth": _FLAG,
            "clusterIp": _ADDRESS,
            "clusterName": _TEXT,
            "agGroupName": _TEXT,
            "agListenerName": _TEXT,
            "agListenerIP": _ADDRESS,
            "sqlServicePassword": _TEXT,
        },
        {
            "domainAdminUserName": _TEXT,
            "domainAdminPassword": _TEXT,
            "domain": _TEXT,
            "saPassword": _TEXT,
            "sqlServiceUserName": _TEXT,
        },
        unit={"isMaster": _FLAG, "isSync": _FLAG},
        hidden=frozenset(
            {"adminPassword", "domainAdminPassword", "saPassword", "sqlServicePassword"}
        ),
    ),
    "linuxApacheService": ServiceType(_BASE, {"deployApachePHP": _FLAG}),
    "linuxTelnetService": ServiceType(_BASE),
}
_SHARED = {"unitNamingPattern": _TEXT, "availabilityZone": _TEXT, "flavor": _TEXT}
_ALIASES = {"clusterIP": "clusterIp"}


def initial_flat_model(
    environment_id: str, name: str, project_id: str, user_id: str
) -> dict[str, Json]:
    """The model of a new workflow environment."""
    return {
        "Kind": WORKFLOW,
        "Objects": {
            "id": environment_id,
            "name": name,
            "tenant_id": project_id,
            "services": [],
        },
        "Attributes": [],
        "project_id": project_id,
        "user_id": user_id,
    }


def is_secret(key: str) -> bool:
    """Whether what deployments have noted under a key is a password or a token (§13.4)."""
    return "pass" in key.lower() or "token" in key.lower()


def is_workflow(model: Mapping[str, Json]) -> bool:
    """Whether a stored model is that of a workflow environment."""
    return model.get("Kind") == WORKFLOW


def is_flat(value: Json) -> bool:
    """Whether a body is a flat service, and no object of MuranoPL."""
    return isinstance(value, dict) and "?" not in value


# Checks


def check_new(service: Json, defined: Collection[str]) -> None:
    """Check a new service; ``defined``: further types. Errors: 400 naming the attribute."""
    if not isinstance(service, dict):
        raise BadRequest("A service must be an object with a type")
    node = cast("dict[str, Json]", service)
    if "?" in node:
        raise BadRequest(
            "This environment has flat services (model_kind workflow): an object with '?' cannot be"
            " in it; create an environment at /v1/environments for it"
        )
    kind = node.get("type")
    if not isinstance(kind, str) or not kind:
        raise BadRequest("A service needs type")
    if kind not in TYPES and kind not in defined:
        known = ", ".join(sorted({*TYPES, *defined}))
        raise BadRequest(f"There is no service type {kind!r:.80}; there are {known}")
    known_type = TYPES.get(kind)
    if known_type is not None:
        for name in known_type.required:
            if name not in node and not any(_ALIASES.get(alias) == name for alias in node):
                raise BadRequest(f"A service of type {kind} needs {name}")
        units: Json = node.get("units")
        for number, unit in enumerate(cast("list[Json]", units) if isinstance(units, list) else []):
            for name in known_type.unit:
                if isinstance(unit, dict) and name not in unit:
                    raise BadRequest(f"A unit of type {kind} needs {name} (units[{number}])")
    check_values(node)


def check_changed(services: Json, before: Json, defined: Collection[str]) -> None:
    """Check the services that a changed list has anew; ``defined``: further types. Errors: 400.

    What was there may lack attributes: they were deleted one by one (§7).
    """
    types = {
        str(one.get("id")): one.get("type")
        for one in _objects(cast("list[Json]", before if isinstance(before, list) else []))
    }
    for one in cast("list[Json]", services if isinstance(services, list) else []):
        node = cast("dict[str, Json]", one if isinstance(one, dict) else {})
        id_ = str(node.get("id"))
        if id_ not in types:
            check_new(one, defined)
        elif node.get("type") != types[id_]:
            raise BadRequest(f"The type of a service cannot change: {id_} is a {types[id_]}")


def check_values(service: dict[str, Json]) -> None:
    """Check the values of attributes that are there. Errors: 400 naming the attribute."""
    known = TYPES.get(str(service.get("type")))
    rules = {**_SHARED, "units": _UNITS}
    if known is not None:
        rules |= {**known.optional, **known.required}
    for name, value in service.items():
        _check(rules.get(_ALIASES.get(name, name), _ANY), name, value)
    image = service.get("osImage")
    if image is not None and not isinstance(image, (str, dict)):
        raise BadRequest("osImage must be text, or an object with a name")
    units: Json = service.get("units")
    for number, unit in enumerate(cast("list[Json]", units or [])):
        if not isinstance(unit, dict):
            raise BadRequest(f"units[{number}] must be an object")
        for name, value in cast("dict[str, Json]", unit).items():
            rule = known.unit.get(name, _ANY) if known is not None else _ANY
            _check(rule, f"units[{number}].{name}", value)
            if name == "id" and (not isinstance(value, str) or not value):
                raise BadRequest(f"units[{number}].id must be text")


def _check(rule: str, name: str, value: Json) -> None:
    if rule == _UNITS:
        if not isinstance(value, list):
            raise BadRequest(f"{name} must be a list of objects")
    elif rule == _FLAG:
        if not isinstance(value, bool):
            raise BadRequest(f"{name} must be true or false")
    elif rule == _PORT:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65535:
            raise BadRequest(f"{name} must be a whole number from 1 to 65535")
    elif rule in (_TEXT, _ADDRESS) and value is not None:
        if not isinstance(value, str):
            raise BadRequest(f"{name} must be text")
        if rule == _ADDRESS and value:
            try:
                ipaddress.IPv4Address(value)
            except ValueError as error:
                raise BadRequest(f"{name} must be an IPv4 address, not {value!r:.80}") from error


# What is stored


def complete(objects: dict[str, Json], before: Json, now: str) -> None:
    """Complete written services: ids, names of units, ``created`` and ``updated``. Errors: 400."""
    services: Json = objects.get("services")
    if not isinstance(services, list):
        raise BadRequest("services must be a list")
    old = {str(one.get("id")): one for one in cast("list[Json]", before or [])}
    seen: set[str] = set()
    for service in cast("list[Json]", services):
        if not isinstance(service, dict) or "?" in service:
            raise BadRequest("A service of this environment must be a flat object with a type")
        node = cast("dict[str, Json]", service)
        node.pop("status", None)
        if node.get("id") is None:
            node["id"] = new_id()
        # Ids that were there before stay, whatever they are.
        known_ids = {*old, *ids_of(old.get(str(node["id"])))}
        if not _is_id_or_was(node["id"], known_ids):
            raise BadRequest(f"The id of a service {ID_RULE}")
        if node["id"] in seen:
            raise BadRequest(f"Two services of the environment have the id {node['id']}")
        seen.add(node["id"])
        check_values(node)
        for number, unit in enumerate(cast("list[Json]", node.get("units") or [])):
            if not _is_id_or_was(unit.setdefault("id", new_id()), known_ids):
                raise BadRequest(f"units[{number}].id {ID_RULE}")
            if unit.get("name") is None:
                unit["name"] = f"{node.get('name', '')}_instance_{number}"
        if node.get("created") is None:
            node["created"] = now
        if old.get(node["id"]) != node:
            node["updated"] = now


def _is_id_or_was(value: Json, known: Collection[str]) -> bool:
    return is_id(value) or (isinstance(value, str) and value in known)


def service_at(services: Json, id_: str) -> dict[str, Json]:
    """The service with an id, or at a position. Errors: 404."""
    found = get_path(services, [id_])
    if not isinstance(found, dict):
        raise NotFound(f"There is no service '{id_}'")
    return cast("dict[str, Json]", found)


def refuse_fixed(parts: Sequence[str]) -> None:
    """Errors: 400 for the path of a service's id, type or creation, or of a unit's id, in the services."""
    is_service = len(parts) == 2 and parts[1] in FIXED
    is_unit = len(parts) == 4 and parts[1] == "units" and parts[3] == "id"
    if is_service or is_unit:
        raise BadRequest(f"{parts[-1]} cannot be changed or deleted")


def kept(old: Mapping[str, Json], new: dict[str, Json]) -> None:
    """Let a service that replaces another keep what its writer leaves out or cannot know (§7)."""
    if new.get("type", old.get("type")) != old.get("type"):
        raise BadRequest(f"The type of a service cannot change: it is {old.get('type')}")
    if new.get("id", old.get("id")) != old.get("id"):
        raise BadRequest(f"The id of a service cannot change: it is {old.get('id')}")
    known = TYPES.get(str(old.get("type")))
    for name in ("id", "type", *(sorted(known.hidden) if known else ())):
        if name in old and name not in new:
            new[name] = old[name]
    if "created" in old:
        new["created"] = old["created"]
    _keep_state(old, new)
    keep_units(old.get("units"), new.get("units"), known)


def keep_written(before: Json, value: Json, parts: Sequence[str]) -> None:
    """Keep what is not read of what ``value`` replaces: of all services, or of what is at ``parts``."""
    services = cast("list[Json]", before if isinstance(before, list) else [])
    old = {str(one.get("id")): one for one in _objects(services)}
    if len(parts) < 2:
        given = [value] if parts else value
        for new in _objects(cast("list[Json]", given if isinstance(given, list) else [])):
            was = old.get(parts[0] if parts else str(new.get("id")))
            if was is not None:
                kept(was, new)
    elif parts[1] == "units" and (was := old.get(parts[0])) is not None:
        known = TYPES.get(str(was.get("type")))
        units: Json = was.get("units")
        if len(parts) == 2:
            keep_units(units, value, known)
        elif len(parts) == 3 and isinstance(units, list):
            there = {str(one.get("id")): one for one in _objects(cast("list[Json]", units))}
            keep_unit(there.get(parts[2]), value, known)


def keep_units(old: Json, new: Json, known: ServiceType | None) -> None:
    """The same for units that replace others of their id."""
    if not isinstance(old, list) or not isinstance(new, list):
        return
    there = {str(one.get("id")): one for one in _objects(cast("list[Json]", old))}
    for unit in _objects(cast("list[Json]", new)):
        keep_unit(there.get(str(unit.get("id"))), unit, known)


def keep_unit(old: Json, new: Json, known: ServiceType | None) -> None:
    """The same for one unit: its id, and what is only written of it. Errors: 400."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return
    was, node = cast("dict[str, Json]", old), cast("dict[str, Json]", new)
    if node.get("id", was.get("id")) != was.get("id"):
        raise BadRequest(f"The id of a unit cannot change: it is {was.get('id')}")
    for name in ("id", *(sorted(known.hidden_of_unit) if known else ())):
        if name in was and name not in node:
            node[name] = was[name]
    _keep_state(was, node)


def _keep_state(old: Mapping[str, Json], new: dict[str, Json]) -> None:
    """What deployments have set; a writer who sends it back does not know the passwords in it."""
    was, now = old.get("state"), new.get("state")
    if was is not None and "state" not in new:
        new["state"] = was
    elif isinstance(was, dict) and isinstance(now, dict):
        secrets = {key: one for key, one in cast("dict[str, Json]", was).items() if is_secret(key)}
        new["state"] = {**secrets, **cast("dict[str, Json]", now)}


def name_domain(services: list[Json], service: dict[str, Json]) -> None:
    """Say the domain by its name: forms choose the service that has it, workflows compare names."""
    for one in _objects(services):
        if one.get("id") == service.get("domain") and one.get("type") == "activeDirectory":
            service["domain"] = one.get("domain")


# What is read


def shown(services: Json, status: str, *, secrets: bool = False) -> Json:
    """Services as they are read: with their status, without what is only written."""
    if not isinstance(services, list):
        return services
    return [_shown(one, status, secrets=secrets) for one in cast("list[Json]", services)]


def _shown(service: Json, status: str, *, secrets: bool) -> Json:
    if not isinstance(service, dict):
        return service
    node: dict[str, Json] = copy.deepcopy(cast("dict[str, Json]", service))
    known = TYPES.get(str(node.get("type")))
    if known is not None and not secrets:
        for name in known.hidden:
            node.pop(name, None)
        for unit in cast("list[Json]", node.get("units") or []):
            if isinstance(unit, dict):
                for name in known.hidden_of_unit:
                    cast("dict[str, Json]", unit).pop(name, None)
    if not secrets:
        for one in [node, *_objects(cast("list[Json]", node.get("units") or []))]:
            hide_in_state(one)
    return {**node, "status": status}


def hide_in_state(node: dict[str, Json]) -> None:
    """Leave out the passwords that are in force: workflows note them in the state of services and units."""
    state = node.get("state")
    if isinstance(state, dict):
        known = cast("dict[str, Json]", state)
        node["state"] = {key: one for key, one in known.items() if not is_secret(key)}


def shown_services(model: Mapping[str, Json], status: str) -> Json:
    """The services of a model as they are read."""
    objects: dict[str, Json] = model.get("Objects") or {}
    services = objects.get("services", [])
    return shown(services, status) if is_workflow(model) else with_status(services, status)


def ids_of(service: Json) -> set[str]:
    """The ids of a flat service and its units."""
    if not isinstance(service, dict):
        return set()
    node = cast("dict[str, Json]", service)
    units = cast("list[Json]", node.get("units") if isinstance(node.get("units"), list) else [])
    below = {str(one.get("id")) for one in _objects(units)}
    return {str(node.get("id")), *below}


def _objects(values: list[Json]) -> list[dict[str, Json]]:
    return [cast("dict[str, Json]", one) for one in values if isinstance(one, dict)]
