"""Programs, mailboxes and the real guest agent together: plans that nobody waits for any more."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from vetro.engine.signing import PlanSigner
from vetro.guest.build import build_archive
from vetro.http import assemble, serve
from vetro.messaging import MIGRATIONS, Mailboxes
from vetro.storage import Database, migrate

QUEUE = "eenv-hvm"


@pytest.fixture
async def mailboxes(database_url: str) -> AsyncIterator[Mailboxes]:
    """Mailboxes in a database."""
    database = await Database.open(database_url)
    await migrate(database, [MIGRATIONS])
    yield Mailboxes(database)
    await database.close()


@asynccontextmanager
async def agent(mailboxes: Mailboxes, folder: Path, key: str) -> AsyncGenerator[None]:
    """The guest `vm`, polling its mailbox."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        serve(assemble([mailboxes.face()]), [listener], stop, drain_seconds=5, on_ready=ready.set)
    )
    await ready.wait()
    config = folder / "agent.conf"
    config.write_text(
        f"[DEFAULT]\nstorage = {folder}/storage\nengine_key = {key}\n[mailbox]\n"
        f"url = http://127.0.0.1:{listener.getsockname()[1]}\n"
        f"token = {await mailboxes.issue_credential(QUEUE)}\ninput_queue = {QUEUE}\n"
    )
    archive = build_archive(folder / "vetro-guest.pyz")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(archive), "--config-file", str(config)
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()
        stop.set()
        await serving
        listener.close()


PLAN = (
    "{{FormatVersion => '2.0.0', Name => '{0}', Body => 'return {0}().exitCode',"
    " Scripts => {{{0} => {{Type => Application, EntryPoint => '{0}.sh'}}}}}}"
)
PROGRAM = """
- $agent: $.vm.agent
- $resources: new(sys:Resources)
"""


async def test_what_timed_out_neither_goes_on_nor_runs_later(
    lab: Any, mailboxes: Mailboxes, tmp_path: Path
) -> None:
    """The call behind a plan that hangs times out and never runs; the one that hangs is ended.

    The reports say which plan was in the way, and the guest serves the next call at once.
    """
    signer = lab.cloud.signer = PlanSigner.load_or_create(tmp_path / "k.pem")
    lab.cloud.transport = mailboxes
    never, trace = tmp_path / "never", tmp_path / "trace"
    os.mkfifo(never)
    lab.resources = {
        "scripts/hang.sh": f"#!/bin/sh\ncat {never}\n",
        "scripts/note.sh": f"#!/bin/sh\ntouch {trace}\n",
    }
    vm = lab.instance(
        networks={"useEnvironmentNetwork": False, "useFlatNetwork": False, "customNetworks": []}
    )
    key = signer.public_key("\t").strip()
    hang, note = PLAN.format("hang"), PLAN.format("note")
    async with agent(mailboxes, tmp_path, key):
        behind = f"- $agent.send({hang}, $resources)\n- $agent.call({note}, $resources, 1)"
        message = await lab.probe(PROGRAM + behind, vm=vm, fails=True)
        assert message == "The murano-agent did not respond within 1 seconds"
        (report,) = lab.texts("warning")
        assert "It waits behind hang (sent " in report
        await asyncio.to_thread(never.write_text, "go\n")
        await lab.probe(PROGRAM + "- $agent.waitReady(120)", vm=...)
        assert not trace.exists()
        itself = f"- $agent.call({hang}, $resources, 1)"
        await lab.probe(PROGRAM + itself, vm=..., fails=True)
        assert "behind" not in lab.texts("warning")[1]
        await lab.probe(PROGRAM + f"- $agent.call({note}, $resources, 120)", vm=...)
        assert trace.exists()
