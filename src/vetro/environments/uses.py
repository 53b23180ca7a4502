"""Which environments use a package of the catalog (catalog-api.md, "Beyond upstream")."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast
from weakref import WeakValueDictionary

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    String,
    bindparam,
    column,
    func,
    select,
    table,
    true,
    type_coerce,
)
from sqlalchemy import cast as as_type

from vetro.catalog import PackageUser, StoredPackage
from vetro.environments.tables import environments, sessions
from vetro.json_values import JsonObject
from vetro.packages import Version, version_spec
from vetro.storage import Database, Prepared, Transaction

#: Sessions whose model may still become the environment's.
LIVE = ("opened", "deploying", "deleting")
#: Models that are read at a time, because they can be large.
BATCH = 20
ENVIRONMENT, SESSION = environments.name, sessions.name
#: Models whose needs are kept.
KNOWN = 20_000
#: Sets of projects whose environments are kept, grouped by what they need.
VIEWS = 16
#: A stored model: its table and id, and what its row says of its last write.
_Written = tuple[str, str, int, str, int]


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

    @property
    def content(self) -> object:
        """Equal for models that need the same."""
        pins = frozenset((name, frozenset(versions)) for name, versions in self.pins.items())
        return pins, frozenset(self.references)

    def add(self, model: object) -> None:
        """Add the needs of a stored model (``Objects``, ``ObjectsCopy``, ``SystemData``)."""
        if not isinstance(model, Mapping):
            return
        top = cast("Mapping[str, object]", model)
        for name, versions in pinned_packages(top).items():
            self.pins.setdefault(name, set()).update(versions)
        for part in ("Objects", "ObjectsCopy"):
            self.references.update(_references(top.get(part)))

    def include(self, package: StoredPackage) -> bool:
        """Whether the needs include this package."""
        pinned = self.pins.get(package.full_name)
        if pinned is not None and package.version in pinned:
            return True
        names = package.class_names
        # Without a call for each of the references that are to other packages: nearly all.
        named = [one for one in self.references if one.class_name in names]
        return any(_refers(one, package, pinned) for one in named)


def joined(several: Sequence[Needs]) -> Needs:
    """What several models need together."""
    if len(several) == 1:
        return several[0]
    whole = Needs()
    for one in several:
        whole.references |= one.references
        for name, versions in one.pins.items():
            whole.pins.setdefault(name, set()).update(versions)
    return whole


def pinned_packages(model: Mapping[str, object]) -> dict[str, set[str]]:
    """The packages and versions of a model's last run (§8, ``SystemData``)."""
    system = model.get("SystemData")
    table = cast("JsonObject", system).get("Packages") if isinstance(system, dict) else None
    pins: dict[str, set[str]] = {}
    for name, versions in cast("Mapping[str, object]", table or {}).items():
        listed = [versions] if isinstance(versions, str) else cast("list[object]", versions)
        pins[name] = {str(version) for version in listed}
    return pins


def _refers(one: _Reference, package: StoredPackage, pinned: set[str] | None) -> bool:
    """Whether a reference to one of the package's classes means this version of it."""
    if one.package is not None and one.package != package.full_name:
        return False
    if one.spec is None:
        # Any version matches, unless the last run used one.
        return pinned is None
    try:
        return Version.parse(package.version) in version_spec(one.spec)
    except ValueError:
        return False


def _references(objects: object) -> Iterator[_Reference]:
    waiting: list[object] = [objects]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(cast("list[object]", value))
        elif isinstance(value, dict):
            members = cast("dict[str, object]", value)
            waiting.extend(member for key, member in members.items() if key != "?")
            header = members.get("?")
            if isinstance(header, dict):
                yield from _reference(cast("dict[str, object]", header))


def _reference(header: dict[str, object]) -> Iterator[_Reference]:
    """``type`` is ``name``, or ``name/version@package`` (catalog-api.md §5.3)."""
    given = header.get("type")
    if not isinstance(given, str):
        return
    named, _, package = given.partition("@")
    class_name, _, version = named.partition("/")
    stated: object = version or header.get("classVersion") or None
    whose: object = package or header.get("package") or None
    yield _Reference(
        class_name,
        whose if isinstance(whose, str) else None,
        None if stated is None else str(stated),
    )


@dataclass(frozen=True)
class _View:
    """The environments of some projects by what they need, as of ``state`` (`_states`)."""

    state: object
    groups: Sequence[tuple[Needs, Sequence[PackageUser]]]


class EnvironmentUses:
    """``PackageUses`` of the environments and the sessions in the database.

    What a stored model needs is kept until that model is written again: to decrypt and walk a
    thousand models takes half a second. And so are the environments that need the same, while nothing
    was written (`_states`): to go through a thousand rows takes 11 ms.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._known: OrderedDict[_Written, Needs] = OrderedDict()
        self._shared: WeakValueDictionary[object, Needs] = WeakValueDictionary()
        self._views: OrderedDict[frozenset[str] | None, _View] = OrderedDict()

    @property
    def answers_soon(self) -> bool:
        """See ``PackageUses``: a first question reads every model, later ones those that were written."""
        return bool(self._views)

    async def of(
        self, packages: Sequence[StoredPackage], tx: Transaction | None = None
    ) -> Mapping[str, list[PackageUser]]:
        """The environments that need each package, by its id. Models are read in batches.

        ``tx``: as that unit of work sees them; what was asked before it began is then known already.
        """
        found: dict[str, list[PackageUser]] = {}
        if not packages:
            return found
        public = any(package.is_public for package in packages)
        projects = None if public else frozenset(package.owner_id for package in packages)
        for needs, users in (await self._view(projects, tx)).groups:
            for package in packages:
                if needs.include(package):
                    seeing = (
                        one for one in users
                        if package.is_public or package.owner_id == one.project_id
                    )  # fmt: skip
                    found.setdefault(package.id, []).extend(seeing)
        return {id_: sorted(users, key=lambda one: one.id) for id_, users in found.items() if users}

    async def _view(self, projects: frozenset[str] | None, tx: Transaction | None) -> _View:
        """The environments of these projects (``None``: of all) by what they need."""
        async with self._reading(tx) as unit:
            state = await _states(unit, projects)
            view = self._views.get(projects)
            if view is not None and view.state == state:
                self._views.move_to_end(projects)
                return view
            condition = environments.c.tenant_id.in_(sorted(projects)) if projects else true()
            users, written = await _written(unit, condition)
        needs = await self._needs([one for several in written.values() for one in several], tx)
        groups: dict[int, tuple[Needs, list[PackageUser]]] = {}
        for user in users:
            whole = joined([needs[one] for one in written[user.id] if one in needs])
            groups.setdefault(id(whole), (whole, []))[1].append(user)
        view = _View(state, list(groups.values()))
        self._views[projects] = view
        if len(self._views) > VIEWS:
            self._views.popitem(last=False)
        return view

    def _reading(
        self, tx: Transaction | None
    ) -> AbstractAsyncContextManager[Transaction, bool | None]:
        """The given unit of work, or a new one."""
        return self.database.read() if tx is None else nullcontext(tx)

    async def _needs(
        self, wanted: Sequence[_Written], tx: Transaction | None = None
    ) -> dict[_Written, Needs]:
        """What models need; those that were deleted meanwhile are absent."""
        needs: dict[_Written, Needs] = {}
        unknown: dict[str, list[_Written]] = {ENVIRONMENT: [], SESSION: []}
        for one in wanted:
            known = self._known.get(one)
            if known is None:
                unknown[one[0]].append(one)
            else:
                needs[one] = known
        for rows_of in (environments, sessions):
            several = unknown[rows_of.name]
            for start in range(0, len(several), BATCH):
                batch = {one[1]: one for one in several[start : start + BATCH]}
                query = select(rows_of.c.id, rows_of.c.model).where(rows_of.c.id.in_(list(batch)))
                async with self._reading(tx) as unit:
                    rows = list(await unit.execute(query))
                for row in rows:
                    fresh = Needs()
                    fresh.add(row.model)
                    # A model that was written meanwhile is read again: its row says so then.
                    fresh = self._shared.setdefault(fresh.content, fresh)
                    needs[batch[row.id]] = self._known[batch[row.id]] = fresh
                await asyncio.sleep(0)  # other requests are served between batches
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)
        return needs


def _state_queries(condition: ColumnElement[bool]) -> tuple[Prepared, Prepared]:
    """What the rows of environments, and of their live sessions, say of their last writes, as text."""
    e, s = environments.c, sessions.c

    def text_of(*columns: ColumnElement[object]) -> ColumnElement[str]:
        parts = [as_type(one, String) for one in columns]
        whole: ColumnElement[str] = parts[0]
        for one in parts[1:]:
            whole = whole + ":" + one
        return func.coalesce(func.aggregate_strings(whole, ","), "")

    mine = text_of(e.id, e.version, e.model_kind, type_coerce(e.updated, BigInteger))
    live = text_of(s.id, s.version, type_coerce(s.updated, BigInteger))
    joined_rows = sessions.join(environments, e.id == s.environment_id)
    return (
        Prepared(select(mine.label("said")).where(condition)),
        Prepared(
            select(live.label("said"))
            .select_from(joined_rows)
            .where(s.state.in_(LIVE))
            .where(condition)
        ),
    )


_STATES_OF_ALL = _state_queries(true())
_STATES_OF_SOME = _state_queries(
    environments.c.tenant_id.in_(bindparam("projects", expanding=True))
)


#: Counted by triggers, so whoever writes.
_WRITES = Prepared(
    select(column("number", Integer)).select_from(table("environments_model_writes"))
)


async def _states(tx: Transaction, projects: frozenset[str] | None) -> object:
    """What changes with every write of the rows of these projects (``None``: of all).

    On SQLite a number that triggers count. On PostgreSQL all writers would wait for its row: there it is
    what the rows say of their last writes.
    """
    if tx.is_sqlite:
        return (await tx.execute(_WRITES)).scalar_one()
    first, second = _STATES_OF_SOME if projects else _STATES_OF_ALL
    given = {"projects": sorted(projects)} if projects else {}
    found = (await tx.execute(first, given)).scalar_one()
    return found, (await tx.execute(second, given)).scalar_one()


async def _written(
    tx: Transaction, condition: ColumnElement[bool]
) -> tuple[list[PackageUser], dict[str, list[_Written]]]:
    """The environments, and by their ids the models of each: its own, those of its sessions."""
    e, s = environments.c, sessions.c
    # As they are stored: dates of a thousand rows take two milliseconds.
    updated = type_coerce(e.updated, BigInteger)
    mine = select(e.id, e.name, e.tenant_id, e.version, e.model_kind, updated)
    # Overtaken sessions too: their changes can still be rebased.
    updated = type_coerce(s.updated, BigInteger)
    live = select(s.id, s.environment_id, s.version, updated).where(s.state.in_(LIVE))
    live = live.join(environments, e.id == s.environment_id).where(condition)
    rows = cast("list[Any]", list(await tx.execute(mine.where(condition))))
    opened = cast("list[Any]", list(await tx.execute(live)))
    users: list[PackageUser] = []
    written: dict[str, list[_Written]] = {}
    for id_, name, project, version, kind, moment in rows:
        users.append(PackageUser(id_, name, project))
        written[id_] = [(ENVIRONMENT, id_, version, kind, moment)]
    for id_, environment, version, moment in opened:
        written[environment].append((SESSION, id_, version, "", moment))
    return users, written
