"""Quotas over HTTP: what projects may have, who may change it, what is refused."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.environments.conftest import Api, Users

from vetro.catalog import Catalog
from vetro.environments import environments_face
from vetro.http import assemble
from vetro.http.client import HttpClient

MINE = "/quotas/p"


async def test_the_limit_holds_until_something_is_removed(api: Any) -> None:
    """A refusal says what, how much of it, the limit and what to do; what is removed is free again."""
    first = await api.environment("a")
    answer = await api.call("PUT", MINE, {"environments": 2}, user="root")
    assert answer.json()["quotas"]["environments"] == {
        "used": 1, "limit": 2, "default": -1, "unit": "", "enforced_by": "vetro",
    }  # fmt: skip
    await api.environment("b")
    refused = await api.call("POST", "/environments", {"name": "c"})
    error = refused.json()["error"]
    assert (refused.status, error["type"]) == (403, "QuotaExceeded")
    assert error["message"].startswith(
        "Quota exceeded for environments: 2 of 2 used, 1 more requested"
    )
    assert "vetro quota set" in error["message"]
    assert error["quota"] == {"resource": "environments", "used": 2, "asked": 1, "limit": 2}
    await api.environment("of another project", user="eve")
    assert (await api.call("DELETE", f"/environments/{first}?abandon=true")).status == 200
    await api.environment("c")


class Cloud:
    """A cloud that makes the stacks of one region."""

    async def usage(self, principal: Any, region: str | None) -> Any:
        """Its numbers there, and none elsewhere."""
        if region != "RegionOne":
            return {}, ()
        return {"memory": SimpleNamespace(used=512, limit=2048)}, ["The quotas of volumes: away"]


async def test_what_a_cloud_makes_it_counts_itself(api: Any, tmp_path: Path) -> None:
    """Its numbers stand beside ours in its region, with who enforces them and what could not be read."""
    face = environments_face(
        Catalog(api.database, tmp_path / "more"), api.rooms.tasks, Users(), cloud_quotas=Cloud()
    )
    assembly = assemble([face])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://cloud") as http:
        there = Api(http, api.database, api.rooms)
        found = (await there.call("GET", "/quotas?region=RegionOne")).json()
        assert found["quotas"]["memory"] == {
            "used": 512, "limit": 2048, "default": 2048, "unit": "MiB", "enforced_by": "openstack",
        }  # fmt: skip
        assert found["quotas"]["environments"]["enforced_by"] == "vetro"
        assert found["warnings"] == ["The quotas of volumes: away"]
        found = (await there.call("GET", "/quotas")).json()
        assert (sorted(found["quotas"]), found["warnings"]) == (["environments"], [])


async def test_requests_at_once_never_share_the_last_place(api: Any) -> None:
    """Of many requests at once as many succeed as the quota has places."""
    await api.call("PUT", MINE, {"environments": 3}, user="root")
    asked = [api.call("POST", "/environments", {"name": f"e{number}"}) for number in range(8)]
    assert sorted(one.status for one in await asyncio.gather(*asked)) == [200] * 3 + [403] * 5


async def test_limits_are_set_and_reset_by_administrators(api: Any) -> None:
    """Members see those of their own project; null and DELETE bring the defaults back."""
    await api.call("PUT", MINE, {"environments": 0}, user="root")
    for path, user in (("/quotas", "ann"), (MINE, "ann"), (MINE, "root")):
        found = (await api.call("GET", path, user=user)).json()
        assert found["project_id"] == "p"
        assert found["quotas"]["environments"]["limit"] == 0
    for method, user in (("GET", "eve"), ("PUT", "ann"), ("DELETE", "ann")):
        answer = await api.call(
            method, MINE, {"environments": 9} if method == "PUT" else None, user=user
        )
        assert answer.status == 403
    assert (await api.call("POST", "/environments", {"name": "x"})).status == 403
    changed = await api.call("PUT", MINE, {"environments": None}, user="root")
    assert changed.json()["quotas"]["environments"]["limit"] == -1
    await api.environment("x")
    await api.call("PUT", MINE, {"environments": 5}, user="root")
    gone = await api.call("DELETE", MINE, user="root")
    assert (gone.status, gone.content) == (200, b"")
    assert (await api.call("GET", "/quotas")).json()["quotas"]["environments"]["limit"] == -1


@pytest.mark.parametrize(
    "body",
    [
        [], "x", 3, None, {"environment": 1}, {"cores": 1}, {"environments": -2},
        {"environments": 1.5}, {"environments": True}, {"environments": "3"},
        {"environments": 2**53 + 1}, {"environments": 10**40}, {"environments": {}},
        {"environments": 1, "\0": 1},
    ],
)  # fmt: skip
async def test_what_is_no_limit_is_refused(api: Any, body: Any) -> None:
    """400 with the reason, and nothing is changed."""
    answer = await api.call("PUT", MINE, body, user="root")
    assert answer.status == 400, answer.text
    assert (await api.call("GET", "/quotas")).json()["quotas"]["environments"]["limit"] == -1


@pytest.mark.parametrize("name", ["x" * 65, "a%0Ab"])
async def test_what_is_no_project_is_not_found(api: Any, name: str) -> None:
    """404, whatever is asked of it."""
    for method in ("GET", "PUT", "DELETE"):
        body = {"environments": 1} if method == "PUT" else None
        assert (await api.call(method, f"/quotas/{name}", body, user="root")).status == 404
