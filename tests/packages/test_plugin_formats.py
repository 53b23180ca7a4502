"""Formats that installed distributions add: found, opened, checked; what their mistakes look like."""

import importlib.metadata
import io
import sys
import types
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vetro.muranopl import Runtime
from vetro.packages import (
    PackageError,
    PackageFormatError,
    check,
    check_upload,
    enable_plugins,
    known_formats,
    open_package,
)
from vetro.packages.plugin_formats import GROUP

MANIFEST = """
Format: Acme.Recipe/1.1
Type: Application
FullName: org.acme.Cake
Description: a cake
Recipe: {flour: 2}
"""
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
CLASS = """
Name: org.acme.Cake
Methods:
  bake:
    Usage: Static
    Body:
      Return: {flour}
"""


class Recipe:
    """A handler: one class made of the manifest."""

    logo = PNG
    ui = "Version: 2\n"
    tags = ("sweet",)
    classes = ("org.acme.Cake",)

    def __init__(self, directory: Path, manifest: dict[str, Any]) -> None:
        self.directory, self.manifest = directory, manifest
        self.display_name = f"Cake of {manifest['Recipe']['flour']}"

    def get_class(self, name: str) -> tuple[str, str]:
        """The class, with the amount of the manifest in it."""
        if name not in self.classes:
            raise LookupError(name)
        return CLASS.format(flour=self.manifest["Recipe"]["flour"]), "recipe.yaml"

    def get_resource(self, name: str) -> Path:
        """A file of the package."""
        return self.directory / name

    def check(self) -> Iterator[tuple[str, str]]:
        """Much flour is worth a warning."""
        if self.manifest["Recipe"]["flour"] > 9:
            yield "recipe:W001", "that is much flour"


def archive(manifest: str = MANIFEST) -> bytes:
    """A package of the format."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("manifest.yaml", manifest)
        made.writestr("recipe/steps.txt", "stir")
        made.writestr("LICENSE", "free")
    return buffer.getvalue()


Install = Callable[..., list[int]]


@pytest.fixture(name="install")
def fixture_install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install handlers as entry points of a distribution."""

    class Found(importlib.metadata.EntryPoint):
        """An entry point whose distribution is `acme-recipes`."""

        dist = types.SimpleNamespace(name="Acme_Recipes")  # type: ignore[assignment]

    def install(handler: Any = Recipe, name: str = "Acme.Recipe/1.1", times: int = 1) -> list[int]:
        module = types.ModuleType("acme_recipes")
        prepared: list[int] = []
        module.Recipe = handler  # type: ignore[attr-defined]
        module.init_plugin = lambda: prepared.append(1)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "acme_recipes", module)
        found = [Found(name, "acme_recipes:Recipe", GROUP)] * times

        def entry_points(group: str) -> list[Any]:
            return found if group == GROUP else []

        monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
        enable_plugins()
        return prepared

    yield install
    monkeypatch.undo()
    enable_plugins()


def test_a_package_of_a_plug_in_is_a_package(install: Install, tmp_path: Path) -> None:
    """As an archive and as a directory: description, classes that run, resources, form, logo."""
    install()
    with zipfile.ZipFile(io.BytesIO(archive())) as packed:
        packed.extractall(tmp_path)
    for source in (archive(), tmp_path):
        package = open_package(source)
        check_upload(package)
        assert (package.full_name, package.version) == ("org.acme.Cake", "0.0.0")
        manifest = package.manifest
        assert (manifest.name, manifest.tags, manifest.description) == (
            "Cake of 2",
            ["sweet"],
            "a cake",
        )
        assert (package.logo, package.ui) == (PNG, "Version: 2\n")
        assert package.read_resource("recipe/steps.txt") == b"stir"
        for missing in ("recipe/none", "../manifest.yaml"):
            with pytest.raises((FileNotFoundError, PackageFormatError)):
                package.read_resource(missing)
        assert package.parents_of("org.acme.Cake") == ["io.murano.Object"]
        runtime = Runtime()
        runtime.add_package(package)
        with runtime.session() as session:
            assert session.call("org.acme.Cake", "bake") == 2
        assert [one.code for one in check(source)] == []


def test_a_plug_in_has_findings_of_its_own(install: Install) -> None:
    """With codes of its prefix; a mistake of a made class is found as in any other."""
    install()
    (found,) = check(archive(MANIFEST.replace("2}", "10}")))
    assert (found.level, found.code, found.message) == (
        "warning",
        "recipe:W001",
        "that is much flour",
    )
    (wrong,) = check(archive(MANIFEST.replace("2}", "'$.none.'}")))
    assert wrong.code in ("E001", "W202")


def test_formats_are_those_of_enabled_distributions(install: Install) -> None:
    """Names count as package indexes compare them; two plug-ins for one format are none."""
    install()
    assert known_formats() == ["Acme.Recipe/1.1.0"]
    enable_plugins(["acme.recipes"])
    assert open_package(archive()).full_name == "org.acme.Cake"
    enable_plugins(["another"])
    with pytest.raises(PackageFormatError, match="Unsupported format 'Acme.Recipe/1.1'"):
        open_package(archive())
    install(times=2)
    assert known_formats() == []
    install(name="Acme.Recipe/2.0")
    with pytest.raises(PackageFormatError, match=r"or Heat\.HOT/1\.0, or Acme\.Recipe/2\.0\.0"):
        open_package(archive())


def test_a_plug_in_is_prepared_once(install: Install) -> None:
    """`init_plugin` of its module runs before its first package, and not again."""
    from vetro.packages.plugin_formats import _prepare  # pyright: ignore[reportPrivateUsage]

    _prepare.cache_clear()
    prepared = install()
    open_package(archive())
    open_package(archive())
    assert prepared == [1]


def failing(**members: Any) -> type[Recipe]:
    """A handler with other members."""
    return type("Failing", (Recipe,), members)


def raises(*_given: Any) -> Any:
    """What a broken plug-in does."""
    raise RuntimeError("out of eggs")


def gives(value: Any) -> Callable[..., Any]:
    """A method of a plug-in that returns this."""
    return lambda *_given: value


BROKEN: list[tuple[Any, str]] = [
    ({"__init__": raises}, "the plug-in for Acme.Recipe/1.1.0 cannot open it: out of eggs"),
    ({"get_class": raises}, "cannot give its class org.acme.Cake: out of eggs"),
    ({"get_class": gives(None)}, "gives no text for class org.acme.Cake"),
    ({"ui": property(raises)}, "cannot tell its ui: out of eggs"),
    ({"tags": 3}, "gives tags as int"),
    ({"logo": b"GIF"}, "Unable to load logo: it is not a PNG, JPEG or GIF image"),
    ({"version": "x"}, "Version:"),
    ({"full_name": "a b"}, "Invalid FullName 'a b'"),
    ({"package_type": "Cake"}, "Invalid package Type 'Cake'"),
    ({"check": gives([("E001", "m")])}, "gives the code 'E001': write prefix:E001"),
]


@pytest.mark.parametrize(("members", "words"), BROKEN)
def test_a_broken_plug_in_is_the_packages_error(install: Install, members: Any, words: str) -> None:
    """Whatever it raises or gives, uploading and checking say what is wrong."""
    install(failing(**members))
    told = [one.message for one in check(archive())]
    try:
        check_upload(open_package(archive()))
    except PackageError as error:
        told.append(error.message)
    assert any(words in one for one in told), told
