"""Which file of a repository has a package, and what is refused of it (packages-and-forms.md A10)."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from vetro.packages import RepositoryFiles, no_file
from vetro.packages.errors import SourceError
from vetro.packages.repositories import BundleEntry, write_index

BASE = "http://repository.example/v1"


def archive(path: Path, name: str = "org.App", version: str = "1.0.0") -> Path:
    """A package without classes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    manifest: dict[str, Any] = {
        "Format": "1.4", "Type": "Library", "FullName": name, "Version": version, "Name": name,
        "Description": "d", "Author": "a", "Classes": {},
    }  # fmt: skip
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("manifest.yaml", json.dumps(manifest))
    return path


class Site:
    """A directory that is served at `BASE`, and what was asked of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.asked: list[str] = []
        self.answers: dict[str, int] = {}
        """Statuses of files that are not served."""

    def fetch(self, address: str, most: int) -> Path:
        """The file at an address."""
        self.asked.append(address.removeprefix(f"{BASE}/"))
        path = self.directory / address.removeprefix(f"{BASE}/").rpartition("//")[2]
        status = self.answers.get(self.asked[-1]) or (200 if path.is_file() else 404)
        if status != 200:
            raise no_file(address, status)
        assert path.stat().st_size < most
        return path

    def files(self, **options: Any) -> RepositoryFiles:
        """Its files."""
        return RepositoryFiles(BASE, self.fetch, **options)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site with two versions of a package, and no index yet."""
    archive(tmp_path / "apps/org.App.zip", version="2.0.0")
    archive(tmp_path / "apps/org.App.1.0.0.zip")
    return Site(tmp_path)


def entry(version: str | None = None, **more: Any) -> BundleEntry:
    """A wanted version of it."""
    return BundleEntry("org.App", version, **more)


def test_an_index_says_which_file_has_a_version(site: Site) -> None:
    """The newest that satisfies; it is fetched once; what it does not list is refused with what is there."""
    (site.directory / "index.json").write_bytes(write_index(site.directory))
    files = site.files()
    assert files.package(entry())[0].version == "2.0.0"
    assert files.package(entry("<2"))[1].name == "org.App.1.0.0.zip"
    assert site.asked.count("index.json") == 1
    with pytest.raises(SourceError, match=r"no version >=3 of it; it has"):
        files.package(entry(">=3"))


def test_without_an_index_names_are_tried(site: Site) -> None:
    """The exact version's file, then the one without a version, which must satisfy."""
    assert site.files().package(entry("1.0.0"))[1].name == "org.App.1.0.0.zip"
    (site.directory / "apps/org.App.1.0.0.zip").unlink()
    with pytest.raises(SourceError, match=r"there is version 2\.0\.0, not 1\.0\.0"):
        site.files().package(entry("1.0.0"))
    with pytest.raises(SourceError, match="Invalid filename path"):
        site.files().package(BundleEntry("../x"))


def test_what_lies_beside_a_bundle_comes_first(site: Site, tmp_path: Path) -> None:
    """Nothing is fetched then."""
    archive(tmp_path / "beside/org.App.zip", version="3.0.0")
    found, _ = site.files(beside=[tmp_path / "beside"]).package(entry())
    assert (found.version, site.asked) == ("3.0.0", [])


def test_an_archive_that_is_not_what_was_promised_is_refused(site: Site, tmp_path: Path) -> None:
    """By its hash, its name, its content, or an address that is none."""
    address = f"{BASE}/apps/org.App.zip"
    with pytest.raises(SourceError, match="differs from what the index says"):
        site.files().package(entry(url=address, sha256="0" * 64))
    with pytest.raises(SourceError, match=r"has the package org\.App"):
        site.files().package(BundleEntry("org.Other", url=address))
    with pytest.raises(SourceError, match="is not an http address"):
        site.files().package(entry(url="file:///etc/passwd"))
    assert site.files().package(BundleEntry("", url=address))[0].full_name == "org.App"
    (tmp_path / "apps/org.App.zip").write_bytes(b"no zip")
    with pytest.raises(SourceError, match=r"^org\.App: "):
        site.files().package(entry(url=address))


def test_bundles_come_by_name_or_address(site: Site) -> None:
    """A name never leaves the directory of bundles; without a repository only an address will do."""
    (site.directory / "bundles").mkdir()
    (site.directory / "bundles/web.bundle").write_bytes(b"{}")
    assert site.files().bundle("web") == site.files().bundle("web.bundle") == b"{}"
    assert site.files().bundle(f"{BASE}/bundles/web.bundle") == b"{}"
    with pytest.raises(SourceError, match="Invalid filename path"):
        site.files().bundle("../web")
    nowhere = RepositoryFiles(None, site.fetch, no_base="name a repository")
    with pytest.raises(SourceError, match="name a repository"):
        nowhere.bundle("web")
    with pytest.raises(SourceError, match=r"org\.App: name a repository"):
        nowhere.package(entry())


def test_an_index_that_cannot_be_read_is_an_error_and_not_an_absence(site: Site) -> None:
    """Else the wrong file could be taken for want of the right one."""
    (site.directory / "index.json").write_text('{"Packages": 5}')
    with pytest.raises(SourceError, match="list Packages"):
        site.files().package(entry())
    site.answers["index.json"] = 503
    files = site.files()
    for _ in range(2):
        with pytest.raises(SourceError, match=r"index\.json: the server answers 503"):
            files.package(entry())
    # Stores of objects say so of what is not there.
    site.answers["index.json"] = 403
    assert files.package(entry())[0].version == "2.0.0"
    site.answers["apps/org.App.1.0.0.zip"] = 500
    with pytest.raises(SourceError, match="the server answers 500"):
        files.package(entry("1.0.0"))
