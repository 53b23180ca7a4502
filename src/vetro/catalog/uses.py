"""Who uses a package: what keeps it from being deleted, and its archive after that.

The catalog knows packages, not environments: whoever has them says who uses what, behind ``PackageUses``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Row, and_, select

from vetro.catalog.tables import classes, packages
from vetro.http import Conflict, Principal
from vetro.storage import Database, Transaction

#: Environments that an error names; the others it counts.
NAMED_USERS = 5


@dataclass(frozen=True)
class StoredPackage:
    """A package of the catalog, as those who might use it refer to it."""

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
    """Says which environments need packages."""

    async def of(self, packages: Sequence[StoredPackage]) -> Mapping[str, list[PackageUser]]:
        """The users of each package, by the package's id; a package that nobody uses may be absent.

        A user pins the package's version (its last run was made with it), or has an object of one of
        its classes in a model that was not deployed yet.
        """
        ...


async def stored_packages(tx: Transaction, rows: Sequence[Row[Any]]) -> list[StoredPackage]:
    """Rows of packages with the names of their classes."""
    names: dict[str, set[str]] = {row.id: set() for row in rows}
    query = select(classes).where(classes.c.package_id.in_(list(names)))
    for row in await tx.execute(query):
        names[row.package_id].add(row.name)
    return [
        StoredPackage(
            row.id,
            row.fully_qualified_name,
            row.version,
            row.owner_id,
            row.is_public,
            frozenset(names[row.id]),
        )
        for row in rows
    ]


async def users_of(
    database: Database, stored: Sequence[StoredPackage], uses: PackageUses
) -> dict[str, list[PackageUser]]:
    """Who uses which package: a project's own one stands before a public one of its name."""
    found = await uses.of(stored)
    result: dict[str, list[PackageUser]] = {}
    for package in stored:
        users = list(found.get(package.id, []))
        if package.is_public and users:
            same = and_(
                packages.c.fully_qualified_name == package.full_name,
                packages.c.version == package.version,
                packages.c.id != package.id,
            )
            async with database.read() as tx:
                own = {row.owner_id for row in await tx.execute(select(packages).where(same))}
            users = [user for user in users if user.project_id not in own]
        result[package.id] = users
    return result


def in_use(package: StoredPackage, users: Sequence[PackageUser], principal: Principal) -> Conflict:
    """The refusal to delete a package; environments of others are only counted."""
    known = [u for u in users if principal.is_admin or u.project_id == principal.project_id]
    named = [f"{user.name} ({user.id})" for user in known[:NAMED_USERS]]
    if len(known) > NAMED_USERS:
        named.append(f"{len(known) - NAMED_USERS} more")
    if len(users) > len(known):
        named.append(f"{len(users) - len(known)} of other projects")
    return Conflict(
        f"Package {package.full_name} {package.version} is used by environments:"
        f" {', '.join(named)}. Destroy them or deploy them without it first; with force=true it leaves"
        " the catalog, and its archive stays for them",
        type_="PackageInUse",
        extra={"environments": [{"id": user.id, "name": user.name} for user in known]},
    )
