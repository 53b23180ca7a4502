"""``vetro server``, ``vm``, ``ticket`` and ``cnapi`` against a service on a port."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from sqlalchemy import update
from structlog.testing import capture_logs
from tests.compute.conftest import NODE, OTHER, PROJECT

from vetro.cli import cli
from vetro.cli.compute.servers import server, virtual_machines
from vetro.compute.tables import servers
from vetro.compute.wire import Server
from vetro.compute.work.agents import NodeTaskError

MAC = "02:00:00:00:00:01"
Vetro = Callable[..., Awaitable[Any]]


class Answer:
    """What a command printed, and its exit code."""

    def __init__(self, result: Any) -> None:
        self.code: int = result.exit_code
        self.out: str = result.stdout
        self.err: str = result.stderr

    @property
    def json(self) -> Any:
        """The document."""
        assert self.code == 0, (self.out, self.err)
        return json.loads(self.out)


@pytest.fixture
def vetro(served: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vetro]:
    """`await vetro("server", "list")`: the command beside the service."""
    monkeypatch.setenv("VETRO_URL", served.url)
    monkeypatch.setenv("VETRO_TOKEN", "operator")

    async def run(*arguments: str, given: str | None = None) -> Answer:
        def command() -> Any:
            result = CliRunner().invoke(cli, list(arguments), input=given)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            return result

        return Answer(await asyncio.to_thread(command))

    # The service is in this process: what it logs is not the command's output.
    with capture_logs():
        yield run


async def test_servers_are_listed_and_shown(served: Any, vetro: Vetro) -> None:
    """By host name or uuid; as a table or as a document."""
    rows = (await vetro("server", "list", "--json")).json
    assert [(row["uuid"], row["hostname"]) for row in rows] == [(NODE, "node-1")]
    assert "node-1" in (await vetro("server", "list")).out
    assert "virtual_machines" in (await vetro("server", "show", "node-1")).out
    assert (await vetro("server", "show", "node-1", "--json")).json["uuid"] == NODE
    missing = await vetro("server", "show", "node-9")
    assert (missing.code, "There is no server 'node-9'" in missing.err) == (1, True)


async def test_a_name_of_two_servers_is_refused_by_every_command(served: Any, vetro: Vetro) -> None:
    """Nothing is done to either; their uuids are named, and taken, in capitals too."""
    await served.server(OTHER, Hostname="node-1")
    before = await served.ok("GET", "/servers")
    mac = f"a_nic={MAC}"
    commands: dict[str, list[str]] = {"show": [], "drain": [], "reboot": [], "setup": []}
    commands |= {
        "evacuate": ["--fenced"],
        "delete": ["--yes", "--force"],
        "factory-reset": ["--yes"],
    }
    commands |= {f"{verb}-nictags": [mac, "--server"] for verb in ("update", "replace", "delete")}
    assert {*commands, "list"} == {*server.commands}
    for name, more in commands.items():
        refused = await vetro("server", name, *more, "node-1")
        assert refused.code == 1, (name, refused.out)
        assert all(one in refused.err for one in ("2 servers are called", NODE, OTHER)), name
    assert await served.ok("GET", "/servers") == before
    assert (await vetro("server", "show", OTHER.upper(), "--json")).json["uuid"] == OTHER
    # The advice after a command names the one that was meant.
    assert f"vetro server drain {OTHER} --undo" in (await vetro("server", "drain", OTHER)).out


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"accelerator": "kvm"}, "with KVM"),
        (
            {"accelerator": "tcg", "accelerator_reason": "no answer within 5 s"},
            "emulated, several times slower: KVM does not work (no answer within 5 s)",
        ),
        ({}, "none"),
    ],
)
def test_how_a_server_runs_virtual_machines_is_said(node: dict[str, str], words: str) -> None:
    """What the node's look at KVM found, in words; a node without VMs has none."""
    told = {"uuid": NODE, "sysinfo": {"Vetro Node": node}}
    assert virtual_machines(msgspec.convert(told, Server)) == words


async def test_a_drained_server_takes_vms_again_when_told(served: Any, vetro: Vetro) -> None:
    """The job's end is the command's; what holds the server is its error."""
    assert "is empty" in (await vetro("server", "drain", "node-1")).out
    assert (await vetro("server", "show", NODE, "--json")).json["reserved"] is True
    assert (await vetro("server", "drain", "node-1", "--undo", "--json")).json == {
        "uuid": NODE, "reserved": False
    }  # fmt: skip
    vm = await served.vm()
    held = await vetro("server", "drain", "node-1", "--no-move")
    assert (held.code, f"VM {vm}: it is there" in held.err) == (1, True)


async def test_an_evacuation_wants_the_word(served: Any, vetro: Vetro) -> None:
    """Without --fenced nothing is asked of the service; a server that runs is refused by it."""
    refused = await vetro("server", "evacuate", "node-1")
    assert (refused.code, "would run twice" in refused.err) == (2, True)
    refused = await vetro("server", "evacuate", "node-1", "--fenced")
    assert (refused.code, "drain it" in refused.err) == (1, True)
    served.service.heartbeats.forget(NODE)
    async with served.database.transaction() as tx:
        await tx.execute(update(servers).where(servers.c.uuid == NODE).values(status="unknown"))
    job = (await vetro("server", "evacuate", "node-1", "--fenced", "--json")).json
    assert (job["name"], job["execution"]) == ("server-evacuate", "succeeded")


async def test_a_server_that_is_gone_is_deleted(served: Any, vetro: Vetro) -> None:
    """Asked for in so many words, refused while it is heard or has machines, unless that is wanted."""
    vm = await served.vm(alias="web")
    asked = await vetro("server", "delete", "node-1")
    assert (asked.code, "volumes would be lost" in asked.err) == (2, True)
    heard = await vetro("server", "delete", "node-1", "--yes")
    assert (heard.code, "is heard" in heard.err) == (1, True)
    served.service.heartbeats.forget(NODE)
    async with served.database.transaction() as tx:
        await tx.execute(update(servers).where(servers.c.uuid == NODE).values(status="unknown"))
    [row] = (await vetro("vm", "list", "--json")).json
    assert row["state"] == "unknown"
    assert (await vetro("vm", "show", "web", "--json")).json["state"] == "unknown"
    held = await vetro("vm", "delete", "web", "--yes")
    assert (held.code, f"vetro server evacuate {NODE} --fenced" in held.err) == (1, True)
    held = await vetro("server", "delete", "node-1", "--yes")
    assert (held.code, f"web ({vm})" in held.err) == (1, True)
    gone = await vetro("server", "delete", "node-1", "--yes", "--force", "--json")
    assert gone.json == {"uuid": NODE}
    assert (await vetro("server", "list", "--json")).json == []


async def test_a_server_reboots_and_is_set_up(served: Any, vetro: Vetro) -> None:
    """Reboot waits for its job; setting up what is set up does nothing; bad pairs are wrong usage."""
    job = (await vetro("server", "reboot", "node-1", "--json")).json
    assert (job["name"], job["execution"]) == ("server-reboot", "succeeded")
    assert "is set up" in (await vetro("server", "setup", NODE)).out
    assert (await vetro("server", "setup", NODE, "hostname")).code == 2
    await served.ok("POST", f"/servers/{NODE}", {"setup": False})
    uuid = (await vetro("server", "setup", NODE, "hostname=renamed")).out.strip()
    assert (await served.job(uuid))["params"]["hostname"] == "renamed"
    served.nodes.answers["server_reboot"] = NodeTaskError("the node refuses")
    failed = await vetro("server", "reboot", NODE)
    assert (failed.code, "the node refuses" in failed.err) == (1, True)


async def test_nic_tags_of_one_mac_are_one_element(served: Any, vetro: Vetro) -> None:
    """As the seed's command groups them."""
    pairs = (f"external_nic={MAC}", f"storage_nic={MAC}")
    job = (await vetro("server", "update-nictags", "-s", "node-1", *pairs, "--json")).json
    assert job["params"]["nics"] == [{"mac": MAC, "nic_tags_provided": ["external", "storage"]}]
    assert job["params"]["nic_action"] == "update"
    assert (await vetro("server", "delete-nictags", "-s", NODE, f"external={MAC}")).code == 2


async def test_vms_are_listed_started_and_stopped(served: Any, vetro: Vetro) -> None:
    """By alias; with the task as document; a failure has the node's words."""
    vm = await served.vm(alias="web")
    rows = (await vetro("vm", "list", "--json")).json
    assert [(row["uuid"], row["server_uuid"]) for row in rows] == [(vm, NODE)]
    assert (await vetro("vm", "show", "web", "--json")).json["uuid"] == vm
    task = (await vetro("vm", "stop", "web", "--force", "--json")).json
    assert (task["task"], task["status"]) == ("machine_shutdown", "complete")
    assert served.nodes.last("machine_shutdown").params["force"] is True
    assert "started" in (await vetro("vm", "start", "web")).out
    served.nodes.answers["machine_reboot"] = NodeTaskError("it hangs")
    failed = await vetro("vm", "reboot", "web")
    assert (failed.code, "it hangs" in failed.err) == (1, True)


async def test_snapshots_of_a_vm(served: Any, vetro: Vetro) -> None:
    """Taken, listed, gone back to and deleted; going back and deleting want a word."""
    vm = await served.vm(alias="db")
    assert (await vetro("vm", "snapshot", "create", "db", "before")).code == 0
    assert served.nodes.last("machine_create_snapshot").params["snapshot_name"] == "before"
    served.nodes.vms[vm]["snapshots"] = [{"name": "before", "created_at": "2026-01-01"}]
    rows = (await vetro("vm", "snapshot", "list", "db", "--json")).json
    assert [row["name"] for row in rows] == ["before"]
    assert (await vetro("vm", "snapshot", "rollback", "db", "before", given="y\n")).code == 2
    assert "machine_rollback_snapshot" not in served.nodes.tasks
    assert (await vetro("vm", "snapshot", "rollback", "db", "before", "--yes")).code == 0
    assert served.nodes.last("machine_rollback_snapshot").params["snapshot_name"] == "before"
    assert (await vetro("vm", "snapshot", "delete", "db", "before", "--yes")).code == 0
    assert served.nodes.last("machine_delete_snapshot").params["uuid"] == vm


@asynccontextmanager
async def stream(code: int) -> AsyncIterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """A node's temporary server: it echoes its input, complains once and ends with ``code``."""
    heard: list[dict[str, Any]] = []
    over = asyncio.Event()

    def told(kind: str, data: bytes) -> bytes:
        line = {"type": kind, "data": base64.b64encode(data).decode()}
        return json.dumps(line).encode() + b"\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"once\n"
        typed = b""
        while line := await reader.readline():
            heard.append(json.loads(line))
            if heard[-1]["type"] == "stdin_end":
                break
            typed += base64.b64decode(heard[-1]["data"])
        writer.write(told("stdout", b"got " + typed) + told("stderr", b"hm"))
        writer.write(json.dumps({"type": "end", "code": code}).encode() + b"\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    where = {"host": "127.0.0.1", "port": port, "address": f"127.0.0.1:{port}", "token": "once"}
    try:
        yield where, heard
        async with asyncio.timeout(240):
            await over.wait()
    finally:
        server.close()
        await server.wait_closed()


async def test_a_command_in_a_vm(served: Any, vetro: Vetro) -> None:
    """Its words reach the node; what it prints and its exit code come back as one document."""
    await served.vm(alias="web")
    async with stream(3) as (where, heard):
        served.nodes.answers["docker_exec"] = where
        answer = await vetro("vm", "exec", "--json", "-u", "app", "web", "ls", "-l", "/srv")
    assert answer.code == 3
    assert json.loads(answer.out) == {"exit_code": 3, "stdout": "got ", "stderr": "hm"}
    assert [one["type"] for one in heard] == ["stdin_end"]
    command = served.nodes.last("docker_exec").params["command"]
    assert command == {"Cmd": ["ls", "-l", "/srv"], "Tty": False, "User": "app"}


async def test_a_commands_streams_are_ours(served: Any, vetro: Vetro) -> None:
    """Input goes there, output comes here, each on its own stream."""
    await served.vm(alias="web")
    async with stream(0) as (where, heard):
        served.nodes.answers["docker_exec"] = where
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from vetro.cli import main; main()", "vm", "exec", "web", "cat",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate(b"line\n")
    assert (process.returncode, out, err) == (0, b"got line\n", b"hm")
    assert heard[-1]["type"] == "stdin_end"


async def test_a_node_that_cannot_be_reached_is_said(served: Any, vetro: Vetro) -> None:
    """Streams come from the node itself."""
    await served.vm(alias="web")
    async with stream(0) as (where, _):
        served.nodes.answers["docker_exec"] = {**where, "port": 1}
        answer = await vetro("vm", "exec", "web", "true")
        assert (answer.code, "The node does not answer" in answer.err) == (1, True)
        served.nodes.answers["docker_exec"] = where
        await vetro("vm", "exec", "--json", "web", "true")


async def test_tickets_say_whom_they_wait_for(served: Any, vetro: Vetro) -> None:
    """In the list and alone; a release lets the next in."""
    body = {"scope": "vm", "id": "x", "expires_at": "3000"}
    made = [(await served.ok("POST", f"/servers/{NODE}/tickets", body))["uuid"] for _ in range(3)]
    rows = (await vetro("ticket", "list", "--json")).json
    assert [row.get("waiting_on") for row in rows] == [None, made[:1], made[:2]]
    assert f"{made[1]} (+1)" in (await vetro("ticket", "list")).out
    assert (await vetro("ticket", "show", made[2], "--json")).json["waiting_on"] == made[:2]
    assert "is released" in (await vetro("ticket", "release", made[0])).out
    rows = (await vetro("ticket", "list", "-s", "node-1", "--json")).json
    assert [(row["uuid"], row["status"]) for row in rows] == [
        (made[1], "active"), (made[2], "queued")
    ]  # fmt: skip
    assert len((await vetro("ticket", "list", "--all", "--json")).json) == 3


async def test_one_request_as_the_seed_writes_it(served: Any, vetro: Vetro) -> None:
    """Status line, headers, empty line, body; errors are printed as well and end with 1."""
    answer = await vetro("cnapi", "/ping")
    head, _, body = answer.out.partition("\n\n")
    assert head.splitlines()[0] == "HTTP/1.1 200 OK"
    assert "server: Compute Node API" in head
    assert json.loads(body)["ready"] is True
    answer = await vetro("cnapi", f"/servers/{NODE}", "-d", '{"comments": "rack 7"}')
    assert (answer.code, answer.out.splitlines()[0]) == (0, "HTTP/1.1 204 No Content")
    assert (await served.ok("GET", f"/servers/{NODE}"))["comments"] == "rack 7"
    answer = await vetro("cnapi", f"/servers/{OTHER}", "-X", "DELETE")
    assert (answer.code, answer.out.splitlines()[0]) == (1, "HTTP/1.1 404 Not Found")
    assert json.loads(answer.out.partition("\n\n")[2])["code"] == "ResourceNotFound"


@pytest.mark.parametrize("published", [True, False])
async def test_an_image_is_made_of_a_stopped_vm(served: Any, vetro: Vetro, published: bool) -> None:
    """Named, for the VM's project, and shown when it is there; a node's refusal is told in its words."""
    vm = await served.vm(alias="golden", state="running")
    refused = await vetro("image", "create", "web", "--from-vm", "golden")
    assert refused.code == 1
    assert "The VM golden is running" in refused.err
    assert "vetro vm stop golden" in refused.err

    async def publish(call: Any) -> dict[str, Any]:
        if not published:
            raise NodeTaskError("no room for the image", {})
        manifest = call.params["manifest"]
        node = {"headers": served.key_of(NODE), "token": ""}
        await served.ok("POST", "/images", {**manifest, "type": "lxc-rootfs"}, **node)
        await served.ok("PUT", f"/images/{manifest['uuid']}/file", content=b"data", **node)
        return {}

    served.nodes.answers["machine_create_image"] = publish
    assert (await vetro("vm", "stop", "golden")).code == 0
    made = await vetro("image", "create", "web", "--from-vm", vm, "--version", "2", "--json")
    if not published:
        assert (made.code, "no room for the image" in made.err) == (1, True)
        return
    (row,) = made.json
    assert (row["name"], row["version"], row["state"]) == ("web", "2", "active")
    assert (row["owner"], row["public"]) == (PROJECT, False)
