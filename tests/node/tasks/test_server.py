"""The node itself: setup, reset, reboot, tags, agents, and networks that change under VMs."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.waiting import eventually

from vetro.node.tasks.host import SimulatedHost

AGENT = "eeeeeeee-0000-4000-8000-000000000001"


async def test_reboot_answers_at_once_and_happens_after(node: Any, tmp_path: Path) -> None:
    """A process of its own does it."""
    assert await node.good("server_reboot") == {}
    assert not (tmp_path / "rebooted").exists()
    await eventually((tmp_path / "rebooted").exists)


async def test_a_draining_reboot_waits_for_tasks(node: Any, tmp_path: Path) -> None:
    """No new ones are taken meanwhile."""
    running = asyncio.create_task(node.task("sleep", timeout=500))
    await eventually(node.runner.history.active)
    rebooting = asyncio.create_task(node.task("server_reboot", drain=True))
    await eventually(lambda: node.runner.paused)
    assert (await node.task("nop"))[0] == 503
    assert not rebooting.done()
    assert (await running)[0] == 200
    assert (await rebooting)[0] == 200
    await eventually((tmp_path / "rebooted").exists)


async def test_a_script_that_ends_with_113_reboots(node: Any, tmp_path: Path) -> None:
    """By convention; any other status does not."""
    await node.good("command_execute", script="#!/bin/sh\nexit 112\n")
    result = await node.good("command_execute", script="#!/bin/sh\nexit 113\n")
    assert result["exitCode"] == 113
    await eventually((tmp_path / "rebooted").exists)


async def test_setup_and_reset(node: Any, kit: SimpleNamespace, tmp_path: Path) -> None:
    """A node with VMs is neither set up again nor reset; a reset one forgets what it had."""
    uuid = await node.create(kit)
    status, body = await node.task("server_factory_reset", confirm=kit.server)
    assert (status, body["details"]["restCode"]) == (500, "ServerHasVms")
    status, body = await node.task("server_setup")
    assert (status, body["details"]["restCode"]) == (500, "ServerHasVms")
    await node.good("machine_destroy", uuid=uuid)
    status, body = await node.task("server_factory_reset", confirm="something")
    assert kit.server in body["error"]
    assert await node.good("server_factory_reset", confirm=kit.server) == {}
    assert json.loads((tmp_path / "setup.json").read_text())["complete"] is False
    assert node.parts.images.list() == []
    for params, code in (
        ({"disk_layout": "raid9"}, "InvalidPayload"),
        ({"disk_layout": "mirror"}, "PoolMismatch"),
        ({"encryption_enabled": True}, "PoolMismatch"),
        ({"hostname": "a b"}, "InvalidPayload"),
    ):
        status, body = await node.task("server_setup", **params)
        assert (status, body["details"]["restCode"]) == (500, code)
    answer = await node.good("server_setup", hostname="node-7", disk_layout="single")
    assert answer["sysinfo"]["UUID"] == kit.server
    assert json.loads((tmp_path / "setup.json").read_text())["complete"] is True
    assert json.loads((tmp_path / "node.json").read_text()) == {"hostname": "node-7"}
    # Repeating it is harmless, also with VMs.
    await node.create(kit)
    await node.good("server_setup")
    await eventually((tmp_path / "rebooted").exists)


async def test_recovery_needs_an_encrypted_pool(node: Any) -> None:
    """And its parameters, which are named."""
    status, body = await node.task("recovery_config", action="stage", token="t")
    assert body["error"] == (
        "Missing required request parameters: pivtoken, recovery_uuid, template"
    )
    status, body = await node.task("recovery_config", action="activate", pivtoken="p",
                                   recovery_uuid="r")  # fmt: skip
    assert (status, body["details"]["restCode"]) == (500, "NotImplemented")
    assert (await node.task("recovery_config", action="x"))[0] == 500


async def test_nic_tags_are_added_moved_and_removed(node: Any, tmp_path: Path) -> None:
    """Those of interfaces that are not listed stay; nothing changes when one is wrong."""
    for name, mac in (("eth0", "02:00:00:00:00:01"), ("eth1", "02:00:00:00:00:02")):
        (tmp_path / "sys-net" / name).mkdir(parents=True)
        (tmp_path / "sys-net" / name / "address").write_text(f"{mac}\n")
    tags = node.parts.tags

    async def provide(*pairs: tuple[str, list[str] | None]) -> None:
        nics = [{"mac": mac, "nic_tags_provided": names} for mac, names in pairs]
        assert "sysinfo" in await node.good("server_update_nics", nics=nics)

    await provide(("02:00:00:00:00:01", ["admin", "external"]), ("02:00:00:00:00:02", ["storage"]))
    assert tags.names_of("02:00:00:00:00:01") == ["admin", "external"]
    await provide(("02:00:00:00:00:02", ["storage", "external"]))
    assert tags.names_of("02:00:00:00:00:01") == ["admin"]
    assert tags.interface("external") == "eth1"
    await provide(("02:00:00:00:00:01", None), ("02:00:00:00:00:02", ["external"]))
    assert tags.names_of("02:00:00:00:00:01") == ["admin"]
    assert tags.names_of("02:00:00:00:00:02") == ["external"]
    before = tags.read()
    for nics in ([{"mac": "x", "nic_tags_provided": []}],
                 [{"mac": "02:00:00:00:00:01", "nic_tags_provided": ["a b"]}],
                 [{"mac": "02:00:00:00:00:01", "nic_tags_provided": "admin"}]):  # fmt: skip
        status, body = await node.task("server_update_nics", nics=nics)
        assert status == 500
        assert body["error"].startswith("nic tag list error: ")
    assert tags.read() == before


async def test_overprovision_ratios_are_kept_decoded(node: Any, tmp_path: Path) -> None:
    """They come URL-encoded."""
    await node.good("server_overprovision_ratio", value="ram%3D2%26cpu%3D4")
    kept = json.loads((tmp_path / "node.json").read_text())
    assert kept == {"overprovision_ratio": "ram=2&cpu=4"}


async def test_a_changed_network_reaches_its_vms(node: Any, kit: SimpleNamespace) -> None:
    """Gateway, resolvers and routes of VMs in it; others, and those that object, keep theirs."""

    def nic(ip: str, **more: Any) -> dict[str, Any]:
        return {
            "ip": ip,
            "nic_tag": "external",
            "network_uuid": "n1",
            "gateway": "10.0.0.1",
            **more,
        }

    inside = await node.create(kit, nics=[nic("10.0.0.5")], resolvers=["9.9.9.9"],
                               routes={"10.9.0.0/16": "10.0.0.2"})  # fmt: skip
    own = await node.create(kit, nics=[nic("10.0.0.6")], resolvers=["9.9.9.9"],
                            internal_metadata={"set_resolvers": False})  # fmt: skip
    outside = await node.create(kit, nics=[nic("10.1.0.5", network_uuid="n2")])
    vlan = await node.create(kit, nics=[nic("10.0.0.7", vlan_id=5)])
    await node.good(
        "machine_update_nics",
        networks=[{"uuid": "n1", "subnet": "10.0.0.0/24", "vlan_id": 0, "gateway": "10.0.0.254",
                   "netmask": "255.255.255.0", "resolvers": ["1.1.1.1"],
                   "routes": {"10.8.0.0/16": "10.0.0.3"}}],
        original_network={"subnet": "10.0.0.0/24", "nic_tag": "external", "vlan_id": 0,
                          "netmask": "255.255.255.0", "routes": {"10.9.0.0/16": "10.0.0.2"}},
    )  # fmt: skip
    vm = await node.driver.load(inside)
    assert vm["nics"][0]["gateway"] == "10.0.0.254"
    assert vm["resolvers"] == ["1.1.1.1"]
    assert vm["routes"] == {"10.8.0.0/16": "10.0.0.3"}
    vm = await node.driver.load(own)
    assert (vm["nics"][0]["gateway"], vm["resolvers"]) == ("10.0.0.254", ["9.9.9.9"])
    for uuid in (outside, vlan):
        assert (await node.driver.load(uuid))["nics"][0]["gateway"] == "10.0.0.1"
    status, body = await node.task("machine_update_nics", networks=[], original_network={})
    assert status == 500
    assert body["error"].startswith("Invalid request parameter(s): ")


def agent_archive(**files: str) -> bytes:
    """A tar of an agent."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


@pytest.fixture
def offered(node: Any, monkeypatch: pytest.MonkeyPatch, kit: SimpleNamespace) -> dict[str, Any]:
    """An agent's image in the image service: change ``archive`` and ``manifest``."""
    offer: dict[str, Any] = {"archive": b"", "manifest": {"name": "probe", "version": "1.0"}}

    async def describe(uuid: str) -> Any:
        digest = hashlib.sha1(offer["archive"]).hexdigest()
        manifest = {"uuid": uuid, "files": [{"sha1": digest}], **offer["manifest"]}
        return manifest if uuid == AGENT else None

    async def fetch(_uuid: str, path: Path) -> None:
        path.write_bytes(offer["archive"])

    from vetro.node.tasks.agents import AgentTasks

    tasks = AgentTasks(
        node.parts.data_dir / "agents", describe, fetch, node.parts.refresh_agents, node.parts.host
    )
    for kind in tasks.kinds():
        node.runner.register(kind)
    return offer


async def test_agents_are_installed_replaced_and_removed(
    node: Any, offered: dict[str, Any], tmp_path: Path
) -> None:
    """A new version that does not install leaves the old one; the service hears of each change."""
    from vetro.node.tasks.agents import installed

    directory = tmp_path / "agents"
    offered["archive"] = agent_archive(main="one", postinstall="#!/bin/sh\necho ok > installed\n")
    await node.good("agent_install", image_uuid=AGENT)
    assert (directory / "probe/installed").read_text() == "ok\n"
    assert installed(directory) == [{"name": "probe", "version": "1.0", "image_uuid": AGENT}]
    offered["archive"] = agent_archive(main="two", postinstall="#!/bin/sh\nexit 3\n")
    offered["manifest"]["version"] = "2.0"
    status, body = await node.task("agent_install", image_uuid=AGENT)
    assert status == 500
    assert body["error"].startswith("AgentInstall error: postinstall ended with 3")
    assert (directory / "probe/main").read_text() == "one"
    offered["manifest"]["files"] = [{"sha1": "0" * 40}]
    status, body = await node.task("agent_install", image_uuid=AGENT)
    assert "arrived damaged" in body["error"]
    status, body = await node.task("agents_uninstall", agents=["probe", "cn-agent", "never"])
    assert body["error"] == (
        "AgentsUninstallTask error: cn-agent cannot remove itself (force: true insists)"
    )
    assert installed(directory) == []
    assert list(directory.iterdir()) == []
    await node.good("agents_uninstall", agents=["probe"])
    assert len(node.refreshed) == 3


async def test_what_agent_installs_refuse(
    node: Any, offered: dict[str, Any], tmp_path: Path
) -> None:
    """Itself, names that are none, images that are not there, archives that lead out."""
    offered["archive"] = agent_archive(**{"../../escape": "x"})
    for params in (
        {"image_uuid": AGENT, "package_name": "cn-agent"},
        {"image_uuid": AGENT, "package_name": "../x"},
        {"image_uuid": "eeeeeeee-0000-4000-8000-000000000002"},
        {"image_uuid": AGENT},
    ):
        status, body = await node.task("agent_install", **params)
        assert status == 500
        assert body["error"].startswith("AgentInstall error: ")
    assert not (tmp_path / "escape").exists()
    assert list((tmp_path / "agents").iterdir()) == []


async def test_a_simulated_node_leaves_the_machine_it_runs_on_alone(
    simulation: Any, kit: SimpleNamespace, tmp_path: Path
) -> None:
    """Scripts, agents' hooks, image builds and reboots succeed or are refused, and nothing is run."""
    started: list[str] = []
    watching = True

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
            started.append(str(arguments[:2]))

    sys.addaudithook(heard)
    try:
        async with kit.node_over(
            simulation.driver, simulation.images, tmp_path, SimulatedHost()
        ) as node:
            result = await node.good("command_execute", script=f"#!/bin/sh\ntouch {tmp_path}/ran\n")
            assert (result["exitCode"], "was not run" in result["stderr"]) == (0, True)
            assert await node.good("server_reboot") == {}
            status, body = await node.task("docker_build", payload={"t": "x"})
            assert (status, body["details"]["restCode"]) == (500, "NotImplemented")
            host = node.parts.host
            (tmp_path / "postinstall").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
            await host.hook(tmp_path, "postinstall")
    finally:
        watching = False
    assert started == []
    assert not (tmp_path / "ran").exists()
