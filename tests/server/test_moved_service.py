"""Settings of the service that machines were made with change; the machines and their agents stay."""

import contextlib
import socket
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port
from tests.server.conftest import Installation, build_image
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


def began_with(made: Installation, tmp_path: Path) -> str:
    """The uuid of a machine with an application that runs what it is told."""
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    made.run("image", "import", "empty", str(tmp_path / "empty.tar"))
    made.run("package", "import", str(ROOT / "library/HelloScript"))
    made.run("env", "create", "e")
    made.run("env", "add", "e", "HelloScript", "--name", "one", "--set", "image=empty")
    made.run("env", "deploy", "e")
    return machine(made)


def machine(made: Installation) -> str:
    """The uuid of the only machine."""
    [found] = made.json("vm", "list")
    assert found["state"] == "running"
    return str(found["uuid"])


def answers(made: Installation, word: str) -> None:
    """Its agent runs a script, which prints the word."""
    said = made.run("action", "call", "e", "run", "--arg", f"script=echo {word}")
    assert word in said


def again(made: Installation, **environ: str) -> None:
    """The service ends and starts with other settings."""
    made.stop()
    made.environ.update(environ)
    made.start()


def at_port(made: Installation, port: int) -> None:
    """The next start is on this port."""
    made.port = port
    made.url = made.url.rpartition(":")[0] + f":{port}"
    made.environ |= {"VETRO_URL": made.url, "VETRO_PORT": str(port)}


def test_a_machine_outlives_every_setting_that_is_in_its_user_data(
    install: Callable[..., Any], tmp_path: Path
) -> None:
    """Another port, twice, address and signing key, what is only read at the first start: an unchanged
    deployment keeps the machine, and its agent runs plans afterwards."""
    made: Installation = install("moved", driver="process")
    uuid = began_with(made, tmp_path)
    first, second, third = made.port, free_port(), free_port()

    def unchanged(word: str) -> None:
        assert "success" in made.run("env", "deploy", "e")
        assert machine(made) == uuid
        answers(made, word)

    unchanged("before")
    at_port(made, second)
    again(made)
    assert "former_door_open" in made.log()
    unchanged("second")
    at_port(made, third)
    again(made)
    unchanged("third")
    found = made.run("doctor", code=None)
    assert f"127.0.0.1:{third} answers: 1 machine comes there" in found
    assert f"127.0.0.1:{first}" not in found
    once = made.log().count("former_door_open")
    again(made, VETRO_MAILBOX_URL=f"http://localhost:{third}")
    assert made.log().count("former_door_open") == once  # everybody has come to the new door
    unchanged("named")
    key = tmp_path / "moved" / "engine-signing.pem"
    new = subprocess.run(
        ["openssl", "genrsa", "-traditional", "2048"], capture_output=True, check=True
    )
    key.write_bytes(new.stdout + key.read_bytes())
    again(made, VETRO_ENGINE_AGENT_SOURCE="other-agent", VETRO_ENGINE_FILE_SERVER="files.example")
    unchanged("key")
    made.run("env", "destroy", "--yes", "e")


def test_a_former_door_that_is_taken_is_named(install: Callable[..., Any], tmp_path: Path) -> None:
    """In the log and by the doctor; the service runs, and at its former port the agent is reached again."""
    made: Installation = install("taken", driver="process")
    uuid = began_with(made, tmp_path)
    former = made.port
    made.stop()
    at_port(made, free_port())
    with contextlib.closing(socket.socket()) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", former))  # and does not listen
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        made.start()
        assert "former_door_closed" in made.log()
        assert f"1 machine comes to 127.0.0.1:{former}, where nobody answers" in made.run(
            "doctor", code=None
        )
    again(made)
    made.run("env", "deploy", "e")
    answers(made, "free")
    assert machine(made) == uuid
    made.run("env", "destroy", "--yes", "e")


@pytest.mark.root
def test_a_container_outlives_a_move_of_its_service(install: Callable[..., Any]) -> None:
    """Containers come to the node's address, where the former port stays open for them; the page that was
    written before the move is there, with the address that it had."""
    made: Installation = install("containers", driver="lxc")
    build_image(made)
    made.run("package", "import", str(ROOT / "library/ApacheHttpServer"))
    made.run("env", "create", "web")
    made.run("env", "add", "web", "ApacheHttpServer", "--name", "site", "--set", "page=First")
    made.run("env", "deploy", "web")
    uuid, url = machine(made), made.json("env", "model", "web", "--path", "/services")[0]["url"]
    at_port(made, free_port())
    again(made)
    made.run("env", "deploy", "web")
    assert (machine(made), made.page("web")) == (uuid, "First\n")
    assert made.json("env", "model", "web", "--path", "/services")[0]["url"] == url
    assert "200 Apache" in made.run("action", "call", "web", "status")
    made.run("env", "edit", "web", "site", "--set", "page=Second")
    made.run("env", "deploy", "web")
    assert (machine(made), made.page("web")) == (uuid, "Second\n")
    made.run("env", "destroy", "--yes", "web")
    until(lambda: not made.leftovers(), f"everything is gone: {made.leftovers()}")
