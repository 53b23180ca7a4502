"""Deleting a project: refused while it has resources, unless forced; then these are removed first.

Identity does not know environments or networks: other rooms implement ``ProjectHoldings``, which
names and removes a project's resources. A forced deletion disables the project at once (its tokens
end, it can create nothing new) and then is work in a lease queue, which survives restarts: each
turn removes what can be removed, until nothing is left and the project's own row is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import structlog
from sqlalchemy import select

from vetro.http import Conflict
from vetro.identity import store
from vetro.identity.tables import projects
from vetro.identity.tokens import TokenStore
from vetro.storage import (
    AlreadyQueued,
    Database,
    Lease,
    LeaseQueue,
    StorageError,
    Transaction,
    Worker,
)

log = structlog.get_logger("vetro.identity")

QUEUE = "project-removals"
LEASE_SECONDS = 120.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 300.0
"""Between two turns: the pause doubles while nothing changes."""
NAMED = 5
"""Resources of a kind that a refusal names; the others are counted."""

Names = Mapping[str, Sequence[str]]


class ProjectHoldings(Protocol):
    """The resources of projects in the other rooms."""

    async def names(self, tx: Transaction, project_id: str) -> Names:
        """The names of a project's resources, by kind in the plural; empty kinds are absent."""
        ...

    async def remove(self, project_id: str, asked_by: str) -> None:
        """Remove the resources that can be removed now, and start the removal of the others.

        ``asked_by``: the name of the requester. Called again until ``names`` finds nothing.
        """
        ...

    async def clear(self, tx: Transaction, project_id: str) -> None:
        """Remove rows that ``names`` does not count, together with the project's own row."""
        ...


class NoHoldings:
    """For an identity service that stands alone: no project has resources."""

    async def names(self, tx: Transaction, project_id: str) -> Names:
        """Return nothing."""
        return {}

    async def remove(self, project_id: str, asked_by: str) -> None:
        """Do nothing."""

    async def clear(self, tx: Transaction, project_id: str) -> None:
        """Do nothing."""


def in_words(found: Names) -> str:
    """A project's resources as text: counts and some names."""
    parts: list[str] = []
    for kind, names in found.items():
        noun = kind if len(names) != 1 else _singular(kind)
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        parts.append(f"{len(names)} {noun} ({', '.join(names[:NAMED])}{more})")
    return ", ".join(parts)


def _singular(kind: str) -> str:
    return kind.removesuffix("es") if kind.endswith("sses") else kind.removesuffix("s")


class ProjectRemoval:
    """Deletes projects."""

    def __init__(
        self, database: Database, tokens: TokenStore, holdings: ProjectHoldings | None = None
    ) -> None:
        self.database = database
        self.tokens = tokens
        self.holdings: ProjectHoldings = holdings or NoHoldings()
        self.queue = LeaseQueue(database, QUEUE)

    async def delete(self, project_id: str, user_id: str, user: str, *, force: bool) -> bool:
        """Delete a project. ``True``: it is deleted; ``False``: it is deleted in the background.

        Errors: 404; 409 when it has resources, without ``force``.
        """
        async with self.database.transaction() as tx:
            row = await store.find(tx, "project", project_id)
            found = await self.holdings.names(tx, project_id)
            if found and not force:
                raise Conflict(
                    f"Project {row.name} still has {in_words(found)}. Delete them first; with "
                    "force=true its environments are destroyed, and everything else that it has is deleted",
                    type_="ProjectInUse",
                    extra={"holdings": {kind: list(names) for kind, names in found.items()}},
                )
            if found:
                await store.change(tx, "project", project_id, {"enabled": False})
                payload = {"user": user, "user_id": user_id}
                # Requested again: queue it again, so that the next turn comes at once.
                await self.queue.withdraw(tx, [project_id])
                try:
                    await self.queue.enqueue(tx, project_id, payload)
                except AlreadyQueued:
                    log.debug("project_removal_runs", project=project_id)
            else:
                await self._forget(tx, project_id)
            await self.tokens.forget(tx)
        log.log(
            30 if found else 20,
            "project_deletion_forced" if found else "project_deleted",
            project=project_id,
            project_name=row.name,
            user=user_id,
            user_name=user,
            **({"holdings": in_words(found)} if found else {}),
        )
        return not found

    async def _forget(self, tx: Transaction, project_id: str) -> None:
        await self.holdings.clear(tx, project_id)
        await store.remove(tx, "project", project_id)

    def worker(self, owner: str) -> Worker:
        """Carries out forced deletions, a turn at a time."""
        return Worker(self.queue, 1, self._turn, owner=owner, ttl_seconds=LEASE_SECONDS)

    async def _turn(self, lease: Lease) -> None:
        asked = cast("dict[str, object]", lease.payload)
        if await self._is_wanted(lease):
            async with self.queue.hold(lease):
                await self._remove(lease.key, str(asked["user"]))
        await self._end(lease, asked)

    async def _remove(self, project_id: str, asked_by: str) -> None:
        try:
            await self.holdings.remove(project_id, asked_by)
        except StorageError:
            raise
        except Exception:
            # The service and the other removals continue; this one is tried again.
            log.exception("project_removal_failed", project=project_id)

    async def _is_wanted(self, lease: Lease) -> bool:
        """Whether the project exists and was not enabled again since."""
        async with self.database.read() as tx:
            found = await tx.execute(select(projects).where(projects.c.id == lease.key))
            row = found.first()
        return row is not None and not row.enabled

    async def _end(self, lease: Lease, asked: dict[str, Any]) -> None:
        """Delete the project, or schedule the next turn."""
        async with self.database.transaction() as tx:
            await self.queue.complete(tx, lease)
            found = await tx.execute(select(projects).where(projects.c.id == lease.key))
            row = found.first()
            if row is None:
                return
            left: Names = {} if row.enabled else await self.holdings.names(tx, lease.key)
            words = in_words(left)
            if left:
                same = words == asked.get("left")
                pause = float(asked.get("pause", 0.0)) * 2 if same else 0.0
                pause = min(max(pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
                payload = {**asked, "left": words, "pause": pause}
                await self.queue.enqueue(tx, lease.key, payload, delay_seconds=pause)
            elif not row.enabled:
                await self._forget(tx, lease.key)
                await self.tokens.forget(tx)
        said = {"project": lease.key, "project_name": row.name, "user": asked["user_id"]}
        if row.enabled:
            log.info("project_removal_stopped", **said, reason="the project was enabled again")
        elif not left:
            log.info("project_deleted", **said)
        elif words != asked.get("left"):
            log.info("project_removal_goes_on", **said, holdings=words)
