"""Server records: registration, heartbeats, status, reconciling (compute-node-api.md §3-5)."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import structlog
from sqlalchemy import Row, delete, insert, select, update

from vetro.compute.faults import invalid_argument, not_found, not_running
from vetro.compute.tables import servers, vms
from vetro.storage import Database, Transaction

log = structlog.get_logger(__name__)

HEARTBEAT_LIFETIME = timedelta(seconds=11)
RECONCILE_SECONDS = 5.0
CHANNEL = "compute/servers"


@dataclass(frozen=True)
class Agent:
    """Where a node's agent listens."""

    server_uuid: str
    url: str


def api_time(moment: datetime | None) -> str | None:
    """ISO with milliseconds and Z."""
    if moment is None:
        return None
    text = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return text[:-3] + "Z"


class ServerStore:
    """Server records and what their agents say."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # What agents say

    async def register(self, uuid: str, sysinfo: dict[str, Any]) -> None:
        """Create or renew a server from its sysinfo; it is running from now on."""
        if str(sysinfo.get("UUID") or uuid).lower() != uuid:
            raise invalid_argument("sysinfo UUID is not the server's")
        port = sysinfo.get("CN Agent Port") or 5309
        host = sysinfo.get("CN Agent IP") or sysinfo.get("Admin IP")
        now = self.database.clock.now()
        boot = sysinfo.get("Boot Time")
        values: dict[str, Any] = {
            "hostname": str(sysinfo.get("Hostname") or uuid),
            "sysinfo": sysinfo,
            "setup": bool(sysinfo.get("Setup") in (True, "true")),
            "agent_url": f"http://{host}:{port}" if host else "",
            "status": "running",
            "last_heartbeat": now,
            "last_boot": datetime.fromtimestamp(float(boot), UTC) if boot else None,
        }
        async with self.database.transaction() as tx:
            known = (await tx.execute(select(servers.c.uuid).where(servers.c.uuid == uuid))).first()
            if known is None:
                await tx.execute(
                    insert(servers).values(
                        uuid=uuid,
                        reserved=False,
                        sample={},
                        agents=[],
                        extra={},
                        network_version=0,
                        created=now,
                        **values,
                    )
                )
                log.info("a server registered", server=uuid, hostname=values["hostname"])
            else:
                await tx.execute(update(servers).where(servers.c.uuid == uuid).values(**values))
            tx.notify(CHANNEL, uuid)

    async def heartbeat(self, uuid: str) -> None:
        """The agent is alive; the service's own clock counts. Errors: 404."""
        async with self.database.transaction() as tx:
            row = await self.row(tx, uuid)
            await tx.execute(
                update(servers)
                .where(servers.c.uuid == uuid)
                .values(last_heartbeat=self.database.clock.now(), status="running")
            )
            if row.status != "running":
                log.info("a server is back", server=uuid, hostname=row.hostname)
                tx.notify(CHANNEL, uuid)

    async def status(self, uuid: str, sample: dict[str, Any]) -> None:
        """A status sample: VM states and resources. Errors: 404."""
        running = cast("dict[str, Any]", sample.get("vms") or {})
        async with self.database.transaction() as tx:
            await self.row(tx, uuid)
            await tx.execute(
                update(servers)
                .where(servers.c.uuid == uuid)
                .values(sample=sample, last_heartbeat=self.database.clock.now(), status="running")
            )
            known = await tx.execute(select(vms).where(vms.c.server_uuid == uuid))
            for row in list(known):
                said = running.get(row.uuid)
                if said is not None and row.state not in ("allocated", "creating"):
                    state = str(said.get("state") or row.state)
                    if state != row.state:
                        await tx.execute(
                            update(vms).where(vms.c.uuid == row.uuid).values(state=state)
                        )
            tx.notify(CHANNEL, uuid)

    async def set_agents(self, uuid: str, agents: list[Any]) -> None:
        """Remember which agents a node has. Errors: 404."""
        async with self.database.transaction() as tx:
            await self.row(tx, uuid)
            await tx.execute(update(servers).where(servers.c.uuid == uuid).values(agents=agents))

    async def mark_silent(self) -> list[str]:
        """Servers without a heartbeat for too long become ``unknown``; nothing else happens to them."""
        limit = self.database.clock.now() - HEARTBEAT_LIFETIME
        stale = (servers.c.status == "running") & (servers.c.last_heartbeat < limit)
        async with self.database.read() as tx:
            found = [row.uuid for row in await tx.execute(select(servers.c.uuid).where(stale))]
        if not found:
            return []
        async with self.database.transaction() as tx:
            # The condition again: a heartbeat may have come meanwhile, perhaps at another service.
            changed = await tx.execute(
                update(servers).where(stale).values(status="unknown").returning(servers.c.uuid)
            )
            gone = [row.uuid for row in changed]
            for uuid in gone:
                log.warning("a server is silent", server=uuid)
                tx.notify(CHANNEL, uuid)
        return gone

    async def reconcile(self) -> None:
        """Look for silent servers until cancelled."""
        while True:
            await asyncio.sleep(RECONCILE_SECONDS)
            # A database that is away for a while must not end the watch.
            with contextlib.suppress(OSError):
                await self.mark_silent()

    # What clients ask

    async def row(self, tx: Transaction, uuid: str) -> Row[Any]:
        """A server. Errors: 404."""
        row = (await tx.execute(select(servers).where(servers.c.uuid == uuid))).first()
        if row is None:
            raise not_found(f"Server {uuid} not found")
        return row

    async def agent(self, tx: Transaction, uuid: str) -> Agent:
        """Where the agent of a running server listens. Errors: 404, 409."""
        row = await self.row(tx, uuid)
        if row.status != "running" or not row.agent_url:
            raise not_running()
        return Agent(uuid, row.agent_url)

    def view(self, row: Row[Any], held: list[Row[Any]]) -> dict[str, Any]:
        """A server record as the API shows it, its VMs included."""
        sample: dict[str, Any] = row.sample or {}
        memory: dict[str, Any] = sample.get("meminfo") or {}
        disk: dict[str, Any] = sample.get("diskinfo") or {}
        sysinfo: dict[str, Any] = row.sysinfo
        statuses: dict[str, Any] = dict(sample.get("vms") or {})
        for vm in held:
            statuses[vm.uuid] = {
                **statuses.get(vm.uuid, {}),
                "uuid": vm.uuid,
                "alias": vm.alias,
                "owner_uuid": vm.owner_uuid,
                "state": vm.state,
                "max_physical_memory": vm.memory_mib,
                "quota": vm.quota_gib,
                "cpu_cap": vm.cpu_cap,
                "nics": vm.vm.get("nics") or [],
            }
        boot: dict[str, Any] = sysinfo.get("Boot Parameters") or {}
        total: int = memory.get("total_bytes") or int(sysinfo.get("MiB of Memory") or 0) * 2**20
        return {
            "uuid": row.uuid,
            "hostname": row.hostname,
            "status": row.status,
            "setup": row.setup,
            "setting_up": False,
            "reserved": row.reserved,
            "headnode": str(boot.get("headnode", "")).lower() == "true",
            "datacenter": sysinfo.get("Datacenter Name") or "local",
            "current_platform": sysinfo.get("Live Image") or "",
            "created": api_time(row.created),
            "last_boot": api_time(row.last_boot),
            "last_heartbeat": api_time(row.last_heartbeat),
            "memory_total_bytes": total,
            "memory_available_bytes": memory.get("availrmem_bytes"),
            "memory_arc_bytes": memory.get("arcsize_bytes"),
            "disk_pool_size_bytes": disk.get("pool_size_bytes"),
            "disk_system_used_bytes": disk.get("system_used_bytes"),
            "disk_installed_images_used_bytes": disk.get("installed_images_used_bytes"),
            "disk_zone_quota_bytes": disk.get("zone_quota_bytes"),
            "ram": total // 2**20,
            "agents": row.agents,
            "sysinfo": sysinfo,
            "vms": statuses,
            "overprovision_ratios": {"ram": 1.0, "disk": 1.0, "cpu": 4.0},
            "reservation_ratio": 0.15,
            "traits": {},
            "rack_identifier": "",
            "comments": "",
            "reservoir": False,
            **row.extra,
        }

    async def views(self, tx: Transaction, uuids: list[str] | None = None) -> list[dict[str, Any]]:
        """Server records, of all or some servers."""
        query = select(servers).order_by(servers.c.uuid)
        if uuids is not None:
            query = query.where(servers.c.uuid.in_(uuids))
        rows = list(await tx.execute(query))
        held: dict[str, list[Row[Any]]] = {}
        for vm in await tx.execute(select(vms)):
            held.setdefault(vm.server_uuid, []).append(vm)
        return [self.view(row, held.get(row.uuid, [])) for row in rows]

    async def change(self, uuid: str, values: dict[str, Any]) -> None:
        """Set attributes an operator may set. Errors: 404, 409."""
        allowed = {
            "reserved": bool,
            "comments": str,
            "traits": dict,
            "overprovision_ratios": dict,
            "rack_identifier": str,
            "reservation_ratio": (int, float),
            "reservoir": bool,
            "setup": bool,
        }
        for name, value in values.items():
            if name not in allowed:
                raise invalid_argument(f"`{name}` is not an explicitly defined parameter")
            if not isinstance(value, allowed[name]):
                raise invalid_argument(f"`{name}` has the wrong type")
        async with self.database.transaction() as tx:
            row = await self.row(tx, uuid)
            extra = {
                **row.extra,
                **{k: v for k, v in values.items() if k not in ("reserved", "setup")},
            }
            columns = {k: v for k, v in values.items() if k in ("reserved", "setup")}
            await tx.execute(
                update(servers).where(servers.c.uuid == uuid).values(extra=extra, **columns)
            )

    async def forget(self, uuid: str) -> None:
        """Remove a server record; its machine is not touched. Errors: 404."""
        async with self.database.transaction() as tx:
            await self.row(tx, uuid)
            await tx.execute(delete(servers).where(servers.c.uuid == uuid))
