"""Snapshots and images of VMs over the task API."""

from __future__ import annotations

import io
import subprocess
import tarfile
from types import SimpleNamespace
from typing import Any

import pytest

MANIFEST = {
    "uuid": "dddddddd-0000-4000-8000-000000000001",
    "owner": "aaaaaaaa-0000-4000-8000-000000000001",
    "name": "made", "version": "1",
}  # fmt: skip


async def test_snapshots_over_the_api(node: Any, kit: SimpleNamespace) -> None:
    """Made with and without a name, rolled back, deleted twice."""
    uuid = await node.create(kit)
    made = await node.good("machine_create_snapshot", uuid=uuid, snapshot_name="a")
    assert [entry["name"] for entry in made["vm"]["snapshots"]] == ["a"]
    made = await node.good("machine_create_snapshot", uuid=uuid)
    assert len(made["vm"]["snapshots"]) == 2
    made = await node.good("machine_rollback_snapshot", uuid=uuid, snapshot_name="a")
    assert len(made["vm"]["snapshots"]) == 1
    for _ in range(2):
        made = await node.good("machine_delete_snapshot", uuid=uuid, snapshot_name="a")
        assert made["vm"]["snapshots"] == []
    status, body = await node.task("machine_rollback_snapshot", uuid=uuid, snapshot_name="a")
    assert (status, body["details"]["restCode"]) == (500, "SnapshotNotFound")


def files(packed: bytes) -> dict[str, tuple[int, bytes]]:
    """Regular files of a tar with their owners."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return {
            member.name: (member.uid, tar.extractfile(member).read())  # type: ignore[union-attr]
            for member in tar
            if member.isfile()
        }


@pytest.mark.thorough
@pytest.mark.root
async def test_an_image_of_a_container(containers: Any, kit: SimpleNamespace) -> None:
    """Whole or only what differs; the preparation leaves no trace in the VM."""
    uuid = (await containers.connected(5, owner_uuid=MANIFEST["owner"]))["uuid"]
    async with kit.node_over(containers.driver, containers.images, containers.directory) as node:
        status, body = await node.task("machine_create_image", uuid=uuid, manifest=MANIFEST)
        assert (status, body["details"]["restCode"]) == (500, "VmAlreadyRunning")
        await containers.driver.execute(
            uuid, ["sh", "-c", "echo x > /root/new; rm /www/index.html; chown 5 /root/new"],
            {"PATH": "/bin"}, 20,
        )  # fmt: skip
        await containers.driver.stop(uuid, force=True)
        await node.good("machine_create_image", uuid=uuid, manifest=MANIFEST, compression="gzip")
        manifest, packed = node.published[-1]
        whole = files(packed)
        assert whole["./root/new"] == (5, b"x\n")
        assert "./www/index.html" not in whole
        assert "./bin/busybox" in whole
        assert not [name for name in whole if name.startswith("./var/lib/vetro/")]
        assert "origin" not in manifest
        assert manifest["size"] == len(packed)

        await node.good(
            "machine_create_image", uuid=uuid, manifest=MANIFEST, incremental=True,
            prepare_image_script="echo prepared > /root/prepared; rm /root/new",
        )  # fmt: skip
        manifest, packed = node.published[-1]
        assert manifest["origin"] == kit.image
        layer = files(packed)
        assert layer["./root/prepared"] == (0, b"prepared\n")
        assert "./www/.wh.index.html" in layer
        assert "./bin/busybox" not in layer
        assert not [name for name in layer if name.startswith("./var/lib/vetro/")]
        root = await containers.driver.files(uuid)
        assert not root.exists("/root/prepared")
        assert root.read("/root/new") == b"x\n"
        assert (await containers.driver.load(uuid))["snapshots"] == []

        status, body = await node.task(
            "machine_create_image", uuid=uuid, manifest=MANIFEST, prepare_image_script="exit 4"
        )
        assert status == 500
        assert "ended with 4" in body["error"]
        assert (await containers.driver.load(uuid))["state"] == "stopped"
        assert subprocess.run(["ls", "-A", containers.directory / "scratch"],
                              capture_output=True, check=True).stdout == b""  # fmt: skip


@pytest.mark.parametrize(
    "params",
    [
        {"manifest": {}},
        {"manifest": {**MANIFEST, "uuid": "no"}},
        {"manifest": MANIFEST, "compression": "rar"},
        {},
    ],
)
async def test_bad_image_requests(node: Any, kit: SimpleNamespace, params: dict[str, Any]) -> None:
    """Refused before anything begins."""
    uuid = await node.create(kit, autoboot=False)
    status, body = await node.task("machine_create_image", uuid=uuid, **params)
    assert (status, body["details"]["restCode"]) == (500, "InvalidPayload")
    assert node.published == []
