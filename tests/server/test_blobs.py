"""The files of an installation: copied to another store, swept, and examined."""

import asyncio
import io
import json
import os
import time
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.server.buckets import bucket

from vetro.catalog import Catalog, PackageUser, StoredPackage, UploadMetadata
from vetro.cli import cli
from vetro.http import Principal
from vetro.server import data_directory
from vetro.server.blobs import copy_files, open_stores, sweep
from vetro.server.doctor import examine_installation
from vetro.server.errors import StartError
from vetro.server.installation import open_database, refuse_missing
from vetro.server.packages import catalog_of
from vetro.server.settings import Settings, SettingsError, load_settings
from vetro.storage import Transaction

STORES = ["database", pytest.param("s3", marks=pytest.mark.s3)]
ANN = Principal("ann", "ann", "p", roles=frozenset({"member"}))


def settings_of(directory: Path, **given: str) -> Settings:
    """The settings of an installation in a directory."""
    return load_settings({"server.data_dir": str(directory), **given}, environ={})


def archive(directory: Path, name: str) -> Path:
    """A package to upload."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as opened:
        manifest = (
            f"Format: '1.4'\nType: Library\nFullName: test.{name}\nName: {name}\nClasses: {{}}\n"
        )
        opened.writestr("manifest.yaml", manifest)
    file = directory / f"{name}.upload"
    file.write_bytes(content.getvalue())
    return file


async def upload(settings: Settings, catalog: Catalog, name: str) -> str:
    """Add a package; its id."""
    file = archive(settings.blob_directory("packages"), name)
    return str((await catalog.upload(ANN, file, UploadMetadata()))["id"])


@pytest.mark.parametrize("store", STORES)
async def test_packages_are_kept_in_the_store(
    store: str, tmp_path: Path, database_url: str
) -> None:
    """An archive is downloaded through another service's data directory, and removed with its package."""
    given = {**bucket(store, tmp_path), "server.database_url": database_url}
    one, two = settings_of(tmp_path / "one", **given), settings_of(tmp_path / "two", **given)
    data_directory.prepare(tmp_path / "one")
    (tmp_path / "two").mkdir()
    (tmp_path / "two/keys").symlink_to(tmp_path / "one/keys")
    async with open_database(one) as database:
        here, there = catalog_of(one, database), catalog_of(two, database)
        id_ = await upload(one, here, "Kept")
        await refuse_missing("packages", await there.archives(), there.blobs)
        _, digest, path = await there.archive_for(ANN, id_)
        assert zipfile.is_zipfile(path)
        assert (await there.open_for(ANN, id_)).full_name == "test.Kept"
        assert [one.name for one in await there.blobs.listing()] == [f"{digest}.zip"]
        await there.delete(ANN, id_, NoUses())
        assert await here.blobs.listing() == []
        assert list((tmp_path / "one/packages").iterdir()) == []


class NoUses:
    """No environment uses a package."""

    @property
    def answers_soon(self) -> bool:
        """Always."""
        return True

    async def of(
        self, packages: Sequence[StoredPackage], tx: Transaction | None = None
    ) -> dict[str, list[PackageUser]]:
        """Nobody."""
        return {}


@pytest.mark.parametrize("store", STORES)
async def test_files_move_to_another_store_and_back(store: str, tmp_path: Path) -> None:
    """``vetro blobs copy`` copies what the database refers to, once, and removes nothing."""
    old = settings_of(tmp_path / "here")
    data_directory.prepare(tmp_path / "here")
    async with open_database(old) as database:
        await upload(old, catalog_of(old, database), "One")
        await upload(old, catalog_of(old, database), "Two")
    (tmp_path / "here/packages/unknown.zip").write_bytes(b"?")
    new = settings_of(tmp_path / "here", **bucket(store, tmp_path))
    seen: list[str] = []
    assert await copy_files(new, "directory", lambda what, _name: seen.append(what)) == 2
    assert seen == ["packages", "packages"]
    assert await copy_files(new, "directory") == 0
    async with open_stores(new) as stores:
        kept = {one.name: one.bytes for one in await stores["packages"].listing()}
    packages = tmp_path / "here/packages"
    assert kept == {
        path.name: path.stat().st_size for path in packages.iterdir() if path.stem != "unknown"
    }
    for path in packages.iterdir():
        path.unlink()
    back = replace(new, blobs=replace(new.blobs, store="directory"))
    assert await copy_files(back, store) == 2
    assert {path.name: path.stat().st_size for path in packages.iterdir()} == kept
    with pytest.raises(StartError, match="would be copied to themselves"):
        await copy_files(back, "directory")


async def test_a_copy_of_files_that_fails_says_how_to_go_on(tmp_path: Path) -> None:
    """A file that the old store lacks is named; nothing is lost."""
    old = settings_of(tmp_path / "here")
    data_directory.prepare(tmp_path / "here")
    async with open_database(old) as database:
        await upload(old, catalog_of(old, database), "One")
    [path] = (tmp_path / "here/packages").iterdir()
    path.unlink()
    with pytest.raises(
        StartError, match=f"0 files were copied, .* has no file {path.name}"
    ) as caught:
        await copy_files(settings_of(tmp_path / "here", **{"blobs.store": "database"}), "directory")
    assert "Run the command again" in str(caught.value.hint)


async def test_unused_files_are_found_and_removed(tmp_path: Path) -> None:
    """Files that nothing refers to are listed when they are a day old, and removed when asked."""
    settings = settings_of(tmp_path / "here")
    data_directory.prepare(tmp_path / "here")
    async with open_database(settings) as database:
        await upload(settings, catalog_of(settings, database), "One")
    unused = [tmp_path / "here" / name for name in ("packages/a.zip", "images/b.image")]
    for path in [*unused, tmp_path / "here/packages/new.zip"]:
        path.write_bytes(b"1234")
    old = time.time() - 90_000
    for path in [*unused, *(tmp_path / "here/packages").glob("*.zip")]:
        if path.name != "new.zip":
            os.utime(path, (old, old))
    found = await sweep(settings, remove=False)
    assert [(what, one.name, one.bytes) for what, one in found] == [
        ("packages", "a.zip", 4),
        ("images", "b.image", 4),
    ]
    assert all(path.exists() for path in unused)
    where = ["--data-dir", str(tmp_path / "here")]
    said = await asyncio.to_thread(
        CliRunner().invoke, cli, ["--json", "blobs", "sweep", "--remove", *where]
    )
    assert json.loads(said.stdout) == [
        {"file": "packages/a.zip", "bytes": 4},
        {"file": "images/b.image", "bytes": 4},
    ]
    assert not any(path.exists() for path in unused)
    assert len(list((tmp_path / "here/packages").iterdir())) == 2
    assert await sweep(settings, remove=False) == []
    said = await asyncio.to_thread(CliRunner().invoke, cli, ["blobs", "sweep", *where])
    assert said.stdout == "0 unused files found; --remove removes them.\n"


@pytest.mark.parametrize("store", STORES)
async def test_the_doctor_tries_the_store(store: str, tmp_path: Path) -> None:
    """A store that takes and gives files is well; nothing is left in it."""
    settings = settings_of(tmp_path / "here", **bucket(store, tmp_path))
    data_directory.prepare(tmp_path / "here")
    async with open_database(settings):
        pass
    found = [one async for one in examine_installation(settings) if one.subject == "files"]
    assert [(one.level, one.found) for one in found] == [
        ("ok", f"kept in: {store} (written, read, removed)")
    ]
    async with open_stores(settings) as stores:
        assert await stores["packages"].listing() == []


async def test_the_doctor_says_why_a_store_cannot_be_used(tmp_path: Path) -> None:
    """A bucket that is away is an error with its address and a remedy."""
    away = {
        "blobs.store": "s3",
        "blobs.bucket": "b",
        "blobs.endpoint": "http://127.0.0.1:1",
        "blobs.access_key": "k",
        "blobs.secret_key": "s",
    }
    settings = settings_of(tmp_path / "here", **away)
    data_directory.prepare(tmp_path / "here")
    async with open_database(settings):
        pass
    [found] = [one async for one in examine_installation(settings) if one.subject == "files"]
    assert found.level == "error"
    assert "the bucket b at http://127.0.0.1:1 cannot be used" in found.found
    assert "[blobs]" in found.remedy


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"blobs.store": "tape"}, "blobs.store must be one of directory, database, s3, not 'tape'"),
        ({"blobs.store": "s3"}, "the store s3 needs blobs.bucket"),
        (
            {"blobs.store": "s3", "blobs.bucket": "b", "blobs.access_key": "k"},
            "give both blobs.access_key and blobs.secret_key",
        ),
    ],
)
def test_settings_of_a_store_are_checked(given: dict[str, str], said: str) -> None:
    """A store that does not exist, a bucket without a name, half a key."""
    with pytest.raises(SettingsError, match=said):
        load_settings(given, environ={})
