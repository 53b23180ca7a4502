"""What the back end offers outside of forms: sizes, and networks to join."""

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from vetro import catalog, environments
from vetro.catalog import Catalog
from vetro.environments import Environments, environments_face
from vetro.http import Principal, assemble
from vetro.http.client import HttpClient
from vetro.storage import Database, migrate

from .conftest import Users

LAN = {"id": "n1", "name": "lan", "subnets": [{"id": "s1", "name": "s", "cidr": "10.1.0.0/24"}]}
OUTSIDE: dict[str, Any] = {"id": "n2", "name": "outside", "external": True, "subnets": []}


class Cloud:
    """A back end with two networks; ``warning``: why its lists are not known now."""

    def __init__(self, warning: str = "") -> None:
        self.warning = warning

    async def offers(
        self, kinds: Collection[str], principal: Principal, region: str | None
    ) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
        """The same for everybody."""
        if self.warning:
            return {kind: [] for kind in kinds}, [self.warning]
        return {kind: [{**LAN, "external": False}, OUTSIDE] for kind in kinds}, []


@asynccontextmanager
async def serving(url: str, directory: Path, cloud: Cloud | None) -> AsyncGenerator[HttpClient]:
    """The catalog API over a back end."""
    database = await Database.open(url)
    try:
        await migrate(database, [catalog.MIGRATIONS, environments.MIGRATIONS])
        rooms = Environments(database)
        face = environments_face(
            Catalog(database, directory / "packages"), rooms.tasks, Users(), platform=cloud
        )
        assembly = assemble([face])
        async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as http:
            yield http
    finally:
        await database.close()


@pytest.mark.parametrize(
    ("cloud", "status", "text"),
    [
        (None, 404, "The back end of this service does not list its networks"),
        (Cloud("Neutron is away"), 503, "Neutron is away"),
        (Cloud(), 200, '{"networks":[{'),
    ],
)
async def test_networks_that_environments_can_join_are_listed(
    database_url: str, tmp_path: Path, cloud: Cloud | None, status: int, text: str
) -> None:
    """Those that lead outside are left out; a back end that lists none, or cannot now, is an error."""
    async with serving(database_url, tmp_path, cloud) as http:
        answer = await http.request("GET", "/v1/networks", headers={"X-Auth-Token": "ann"})
    assert (answer.status, text in answer.text) == (status, True), answer.text
    if status == 200:
        assert answer.json() == {"networks": [LAN]}
