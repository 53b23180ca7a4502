"""Volumes of packages whose sources are at the real Cinder."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Installation
from tests.waiting import eventually

from vetro.openstack import Session
from vetro.stacks.heat import CinderDirectory

from .cloud import Cloud

pytestmark = [pytest.mark.openstack, pytest.mark.e2e]
MANIFEST = """
Format: '1.4'
Type: Application
FullName: test.Stored
Name: Stored
Description: a volume made of a snapshot
Author: nobody
Classes: {test.Stored: stored.yaml}
"""
STORED = """
Namespaces: {=: test, std: io.murano, res: io.murano.resources}
Name: Stored
Extends: std:Application
Properties:
  snapshot: {Contract: $.string().notNull()}
  volume: {Contract: $.class(res:CinderVolume), Usage: Out}
  made: {Contract: $.string(), Usage: Out}
Methods:
  deploy:
    Body:
      - $source: new(res:CinderVolumeSnapshot, openstackId => $.snapshot)
      - $.volume: new(res:CinderVolume, $this, name => copy, size => 2, sourceSnapshot => $source)
      - $.volume.deploy()
      - $.made: $.volume.openstackId
"""


async def made(session: Session, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Something that Cinder makes, when it can be used."""
    ((kind, given),) = body.items()
    answer = await session.request("volumev3", "POST", path, json={kind: given})
    assert answer is not None
    place = f"{path}/{answer.json()[kind]['id']}"

    async def usable() -> dict[str, Any] | None:
        shown = await session.request("volumev3", "GET", place)
        assert shown is not None
        found: dict[str, Any] = shown.json()[kind]
        assert found["status"] != "error", found
        return found if found["status"] == "available" else None

    found = await eventually(usable, f"{place} is available")
    assert found is not None
    return found


@pytest.fixture
async def snapshot(cloud: Cloud) -> AsyncIterator[str]:
    """A snapshot of a volume of the member demo, removed afterwards."""
    async with cloud.session("demo") as session:
        volume = await made(session, "/volumes", {"volume": {"size": 1, "name": "original"}})
        asked = {"volume_id": volume["id"], "name": secrets.token_hex(4)}
        one = await made(session, "/snapshots", {"snapshot": asked})
        yield str(one["id"])
        for place in (f"/snapshots/{one['id']}", f"/volumes/{volume['id']}"):
            await session.request("volumev3", "DELETE", place)

            async def is_gone(place: str = place) -> bool:
                return await session.request("volumev3", "GET", place, absent=(404,)) is None

            await eventually(is_gone, f"{place} is gone")


async def test_a_volume_is_made_of_a_snapshot(
    vetro: Installation, cloud: Cloud, snapshot: str, tmp_path: Path
) -> None:
    """Cinder says that it is its source, and it goes with the environment; a snapshot that is not there
    fails the deployment by name."""
    folder = tmp_path / "stored"
    (folder / "Classes").mkdir(parents=True)
    (folder / "manifest.yaml").write_text(MANIFEST)
    (folder / "Classes/stored.yaml").write_text(STORED)
    vetro.run("package", "import", str(folder))
    vetro.run("env", "create", "stored")
    vetro.run("env", "add", "stored", "test.Stored", "--name", "s", "--set", "snapshot=none")
    assert "There is no volume snapshot none" in vetro.run("env", "deploy", "stored", code=1)
    vetro.run("env", "edit", "stored", "s", "--set", f"snapshot={snapshot}")
    vetro.run("env", "deploy", "stored")
    (service,) = vetro.json("env", "model", "stored", "--path", "/services")
    async with cloud.session("demo") as session:
        cinder = CinderDirectory(session)
        assert await cinder.exists(await session.project_id(), "snapshot", snapshot)
        shown = await session.request("volumev3", "GET", f"/volumes/{service['made']}")
        assert shown is not None
        volume = shown.json()["volume"]
        assert (volume["snapshot_id"], volume["size"], volume["name"]) == (snapshot, 2, "copy")
        vetro.run("env", "destroy", "--yes", "stored")
        place = f"/volumes/{service['made']}"
        assert await session.request("volumev3", "GET", place, absent=(404,)) is None
