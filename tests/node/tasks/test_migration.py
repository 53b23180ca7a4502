"""Moving a container from one agent to another, with different id ranges and pools."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.root

PATH = {"PATH": "/bin:/sbin"}
ALICE = "aaaaaaaa-0000-4000-8000-000000000001"


@pytest.fixture
async def nodes(
    tmp_path: Path, node_names: tuple[str, str], kit: SimpleNamespace
) -> AsyncIterator[SimpleNamespace]:
    """Two nodes on one machine: a directory pool and a btrfs pool, with one network each."""
    prefix, subnet = node_names
    (tmp_path / "a").mkdir()
    with kit.loop_mount(tmp_path, "btrfs") as base:
        here = await kit.open_containers(tmp_path / "a", f"{prefix[:4]}a", subnet)
        there = await kit.open_containers(base, f"{prefix[:4]}b", subnet)
        there.network_uuid = kit.new_uuid()
        there.subnet = f"10.99.{subnet.rsplit('.', 1)[1]}"
        async with (
            kit.node_over(here.driver, here.images, here.directory) as source,
            kit.node_over(there.driver, there.images, there.directory) as target,
        ):
            yield SimpleNamespace(source=source, target=target, here=here, there=there)
        for side in (here, there):
            for vm in side.store:
                await side.driver.delete(vm["uuid"])
            await side.network.apply({"version": 10**9})
            await side.driver.close()
            assert kit.traces(side.prefix, side.directory) == []


async def test_a_container_moves_with_its_files_and_owners(nodes: Any) -> None:
    """First while it runs, then what changed; afterwards it runs there as it was here."""
    nic = await nodes.here.plugged(5)
    vm = await nodes.here.create([nic], owner_uuid=ALICE, alias="web", quota=5)
    uuid = vm["uuid"]

    async def inside(side: Any, script: str) -> str:
        result = await side.driver.execute(uuid, ["sh", "-c", script], PATH, 20)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    await inside(nodes.here, "mkdir -p /data/d && echo one > /data/d/f && chown 33:44 /data/d/f"
                 " && ln -s d/f /data/link && ln /data/d/f /data/hard && rm /www/index.html"
                 " && head -c 3000000 /dev/zero > /data/big && chmod 4755 /data/big")  # fmt: skip

    # The target's interface is on its own network: the service says so in the record.
    record = await nodes.here.driver.load(uuid)
    moved_nic = {**nic, "network_uuid": nodes.there.network_uuid, "ip": f"{nodes.there.subnet}.5",
                 "gateway": f"{nodes.there.subnet}.1"}  # fmt: skip
    await nodes.there.apply([moved_nic])
    # There another project has this range: the container gets another one.
    (nodes.there.directory / "id-ranges.json").write_text(f'{{"other": {record["id_base"]}}}')
    made = await nodes.target.good(
        "machine_migrate",
        migrationTask={"action": "setup-filesystem",
                       "record": {"vm_uuid": uuid, "vm": {**record, "nics": [moved_nic]}}},
    )  # fmt: skip
    assert (made["vm"]["state"], made["vm"]["do_not_inventory"]) == ("stopped", True)
    assert made["vm"]["id_base"] != record["id_base"]

    async def transfer() -> dict[str, Any]:
        where = await nodes.target.good("machine_migrate", action="receive", vm_uuid=uuid)
        return await nodes.source.good(
            "machine_migrate", action="sync", vm_uuid=uuid, wait=True,
            **{key: where[key] for key in ("host", "port", "token")},
        )  # fmt: skip

    assert (await transfer())["transferred"] > 3_000_000
    await inside(nodes.here, "echo two > /data/d/f2 && rm /data/link")
    await nodes.here.driver.stop(uuid, force=True)
    assert 0 < (await transfer())["transferred"] < 100_000
    size = await nodes.source.good("machine_migrate", action="estimate", vm_uuid=uuid)
    assert size["size"] > 3_000_000

    await nodes.target.good(
        "machine_migrate", action="set-create-timestamp", vm_uuid=uuid, vm=record
    )
    for name, value in (("set-do-not-inventory", False), ("set-autoboot", True)):
        await nodes.target.good("machine_migrate", action=name, vm_uuid=uuid, value=value)
    await nodes.target.good("machine_boot", uuid=uuid)
    await nodes.source.good("machine_destroy", uuid=uuid)
    arrived = await nodes.there.driver.load(uuid)
    assert (arrived["alias"], arrived["quota"], arrived["autoboot"]) == ("web", 5, True)
    assert arrived["create_timestamp"] == record["create_timestamp"]
    shown = await inside(
        nodes.there,
        "cat /data/d/f /data/d/f2; stat -c '%u:%g %h %a' /data/d/f; stat -c '%a %s' /data/big;"
        " ls /data /www; stat -c %u /bin/busybox",
    )
    assert shown.split() == [
        "one", "two", "33:44", "2", "644", "4755", "3000000", "/data:", "big", "d", "hard", "/www:", "0",
    ]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["to btrfs", "from btrfs"])
async def test_snapshots_move_between_pools(nodes: Any, way: str) -> None:
    """What each kept is what each gives back there: changed, removed and new files, owners, links."""
    source, target, here, there = (
        (nodes.source, nodes.target, nodes.here, nodes.there)
        if way == "to btrfs"
        else (nodes.target, nodes.source, nodes.there, nodes.here)
    )
    nic = here.nic(5)
    await here.apply([nic])
    uuid = (await here.create([nic], owner_uuid=ALICE))["uuid"]

    async def inside(side: Any, script: str) -> str:
        result = await side.driver.execute(uuid, ["sh", "-c", script], PATH, 20)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    await inside(here, "mkdir /data && echo one > /data/f && chown 33:44 /data/f && ln /data/f /data/h"
                 " && rm /www/index.html")  # fmt: skip
    await here.driver.create_snapshot(uuid, "one")
    await inside(
        here, "rm -r /data && mkdir /data && echo two > /data/g && echo page > /www/index.html"
    )
    await here.driver.create_snapshot(uuid, "..two")
    await inside(here, "rm -r /data && echo now > /root/now")
    record = await here.driver.load(uuid)
    # Another project has this range there: the container gets another one.
    (there.directory / "id-ranges.json").write_text(f'{{"other": {record["id_base"]}}}')
    await target.good(
        "machine_migrate", action="setup-filesystem", vm_uuid=uuid, vm={**record, "nics": []}
    )

    async def transfer(**what: Any) -> dict[str, Any]:
        receiver = await target.good("machine_migrate", action="receive", vm_uuid=uuid)
        way = {key: receiver[key] for key in ("host", "port", "token")}
        return await source.good(
            "machine_migrate", action="sync", vm_uuid=uuid, wait=True, **way, **what
        )

    for entry in record["snapshots"]:
        kept = {"snapshot_name": entry["name"], "created_at": entry["created_at"]}
        assert (await transfer(**kept))["snapshot_name"] == entry["name"]
        for _ in range(2):
            # A service that died asks again.
            await target.good("machine_migrate", action="keep-snapshot", vm_uuid=uuid, **kept)
    await here.driver.stop(uuid, force=True)
    await transfer()
    assert (await there.driver.load(uuid))["snapshots"] == record["snapshots"]
    await source.good("machine_destroy", uuid=uuid)
    await target.good("machine_boot", uuid=uuid)
    look = "cat /root/now /data/* /www/index.html 2>/dev/null; stat -c '%u:%g %h' /data/f"
    look = f"{{ {look}; }} 2>/dev/null || true"
    assert (await inside(there, look)).split() == ["now", "page"]
    await target.good("machine_rollback_snapshot", uuid=uuid, snapshot_name="..two")
    assert (await inside(there, look)).split() == ["two", "page"]
    await target.good("machine_rollback_snapshot", uuid=uuid, snapshot_name="one")
    assert (await inside(there, look)).split() == ["one", "one", "33:44", "2"]
    assert "index.html" not in await inside(there, "ls /www")


async def test_an_agent_killed_while_it_sends_a_snapshot_leaves_no_mount(
    nodes: Any, kit: SimpleNamespace
) -> None:
    """The next one takes the snapshot's view away and finds the container running."""
    uuid = (await nodes.here.connected(5))["uuid"]
    await nodes.here.driver.create_snapshot(uuid, "kept")
    left = nodes.here.driver.snapshot_files(uuid, "kept")
    root = await left.__aenter__()
    assert os.path.ismount(root.path)
    again = await kit.open_containers(nodes.here.directory, nodes.here.prefix, nodes.here.subnet)
    try:
        assert not root.path.exists()
        assert (await again.driver.load(uuid))["state"] == "running"
    finally:
        await again.driver.close()
        await left.__aexit__(None, None, None)


async def test_snapshots_that_are_not_there_are_not_sent(nodes: Any) -> None:
    """Nor kept without a time."""
    uuid = (await nodes.here.connected(5, autoboot=False))["uuid"]
    sync = {"action": "sync", "host": "127.0.0.1", "port": 1, "snapshot_name": "none"}
    status, body = await nodes.source.task("machine_migrate", vm_uuid=uuid, **sync)
    assert (status, body["details"]["restCode"]) == (500, "SnapshotNotFound")
    keep = {"action": "keep-snapshot", "snapshot_name": "x", "created_at": "then"}
    status, body = await nodes.source.task("machine_migrate", vm_uuid=uuid, **keep)
    assert (status, "ISO time" in body["error"]) == (500, True)


async def test_the_progress_is_told_to_who_asks(nodes: Any) -> None:
    """Without ``wait`` the answer says where; the last line says how it ended."""
    uuid = (await nodes.here.connected(5, autoboot=False))["uuid"]
    record = await nodes.here.driver.load(uuid)
    await nodes.target.good(
        "machine_migrate", action="setup-filesystem", vm_uuid=uuid, vm={**record, "nics": []}
    )
    where = await nodes.target.good("machine_migrate", action="receive", vm_uuid=uuid)
    progress = await nodes.source.good(
        "machine_migrate", action="sync", vm_uuid=uuid, host=where["host"], port=where["port"],
        token=where["token"],
    )  # fmt: skip
    assert set(progress) == {"pid", "host", "port"}
    reader, writer = await asyncio.open_connection(progress["host"], progress["port"])
    try:
        async with asyncio.timeout(240):
            lines = (await reader.read()).splitlines()
    finally:
        writer.close()
        await writer.wait_closed()
    assert b'"type": "end"' in lines[-1]
    assert b'"ok": true' in lines[-1]


async def test_a_transfer_with_the_wrong_token_fails(nodes: Any) -> None:
    """And the receiver goes on waiting until it is ended by its pid and the VM's uuid."""
    uuid = (await nodes.here.connected(5, autoboot=False))["uuid"]
    record = await nodes.here.driver.load(uuid)
    await nodes.target.good(
        "machine_migrate", action="setup-filesystem", vm_uuid=uuid, vm={**record, "nics": []}
    )
    where = await nodes.target.good("machine_migrate", action="receive", vm_uuid=uuid)
    status, body = await nodes.source.task(
        "machine_migrate", action="sync", vm_uuid=uuid, wait=True, host=where["host"],
        port=where["port"], token="wrong",
    )  # fmt: skip
    assert (status, body["details"]["restCode"]) == (500, "MigrationFailed")
    # A process that is not a migration of this VM is left alone, whatever its pid.
    for pid, vm in ((os.getpid(), uuid), (where["pid"], ALICE)):
        answer = await nodes.target.good(
            "machine_migrate", action="kill_migration_process", vm_uuid=vm, pid=pid
        )
        assert answer == {"killed": False}
    os.kill(where["pid"], 0)
    answer = await nodes.target.good(
        "machine_migrate", action="kill_migration_process", vm_uuid=uuid, pid=where["pid"]
    )
    assert answer == {"killed": True}


async def test_what_migrations_refuse(nodes: Any) -> None:
    """Unknown actions, a running target, missing addresses, pids that are none."""
    uuid = (await nodes.here.connected(5))["uuid"]
    for params, text in (
        ({"action": "fly"}, "Unexpected payload.action: fly"),
        ({"action": "receive"}, "only a stopped one"),
        ({"action": "setup-filesystem", "vm": {"brand": "lx"}}, "exists"),
        ({"action": "sync"}, "host and port"),
        ({"action": "kill_migration_process", "pid": "x"}, "pid must be"),
        ({"action": "set-autoboot", "value": "maybe"}, "true or false"),
        ({"action": "set-create-timestamp", "create_timestamp": "yesterday"}, "ISO time"),
    ):
        status, body = await nodes.source.task("machine_migrate", vm_uuid=uuid, **params)
        assert status == 500
        assert text in body["error"]
    found = await nodes.source.good(
        "machine_migrate", action="get-filesystem-details", vm_uuid=uuid
    )
    assert found == {"quotaStr": str(10 << 30), "reservationStr": "0"}
    for action in ("remove-zfs-quota", "restore-zfs-quota"):
        assert await nodes.source.good("machine_migrate", action=action, vm_uuid=uuid) == {}


async def test_sync_snapshots_are_removed_and_others_stay(nodes: Any) -> None:
    """By their name, ``vm-migration-N``."""
    uuid = (await nodes.here.connected(5, autoboot=False))["uuid"]
    for name in ("vm-migration-1", "mine", "vm-migration-22"):
        await nodes.here.driver.create_snapshot(uuid, name)
    await nodes.source.good("machine_migrate", action="remove-sync-snapshots", vm_uuid=uuid)
    vm = await nodes.here.driver.load(uuid)
    assert [entry["name"] for entry in vm["snapshots"]] == ["mine"]
