"""What a start refuses, and the files it keeps."""

import stat
from pathlib import Path

import pytest

from vetro.cli.connection import read_openrc
from vetro.server import data_directory
from vetro.server.errors import StartError
from vetro.server.listeners import listen, port_of


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
