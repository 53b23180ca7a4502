"""The calls of upgrades: newer versions of packages, previews, moves (docs/api-guide.md)."""

from __future__ import annotations

from vetro.environments import bodies, shapes
from vetro.environments.endpoint import MODEL_LIMIT, Call, E, Endpoint
from vetro.environments.model import Json


async def of_project(call: Call) -> Json:
    """The applications of the project that have newer versions, by environment."""
    found = await call.service.upgrades.of_project(call.principal)
    return await call.model_response({"environments": found})


async def listing(call: Call) -> Json:
    """The applications of an environment, their versions and the newer ones."""
    found = await call.service.upgrades.listing(call.principal, call.environment, call.session)
    return await call.model_response({"applications": found})


async def preview(call: Call) -> Json:
    """What an upgrade would change, and what would not work then; nothing is changed."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    found = await call.service.upgrades.preview(
        call.principal, call.environment, call.session, body
    )
    return await call.model_response(found)


async def upgrade(call: Call) -> Json:
    """Move applications to other versions of their packages, with the session's next deploy."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    found = await call.service.upgrades.upgrade(
        call.principal, call.environment, call.session, body
    )
    return await call.model_response(found)


async def fixed(call: Call) -> Json:
    """The versions of packages, of required ones too, that the next deploy prefers."""
    found = await call.service.upgrades.fixed(call.principal, call.environment, call.session)
    return {"packages": found}


async def fix(call: Call) -> Json:
    """Set the versions of packages that the first deploy prefers, in a session."""
    body = await call.json()
    found = await call.service.upgrades.fix(call.principal, call.environment, call.session, body)
    return {"packages": found}


_ALL = E + "/upgrades"
_FIXED = E + "/packages"

ENDPOINTS = [
    Endpoint("list_project_upgrades", "GET", "/v1/upgrades", of_project,
             reply=shapes.PROJECT_UPGRADABLES),
    Endpoint("list_upgrades", "GET", _ALL, listing, bodies.SESSION,
             reply=shapes.UPGRADABLES),
    Endpoint("preview_upgrade", "POST", _ALL + "/preview", preview, bodies.SESSION, bodies.UPGRADE,
             reply=shapes.UPGRADE, errors=(504,)),
    Endpoint("list_fixed_packages", "GET", _FIXED, fixed, bodies.SESSION, reply=shapes.FIXED),
    Endpoint("fix_packages", "PUT", _FIXED, fix, bodies.SESSION, bodies.FIX_PACKAGES,
             reply=shapes.FIXED, errors=(409,)),
    Endpoint("upgrade_applications", "POST", _ALL, upgrade, bodies.SESSION, bodies.UPGRADE,
             reply=shapes.UPGRADE, errors=(409, 504)),
]  # fmt: skip
