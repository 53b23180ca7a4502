"""The key manager of forms: keeps what ``encryptData()`` is given for ``decryptData()`` (forms B6).

A model has only the reference; the secret is a sealed row of the project (docs/secrets.md). It goes with
the environment that it was entered for, or with the project.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import insert, select

from vetro.environments.model import new_id
from vetro.environments.tables import form_secrets
from vetro.packages.forms import FormError
from vetro.storage import Database

MOST = 100
"""Secrets that one object may have: a form that asks for more is wrong."""


class Encrypted:
    """The secrets of one object while it is built: ``encrypt`` gives references; nothing is stored."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def encrypt(self, text: str) -> str:
        """A reference to a secret. Errors: ``FormError`` for more than `MOST`."""
        if len(self.kept) >= MOST:
            raise FormError(f"encryptData() keeps at most {MOST} secrets of one object")
        reference = new_id()
        self.kept[reference] = text
        return reference


class FormSecrets:
    """The secrets of all projects."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def keep(
        self, project_id: str, environment_id: str | None, kept: Mapping[str, str]
    ) -> None:
        """Store secrets by their references."""
        if not kept:
            return
        shared = {
            "project_id": project_id,
            "environment_id": environment_id,
            "created": self.database.clock.now(),
        }
        rows = [{"id": id_, "secret": text, **shared} for id_, text in kept.items()]
        async with self.database.transaction() as tx:
            await tx.execute(insert(form_secrets).values(rows))

    async def read(self, project_id: str, reference: str) -> str | None:
        """A secret of the project; ``None``: there is none with this reference."""
        query = select(form_secrets.c.secret).where(
            form_secrets.c.id == reference, form_secrets.c.project_id == project_id
        )
        async with self.database.read() as tx:
            row = (await tx.execute(query)).first()
        return None if row is None else str(row.secret)
