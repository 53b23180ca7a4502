"""The metadata repository in a process: its store, and ``vetro repository serve``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.engine import library_path
from vetro.server.errors import StartError
from vetro.server.settings import Settings

if TYPE_CHECKING:
    from vetro.repository import Repository
    from vetro.storage import Database


def definitions_of(settings: Settings, database: Database) -> Repository:
    """The store of definitions. Errors: ``StartError`` for settings that cannot be used."""
    from vetro.repository import Repository

    try:
        return Repository(database, settings.repository, library_path() / "v03")
    except ValueError as error:
        raise StartError(str(error), "docs/settings.md describes [repository].") from error
