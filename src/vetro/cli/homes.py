"""Which environment a VM belongs to: the one whose model has an instance with its uuid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from vetro.cli.connection import Connection, segment
from vetro.cli.objects import objects_of


def environments_of(connection: Connection, uuids: Iterable[str]) -> dict[str, str]:
    """The names of the environments of VMs, by uuid. Those that no environment made are absent.

    Environments are read one after the other, until every VM is found. A compute service alone has none.
    """
    wanted = set(uuids)
    found: dict[str, str] = {}
    for row in _environments(connection) if wanted else []:
        answer = connection.answer("GET", f"/v1/environments/{segment(str(row['id']))}")
        services: Any = answer.json().get("services") if answer.status < 400 else None
        for _, node in objects_of(services):
            uuid = str(node.get("openstackId"))
            if uuid in wanted:
                wanted.remove(uuid)
                found[uuid] = str(row["name"])
        if not wanted:
            break
    return found


def _environments(connection: Connection) -> list[dict[str, Any]]:
    """Those of every project, for whoever may see them; else of one's own."""
    answer = connection.answer("GET", "/v1/environments", params={"all_tenants": "true"})
    if answer.status == 403:
        answer = connection.answer("GET", "/v1/environments")
    return (
        cast("list[dict[str, Any]]", answer.json()["environments"]) if answer.status < 400 else []
    )
