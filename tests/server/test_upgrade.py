"""The steps of docs/compute/README.md, Upgrade: over a database of the version before, with containers."""

from __future__ import annotations

import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.node.conftest import busybox_tar
from tests.server.conftest import Installation
from tests.server.older_schema import take_back
from tests.waiting import until

from vetro.server.installation import migration_sets

ROOT = Path(__file__).resolve().parents[2]
OWNER = "9f7c1b3a-4a0e-4c0d-8a3c-f4f4b7c1f111"
pytestmark = [pytest.mark.thorough, pytest.mark.root, pytest.mark.e2e]


class Client:
    """The compute API, with one token."""

    def __init__(self, vetro: Installation) -> None:
        self.vetro = vetro
        self.token = vetro.run("token").strip()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """A call that must be answered well."""
        status, answer = self.vetro.http(method, f"/compute{path}", body, token=self.token)
        assert status < 300, (method, path, status, answer)
        return answer

    def task(self, made: dict[str, Any]) -> dict[str, Any]:
        """A task's result, when it ended well."""
        ended = self.call("GET", f"/tasks/{made['id']}/wait?timeout=240")
        assert ended["status"] == "complete", ended["result"]
        result: dict[str, Any] = ended["result"]
        return result


def page(address: str) -> str:
    """What a container's web server gives."""
    try:
        with urllib.request.urlopen(f"http://{address}/", timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_an_upgrade_finds_containers_running(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """After the migration, processes, records and snapshots are the same; new work runs."""
    vetro = install("upgrade")
    api = Client(vetro)
    vetro.run("env", "create", "kept")
    tar = busybox_tar(tmp_path / "tiny.tar")
    vetro.run("image", "import", "tiny", str(tar))
    [image] = [row["uuid"] for row in vetro.json("image", "list")]
    network, port, vm = (str(uuid.uuid4()) for _ in range(3))
    api.call("POST", "/networks", {"uuid": network, "name": "blue"})
    api.call("POST", "/subnets", {"network_uuid": network, "cidr": f"10.{vetro.net}.9.0/24"})
    made = api.call("POST", "/ports", {"uuid": port, "network_uuid": network})
    address = made["fixed_ips"][0][1]
    [server] = vetro.json("server", "list")
    payload = {"uuid": vm, "alias": "web", "brand": "lx", "image_uuid": image, "ports": [port],
               "max_physical_memory": 128, "ram": 128, "quota": 1, "owner_uuid": OWNER}  # fmt: skip
    try:
        api.task(api.call("POST", f"/servers/{server['uuid']}/vms", payload))
        until(lambda: page(address) == "a page\n", "it serves")
        vetro.run("vm", "exec", "web", "--", "sh", "-c", "echo older > /www/index.html")
        vetro.run("vm", "snapshot", "create", "web", "before")
        pid = vetro.json("vm", "show", "web")["pid"]

        vetro.stop()
        # Nothing of Vetro runs: what it made does.
        assert page(address) == "older\n"
        sets = migration_sets()
        taken = take_back(vetro.directory / "vetro.db", sets, tmp_path)
        assert {"compute_", "environments_"} <= {name.rstrip("0123456789") for name in taken}
        vetro.start()

        assert page(address) == "older\n"
        shown = vetro.json("vm", "show", "web")
        assert (shown["state"], shown["pid"]) == ("running", pid)
        assert [row["name"] for row in vetro.json("vm", "snapshot", "list", "web")] == ["before"]
        assert [row["name"] for row in vetro.json("env", "list")] == ["kept"]
        # What is new works over what is old: its snapshot, its network, a second instance in it.
        vetro.run("vm", "exec", "web", "--", "sh", "-c", "echo newer > /www/index.html")
        assert page(address) == "newer\n"
        vetro.run("vm", "snapshot", "rollback", "web", "before", "--yes")
        until(lambda: page(address) == "older\n", "it serves again")
        second = {
            **payload,
            "uuid": str(uuid.uuid4()),
            "alias": "two",
            "ports": [str(uuid.uuid4())],
        }
        made = api.call("POST", "/ports", {"uuid": second["ports"][0], "network_uuid": network})
        api.task(api.call("POST", f"/servers/{server['uuid']}/vms", second))
        until(lambda: page(made["fixed_ips"][0][1]) == "a page\n", "the second serves")
    finally:
        if vetro.process.poll() is not None:
            vetro.start()
        for row in vetro.json("vm", "list"):
            vetro.run("vm", "destroy", "--yes", row["uuid"], code=None)
    until(lambda: vetro.leftovers() == [], "nothing is left")
