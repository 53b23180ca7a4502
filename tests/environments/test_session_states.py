"""What the states of an environment's sessions say about it (catalog-api.md §5.1, §5.2)."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from sqlalchemy import create_engine, delete, insert

from vetro.environments import states, store
from vetro.environments.tables import metadata, sessions
from vetro.storage import Prepared

Api = Any  # the fixture of conftest.py

STATES = (states.OPENED, *states.ACTIVE, *states.FINAL)
START = datetime(2030, 1, 1, tzinfo=UTC)


async def test_an_environment_is_busy_just_when_its_status_says_so(api: Api) -> None:
    """Whatever three sessions of two versions it has: ``activity`` is its status while a task changes it,
    and ``active_sessions`` are those of its sessions that a task works on."""
    environment = await api.environment()
    found_by = api.rooms.tasks.store
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
            status = await found_by.status(tx, environment)
            busy = status if status in states.ACTIVE else None
            assert await found_by.activity(tx, environment) == busy, found
            active = await found_by.active_sessions(tx, environment)
            working = {row.id for row in await found_by.session_states(tx, environment)
                       if row.state in states.ACTIVE}  # fmt: skip
            assert {row.id for row in active} == working, found


@pytest.mark.parametrize("statement", [store._ACTIVE, store._LAST_BEGUN])
def test_open_sessions_are_not_read_when_one_is_opened_or_changed(statement: Prepared) -> None:
    """Whether a task works on an environment is found by the states in the index: however many users have
    a session open, their rows are not read."""
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    query: Any = statement.statement
    text = query.params(wanted="x").compile(engine, compile_kwargs={"literal_binds": True})
    with engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")
        found = " ".join(str(row.detail) for row in plan)
    engine.dispose()
    assert "environments_sessions_environment (environment_id=? AND state=?)" in found
