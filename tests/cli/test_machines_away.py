"""Machines of environments that are not there, beside the status of the environment."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vetro.cli.client.connection import Connection
from vetro.cli.environments.machines_away import away_by_id
from vetro.http.client import SyncResponse


def test_missing_machines_of_both_kinds_of_environments_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Those of a model are found by their uuids, those of version 0.3 by the name of their stack."""
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    vms = {
        "one": {"state": "missing", "alias": "ea-web1"},
        "two": {"state": "running", "alias": "ea-web2"},
        "three": {"state": "unknown", "alias": "db"},
    }
    known: dict[str, Any] = {
        "/compute/servers": [{"uuid": "n", "vms": vms}],
        "/v1/environments/b": {
            "id": "b",
            "services": [{"?": {"id": "x"}, "name": "db", "openstackId": "three"}],
        },
    }

    def answer(_: Connection, method: str, path: str, **options: Any) -> SyncResponse:
        return SyncResponse(200, {}, json.dumps(known[path]).encode())

    monkeypatch.setattr(Connection, "answer", answer)
    rows = [{"id": "a", "model_kind": "workflow"}, {"id": "b", "model_kind": "muranopl"}]
    with Connection() as connection:
        assert away_by_id(connection, rows) == {
            "a": [{"name": "web1", "uuid": "one", "state": "missing"}],
            "b": [{"name": "db", "uuid": "three", "state": "unknown"}],
        }
