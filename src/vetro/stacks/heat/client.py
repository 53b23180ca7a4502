"""The calls of Heat's API that stacks need, one method each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

from vetro.openstack import Session
from vetro.stacks.heat.patience import Patience
from vetro.stacks.model import Json, ProgressCallback

HEAT = "orchestration"
EVENTS = 200
"""How many of the newest events are read: a step between two looks has fewer."""
DEEPEST = 100
"""Stacks in stacks that are listed; Heat bounds it, by default at 5."""


@dataclass(frozen=True, slots=True)
class StackItem:
    """A resource of a stack or of a stack in it."""

    path: str
    """Its name; in nested stacks after the names of the resources that it is in: ``group.0.server``."""
    type: str
    status: str
    physical_id: str
    place: str
    """Its address below ``/stacks``; empty when it has none."""


class HeatClient:
    """Heat, for the project of a session. A stack is named by `place`: its name and id.

    What reads asks again as ``patience`` says, and calls ``say`` with what it waits for; what changes
    is for the caller to repeat.
    """

    def __init__(
        self, session: Session, patience: Patience, say: ProgressCallback | None = None
    ) -> None:
        self.session = session
        self._patience = patience
        self._say = say

    async def _get(
        self, path: str, service: str = HEAT, *, absent: tuple[int, ...] = (404,), **params: object
    ) -> Any:
        async def ask() -> Any:
            response = await self.session.request(
                service, "GET", path, params=params or None, absent=absent
            )
            return None if response is None else response.json()

        return await self._patience.ask(ask, f"Reading {path}", self._say)

    async def show(self, name: str, *, outputs: bool = False) -> dict[str, Json] | None:
        """A stack by name, or by name and id; ``None`` when there is none, or it is deleted."""
        found = await self._get(
            f"/stacks/{quote(name)}", resolve_outputs="true" if outputs else "false"
        )
        if found is None or found["stack"]["stack_status"] == "DELETE_COMPLETE":
            return None
        return found["stack"]

    async def content(
        self, place: str
    ) -> tuple[dict[str, Json], dict[str, Json], dict[str, str]] | None:
        """Template, environment and files; ``None`` when the stack is gone."""
        parts = [await self._get(f"/stacks/{place}/{one}") for one in
                 ("template", "environment", "files")]  # fmt: skip
        return None if None in parts else (parts[0], parts[1], parts[2])

    async def resources(self, place: str) -> list[dict[str, Json]]:
        """The resources of a stack."""
        found = await self._get(f"/stacks/{place}/resources")
        return found["resources"] if found else []

    async def all_resources(self, place: str, id_: str) -> list[StackItem]:
        """The resources of a stack and of the stacks nested in it."""
        found = await self._get(f"/stacks/{place}/resources", nested_depth=DEEPEST)
        rows = cast("list[dict[str, Json]]", found["resources"] if found else [])
        above = {id_: ""}
        items: list[StackItem] = []
        # Heat says for each in which stack it is and which one it has, not in which order.
        while rows:
            known = [one for one in rows if _linked_stack(one, "stack", id_) in above]
            for one in known or rows:
                # Where no row leads to its stack, it is below the resource that Heat names.
                prefix = above.get(
                    _linked_stack(one, "stack", id_), f"{one.get('parent_resource')}."
                )
                name = str(one["resource_name"])
                if nested := _linked_stack(one, "nested", ""):
                    above[nested] = f"{prefix}{name}."
                at = _link(one, "stack").partition("/stacks/")[2] or place
                items.append(
                    StackItem(
                        prefix + name,
                        str(one["resource_type"]),
                        str(one["resource_status"]),
                        str(one.get("physical_resource_id") or ""),
                        f"{at}/resources/{quote(name)}",
                    )
                )
            rows = [one for one in rows if one not in known] if known else []
        return items

    async def attributes(self, item: StackItem) -> dict[str, Json]:
        """What a resource says of itself now; empty when it is gone."""
        found = await self._get(f"/stacks/{item.place}")
        return {} if found is None else found["resource"].get("attributes") or {}

    async def changed_in_place(self, type_: str) -> frozenset[str]:
        """The properties of a type that can change without making the resource anew, as far as Heat says."""
        # Heat refuses types of services that its catalog lacks, and of its own rules, each in its way.
        found = await self._get(f"/resource_types/{quote(type_)}", absent=(400, 403, 404, 409))
        if found is None:
            return frozenset()
        properties = cast("dict[str, dict[str, Json]]", found["properties"])
        return frozenset(key for key, one in properties.items() if one.get("update_allowed"))

    async def events(self, place: str) -> list[dict[str, Json]]:
        """The newest events, oldest first."""
        found = await self._get(
            f"/stacks/{place}/events", sort_keys="created_at", sort_dir="desc", limit=EVENTS
        )
        events = cast("list[dict[str, Json]]", found["events"] if found else [])
        # Times are whole seconds: of one second, what began comes before what ended.
        return sorted(
            events,
            key=lambda one: (
                one["event_time"],
                not str(one["resource_status"]).endswith("_IN_PROGRESS"),
            ),
        )

    async def create(self, body: Mapping[str, Json], token: str = "") -> tuple[str, str]:
        """Begin to create a stack, with a token of its own if one is given: its place, and its id."""
        given = {"X-Auth-Token": token} if token else None
        made = await self.session.request(HEAT, "POST", "/stacks", json=body, headers=given)
        assert made is not None
        id_ = str(made.json()["stack"]["id"])
        return place_of({"stack_name": body["stack_name"], "id": id_}), id_

    async def update(self, place: str, body: Mapping[str, Json]) -> bool:
        """Begin to update a stack; ``False`` when it is gone."""
        done = await self.session.request(HEAT, "PUT", f"/stacks/{place}", json=body, absent=(404,))
        return done is not None

    async def mark_unhealthy(self, item: StackItem, reason: str) -> None:
        """Let the next update make a resource again."""
        body = {"mark_unhealthy": True, "resource_status_reason": reason}
        await self.session.request(HEAT, "PATCH", f"/stacks/{item.place}", json=body, absent=(404,))

    async def delete(self, place: str) -> None:
        """Begin to delete a stack; it may be gone."""
        await self.session.request(HEAT, "DELETE", f"/stacks/{place}", absent=(404,))

    async def preview_create(self, body: Mapping[str, Json]) -> list[dict[str, Json]]:
        """The resources that a template would make."""
        done = await self.session.request(HEAT, "POST", "/stacks/preview", json=body)
        assert done is not None
        return done.json()["stack"]["resources"]

    async def preview_update(
        self, place: str, body: Mapping[str, Json], *, nested: bool = False
    ) -> dict[str, list[dict[str, Json]]]:
        """The resources by what an update would do with them; ``nested``: also those of nested stacks."""
        done = await self.session.request(
            HEAT,
            "PUT",
            f"/stacks/{place}/preview",
            json=body,
            params={"show_nested": "true"} if nested else None,
        )
        assert done is not None
        return done.json()["resource_changes"]

    async def server_state(self, id_: str) -> str:
        """A server's state at Nova; empty when there is none."""
        found = await self._get(f"/servers/{id_}", "compute")
        return "" if found is None else str(found["server"]["status"])


def place_of(shown: Mapping[str, Json]) -> str:
    """The address of a stack below ``/stacks``."""
    return f"{quote(shown['stack_name'])}/{shown['id']}"


def _link(row: Mapping[str, Json], rel: str) -> str:
    links = cast("list[dict[str, str]]", row.get("links") or [])
    return next((one["href"] for one in links if one.get("rel") == rel), "")


def _linked_stack(row: Mapping[str, Json], rel: str, default: str) -> str:
    """The id of a stack that a row leads to."""
    return _link(row, rel).rpartition("/")[2] or default
