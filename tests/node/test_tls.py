"""Mutual TLS between the service and agents: certificates of one authority on both sides."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import Authority

from vetro.compute.servers.store import Agent
from vetro.compute.work.agents import AgentClient, NodeTaskError, TaskCall
from vetro.http.client import HttpClient, TransportError
from vetro.http.tls import MutualTls, TlsError
from vetro.node import ConfigurationError, NodeAgent, NodeSection, NodeSettings


@contextlib.asynccontextmanager
async def agent_with(service: Any, directory: Path, tls: MutualTls) -> AsyncIterator[NodeAgent]:
    """A simulated node whose task API has TLS."""
    agent = NodeAgent(
        NodeSettings(
            directory / "node",
            NodeSection(compute_url=service.url, key="key", driver="simulated"),
            tls=tls,
        )
    )
    work = asyncio.create_task(agent.run())
    ready = asyncio.create_task(agent.ready.wait())
    await asyncio.wait({work, ready}, return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    try:
        yield agent
    finally:
        agent.stop()
        await work


async def test_tasks_need_a_certificate_of_the_authority(service: Any, tmp_path: Path) -> None:
    """The service with a certificate runs tasks; without one, or with another's, nobody gets in."""
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    call = TaskCall("nop", {}, "one")
    async with agent_with(service, tmp_path, ours.issue("node")) as agent:
        there = Agent(agent.server_uuid, f"http://127.0.0.1:{agent.port}", "key")
        client = AgentClient(ours.issue("service").client_context())
        try:
            assert await client.run(there, call) == {}
        finally:
            await client.close()
        stranger = AgentClient(other.issue("stranger").client_context())
        try:
            with pytest.raises(NodeTaskError):
                await stranger.run(there, call)
        finally:
            await stranger.close()
        trusting = ssl.create_default_context(cafile=str(ours.file))
        for tls, scheme in ((trusting, "https"), (None, "http")):
            async with HttpClient(tls=tls) as nobody:
                with pytest.raises(TransportError):
                    await nobody.request("GET", f"{scheme}://127.0.0.1:{agent.port}/history")


async def test_a_client_refuses_an_agent_of_another_authority(service: Any, tmp_path: Path) -> None:
    """Who answers at an agent's address without the right certificate gets no task."""
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    async with agent_with(service, tmp_path, other.issue("node")) as agent:
        client = AgentClient(ours.issue("service").client_context())
        try:
            there = Agent(agent.server_uuid, f"http://127.0.0.1:{agent.port}", "key")
            with pytest.raises(NodeTaskError):
                await client.run(there, TaskCall("nop", {}, "one"))
        finally:
            await client.close()


async def test_unusable_files_are_named(tmp_path: Path) -> None:
    """A missing file, a key of another certificate and a text that is not a certificate."""
    authority = Authority(tmp_path, "ours")
    good, second = authority.issue("one"), authority.issue("two")
    junk = tmp_path / "junk.pem"
    junk.write_text("not a certificate")
    for wrong, named in (
        (MutualTls(tmp_path / "none", good.key, good.authority), "none"),
        (MutualTls(good.certificate, second.key, good.authority), "two-key.pem"),
        (MutualTls(good.certificate, good.key, junk), "junk.pem"),
    ):
        with pytest.raises(TlsError, match=named):
            wrong.client_context()
        node = NodeSettings(
            tmp_path / "n",
            NodeSection(compute_url="http://127.0.0.1:1", driver="simulated"),
            tls=wrong,
        )
        with pytest.raises(ConfigurationError, match=named):
            await NodeAgent(node).run()
