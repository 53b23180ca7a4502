"""`vetro quota`: what is sent, and what is shown of the answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vetro.cli.client.connection import Connection
from vetro.http.client import SyncResponse

QUOTAS = {
    "project_id": "p1",
    "quotas": {
        "environments": {"used": 3, "limit": 20, "default": 10, "unit": "", "enforced_by": "vetro"},
        "memory": {
            "used": 512,
            "limit": -1,
            "default": -1,
            "unit": "MiB",
            "enforced_by": "openstack",
        },
    },
    "warnings": ["The quotas of volumes could not be read: away"],
}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The requests about quotas, with their bodies."""
    found: list[Any] = []

    def answer(to: Connection, method: str, url: str, **options: Any) -> SyncResponse:
        path = url.removeprefix(to.identity_url).removeprefix(to.url)
        if path == "/projects":
            projects = {"projects": [{"id": "p1", "name": "team"}]}
            return SyncResponse(200, {}, json.dumps(projects).encode())
        found.append((method, path, options.get("json") or options.get("params")))
        return SyncResponse(200, {}, json.dumps(QUOTAS).encode())

    monkeypatch.setattr(Connection, "_send", answer)
    monkeypatch.setattr(Connection, "token", "t")
    return found


def test_usage_is_shown_beside_the_limit(sent: list[Any], invoke: Any) -> None:
    """One's own without a name; a project's by name; as JSON with everything."""
    code, text = invoke("quota", "show")
    assert code == 0, text
    assert [line.split() for line in text.splitlines()] == [
        ["RESOURCE", "USED", "LIMIT", "DEFAULT", "UNIT", "ENFORCED", "BY"],
        ["environments", "3", "20", "10", "vetro"],
        ["memory", "512", "any", "any", "MiB", "openstack"],
        ["Warning:", "The", "quotas", "of", "volumes", "could", "not", "be", "read:", "away"],
    ]
    code, text = invoke("quota", "show", "team", "--json")
    assert (code, json.loads(text)) == (0, QUOTAS)
    assert invoke("quota", "show", "--region", "RegionOne")[0] == 0
    assert invoke("quota", "show", "team", "--region", "RegionOne")[0] == 2
    assert sent == [
        ("GET", "/v1/quotas", None),
        ("GET", "/v1/quotas/p1", None),
        ("GET", "/v1/quotas", {"region": "RegionOne"}),
    ]


def test_only_the_named_limits_are_set(sent: list[Any], invoke: Any) -> None:
    """What is not named stays as it is; numbers below -1 and no limit at all are wrong usage."""
    assert invoke("quota", "set", "team", "--instances", "20", "--memory", "-1")[0] == 0
    assert sent == [("PUT", "/v1/quotas/p1", {"instances": 20, "memory": -1})]
    for wrong in ([], ["--cores", "-2"], ["--cores", "many"], ["--cores", "1.5"]):
        assert invoke("quota", "set", "team", *wrong)[0] == 2
    assert invoke("quota", "set", "nobody", "--cores", "1")[0] == 1
    assert len(sent) == 1
