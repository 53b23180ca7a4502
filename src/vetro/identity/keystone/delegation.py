"""Acting as a user for longer than their token lives: an application credential for each task.

Only stacks are created with the token itself: Heat makes a trust of its own then, and Keystone refuses that
to users who signed in with an application credential or a trust (decisions 0336 and 0393).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from vetro.http import Forbidden, Principal, ServiceUnavailable
from vetro.http.client import Response
from vetro.openstack import (
    ApplicationCredential,
    KeystonePlace,
    OpenStackError,
    RequestRefused,
    Session,
)

log = structlog.get_logger(__name__)
ATTEMPTS = 3
#: A busy Keystone (Zed) has given a member's credential the roles of another caller (`admin`, `service`),
#: found that they are not the member's, and refused; we name no role. Asked again it does not.
_OTHER_ROLES = "Could not find role assignment"


@dataclass(eq=False, repr=False)
class KeystoneDelegations:
    """`Delegations` at a Keystone. ``session``: Vetro's own; ``hours``: the life of a credential; ``tokens``:
    whether a task gets its user's token, too."""

    session: Session
    place: KeystonePlace
    hours: float
    _: KW_ONLY
    tokens: bool = True

    async def grant(self, principal: Principal) -> dict[str, str]:
        """An application credential of the caller for the project of the token; empty for Vetro's own
        tasks, which no token asked for. Errors: `Forbidden`, `ServiceUnavailable`."""
        if not principal.token:
            return {}
        ends = datetime.now(UTC) + timedelta(hours=self.hours)
        body = {
            "name": f"vetro-{secrets.token_hex(8)}",
            "description": "A deployment of Vetro; removed when it has ended",
            "expires_at": ends.strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
            # It removes itself at the end.
            "unrestricted": True,
        }
        try:
            response = await self._ask(principal, body)
        except RequestRefused as error:
            raise Forbidden(
                f"Keystone does not let this token act for longer than it lives: {error}. Sign in with a"
                " password, or with an application credential that is unrestricted"
            ) from error
        except OpenStackError as error:
            raise ServiceUnavailable(
                f"A deployment has to act as you at OpenStack: {error}",
                headers={"Retry-After": "5"},
            ) from error
        assert response is not None
        made: dict[str, Any] = response.json()["application_credential"]
        return {
            "id": made["id"],
            "secret": made["secret"],
            "user_id": principal.user_id,
            "project_id": principal.project_id,
            **({"token": principal.token} if self.tokens else {}),
        }

    async def _ask(self, principal: Principal, body: dict[str, Any]) -> Response | None:
        for left in reversed(range(ATTEMPTS)):
            try:
                return await self.session.request(
                    "identity",
                    "POST",
                    f"/users/{principal.user_id}/application_credentials",
                    json={"application_credential": body},
                    headers={"X-Auth-Token": principal.token},
                )
            except RequestRefused as error:
                if not left or _OTHER_ROLES not in str(error):
                    raise
                log.warning("application_credential_asked_again", error=str(error))
        raise AssertionError("unreachable")

    async def revoke(self, delegation: dict[str, str]) -> None:
        """See `end_delegation`."""
        await end_delegation(self.place, delegation)


async def end_delegation(place: KeystonePlace, delegation: Mapping[str, str]) -> None:
    """Remove a credential, as the user it acts for; when that fails it expires."""
    given = ApplicationCredential(delegation["id"], delegation["secret"])
    try:
        async with place.session(given) as session:
            await session.request(
                "identity",
                "DELETE",
                f"/users/{delegation['user_id']}/application_credentials/{given.id}",
                absent=(404,),
            )
    except OpenStackError as error:
        log.warning("application_credential_left", id=given.id, error=str(error))
