"""Limits of projects: what is used, what is admitted, and what administrators set."""

from collections.abc import AsyncIterator, Collection, Mapping

import pytest
from sqlalchemy import MetaData
from sqlalchemy.schema import CreateTable, DropTable

from vetro.http import BadRequest, NotFound
from vetro.quotas import UNLIMITED, Gate, ProjectQuotas, QuotaExceeded, Quotas, Usage, quota_table
from vetro.storage import Database, Transaction, migrate

TABLE = quota_table("things_quotas", MetaData())
DEFAULTS = {"instances": 2, "memory": UNLIMITED}
USED = {"instances": 1, "memory": 512}


async def count(_tx: Transaction, _project: str, names: Collection[str]) -> Mapping[str, int]:
    """Every project has one instance with 512 MiB."""
    return {name: USED[name] for name in names}


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A database with the limits of one room."""
    opened = await Database.open(database_url)
    await migrate(opened, [])
    async with opened.transaction() as tx:
        await tx.execute(CreateTable(TABLE))
    yield opened
    async with opened.transaction() as tx:
        await tx.execute(DropTable(TABLE))
    await opened.close()


@pytest.fixture
def room() -> Quotas:
    """Limits on instances and memory."""
    return Quotas(TABLE, DEFAULTS, count)


async def test_a_project_has_the_limits_of_the_settings_until_it_gets_its_own(
    database: Database, room: Quotas
) -> None:
    """A limit of its own replaces the default of that resource alone, and null brings it back."""
    async with database.transaction() as tx:
        await room.change(tx, "p", {"instances": 5})
        assert await room.usage(tx, "p") == {
            "instances": Usage(1, 5, 2),
            "memory": Usage(512, UNLIMITED, UNLIMITED),
        }
        assert (await room.usage(tx, "other"))["instances"] == Usage(1, 2, 2)
        await room.change(tx, "p", {"instances": None})
        assert (await room.usage(tx, "p"))["instances"] == Usage(1, 2, 2)


async def test_a_request_beyond_the_limit_is_refused_with_the_numbers(
    database: Database, room: Quotas
) -> None:
    """The last place is admitted; one more is an error with used, requested and limit."""
    async with database.transaction() as tx:
        await room.admit(tx, "p", instances=1, memory=10**9)
        with pytest.raises(QuotaExceeded, match="for instances: 1 of 2 used, 2 more requested"):
            await room.admit(tx, "p", instances=2)


async def test_a_gate_counts_what_it_admits(database: Database, room: Quotas) -> None:
    """Requests of one transaction share the room that is left; a project without a name has no limit."""
    async with database.transaction() as tx:
        gate = await room.gate(tx, ["p", ""])
        gate.admit("p", {"instances": 1})
        with pytest.raises(QuotaExceeded, match="2 of 2 used"):
            gate.admit("p", {"instances": 1})
        gate.admit("", {"instances": 100})


def test_a_refused_request_takes_nothing() -> None:
    """When one resource is short, the request's other resources are not counted either."""
    used = {"p": {"instances": 0, "memory": 0}}
    gate = Gate({"p": {"instances": 9, "memory": 512}}, used)
    with pytest.raises(QuotaExceeded, match="for memory: 0 of 512 MiB used, 1024 more requested"):
        gate.admit("p", {"instances": 1, "memory": 1024})
    assert used == {"p": {"instances": 0, "memory": 0}}


async def test_an_administrator_sets_shows_and_resets_limits(
    database: Database, room: Quotas
) -> None:
    """The answer has used, limit, default and unit of every resource."""
    quotas = ProjectQuotas(database, [room])
    shown = await quotas.change("p", {"memory": 1024})
    assert shown["quotas"]["memory"] == {
        "used": 512, "limit": 1024, "default": UNLIMITED, "unit": "MiB", "enforced_by": "vetro",
    }  # fmt: skip
    await quotas.reset("p")
    assert (await quotas.show("p"))["quotas"]["memory"]["limit"] == UNLIMITED


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "Quotas must be an object of numbers; its keys can be: instances, memory"),
        ({"cores": 1}, "There is no quota for 'cores'; there are: instances, memory"),
        ({"memory": True}, "must be a whole number from 0 to"),
        ({"memory": -2}, "must be a whole number from 0 to"),
        ({"memory": 2**60}, "must be a whole number from 0 to"),
    ],
)
async def test_limits_that_make_no_sense_are_refused(
    database: Database, room: Quotas, body: object, said: str
) -> None:
    """The message names the resource and the values that are possible; nothing is changed."""
    quotas = ProjectQuotas(database, [room])
    with pytest.raises(BadRequest, match=said):
        await quotas.change("p", body)
    assert (await quotas.show("p"))["quotas"]["memory"]["limit"] == UNLIMITED


@pytest.mark.parametrize("project", ["", "x" * 65, "a\nb", "unknown"])
async def test_a_project_that_does_not_exist_has_no_limits(
    database: Database, room: Quotas, project: str
) -> None:
    """Showing, changing and resetting them is 404 each."""

    async def exists(project_id: str) -> bool:
        return project_id == "p"

    quotas = ProjectQuotas(database, [room], exists)
    with pytest.raises(NotFound, match="There is no project"):
        await quotas.show_any(project)
    with pytest.raises(NotFound, match="There is no project"):
        await quotas.change(project, {"memory": 1})
    with pytest.raises(NotFound, match="There is no project"):
        await quotas.reset(project)
