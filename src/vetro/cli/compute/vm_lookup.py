"""VMs as commands find and show them: by uuid or alias, with their addresses and environments."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, cast

from vetro.cli.client.connection import Connection, segment
from vetro.cli.compute.servers import list_servers
from vetro.cli.environments.objects import objects_of
from vetro.cli.terminal.choices import choose
from vetro.cli.terminal.output import fail
from vetro.compute.client.calls import FLOATING_IPS, PORTS

#: Environments that are read at the same time.
_AT_ONCE = 8


def all_vms(connection: Connection) -> list[dict[str, Any]]:
    """Every VM of every node, with its addresses."""
    rows: list[dict[str, Any]] = []
    for node in list_servers(connection):
        held: dict[str, dict[str, Any]] = node.get("vms") or {}
        for uuid, status in held.items():
            nics: list[dict[str, Any]] = status.get("nics") or []
            row: dict[str, Any] = {"uuid": uuid, "server_uuid": node["uuid"], **status}
            row["addresses"] = ", ".join(str(nic["ip"]) for nic in nics if nic.get("ip"))
            rows.append(row)
    return rows


def find_vm(connection: Connection, wanted: str) -> dict[str, Any]:
    """The VM with this uuid or alias; of several the user says which."""
    rows = all_vms(connection)
    found = [row for row in rows if row["uuid"] == wanted]
    found = found or [row for row in rows if wanted and row.get("alias") == wanted]
    if not found:
        fail(f"There is no VM '{wanted}'", "'vetro vm list' shows them.")
    return choose(found, wanted, _label, "Name it by its uuid.")


def _label(row: dict[str, Any]) -> str:
    told = [row.get("state"), row["addresses"], f"server {row['server_uuid']}"]
    return f"{row['uuid']} ({', '.join(str(one) for one in told if one)})"


def with_floating_addresses(
    connection: Connection, rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """VMs with the floating addresses that lead to them."""
    leads: dict[str, list[str]] = {}
    for one in connection.send(FLOATING_IPS.all()):
        if one.port_uuid:
            leads.setdefault(one.port_uuid, []).append(one.address)
    found: dict[str | None, list[str]] = {}
    for port in connection.send(PORTS.all()) if leads else []:
        found.setdefault(port.device_uuid, []).extend(leads.get(port.uuid, []))
    for row in rows:
        row["floating"] = ", ".join(found.get(row["uuid"], []))
    return rows


def environments_of(connection: Connection, uuids: Iterable[str]) -> dict[str, str]:
    """The names of the environments of VMs, by uuid. Those that no environment made are absent.

    A VM belongs to the environment whose model has an instance with its uuid.
    Environments are read side by side, until every VM is found. A compute service alone has none.
    """
    wanted = set(uuids)
    rows = _environments(connection) if wanted else []
    found: dict[str, str] = {}
    with ThreadPoolExecutor(_AT_ONCE) as readers:
        reading = {readers.submit(_instances, connection, str(row["id"])): row for row in rows}
        for read in as_completed(reading):
            for uuid in read.result() & wanted:
                found[uuid] = str(reading[read]["name"])
            if len(found) == len(wanted):
                readers.shutdown(wait=False, cancel_futures=True)
                break
    return found


def _instances(connection: Connection, environment: str) -> set[str]:
    """The uuids of the VMs in an environment's model; none of one that is gone meanwhile."""
    answer = connection.answer("GET", f"/v1/environments/{segment(environment)}")
    services: Any = answer.json().get("services") if answer.status < 400 else None
    return {str(node.get("openstackId")) for _, node in objects_of(services)}


def _environments(connection: Connection) -> list[dict[str, Any]]:
    """Those of every project, for whoever may see them; else of one's own."""
    answer = connection.answer("GET", "/v1/environments", params={"all_tenants": "true"})
    if answer.status == 403:
        answer = connection.answer("GET", "/v1/environments")
    return (
        cast("list[dict[str, Any]]", answer.json()["environments"]) if answer.status < 400 else []
    )
