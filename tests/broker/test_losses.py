"""A platform never loses a machine of a space by the way (issue 33): neither to another instance, nor to a
binding; what it deletes may go."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from vetro.broker import MIGRATIONS, Broker, CatalogApi, CfapiSection
from vetro.broker.catalog_api import Account
from vetro.broker.store import Operation, Wanted
from vetro.http.client import HttpClient, Response
from vetro.storage import Database, migrate

ANN = Account("token", "p", "http://catalog")
WANTED = Wanted("k1", "k1-1", "an-organization", "a-space", {})
IDS = ("k1", "k1-1")
REFUSAL = "Nothing was changed, because this replaces machine web, its data is lost"
PACKAGE = {
    "id": "k1",
    "name": "Database",
    "type": "Application",
    "fully_qualified_name": "org.example.Database",
}


@dataclass
class Catalog:
    """A catalog with one environment; its engine refuses, or does all that is asked for."""

    refuses: bool = False
    guards: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    services: list[Any] = field(default_factory=list[Any])
    wanted: list[Any] = field(default_factory=list[Any])
    state: str = "success"

    async def request(self, _http: HttpClient, method: str, url: str, **given: Any) -> Response:
        """What it answers."""
        path = url.removeprefix("http://catalog/v1")
        body: Any = {"id": "e", "task_id": "t"}
        if method == "POST" and path.endswith(("/deploy", "getCredentials")):
            self.guards.append((path.rpartition("/")[2], given["params"]))
        if path.endswith("/deploy"):
            self.state = "completed_w_errors" if self.refuses else "success"
            if not self.refuses:
                self.services = list(self.wanted)
        elif method == "POST" and path.endswith("/services"):
            self.wanted = [*self.services, given["json"]]
        elif method == "DELETE" and "/services/" in path:
            id_ = path.rpartition("/")[2]
            if id_ not in [one["?"]["id"] for one in self.services]:
                return Response(404, {}, b"{}")
            self.wanted = [one for one in self.services if one["?"]["id"] != id_]
        elif path.startswith("/catalog/packages/"):
            body = PACKAGE
        elif path == "/environments" and method == "GET":
            body = {"environments": []}
        elif path.endswith("/deployments"):
            result = {"result": {"message": REFUSAL, "losses": [{"key": "machine web"}]}}
            body = {"deployments": [{"state": self.state, "result": result}]}
        elif path.endswith("/actions/t"):
            body = {"isException": False, "result": {"uri": "db"}}
        elif method == "GET":
            # A refused session waits with its changes.
            status = "ready" if self.state == "success" else "pending"
            actions = {"1_getCredentials": {"name": "getCredentials"}}
            shown = [{"?": {**one["?"], "_actions": actions}} for one in self.services]
            body = {"id": "e", "status": status, "services": shown}
        return Response(200, {}, json.dumps(body).encode())


@pytest.fixture
async def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """A broker before a catalog, and that."""
    catalog = Catalog()

    async def request(http: HttpClient, method: str, url: str, **given: Any) -> Response:
        return await catalog.request(http, method, url, **given)

    monkeypatch.setattr(HttpClient, "request", request)
    database = await Database.open(f"sqlite:///{tmp_path}/broker.db")
    await migrate(database, [MIGRATIONS])
    async with HttpClient() as http:
        yield Broker(database, CatalogApi(CfapiSection(), http, b"salt"), b"key"), catalog
    await database.close()


async def test_an_instance_that_would_lose_a_machine_of_its_space_fails_with_the_refusal(
    broker: tuple[Broker, Catalog],
) -> None:
    """It stays failed whatever is deployed after it, and can be deleted; others are as they were."""
    store, catalog = broker
    await store.provision(ANN, "first", WANTED)
    assert (await store.last_operation(ANN, "first")) == Operation("succeeded", "operation succeed")
    catalog.refuses = True
    await store.provision(ANN, "second", WANTED)
    assert catalog.guards == [("deploy", {"mayLose": ""})] * 2
    assert await store.last_operation(ANN, "second") == Operation("failed", REFUSAL)
    catalog.refuses = False
    await store.provision(ANN, "third", WANTED)
    failed = await store.last_operation(ANN, "second")
    assert failed is not None
    assert failed.state == "failed"
    assert await store.deprovision(ANN, "second", *IDS)
    for name in ("first", "third"):
        assert (await store.last_operation(ANN, name)) is not None


async def test_what_is_deleted_may_go_and_a_binding_takes_nothing(
    broker: tuple[Broker, Catalog],
) -> None:
    """To delete an instance is to say that its machines go; an instance that is gone stays so when another
    one is refused."""
    store, catalog = broker
    await store.provision(ANN, "first", WANTED)
    request: dict[str, Any] = {"service_id": IDS[0], "plan_id": IDS[1]}
    assert await store.bind(ANN, "first", "b", request) == (True, {"credentials": {"uri": "db"}})
    assert not await store.deprovision(ANN, "first", *IDS)
    assert catalog.guards == [
        ("deploy", {"mayLose": ""}),
        ("1_getCredentials", {"mayLose": ""}),
        ("deploy", {"mayLose": "*"}),
    ]
    catalog.refuses = True
    await store.provision(ANN, "second", WANTED)
    assert await store.last_operation(ANN, "first") is None
