"""The objects of a project in the compute service, and their removal when the project is deleted.

Instances are removed first, by tasks of their nodes; then the objects they use (ports, addresses,
networks) and images, in an order in which no object refers to a removed one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Table, delete, select

from vetro.compute.networks.fabric import Fabric
from vetro.compute.servers.store import ServerStore
from vetro.compute.tables import (
    floating_ips,
    images,
    keypairs,
    networks,
    ports,
    router_interfaces,
    routers,
    security_groups,
    servers,
    subnets,
    tasks,
    vms,
    volume_copies,
    volumes,
)
from vetro.compute.values.silence import is_given_up
from vetro.compute.vms.given_up import leave_given_up
from vetro.compute.vms.image_copies import ImageCopies
from vetro.compute.vms.image_store import ImageStore
from vetro.compute.vms.lifecycle import Machines
from vetro.compute.vms.volumes import Volumes
from vetro.http import Fault
from vetro.storage import Transaction

log = structlog.get_logger(__name__)

#: The kinds that are counted, by their names for users, with the column of their name.
KINDS: dict[str, tuple[Table, str]] = {
    "instances": (vms, "alias"),
    "images": (images, "name"),
    "volumes": (volumes, "name"),
    "volume snapshots": (volume_copies, "name"),
    "volume backups": (volume_copies, "name"),
    "key pairs": (keypairs, "name"),
    "floating addresses": (floating_ips, "address"),
    "networks": (networks, "name"),
    "subnets": (subnets, "name"),
    "routers": (routers, "name"),
    "ports": (ports, "name"),
    "security groups": (security_groups, "name"),
}
#: The order of removal; routers are detached from their subnets first.
FABRIC = (
    (floating_ips, "floating address"),
    (ports, "port"),
    (routers, "router"),
    (subnets, "subnet"),
    (networks, "network"),
    (security_groups, "security group"),
)


@dataclass(eq=False, repr=False)
class ProjectObjects:
    """The objects of projects: instances, images, key pairs and networks."""

    machines: Machines
    servers: ServerStore
    fabric: Fabric
    images: ImageStore
    copies: ImageCopies
    volumes: Volumes

    def __post_init__(self) -> None:
        self.database = self.fabric.database

    async def names(self, tx: Transaction, project_id: str) -> dict[str, list[str]]:
        """The names of a project's objects, by kind (without empty kinds).

        A router without subnets is not counted: the first environment creates one for its project,
        and only ``clear`` removes it.
        """
        found: dict[str, list[str]] = {}
        for kind, (table, column) in KINDS.items():
            query = select(table).where(table.c.owner_uuid == project_id)
            if table is volume_copies:
                query = query.where(table.c.kind == kind.removeprefix("volume ").removesuffix("s"))
            if table is routers:
                query = query.where(
                    table.c.uuid.in_(select(router_interfaces.c.router_uuid).distinct())
                )
            rows = (await tx.execute(query)).mappings().all()
            # An object without a name is listed by its uuid.
            names = sorted(str(row[column] or row.get("uuid")) for row in rows)
            if names:
                found[kind] = names
        return found

    async def clear(self, tx: Transaction, project_id: str) -> None:
        """Remove the objects that ``names`` does not count."""
        await tx.execute(delete(routers).where(routers.c.owner_uuid == project_id))

    async def remove(self, project_id: str) -> None:
        """Remove all that can be removed now; call it again until ``names`` finds nothing.

        While there are instances, only they are removed: their nodes still need the networks.
        """
        if await self._destroy_instances(project_id):
            return
        for row in await self._mine(volume_copies, project_id):
            await self._attempt("volume copy", row.uuid, self.volumes.remove_copy(row))
        for row in await self._mine(volumes, project_id):
            await self._attempt("volume", row.uuid, self.volumes.remove(row))
        await self._remove_fabric(project_id)
        async with self.database.transaction() as tx:
            await tx.execute(delete(keypairs).where(keypairs.c.owner_uuid == project_id))
        for row in await self._mine(images, project_id):
            # Instances of other projects may use a public image: they keep running.
            await self._attempt("image", row.uuid, self._remove_image(row.uuid))

    async def _mine(self, table: Table, project_id: str) -> list[Any]:
        async with self.database.read() as tx:
            return list(await tx.execute(select(table).where(table.c.owner_uuid == project_id)))

    async def _destroy_instances(self, project_id: str) -> bool:
        """Start to destroy a project's instances; returns whether it has any."""
        asked = select(tasks.c.vm_uuid).where(
            tasks.c.task == "machine_destroy", tasks.c.status == "active"
        )
        # As two lists: `NOT IN` with nulls would find nothing.
        async with self.database.read() as tx:
            going = {row.vm_uuid for row in await tx.execute(asked)}
            query = select(vms.c.uuid, vms.c.server_uuid).where(vms.c.owner_uuid == project_id)
            found = list(await tx.execute(query))
            nodes = {row.uuid: row for row in await tx.execute(select(servers))}
        for row in found:
            node = nodes.get(row.server_uuid)
            if row.uuid in going:
                continue
            if node is None or is_given_up(node):
                # Nothing more is expected of its server; what is left there goes when that is back.
                await leave_given_up(self.database, row.uuid)
                continue
            agent = self.servers.agent_of(node)
            await self._attempt("instance", row.uuid, self.machines.destroy(agent, row.uuid, {}))
        return bool(found)

    async def _remove_fabric(self, project_id: str) -> None:
        for row in await self._mine(routers, project_id):
            async with self.database.transaction() as tx:
                joined = router_interfaces.c.router_uuid == row.uuid
                await tx.execute(delete(router_interfaces).where(joined))
        async with self.database.transaction() as tx:
            # Groups may refer to each other.
            mine = security_groups.c.owner_uuid == project_id
            await tx.execute(security_groups.update().where(mine).values(rules=[]))
        for table, what in FABRIC:
            for row in await self._mine(table, project_id):
                await self._attempt(what, row.uuid, self.fabric.remove(table, row.uuid, what))

    async def _remove_image(self, uuid: str) -> None:
        await self.images.remove(uuid, force=True)
        await self.copies.deleted(uuid)

    async def _attempt(self, what: str, uuid: str, removal: Any) -> None:
        """Remove one object; a failure is logged and tried again in the next turn."""
        try:
            await removal
        except Fault as error:
            log.warning("project_object_not_removed_yet", what=what, uuid=uuid, reason=str(error))
