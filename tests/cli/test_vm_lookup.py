"""Which environment a VM belongs to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from vetro.cli.client.connection import Connection
from vetro.cli.compute.vm_lookup import environments_of, find_vm
from vetro.cli.terminal.output import CommandError
from vetro.compute.wire import Vm
from vetro.http.client import SyncResponse

UUID = "0b1e2a3c-4d5e-4f60-8a7b-9c0d1e2f3a4b"


def listed_twice(where: str | None) -> Callable[..., SyncResponse]:
    """A compute service whose two nodes list one VM; its record is on node ``where``, if on any."""
    vm = {"uuid": UUID, "alias": "box", "state": "running"}
    nodes = [{"uuid": name, "hostname": name, "vms": {UUID: vm}} for name in ("old", "new")]

    def answer(_: Connection, method: str, path: str, **options: Any) -> SyncResponse:
        if path == "/compute/servers":
            return SyncResponse(200, {}, json.dumps(nodes).encode())
        assert path == f"/compute/servers/default/vms/{UUID}"
        return SyncResponse(
            200 if where else 404, {}, json.dumps({**vm, "server_uuid": where}).encode()
        )

    return answer


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
        assert environments_of(connection, [Vm(uuid="v1")]) == (
            {} if refused == 404 else {"v1": "env-b"}
        )
        asked.clear()
        assert environments_of(connection, []) == {}
    assert asked == []


@pytest.mark.parametrize("wanted", [UUID, "box"])
@pytest.mark.parametrize("where", ["old", "new"])
def test_a_vm_that_two_nodes_list_is_where_the_service_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, wanted: str, where: str
) -> None:
    """A node that was given up is back; its last report has the VM that was made again elsewhere."""
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(Connection, "answer", listed_twice(where))
    with Connection() as connection:
        found = find_vm(connection, wanted)
    assert (found.uuid, found.server_uuid, found.state) == (UUID, where, "running")


def test_a_vm_whose_place_nobody_knows_is_not_chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """The error has the nodes that list it, and what to do is not to name it by the uuid it was named by."""
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(Connection, "answer", listed_twice(None))
    with Connection() as connection, pytest.raises(CommandError) as caught:
        find_vm(connection, UUID)
    assert f"There are 2 of {UUID}" in caught.value.message
    assert "server old" in caught.value.message
    assert "server new" in caught.value.message
    assert "has not reported yet" in (caught.value.hint or "")
    assert "uuid" not in (caught.value.hint or "")


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
        found = environments_of(
            connection, [Vm(uuid=f"vm-{name}") for name in ("a", "b", "c", "of-none")]
        )
    assert found == {"vm-a": "env-a", "vm-b": "env-b", "vm-c": "env-c"}


def test_a_vm_of_version_0_3_is_called_by_the_stack_of_its_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Units and balancers alike, whose models name no uuids: they are not read."""
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    rows = [
        {"id": "a1", "name": "old", "model_kind": "workflow"},
        {"id": "a2", "name": "new", "model_kind": "muranopl"},
    ]

    def answer(_: Connection, method: str, path: str, **options: Any) -> SyncResponse:
        known: dict[str, Any] = {
            "/v1/environments": {"environments": rows},
            "/v1/environments/a2": {"services": [{"?": {"id": "x"}, "openstackId": "three"}]},
        }
        return SyncResponse(200, {}, json.dumps(known[path]).encode())

    monkeypatch.setattr(Connection, "answer", answer)
    aliases = {
        "one": "ea1-web1",
        "two": "ea1-f-Pool.server",
        "three": "db1",
        "four": "ea2-x",
        "five": None,
    }
    with Connection() as connection:
        found = environments_of(
            connection, [Vm(uuid=one, alias=name) for one, name in aliases.items()]
        )
    assert found == {"one": "old", "two": "old", "three": "new"}
