"""What commands say when no Vetro answers: which address was tried, why there is no answer, what to do."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.certificates import Authority
from tests.ports import free_port

from vetro.cli import cli


@contextmanager
def _listener(attend: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of something that does as ``attend`` says with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    attend(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def _site(status: int, headers: dict[str, str], body: bytes) -> Iterator[int]:
    """The port of a web server that answers everything in one way."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(params=["token", "password"])
def known(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Somebody with a token, or who logs in first."""
    for name in ("VETRO_URL", "OS_AUTH_URL", "OS_TOKEN", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    if request.param == "token":
        monkeypatch.setenv("VETRO_TOKEN", "t")
    else:
        monkeypatch.setenv("OS_USERNAME", "ann")
        monkeypatch.setenv("OS_PASSWORD", "secret")


def _said(url: str, *options: str) -> tuple[str, str]:
    """The error and the hint of a command that asks at a URL."""
    done = CliRunner().invoke(cli, ["--url", url, *options, "env", "list"], prog_name="vetro")
    assert done.exit_code == 1, done.output
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 2, done.stderr
    return lines[0].removeprefix("Error: "), lines[1].removeprefix("Hint: ")


@pytest.mark.usefixtures("known")
class TestNoAnswer:
    """Nothing that a library or the machine says raw: no error numbers, no names of exceptions."""

    def test_nothing_listens(self) -> None:
        """The service is not started, or on another port."""
        url = f"http://127.0.0.1:{free_port()}"
        assert _said(url) == (
            f"No Vetro answers at {url}: nothing listens there (connection refused)",
            "Start it with 'vetro up', or name it with --url or VETRO_URL.",
        )

    def test_a_name_that_nobody_knows(self) -> None:
        """A mistyped host name; starting a service would not help."""
        error, hint = _said("http://vetro.invalid:8082")
        assert (
            error
            == "No Vetro answers at http://vetro.invalid:8082: no address is known for its name"
        )
        assert hint.startswith("Correct the name in --url or VETRO_URL")

    def test_a_service_without_tls(self) -> None:
        """https:// where http:// is meant."""
        with _site(200, {}, b"") as port:
            error, hint = _said(f"https://127.0.0.1:{port}")
        assert error == f"No Vetro answers at https://127.0.0.1:{port}: it does not speak TLS"
        assert hint == f"Name it with --url or VETRO_URL as http://127.0.0.1:{port}."

    def test_a_certificate_of_an_unknown_authority(self, tmp_path: Path) -> None:
        """The reason of the check, and the options that are for it."""
        import ssl

        issued = Authority(tmp_path, "nobody").issue("127.0.0.1")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issued.certificate, issued.key)

        def attend(connection: socket.socket) -> None:
            try:
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                return

        with _listener(attend) as port:
            error, hint = _said(f"https://127.0.0.1:{port}")
        assert error.startswith(
            f"No Vetro answers at https://127.0.0.1:{port}: its certificate is not trusted: "
        )
        assert hint.startswith("--cacert FILE (OS_CACERT)")

    def test_silence(self) -> None:
        """A service that takes the request and does not answer in the time that it is given."""
        over = threading.Event()
        with _listener(lambda _connection: void(over.wait())) as port:
            try:
                error, hint = _said(f"http://127.0.0.1:{port}", "--api-timeout", "0.01")
            finally:
                over.set()
        assert error.endswith(f":{port}: no answer came in time (timed out)")
        assert hint.startswith("--api-timeout SECONDS waits longer")

    @pytest.mark.parametrize(
        "sent", [b"", b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], ids=["nothing", "another"]
    )
    def test_something_else(self, sent: bytes) -> None:
        """What closes the connection, or speaks another protocol."""

        def attend(connection: socket.socket) -> None:
            connection.recv(65536)
            connection.sendall(sent)

        with _listener(attend) as port:
            error, _ = _said(f"http://127.0.0.1:{port}")
        wanted = "does not speak HTTP" if sent else "closed the connection"
        assert error.startswith(f"No Vetro answers at http://127.0.0.1:{port}: it {wanted}")

    @pytest.mark.parametrize("status", [200, 403, 404, 502])
    def test_a_web_page(self, status: int) -> None:
        """Of a proxy, or of another service: its title is enough of it."""
        page = b"<!DOCTYPE html><html><title>Gate\n way</title><p>Much more</p></html>"
        with _site(status, {"content-type": "text/html"}, page) as port:
            error, hint = _said(f"http://127.0.0.1:{port}")
        assert error.startswith(f"http://127.0.0.1:{port} ")
        assert f"({status}, titled 'Gate way')" in error
        assert "Much more" not in error
        assert ("'vetro up'" if status == 502 else "--url or VETRO_URL") in hint

    def test_another_place(self) -> None:
        """A proxy that leads to https:// or to a login."""
        with _site(302, {"location": "https://login.example.com/"}, b"") as port:
            error, hint = _said(f"http://127.0.0.1:{port}")
        assert "is at https://login.example.com/ (302)" in error
        assert "--url" in hint

    def test_what_is_no_json(self) -> None:
        """Where a login is answered, so that more is asked."""
        with _site(200, {"content-type": "text/plain"}, b"hello") as port:
            error, hint = _said(f"http://127.0.0.1:{port}")
        assert "hello" in error or error.startswith("The service's answer has an unexpected form")
        assert hint


def void(_value: object) -> None:
    """Nothing, of a value that is not needed."""
