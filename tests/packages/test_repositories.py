"""Bundles, repositories, lists of images, and what packages require (packages-and-forms.md A9, A10)."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from vetro.packages import (
    BundleEntry,
    DataError,
    Package,
    archive_names,
    best_entry,
    build_archive,
    hash_mismatch,
    images_of,
    open_package,
    parse_bundle,
    parse_images,
    parse_index,
    requirement_closure,
    write_index,
)


def package(
    root: Path, name: str, version: str = "1.0.0", files: dict[str, str] | None = None, **needs: Any
) -> Package:
    """A package directory below `root`; `needs`: required names (with _ for .) and versions."""
    directory = root / f"{name}-{version}"
    directory.mkdir(parents=True)
    require = {other.replace("_", "."): spec for other, spec in needs.items()}
    (directory / "manifest.yaml").write_text(
        f"Format: '1.4'\nType: Library\nFullName: {name}\nVersion: {version}\nDescription: d\n"
        f"Require: {json.dumps(require)}\n"
    )
    for file, text in (files or {}).items():
        (directory / file).write_text(text)
    return open_package(directory)


def test_a_bundle_lists_packages() -> None:
    """JSON or YAML; entries without a name, or with one that leaves the repository, are skipped."""
    content = {
        "Version": 1,
        "Packages": [
            {"Name": "a.A"},
            {"Name": "a.B", "Version": "0.0.1", "Url": "https://h/b.zip", "Sha256": "00"},
            {"Version": 1},
            "text",
            {"Name": "../x"},
            {"Name": "a.C", "Version": "new"},
        ],
    }
    entries, skipped = parse_bundle(json.dumps(content).encode(), "b.bundle")
    assert entries == [BundleEntry("a.A"), BundleEntry("a.B", "0.0.1", "https://h/b.zip", "00")]
    assert [text.split(":")[1].split(" (")[0] for text in skipped] == [
        " package 3 has no Name",
        " package 4 has no Name",
        " package 5",
        " package 6",
    ]
    assert parse_bundle(b"Packages:\n- Name: a.A\n", "b")[0] == [BundleEntry("a.A")]


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"Packages: 1", b"a: [", b"\xff", b"[" * 500])
def test_what_is_no_bundle(text: bytes) -> None:
    """One error, whatever the text is."""
    with pytest.raises(DataError):
        parse_bundle(text, "b.bundle")


def test_an_index_lists_the_archives_of_a_repository(tmp_path: Path) -> None:
    """Versions and hashes are the archives'; the best entry satisfies the condition."""
    apps = tmp_path / "apps"
    apps.mkdir()
    for version in ("1.0.0", "1.2.0", "2.0.0"):
        package(tmp_path / "src", "a.A", version)
        build_archive(tmp_path / f"src/a.A-{version}", apps / f"a.A.{version}.zip")
    entries = parse_index(write_index(tmp_path))
    assert [one.version for one in entries] == ["1.0.0", "1.2.0", "2.0.0"]
    for spec, expected in ((None, "2.0.0"), (">=1,<2", "1.2.0"), ("=1.0.0", "1.0.0"), (">2", None)):
        found = best_entry(entries, "a.A", spec)
        assert (found.version if found else None) == expected
    found = best_entry(entries, "a.A", "1.2")
    assert found is not None
    assert found.file == "apps/a.A.1.2.0.zip"
    assert hash_mismatch(tmp_path / found.file, found.sha256) is None
    assert best_entry(entries, "a.B", None) is None
    (apps / "bad.zip").write_bytes(b"no zip")
    with pytest.raises(DataError, match=r"bad\.zip"):
        write_index(tmp_path)


@pytest.mark.parametrize(
    "entry",
    [
        {"Name": "a"},
        {"Name": "a", "Version": "x", "File": "a.zip"},
        {"Name": "a", "Version": "1.0.0", "File": "../a.zip"},
        {"Name": "a", "Version": "1.0.0", "File": "/a.zip"},
        {"Name": "a", "Version": "1.0.0", "File": "https://elsewhere/a.zip"},
        1,
    ],
)
def test_an_index_cannot_lead_elsewhere(entry: Any) -> None:
    """Entries that are not archives of this repository are refused."""
    with pytest.raises(DataError):
        parse_index(json.dumps({"Packages": [entry]}).encode())


def test_archives_of_a_repository_without_an_index() -> None:
    """An exact version has its own file; without one, and for conditions, the unversioned file."""
    assert archive_names("a.A", None) == ["apps/a.A.zip"]
    assert archive_names("a.A", "1.2.3") == ["apps/a.A.1.2.3.zip", "apps/a.A.zip"]
    assert archive_names("a.A", "=1.2.3") == ["apps/a.A.1.2.3.zip", "apps/a.A.zip"]
    assert archive_names("a.A", ">=1.0") == ["apps/a.A.zip"]
    for bad in ("a/b", "..", ".", "", "a\\b"):
        with pytest.raises(DataError, match="Invalid filename path"):
            archive_names(bad, None)


def test_images_of_a_package(tmp_path: Path) -> None:
    """Three keys are needed; a file that cannot be read is as an empty one, and said so."""
    text = """
Images:
- {Name: debian, DiskFormat: qcow2, ContainerFormat: bare, Hash: aa, Url: 'https://h/d',
   Meta: {title: Debian, type: linux.debian}}
- {Name: debian, DiskFormat: qcow2}
- {Name: ../x, DiskFormat: qcow2, ContainerFormat: bare}
- 1
"""
    made = package(tmp_path, "a.A", files={"images.lst": text})
    (image,), skipped = images_of(made)
    assert (image.name, image.hash, image.url) == ("debian", "aa", "https://h/d")
    assert (image.title, image.type) == ("Debian", "linux.debian")
    assert len(skipped) == 3
    assert images_of(package(tmp_path, "a.B")) == ([], [])
    for bad in (b"a: [", b"[]", b"Images: 1", b"\xff"):
        entries, said = parse_images(bad)
        assert entries == []
        assert len(said) == 1


def test_hashes_are_compared(tmp_path: Path) -> None:
    """The length says the function; a hash that is none does not match."""
    path = tmp_path / "f"
    path.write_bytes(b"content")
    for kind in ("md5", "sha1", "sha256", "sha512"):
        digest = hashlib.new(kind, b"content").hexdigest()
        assert hash_mismatch(path, digest.upper()) is None
        said = hash_mismatch(path, digest[::-1])
        assert said is not None
        assert said.startswith(f"its {kind} is {digest}")
    assert hash_mismatch(path, None) is None
    assert "is not a hash" in (hash_mismatch(path, "xyz") or "")


def names(packages: list[Package]) -> list[str]:
    """Names and versions."""
    return [f"{one.full_name} {one.version}" for one in packages]


def test_what_is_required_comes_first(tmp_path: Path) -> None:
    """Each package once, after what it requires; what is not located is not asked for again."""
    shelf = {
        "p.B": package(tmp_path, "p.B", p_D=1),
        "p.C": package(tmp_path, "p.C", p_D=1, p_Gone=1),
        "p.D": package(tmp_path, "p.D"),
    }
    asked: list[str] = []

    def locate(name: str, spec: str | None) -> Package | None:
        asked.append(name)
        return shelf.get(name)

    root = package(tmp_path, "p.A", p_B=1, p_C=1, p_Gone=1)
    closure = requirement_closure([root], locate)
    assert names(closure.order)[0] == "p.D 1.0.0"
    assert names(closure.order)[-1] == "p.A 1.0.0"
    assert len(closure.order) == 4
    assert asked == ["p.B", "p.C", "p.Gone", "p.D"]
    assert closure.circles == []


def test_packages_that_require_each_other_come_together(tmp_path: Path) -> None:
    """A circle is named and comes before what requires it; nothing waits without end."""
    shelf = {
        "p.B": package(tmp_path, "p.B", p_C=1),
        "p.C": package(tmp_path, "p.C", p_B=1, p_D=1),
        "p.D": package(tmp_path, "p.D", p_D=1),
    }
    root = package(tmp_path, "p.A", p_B=1)
    closure = requirement_closure([root], lambda name, spec: shelf.get(name))
    assert names(closure.order)[0] == "p.D 1.0.0"
    assert names(closure.order)[-1] == "p.A 1.0.0"
    assert closure.circles == [["p.B", "p.C"]]


def test_a_long_chain_of_requirements_does_not_recurse(tmp_path: Path) -> None:
    """Depth is not limited."""
    shelf = {f"p.P{n}": package(tmp_path, f"p.P{n}", **{f"p_P{n + 1}": 1}) for n in range(1100)}
    closure = requirement_closure([shelf["p.P0"]], lambda name, spec: shelf.get(name))
    assert len(closure.order) == 1100
    assert closure.order[-1].full_name == "p.P0"


def test_versions_that_exclude_each_other_both_come(tmp_path: Path) -> None:
    """Two packages that need different versions of a third bring both."""
    versions = {"1": package(tmp_path, "p.D", "1.0.0"), "2": package(tmp_path, "p.D", "2.0.0")}
    roots = [package(tmp_path, "p.A", p_D="1"), package(tmp_path, "p.B", p_D="2")]
    closure = requirement_closure(roots, lambda name, spec: versions[str(spec)])
    assert sorted(names(closure.order)) == ["p.A 1.0.0", "p.B 1.0.0", "p.D 1.0.0", "p.D 2.0.0"]
