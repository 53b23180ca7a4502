"""The whole agent: registration, lanes, task API, restart, with a stand-in for the service."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.node.conftest import IMAGE
from tests.waiting import eventually

from vetro.http import ConnectionLimits
from vetro.http.client import HttpClient
from vetro.node import (
    ConfigurationError,
    NodeAgent,
    NodeSection,
    NodeSettings,
    refuse_other_driver,
)
from vetro.node.processes import command_line
from vetro.node.reports import reporter


@contextlib.asynccontextmanager
async def running(settings: NodeSettings) -> AsyncIterator[NodeAgent]:
    """An agent that runs; stopped gracefully at the end."""
    agent = NodeAgent(settings)
    work = asyncio.create_task(agent.run())
    ready = asyncio.create_task(agent.ready.wait())
    await asyncio.wait({work, ready}, return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    if work.done():
        work.result()
    try:
        yield agent
    finally:
        agent.stop()
        await work


def settings(service: Any, directory: Path, **changes: Any) -> NodeSettings:
    """Settings of a simulated node with quick heartbeats."""
    values: dict[str, Any] = {
        "compute_url": service.url,
        "data_dir": directory,
        "key": "key",
        "driver": "simulated",
        "heartbeat_seconds": 0.02,
        **changes,
    }
    section = {one.name: values.pop(one.name) for one in fields(NodeSection) if one.name in values}
    return NodeSettings(node=NodeSection(**section), **values)


async def task(agent: NodeAgent, name: str, **params: Any) -> tuple[int, Any]:
    """Run a task over HTTP."""
    async with HttpClient(headers={"Authorization": "Bearer key"}) as client:
        answer = await client.request(
            "POST", f"http://127.0.0.1:{agent.port}/tasks", json={"task": name, "params": params}
        )
        return answer.status, answer.json()


async def test_a_node_registers_reports_and_beats(service: Any, tmp_path: Path) -> None:
    """sysinfo first, then agents, heartbeats and status; every message carries the node's key."""
    async with running(settings(service, tmp_path)) as agent:
        [info, *_] = await service.wait_for("/sysinfo")
        await service.wait_for("/events/heartbeat", 3)
        [status, *_] = await service.wait_for("/events/status")
        assert info["sysinfo"]["UUID"] == agent.server_uuid
        assert info["sysinfo"]["CN Agent Port"] == agent.port
        assert info["sysinfo"]["Admin IP"] == "127.0.0.1"
        assert info["sysinfo"]["Vetro Node"]["driver"] == "simulated"
        assert service.find(agent.server_uuid) == [
            {"agents": [{"name": "cn-agent", "version": "2.15.0", "package_version": "0.1.0"}]}
        ]
        assert status["vms"] == {}
        assert status["meminfo"]["total_bytes"] > 0
        assert len(status["diskinfo"]) == 12
        paths = [path for _, path, _, _ in service.requests]
        assert paths[0].endswith("/sysinfo")
        assert {h["authorization"] for _, _, h, _ in service.requests} == {"Bearer key"}
        await agent.registered.wait()


async def test_a_refused_registration_is_tried_again(service: Any, tmp_path: Path) -> None:
    """Nothing else is sent before the node is known."""
    service.answers["/sysinfo"] = (500, b"{}")
    async with running(settings(service, tmp_path)) as agent:
        await service.wait_for("/sysinfo", 2)
        assert service.find("/events/heartbeat") == []
        service.answers["/sysinfo"] = (200, b"{}")
        await service.wait_for("/events/heartbeat")
        await agent.registered.wait()


async def test_a_node_whose_status_was_refused_sends_it_again(
    service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the service has its first status the node does not count as registered: it can place nothing."""
    monkeypatch.setattr(reporter, "STATUS_SPACING_SECONDS", 0.01)
    service.answers["/events/status"] = (503, b"{}")
    async with running(settings(service, tmp_path)) as agent:
        await service.wait_for("/events/status", 2)
        assert not agent.registered.is_set()
        service.answers["/events/status"] = (204, b"")
        await agent.registered.wait()


async def test_a_service_that_is_not_there_yet(tmp_path: Path, service: Any) -> None:
    """The agent serves tasks while it waits."""
    async with running(settings(service, tmp_path, compute_url="http://127.0.0.1:1")) as agent:
        assert (await task(agent, "nop"))[0] == 200
        assert not agent.registered.is_set()


async def test_a_service_that_forgot_the_node_is_told_again(service: Any, tmp_path: Path) -> None:
    """A 404 for a status event leads to a new registration."""
    service.answers["/events/status"] = (404, b"{}")
    async with running(settings(service, tmp_path)):
        await service.wait_for("/sysinfo", 2)


async def test_a_directory_of_another_driver_is_refused_while_it_has_machines(
    service: Any, tmp_path: Path, kit: SimpleNamespace
) -> None:
    """It names them, and what to do; with the former driver they are deleted, then any driver may have it."""
    async with running(settings(service, tmp_path)) as agent:
        _, body = await task(agent, "machine_create", image_uuid=IMAGE, brand="lx", alias="web")
        uuid = body["vm"]["uuid"]
    for driver in ("process", "lxc", "qemu", "lxc+qemu"):
        with pytest.raises(ConfigurationError, match=rf"web \({uuid}\).*--driver simulated"):
            await NodeAgent(settings(service, tmp_path, driver=driver)).run()
    async with running(settings(service, tmp_path)) as agent:
        assert (await task(agent, "machine_destroy", uuid=uuid))[0] == 200
    async with running(settings(service, tmp_path, driver="process")):
        pass
    assert refuse_other_driver(tmp_path, "simulated") == "process"


async def test_a_vm_is_created_and_reported(
    service: Any, tmp_path: Path, kit: SimpleNamespace
) -> None:
    """The image's manifest is asked for; the next status has the VM with the nine properties."""
    async with running(settings(service, tmp_path)) as agent:
        await service.wait_for("/events/status")
        status, body = await task(agent, "machine_create", image_uuid=IMAGE, brand="lx", quota=7)
        assert status == 200
        uuid = body["vm"]["uuid"]
        assert body["vm"]["server_uuid"] == agent.server_uuid
        sample = (await service.wait_for("/events/status", 2))[-1]
        assert set(sample["vms"][uuid]) == {
            "brand", "cpu_cap", "last_modified", "max_physical_memory", "owner_uuid", "quota",
            "state", "uuid", "zone_state",
        }  # fmt: skip
        assert sample["vms"][uuid]["state"] == "running"
        assert sample["diskinfo"]["zone_quota_bytes"] == 7 * 2**30


async def test_the_node_keeps_its_identity_and_vms_over_a_restart(
    service: Any, tmp_path: Path
) -> None:
    """Same uuid, same VMs, same history."""
    async with running(settings(service, tmp_path)) as first:
        _, body = await task(first, "machine_create", image_uuid=IMAGE, brand="lx")
    async with running(settings(service, tmp_path)) as second:
        assert second.server_uuid == first.server_uuid
        _, vm = await task(second, "machine_load", uuid=body["vm"]["uuid"])
        assert vm["state"] == "running"


async def test_a_restart_of_the_agent_starts_nothing(
    service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has ended stays ended until the machine boots; what was stopped stays stopped then as well."""
    async with running(settings(service, tmp_path)) as agent:
        made = [
            (await task(agent, "machine_create", image_uuid=IMAGE, brand="lx"))[1]["vm"]["uuid"]
            for _ in range(2)
        ]
        await task(agent, "machine_kill", uuid=made[0], signal="SIGKILL")
        await task(agent, "machine_shutdown", uuid=made[1])

    async def states() -> list[str]:
        async with running(settings(service, tmp_path)) as again:
            return [(await task(again, "machine_load", uuid=uuid))[1]["state"] for uuid in made]

    assert await states() == ["stopped", "stopped"]
    monkeypatch.setattr("vetro.node.boot_record.machine_boot", lambda: "another")
    assert await states() == ["running", "stopped"]


@pytest.mark.parametrize("runs", [True, False])
async def test_an_agent_after_one_that_kept_no_boot_starts_what_is_wanted_if_nothing_runs(
    service: Any, tmp_path: Path, runs: bool
) -> None:
    """Whether the machine has booted is not known then; a VM that runs says that it has not."""
    async with running(settings(service, tmp_path)) as agent:
        ended, other = [
            (await task(agent, "machine_create", image_uuid=IMAGE, brand="lx"))[1]["vm"]["uuid"]
            for _ in range(2)
        ]
        for uuid in [ended] if runs else [ended, other]:
            await task(agent, "machine_kill", uuid=uuid, signal="SIGKILL")
    (tmp_path / "boot.json").unlink()
    async with running(settings(service, tmp_path)) as again:
        found = (await task(again, "machine_load", uuid=ended))[1]["state"]
    assert found == ("stopped" if runs else "running")


async def test_a_port_in_use_is_named(service: Any, tmp_path: Path) -> None:
    """The error says which port and what to do."""
    async with running(settings(service, tmp_path / "a")) as agent:
        with pytest.raises(ConfigurationError, match=f"port {agent.port}.*choose another"):
            await NodeAgent(settings(service, tmp_path / "b", port=agent.port)).run()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"driver": "vmware"}, "choose one of lxc, qemu, lxc\\+qemu, process, simulated"),
        ({"prefix": "Too-Long-A-Prefix"}, "cannot begin interface names"),
        ({"data_dir": Path("relative")}, "must be absolute"),
        ({"compute_url": "ftp://x"}, "not an HTTP URL"),
    ],
)
def test_bad_settings_are_refused(
    service: Any, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """Before anything starts, with the way out."""
    with pytest.raises(ConfigurationError, match=message):
        settings(service, tmp_path, **change)


async def test_a_missing_guest_agent_is_a_configuration_error(service: Any, tmp_path: Path) -> None:
    """Instances without their agent would only time out later."""
    missing = tmp_path / "none.pyz"
    with pytest.raises(ConfigurationError, match="make guest"):
        await NodeAgent(settings(service, tmp_path, guest_archive=missing)).run()


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from vetro.node import NodeAgent, NodeSection, NodeSettings
from vetro.node.drivers.simulated import SimulatedHypervisor
async def die(self, vm):
    os.kill(os.getpid(), signal.SIGKILL)
SimulatedHypervisor.start = die
async def main():
    agent = NodeAgent(NodeSettings(Path(sys.argv[2]), NodeSection(
        compute_url=sys.argv[1], key="key", driver="simulated")))
    work = asyncio.create_task(agent.run())
    await agent.ready.wait()
    print("port", agent.port, flush=True)
    await work
asyncio.run(main())
"""


async def test_a_create_whose_agent_was_killed_has_failed_and_can_be_repeated(
    service: Any, tmp_path: Path
) -> None:
    """No half VM is shown; the task is in the history as failed; the same request then works."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, service.url, str(tmp_path),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    port = 0
    while not port:
        word, _, rest = (await process.stdout.readline()).decode().partition(" ")
        port = int(rest) if word == "port" else 0
    uuid = "aaaaaaaa-1111-4111-8111-111111111111"
    params = {"uuid": uuid, "image_uuid": IMAGE, "brand": "lx"}
    from vetro.http.client import TransportError

    async with HttpClient(headers={"Authorization": "Bearer key"}) as client:
        with pytest.raises(TransportError):
            await client.request(
                "POST",
                f"http://127.0.0.1:{port}/tasks",
                json={"task": "machine_create", "params": params},
                headers={"Idempotency-Key": "k"},
            )
    assert await process.wait() == -signal.SIGKILL
    assert (tmp_path / "vms" / uuid).is_dir()

    async with running(settings(service, tmp_path)) as agent:
        assert (await task(agent, "machine_list", include_dni=True))[1] == {"vms": []}
        async with HttpClient(headers={"Authorization": "Bearer key"}) as client:
            base = f"http://127.0.0.1:{agent.port}"
            history = (await client.request("GET", f"{base}/history")).json()
            entry = next(e for e in history if e["task"] == "machine_create")
            assert entry["status"] == "failed"
            assert entry["messages"][-1]["event"]["error"]["message"] == "failed: agent restarted"
            again = await client.request(
                "POST",
                f"{base}/tasks",
                json={"task": "machine_create", "params": params},
                headers={"Idempotency-Key": "k"},
            )
        assert again.status == 200
        assert again.json()["vm"]["uuid"] == uuid


GUEST = """
import os, sys, time, zipfile
root = os.environ["VETRO_GUEST_ROOT"]
open(os.path.join(root, "arguments"), "w").write("\\n".join(sys.argv[1:]))
os.rename(os.path.join(root, "arguments"), os.path.join(root, "started"))
time.sleep(600)
"""


async def test_the_process_driver_runs_the_guest_agent(service: Any, tmp_path: Path) -> None:
    """As a process with a root of its own, at the loopback address; gone after destroy."""
    archive = tmp_path / "guest.py"
    archive.write_text(GUEST)
    data = tmp_path / "data"
    options = {"driver": "process", "guest_archive": archive}
    async with running(settings(service, data, **options)) as agent:
        status, body = await task(
            agent, "machine_create", image_uuid=IMAGE, brand="lx",
            customer_metadata={"user-data": "#!/bin/sh\n"}, nics=[{"ip": "10.0.0.5"}],
        )  # fmt: skip
        assert status == 200
        vm = body["vm"]
        assert (vm["nics"][0]["ip"], vm["nics"][0]["network_ip"]) == ("127.0.0.1", "10.0.0.5")
        root = data / "vms" / vm["uuid"] / "root"
        await eventually((root / "started").exists)
        assert (root / "started").read_text().splitlines() == [
            "--bootstrap", f"{root}/var/lib/vetro/user-data",
            "--config-file", f"{root}/etc/murano/agent.conf", "--root", str(root),
        ]  # fmt: skip
        _, processes = await task(agent, "machine_proc", uuid=vm["uuid"])
        assert str(vm["pid"]) in processes
        assert (await task(agent, "network_apply", version=1))[1]["applied"] is False

    # It outlives the agent.
    os.kill(vm["pid"], 0)
    async with running(settings(service, data, **options)) as agent:
        _, found = await task(agent, "machine_load", uuid=vm["uuid"])
        assert (found["state"], found["pid"]) == ("running", vm["pid"])
        _, stopped = await task(agent, "machine_shutdown", uuid=vm["uuid"], timeout=5)
        assert stopped["vm"]["state"] == "stopped"
        _, started = await task(agent, "machine_boot", uuid=vm["uuid"])
        await task(agent, "machine_destroy", uuid=vm["uuid"])
        assert not root.exists()
        pids = [started["vm"]["pid"], *map(int, processes)]
    # A zombie that the machine's init has not collected yet has no command line either.
    assert [pid for pid in pids if any(command_line(pid))] == []


@pytest.mark.root
async def test_an_agent_without_instances_leaves_the_machine_as_it_was(
    service: Any, tmp_path: Path, kit: SimpleNamespace, node_names: tuple[str, str]
) -> None:
    """Its networks go with it and come back with the next agent; with instances they stay."""
    prefix, subnet = node_names
    options = {"driver": "lxc", "prefix": prefix}
    network = {"uuid": kit.new_uuid(), "name": "n", "cidr": f"{subnet}.0/24"}
    async with running(settings(service, tmp_path, **options)) as agent:
        assert (await task(agent, "network_apply", version=1, networks=[network]))[0] == 200
        assert len(kit.traces(prefix, tmp_path)) == 3
    assert kit.traces(prefix, tmp_path) == []
    async with running(settings(service, tmp_path, **options)) as agent:
        assert len(kit.traces(prefix, tmp_path)) == 3
        _, bad = await task(agent, "network_apply", version=2, networks=[{"uuid": "?"}])
        assert bad["details"]["restCode"] == "NetworkError"
    assert kit.traces(prefix, tmp_path) == []


async def said(port: int, text: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the task API on which this was said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.encode())
    return reader, writer


async def test_a_slow_client_of_the_task_api_is_told_and_closed(
    service: Any, tmp_path: Path
) -> None:
    """Headers and bodies have the time that the settings give; the answer is in the API's own form."""
    limits = ConnectionLimits(header_seconds=0.05, body_seconds=0.05)
    unfinished = ["POST /tasks HT", "POST /tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key"]
    unfinished.append(f"{unfinished[1]}\r\nContent-Length: 9\r\n\r\n{{")
    async with running(settings(service, tmp_path, limits=limits)) as agent:
        for text in unfinished:
            reader, writer = await said(agent.port, text)
            answer = await reader.read()
            writer.close()
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 408"), text
            assert set(json.loads(body)) == {"code", "message"}
        assert (await task(agent, "nop"))[0] == 200


async def test_silent_clients_of_the_task_api_make_room_for_the_service(
    service: Any, tmp_path: Path
) -> None:
    """More connections than there may be: those without a whole request go, tasks are still taken."""
    limits = ConnectionLimits(total=4, per_address=4, header_seconds=3600)
    async with running(settings(service, tmp_path, limits=limits)) as agent:
        silent = [await said(agent.port, "POST /tasks HTTP/1.1\r\n") for _ in range(40)]
        assert (await task(agent, "nop"))[0] == 200
        assert await silent[0][0].read() == b""
        for _, writer in silent:
            writer.close()


async def test_a_node_that_has_no_connection_left_still_says_that_it_lives(
    service: Any, tmp_path: Path
) -> None:
    """While all are being served, ``/ping`` answers, and everything else is 503 with the reason."""
    limits = ConnectionLimits(total=3, per_address=3, body_seconds=3600)
    head = "POST /tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\nContent-Length: 90\r\n"
    asks = "Expect: 100-continue\r\n\r\n"
    async with running(settings(service, tmp_path, limits=limits)) as agent:
        busy = [await said(agent.port, head + asks) for _ in range(3)]
        for reader, _ in busy:
            assert b"100" in await reader.readline()  # its body is being read
        assert (await task(agent, "nop"))[0] == 503
        async with HttpClient() as client:
            answer = await client.request("GET", f"http://127.0.0.1:{agent.port}/ping")
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        for _, writer in busy:
            writer.close()


@pytest.mark.parametrize("key", ["key", "wrong"])
async def test_a_refused_body_of_the_task_api_is_read_to_its_end(
    service: Any, tmp_path: Path, key: str
) -> None:
    """A caller that writes before it reads gets the refusal and no reset."""
    size = 20 * 2**20 if key == "key" else 8 * 2**20
    async with running(settings(service, tmp_path)) as agent:

        def write_then_read() -> bytes:
            with socket.create_connection(("127.0.0.1", agent.port)) as client:
                client.settimeout(240)
                head = f"POST /tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
                client.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode())
                client.sendall(bytes(size))
                return client.recv(65_536)

        answer = await asyncio.to_thread(write_then_read)
    assert int(answer.split()[1]) == (413 if key == "key" else 401)


def test_a_node_loads_no_framework() -> None:
    """The task API is the one HTTP face that every node runs, so that it must be small in memory."""
    code = "import sys, vetro.node.agent; sys.exit('litestar' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
