"""What the servers' drivers can do, for clients that ask before they use it."""

from __future__ import annotations

from sqlalchemy import select

from vetro.compute.tables import servers
from vetro.compute.values.records import mapping
from vetro.compute.wire import Offer
from vetro.storage import Database


async def offer(database: Database) -> Offer:
    """What running servers can do; everything when there is none yet."""
    async with database.read() as tx:
        rows = list(await tx.execute(select(servers.c.sysinfo, servers.c.status)))
    nodes = [mapping(row.sysinfo.get("Vetro Node")) for row in rows if row.status == "running"]
    drivers = {str(one.get("driver") or "unknown") for one in nodes}
    able = {
        "volumes": not nodes or any("volumes" in (one.get("features") or ()) for one in nodes),
        # With `process` instances share the machine's ports and have no address of their own.
        "load balancers": drivers != {"process"},
    }
    drivers_text = f"(drivers: {', '.join(sorted(drivers))}); 'lxc' and 'qemu' have them"
    return Offer(
        parts=[part for part, has in able.items() if has],
        reasons={
            part: f"no running server has {part} {drivers_text}"
            for part, has in able.items()
            if not has
        },
    )
