"""Limits of projects, and the gate that takes care that none is passed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import (
    BigInteger,
    Column,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    bindparam,
    delete,
    insert,
    select,
)

from vetro.http import Forbidden, counter
from vetro.storage import Prepared, Transaction

UNLIMITED = -1
"""The limit that is none, as OpenStack writes it."""
MOST = 2**53
"""No limit is larger: programs in the browser read it."""
UNITS = {"memory": "MiB", "disk": "GiB"}
"""What a resource is measured in; the others are counted."""
REFUSED = counter(
    "vetro_quota_refusals",
    "Requests that a quota refused.",
    resource="What the project may have no more of: `instances`, `cores` and so on.",
)

#: What a project has of the resources that are named: ``count(tx, project_id, names)``.
Count = Callable[[Transaction, str, Collection[str]], Awaitable[Mapping[str, int]]]


class QuotaExceeded(Forbidden):
    """403, as OpenStack's compute service answers: the project would have more than it may."""

    def __init__(self, resource: str, *, used: int, asked: int, limit: int) -> None:
        unit = UNITS.get(resource, "")
        of = f"{limit} {unit}".rstrip()
        super().__init__(
            f"Quota exceeded for {resource}: {used} of {of} used, {asked} more requested; remove some"
            " that are not needed, or ask an administrator for more ('vetro quota set')",
            type_="QuotaExceeded",
            extra={"quota": {"resource": resource, "used": used, "asked": asked, "limit": limit}},
        )


@dataclass(frozen=True)
class Usage:
    """What a project has of a resource, may have (-1: any amount), and may have by the settings."""

    used: int
    limit: int
    default: int


def quota_table(name: str, metadata: MetaData) -> Table:
    """A room's table of the limits that differ from the settings."""
    return Table(
        name,
        metadata,
        Column("project_id", String(64), nullable=False),
        Column("resource", String(32), nullable=False),
        Column("amount", BigInteger, nullable=False),
        PrimaryKeyConstraint("project_id", "resource"),
    )


class Quotas:
    """The limits of projects on some resources; ``defaults``: those of the settings, by resource."""

    def __init__(self, table: Table, defaults: Mapping[str, int], count: Count) -> None:
        self.table = table
        self.defaults = dict(defaults)
        self._count = count
        columns = table.c
        self._own = Prepared(
            select(columns.project_id, columns.resource, columns.amount).where(
                columns.project_id.in_(bindparam("projects", expanding=True))
            )
        )

    async def usage(self, tx: Transaction, project_id: str) -> dict[str, Usage]:
        """What a project has and may have, by resource."""
        limits = (await self._limits(tx, [project_id]))[project_id]
        used = await self._count(tx, project_id, list(limits))
        return {
            name: Usage(used[name], limit, self.defaults[name]) for name, limit in limits.items()
        }

    async def change(
        self, tx: Transaction, project_id: str, amounts: Mapping[str, int | None]
    ) -> None:
        """Give a project limits of its own; ``None``: the settings' again. What it has stays."""
        mine = self.table.c.project_id == project_id
        await tx.exclude(f"quotas/{self.table.name}/{project_id}")
        await tx.execute(delete(self.table).where(mine, self.table.c.resource.in_(list(amounts))))
        rows = [
            {"project_id": project_id, "resource": name, "amount": amount}
            for name, amount in amounts.items()
            if amount is not None
        ]
        if rows:
            await tx.execute(insert(self.table), rows)

    async def reset(self, tx: Transaction, project_id: str) -> None:
        """Forget the limits that a project has of its own."""
        await tx.execute(delete(self.table).where(self.table.c.project_id == project_id))

    async def gate(self, tx: Transaction, projects: Iterable[str], *, waiting: bool = True) -> Gate:
        """Admits what projects ask for within ``tx``, which makes it as well.

        Until ``tx`` ends no other process admits anything for those of the projects that have limits,
        so that two requests never both take the last place. ``waiting`` false: without waiting, for an
        answer that reserves nothing.
        """
        limits = {
            project: limited
            for project, every in (await self._limits(tx, sorted({*projects} - {""}))).items()
            if (limited := {name: limit for name, limit in every.items() if limit != UNLIMITED})
        }
        if waiting and limits:
            await tx.exclude(*(f"quotas/{self.table.name}/{project}" for project in limits))
        used = {
            project: dict(await self._count(tx, project, list(limited)))
            for project, limited in limits.items()
        }
        return Gate(limits, used)

    async def admit(self, tx: Transaction, project_id: str, **asked: int) -> None:
        """Admit one request that ``tx`` carries out. Errors: 403 QuotaExceeded."""
        (await self.gate(tx, [project_id])).admit(project_id, asked)

    async def _limits(
        self, tx: Transaction, projects: Collection[str]
    ) -> dict[str, dict[str, int]]:
        found = {project: dict(self.defaults) for project in projects}
        if found:
            for row in await tx.execute(self._own, {"projects": list(projects)}):
                if row.resource in self.defaults:
                    found[row.project_id][row.resource] = row.amount
        return found


@dataclass
class Gate:
    """What projects may have and have; it counts what it admits."""

    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    used: Mapping[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    def admit(self, project_id: str, asked: Mapping[str, int]) -> None:
        """Admit a request, or nothing of it. Errors: 403 QuotaExceeded."""
        limits, used = self.limits.get(project_id, {}), self.used.get(project_id, {})
        for name, number in asked.items():
            limit = limits.get(name, UNLIMITED)
            if limit != UNLIMITED and number > 0 and used[name] + number > limit:
                REFUSED.labels(name).inc()
                raise QuotaExceeded(name, used=used[name], asked=number, limit=limit)
        for name, number in asked.items():
            if name in limits:
                used[name] += number

    def give_back(self, project_id: str, held: Mapping[str, int]) -> None:
        """Count no more what a project will have let go."""
        used = self.used.get(project_id, {})
        for name in used.keys() & held.keys():
            used[name] -= held[name]
