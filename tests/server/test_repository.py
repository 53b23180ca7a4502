"""The metadata repository as an operator has it: the command, and a process of its own."""

import socket
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from tests.ports import free_port

from .conftest import VETRO, Installation

pytestmark = [pytest.mark.thorough, pytest.mark.e2e]
MANIFEST = "full_service_name: my.app\nservice_display_name: Mine\nworkflows: [a/Mine.xml]\n"


def test_definitions_are_brought_edited_and_taken_away(
    project: Installation, tmp_path: Path
) -> None:
    """A directory of definitions is imported, looked at, changed, switched off, exported, deleted."""
    tree = tmp_path / "tree"
    (tree / "workflows/a").mkdir(parents=True)
    (tree / "my.app-manifest.yaml").write_text(MANIFEST)
    (tree / "workflows/a/Mine.xml").write_text("<workflow/>")
    project.run("repository", "import", str(tree))
    assert "my.app" in project.run("repository", "service", "list")
    assert project.run("repository", "list", "workflows/a") == "Mine.xml\n"
    assert project.run("repository", "show", "workflows/a/Mine.xml") == "<workflow/>"
    broken = tmp_path / "Mine.xml"
    broken.write_text("<workflow>\n<rule>\n</workflow>")
    upload = ("repository", "upload", "workflows/a", str(broken), "--overwrite")
    assert "Mine.xml:3" in project.run(*upload, "--strict", code=1)
    assert "Warning: workflows/a/Mine.xml:3" in project.run(*upload)
    assert "Mine.xml:3" in project.run("repository", "service", "show", "my.app")
    for switch, enabled in (("disable", False), ("disable", False), ("enable", True)):
        project.run("repository", "service", switch, "my.app")
        assert project.json("repository", "service", "show", "my.app")["enabled"] is enabled

    before = project.run("repository", "show", "workflows/a/Mine.xml")
    for framing in ("Content-Length: 5000", "Transfer-Encoding: chunked"):
        cut_off(
            project, "/repository/v1/admin/workflows/a?filename=Mine.xml&overwrite=true", framing
        )
    cut_off(project, "/repository/v1/admin/services", "Content-Length: 5000")
    assert project.run("repository", "show", "workflows/a/Mine.xml") == before

    target = tmp_path / "out"
    project.run("repository", "export", str(target))
    assert (target / "workflows/a/Mine.xml").read_text() == broken.read_text()
    archive = tmp_path / "my.tar.gz"
    project.run("repository", "service", "download", "my.app", "-o", str(archive))
    project.run("repository", "service", "delete", "my.app", code=2)  # nobody can answer
    project.run("repository", "service", "delete", "my.app", "--yes")
    assert "no service my.app" in project.run("repository", "service", "show", "my.app", code=1)
    project.run("repository", "service", "upload", str(archive))
    assert project.json("repository", "service", "show", "my.app")["valid"] is True

    # A process of its own: the same database, at /v1.
    port = free_port()
    command = [VETRO, "repository", "serve", "--port", str(port)]
    with subprocess.Popen(command, env=project.environ, stdout=subprocess.PIPE, text=True) as alone:
        assert alone.stdout is not None
        assert f":{port}/v1" in alone.stdout.readline()
        archives = [
            fetched(f"http://127.0.0.1:{port}/v1/client/conductor", project),
            fetched(f"{project.url}/repository/v1/client/conductor", project),
        ]
        assert archives[0] == archives[1]
        assert len(archives[0]) > 0
        alone.terminate()
        assert alone.wait(60) == 0


def cut_off(vetro: Installation, path: str, framing: str) -> None:
    """An upload whose connection ends before its body does; nothing of it may be stored."""
    place = urllib.parse.urlsplit(vetro.url)
    head = f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/octet-stream\r\n"
    head += f"X-Auth-Token: {vetro.run('token').strip()}\r\n{framing}\r\n\r\n"
    with socket.create_connection((place.hostname, place.port), 60) as connection:
        connection.sendall(head.encode() + b"b\r\n<workflow/>\r\n")
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read()  # until the service has given it up
    assert not answer or 400 <= int(answer.split(b" ")[1]) < 500, answer


def fetched(url: str, vetro: Installation) -> bytes:
    """What is at an address."""
    request = urllib.request.Request(url, headers={"X-Auth-Token": vetro.run("token").strip()})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())
