"""A catalog on a real database, and packages for it."""

import zipfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from vetro.catalog import MIGRATIONS, Catalog, PackageUser, StoredPackage, UploadMetadata
from vetro.http import Principal
from vetro.storage import Database, Transaction, migrate

NAME = "org.acme.App"


def person(project: str, *, admin: bool = False) -> Principal:
    """A user of a project."""
    roles = frozenset({"admin", "member"} if admin else {"member"})
    return Principal(f"of-{project}", f"of-{project}", project, roles=roles)


@dataclass
class Uses:
    """The environments that use packages, by the packages' names."""

    users: dict[str, list[PackageUser]] = field(default_factory=dict[str, list[PackageUser]])
    answers_soon: bool = True

    async def of(
        self, packages: Sequence[StoredPackage], tx: Transaction | None = None
    ) -> Mapping[str, list[PackageUser]]:
        """The users of each package, by its id."""
        return {one.id: self.users.get(one.full_name, []) for one in packages}


@dataclass
class Shelf:
    """A catalog, who uses its packages, and a place for uploads."""

    catalog: Catalog
    directory: Path
    uses: Uses = field(default_factory=Uses)
    uploads: int = 0

    def archive(
        self,
        name: str = NAME,
        version: str = "1.0.0",
        classes: Sequence[str] = (),
        description: str = "",
        extends: Mapping[str, str] | None = None,
        type_: str = "Library",
    ) -> Path:
        """A package with these classes, or with one that has its name; ``extends``: their parents."""
        names = classes or [name]
        manifest = (
            f"Format: '1.4'\nType: {type_}\nFullName: {name}\nVersion: {version}\n"
            f"Name: {name.rsplit('.', 1)[-1]}\nAuthor: ann\nDescription: {description!r}\n"
            "Tags: [web]\nClasses:\n" + "".join(f"  {one}: {one}.yaml\n" for one in names)
        )
        self.uploads += 1
        file = self.directory / f"upload-{self.uploads}.zip"
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("manifest.yaml", manifest)
            for one in names:
                parent = (extends or {}).get(one)
                text = f"Name: {one}\n" + (f"Extends: {parent}\n" if parent else "")
                archive.writestr(f"Classes/{one}.yaml", text)
        return file

    async def add(
        self, project: str = "p", *, admin: bool = False, file: Path | None = None, **given: Any
    ) -> dict[str, Any]:
        """Upload a package for a project; ``given``: metadata."""
        return await self.catalog.upload(
            person(project, admin=admin), file or self.archive(), UploadMetadata(**given)
        )

    def kept(self) -> int:
        """How many archives are stored."""
        return len(list(self.catalog.blobs.directory.iterdir()))


@pytest.fixture
async def shelf(database_url: str, tmp_path: Path) -> AsyncGenerator[Shelf, None]:
    """An empty catalog on SQLite and on PostgreSQL."""
    database = await Database.open(database_url)
    try:
        await migrate(database, [MIGRATIONS])
        yield Shelf(Catalog(database, tmp_path / "packages"), tmp_path)
    finally:
        await database.close()


@pytest.fixture
def user() -> Any:
    """Makes users: ``user("p")``, ``user("r", admin=True)``."""
    return person
