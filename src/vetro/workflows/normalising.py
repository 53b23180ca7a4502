"""What is put right in a model before the loop, and taken out after it (§1.1, §14.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from vetro.workflows.hostnames import is_windows_type, services_of, units_of
from vetro.workflows.values import Json

_DEFAULTS: dict[str, dict[str, Json]] = {
    "linuxApacheService": {"deployApachePHP": False},
    "msSqlClusterServer": {"sqlServiceUserName": "Administrator", "databases": []},
}


def normalise(model: dict[str, Json], new_id: Callable[[], str]) -> list[dict[str, Json]]:
    """Put a model right in place; the services that cannot start for want of an image name."""
    unfit: list[dict[str, Json]] = []
    for service in services_of(model):
        if isinstance(service.get("osImage"), str):
            service["osImage"] = {"name": service["osImage"]}
        kind = service.get("type")
        for key, value in _DEFAULTS.get(kind, {}).items() if isinstance(kind, str) else ():
            if service.get(key) is None:
                service[key] = list(cast("list[Json]", value)) if value == [] else value
        if "clusterIP" in service and service.get("clusterIp") is None:
            service["clusterIp"] = service["clusterIP"]
        for index, unit in enumerate(units_of(service)):
            if not unit.get("id"):
                unit["id"] = new_id()
            if not unit.get("name"):
                unit["name"] = f"{service.get('name')}_instance_{index}"
        if is_windows_type(kind) and "osImage" in service and not image_name(service):
            unfit.append(service)
    return unfit


def image_name(service: dict[str, Json]) -> Json:
    """The name of a service's image."""
    image = service["osImage"]
    return cast("dict[str, Json]", image).get("name") if isinstance(image, dict) else None


def clean_up(model: dict[str, Json]) -> None:
    """Take out the token and what is temporary."""
    model.pop("token", None)
    model.pop("temp", None)
    for service in services_of(model):
        service.pop("temp", None)
        for unit in units_of(service):
            unit.pop("temp", None)
    networking = model.get("networking")
    known = cast("dict[str, Json]", networking) if isinstance(networking, dict) else {}
    networks = known.get("networks")
    for network in cast("list[Json]", networks) if isinstance(networks, list) else ():
        if isinstance(network, dict):
            cast("dict[str, Json]", network).pop("temp", None)
