"""The HTTP face of the metadata repository: at ``/repository/v1``, or alone at ``/v1``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from litestar import Litestar

from vetro.http import (
    REPOSITORY_CONVENTIONS,
    REPOSITORY_FAULTS,
    Authenticator,
    Face,
    Policy,
    make_face,
)
from vetro.repository.endpoints import RULES, repository_handlers
from vetro.repository.store import Repository


def repository_policy(file: Path | None = None) -> Policy:
    """Who may fetch (``client:*``) and administer (``admin:*``): every member, unless a file says else.

    Errors: ``PolicyError``.
    """
    return Policy(RULES, file)


def repository_face(
    repository: Repository,
    authenticator: Authenticator,
    *,
    prefix: str = "/repository",
    policy: Policy | None = None,
    identity_url: str = "",
    debug: bool = False,
) -> Face:
    """The repository below a prefix; '' for a process of its own."""

    @asynccontextmanager
    async def prepared(_app: Litestar) -> AsyncGenerator[None, None]:
        await repository.prepare()
        yield

    return make_face(
        name="repository",
        prefix=prefix,
        title="Vetro metadata repository",
        handlers=repository_handlers(repository, policy or repository_policy()),
        authenticator=authenticator,
        faults=REPOSITORY_FAULTS,
        conventions=REPOSITORY_CONVENTIONS,
        www_authenticate=f'Keystone uri="{identity_url}"' if identity_url else "",
        debug=debug,
        lifespan=[prepared],
        compresses=True,
    )
