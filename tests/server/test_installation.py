"""One installation from outside: what it keeps secret, where it says it is, a second service beside it."""

import json
import re
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Installation

from vetro.blobs import DirectoryBlobs
from vetro.catalog import Catalog
from vetro.server import data_directory
from vetro.server.errors import StartError
from vetro.server.installation import copy, migration_sets, open_database, refuse_missing, rotate
from vetro.server.settings import load_settings
from vetro.storage import Database, migrate

ROOT = Path(__file__).resolve().parents[2]
SECRET = "hunter2-in-a-model"
pytestmark = [pytest.mark.e2e]


def in_database(vetro: Installation, text: str) -> bool:
    """Whether the files of the database hold a text in clear."""
    files = list(vetro.directory.glob("vetro.db*"))
    assert files
    return any(text.encode() in file.read_bytes() for file in files)


def deploy(vetro: Installation, empty: Path, name: str) -> None:
    """Deploy an application whose model has a secret, in a process of this machine."""
    if not empty.exists():
        with tarfile.open(empty, "w"):
            pass
        vetro.run("image", "import", "empty", str(empty))
        vetro.run("package", "import", "--public", str(ROOT / "library/HelloScript"))
    vetro.run("env", "create", name)
    script = f"#!/bin/sh\necho '{SECRET}' | wc -c\n"
    arguments = ("--name", "s", "--set", "image=empty", "--set", f"script={script}")
    vetro.run("env", "add", name, "HelloScript", *arguments)
    vetro.run("env", "deploy", name)


@pytest.mark.thorough
def test_secrets_of_models_are_sealed_and_keys_rotate_under_a_running_service(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """A deployed secret is in no file of the database, before, during and after a rotation."""
    vetro = install("sealed", driver="process")
    deploy(vetro, tmp_path / "empty.tar", "first")
    assert SECRET in vetro.run("env", "model", "first")
    assert not in_database(vetro, SECRET)
    keys = vetro.directory / "keys"
    before = keys.read_text()
    assert json.loads(vetro.run("--json", "key", "rotate", "--yes"))["rows"] > 5
    after = keys.read_text()
    assert len(after.splitlines()) == 2
    assert before.splitlines()[1] not in after
    # The running service seals with the new key, and reads what was sealed with it meanwhile.
    assert SECRET in vetro.run("env", "model", "first")
    vetro.run("env", "create", "second")
    arguments = ("--name", "s", "--set", "image=empty", "--set", f"script=#!/bin/sh # {SECRET}")
    vetro.run("env", "add", "second", "HelloScript", *arguments)
    assert SECRET in vetro.run("env", "show", "second", "--json")
    assert not in_database(vetro, SECRET)


@pytest.mark.thorough
def test_the_login_file_has_the_password_and_follows_the_service(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """The journal has no password; after a change of port, commands use the file's address."""
    vetro = install("moved", driver="simulated")
    file = vetro.directory / "admin-openrc"
    password = re.search(r"OS_PASSWORD=(\S+)", file.read_text())
    assert password is not None
    assert password[1] not in vetro.log()
    assert f"password  in {file}" in vetro.log()
    file.write_text(file.read_text() + "export OS_REGION_NAME=RegionOne\n")
    vetro.stop()
    before = vetro.port
    moved = type(vetro)(vetro.directory, driver="simulated")
    assert moved.port != before
    moved.start()
    try:
        del moved.environ["VETRO_URL"]
        assert moved.json("env", "list") == []
        assert f"127.0.0.1:{before}" not in file.read_text()
        assert "OS_REGION_NAME=RegionOne" in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
        # What somebody sourced before still names the address of before.
        moved.environ["OS_AUTH_URL"] = f"http://127.0.0.1:{before}/identity/v3"
        text = moved.run("env", "list", code=1)
        assert f"No Vetro answers at http://127.0.0.1:{before}/identity/v3" in text
        assert f"the service's own is {moved.url}" in text
    finally:
        moved.end()


@pytest.mark.thorough
@pytest.mark.postgres
def test_two_services_on_one_database_are_one_installation(
    postgres_database: str, install: Callable[..., Installation], tmp_path: Path
) -> None:
    """Both share packages, images, nodes, logins and secrets."""
    common = {
        "VETRO_DATABASE_URL": postgres_database,
        "VETRO_SHARED_DIR": str(tmp_path / "shared"),
    }
    first = install("one", driver="process", VETRO_NODE_SERVER_UUID=uuid(1), **common)
    second = install("two", driver="process", VETRO_NODE_SERVER_UUID=uuid(2), **common)
    assert "admin-openrc" in second.log()
    assert (second.directory / "admin-openrc").exists()
    for vetro in (first, second):
        del vetro.environ["VETRO_URL"]
        assert {row["uuid"] for row in vetro.json("server", "list")} == {uuid(1), uuid(2)}
        assert {row["status"] for row in vetro.json("server", "list")} == {"running"}
    deploy(first, tmp_path / "empty.tar", "made-by-one")
    second.run("env", "deploy", "made-by-one")
    for vetro in (first, second):
        assert {row["status"] for row in vetro.json("env", "list")} == {"ready"}
        vetro.run("package", "download", "HelloScript", str(vetro.directory / "p.zip"))
        assert SECRET in vetro.run("env", "model", "made-by-one")
    assert json.loads(second.run("--json", "key", "rotate", "--yes"))["rows"] > 5
    for vetro in (first, second):
        assert SECRET in vetro.run("env", "model", "made-by-one")
    second.run("env", "destroy", "--yes", "made-by-one")


def uuid(number: int) -> str:
    """A node's uuid: two nodes are on this one machine."""
    return f"00000000-0000-4000-8000-{number:012d}"


async def test_a_second_service_without_the_shared_directory_is_refused(
    database_url: str, tmp_path: Path
) -> None:
    """It does not start with its own keys or packages, which would damage the installation."""
    first, second = (
        load_settings(
            {"server.data_dir": str(tmp_path / name), "server.database_url": database_url},
            environ={},
        )
        for name in ("one", "two")
    )
    for settings in (first, second):
        data_directory.prepare(settings.data_dir, settings.shared_dir)
    async with open_database(first):
        pass
    with pytest.raises(StartError, match="is sealed, and") as caught:
        async with open_database(second):
            pass
    assert "server.shared_dir" in str(caught.value.hint)
    # The keys alone are not enough: the packages are elsewhere.
    (tmp_path / "two/keys").write_bytes((tmp_path / "one/keys").read_bytes())
    async with open_database(second) as database:
        archives = Catalog(database, first.shared_dir / "packages")
        assert await archives.archives() == []
        theirs = DirectoryBlobs(second.shared_dir / "packages")
        await refuse_missing("packages", await archives.archives(), theirs)
    missing = ["a.zip", "b.zip"]
    with pytest.raises(StartError, match="their files are not in .*two/packages") as caught:
        await refuse_missing("packages", missing, theirs)
    assert "server.shared_dir" in str(caught.value.hint)
    theirs.path("b.zip").write_bytes(b"")
    await refuse_missing("packages", missing, theirs)


@pytest.mark.postgres
async def test_a_service_with_a_copy_of_the_keys_keeps_them_from_being_rotated(
    postgres_database: str, tmp_path: Path
) -> None:
    """The command says what to do and changes nothing: that service would seal with the old key."""
    one, two = (
        load_settings(
            {"server.data_dir": str(tmp_path / name), "server.database_url": postgres_database},
            environ={},
        )
        for name in ("one", "two")
    )
    for settings in (one, two):
        data_directory.prepare(settings.data_dir)
    async with open_database(one):
        keys = (tmp_path / "one/keys").read_bytes()
        (tmp_path / "two/keys").write_bytes(keys)
        async with open_database(two):
            with pytest.raises(StartError, match=r"key files of their own \(127\.0\.0\.1"):
                await rotate(one, lambda _table, _rows: None)
        assert (tmp_path / "one/keys").read_bytes() == keys
        await rotate(one, lambda _table, _rows: None)
        assert (tmp_path / "one/keys").read_bytes() != keys


def contents(file: Path) -> dict[str, list[Any]]:
    """All rows of all tables of a SQLite file, in the order of their values."""
    with closing(sqlite3.connect(file)) as connection:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            # Raised by triggers at every change, also of a copy; and the parts of the index of words.
            " AND name NOT IN ('compute_placement_changes', 'environments_model_writes')"
            " AND name NOT LIKE 'catalog_index_text_%'"
        ).fetchall()
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
            for (name,) in names
        }


@pytest.mark.thorough
@pytest.mark.postgres
def test_a_service_goes_on_with_a_copy_of_its_database(
    postgres_database: str, install: Callable[..., Installation], tmp_path: Path
) -> None:
    """On PostgreSQL everything is there and works; a copy back has the rows of the first, value by value."""
    vetro = install("moved", driver="process")
    deploy(vetro, tmp_path / "empty.tar", "web")
    said = vetro.run("database", "copy", "--to", postgres_database, code=1)
    assert "is in use by process" in said
    vetro.stop()
    before = contents(vetro.directory / "vetro.db")
    assert len([rows for rows in before.values() if rows]) > 20
    said = vetro.run("database", "copy", "--to", postgres_database)
    assert "every table completely" in said
    vetro.environ["VETRO_DATABASE_URL"] = postgres_database
    vetro.run("database", "copy", "--to", f"sqlite:///{tmp_path}/again.db")
    after = contents(tmp_path / "again.db")
    assert before.keys() == after.keys()
    assert {name: rows for name, rows in after.items() if rows != before[name]} == {}

    vetro.start()
    assert vetro.status("web") == "ready"
    assert SECRET in vetro.run("env", "model", "web")
    assert [row["name"] for row in vetro.json("package", "list", "--search", "elloscrip")]
    deploy(vetro, tmp_path / "empty.tar", "later")
    vetro.run("env", "destroy", "--yes", "web")
    vetro.run("env", "destroy", "--yes", "later")
    vetro.stop()
    said = vetro.run("database", "copy", "--to", postgres_database, code=1)
    assert "would be copied to itself" in said
    del vetro.environ["VETRO_DATABASE_URL"]
    said = vetro.run("database", "copy", "--to", postgres_database, code=1)
    assert "is not empty: there are rows in" in said


@pytest.mark.parametrize("sets", [0, 3])
async def test_a_database_of_another_version_is_not_copied(
    sets: int, database_url: str, tmp_path: Path
) -> None:
    """A source that misses migrations, or has none, is refused; a later attempt finds the target empty."""
    file = tmp_path / "vetro.db"
    settings = load_settings({"server.data_dir": str(tmp_path)}, environ={})
    old = await Database.open(f"sqlite:///{file}")
    if sets:
        await migrate(old, migration_sets()[:sets])
    with pytest.raises(StartError, match="not of this version of Vetro"):
        await copy(settings, database_url, lambda _table, _rows: None)
    await migrate(old, migration_sets())
    await old.close()
    assert await copy(settings, database_url, lambda _table, _rows: None) > 0
