"""``vetro package new``: what it makes is a whole package."""

import json
import zipfile

import pytest

from vetro.packages import open_package

TEMPLATE = """
heat_template_version: 2013-05-23
description: One network
resources:
  net: {type: OS::Neutron::Net}
"""
SHOP = """
Namespaces: {=: org.acme, std: io.murano}
Name: Shop
Extends: std:Application
Methods:
  sell: {Scope: Public, Body: [{Return: 1}]}
---
Name: Prices
Methods:
  of: {Usage: Static, Body: [{Return: 2}]}
"""


def test_a_new_package_is_checked_tested_and_deploys(invoke, tmp_path):
    """Nothing to find, not even advice; its tests deploy it on a cloud in memory."""
    target = tmp_path / "shop"
    code, text = invoke("package", "new", "org.acme.WebShop", target)
    assert code == 0
    assert "vetro test" in text
    assert (target / "Classes/WebShop.yaml").is_file()
    assert "HelloScript" not in "".join(
        path.read_text() for path in target.rglob("*.yaml") if path.is_file()
    )
    assert invoke("check", target, "--strict") == (0, "No errors found!\n")
    code, text = invoke("test", target, "--json")
    assert code == 0, text
    assert json.loads(text)["passed"] == 5


def test_what_is_there_is_not_overwritten_and_names_are_checked(invoke, tmp_path):
    """A directory with files, a name without dots: one line that says what to do."""
    (tmp_path / "x").write_text("mine")
    code, text = invoke("package", "new", "org.acme.Shop", tmp_path)
    assert (code, "is there already" in text) == (1, True)
    for name in ("Shop", "org.acme.shop", "org..Shop", "a/b.Shop"):
        code, text = invoke("package", "new", name, tmp_path / "new")
        assert (code, "CamelCase" in text) == (2, True)
    assert not (tmp_path / "new").exists()


def test_a_package_is_made_of_a_template(invoke, tmp_path, monkeypatch):
    """The manifest is read from the template; each option says it otherwise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OS_USERNAME", "ann")
    (tmp_path / "my-net.yaml").write_text(TEMPLATE)
    code, text = invoke("package", "create", "-t", "my-net.yaml", "--json")
    assert code == 0, text
    assert json.loads(text) == {
        "package": "io.murano.apps.generated.MyNet",
        "file": str(tmp_path / "my-net.zip"),
    }
    made = open_package(tmp_path / "my-net.zip").manifest
    assert (made.type, made.name, made.description) == ("Application", "my-net", "One network")
    assert (made.author, made.tags, made.format) == ("ann", ["Heat-generated"], "HOT")
    assert invoke("check", "my-net.zip")[0] == 0
    (tmp_path / "res" / "HotFiles").mkdir(parents=True)
    (tmp_path / "res" / "HotFiles" / "a.sh").write_text("x")
    said = ["-n", "Net", "-f", "org.acme.Net", "-a", "bob", "--tag", "a", "--tag", "b", "-d", "D"]
    code, text = invoke("package", "create", "-t", "my-net.yaml", "-r", "res", "-o", "n.zip", *said)
    assert code == 0, text
    made = open_package(tmp_path / "n.zip").manifest
    assert (made.full_name, made.name, made.author) == ("org.acme.Net", "Net", "bob")
    assert (made.tags, made.description) == (["a", "b"], "D")
    assert "Resources/HotFiles/a.sh" in zipfile.ZipFile(tmp_path / "n.zip").namelist()


def test_a_package_is_made_of_classes(invoke, tmp_path, monkeypatch):
    """Names and type are those of the application among them; the format is what they use."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "classes").mkdir()
    (tmp_path / "classes" / "Shop.yaml").write_text(SHOP)
    (tmp_path / "ui.yaml").write_text("Version: 2\nApplication: {'?': {type: org.acme.Shop}}\n")
    create = ("package", "create", "-c", "classes")
    assert invoke(*create, "-u", "ui.yaml")[0] == 0
    made = open_package(tmp_path / "org.acme.Shop.zip")
    assert (made.manifest.type, made.manifest.name, made.format) == ("Application", "Shop", "1.4")
    assert dict(made.classes) == {"org.acme.Shop": "Shop.yaml", "org.acme.Prices": "Shop.yaml"}
    assert made.ui is not None
    assert invoke("check", "org.acme.Shop.zip")[0] == 0
    library = SHOP.partition("---")[2].replace("Name", "Namespaces: {=: org.acme}\nName", 1)
    (tmp_path / "classes" / "Shop.yaml").write_text(library)
    assert (
        invoke(*create, "-f", "org.acme.Lib", "--type", "Library", "--format", "MuranoPL/1.5")[0]
        == 0
    )
    made = open_package(tmp_path / "org.acme.Lib.zip")
    assert (made.manifest.type, made.format) == ("Library", "1.5")


@pytest.mark.parametrize(
    ("classes", "arguments", "said"),
    [
        (SHOP, ["-t", "t.yaml", "-c", "classes"], "one of them"),
        (SHOP, [], "one of them"),
        (SHOP, ["-c", "classes"], "--ui"),
        (
            SHOP.replace("Name: Prices", "Name: B\nExtends: std:Application"),
            ["-c", "classes"],
            "several",
        ),
        ("Methods: {}\n", ["-c", "classes"], "needs a Name"),
        ("Name: [\n", ["-c", "classes"], "Shop.yaml"),
        ("", ["-c", "classes"], "no classes"),
        ("Name: A\n", ["-c", "classes"], "--full-name"),
        ("Name: A\n", ["-c", "classes", "-f", "org.A"], "--type"),
        ("Name: A\n", ["-c", "classes", "-f", "../A", "--type", "Library"], "No package was made"),
        (SHOP, ["-t", "list.yaml"], "not a Heat template"),
        (SHOP, ["-t", "bad.yaml"], "not YAML"),
        (SHOP, ["-t", "empty.yaml"], "HOT template"),
        (SHOP, ["-t", "none.yaml"], "none.yaml"),
        (SHOP, ["-t", "t.yaml", "-l", "t.yaml"], "logo"),
    ],
)
def test_what_is_no_package_is_refused(invoke, tmp_path, monkeypatch, classes, arguments, said):
    """One line says why, and no archive is left."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "classes").mkdir()
    (tmp_path / "classes" / "Shop.yaml").write_text(classes)
    for name, text in (("t", TEMPLATE), ("list", "[1]"), ("bad", "a: ["), ("empty", "a: 1")):
        (tmp_path / f"{name}.yaml").write_text(text)
    code, text = invoke("package", "create", *arguments)
    assert code in (1, 2)
    assert said in text
    assert text.startswith("Error: ")
    assert not list(tmp_path.glob("*.zip*"))
