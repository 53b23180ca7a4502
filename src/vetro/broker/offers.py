"""What a platform is offered and what it sends: catalog entries, plans, and application objects."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import cast

from vetro.json_values import Json

LONGEST_DESCRIPTION = 256


def plan_of(package_id: str) -> str:
    """The id of a service's only plan."""
    return f"{package_id}-1"


def described(text: str) -> str:
    """A description of at most 256 characters, or its beginning and ``...``."""
    if len(text) <= LONGEST_DESCRIPTION:
        return text
    return text[: LONGEST_DESCRIPTION - 3] + " ..."


def offer(packages: list[Json]) -> Json:
    """The body of the broker's catalog. Platforms refuse two services of one name: packages that share
    theirs are distinguished by their full names, and versions of one package by the version."""
    names = Counter(one["name"] for one in packages)
    full_names = Counter(one["fully_qualified_name"] for one in packages)
    services: list[Json] = []
    for one in packages:
        name: str = one["name"]
        if names[name] > 1:
            name = one["fully_qualified_name"]
            if full_names[name] > 1:
                name = f"{name}-{one['version']}" if one.get("version") else f"{name}-{one['id']}"
        services.append(
            {
                "id": one["id"],
                "name": name,
                "description": described(one.get("description") or name),
                "bindable": True,
                "plan_updateable": False,
                "tags": one.get("tags") or [],
                "plans": [
                    {
                        "id": plan_of(one["id"]),
                        "name": "default",
                        "description": f"Default plan for the service {name}",
                    }
                ],
            }
        )
    return {"services": services}


def application_object(
    package: Json, object_id: str, space: str, parameters: dict[str, Json]
) -> Json:
    """The application that a service instance is, in the model of its environment."""
    header = {
        "type": package["fully_qualified_name"],
        "id": object_id,
        plan_of(package["id"]): {"name": package["name"]},
    }
    if package.get("version"):  # without one, a class of version 0 is meant
        header["classVersion"] = package["version"]
    own = {name: _fresh(value) for name, value in parameters.items() if name != "?"}
    return {"?": header, "name": space, **own}


def _fresh(value: Json) -> Json:
    """A copy whose objects have new ids: a platform sends the same parameters again and again."""
    if isinstance(value, list):
        return [_fresh(one) for one in cast("list[Json]", value)]
    if not isinstance(value, dict):
        return value
    given = cast("dict[str, Json]", value)
    copy = {name: _fresh(one) for name, one in given.items() if name != "?"}
    header = given.get("?")
    if isinstance(header, dict):
        copy["?"] = {**cast("dict[str, Json]", header), "id": uuid.uuid4().hex}
    elif "?" in given:
        copy["?"] = header
    return copy


def as_object(value: Json) -> dict[str, Json]:
    """A JSON object; an empty one for any other value."""
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}


def application_in(environment: Json, object_id: str) -> dict[str, Json] | None:
    """The header of an application in an environment; ``None`` when it is not there."""
    services: list[Json] = as_object(environment).get("services") or []
    headers = (as_object(as_object(one).get("?")) for one in services)
    return next((one for one in headers if one.get("id") == object_id), None)


def credentials_action(header: dict[str, Json] | None) -> str | None:
    """The id of an application's action ``getCredentials``; ``None``: it has none."""
    actions = as_object((header or {}).get("_actions"))
    return next((one for one in actions if "getCredentials" in one), None)
