"""A bucket that has no room for a while."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Callable, Iterator
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Installation

pytestmark = [pytest.mark.thorough, pytest.mark.e2e]
MANIFEST = """
Format: '1.4'
Type: Library
FullName: test.Kept
Name: Kept
Description: of tests
Author: nobody
"""


class Bucket(ThreadingHTTPServer):
    """Objects by their address, as a store of S3's interface keeps them; none more while it is ``full``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.full = False
        self.objects: dict[str, bytes] = {}


class Handler(BaseHTTPRequestHandler):
    """A request for one object."""

    server: Bucket  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        """Keep it."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.full:
            self.answer(507, b"<Error><Code>XMinioStorageFull</Code></Error>")
            return
        self.server.objects[self.path] = content
        self.answer(200, etag=md5(content).hexdigest())

    def do_GET(self) -> None:
        """Give it."""
        found = self.server.objects.get(self.path)
        if found is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self.answer(200, found, etag=md5(found).hexdigest())

    do_HEAD = do_GET

    def answer(self, status: int, content: bytes = b"", *, etag: str = "") -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        if etag:
            self.send_header("ETag", f'"{etag}"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_POST(self) -> None:
        """Refuse it: what else such a store can do does not work either while it is full."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer(403, b"<Error><Code>QuotaExceeded</Code></Error>")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Nobody reads it."""


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    """A running store."""
    with Bucket() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_full_bucket_refuses_an_upload_and_keeps_the_rest(
    install: Callable[..., Installation], bucket: Bucket, tmp_path: Path
) -> None:
    """The answer says so and the log where, no row of the package stays; with room it is taken."""
    endpoint = f"http://127.0.0.1:{bucket.server_port}"
    vetro = install(
        "bucket",
        driver="simulated",
        VETRO_BLOBS_STORE="s3",
        VETRO_BLOBS_BUCKET="vetro",
        VETRO_BLOBS_ENDPOINT=endpoint,
        VETRO_BLOBS_ACCESS_KEY="key",
        VETRO_BLOBS_SECRET_KEY="secret",
    )
    package = tmp_path / "kept.zip"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("manifest.yaml", MANIFEST)
    bucket.full = True
    said = vetro.run("package", "import", str(package), code=1)
    assert "disk is full, or its store of files; nothing of this request was stored" in said
    assert f"the bucket vetro at {endpoint} has no room for packages/" in vetro.log()
    assert vetro.json("package", "list") == []
    assert [path for path in (vetro.directory / "packages").rglob("*") if path.is_file()] == []
    bucket.full = False
    vetro.run("package", "import", str(package))
    (row,) = vetro.json("package", "list")
    vetro.run("package", "download", row["id"], str(tmp_path / "again.zip"))
    assert (tmp_path / "again.zip").read_bytes() == package.read_bytes()
