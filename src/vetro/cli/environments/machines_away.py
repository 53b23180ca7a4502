"""Machines of environments that are not there, or of which nothing is known, while their nodes are silent.

The API's status of an environment says how its last deployment ended. "Ready" is not said over a machine that
is missing: the commands put what the compute service knows beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from vetro.cli.client.answers import JsonObject
from vetro.cli.client.connection import Connection, read, segment
from vetro.cli.environments.objects import objects_of
from vetro.compute.client import servers

MISSING, UNKNOWN = "missing", "unknown"
#: Environments that are read at the same time.
_AT_ONCE = 8


def states_away(connection: Connection) -> dict[str, str]:
    """The VMs that are missing or unknown, by uuid, as far as the caller sees them."""
    call = servers.servers("vms")
    response = connection.answer_to(call)
    if response.status >= 400:
        return {}
    states = {
        uuid: str(vm.get("state"))
        for node in read(call, response)
        for uuid, vm in (node.vms or {}).items()
    }
    return {uuid: state for uuid, state in states.items() if state in (MISSING, UNKNOWN)}


def machines_away(services: object, states: Mapping[str, str]) -> list[JsonObject]:
    """The machines of a model that are away: their names, uuids and states."""
    return [
        {"name": node.get("name"), "uuid": uuid, "state": states[uuid]}
        for _, node in objects_of(services)
        if (uuid := str(node.get("openstackId"))) in states
    ]


def away_by_id(
    connection: Connection, rows: Iterable[Mapping[str, object]]
) -> dict[str, list[JsonObject]]:
    """The machines that are away of environments, by their ids. The models are read only if there are any."""
    states = states_away(connection)
    if not states:
        return {}

    def away(id_: str) -> list[JsonObject]:
        answer = connection.answer("GET", f"/v1/environments/{segment(id_)}")
        return machines_away(answer.json().get("services"), states) if answer.status < 400 else []

    ids = [str(row["id"]) for row in rows]
    with ThreadPoolExecutor(_AT_ONCE) as readers:
        return dict(zip(ids, readers.map(away, ids), strict=True))


def status_away(away: Iterable[JsonObject]) -> str | None:
    """What is said instead of "ready" of an environment with these machines."""
    states = {one["state"] for one in away}
    if UNKNOWN in states:
        return "machines unknown"
    return "machines missing" if states else None
