"""The built-in identity service: what it has of its own (test_both_services.py: what Keystone has, too)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import eventually

from vetro.identity import MIGRATIONS, Identity
from vetro.storage import Database, migrate

from .conftest import Running, in_thread


async def test_password_login_finds_our_faces(running: Running) -> None:
    """keystoneauth logs in by password and finds the catalog's endpoint."""
    endpoint = await in_thread(
        lambda s: s.get_endpoint(service_type="application-catalog", interface="public"),
        running.password(),
    )
    assert endpoint == "http://catalog.test"


async def test_a_wrong_password_is_refused_and_then_throttled(running: Running) -> None:
    """After five failures the next attempt must wait, even with the right password."""
    body = {
        "auth": {
            "identity": {
                "methods": ["password"],
                "password": {
                    "user": {"name": "admin", "domain": {"id": "default"}, "password": "x"}
                },
            }
        }
    }
    url = f"{running.url}/v3/auth/tokens"
    statuses = [(await running.http.request("POST", url, json=body)).status for _ in range(6)]
    assert statuses == [401] * 5 + [429]
    body["auth"]["identity"]["password"]["user"]["password"] = "pw"  # type: ignore[index]
    answer = await running.http.request("POST", url, json=body)
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["error"]["code"] == 429


@pytest.mark.parametrize("body", [None, [], {"auth": 1}, {"auth": {"identity": {}}}])
async def test_a_malformed_login_is_told_what_is_expected(running: Running, body: Any) -> None:
    """The error names the wrong member, and nothing crashes."""
    answer = await running.http.request("POST", f"{running.url}/v3/auth/tokens", json=body)
    assert answer.status == 400
    assert "Expecting" in answer.json()["error"]["message"]


async def test_the_first_start_makes_one_administrator(tmp_path: Path) -> None:
    """A second bootstrap creates no user and shows no secret; stored secrets are hashes."""
    database = await Database.open(f"sqlite:///{tmp_path}/i.db")
    await migrate(database, [MIGRATIONS])
    identity = Identity(database)
    credentials = await identity.bootstrap_admin()
    assert credentials is not None
    assert len(credentials.password) >= 20
    assert await identity.bootstrap_admin() is None
    await database.close()
    assert credentials.password.encode() not in (tmp_path / "i.db").read_bytes()


async def test_guesses_side_by_side_are_throttled_like_one_after_another(running: Running) -> None:
    """Of twenty simultaneous wrong passwords five are checked; the others must wait."""

    async def guess() -> int:
        body = {
            "auth": {
                "identity": {
                    "methods": ["password"],
                    "password": {
                        "user": {"name": "admin", "domain": {"id": "default"}, "password": "x"}
                    },
                }
            }
        }
        return (
            await running.http.request("POST", f"{running.url}/v3/auth/tokens", json=body)
        ).status

    assert sorted(await asyncio.gather(*(guess() for _ in range(20)))) == [401] * 5 + [429] * 15


async def test_a_token_revoked_elsewhere_is_forgotten_here(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notification of another process's revocation clears the cache of this one."""
    monkeypatch.setattr("vetro.identity.tokens.CACHE_SECONDS", 1e9)
    token = await running.token()
    assert await running.identity.tokens.get(token) is not None
    other = Identity(running.identity.database)
    assert await other.tokens.get(token) is not None
    watching = asyncio.create_task(other.tokens.watch())
    admin = await running.token()
    headers = {"X-Auth-Token": admin, "X-Subject-Token": token}
    answer = await running.http.request("DELETE", f"{running.url}/v3/auth/tokens", headers=headers)
    assert answer.status == 204

    async def gone() -> bool:
        return await other.tokens.get(token) is None

    await eventually(gone)
    watching.cancel()
