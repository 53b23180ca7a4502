"""Mutual TLS between the service and agents: certificates of one authority on both sides."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from vetro.compute.servers.store import Agent
from vetro.compute.work.agents import AgentClient, NodeTaskError, TaskCall
from vetro.http.client import HttpClient, TransportError
from vetro.http.tls import MutualTls, TlsError
from vetro.node import ConfigurationError, NodeAgent, NodeSection, NodeSettings

DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates for 127.0.0.1 below a directory."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory / name
        self.directory.mkdir()
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(self.name, self.key.public_key())
        certificate = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        ).sign(self.key, hashes.SHA256())
        self.file = self.directory / "authority.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject: x509.Name, key: Any) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
        )

    def issue(self, name: str) -> MutualTls:
        """A certificate for ``name`` at 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = (
            self._builder(subject, key.public_key())
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        files = (self.directory / f"{name}.pem", self.directory / f"{name}-key.pem")
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return MutualTls(*files, self.file)


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
    """A missing file, a key of another certificate and a text that is no certificate."""
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
