"""Validates tokens at a Keystone, from a cache of bounded life."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from vetro.http import Principal, ServiceUnavailable, counter
from vetro.identity.passwords import digest
from vetro.openstack import LoginRefused, RequestRefused, ServiceAway, Session

VALIDATIONS = counter(
    "vetro_keystone_validations",
    "Tokens that were looked up at Keystone.",
    outcome="`valid`, `invalid`, or `unanswered` when Keystone gave no usable answer.",
)


CACHE_ENTRIES = 2000
_TOKEN = re.compile(r"[!-~]{1,8192}")
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Known:
    principal: Principal | None
    until: float
    """By the monotonic clock."""


@dataclass(eq=False, repr=False)
class KeystoneTokens:
    """The `Authenticator` of the faces when identity is a Keystone's.

    An answer is used for ``cache_seconds``: so long may a token that was revoked still be taken. Requests
    that come with one token at once are one validation. Errors: `ServiceUnavailable` when Keystone
    does not answer or refuses the service user: nobody can say then whether a token is valid.
    """

    session: Session
    _: KW_ONLY
    cache_seconds: float = 10.0
    admin_role: str = "admin"
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._cache: OrderedDict[str, _Known] = OrderedDict()
        self._asked: dict[str, asyncio.Task[Principal | None]] = {}

    async def authenticate(self, token: str) -> Principal | None:
        """The principal; ``None`` for a token that Keystone does not know, or without a project."""
        if not _TOKEN.fullmatch(token):
            return None  # no header can carry it
        key = digest(token)
        known = self._cache.get(key)
        if known is not None and self.monotonic() < known.until:
            return known.principal
        asked = self._asked.get(key)
        if asked is None:
            asked = asyncio.create_task(self._ask(key, token), name="keystone validation")
            self._asked[key] = asked
            asked.add_done_callback(lambda done: self._answered(key, done))
        # A request that ends early must not take the answer away from the others.
        return await asyncio.shield(asked)

    def forget(self, token: str) -> None:
        """Ask Keystone again at the next request with a token."""
        self._cache.pop(digest(token), None)

    def _answered(self, key: str, done: asyncio.Task[Principal | None]) -> None:
        self._asked.pop(key, None)
        if not done.cancelled():
            done.exception()  # every request that waited has it; there may be none left

    async def _ask(self, key: str, token: str) -> Principal | None:
        try:
            response = await self.session.request(
                "identity",
                "GET",
                "/auth/tokens",
                params={"nocatalog": "1"},
                headers={"X-Subject-Token": token},
                absent=(404,),
            )
        except (ServiceAway, LoginRefused, RequestRefused) as error:
            if isinstance(error, RequestRefused) and error.status != 403:
                # 403 is about the service user, who was signed in for this; the others about the token.
                return self._keep(key, None, None)
            VALIDATIONS.labels("unanswered").inc()
            log.warning("token_not_validated", error=str(error))
            raise ServiceUnavailable(
                f"Whether the token is valid cannot be checked: {error}.",
                headers={"Retry-After": "5"},
            ) from error
        if response is None:
            return self._keep(key, None, None)
        body: Mapping[str, object] = response.json()["token"]
        return self._keep(
            key, principal_from(body, token, self.admin_role), str(body["expires_at"])
        )

    def _keep(self, key: str, principal: Principal | None, ends: str | None) -> Principal | None:
        VALIDATIONS.labels("invalid" if principal is None else "valid").inc()
        life = self.cache_seconds
        if ends is not None:
            expires = datetime.fromisoformat(ends.replace("Z", "+00:00"))
            life = min(life, (expires - datetime.now(UTC)).total_seconds())
        self._cache[key] = _Known(principal, self.monotonic() + life)
        self._cache.move_to_end(key)
        if len(self._cache) > CACHE_ENTRIES:
            self._cache.popitem(last=False)
        return principal


def principal_from(
    body: Mapping[str, Any], token: str, admin_role: str = "admin"
) -> Principal | None:
    """The caller that Keystone's description of a token means; ``None`` when it has no project.

    Vetro's role ``admin`` is what Keystone calls ``admin_role``; another role of the name gives nothing.
    """
    project = body.get("project")
    if not project:
        return None
    roles = {str(one["name"]) for one in body.get("roles", [])}
    if admin_role in roles:
        roles.add("admin")
    elif admin_role != "admin":
        roles.discard("admin")
    return Principal(
        user_id=body["user"]["id"],
        user_name=body["user"]["name"],
        project_id=project["id"],
        project_name=project["name"],
        domain_id=body["user"]["domain"]["id"],
        roles=frozenset(roles),
        token=token,
    )
