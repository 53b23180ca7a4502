"""Whom ``vetro`` trusts over TLS, and what ``--debug`` says of its requests."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.certificates import Authority

from vetro.cli import cli


class Catalog(http.server.BaseHTTPRequestHandler):
    """Has one category, for every caller."""

    def do_GET(self) -> None:
        """Answer."""
        row = {"id": "c1", "name": "Web", "package_count": 0}
        body = json.dumps({"categories": [row]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Openstack-Request-Id", "req-1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""


class Quiet(http.server.ThreadingHTTPServer):
    """A client that does not believe the server goes away in the middle of it."""

    def handle_error(self, *_arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Who signed the service's certificate."""
    return Authority(tmp_path, "ours")


@pytest.fixture
def service(authority: Authority) -> Iterator[tuple[str, ssl.SSLContext]]:
    """The address of a service over TLS, and how it listens."""
    pair = authority.issue("service")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    context.load_cert_chain(pair.certificate, pair.key)
    server = Quiet(("127.0.0.1", 0), Catalog)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}", context
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def listed(url: str, *options: str, **variables: str) -> Result:
    """`vetro category list` with these options and variables."""
    environ = {"VETRO_URL": url, "VETRO_TOKEN": "secret-token", **variables}
    return CliRunner().invoke(
        cli, [*options, "category", "list"], env=environ, catch_exceptions=False
    )


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No account of this machine."""
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path / "none"))
    for name in ("OS_CACERT", "OS_CERT", "OS_KEY", "OS_AUTH_URL", "VETRO_DEBUG"):
        monkeypatch.delenv(name, raising=False)


def test_a_certificate_must_be_signed_by_a_trusted_authority(
    service: tuple[str, ssl.SSLContext], authority: Authority, tmp_path: Path
) -> None:
    """By the machine's, or by one that the option or the variable names; or anybody is believed."""
    url, _ = service
    refused = listed(url)
    assert refused.exit_code == 1
    assert "is not trusted" in refused.output
    assert "--cacert FILE (OS_CACERT)" in refused.output
    other = Authority(tmp_path, "other")
    assert listed(url, OS_CACERT=str(other.file)).exit_code == 1
    trusted = str(authority.file)
    for answer in (
        listed(url, OS_CACERT=trusted),
        listed(url, "--cacert", trusted),
        listed(url, "--cacert", trusted, OS_CACERT=str(other.file)),
        listed(url, "--insecure"),
    ):
        assert (answer.exit_code, "Web" in answer.output) == (0, True), answer.output


def test_a_service_may_ask_for_the_clients_certificate(
    service: tuple[str, ssl.SSLContext], authority: Authority
) -> None:
    """It is the one of ``OS_CERT`` and ``OS_KEY``."""
    url, context = service
    context.verify_mode = ssl.CERT_REQUIRED
    trusted = {"OS_CACERT": str(authority.file)}
    assert listed(url, **trusted).exit_code == 1
    own = authority.issue("ann")
    answer = listed(url, OS_CERT=str(own.certificate), OS_KEY=str(own.key), **trusted)
    assert (answer.exit_code, "Web" in answer.output) == (0, True), answer.output


@pytest.mark.parametrize(
    ("variable", "content", "says"),
    [
        ("OS_CACERT", None, "is no file with certificates of authorities: No such file"),
        ("OS_CACERT", "none", "is no file with certificates of authorities: "),
        ("OS_CERT", None, "cannot be used as this client's certificate: No such file"),
        ("OS_CERT", "none", "cannot be used as this client's certificate: "),
    ],
)
def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, variable: str, content: str | None, says: str
) -> None:
    """One line with the file and where it was given, before any request."""
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_text(content)
    answer = listed("https://127.0.0.1:1", **{variable: str(file)})
    assert answer.exit_code == 1
    assert f"{file} {says}" in answer.output
    assert variable in answer.output
    assert "Traceback" not in answer.output


def test_debugging_says_each_request_and_no_secret(
    service: tuple[str, ssl.SSLContext], authority: Authority
) -> None:
    """Method, address, status, the id that operators find in the log; never the token."""
    url, _ = service
    answer = listed(url, "--debug", "--cacert", str(authority.file))
    assert f"GET {url}/v1/catalog/categories: 200 req-1 (" in answer.stderr
    assert "secret-token" not in answer.output
    assert listed(url, "--cacert", str(authority.file)).stderr == ""


def test_the_time_of_silence_can_be_chosen() -> None:
    """A service that accepts and says nothing is given up after it."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        answer = listed(url, "--api-timeout", "0.05")
    assert answer.exit_code == 1
    assert "timed out" in answer.output
