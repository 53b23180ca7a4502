"""Which environments use a package of the catalog (catalog-api.md, "Beyond upstream")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import ColumnElement, or_, select, true

from vetro.catalog import PackageUser, StoredPackage
from vetro.environments.tables import environments, sessions
from vetro.packages import Version, version_spec
from vetro.storage import Database

#: Sessions whose model may still become the environment's.
LIVE = ("opened", "deploying", "deleting")
#: Models that are read at a time, because they can be large.
BATCH = 20


@dataclass(frozen=True)
class _Reference:
    """The class, package and version in the header of an object."""

    class_name: str
    package: str | None
    spec: str | None


@dataclass
class Needs:
    """The packages that a model needs: the versions of its last run, and its objects' classes."""

    pins: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    references: set[_Reference] = field(default_factory=set[_Reference])

    def add(self, model: object) -> None:
        """Add the needs of a stored model (``Objects``, ``ObjectsCopy``, ``SystemData``)."""
        if not isinstance(model, Mapping):
            return
        top = cast("Mapping[str, Any]", model)
        for name, versions in pinned_packages(top).items():
            self.pins.setdefault(name, set()).update(versions)
        for part in ("Objects", "ObjectsCopy"):
            self.references.update(_references(top.get(part)))

    def include(self, package: StoredPackage) -> bool:
        """Whether the needs include this package."""
        pinned = self.pins.get(package.full_name)
        if pinned is not None and package.version in pinned:
            return True
        return any(_refers(one, package, pinned) for one in self.references)


def pinned_packages(model: Mapping[str, Any]) -> dict[str, set[str]]:
    """The packages and versions of a model's last run (§8, ``SystemData``)."""
    system = model.get("SystemData")
    table = cast("Mapping[str, Any]", system).get("Packages") if isinstance(system, dict) else None
    pins: dict[str, set[str]] = {}
    for name, versions in cast("Mapping[str, Any]", table or {}).items():
        listed = [versions] if isinstance(versions, str) else cast("list[Any]", versions)
        pins[name] = {str(version) for version in listed}
    return pins


def _refers(one: _Reference, package: StoredPackage, pinned: set[str] | None) -> bool:
    if one.package is not None and one.package != package.full_name:
        return False
    if one.class_name not in package.class_names:
        return False
    if one.spec is None:
        # Any version matches, unless the last run used one.
        return pinned is None
    try:
        return Version.parse(package.version) in version_spec(one.spec)
    except ValueError:
        return False


def _references(objects: Any) -> Iterator[_Reference]:
    waiting: list[Any] = [objects]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(cast("list[Any]", value))
        elif isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            waiting.extend(member for key, member in members.items() if key != "?")
            header = members.get("?")
            if isinstance(header, dict):
                yield from _reference(cast("dict[str, Any]", header))


def _reference(header: dict[str, Any]) -> Iterator[_Reference]:
    """``type`` is ``name``, or ``name/version@package`` (catalog-api.md §5.3)."""
    given = header.get("type")
    if not isinstance(given, str):
        return
    named, _, package = given.partition("@")
    class_name, _, version = named.partition("/")
    stated: Any = version or header.get("classVersion") or None
    whose: Any = package or header.get("package") or None
    yield _Reference(
        class_name,
        whose if isinstance(whose, str) else None,
        None if stated is None else str(stated),
    )


class EnvironmentUses:
    """``PackageUses`` of the environments and the sessions in the database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def of(self, packages: Sequence[StoredPackage]) -> Mapping[str, list[PackageUser]]:
        """The environments that need each package, by its id. Models are read in batches."""
        found: dict[str, list[PackageUser]] = {}
        if not packages:
            return found
        async with self.database.read() as tx:
            query = select(environments.c.id).where(_may_use(packages)).order_by(environments.c.id)
            ids = [row.id for row in await tx.execute(query)]
        for start in range(0, len(ids), BATCH):
            for user, needs in await self._needs(ids[start : start + BATCH]):
                for package in packages:
                    sees = package.is_public or package.owner_id == user.project_id
                    if sees and needs.include(package):
                        found.setdefault(package.id, []).append(user)
        return found

    async def _needs(self, ids: Sequence[str]) -> list[tuple[PackageUser, Needs]]:
        async with self.database.read() as tx:
            rows = list(await tx.execute(select(environments).where(environments.c.id.in_(ids))))
            live = select(sessions.c.environment_id, sessions.c.model).where(
                sessions.c.environment_id.in_(ids), sessions.c.state.in_(LIVE)
            )
            open_models = list(await tx.execute(live))
        needs: dict[str, tuple[PackageUser, Needs]] = {}
        for row in rows:
            needs[row.id] = (PackageUser(row.id, row.name, row.tenant_id), Needs())
            needs[row.id][1].add(row.model)
        for row in open_models:
            # Overtaken sessions too: their changes can still be rebased.
            if row.environment_id in needs:
                needs[row.environment_id][1].add(row.model)
        return list(needs.values())


def _may_use(packages: Sequence[StoredPackage]) -> ColumnElement[bool]:
    """The condition for environments that can see one of these packages."""
    if any(package.is_public for package in packages):
        return true()
    owners = {package.owner_id for package in packages}
    return or_(*(environments.c.tenant_id == owner for owner in sorted(owners)))
