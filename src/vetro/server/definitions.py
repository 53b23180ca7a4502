"""The metadata repository in a process: its store, and ``vetro repository serve``."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from vetro.engine import library_path
from vetro.server.alone import run_alone, serve_alone
from vetro.server.errors import StartError
from vetro.server.installation import open_database
from vetro.server.listeners import port_of, url_at
from vetro.server.policies import policy_of
from vetro.server.settings import Settings

if TYPE_CHECKING:
    from vetro.http import ConnectionLimits
    from vetro.repository import Repository
    from vetro.storage import Database


def definitions_of(settings: Settings, database: Database) -> Repository:
    """The store of definitions. Errors: ``StartError`` for settings that cannot be used."""
    from vetro.repository import Repository

    try:
        return Repository(database, settings.repository, library_path() / "v03")
    except ValueError as error:
        raise StartError(str(error), "docs/settings.md describes [repository].") from error


def run_repository(settings: Settings) -> int:
    """``vetro repository serve``: the repository alone, at ``/v1``, until a signal; the exit code.

    It uses the database, the identity and the data directory of the installation. Errors:
    ``StartError``.
    """
    return run_alone(
        settings, "repository", settings.repository.host, settings.repository.port, _serve
    )


async def _serve(settings: Settings, listener: socket.socket, limits: ConnectionLimits) -> None:
    from vetro import identity
    from vetro.repository import DefinitionsMissing, repository_face, repository_policy

    async with open_database(settings) as database:
        repository = definitions_of(settings, database)
        try:
            await repository.prepare()
        except DefinitionsMissing as error:
            raise StartError(str(error), "See repository.manifests.") from error
        tokens = identity.Identity(database, settings.identity).authenticator()
        url = url_at(settings.repository.host, port_of(listener))
        face = repository_face(
            repository,
            tokens,
            prefix="",
            policy=policy_of(settings, repository_policy),
            debug=settings.server.debug,
        )
        said = f"The metadata repository listens on {url}/v1"
        await serve_alone(settings, listener, limits, [face], database, said)
