"""The users of a package, which prevent its deletion or keep its archive after it.

The catalog does not know environments: another room implements ``PackageUses`` and reports the
users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import and_, bindparam, select

from vetro.catalog.tables import classes, packages
from vetro.http import Conflict, Principal
from vetro.storage import Database, Prepared, StoredRow, Transaction

#: Environments that an error names; the others are counted.
NAMED_USERS = 5


@dataclass(frozen=True)
class StoredPackage:
    """A package of the catalog, with the members by which others refer to it."""

    id: str
    full_name: str
    version: str
    owner_id: str
    is_public: bool
    class_names: frozenset[str]


@dataclass(frozen=True)
class PackageUser:
    """An environment that uses a package."""

    id: str
    name: str
    project_id: str


class PackageUses(Protocol):
    """Reports which environments need packages."""

    @property
    def answers_soon(self) -> bool:
        """Whether a question takes about as long as a statement: what it needs was read before."""
        ...

    async def of(
        self, packages: Sequence[StoredPackage], tx: Transaction | None = None
    ) -> Mapping[str, list[PackageUser]]:
        """The users of each package, by the package's id; a package without users may be absent.

        ``tx``: as that unit of work sees them.

        A user pins the package's version (used in its last run), or has an object of one of its
        classes in a model that is not deployed yet.
        """
        ...


_CLASSES = Prepared(
    select(classes).where(classes.c.package_id.in_(bindparam("ids", expanding=True)))
)


def stored_package(row: StoredRow, class_names: Iterable[str]) -> StoredPackage:
    """A row of packages with the names of its classes."""
    return StoredPackage(
        row.id,
        row.fully_qualified_name,
        row.version,
        row.owner_id,
        row.is_public,
        frozenset(class_names),
    )


async def stored_packages(tx: Transaction, rows: Sequence[StoredRow]) -> list[StoredPackage]:
    """Rows of packages with the names of their classes."""
    names: dict[str, set[str]] = {row.id: set() for row in rows}
    for row in await tx.execute(_CLASSES, {"ids": list(names)}):
        names[row.package_id].add(row.name)
    return [stored_package(row, names[row.id]) for row in rows]


async def users_of(
    database: Database,
    stored: Sequence[StoredPackage],
    uses: PackageUses,
    tx: Transaction | None = None,
) -> dict[str, list[PackageUser]]:
    """The users of each package; a project's own package precedes a public one of that name.

    ``tx``: as that unit of work sees them.
    """
    found = await uses.of(stored, tx)
    result: dict[str, list[PackageUser]] = {}
    for package in stored:
        users = list(found.get(package.id, []))
        if package.is_public and users:
            same = and_(
                packages.c.fully_qualified_name == package.full_name,
                packages.c.version == package.version,
                packages.c.id != package.id,
            )
            query = select(packages).where(same)
            if tx is not None:
                own = {row.owner_id for row in await tx.execute(query)}
            else:
                async with database.read() as unit:
                    own = {row.owner_id for row in await unit.execute(query)}
            users = [user for user in users if user.project_id not in own]
        result[package.id] = users
    return result


def in_use(package: StoredPackage, users: Sequence[PackageUser], principal: Principal) -> Conflict:
    """The refusal to delete a package; environments of other projects are only counted."""
    return _refusal(
        package,
        users,
        principal,
        "Destroy them or deploy them without it first; with force=true it is removed from the "
        "catalog, and its archive is kept for them",
    )


def withdrawn(
    package: StoredPackage, users: Sequence[PackageUser], principal: Principal, *, private: bool
) -> Conflict:
    """The refusal to make a public package private or disable it while other projects use it."""
    return _refusal(
        package,
        users,
        principal,
        "With force=true it is made private anyway; they can then be neither deployed nor "
        "destroyed until it is public again"
        if private
        else "With force=true it is disabled anyway: deployed applications keep using it, but "
        "it cannot be used for new ones",
    )


def _refusal(
    package: StoredPackage,
    users: Sequence[PackageUser],
    principal: Principal,
    way_out: str,
) -> Conflict:
    known = [u for u in users if principal.is_admin or u.project_id == principal.project_id]
    named = [f"{user.name} ({user.id})" for user in known[:NAMED_USERS]]
    if len(known) > NAMED_USERS:
        named.append(f"{len(known) - NAMED_USERS} more")
    if len(users) > len(known):
        named.append(f"{len(users) - len(known)} of other projects")
    return Conflict(
        f"Package {package.full_name} {package.version} is used by {len(users)}"
        f" environment{'' if len(users) == 1 else 's'}: {', '.join(named)}. {way_out}",
        type_="PackageInUse",
        extra={"environments": [{"id": user.id, "name": user.name} for user in known]},
    )
