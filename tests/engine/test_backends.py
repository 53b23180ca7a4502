"""Where an engine finds packages: installed directories, then the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vetro.engine.worker.back_ends import CatalogResolver, installed_packages
from vetro.muranopl import Runtime


class Catalog:
    """Remembers what it is asked for, and has nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str | None]] = []

    async def find_package(self, name: str, spec: str, project_id: str | None, pinned: Any) -> None:
        """A package by name."""
        self.asked.append((name, spec, project_id))

    async def find_package_for_class(
        self, name: str, spec: str, project_id: str | None, pinned: Any
    ) -> None:
        """A package by class."""
        self.asked.append((name, spec, project_id))


def make(directory: Path, name: str, version: str, text: str = "Name: A\n") -> Path:
    """A package in a folder."""
    (directory / "Classes").mkdir(parents=True)
    (directory / "Classes" / "A.yaml").write_text(text)
    (directory / "manifest.yaml").write_text(
        f"Format: '1.4'\nType: Library\nFullName: {name}\nVersion: {version}\n"
        f"Classes: {{{name}.A: A.yaml}}\n"
    )
    return directory


async def found(resolver: CatalogResolver, method: str, *arguments: Any) -> str | None:
    """The version that a resolver finds, asked as a program's run asks it."""
    async with Runtime().session() as session:
        package = await session.in_green_thread_async(lambda: getattr(resolver, method)(*arguments))
    return None if package is None else package.version


def test_every_folder_with_a_manifest_is_a_package(tmp_path: Path) -> None:
    """Packages are found at any depth, but not inside another one; unreadable ones are left out."""
    make(tmp_path / "a" / "deep" / "one", "p.one", "1.0.0")
    make(tmp_path / "b", "p.two", "1.0.0")
    make(tmp_path / "b" / "Resources" / "three", "p.three", "1.0.0")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.yaml").write_text("Format: nope")
    names = [package.full_name for package in installed_packages([tmp_path, tmp_path / "absent"])]
    assert names == ["p.one", "p.two"]


async def test_installed_packages_are_asked_first_and_must_fit(tmp_path: Path) -> None:
    """The newest installed version that satisfies the spec is used, else the catalog's."""
    for version in ("1.0.0", "1.2.0", "2.0.0"):
        make(tmp_path / version, "p", version)
    catalog: Any = Catalog()
    resolver = CatalogResolver(catalog, installed_packages([tmp_path]))
    assert await found(resolver, "find_package", "p", "1", "mine") == "1.2.0"
    assert await found(resolver, "find_class", "p.A", "*", "mine") == "2.0.0"
    assert catalog.asked == []
    assert await found(resolver, "find_package", "p", "3", "mine") is None
    assert await found(resolver, "find_class", "p.B", "*", None) is None
    assert catalog.asked == [("p", "3", "mine"), ("p.B", "*", None)]


async def test_an_environment_uses_its_owners_packages(tmp_path: Path) -> None:
    """An administrator who deploys for an owner gets the owner's packages and requirements."""
    catalog: Any = Catalog()
    resolver = CatalogResolver(catalog, [], "owner")
    await found(resolver, "find_package", "p", "1", None)
    await found(resolver, "find_class", "p.A", "1", "administrator")
    assert catalog.asked == [("p", "1", "owner"), ("p.A", "1", "owner")]


async def test_the_framework_comes_with_the_engine(tmp_path: Path) -> None:
    """Applications may require it although no catalog has it; a catalog that has it is asked first."""
    catalog: Any = Catalog()
    resolver = CatalogResolver(catalog, [])
    name = "io.murano.applications"
    assert await found(resolver, "find_package", name, "0", "mine") == "0.0.0"
    assert await found(resolver, "find_class", f"{name}.Event", "*", "mine") == "0.0.0"
    assert await found(resolver, "find_package", name, "1", "mine") is None
    assert len(catalog.asked) == 3
