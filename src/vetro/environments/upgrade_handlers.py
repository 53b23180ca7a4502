"""HTTP of upgrades: newer versions of packages, previews, moves (docs/api.md)."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get, post
from litestar.params import FromPath

from vetro.environments import bodies
from vetro.environments.handlers import MODEL_LIMIT, model_response, session_of
from vetro.environments.upgrading import Upgrades
from vetro.http import principal_of, read_json

AnyRequest = Request[Any, Any, Any]


def upgrade_handlers(upgrades: Upgrades) -> list[Any]:
    """The handlers of upgrades."""

    @get("/v1/upgrades")
    async def of_project(request: AnyRequest) -> Response[Any]:
        """The applications of the project that have newer versions, by environment."""
        found = await upgrades.of_project(principal_of(request))
        return await model_response({"environments": found})

    base = "/v1/environments/{environment_id:str}/upgrades"

    @get(base, operation_class=bodies.READ)
    async def listing(request: AnyRequest, environment_id: FromPath[str]) -> Response[Any]:
        """The applications of an environment, their versions and the newer ones."""
        found = await upgrades.listing(principal_of(request), environment_id, session_of(request))
        return await model_response({"applications": found})

    @post(base + "/preview", status_code=200, operation_class=bodies.UPGRADE)
    async def preview(request: AnyRequest, environment_id: FromPath[str]) -> Response[Any]:
        """What an upgrade would change, and what would not work then; nothing is changed."""
        body = await read_json(request, limit_bytes=MODEL_LIMIT)
        found = await upgrades.preview(
            principal_of(request), environment_id, session_of(request), body
        )
        return await model_response(found)

    @post(base, status_code=200, operation_class=bodies.UPGRADE)
    async def upgrade(request: AnyRequest, environment_id: FromPath[str]) -> Response[Any]:
        """Move applications to other versions of their packages, with the session's next deploy."""
        body = await read_json(request, limit_bytes=MODEL_LIMIT)
        found = await upgrades.upgrade(
            principal_of(request), environment_id, session_of(request), body
        )
        return await model_response(found)

    return [of_project, listing, preview, upgrade]
