"""A process that claims work and completes it slowly; started and killed by test_lease_crashes.

It says ``claimed KEY FENCE`` and ``done KEY FENCE``. The result row and the completion are one commit.
"""

import asyncio
import sys

from sqlalchemy import text

from vetro.storage import Database, LeaseLost, LeaseQueue


async def main(url: str, name: str) -> None:
    """Work until there is none for a while."""
    database = await Database.open(url)
    queue = LeaseQueue(database, "crash")
    while await queue.wait_for_work(3):
        lease = await queue.claim(name, 0.4)
        if lease is None:
            continue
        print(f"claimed {lease.key} {lease.fence}", flush=True)
        await asyncio.sleep(0.02)
        try:
            async with database.transaction() as tx:
                await tx.execute(
                    text("INSERT INTO results (key_, fence) VALUES (:key, :fence)"),
                    {"key": lease.key, "fence": lease.fence},
                )
                await queue.complete(tx, lease)
        except LeaseLost:
            print(f"lost {lease.key} {lease.fence}", flush=True)
        else:
            print(f"done {lease.key} {lease.fence}", flush=True)
    await database.close()


asyncio.run(main(sys.argv[1], sys.argv[2]))
