"""Snapshots and backups of volumes at a real Cinder (core-library.md §5.6)."""

from __future__ import annotations

from urllib.parse import quote

from vetro.openstack import Session
from vetro.stacks.heat.offers import VOLUMES
from vetro.stacks.heat.patience import Patience


class CinderDirectory:
    """The copies of volumes in the project that the session is scoped to."""

    def __init__(self, session: Session, *, patience: Patience | None = None) -> None:
        self._session = session
        self._patience = patience or Patience()

    async def exists(self, project_id: str, kind: str, id_: str) -> bool:
        """Whether the project has a ``snapshot`` or ``backup`` of this id that can be used.

        Cinder shows a session those of its own project only. Errors: `OpenStackError`, `StackError`.
        """
        path = f"/{kind}s/{quote(id_, safe='')}"

        async def ask() -> str:
            # 400: what is no uuid.
            answer = await self._session.request(VOLUMES, "GET", path, absent=(400, 404))
            return "" if answer is None else str(answer.json()[kind]["status"])

        return await self._patience.ask(ask, f"Looking for the volume {kind} {id_}") == "available"
