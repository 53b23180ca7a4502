"""What a start refuses, and the files it keeps."""

import os
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from vetro.cli.connection import read_openrc
from vetro.server import data_directory
from vetro.server.errors import StartError
from vetro.server.listeners import listen, port_of
from vetro.server.node import run_node
from vetro.server.settings import load_settings
from vetro.server.up import run_up


def test_a_port_in_use_is_named_with_a_hint() -> None:
    """Listening on a taken port fails at once and says what to do."""
    with listen("127.0.0.1", 0) as first, pytest.raises(StartError, match="is in use") as caught:
        listen("127.0.0.1", port_of(first))
    assert caught.value.hint is not None
    assert "--port" in caught.value.hint


def test_a_foreign_address_is_named() -> None:
    """An address that this machine does not have is refused with a hint."""
    with pytest.raises(StartError, match="not an address of this machine"):
        listen("192.0.2.77", 0)


def test_an_address_that_comes_later_can_be_listened_on() -> None:
    """The guests' door is bound before its network exists."""
    with listen("192.0.2.77", 0, before_address_exists=True) as listener:
        assert port_of(listener) > 0


def test_one_process_holds_a_data_directory(tmp_path: Path) -> None:
    """A second process on the same directory is told who holds it."""
    data_directory.prepare(tmp_path / "d")
    with (
        data_directory.lock(tmp_path / "d"),
        pytest.raises(StartError, match="in use by process"),
    ):
        data_directory.lock(tmp_path / "d")
    with data_directory.lock(tmp_path / "d"):
        pass


def test_a_directory_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    """A file in the way of the data directory is an error with a hint."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="cannot be used"):
        data_directory.prepare(tmp_path / "file")


def test_the_login_file_is_private_and_can_be_sourced(tmp_path: Path) -> None:
    """``admin-openrc`` is readable by its owner only and survives odd characters."""
    path = tmp_path / "admin-openrc"
    data_directory.write_openrc(
        path, url="http://h:1", user="admin", password="a'b $c", project="admin"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_openrc(path)["OS_PASSWORD"] == "a'b $c"
    assert read_openrc(path)["OS_AUTH_URL"] == "http://h:1/identity/v3"


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    """The same secret is read back on the next start."""
    first = data_directory.secret(tmp_path / "key")
    assert len(first) >= 40
    assert data_directory.secret(tmp_path / "key") == first


def test_a_node_without_a_key_says_what_to_do(tmp_path: Path) -> None:
    """It does not make up a key that no service takes, and waits for nobody."""
    settings = load_settings(environ={"VETRO_DATA_DIR": str(tmp_path / "new")})
    with pytest.raises(StartError, match="has no key") as caught:
        run_node(settings)
    assert "VETRO_NODE_KEY" in str(caught.value.hint)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "cidr", ["172.24.4.0/33", "here", "fd00::/64", "172.24.4.1/24", "10.0.0.1/32"]
)
def test_an_external_network_that_is_none_stops_the_start(tmp_path: Path, cidr: str) -> None:
    """Before anything is made or listens, with what is expected."""
    settings = load_settings(
        environ={"VETRO_DATA_DIR": str(tmp_path), "VETRO_NETWORK_EXTERNAL_CIDR": cidr}
    )
    with pytest.raises(StartError, match="external_cidr") as caught:
        run_up(settings)
    assert "172.24.4.0/24" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            {"VETRO_DAPI_CHANGE_DEFAULTS": '{"filter_capness": 5}'},
            "[dapi]: Defaults filter_capness",
        ),
        ({"VETRO_DAPI_ALLOCATION_DESCRIPTION": '["pipe", "guess"]'}, "[dapi]: Unrecognized"),
        ({"VETRO_TLS_CERTIFICATE": "/none.pem"}, "[tls] needs"),
    ],
)
def test_a_wrong_setting_is_said_before_that_vetro_listens(
    tmp_path: Path, setting: dict[str, str], said: str
) -> None:
    """Who reads that it listens may rely on it: the reason comes instead, and no password is shown."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("vetro")), "up", "--port", "0", "--driver", "simulated"],
        env={**os.environ, "VETRO_DATA_DIR": str(tmp_path), **setting},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert said in done.stderr
    assert "listens" not in done.stdout + done.stderr
    assert "password" not in done.stdout
    assert not (tmp_path / "admin-openrc").exists()


def test_metrics_have_a_port_of_their_own_when_one_is_given(install: Any) -> None:
    """The page is there as well; nothing of the service's faces is."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    vetro = install("metrics", driver="simulated", VETRO_SERVER_METRICS_PORT=str(port))

    def get(path: str, at: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(at + path, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""

    own = f"http://127.0.0.1:{port}"
    for at in (own, vetro.url):
        status, text = get("/metrics", at)
        assert status == 200
        assert "heartbeating_servers_count" in text
    assert get("/compute/ping", vetro.url)[0] == 200
    assert get("/compute/ping", own)[0] == 404
    assert get("/identity/v3", own)[0] == 404
