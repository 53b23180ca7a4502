"""Interfaces of a VM that is there: added and removed. Ours, beside CNAPI."""

from __future__ import annotations

import functools
from typing import cast
from urllib.parse import unquote

from vetro.compute.http.answers import TASK_STARTED, VM_LEAVES
from vetro.compute.http.endpoint import Call, Endpoint
from vetro.compute.http.endpoints.vms import about_of
from vetro.compute.networks.ownership import Reference, check_references, each
from vetro.compute.tables import ports
from vetro.compute.values.faults import invalid_parameters
from vetro.compute.values.network_parameters import UUIDS
from vetro.compute.values.records import Json
from vetro.http.parameters import Param


async def add_interfaces(call: Call) -> Json:
    """Give a VM an interface for each of these ports; the node's task, and none when it has them.

    A container has them at once. A virtual machine that runs is restarted. When the task fails the ports
    are free again.
    """
    wanted = [str(one).lower() for one in cast("list[object]", call.get("ports") or [])]
    if not wanted:
        raise invalid_parameters({"ports": "names no port"})
    if call.project is not None:
        named = Reference("ports", ports, "port", each)
        await check_references(call.service.fabric, (named,), {"ports": wanted}, call.project, "")
    about = await about_of(call)
    return await call.service.machines.interfaces.add(call.agent, call.vm_uuid, wanted, about)


async def remove_interface(call: Call) -> Json:
    """Take an interface from a VM, by its MAC address; its port is free when the task has ended.

    A virtual machine that runs is restarted. When the primary interface goes, another one is primary.
    """
    about = await about_of(call)
    mac = unquote(str(call.request.path_params["mac"]))
    return await call.service.machines.interfaces.remove(call.agent, call.vm_uuid, mac, about)


_INTERFACES = "/servers/{server_uuid}/vms/{uuid}/interfaces"
_vm = functools.partial(Endpoint, running=True)

ENDPOINTS = [
    _vm("VmInterfacesAdd", "POST", _INTERFACES, add_interfaces,
        (Param("ports", UUIDS, required=True),), reply=VM_LEAVES),
    _vm("VmInterfaceRemove", "DELETE", f"{_INTERFACES}/{{mac}}", remove_interface,
        reply=TASK_STARTED),
]  # fmt: skip
