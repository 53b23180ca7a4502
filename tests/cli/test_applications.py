"""What an environment's applications are shown with: where they answer, and what waits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vetro.cli.client.connection import Connection
from vetro.http.client import SyncResponse

SITE = {
    "?": {
        "id": "a1",
        "type": "org.Site/1.0@org.Site",
        "name": "site",
        "_actions": {"x": {"name": "status", "enabled": True}},
    },
    "name": "site",
    "page": "Hello again",
    "port": 80,
    "password": "hunter2",
    "url": "http://10.0.0.4:80/",
    "instance": {"?": {"id": "m1", "type": "io.Linux"}, "name": "host"},
    "nothing": None,
}
NEW = {"?": {"id": "a2", "type": "org.Db", "name": "db"}, "host": "10.0.0.5"}
CHANGES = [
    {"change": "changed", "application": "site", "id": "a1", "type": "t", "properties": ["page"]},
    {"change": "added", "application": "db", "id": "a2", "type": "org.Db"},
    {"change": "removed", "application": "old", "id": "a3", "type": "org.Old/1.0"},
]


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[dict[str, Any]]:
    """The sessions of an environment that is shown."""
    held: list[dict[str, Any]] = []

    def answer(_: Connection, method: str, path: str, **__: Any) -> SyncResponse:
        found: Any = {
            "/v1/environments": {"environments": [{"id": "e1", "name": "web"}]},
            "/v1/environments/e1": {
                "id": "e1",
                "name": "web",
                "created": "2020-01-01T00:00:00",
                "services": [SITE, NEW],
            },
            "/compute/servers": [],
            "/v1/environments/e1/leaked": {"leaked": []},
            "/v1/environments/e1/sessions": {"sessions": held},
            "/v1/environments/e1/upgrades": {"applications": []},
            "/v1/upgrades": {"environments": {}},
        }[path]
        return SyncResponse(200, {}, json.dumps(found).encode())

    monkeypatch.setattr(Connection, "answer", answer)
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return held


def line_of(text: str, start: str) -> str:
    """The first line that begins so."""
    return next(line for line in text.splitlines() if line.strip().startswith(start))


def test_what_is_deployed_is_shown_with_its_outputs(sessions: Any, invoke: Any) -> None:
    """Its address in the table, its plain properties below, secrets masked; nothing waits."""
    code, text = invoke("env", "show", "web")
    assert code == 0
    row = line_of(text, "site  ")
    for word in ("org.Site", "http://10.0.0.4:80/", "a1", "status"):
        assert word in row
    assert line_of(text, "url").split() == ["url", "http://10.0.0.4:80/"]
    assert line_of(text, "host").split() == ["host", "10.0.0.5"]
    assert "hunter2" not in text
    assert "days ago" in line_of(text, "created")
    for word in ("PENDING", "not deployed", "nothing", "m1"):
        assert word not in text


def test_what_waits_is_marked(sessions: Any, invoke: Any) -> None:
    """In the table what was added, changed and removed; below it the properties; where to look."""
    sessions.append(
        {"id": "s", "own": True, "overtaken": False, "changes": CHANGES, "summary": "mine"}
    )
    sessions.append(
        {"id": "o", "own": False, "user_id": "ann", "overtaken": False, "changes": [1],
         "summary": "removed db"}
    )  # fmt: skip
    _, text = invoke("env", "show", "web")
    assert " page " in line_of(text, "site  ")
    assert " added " in line_of(text, "db  ")
    assert " removed " in line_of(text, "old  ")
    assert "(not deployed yet)" in line_of(text, "page")
    assert "not deployed" not in line_of(text, "port")
    assert "another session of user ann: removed db" in text
    assert "vetro env changes web" in text
