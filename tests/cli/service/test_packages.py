"""Packages, bundles and signatures by command, good input and bad."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.cli.serving import Service

from vetro.cli import cli

pytestmark = [pytest.mark.e2e]
HEAT = """
heat_template_version: 2013-05-23
parameters:
  title: {type: string, constraints: [{length: {max: 9}, description: at most nine letters}]}
resources:
  net: {type: 'OS::Neutron::Net', properties: {name: {get_param: title}}}
outputs:
  text: {value: {str_replace: {template: 'T-%', params: {'%': {get_param: title}}}}}
  file: {value: {get_file: note.txt}}
"""


def test_packages_from_upload_to_deletion(
    service: Service, package: Callable[..., Path], tmp_path: Path
) -> None:
    """Import with a category, skip, replace and keep both, change, download, delete."""
    assert service.json("category", "create", "Web")["name"] == "Web"
    (row,) = service.json("package", "import", package(), "-c", "Web", "--public")
    assert (row["categories"], row["is_public"]) == (["Web"], True)
    assert "catalog already" in service.refused("package", "import", package())
    (same,) = service.json("package", "import", package(), "--exists-action", "skip")
    assert same["id"] == row["id"]
    (newer,) = service.json("package", "import", package("2.0.0"), "--exists-action", "update")
    assert (newer["version"], len(service.json("package", "list"))) == ("2.0.0", 2)
    service.ok("package", "delete", "--yes", newer["id"])
    (again,) = service.json("package", "import", package(), "--exists-action", "update")
    assert again["id"] == row["id"]
    assert (again["categories"], again["is_public"]) == (["Web"], True)
    changed = service.json("package", "update", "Shop", "--private", "--tag", "a", "--tag", "b")
    assert (changed["is_public"], changed["tags"]) == (False, ["a", "b"])
    assert service.json("package", "update", "Shop", "--tag", "", "--disable")["tags"] == []
    assert service.json("package", "list") == []
    assert service.json("package", "show", "Shop")["enabled"] is False
    service.ok("package", "update", "Shop", "--enable", "--name", "Corner", "--description", "d")
    assert service.json("package", "list", "--search", "corner")[0]["description"] == "d"
    assert "Corner" in service.ok("package", "list", "--category", "Web")
    every = ["--name", "Corner", "--fqn", "test.Shop", "--class-name", "test.Prices", "--owned"]
    every += ["--type", "application", "--tag", "none", "--tag", "trade", "--limit", "1"]
    service.ok("package", "update", "Shop", "--tag", "trade")
    (one,) = service.json("package", "list", "--include-disabled", *every)
    assert service.json("package", "list", "--marker", one["id"]) == []
    for wrong in (["--name", "x"], ["--fqn", "x"], ["--class-name", "x"], ["--type", "Library"]):
        assert service.json("package", "list", *wrong) == [], wrong
    target = tmp_path / "back.zip"
    assert service.json("package", "download", "test.Shop", target)["file"] == str(target)
    assert target.read_bytes()[:2] == b"PK"
    piped = CliRunner().invoke(cli, ["package", "download", "test.Shop"])
    assert piped.stdout_bytes == target.read_bytes()
    assert [row["name"] for row in service.json("category", "show", "Web")["packages"]]
    assert "--category" in service.refused("category", "delete", "--yes", "Web")
    assert service.json("package", "delete", "--yes", "Corner") == {"deleted": ["test.Shop 1.0.0"]}
    assert service.json("category", "delete", "--yes", "Web") == {"deleted": ["Web"]}
    assert service.json("category", "list") == []


def test_an_import_says_what_the_check_finds(
    service: Service, package: Callable[..., Path], tmp_path: Path
) -> None:
    """What stands in the catalog counts as there; findings do not keep a package out."""
    service.ok("package", "import", package())
    user = tmp_path / "user"
    for name, text in {
        "manifest.yaml": "Format: '1.4'\nType: Library\nFullName: test.user\nDescription: x\n"
        "Require: {test.Shop: 1}\nClasses: {test.user.A: A.yaml}\n",
        "Classes/A.yaml": "Namespaces: {=: test.user, t: test}\nName: A\nExtends: t:Shop\n"
        "Methods:\n  m: {Body: [$.sell(), lenn($.port)]}\n",
    }.items():
        (user / name).parent.mkdir(parents=True, exist_ok=True)
        (user / name).write_text(text)
    text = service.ok("package", "import", user)
    assert "A.yaml:5:14: E313 sell of test.Shop needs what" in text
    assert f"{user}: 2 errors, 1 warning" in text
    service.ok("package", "delete", "--yes", "test.user")
    (row,) = service.json("package", "import", user)
    assert [item["code"] for item in row["findings"]] == ["E313", "E311", "W121"]
    service.ok("package", "delete", "--yes", "test.user", "Shop")


def test_a_package_is_built_and_imported_from_within_its_directory(
    service: Service, package: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`.` is a directory as any other; what an author has built below it is not packed again."""
    monkeypatch.chdir(package())
    first = service.json("package", "build", ".")
    assert service.json("package", "build", ".") == first
    service.ok("package", "import", ".")
    service.ok("package", "import", "--exists-action", "update", ".")
    service.ok("package", "delete", "--yes", "Shop")


def test_of_several_packages_the_good_ones_are_imported(
    service: Service, package: Callable[..., Path], tmp_path: Path
) -> None:
    """Each bad one is named with its reason, the exit code is 1; one that is there ends the import."""
    bad = tmp_path / "bad.zip"
    bad.write_text("text")
    code, text = service.run("package", "import", bad, package())
    assert (code, f"{bad}: " in text) == (1, True)
    assert "1 of 2 packages were not imported" in text
    assert [row["version"] for row in service.json("package", "list")] == ["1.0.0"]
    code, text = service.run("package", "import", package(), package("2.0.0"))
    assert code == 1
    assert "2 of 2 packages were not imported" in text
    assert "--exists-action" in text
    service.ok("package", "import", package(), package("2.0.0"), "--exists-action", "skip")
    versions = [row["version"] for row in service.json("package", "list")]
    assert sorted(versions) == ["1.0.0", "2.0.0"]
    for version in versions:
        service.ok("package", "delete", "--yes", "Shop", "--version", version)


def test_a_package_shows_fields_and_actions(shop: Service) -> None:
    """What its form asks for, and what can be called, with arguments."""
    shown = shop.json("package", "show", "Shop")
    assert [(item["name"], item["type"]) for item in shown["fields"]] == [("port", "integer")]
    sell = next(item for item in shown["actions"] if item["action"] == "sell")
    assert (sell["class"], sell["call"]) == ("test.Shop", "sell(what)")
    assert sell["arguments"] == [{"name": "what", "contract": "$.string().notNull()"}]
    text = shop.ok("package", "show", "Shop")
    assert "sell(what)" in text
    assert "FIELD" in text


def test_a_replacement_that_is_refused_leaves_the_old_package(
    service: Service, package: Callable[..., Path]
) -> None:
    """The catalog is as it was, whoever is refused and for whatever reason; what replaces it has its id."""
    service.ok("package", "import", package(), "--public")
    (row,) = service.json("package", "list")
    update = ("package", "import", package(), "--exists-action", "update")
    assert "Nowhere" in service.refused(*update, "-c", "Nowhere")
    assert service.json("package", "list") == [row]
    with service.member():
        assert "only an administrator may replace it" in service.refused(*update)
    assert service.json("package", "list") == [row]
    (new,) = service.json(*update)
    assert (new["id"], new["is_public"]) == (row["id"], True)
    service.ok("package", "delete", "--yes", "Shop")


def test_bad_input_about_packages(shop: Service, tmp_path: Path) -> None:
    """Each mistake is one line with a hint."""
    text = tmp_path / "x.zip"
    text.write_text("text")
    assert "Packages: test.Shop." in shop.refused("package", "show", "Nope")
    assert "'Nope'" in shop.refused("package", "delete", "--yes", "Nope")
    assert "there is no such file" in shop.refused("package", "import", tmp_path / "nope")
    assert "no manifest.yaml" in shop.refused("package", "import", tmp_path)
    assert "not a zip archive" in shop.refused("package", "import", text)
    assert "not a zip archive" in shop.refused("package", "import", text, "--exists-action", "skip")
    assert "no manifest.yaml" in shop.refused("package", "build", tmp_path)
    assert "Nothing to change" in shop.refused("package", "update", "Shop", code=2)
    assert "Nowhere" in shop.refused("package", "update", "Shop", "-c", "Nowhere")
    assert "mkdir -p" in shop.refused("package", "download", "Shop", tmp_path / "no" / "x")
    assert "Categories: none." in shop.refused("category", "show", "Nope")
    assert "needs a name" in shop.refused("category", "create", " ")


def results(rows: list[dict[str, Any]]) -> dict[str, str]:
    """What came of each package of an import."""
    return {f"{row['package']} {row['version'] or ''}".strip(): row["result"] for row in rows}


def test_a_bundle_comes_with_what_it_requires(service: Service, shelf: Any) -> None:
    """Versions satisfy the conditions, circles do no harm, images are checked against their hashes."""
    good, bad = "content of an image", "f" * 64
    digest = hashlib.sha256(good.encode()).hexdigest()
    images = "Images:\n" + "".join(
        f"- {{Name: {name}, DiskFormat: {kind}, ContainerFormat: bare, Hash: {wanted},"
        " Meta: {title: Fine OS, type: linux.fine}}\n"
        for name, kind, wanted in (
            ("fine", "qcow2", digest),
            ("damaged", "qcow2", bad),
            ("odd", "floppy", digest),
        )
    )
    (shelf.directory / "images").mkdir()
    for name in ("fine", "damaged"):
        (shelf.directory / "images" / name).write_text(good)
    shelf.add("b.Web", "1.0.0", images=images, b_Db=">=1,<2", b_Gone=">=3")
    for version in ("1.0.0", "1.5.0", "2.0.0"):
        shelf.add("b.Db", version, b_Log="1")
    shelf.add("b.Log", "1.0.0", b_Db="1")
    (shelf.directory / "bundles").mkdir()
    text = {"Packages": [{"Name": "b.Web", "Version": ">=1"}, {"Name": "b.Nowhere"}]}
    (shelf.directory / "bundles" / "all.bundle").write_text(json.dumps(text))
    service.ok("bundle", "index", shelf.directory)

    code, said = service.run("bundle", "import", "all", "--repo-url", shelf.url, "--json")
    assert code == 1
    assert "Not everything was imported: b.Nowhere, b.Gone" in said
    rows, _ = json.JSONDecoder().raw_decode(said[said.index("[") :])
    assert results(rows) == {
        "b.Nowhere": "failed",
        "b.Gone >=3": "missing",
        "b.Db 1.5.0": "imported",
        "b.Log 1.0.0": "imported",
        "b.Web 1.0.0": "imported",
        "image fine": "imported",
        "image damaged": "failed",
        "image odd": "failed",
    }
    reasons = {row["package"]: row["reason"] for row in rows}
    assert f"its sha256 is {digest}, not {bad}" in reasons["image damaged"]
    assert "the repository has no version >=3 of it" in reasons["b.Gone"]
    (image,) = service.json("image", "list")
    assert (image["name"], image["os"]) == ("fine", "linux")
    assert json.loads(image["tags"]["murano_image_info"]) == {
        "title": "Fine OS",
        "type": "linux.fine",
    }

    # Again: what is there stays, also what only was required.
    _, said = service.run("bundle", "import", "all", "--repo-url", shelf.url, "--json")
    rows, _ = json.JSONDecoder().raw_decode(said[said.index("[") :])
    assert results(rows)["b.Web 1.0.0"] == "skipped"
    assert "b.Db 1.5.0" not in results(rows)
    service.ok("image", "delete", "--yes", "fine")
    # What is required is replaced, too, when that is asked for.
    shelf.add("b.Alone", "1.0.0", b_Log="1")
    service.ok("bundle", "index", shelf.directory)
    alone = ("package", "import", "b.Alone", "--repo-url", shelf.url, "--no-images")
    assert results(service.json(*alone)) == {"b.Alone 1.0.0": "imported"}
    again = (*alone, "--exists-action", "s", "--dep-exists-action", "u")
    replaced = {"b.Db 1.5.0": "replaced", "b.Log 1.0.0": "replaced", "b.Alone 1.0.0": "skipped"}
    assert results(service.json(*again)) == replaced
    # Nothing is said of what is required: the same is done with it.
    assert results(service.json(*alone, "--exists-action", "u")) == {
        **replaced,
        "b.Alone 1.0.0": "replaced",
    }
    service.ok("package", "delete", "--yes", "b.Web", "b.Db", "b.Log", "b.Alone")


def test_an_image_that_is_there_gets_what_forms_show_of_it(service: Service, shelf: Any) -> None:
    """Title and type are added to an image without them; another project's stays as it is."""
    images = "Images:\n" + "".join(
        f"- {{Name: {name}, DiskFormat: qcow2, ContainerFormat: bare, Meta: {{title: T, type: linux}}}}\n"
        for name in ("mine", "theirs")
    )
    (shelf.directory / "images").mkdir()
    for name in ("mine", "theirs"):
        (shelf.directory / "images" / name).write_text("content of an image")
    for name in ("i.First", "i.Second", "i.Third"):
        shelf.add(name, "1.0.0", images=images)
    service.ok("bundle", "index", shelf.directory)
    service.ok("package", "import", "i.First", "--repo-url", shelf.url)
    made = {one["name"]: one for one in service.json("image", "list")}
    with contextlib.closing(sqlite3.connect(service.database)) as opened:
        opened.execute("UPDATE compute_images SET manifest = '{}'")
        opened.execute("UPDATE compute_images SET owner_uuid = 'x' WHERE name = 'theirs'")
        opened.commit()

    rows = service.json("package", "import", "i.Second", "--repo-url", shelf.url)
    assert results(rows) == {
        "i.Second 1.0.0": "imported",
        "image mine": "described",
        "image theirs": "skipped",
    }
    assert "another project" in {row["package"]: row["reason"] for row in rows}["image theirs"]
    found = {one["name"]: one for one in service.json("image", "list")}
    assert found["mine"] == made["mine"]
    assert "tags" not in found["theirs"]
    with contextlib.closing(sqlite3.connect(service.database)) as opened:
        opened.execute("DELETE FROM compute_images WHERE name = 'theirs'")
        opened.commit()
    rows = service.json("package", "import", "i.Third", "--repo-url", shelf.url)
    assert results(rows) == {"i.Third 1.0.0": "imported", "image theirs": "imported"}
    service.ok("image", "delete", "--yes", "mine", "theirs")
    service.ok("package", "delete", "--yes", "i.First", "i.Second", "i.Third")


def test_who_watches_is_asked_about_a_package_that_is_there(
    service: Service, package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Skip, update or abort, when no option has said it; the option's first letter will do."""
    there = package("7.0.0")
    service.ok("package", "import", there)
    monkeypatch.setattr("vetro.cli.terminal.confirmation.is_watched", lambda: True)
    for letter, code, said in (("s", 0, "7.0.0"), ("u", 0, "7.0.0"), ("a", 1, "catalog already")):
        found, text = service.run("package", "import", there, input=f"{letter}\n")
        assert (found, said in text, "Skip it (s)" in text) == (code, True, True), text
        found, text = service.run("package", "import", there, "--exists-action", letter)
        assert (found, said in text, "Skip it (s)" in text) == (code, True, False), text
    assert service.run("package", "delete", "--yes", "test.Shop", "--version", "7.0.0")[0] == 0


def test_signatures_travel_with_archives(service: Service, shelf: Any, tmp_path: Path) -> None:
    """From `sign` through the index, `save` and an import to what the catalog shows; a wrong one stops."""
    key = tmp_path / "key.pem"
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    key.write_bytes(pem)
    archive = shelf.add("b.Web", "1.0.0")
    (signed,) = service.json("package", "sign", archive, "--key", key)
    assert signed["file"] == f"{archive}.sig"
    service.ok("bundle", "index", shelf.directory)
    repository = ("--repo-url", shelf.url)
    service.ok("package", "import", "b.Web", *repository)
    shown = {"key": signed["key"], "signer": None}
    (row,) = service.json("package", "list")
    assert row["signature"] == shown
    service.ok("package", "delete", "--yes", "b.Web")
    service.ok("package", "save", "b.Web", *repository, "-o", tmp_path / "saved")
    (row,) = service.json("package", "import", tmp_path / "saved" / "b.Web.zip")
    assert row["signature"] == shown
    service.ok("package", "delete", "--yes", "b.Web")
    wrong = shelf.add("b.Web", "2.0.0")
    Path(f"{wrong}.sig").write_text(Path(f"{archive}.sig").read_text())
    assert "is not a signature of the present content of b.Web.2.0.0.zip" in service.refused(
        "package", "import", wrong
    )
    Path(f"{wrong}.sig").write_text("x")
    assert "is not a line 'vetro-ed25519" in service.refused("package", "import", wrong)
    assert service.json("package", "list") == []
    sign = ("package", "sign", "--key", key)
    assert "a directory has no signature" in service.refused(*sign, tmp_path)
    assert "the key cannot be read" in service.refused("package", "sign", "--key", archive, archive)


def test_archives_that_are_not_what_was_promised(service: Service, shelf: Any) -> None:
    """Another hash, another package, another version: nothing of it enters the catalog."""
    archive = shelf.add("b.Web", "1.0.0")
    service.ok("bundle", "index", shelf.directory)
    archive.write_bytes(archive.read_bytes() + b"more")
    words = ("package", "import", "b.Web", "--repo-url", shelf.url)
    code, said = service.run(*words)
    assert code == 1
    assert "differs from what the index says" in said
    (shelf.directory / "index.json").unlink()
    shelf.add("b.Other", "1.0.0").rename(shelf.directory / "apps" / "b.Web.zip")
    code, said = service.run(*words)
    assert "the archive has the package b.Other" in said
    code, said = service.run("package", "import", "b.Nope", "--repo-url", shelf.url)
    assert (code, "the server answers 404" in said) == (1, True)
    code, said = service.run("bundle", "import", "../x", "--repo-url", shelf.url)
    assert (code, "Invalid filename path supplied" in said) == (1, True)
    code, said = service.run("bundle", "import", "nothing")
    assert (code, "No base_url for repository supplied" in said) == (1, True)
    assert service.json("package", "list") == []


def test_a_bundle_file_takes_packages_from_beside_it(
    service: Service, shelf: Any, tmp_path: Path
) -> None:
    """Directories and archives that lie beside the bundle need no repository; addresses neither."""
    beside = tmp_path / "beside"
    beside.mkdir()
    shelf.add("b.One", "1.0.0", b_Two="1")
    (shelf.directory / "src" / "b.One-1.0.0").rename(beside / "b.One")
    shelf.add("b.Two", "1.0.0").rename(beside / "b.Two.zip")
    shelf.add("b.Three", "1.0.0")
    url = f"{shelf.url}/apps/b.Three.1.0.0.zip"
    (beside / "my.bundle").write_text(
        f"Packages:\n- Name: b.One\n- {{Name: b.Three, Url: {url}}}\n"
    )
    rows = service.json("bundle", "import", beside / "my.bundle")
    assert list(results(rows)) == ["b.Two 1.0.0", "b.One 1.0.0", "b.Three 1.0.0"]
    assert set(results(rows).values()) == {"imported"}
    code, said = service.run("package", "import", url)
    assert (code, "in the catalog already" in said) == (1, True)
    rows = service.json("package", "import", url, "--exists-action", "update")
    assert results(rows) == {"b.Three 1.0.0": "replaced"}
    service.ok("package", "delete", "--yes", "b.One", "b.Two", "b.Three")


def test_a_heat_template_goes_from_the_catalog_to_a_stack(service: Service, tmp_path: Path) -> None:
    """Import, form, schema, deployment by an engine, outputs, and the end of the stack."""
    source = tmp_path / "heat"
    (source / "Resources" / "HotFiles").mkdir(parents=True)
    (source / "manifest.yaml").write_text(
        "Format: Heat.HOT/1.0\nType: Application\nFullName: test.Heat\nVersion: 1.0.0\n"
        "Name: Heat\nDescription: d\n"
    )
    (source / "template.yaml").write_text(HEAT)
    (source / "Resources" / "HotFiles" / "note.txt").write_text("hello")
    service.ok("package", "import", source)
    shown = service.json("package", "show", "test.Heat")
    assert [one["name"] for one in shown["fields"]] == ["title", "name", "title"]
    schema = service.json("package", "schema", "test.Heat")
    assert "templateParameters" in schema[""]["properties"]
    service.ok("env", "create", "warm")
    refused = service.refused("env", "add", "warm", "test.Heat", "--set", "group0.name=h",
                              "--set", "group1.title=0123456789")  # fmt: skip
    assert "at most" in refused
    service.ok("env", "add", "warm", "test.Heat", "--name", "h", "--set", "group1.title=blue",
               "--set", "group0.name=h")  # fmt: skip
    service.ok("env", "deploy", "warm")
    (app,) = service.json("env", "show", "warm")["services"]
    assert app["templateOutputs"] == {"text": "T-blue", "file": "hello"}
    assert "blue" in {one["name"] for one in service.json("network", "list")}
    service.ok("env", "destroy", "--yes", "warm")
    assert "blue" not in {one["name"] for one in service.json("network", "list")}
    service.ok("package", "delete", "--yes", "test.Heat")
