"""Leases across processes that are killed while they hold work."""

import asyncio
import random
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from vetro.storage import Database, LeaseQueue, migrate

pytestmark = pytest.mark.thorough

CLAIMER = Path(__file__).parent / "claimer.py"
KEYS = [f"k{number:02}" for number in range(40)]


async def test_killed_claimers_lose_and_double_nothing(database_url: str) -> None:
    """When processes are killed during their work, each key has one result, of its newest claim."""
    database = await Database.open(database_url)
    await migrate(database, [])
    queue = LeaseQueue(database, "crash")
    async with database.transaction() as tx:
        # No unique key on purpose: a second completion would show.
        await tx.execute(text("CREATE TABLE results (key_ TEXT, fence INTEGER)"))
        for key in KEYS:
            await queue.enqueue(tx, key)
    chance = random.Random(3)
    kills_left = 6
    claimed: dict[str, list[int]] = {}

    async def run(name: str) -> bool:
        """Run one claimer to its end or its death; whether it was killed."""
        nonlocal kills_left
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(CLAIMER), database_url, name, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        killed = False
        async for line in process.stdout:
            event, key, fence = line.decode().split()
            if event == "claimed":
                claimed.setdefault(key, []).append(int(fence))
                if not killed and kills_left and chance.random() < 0.4:
                    kills_left -= 1
                    killed = True
                    process.kill()
        assert await process.wait() == (-9 if killed else 0)
        return killed

    async def keep_running(name: str) -> None:
        generation = 0
        while await run(f"{name}/{generation}"):
            generation += 1

    await asyncio.gather(*(keep_running(name) for name in ("a", "b", "c")))
    async with database.read() as tx:
        rows = (await tx.execute(text("SELECT key_, fence FROM results ORDER BY key_"))).all()
    await database.close()
    assert [row.key_ for row in rows] == KEYS
    assert kills_left == 0
    assert any(len(fences) > 1 for fences in claimed.values())
    for row in rows:
        # The newest claim completed it: earlier holders were fenced off.
        assert max(claimed[row.key_]) == row.fence
    every = [fence for fences in claimed.values() for fence in fences]
    assert len(set(every)) == len(every)
