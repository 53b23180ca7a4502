"""What a start refuses, and the files it keeps."""

import errno
import fcntl
import os
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from vetro.cli.client.connection import read_openrc
from vetro.server import data_directory
from vetro.server.errors import StartError
from vetro.server.installation import open_database, refuse_lost_database
from vetro.server.listeners import listen, port_of, reachable, url_at
from vetro.server.node import run_node, sweep_builds
from vetro.server.settings import load_settings
from vetro.server.starting import explained_errors, unusable
from vetro.server.up import run_up
from vetro.storage import DatabaseBusy, DatabaseFull, DatabaseReadOnly, DatabaseUnavailable


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


@pytest.mark.parametrize("address", ["192.0.2.77", "64:ff9b:1::c000:24d"])
def test_an_address_that_comes_later_can_be_listened_on(address: str) -> None:
    """The guests' sockets are bound before their network exists."""
    with listen(address, 0, before_address_exists=True) as listener:
        assert port_of(listener) > 0


@pytest.mark.parametrize("host", ["::", "0.0.0.0", "::1", "127.0.0.1", "localhost"])
def test_what_listens_is_reached_at_an_address_that_clients_can_read(host: str) -> None:
    """A client connects to the URL that this machine uses for its service, IPv6 too."""
    with listen(host, 0) as listener:
        url = url_at(reachable(host), port_of(listener))
        parts = urlsplit(url)
        assert parts.hostname is not None
        with socket.create_connection((parts.hostname, parts.port or 0)):
            pass


def test_one_process_holds_a_data_directory(tmp_path: Path) -> None:
    """A second process on the same directory gets an error that names the first."""
    data_directory.prepare(tmp_path / "d")
    with (
        data_directory.lock(tmp_path / "d"),
        pytest.raises(StartError, match="in use by process"),
    ):
        data_directory.lock(tmp_path / "d")
    with data_directory.lock(tmp_path / "d"):
        pass


def test_a_directory_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    """A file at the data directory's path is an error with a hint."""
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
    """The node fails at once instead of creating a key that no service accepts."""
    settings = load_settings(environ={"VETRO_DATA_DIR": str(tmp_path / "new")})
    with pytest.raises(StartError, match="has no key") as caught:
        run_node(settings)
    assert "VETRO_NODE_KEY" in str(caught.value.hint)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "cidr", ["172.24.4.0/33", "here", "fd00::/64", "172.24.4.1/24", "10.0.0.1/32"]
)
def test_an_external_network_that_is_none_stops_the_start(tmp_path: Path, cidr: str) -> None:
    """The error comes before anything is created or listens, and says what is expected."""
    settings = load_settings(
        environ={"VETRO_DATA_DIR": str(tmp_path), "VETRO_NETWORK_EXTERNAL_CIDR": cidr}
    )
    with pytest.raises(StartError, match="external_cidr") as caught:
        run_up(settings)
    assert "172.24.4.0/24" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sampled(only=["setting2-[tls] needs"])
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
    """The error replaces the line that Vetro listens, and has no password."""
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


@pytest.mark.thorough
@pytest.mark.root
def test_a_service_whose_node_cannot_run_ends_with_one(tmp_path: Path) -> None:
    """Who watches the service starts again what ends with 1; the reason is a line, not a traceback."""
    empty = {"PATH": str(tmp_path), "VETRO_DATA_DIR": str(tmp_path / "d"), "VETRO_SERVER_PORT": "0"}
    run = [str(Path(sys.executable).with_name("vetro")), "up", "--driver", "qemu"]
    ended = subprocess.run(run, env=empty, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Error: The service has stopped: its part node ended: Not installed: " in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.thorough
def test_metrics_have_a_port_of_their_own_when_one_is_given(install: Any) -> None:
    """That port serves the page, and none of the service's faces."""
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


def started(directory: Path) -> subprocess.CompletedProcess[str]:
    """A `vetro up` on an unusable directory, until it ends."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("vetro")), "up", "--port", "0", "--driver", "simulated"],
        env={**os.environ, "VETRO_DATA_DIR": str(directory)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.sampled(only=["64", "2048"])
@pytest.mark.root
@pytest.mark.parametrize("left", [0, 64, 512, 2048])
def test_a_start_on_a_full_disk_is_one_clear_line(tmp_path: Path, left: int) -> None:
    """With any number of KiB left, the line says what is full, where, and how much is free."""
    directory = tmp_path / "full"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", directory], check=True)
    try:
        (directory / "filler").write_bytes(bytes((4096 - left) * 1024))
        done = started(directory)
    finally:
        subprocess.run(["umount", "-l", directory], check=True)
    assert done.returncode == 1
    assert "The disk is full" in done.stderr
    assert str(directory) in done.stderr
    assert "MiB free" in done.stderr
    assert "Traceback" not in done.stderr
    assert "ExceptionGroup" not in done.stderr


@pytest.mark.root
def test_a_start_on_a_read_only_disk_says_so(tmp_path: Path) -> None:
    """The directory exists, but cannot be written to."""
    directory = tmp_path / "read-only"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,ro", "none", directory], check=True)
    try:
        done = started(directory)
    finally:
        subprocess.run(["umount", "-l", directory], check=True)
    assert done.returncode == 1
    assert "Read-only file system" in done.stderr
    assert str(directory) in done.stderr
    assert "Traceback" not in done.stderr


def test_an_installation_whose_database_is_empty_is_not_begun_anew(tmp_path: Path) -> None:
    """SQLite would take the empty file for a new database, and remove its journal."""
    (tmp_path / "admin-openrc").write_text("")
    (tmp_path / "vetro.db").write_text("")
    settings = load_settings(environ={"VETRO_DATA_DIR": str(tmp_path)})
    with pytest.raises(StartError, match="vetro.db is empty") as caught:
        refuse_lost_database(settings)
    assert "Restore it" in str(caught.value.hint)


async def test_a_database_that_takes_no_writes_is_refused_before_any_part_begins(
    tmp_path: Path,
) -> None:
    """The first part that writes would end the service otherwise."""
    data_directory.prepare(tmp_path)
    (tmp_path / "vetro.db-shm").mkdir()
    settings = load_settings(environ={"VETRO_DATA_DIR": str(tmp_path)})
    with pytest.raises(StartError, match="The database .*vetro.db"), explained_errors(settings):
        async with open_database(settings):
            pass


@pytest.mark.thorough
def test_a_part_that_fails_ends_the_service_with_one_line_and_a_code(tmp_path: Path) -> None:
    """So that its supervisor starts it again, and people see the reason."""
    data_directory.prepare(tmp_path)
    (tmp_path / "vetro-guest.pyz").mkdir()
    done = started(tmp_path)
    assert done.returncode == 1
    assert "vetro-guest.pyz" in done.stderr.splitlines()[-2]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (DatabaseReadOnly("vetro.db may not be written"), "The database takes no writes"),
        (OSError(errno.ENOSPC, "No space left on device"), "The disk is full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "The disk is full"),
        (DatabaseFull("database or disk is full"), "The disk is full"),
        (DatabaseBusy("database is locked"), "The database is locked"),
        (DatabaseUnavailable("connection refused"), "The database does not answer"),
        (PermissionError(errno.EACCES, "Permission denied", "/x/keys"), "/x/keys cannot be used"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
    ],
)
@pytest.mark.parametrize("depth", [0, 2])
def test_what_the_machine_refuses_is_explained(
    tmp_path: Path, error: Exception, said: str, depth: int
) -> None:
    """Errors are explained alone and in groups with their consequences."""
    settings = load_settings(environ={"VETRO_DATA_DIR": str(tmp_path)})
    raised = error
    for _ in range(depth):
        raised = ExceptionGroup("unhandled errors in a TaskGroup", [RuntimeError("later"), raised])
    with pytest.raises(StartError) as caught, explained_errors(settings):
        raise raised
    assert said in str(caught.value)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


async def test_a_database_server_that_is_not_there_is_explained(tmp_path: Path) -> None:
    """One line says where it was looked for, and the hint what to look at; the password is in neither."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        where = f"127.0.0.1:{free.getsockname()[1]}"
    url = f"postgresql://vetro:s3cret@{where}/x"
    settings = load_settings(
        environ={"VETRO_DATA_DIR": str(tmp_path), "VETRO_SERVER_DATABASE_URL": url}
    )
    with pytest.raises(StartError) as caught:
        async with open_database(settings):
            pass
    said = f"{caught.value} {caught.value.hint}"
    assert where in said
    assert "must be up, reachable from this machine" in said
    assert "s3cret" not in said
    assert "\n" not in said


@pytest.mark.root
def test_a_disk_that_becomes_full_while_running(tmp_path: Path, install: Any) -> None:
    """Writes are refused with the reason, reads work, readiness fails; all recovers with room."""
    directory = tmp_path / "data"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", directory], check=True)
    try:
        # Its output goes elsewhere, as to a journal.
        up = install("up", driver="simulated", VETRO_DATA_DIR=str(directory))
        token = up.run("token").strip()
        filler = directory / "filler"
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                # The last bytes of a write that does not fit are refused by the next one.
                file.write(bytes(4096))
        status, body = 200, None
        for number in range(500):
            # What the database's journal has room for is taken still.
            given = {"name": f"e{number}", "description_text": "x" * 100_000}
            status, body = up.http("POST", "/v1/environments", given, token=token)
            if status != 200:
                break
        assert (status, "disk is full" in str(body)) == (507, True)
        assert up.http("GET", "/v1/environments", token=token)[0] == 200
        # Enough people log in that what the journal has room for is used up.
        for _ in range(30):
            token = up.run("token").strip()
            if token.startswith("unstored."):
                break
        assert token.startswith("unstored.")
        assert up.http("GET", "/v1/environments", token=token)[0] == 200
        assert up.http("GET", "/compute/networks", token=token)[0] == 200
        assert up.http("POST", "/v1/environments", {"name": "late"}, token=token)[0] == 507
        status, body = up.http("GET", "/readyz", token=token)
        assert (status, str(directory) in body["waiting_on"]["disk"]) == (503, True)
        filler.unlink()
        assert up.http("GET", "/readyz", token=token)[0] == 200
        assert up.http("POST", "/v1/environments", {"name": "later"}, token=token)[0] == 200
        up.stop()
        assert "Traceback" not in up.log()
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


def test_a_full_disk_is_told_from_other_errors(tmp_path: Path) -> None:
    """A directory that has room takes files; one that does not exist is not full."""
    assert unusable(tmp_path) is None
    found = unusable(tmp_path / "nothing")
    assert found is not None
    assert not found.is_full
    assert "cannot be written: No such file" in found.text


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_directory_that_takes_no_more_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The reason names the directory and the free space, for a full disk and for a quota."""

    def refuse(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    found = unusable(tmp_path)
    assert found is not None
    assert found.is_full
    assert found.text.startswith(f"the disk is full: {tmp_path} has ")
    assert "MiB free" in found.text
    assert unusable(tmp_path, ask_for_room=False) is None


async def test_leftovers_of_image_builds_are_removed_at_the_start(tmp_path: Path) -> None:
    """Files of a killed build are removed; a running build and other files stay."""
    cache = tmp_path / "image-cache"
    for name in (".build-killed", ".build-at-work", "debian"):
        (cache / name / "root").mkdir(parents=True)
    at_work = os.open(cache / ".build-at-work", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(at_work, fcntl.LOCK_EX)
        await sweep_builds(tmp_path)
    finally:
        os.close(at_work)
    assert sorted(one.name for one in cache.iterdir()) == [".build-at-work", "debian"]
    await sweep_builds(tmp_path / "without images")
