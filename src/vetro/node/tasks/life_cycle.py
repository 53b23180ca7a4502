"""The life cycle of VMs, and queries about them."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import cast

from vetro.json_values import JsonObject
from vetro.node.drivers import Driver
from vetro.node.errors import NodeError, TaskFailure
from vetro.node.tasks.images import peer_url
from vetro.node.tasks.parameters import (
    array,
    flag,
    invalid,
    objects,
    signal_number,
    stop_seconds,
    tolerate,
    vm_uuid,
)
from vetro.node.vm_objects import as_object, check_uuid
from vetro.node.vm_records import Vm
from vetro.node.work.queues import TaskContext, TaskKind


class MachineTasks:
    """Handlers over one driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def kinds(self) -> list[TaskKind]:
        """The kinds of tasks that this does."""
        work, query = "machine_tasks", "machine_query"
        return [
            TaskKind("machine_create", "machine_creation", self.create, label="vmadm.create"),
            TaskKind("machine_reprovision", "machine_creation", self.reprovision,
                     label="vmadm.reprovision"),
            TaskKind("machine_boot", work, self.boot, label="vmadm.start",
                     aliases=("machine_start",)),
            TaskKind("machine_shutdown", work, self.shutdown, label="vmadm.stop",
                     aliases=("machine_stop",), waits=True, cuts_in=_by_force),
            TaskKind("machine_reboot", work, self.reboot, label="vmadm.reboot", waits=True,
                     cuts_in=_by_force),
            TaskKind("machine_kill", work, self.kill, label="vmadm.kill"),
            TaskKind("machine_destroy", work, self.destroy, label="delete",
                     cuts_in=lambda _params: True),
            TaskKind("machine_update", work, self.update, label="vmadm.update"),
            TaskKind("machine_update_nics", work, self.update_nics),
            TaskKind("machine_load", query, self.load, query=True, label="VM.load"),
            TaskKind("machine_list", query, self.list, query=True, label="VM.list"),
            TaskKind("machine_info", query, self.info, query=True, label="VM.info"),
            TaskKind("machine_proc", work, self.processes, query=True),
            TaskKind("machine_execute", work, self.execute, label="VM.exec"),
        ]  # fmt: skip

    async def create(self, context: TaskContext) -> Mapping[str, object]:
        """Create a VM; ``{vm}``. The payload's firewall rules belong to the network state."""
        params = dict(context.params)
        disks = params.get("disks")
        if not params.get("image_uuid") and isinstance(disks, list) and disks:
            params["image_uuid"] = as_object(cast("list[object]", disks)[0], "disks[0]").get(
                "image_uuid"
            )
        peers = [peer_url(one) for one in array(params, "imgapiPeers")]
        params["imgapiPeers"] = [peer for peer in peers if peer]
        return {"vm": await self._driver.create(params, context.progress)}

    async def reprovision(self, context: TaskContext) -> Mapping[str, object]:
        """Replace the root file system; ``{vm}``."""
        uuid = vm_uuid(context.params)
        if not self._driver.exists(uuid):
            raise TaskFailure(f"VM {uuid} does not exist.", "VmNotFound")
        image = check_uuid(context.params.get("image_uuid"), "image_uuid")
        return {"vm": await self._driver.reprovision(uuid, image)}

    async def boot(self, context: TaskContext) -> Mapping[str, object]:
        """Apply ``update``, then start; ``{vm}``."""
        uuid = vm_uuid(context.params)
        await self._update_first(uuid, context.params)
        with tolerate(context.params, "EALREADYRUNNING"):
            await self._driver.start(uuid)
        return {"vm": await self._driver.load(uuid)}

    async def shutdown(self, context: TaskContext) -> Mapping[str, object]:
        """Stop; ``{vm}``."""
        uuid = vm_uuid(context.params)
        with tolerate(context.params, "ENOTRUNNING", "ESRCH"):
            await self._driver.stop(
                uuid,
                force=flag(context.params, "force"),
                timeout=stop_seconds(context.params, await self._brand(uuid)),
            )
        return {"vm": await self._driver.load(uuid)}

    async def reboot(self, context: TaskContext) -> Mapping[str, object]:
        """Apply ``update``, then stop and start; ``{vm}``."""
        uuid = vm_uuid(context.params)
        await self._update_first(uuid, context.params)
        with tolerate(context.params, "ENOTRUNNING"):
            await self._driver.reboot(
                uuid,
                force=flag(context.params, "force"),
                timeout=stop_seconds(context.params, await self._brand(uuid)),
            )
        return {"vm": await self._driver.load(uuid)}

    async def _brand(self, uuid: str) -> object:
        return (await self._driver.load(uuid)).get("brand")

    async def kill(self, context: TaskContext) -> Mapping[str, object]:
        """Signal the VM's first process; ``{vm}``."""
        uuid = vm_uuid(context.params)
        number = signal_number(context.params.get("signal", "SIGTERM"))
        with tolerate(context.params, "ESRCH", "ENOTRUNNING"):
            await self._driver.kill(uuid, number)
        return {"vm": await self._driver.load(uuid)}

    async def destroy(self, context: TaskContext) -> None:
        """Remove a VM with all its data; ``{}``."""
        await self._driver.delete(vm_uuid(context.params))

    async def update(self, context: TaskContext) -> Mapping[str, object]:
        """Apply the update rules; ``{vm}``."""
        return {"vm": await self._driver.update(vm_uuid(context.params), context.params)}

    async def _update_first(self, uuid: str, params: Mapping[str, object]) -> None:
        changes = as_object(params.get("update"), "update")
        if changes:
            await self._driver.update(uuid, {**changes, "uuid": uuid})

    async def update_nics(self, context: TaskContext) -> None:
        """Update gateways, resolvers and routes of all VMs in a changed network; ``{}``.

        One VM after the other; the first failure ends it, with the VM's uuid.
        """
        networks = objects(context.params, "networks")
        original = as_object(context.params.get("original_network"), "original_network")
        changed = _parse_network(original, "original_network")
        known = [(_parse_network(one, f"networks[{i}]"), one) for i, one in enumerate(networks)]
        if not networks:
            raise invalid("Invalid request parameter(s): networks must name at least one network")
        done = 0
        for vm in await self._driver.list(include_dni=True):
            changes = _network_changes(vm, changed, original, known)
            if changes:
                try:
                    await self._driver.update(vm["uuid"], changes)
                except NodeError as error:
                    raise TaskFailure(f'Error updating VM "{vm["uuid"]}": {error}') from error
                done += 1
                context.entry.event("updated", {"uuid": vm["uuid"], "count": done})

    async def load(self, context: TaskContext) -> Mapping[str, object]:
        """The VM object itself."""
        return await self._driver.load(
            vm_uuid(context.params), include_dni=flag(context.params, "include_dni")
        )

    async def list(self, context: TaskContext) -> Mapping[str, object]:
        """``{vms: [VM object]}``."""
        vms = await self._driver.list(include_dni=flag(context.params, "include_dni"))
        return {"vms": vms}

    async def info(self, context: TaskContext) -> Mapping[str, object]:
        """What the hypervisor knows, by type."""
        types = context.params.get("types") or ["all"]
        if isinstance(types, str):
            types = types.split(",")
        return await self._driver.info(vm_uuid(context.params), [str(t) for t in types])

    async def processes(self, context: TaskContext) -> Mapping[str, object]:
        """Processes by pid."""
        return await self._driver.processes(vm_uuid(context.params))

    async def execute(self, context: TaskContext) -> Mapping[str, object]:
        """Run ``command`` (array) inside a VM; ``{exitCode, stdout, stderr}``."""
        command = array(context.params, "command")
        if not command:
            raise invalid("command must be an array of words")
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        environment.update(as_object(context.params.get("env"), "env"))
        result = await self._driver.execute(
            vm_uuid(context.params),
            [str(word) for word in command],
            environment,
            stop_seconds(context.params),
        )
        return {"exitCode": result.exit_code, "stdout": result.stdout, "stderr": result.stderr}


def _by_force(params: Mapping[str, object]) -> bool:
    """Whether a stop waits for nobody, and so does not wait for one that does."""
    return flag(params, "force")


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _parse_network(given: Mapping[str, object], where: str) -> Network:
    try:
        return ipaddress.ip_network(str(given["subnet"]), strict=False)
    except (KeyError, ValueError) as error:
        raise invalid(
            f"Invalid request parameter(s): {where}.subnet is missing or wrong"
        ) from error


def _network_changes(
    vm: Vm,
    changed: Network,
    original: JsonObject,
    known: Sequence[tuple[Network, JsonObject]],
) -> dict[str, object]:
    """The ``machine_update`` changes for one VM; empty when none of its interfaces is affected."""
    nics: list[JsonObject] = []
    resolvers: list[str] = []
    routes: JsonObject = {}
    for nic in vm.get("nics", []):
        # A driver may show an address other than the network's (see the process driver).
        address = _address(nic.get("network_ip") or nic.get("ip"))
        mine = next(
            (
                one
                for network, one in known
                if one.get("uuid") == nic.get("network_uuid")
                or (address is not None and address in network)
            ),
            None,
        )
        if mine is not None:
            resolvers += [str(one) for one in array(mine, "resolvers")]
        concerned = (
            address is not None
            and address in changed
            and original.get("nic_tag") in (None, nic.get("nic_tag"))
            and int(original.get("vlan_id") or 0) == int(nic.get("vlan_id") or 0)
        )
        if concerned and mine is not None:
            change: JsonObject = {"mac": nic["mac"]}
            for key in ("gateway", "netmask", "mtu"):
                if mine.get(key) is not None:
                    change[key] = mine[key]
            nics.append(change)
            routes.update(mine.get("routes") or {})
    if not nics:
        return {}
    changes: dict[str, object] = {"update_nics": nics, "set_routes": routes}
    before = as_object(original.get("routes"), "original_network.routes")
    changes["remove_routes"] = [name for name in before if name not in routes]
    if vm.get("internal_metadata", {}).get("set_resolvers") is not False:
        changes["resolvers"] = list(dict.fromkeys(resolvers))
    return changes


def _address(value: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(str(value or "").split("/")[0])
    except ValueError:
        return None
