"""Which work of a queue is claimed next, and what is read to find it."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine
from tests.effort import examples

from vetro.storage import Database, Lease, LeaseQueue, ManualClock, Prepared, claiming, migrate
from vetro.storage.tables import metadata


@pytest.mark.parametrize(
    "statement", [claiming._OLDEST, claiming._OLDEST_OF_OTHERS, claiming._OLDEST_OF_PARTIES]
)
def test_the_oldest_work_is_found_without_sorting_the_queue(statement: Prepared) -> None:
    """However much work waits, its rows are read in their order until one can be claimed."""
    plan = plan_of(statement)
    assert "USING INDEX storage_leased_work_oldest (queue=?)" in plan
    assert "TEMP B-TREE" not in plan
    assert "SUBQUERY" not in plan


@pytest.mark.parametrize("statement", [claiming._HELD, claiming._HELD_BY_OWNER])
def test_work_that_waits_is_not_read_to_count_what_is_held(statement: Prepared) -> None:
    """The index of held work has the parties."""
    plan = plan_of(statement)
    assert "storage_leased_work_held (queue=? AND party>?)" in plan
    assert "TEMP B-TREE" not in plan


def plan_of(statement: Prepared) -> str:
    """How SQLite finds the rows of a statement."""
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    query: Any = statement.statement
    values = {"its_queue": "q", "now": ManualClock().now(), "parties": ["a"], "its_owner": "x"}
    wanted = query.compile(engine).params
    text = query.params({name: values[name] for name in wanted if name in values})
    text = text.compile(engine, compile_kwargs={"literal_binds": True})
    with engine.connect() as connection:
        found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")
        plan = " ".join(str(row.detail) for row in found)
    engine.dispose()
    return plan


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enqueue", "claim", "claim", "end", "expire"]),
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([None, 1, 2]),
    ),
    max_size=30,
)


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_parties_take_turns_whatever_happened_before(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str | None, int | None]]
) -> None:
    """A claim takes the oldest work of the party with the least held work, of those that are not full."""

    async def history() -> None:
        clock = ManualClock()
        directory = tmp_path_factory.mktemp("claiming")
        database = await Database.open(f"sqlite:///{directory}/x.db", clock=clock)
        try:
            await migrate(database, [])
            await play(database, clock)
        finally:
            await database.close()

    async def play(database: Database, clock: ManualClock) -> None:
        queue = LeaseQueue(database, "q")
        work: dict[str, str | None] = {}  # key -> party, oldest first
        held: dict[str, Lease] = {}
        for number, (action, party, most) in enumerate(steps):
            owner = f"owner {number % 2}"
            if action == "enqueue":
                work[f"k{number}"] = party
                async with database.transaction() as tx:
                    await queue.enqueue(tx, f"k{number}", party=party)
            elif action == "claim":
                expected = next_of(work, held, owner, most)
                lease = await queue.claim(owner, 10, most_per_party=most)
                assert (lease and lease.key) == expected
                if lease is not None:
                    held[lease.key] = lease
            elif action == "end" and held:
                key, lease = held.popitem()
                async with database.transaction() as tx:
                    await queue.complete(tx, lease)
                del work[key]
            elif action == "expire":
                clock.advance(10)
                held.clear()

    asyncio.run(history())


def next_of(
    work: dict[str, str | None], held: dict[str, Lease], owner: str, most: int | None
) -> str | None:
    """The key that is claimed next, by the definition."""

    def count(party: str | None, whose: str | None = None) -> int:
        """How much of a party is held; nothing is of no party."""
        if party is None:
            return 0
        return sum(work[key] == party and whose in (None, held[key].owner) for key in held)

    free = [
        key
        for key, party in work.items()
        if key not in held and (most is None or count(party, owner) < most)
    ]
    return min(free, key=lambda key: count(work[key])) if free else None
