"""Other users of the machine cannot read what an installation keeps."""

import os
import stat
from pathlib import Path

import pytest
import structlog

from vetro.blobs import DirectoryBlobs
from vetro.http.bodies import SpooledWriter
from vetro.server import data_directory
from vetro.server.file_modes import mend
from vetro.server.node import guest_archive
from vetro.storage import Database


@pytest.fixture(autouse=True)
def open_umask() -> object:
    """The usual mask: what is private must be made so."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    """Permission bits."""
    return stat.S_IMODE(path.lstat().st_mode)


def older(directory: Path) -> None:
    """A data directory as the first version left it."""
    for name in ("packages", "images", "notify", "node", "code-cache/ab", "node/tasks"):
        (directory / name).mkdir(parents=True)
    for name in ("vetro.db", "vetro.db-wal", "vetro.db-shm", "lock", "vetro-guest.pyz"):
        (directory / name).write_bytes(b"")
    for name in ("packages/a.zip", "images/b.image", "code-cache/ab/c", "node/networking.json"):
        (directory / name).write_bytes(b"")
    for name in ("mine.txt", "mine/also.txt"):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(b"")


def test_what_an_earlier_version_left_open_is_closed_and_said(tmp_path: Path) -> None:
    """The next start closes existing databases, archives and caches, and names them."""
    directory = tmp_path / "data"
    older(directory)
    with structlog.testing.capture_logs() as logs:
        data_directory.prepare(directory)
    assert [log["log_level"] for log in logs] == ["warning"]
    assert "packages" in logs[0]["files"]
    for parent, directories, files in os.walk(directory):
        for name in (*directories, *files):
            path = Path(parent, name)
            if name in ("mine.txt", "mine", "also.txt", "node"):
                assert mode(path) in (0o644, 0o755), path
            else:
                assert mode(path) & 0o077 == 0, path
    with structlog.testing.capture_logs() as logs:
        data_directory.prepare(directory)
    assert logs == []


def test_trees_of_containers_stay_reachable(tmp_path: Path) -> None:
    """The path to containers' trees stays traversable, while the records are closed."""
    data_directory.prepare(tmp_path)
    vm = tmp_path / "node/vms/4f7b"
    (vm / "upper").mkdir(parents=True)
    (vm / "upper/hello").write_bytes(b"")
    (vm / "vm.json").write_bytes(b"{}")
    (tmp_path / "node/images/1/rootfs").mkdir(parents=True)
    assert mend(tmp_path) == [vm / "vm.json"]
    assert mode(vm / "vm.json") == 0o600
    assert mode(tmp_path / "node") == 0o711
    for path in (vm, vm / "upper", tmp_path / "node/images/1/rootfs"):
        assert mode(path) == 0o755, path
    assert mode(vm / "upper/hello") == 0o644


def test_links_are_not_followed(tmp_path: Path) -> None:
    """The target of a symbolic link is not changed."""
    (tmp_path / "elsewhere").write_bytes(b"")
    data_directory.prepare(tmp_path / "data")
    (tmp_path / "data/admin-openrc").symlink_to(tmp_path / "elsewhere")
    assert mend(tmp_path / "data") == []
    assert mode(tmp_path / "elsewhere") == 0o644


async def test_a_new_database_is_private(tmp_path: Path) -> None:
    """The database, its log and its shared memory are created for this user only."""
    database = await Database.open(f"sqlite:///{tmp_path / 'new.db'}")
    async with database.transaction() as tx:
        await tx.connection.exec_driver_sql("CREATE TABLE t (a)")
    modes = {path.name: mode(path) for path in tmp_path.glob("new.db*")}
    await database.close()
    assert modes == {"new.db": 0o600, "new.db-wal": 0o600, "new.db-shm": 0o600}


async def test_a_database_of_before_is_closed_to_others(tmp_path: Path) -> None:
    """A database at another place is closed when it is opened, with the files beside it."""
    file = tmp_path / "old.db"
    file.write_bytes(b"")
    assert mode(file) == 0o644
    with structlog.testing.capture_logs() as logs:
        await (await Database.open(f"sqlite:///{file}")).close()
    assert mode(file) == 0o600
    assert [log["file"] for log in logs] == [str(file)]


async def test_uploads_and_archives_are_private(tmp_path: Path) -> None:
    """Uploaded and built files can be read by this user only."""
    blobs = DirectoryBlobs(tmp_path / "packages")
    writer = SpooledWriter(tmp_path / "packages", 100)
    await writer.write(b"abc")
    upload = await writer.close(to_file=True)
    assert isinstance(upload, Path)
    await blobs.adopt(upload, "d")
    await blobs.add(b"small", "e", sha256="e")
    assert mode(tmp_path / "packages") == 0o700
    assert {mode(blobs.path(name)) for name in ("d", "e")} == {0o600}
    assert mode(guest_archive(tmp_path)) == 0o600


def test_the_lock_is_private(tmp_path: Path) -> None:
    """The lock file is created for this user only."""
    data_directory.prepare(tmp_path)
    with data_directory.lock(tmp_path):
        assert mode(tmp_path / "lock") == 0o600
