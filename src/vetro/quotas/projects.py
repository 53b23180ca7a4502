"""The quotas of projects in all rooms, as administrators and projects see them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from vetro.http import BadRequest, NotFound
from vetro.quotas.limits import MOST, UNITS, UNLIMITED, Quotas, Usage
from vetro.storage import Database, Transaction


class ProjectQuotas:
    """Quotas of rooms on one database; ``exists``: whether there is a project, when that is known."""

    def __init__(
        self,
        database: Database,
        rooms: Sequence[Quotas],
        exists: Callable[[str], Awaitable[bool]] | None = None,
    ) -> None:
        self.database = database
        self.rooms = rooms
        self._exists = exists

    async def show(self, project_id: str) -> dict[str, Any]:
        """What a project has and may have, by resource."""
        async with self.database.read() as tx:
            return await self._shown(tx, project_id)

    async def show_any(self, project_id: str) -> dict[str, object]:
        """The same for a project named by the caller. Errors: 404."""
        await self._need(project_id)
        return await self.show(project_id)

    async def change(self, project_id: str, body: object) -> dict[str, Any]:
        """Give a project limits of its own: ``{resource: number, or null for the settings'}``.

        A limit below what the project has is taken: it gets no more until it has less. Errors: 400, 404.
        """
        amounts = self._checked(body)
        await self._need(project_id)
        async with self.database.transaction() as tx:
            for room in self.rooms:
                mine = {name: amounts[name] for name in room.defaults if name in amounts}
                if mine:
                    await room.change(tx, project_id, mine)
            return await self._shown(tx, project_id)

    async def reset(self, project_id: str) -> None:
        """Let a project have the settings' limits again. Errors: 404."""
        await self._need(project_id)
        async with self.database.transaction() as tx:
            await self.forget_of_project(tx, project_id)

    async def forget_of_project(self, tx: Transaction, project_id: str) -> None:
        """Forget the limits of a deleted project."""
        for room in self.rooms:
            await room.reset(tx, project_id)

    async def _shown(self, tx: Transaction, project_id: str) -> dict[str, Any]:
        found: dict[str, Usage] = {}
        for room in self.rooms:
            found |= await room.usage(tx, project_id)
        quotas = {
            name: {
                "used": one.used,
                "limit": one.limit,
                "default": one.default,
                "unit": UNITS.get(name, ""),
                "enforced_by": "vetro",
            }
            for name, one in found.items()
        }
        return {"project_id": project_id, "quotas": quotas}

    async def _need(self, project_id: str) -> None:
        known = project_id.isprintable() and 0 < len(project_id) <= 64
        if known and self._exists is not None:
            known = await self._exists(project_id)
        if not known:
            raise NotFound(f"There is no project {project_id[:64]}", type_="ProjectNotFound")

    def _checked(self, body: object) -> Mapping[str, int | None]:
        known = [name for room in self.rooms for name in room.defaults]
        if not isinstance(body, dict):
            raise BadRequest(
                f"Quotas must be an object of numbers; its keys can be: {', '.join(known)}"
            )
        given = cast("dict[str, object]", body)
        for name, amount in given.items():
            if name not in known:
                raise BadRequest(
                    f"There is no quota for {name[:64]!r}; there are: {', '.join(known)}"
                )
            whole = isinstance(amount, int) and not isinstance(amount, bool)
            if amount is not None and not (whole and UNLIMITED <= cast("int", amount) <= MOST):
                raise BadRequest(
                    f"The quota for {name} must be a whole number from 0 to {MOST}, -1 for any amount,"
                    f" or null for the default, not {amount!r:.40}"
                )
        return cast("dict[str, int | None]", given)
