"""``vetro allocate --case``: the allocator as a function from JSON to JSON.

A case has ``servers`` and ``vm``, and optionally ``description`` (the pipeline as a nested list; a
text is a title for people), ``defaults``, ``image``, ``package``, ``tickets``, ``nic_tags``,
``nic_tag_requirements``, ``settings`` (``weight_sign``, ``os_policy`` and our other switches) and
``seed``. All servers are considered, in the order given: those that POST /allocate excludes
beforehand are excluded by the pipeline's own filters here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from vetro.compute.allocation.allocator import Allocator, seeded
from vetro.compute.allocation.defaults import read_defaults
from vetro.compute.allocation.errors import DefaultsError, DescriptionError, InvalidRequest
from vetro.compute.allocation.fleet import Fleet
from vetro.compute.allocation.reservations import Ticket, open_tickets
from vetro.compute.allocation.steps import Outcome
from vetro.compute.allocation.validation import check_request
from vetro.json_values import JsonObject

SETTINGS = ("weight_sign", "os_policy", "affinity_mix", "cpu_uncapped_policy")


def run_case(case: Mapping[str, object]) -> Outcome:
    """The outcome of a case. Errors: ``InvalidRequest`` with the invalid field."""
    fleet = Fleet(_servers(case))
    allocator = _allocator(case)
    request = check_request(
        vm=case.get("vm"),
        image=case.get("image", {}),
        package=case.get("package"),
        nic_tags=case.get("nic_tags"),
        nic_tag_requirements=case.get("nic_tag_requirements"),
    )
    seed = case.get("seed")
    return allocator.allocate(
        fleet, request, tickets=_tickets(case), random=seeded(0 if seed is None else seed)
    )


def allocate_case(case: object) -> JsonObject:
    """A case's answer: chosen, error, steps and scores; or the invalid field and the message."""
    if not isinstance(case, Mapping):
        return {"invalid": "case", "message": "a case must be an object"}
    try:
        outcome = run_case(cast("Mapping[str, object]", case))
    except InvalidRequest as error:
        return {"invalid": error.field, "message": str(error)}
    return {
        "chosen": outcome.chosen,
        "error": outcome.error,
        "steps": outcome.steps_json(),
        "scores": outcome.scores(),
    }


def _objects(case: Mapping[str, object], name: str) -> list[JsonObject]:
    value: object = case.get(name)
    if value is None:
        value = []
    if not isinstance(value, list):
        raise InvalidRequest(name, f"{name} must be a list")
    for position, item in enumerate(cast("list[object]", value)):
        if not isinstance(item, dict):
            raise InvalidRequest(name, f"{name}[{position}] must be an object")
    return cast("list[JsonObject]", value)


def _servers(case: Mapping[str, object]) -> list[JsonObject]:
    if "servers" not in case:
        raise InvalidRequest("servers", "servers must be a list")
    servers = _objects(case, "servers")
    seen: set[object] = set()
    for position, server in enumerate(servers):
        uuid = server.get("uuid")
        if not isinstance(uuid, str):
            raise InvalidRequest("servers", f"servers[{position}] has no uuid")
        if uuid in seen:
            raise InvalidRequest("servers", f"servers[{position}] has the uuid of another server")
        seen.add(uuid)
    return servers


def _tickets(case: Mapping[str, object]) -> dict[str, tuple[Ticket, ...]]:
    return open_tickets(_objects(case, "tickets"))


def _allocator(case: Mapping[str, object]) -> Allocator:
    defaults: Any = case.get("defaults")
    settings: Any = case.get("settings")
    defaults = {} if defaults is None else defaults
    settings = {} if settings is None else settings
    for name, value in (("defaults", defaults), ("settings", settings)):
        if not isinstance(value, dict):
            raise InvalidRequest(name, f"{name} must be an object")
    chosen = {key: settings[key] for key in SETTINGS if key in settings}
    field = "settings"
    try:
        read_defaults(chosen)
        field = "defaults"
        read = read_defaults({**defaults, **chosen}, profile=str(settings.get("profile") or "seed"))
    except DefaultsError as error:
        raise InvalidRequest(field, str(error)) from error
    description: object = case.get("description")
    if isinstance(description, str):
        description = None  # a title
    if description is not None and not isinstance(description, list):
        raise InvalidRequest("description", "description must be a list")
    try:
        return Allocator(read, cast("list[object] | None", description))
    except DescriptionError as error:
        raise InvalidRequest("description", str(error)) from error
