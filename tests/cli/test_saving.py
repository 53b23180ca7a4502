"""``vetro package save`` and ``vetro bundle save``: a repository's packages in a directory."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from vetro.packages import INDEX, write_index


def saved(output: str) -> dict[str, str]:
    """What came of each package and image."""
    rows, _ = json.JSONDecoder().raw_decode(output[output.index("[") :])
    return {f"{row['package']} {row['version'] or ''}".strip(): row["result"] for row in rows}


@pytest.fixture
def full(shelf: Any) -> Any:
    """A repository with a bundle of one package, which requires another and an image."""
    digest = hashlib.sha256(b"content").hexdigest()
    images = "Images:\n" + "".join(
        f"- {{Name: {name}, DiskFormat: qcow2, ContainerFormat: bare, Hash: {wanted}}}\n"
        for name, wanted in (("fine", digest), ("damaged", "f" * 64), ("../out", digest))
    )
    shelf.add("b.Web", "1.2.0", images=images, b_Db="1")
    shelf.add("b.Db", "1.0.0")
    for folder, name, text in (
        ("images", "fine", "content"),
        ("images", "damaged", "content"),
        ("bundles", "all.bundle", json.dumps({"Packages": [{"Name": "b.Web"}]})),
    ):
        (shelf.directory / folder).mkdir(exist_ok=True)
        (shelf.directory / folder / name).write_text(text)
    (shelf.directory / INDEX).write_bytes(write_index(shelf.directory))
    return shelf


def test_a_saved_bundle_needs_no_repository(full: Any, invoke: Any, tmp_path: Path) -> None:
    """What is required and intact images come along; the saved bundle is saved again from its files."""
    there, again = tmp_path / "there", tmp_path / "again"
    code, output = invoke("bundle", "save", "all", "--repo-url", full.url, "-o", there, "--json")
    assert code == 1
    assert "Not everything was saved: image damaged" in output
    assert not (tmp_path / "out").exists()
    assert saved(output) == {
        "b.Db 1.0.0": "saved",
        "b.Web 1.2.0": "saved",
        "image fine": "saved",
        "image damaged": "failed",
    }
    assert sorted(one.name for one in there.iterdir()) == [
        "all.bundle", "b.Db.zip", "b.Web.zip", "fine",
    ]  # fmt: skip
    assert "manifest.yaml" in zipfile.ZipFile(there / "b.Web.zip").namelist()
    code, output = invoke(
        "bundle", "save", there / "all.bundle", "--no-images", "-o", again, "--json"
    )
    assert (code, saved(output)) == (0, {"b.Db 1.0.0": "saved", "b.Web 1.2.0": "saved"})
    assert (again / "b.Web.zip").read_bytes() == (there / "b.Web.zip").read_bytes()


def test_packages_are_saved_by_name_and_version(full: Any, invoke: Any, tmp_path: Path) -> None:
    """A package comes with what it requires; a version that is not there is refused."""
    given = ("--repo-url", full.url, "--no-images", "--json")
    code, output = invoke("package", "save", "b.Web", *given, "-o", tmp_path / "one")
    assert (code, saved(output)) == (0, {"b.Db 1.0.0": "saved", "b.Web 1.2.0": "saved"})
    code, output = invoke("package", "save", "b.Web", *given, "--version", "2", "-o", tmp_path)
    assert code == 1
    assert "Not everything was saved: b.Web" in output
    file = tmp_path / "file"
    file.write_text("")
    code, output = invoke("package", "save", "b.Web", *given, "-o", file / "below")
    assert code == 1
    assert "Choose another directory" in output
