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


def states_away(connection: Connection) -> dict[str, JsonObject]:
    """The VMs that are missing or unknown, as far as the caller sees them: states and aliases by uuid."""
    call = servers.servers("vms")
    response = connection.answer_to(call)
    if response.status >= 400:
        return {}
    return {
        uuid: {"state": str(vm.get("state")), "alias": str(vm.get("alias"))}
        for node in read(call, response)
        for uuid, vm in (node.vms or {}).items()
        if str(vm.get("state")) in (MISSING, UNKNOWN)
    }


def machines_away(
    environment: Mapping[str, object], vms: Mapping[str, JsonObject]
) -> list[JsonObject]:
    """The machines of an environment that are away: their names, uuids and states.

    A model has the uuids of its machines; one of version 0.3 has none, and its machines are called by its
    stack.
    """
    if environment.get("model_kind") == "workflow":
        stack = f"e{environment['id']}-"
        return [
            {"name": vm["alias"].removeprefix(stack), "uuid": uuid, "state": vm["state"]}
            for uuid, vm in vms.items()
            if vm["alias"].startswith(stack)
        ]
    return [
        {"name": node.get("name"), "uuid": uuid, "state": vms[uuid]["state"]}
        for _, node in objects_of(environment.get("services"))
        if (uuid := str(node.get("openstackId"))) in vms
    ]


def away_by_id(
    connection: Connection, rows: Iterable[Mapping[str, object]]
) -> dict[str, list[JsonObject]]:
    """The machines that are away of environments, by their ids. The models are read only if there are any."""
    vms = states_away(connection)
    if not vms:
        return {}

    def away(row: Mapping[str, object]) -> list[JsonObject]:
        if row.get("model_kind") != "workflow":
            answer = connection.answer("GET", f"/v1/environments/{segment(str(row['id']))}")
            row = answer.json() if answer.status < 400 else {}
        return machines_away(row, vms)

    known = {str(row["id"]): row for row in rows}
    with ThreadPoolExecutor(_AT_ONCE) as readers:
        return dict(zip(known, readers.map(away, known.values()), strict=True))


def status_away(away: Iterable[JsonObject]) -> str | None:
    """What is said instead of "ready" of an environment with these machines."""
    states = {one["state"] for one in away}
    if UNKNOWN in states:
        return "machines unknown"
    return "machines missing" if states else None
