"""Databases that are restored from a backup, as docs/operating.md says, and databases that are gone."""

import os
import re
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import insert, select
from tests.server.buckets import bucket
from tests.server.conftest import Installation
from tests.waiting import until

from vetro import identity
from vetro.catalog.tables import packages
from vetro.compute.tables import volume_copies
from vetro.server import data_directory
from vetro.server.backup import back_up, restore
from vetro.server.errors import StartError
from vetro.server.installation import open_database
from vetro.server.settings import Settings, load_settings

ROOT = Path(__file__).resolve().parents[2]
DIGEST = "d" * 64
VOLUME_BACKUP = "b" * 36


def commands(heading: str) -> list[str]:
    """The shell blocks of a section of the page."""
    page = (ROOT / "docs/operating.md").read_text(encoding="utf-8")
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)


MANIFEST = """
Format: '1.4'
Type: Application
FullName: test.Slow
Name: Slow
Description: never ends
Author: the tests
Classes: {test.Slow: slow.yaml}
"""
SLOW = """
Namespaces: {=: test, std: io.murano}
Name: Slow
Extends: std:Application
Methods:
  deploy:
    Body:
      - $this.find(std:Environment).reporter.report($this, begun)
      - sleep(3600)
"""


@pytest.mark.thorough
@pytest.mark.e2e
def test_a_backup_of_a_running_service_is_restored_elsewhere(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """The page's commands restore environments, packages and the administrator's login; a deployment that
    ran meanwhile is shown as interrupted.
    """
    first = install("first one, #1: größer?", driver="simulated")
    package = tmp_path / "package"
    (package / "Classes").mkdir(parents=True)
    (package / "manifest.yaml").write_text(MANIFEST)
    (package / "Classes/slow.yaml").write_text(SLOW)
    first.run("package", "import", str(package))
    first.run("env", "create", "web")
    first.run("env", "add", "web", "test.Slow", "--name", "slow")
    first.run("env", "deploy", "web", "--no-wait")
    until(lambda: "begun" in first.reports("web"), "the deployment runs")
    back_up, restore = commands("Backup and restore")
    where = {"BACKUP": str(tmp_path / "backup.tar"), "VETRO_DATA_DIR": str(first.directory)}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = ["bash", "-euo", "pipefail", "-c"]
    subprocess.run([*shell, back_up], env={**os.environ, **where, "PATH": path}, check=True)
    first.stop()
    where["VETRO_DATA_DIR"] = str(tmp_path / "second")
    subprocess.run([*shell, restore], env={**os.environ, **where, "PATH": path}, check=True)
    second = install("second", driver="simulated")
    assert [row["name"] for row in second.json("env", "list")] == ["web"]
    [kept] = second.json("package", "list")
    second.run("package", "download", kept["id"], str(tmp_path / "again.zip"))
    until(lambda: second.status("web") == "deploy failure", "nobody holds its lease any more")
    assert "deploy again to finish it" in second.reports("web")
    assert second.open_to_others() == []


@pytest.mark.thorough
@pytest.mark.e2e
def test_a_database_that_is_gone_is_noticed(install: Callable[..., Installation]) -> None:
    """A service whose file was deleted is not ready and says why; it takes nothing more, and people still
    log in and read what there is; a restart is refused."""
    vetro = install("lost", driver="simulated")
    vetro.run("env", "create", "before")
    (vetro.directory / "vetro.db").unlink()
    token = vetro.run("token").strip()
    status, body = vetro.http("POST", "/v1/environments", {"name": "after"}, token=token)
    assert (status, "nothing of this request was stored" in str(body)) == (503, True)
    assert [row["name"] for row in vetro.json("env", "list")] == ["before"]
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{vetro.url}/readyz", timeout=240)
    assert caught.value.code == 503
    assert "was deleted or replaced" in caught.value.read().decode()
    vetro.stop()
    text = vetro.run("up", "--port", str(vetro.port), "--driver", "simulated", code=1)
    assert "is missing, but the rest of the installation exists" in text
    assert not (vetro.directory / "vetro.db").exists()


def settings_of(directory: Path, **more: str) -> Settings:
    """The settings of an installation in a directory."""
    return load_settings({"server.data_dir": str(directory), **more}, environ={})


async def filled(directory: Path) -> Settings:
    """An installation with a package and keys."""
    settings = settings_of(directory)
    data_directory.prepare(directory)
    for name in ("node-key", "service-key"):
        data_directory.secret(directory / name)
    async with open_database(settings) as database:
        known = identity.Identity(database, settings.identity)
        await known.bootstrap_admin()
        async with database.transaction() as tx:
            await tx.execute(
                insert(packages).values(
                    id="p" * 32,
                    fully_qualified_name="test.One",
                    version="1.0.0",
                    name="One",
                    type="Application",
                    supplier={},
                    owner_id="t" * 32,
                    is_public=True,
                    enabled=True,
                    archive=DIGEST,
                    created=datetime.now(UTC),
                    updated=datetime.now(UTC),
                )
            )
            await tx.execute(
                insert(volume_copies).values(
                    uuid=VOLUME_BACKUP,
                    kind="backup",
                    owner_uuid="t" * 32,
                    volume_uuid="v" * 36,
                    name="nightly",
                    size_gib=1,
                    format="ext4",
                    state="available",
                    reason="",
                    bytes=6,
                    sha256="s" * 64,
                    created=datetime.now(UTC),
                )
            )
    (directory / "packages" / f"{DIGEST}.zip").write_bytes(b"an archive")
    (directory / "volume-backups" / f"{VOLUME_BACKUP}.backup").write_bytes(b"volume")
    return settings


async def test_a_backup_has_what_the_database_refers_to(tmp_path: Path) -> None:
    """Files that the database knows are restored with it, others are left out."""
    settings = await filled(tmp_path / "old")
    (tmp_path / "old/packages/half-uploaded.part").write_bytes(b"?")
    file = tmp_path / "backup.tar"
    made = await back_up(settings, file)
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(StartError, match="exists already"):
        await back_up(settings, file)
    new = settings_of(tmp_path / "new")
    found = await restore(new, file)
    assert (found.files, found.bytes) == (made.files, made.bytes)
    assert (tmp_path / f"new/packages/{DIGEST}.zip").read_bytes() == b"an archive"
    assert (tmp_path / f"new/volume-backups/{VOLUME_BACKUP}.backup").read_bytes() == b"volume"
    assert not (tmp_path / "new/packages/half-uploaded.part").exists()
    assert (tmp_path / "new/keys").read_text() == (tmp_path / "old/keys").read_text()
    async with open_database(new) as database, database.read() as tx:
        assert (await tx.execute(select(packages.c.archive))).scalar_one() == DIGEST
    with pytest.raises(StartError, match="has an installation already: there is vetro.db"):
        await restore(new, file)


async def test_a_backup_without_a_file_of_the_database_is_not_made(tmp_path: Path) -> None:
    """A missing archive is named; nothing is written."""
    settings = await filled(tmp_path / "old")
    (tmp_path / f"old/packages/{DIGEST}.zip").unlink()
    with pytest.raises(StartError, match=rf"refers to .*{DIGEST}.zip, but the file is missing"):
        await back_up(settings, tmp_path / "backup.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("damage", ["cut", "changed", "member", "outside", "nothing", "newer"])
async def test_a_damaged_backup_changes_nothing(damage: str, tmp_path: Path) -> None:
    """A cut, changed, foreign or newer archive is refused, and the directory stays empty."""
    file = tmp_path / "backup.tar"
    await back_up(await filled(tmp_path / "old"), file)
    content = file.read_bytes()
    if damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "changed":
        file.write_bytes(content.replace(b"an archive", b"an ARCHIVE"))
    elif damage == "nothing":
        file.write_bytes(b"no archive at all")
    elif damage == "newer":
        file.write_bytes(content.replace(b'"format": 1', b'"format": 9'))
    else:
        name = "other" if damage == "member" else "packages/../../outside"
        with tarfile.open(file, "a") as archive:
            archive.addfile(tarfile.TarInfo(name))
    said = "the format 9" if damage == "newer" else "is not a usable backup"
    with pytest.raises(StartError, match=said):
        await restore(settings_of(tmp_path / "new"), file)
    assert not (tmp_path / "outside").exists()
    left = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert [path.name for path in left] == ["lock"]


@pytest.mark.parametrize("store", ["database", pytest.param("s3", marks=pytest.mark.s3)])
async def test_a_backup_changes_the_store_of_files(
    store: str, tmp_path: Path, database_url: str
) -> None:
    """What was kept in a directory is restored into the store that the settings name, and back."""
    await back_up(await filled(tmp_path / "old"), tmp_path / "one.tar")
    given = {**bucket(store, tmp_path), "server.database_url": database_url}
    other = settings_of(tmp_path / "new", **given)
    await restore(other, tmp_path / "one.tar")
    assert list((tmp_path / "new/packages").iterdir()) == []
    again = await back_up(other, tmp_path / "two.tar")
    with tarfile.open(tmp_path / "two.tar") as archive:
        assert len(archive.getnames()) == again.files + 1
        copied = archive.extractfile("vetro.db")
        assert copied is not None
        # The files are members of the backup; its database has them not once more.
        assert b"an archive" not in copied.read()
    last = settings_of(tmp_path / "last")
    await restore(last, tmp_path / "two.tar")
    assert (tmp_path / f"last/packages/{DIGEST}.zip").read_bytes() == b"an archive"
    assert (tmp_path / f"last/volume-backups/{VOLUME_BACKUP}.backup").read_bytes() == b"volume"


async def test_files_that_cannot_be_restored_are_an_error(tmp_path: Path) -> None:
    """A store that is away: the restore says that the files are missing, and what to do."""
    await back_up(await filled(tmp_path / "old"), tmp_path / "one.tar")
    away = {"blobs.store": "s3", "blobs.bucket": "b", "blobs.endpoint": "http://127.0.0.1:1"}
    keys = {"blobs.access_key": "k", "blobs.secret_key": "s"}
    with pytest.raises(StartError, match="was restored, but its files were not: the bucket b at"):
        await restore(settings_of(tmp_path / "new", **away, **keys), tmp_path / "one.tar")
    with pytest.raises(StartError, match="the bucket b at http://127.0.0.1:1 cannot be used"):
        await back_up(settings_of(tmp_path / "old", **away, **keys), tmp_path / "two.tar")
    assert not (tmp_path / "two.tar").exists()


async def test_a_backup_changes_the_kind_of_database(tmp_path: Path, database_url: str) -> None:
    """What was kept in SQLite is restored into the database that the settings name, and back."""
    await back_up(await filled(tmp_path / "old"), tmp_path / "one.tar")
    other = settings_of(tmp_path / "new", **{"server.database_url": database_url})
    await restore(other, tmp_path / "one.tar")
    await back_up(other, tmp_path / "two.tar")
    last = settings_of(tmp_path / "last")
    await restore(last, tmp_path / "two.tar")
    async with open_database(last) as database, database.read() as tx:
        assert (
            await tx.execute(select(packages.c.fully_qualified_name))
        ).scalar_one() == "test.One"
