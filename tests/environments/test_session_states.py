"""What the states of an environment's sessions say about it (catalog-api.md §5.1, §5.2)."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

from sqlalchemy import delete, insert

from vetro.environments import states
from vetro.environments.tables import sessions

Api = Any  # the fixture of conftest.py

STATES = (states.OPENED, *states.ACTIVE, *states.FINAL)
START = datetime(2030, 1, 1, tzinfo=UTC)


async def test_an_environment_is_busy_just_when_its_status_says_so(api: Api) -> None:
    """Whatever three sessions of two versions it has: ``activity`` is its status while a task changes it,
    and ``active_sessions`` are those of its sessions that a task works on."""
    environment = await api.environment()
    store = api.rooms.tasks.store
    for found in product(STATES, repeat=3):
        async with api.database.transaction() as tx:
            await tx.execute(delete(sessions))
            rows = [
                {
                    "id": str(place),
                    "environment_id": environment,
                    "user_id": "ann",
                    "state": state,
                    "version": 1 if place == 2 else 0,
                    "model": {},
                    "created": START,
                    "updated": START + timedelta(seconds=place),
                }
                for place, state in enumerate(found)
            ]
            await tx.execute(insert(sessions), rows)
            status = await store.status(tx, environment)
            busy = status if status in states.ACTIVE else None
            assert await store.activity(tx, environment) == busy, found
            active = await store.active_sessions(tx, environment)
            working = {row.id for row in await store.session_states(tx, environment)
                       if row.state in states.ACTIVE}  # fmt: skip
            assert {row.id for row in active} == working, found
