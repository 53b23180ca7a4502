"""VMs as commands find and show them: by uuid or alias, with their addresses and environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import cast

from vetro.cli.client.connection import Connection, Decoded, known_as, segment
from vetro.cli.environments.objects import objects_of
from vetro.cli.terminal.confirmation import choose
from vetro.cli.terminal.output import Row, fail
from vetro.compute.client import servers, vm_calls
from vetro.compute.client.calls import FLOATING_IPS, PORTS
from vetro.compute.wire import Vm

#: Environments that are read at the same time.
_AT_ONCE = 8


def all_vms(connection: Connection) -> list[Decoded[Vm]]:
    """Every VM of every node; its row has its addresses."""
    found: list[Decoded[Vm]] = []
    for node in connection.send(servers.servers("vms")):
        for uuid, status in (node.vms or {}).items():
            row: Row = {"uuid": uuid, "server_uuid": node.uuid, **status}
            known = known_as(row, Vm)
            row["addresses"] = ", ".join(known.addresses)
            found.append(Decoded(known, row))
    return found


def find_vm(connection: Connection, wanted: str) -> Vm:
    """The VM with this uuid or alias; of several the user says which."""
    return find_decoded(connection, wanted).known


def called(vm: Vm) -> str:
    """What people call a VM: its alias, or its uuid when it has none."""
    return vm.alias or vm.uuid


def find_decoded(connection: Connection, wanted: str) -> Decoded[Vm]:
    """As `find_vm`, with all that its node says of it."""
    rows = all_vms(connection)
    found = [one for one in rows if one.known.uuid == wanted]
    found = found or [one for one in rows if wanted and one.known.alias == wanted]
    if not found:
        fail(f"There is no VM '{wanted}'", "'vetro vm list' shows them.")
    found = _where_they_are(connection, found)
    if len({one.known.uuid for one in found}) > 1:
        hint = "Name it by its uuid."
    else:
        hint = (
            "One is of a node that has not reported yet what it has: wait a minute, then try again."
        )
    return choose(found, wanted, _label, hint)


def _where_they_are(connection: Connection, found: list[Decoded[Vm]]) -> list[Decoded[Vm]]:
    """Each VM once, on the node that the service knows it to be on.

    One that was made again elsewhere is also in what its former node reported last.
    """
    for uuid, listed in Counter(one.known.uuid for one in found).items():
        kept = connection.look_up(vm_calls.vm(uuid)) if listed > 1 else None
        if kept is not None:
            others = [one for one in found if one.known.uuid != uuid]
            here = [
                one
                for one in found
                if (one.known.uuid, one.known.server_uuid) == (uuid, kept.server_uuid)
            ]
            found = others + here if here else found
    return found


def _label(reply: Decoded[Vm]) -> str:
    vm = reply.known
    words = [vm.state, ", ".join(vm.addresses), f"server {vm.server_uuid}"]
    return f"{vm.uuid} ({', '.join(word for word in words if word)})"


def floating_addresses(connection: Connection) -> dict[str | None, list[str]]:
    """The floating addresses that lead to VMs, by the VM's uuid."""
    leads: dict[str, list[str]] = {}
    for one in connection.send(FLOATING_IPS.all()):
        if one.port_uuid:
            leads.setdefault(one.port_uuid, []).append(one.address)
    found: dict[str | None, list[str]] = {}
    for port in connection.send(PORTS.all()) if leads else []:
        found.setdefault(port.device_uuid, []).extend(leads.get(port.uuid, []))
    return found


def environments_of(connection: Connection, vms: Iterable[Vm]) -> dict[str, str]:
    """The names of the environments of VMs, by uuid. Those that no environment made are absent.

    A VM belongs to the environment whose model has an instance with its uuid; one of version 0.3 is called
    by the environment's stack. Environments are read side by side, until every VM is found. A compute
    service alone has none.
    """
    aliases = {one.uuid: one.alias or "" for one in vms}
    rows = _environments(connection) if aliases else []
    flat = {
        f"e{row['id']}": str(row["name"]) for row in rows if row.get("model_kind") == "workflow"
    }
    rows = [row for row in rows if row.get("model_kind") != "workflow"]
    found = {
        uuid: flat[stack]
        for uuid, alias in aliases.items()
        if (stack := alias.partition("-")[0]) in flat
    }
    wanted = aliases.keys() - found.keys()
    if not wanted:
        return found
    with ThreadPoolExecutor(_AT_ONCE) as readers:
        reading = {readers.submit(_instances, connection, str(row["id"])): row for row in rows}
        for read in as_completed(reading):
            for uuid in read.result() & wanted:
                found[uuid] = str(reading[read]["name"])
            if len(found) == len(aliases):
                readers.shutdown(wait=False, cancel_futures=True)
                break
    return found


def _instances(connection: Connection, environment: str) -> set[str]:
    """The uuids of the VMs in an environment's model; none of one that is gone meanwhile."""
    answer = connection.answer("GET", f"/v1/environments/{segment(environment)}")
    services: object = answer.json().get("services") if answer.status < 400 else None
    return {str(node.get("openstackId")) for _, node in objects_of(services)}


def _environments(connection: Connection) -> list[dict[str, object]]:
    """The VMs of every project if the caller may see them, else of the caller's project."""
    answer = connection.answer("GET", "/v1/environments", params={"all_tenants": "true"})
    if answer.status == 403:
        answer = connection.answer("GET", "/v1/environments")
    return (
        cast("list[dict[str, object]]", answer.json()["environments"])
        if answer.status < 400
        else []
    )
