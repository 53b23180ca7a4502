"""Which environment a VM belongs to."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from vetro.cli.client.connection import Connection
from vetro.cli.compute.vm_lookup import environments_of
from vetro.http.client import SyncResponse


@pytest.mark.parametrize("refused", [0, 403, 404])
def test_a_vm_is_where_an_instance_has_its_uuid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, refused: int
) -> None:
    """Nested ones too, of all projects or one's own; a compute service alone has no environments."""
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    instance = {"?": {"id": "m"}, "openstackId": "v1"}
    asked: list[str] = []

    def answer(_: Connection, method: str, path: str, **options: Any) -> SyncResponse:
        asked.append(path)
        if refused == 404 or (refused == 403 and "params" in options):
            return SyncResponse(refused, {}, b"{}")
        table: dict[str, Any] = {
            "/v1/environments": {"environments": [{"id": n, "name": f"env-{n}"} for n in "abc"]},
            "/v1/environments/a": {"services": []},
            "/v1/environments/b": {"services": [{"?": {"id": "x"}, "nodes": [instance]}]},
            "/v1/environments/c": {"services": None},
        }
        return SyncResponse(200, {}, json.dumps(table[path]).encode())

    monkeypatch.setattr(Connection, "answer", answer)
    with Connection() as connection:
        assert environments_of(connection, ["v1"]) == ({} if refused == 404 else {"v1": "env-b"})
        asked.clear()
        assert environments_of(connection, []) == {}
    assert asked == []


def test_environments_are_read_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """None is answered before all have been asked for; every VM is found."""
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    together = threading.Barrier(3)

    def answer(_: Connection, method: str, path: str, **options: Any) -> SyncResponse:
        name = path.rpartition("/")[2]
        if name == "environments":
            found: Any = {"environments": [{"id": n, "name": f"env-{n}"} for n in "abc"]}
        else:
            together.wait(60)
            found = {"services": [{"?": {"id": name}, "openstackId": f"vm-{name}"}]}
        return SyncResponse(200, {}, json.dumps(found).encode())

    monkeypatch.setattr(Connection, "answer", answer)
    with Connection() as connection:
        found = environments_of(connection, ["vm-a", "vm-b", "vm-c", "vm-of-none"])
    assert found == {"vm-a": "env-a", "vm-b": "env-b", "vm-c": "env-c"}
