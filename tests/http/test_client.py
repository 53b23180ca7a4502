"""The HTTP client: which servers it trusts, and when it reads whom to trust."""

import asyncio
import datetime
import ipaddress
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from vetro.http import client as module
from vetro.http.client import HttpClient, SyncClient, TransportError

DAY = datetime.timedelta(days=1)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate for 127.0.0.1 and its key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "server.pem"
    plain = serialization.NoEncryption()
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    return file


@pytest.fixture
async def url(certificate: Path) -> AsyncGenerator[str, None]:
    """An HTTPS server that answers every request."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.fixture(autouse=True)
def new_trust() -> Generator[None, None, None]:
    """The trusted authorities are read again, also by later tests."""
    module._system_trust.cache_clear()
    yield
    module._system_trust.cache_clear()


async def both(url: str) -> list[object]:
    """What the client with an event loop and the one without answer or raise."""

    def ask() -> object:
        client = SyncClient()
        try:
            return client.request("GET", url).status
        except TransportError as error:
            return str(error)
        finally:
            client.close()

    answers: list[object] = [await asyncio.to_thread(ask)]
    async with HttpClient() as client:
        try:
            answers.append((await client.request("GET", url)).status)
        except TransportError as error:
            answers.append(str(error))
    return answers


async def test_a_server_that_no_authority_signed_is_refused(url: str) -> None:
    """Without a trusted certificate both clients refuse the server and say why."""
    for answer in await both(url):
        assert "its certificate is not trusted: " in str(answer)


async def test_an_authority_of_the_environment_is_trusted(
    url: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificates in SSL_CERT_FILE are trusted by both clients."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert await both(url) == [200, 200]


def test_clients_of_plain_http_read_no_authorities() -> None:
    """Making a client and a request over plain HTTP leaves the machine's certificates unread."""
    program = (
        "import asyncio, ssl, sys\n"
        "from vetro.http.client import HttpClient, SyncClient, TransportError\n"
        "def refuse(*_): raise AssertionError('certificates were read')\n"
        "ssl.SSLContext.load_verify_locations = refuse\n"
        "ssl.SSLContext.set_default_verify_paths = refuse\n"
        "async def main():\n"
        "    async with HttpClient(base_url='http://127.0.0.1:9') as client:\n"
        "        try:\n            await client.request('GET', '/')\n"
        "        except TransportError:\n            pass\n"
        "SyncClient().close()\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
