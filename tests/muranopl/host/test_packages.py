"""Packages, requirements and versions: muranopl.md sections 3 and 5."""

import pytest

from vetro.muranopl import MuranoError, Runtime, Version, VersionSpec, check_package
from vetro.muranopl.values.errors import (
    NoClassFound,
    NoPackageForClassFound,
    NoPackageFound,
    PackageFormatError,
)

LIB = """
Namespaces: {=: lib}
Name: Thing
Methods:
  version:
    Usage: Static
    Body: {Return: VERSION}
"""
APP = """
Namespaces: {=: app, lib: lib}
Name: Main
Properties:
  thing: {Contract: $.class(lib:Thing)}
Methods:
  run: {Body: {Return: 1}}
  which:
    Usage: Static
    Body:
      - Return: lib:Thing.version()
  inherited:
    Usage: Static
    Body:
      - Return: typeinfo(lib:Thing).package.name
"""


def runtime_with(package, versions, requirement="0"):
    runtime = Runtime()
    for version in versions:
        runtime.add_package(package("lib", LIB.replace("VERSION", f"'{version}'"), version=version))
    runtime.add_package(package("app", APP, requirements={"lib": requirement}))
    return runtime


@pytest.mark.parametrize(
    ("requirement", "chosen"),
    [("1", "1.5.0"), ("1.2", "1.2.1"), (">=0.3", "2.0.0"), ("0", "0.3.0"), ("*", "2.0.0")],
)
def test_the_best_version_of_a_requirement_is_used(package, requirement, chosen):
    """The highest version that satisfies the spec wins."""
    runtime = runtime_with(package, ["0.3.0", "1.2.1", "1.5.0", "2.0.0"], requirement)
    assert runtime.session().call("app.Main", "which") == chosen


def test_a_fixed_version_goes_before_a_better_one(package):
    """The fixation table of the model keeps an environment on its versions."""
    runtime = runtime_with(package, ["1.0.0", "1.1.0"], "1")
    session = runtime.session()
    session.load({"Objects": None, "SystemData": {"Packages": {"lib": ["1.0.0"]}}})
    assert session.call("app.Main", "which") == "1.0.0"
    assert session.dump()["SystemData"]["Packages"]["lib"] == ["1.0.0"]


def test_a_version_in_use_goes_before_a_better_one(package):
    """What is loaded already is not upgraded while it satisfies."""
    runtime = runtime_with(package, ["1.0.0"], "1")
    session = runtime.session()
    assert session.call("app.Main", "which") == "1.0.0"
    runtime.add_package(package("lib", LIB.replace("VERSION", "new"), version="1.9.0"))
    second = APP.replace("app", "other")
    runtime.add_package(package("other", second, requirements={"lib": ">=1"}))
    assert session.call("other.Main", "which") == "1.0.0"


def test_packages_that_are_not_required_are_not_seen(package):
    """A class of another package needs a requirement, and the error names what was looked at."""
    runtime = Runtime()
    runtime.add_package(package("lib", LIB.replace("VERSION", "x")))
    runtime.add_package(package("app", APP))
    with pytest.raises(NoClassFound, match=r'"lib.Thing" is not found in app/0.0.0, io.murano'):
        runtime.session().call("app.Main", "which")


def test_requirements_are_not_transitive(package):
    """The requirement of a requirement is not visible."""
    runtime = runtime_with(package, ["0.1.0"])
    text = "Name: far.Main\nMethods: {run: {Usage: Static, Body: {Return: new('lib.Thing')}}}"
    runtime.add_package(package("far", text, requirements={"app": None}))
    with pytest.raises(NoClassFound):
        runtime.session().call("far.Main", "run")


def test_a_missing_requirement_is_named(package):
    """A package that cannot be found says which and which versions."""
    runtime = runtime_with(package, [], ">=2")
    with pytest.raises(NoPackageFound, match=r'"lib" \(>=2\)'):
        runtime.session().call("app.Main", "which")


def test_contracts_accept_the_versions_of_the_requirement(package):
    """An object of another version passes when the requirement of the contract's package has it."""
    runtime = runtime_with(package, ["1.0.0", "1.1.0", "2.0.0"], "1")
    session = runtime.session()
    model = {
        "?": {"type": "app.Main", "id": "a"},
        "thing": {"?": {"type": "lib.Thing/1.0.0", "id": "b"}},
    }
    assert session.load({"Objects": model})["thing"].type.version == "1.0.0"
    model["thing"]["?"]["type"] = "lib.Thing/2.0.0"
    with pytest.raises(MuranoError, match="not compatible with class lib.Thing"):
        runtime.session().load({"Objects": model})


def test_a_resolver_supplies_packages_that_were_not_added(package):
    """The resolver is asked by package name for requirements and by class for models."""
    asked = []

    class Resolver:
        def find_package(self, name, spec, project_id):
            asked.append(("package", name, spec))
            return package("lib", LIB.replace("VERSION", "resolved"), version="1.0.0")

        def find_class(self, name, spec, project_id):
            asked.append(("class", name, spec))
            return package("app", APP, requirements={"lib": "1"})

    runtime = Runtime(resolver=Resolver())
    session = runtime.session()
    assert session.load({"Objects": {"?": {"type": "app.Main", "id": "a"}}}).type.name == "app.Main"
    assert session.call("app.Main", "which") == "resolved"
    assert asked == [("class", "app.Main", "0"), ("package", "lib", "1")]


def test_extensions_prefix_is_dropped_as_a_last_resort(package):
    """`io.murano.extensions.x.Y` finds `x.Y`, with a lint warning."""
    runtime = Runtime()
    text = """
Name: app.Main
Methods:
  run:
    Usage: Static
    Body:
      - Return: typeinfo('io.murano.extensions.app.Main').name
"""
    runtime.add_package(package("app", text))
    assert runtime.session().call("app.Main", "run") == "app.Main"
    assert [f.code for f in runtime.classes.findings] == ["W031"]


def test_an_unknown_format_is_refused(package):
    """The known formats are listed."""
    with pytest.raises(PackageFormatError, match=r"Unsupported format 9.9") as caught:
        Runtime().add_package(package("t", "Name: t.Main", format="9.9"))
    assert "1.4" in caught.value.hint


def test_a_core_package_replaces_what_it_declares(package):
    """An added io.murano keeps the built-in classes it does not declare."""
    runtime = Runtime()
    core = """
Namespaces: {=: io.murano}
Name: Application
Methods:
  hello: {Body: {Return: core}}
"""
    runtime.add_package(package("io.murano", core))
    app = """
Namespaces: {=: app, std: io.murano, sys: io.murano.system}
Name: Main
Extends: std:Application
Methods:
  run:
    Body:
      - sys:GC.collect()
      - Return: list($.hello(), $ is std:Object)
"""
    runtime.add_package(package("app", app))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"type": "app.Main", "id": "a"}}})
    assert session.call(root, "run") == ["core", True]


def test_everything_wrong_with_a_package_is_found_at_once(package):
    """check_package lists errors of several classes and members, and advice, with places."""
    text = """
Namespaces: {=: t}
Name: Main
Extra: 1
Methods:
  a: {Body: [oops, {If: true}]}
  b:
    Body:
      - $x: net-1
      - Retrun: 1
  c:
    Usage: Action
---
Namespaces: {=: t}
Name: Other
Properties:
  p: {Contract: $.class()}
"""
    runtime = Runtime()
    found = check_package(runtime, runtime.add_package(package("t", text)))
    codes = [(item.code, item.position.line) for item in found]
    assert ("E205", 6) in codes
    assert ("E201", 10) in codes
    assert ("E303", 17) in codes
    assert ("W203", 9) in codes
    assert ("W010", 4) in codes
    assert ("W045", 12) in codes


def test_a_directory_is_a_package(tmp_path):
    """DirectoryPackage reads manifest, classes and resources, and nothing outside."""
    from vetro.muranopl import DirectoryPackage

    (tmp_path / "Classes").mkdir()
    (tmp_path / "Resources").mkdir()
    (tmp_path / "manifest.yaml").write_text(
        "Format: 1.4\nType: Library\nFullName: d\nVersion: 1.2\nRequire: {lib: '>=1'}\n"
        "Classes: {d.Main: Main.yaml}\n"
    )
    (tmp_path / "Classes" / "Main.yaml").write_text("Name: d.Main\n")
    (tmp_path / "Resources" / "x").write_bytes(b"data")
    source = DirectoryPackage(tmp_path)
    assert (source.full_name, source.version, source.requirements) == ("d", "1.2.0", {"lib": ">=1"})
    assert source.read_resource("x") == b"data"
    for name in ("../manifest.yaml", "nothing"):
        with pytest.raises(FileNotFoundError):
            source.read_resource(name)


def test_a_manifest_says_where_it_is_wrong(tmp_path):
    """An unquoted `>` gets a hint; a bad format its line."""
    from vetro.muranopl import DirectoryPackage, DslSyntaxError

    manifest = tmp_path / "manifest.yaml"
    manifest.write_text("FullName: d\nRequire:\n  lib: >=1\n")
    with pytest.raises(DslSyntaxError) as caught:
        DirectoryPackage(tmp_path)
    assert caught.value.position.line == 3
    assert "quote" in caught.value.hint
    manifest.write_text("FullName: d\nFormat: 7\n")
    with pytest.raises(PackageFormatError) as caught:
        DirectoryPackage(tmp_path)
    assert caught.value.position.line == 2


class Shelf:
    """A resolver with packages that nobody has added."""

    def __init__(self, *sources):
        self.sources = sources

    def find_package(self, name, spec, project_id):
        found = [s for s in self.sources if s.full_name == name and self.fits(s, spec)]
        return found[0] if found else None

    def find_class(self, name, spec, project_id):
        found = [s for s in self.sources if name in s.classes and self.fits(s, spec)]
        return found[0] if found else None

    def fits(self, source, spec):
        return Version.parse(source.version) in VersionSpec(spec)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_class_in_other_versions_only_says_where_it_is(package, is_known):
    """A model without a version, or with one that is not there, hears package, versions, remedy."""
    held = package("lib", LIB, version="1.2.0")
    runtime = Runtime(resolver=None if is_known else Shelf(held))
    if is_known:
        runtime.add_package(held)
        runtime.add_package(package("lib", LIB, version="2.0.0"))
    newest = "2.0.0" if is_known else "1.2.0"
    for header in ({"type": "lib.Thing"}, {"type": "lib.Thing", "classVersion": "7"}):
        with pytest.raises(NoPackageForClassFound) as caught:
            runtime.session().load({"Objects": {"?": {"id": "a", **header}}})
        assert 'Package for class "lib.Thing"' in caught.value.message
        assert "the class is in lib 1.2.0" in caught.value.hint
        assert f"write lib.Thing/{newest}" in caught.value.hint


@pytest.mark.parametrize("is_known", [True, False])
def test_a_package_in_other_versions_only_says_in_which(package, is_known):
    """A requirement that no version satisfies names those that are there."""
    held = package("lib", LIB, version="1.2.0")
    runtime = Runtime(resolver=None if is_known else Shelf(held))
    if is_known:
        runtime.add_package(held)
    runtime.add_package(package("app", APP, requirements={"lib": "7"}))
    with pytest.raises(NoPackageFound) as caught:
        runtime.session().call("app.Main", "which")
    assert caught.value.hint == "it is there in version 1.2.0"


def test_a_class_of_a_package_that_is_not_required_says_what_to_require(package):
    """The hint is the line of the manifest."""
    runtime = Runtime()
    runtime.add_package(package("lib", LIB, version="1.2.0"))
    runtime.add_package(package("app", APP))
    with pytest.raises(NoClassFound) as caught:
        runtime.session().call("app.Main", "which")
    assert "add `lib: 1.2.0` to Require in the manifest of app" in caught.value.hint


def test_a_class_with_a_mistake_cannot_be_used_after_it_was_checked(package):
    """Checking reads what is good of it; nobody gets to use only that."""
    text = "Namespaces: {=: t}\nName: A\nProperties:\n  a: {Contract: $}\n  b: 1\n"
    runtime = Runtime()
    added = runtime.add_package(package("t", text))
    (finding,) = check_package(runtime, added)
    assert (finding.code, finding.position.line) == ("E047", 5)
    with pytest.raises(MuranoError):
        added.find_type("t.A")


@pytest.mark.parametrize("text", ["Name: [\n", "Name: a\nName: b\n", "Name: lib.A\nMethods: 5\n"])
def test_every_look_up_of_a_broken_file_says_what_is_wrong(text):
    """A class file that cannot be read does not count as read: the second error is the first."""
    from vetro.muranopl import MemoryPackage

    runtime = Runtime()
    runtime.add_package(MemoryPackage("lib", {"f": text}, {"lib.A": "f", "lib.B": "f"}))
    said = []
    for name in ("lib.A", "lib.A", "lib.B"):
        with pytest.raises(MuranoError) as failure:
            runtime.type(name)
        said.append((failure.value.names, failure.value.message, failure.value.position))
    assert said[0] == said[1] == said[2]
    assert "does not declare" not in said[0][1]


def test_a_cause_in_python_is_told_in_the_languages_words():
    """Circular defaults: neither message nor trace shows how Python spells a property."""
    from vetro.muranopl import loose_package

    runtime = Runtime()
    text = (
        "Name: M\nProperties:\n  a: {Contract: $, Default: $.b}\n  b: {Contract: $, Default: $.a}\n"
    )
    runtime.add_package(loose_package("t", text))
    with pytest.raises(MuranoError) as failure:
        runtime.session().load({"Objects": {"?": {"type": "t.M"}}})
    assert "p_" not in failure.value.format()
    assert "AttributeError" not in failure.value.format()
    assert 'uninitialized property "a"' in failure.value.format()
