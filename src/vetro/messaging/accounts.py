"""Users of guests at a RabbitMQ, made through its management API (guest-agent.md, "Beyond upstream").

A guest's user has the name of its queue. It may read that queue and write to the exchange of the same
name, which brings results to the region's result queue; it may declare nothing, and reaches neither the
queues of other guests nor the default exchange, through which it could send them plans.
"""

from __future__ import annotations

import base64
import re
from urllib.parse import quote

from vetro.messaging.broker import BrokerSettings
from vetro.messaging.errors import BrokerUnreachable


class GuestAccounts:
    """Makes and removes the users of one broker's guests.

    Errors of every method: ``BrokerUnreachable`` when the API refuses, which a repetition would not
    change; ``ConnectionError`` when it does not answer now.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings

    async def grant(self, queue: str, password: str) -> None:
        """Make the guest's user, or give it this password and these permissions again."""
        user, place = quote(queue, safe=""), quote(self.settings.virtual_host, safe="")
        own = f"^{re.escape(queue)}$"
        await self._call("PUT", f"/api/users/{user}", {"password": password, "tags": ""})
        rights = {"configure": "^$", "write": own, "read": own}
        await self._call("PUT", f"/api/permissions/{place}/{user}", rights)

    async def remove(self, queue: str) -> None:
        """Remove the guest's user, which closes its connections. Idempotent."""
        await self._call("DELETE", f"/api/users/{quote(queue, safe='')}", None)

    async def _call(self, method: str, path: str, document: object) -> None:
        from vetro.http.client import HttpClient, TransportError  # guests on HTTP do not need it

        settings = self.settings
        address = settings.management_url.rstrip("/")
        login = f"{settings.login}:{settings.password}".encode()
        headers = {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
        tls = settings.trust() if address.startswith("https:") else None
        try:
            async with HttpClient(timeout_seconds=settings.patience, tls=tls) as client:
                answer = await client.request(
                    method, f"{address}{path}", headers=headers, json=document
                )
        except TransportError as error:
            raise ConnectionError(f"its management API does not answer: {error}") from error
        if answer.status >= 500:
            raise ConnectionError(
                f"its management API answers {answer.status}: {answer.text[:200]}"
            )
        if answer.status == 404 and method == "DELETE":
            return
        if answer.status >= 400:
            advice = ""
            if answer.status in (401, 403):
                advice = f"; the user {settings.login} needs the tag administrator there"
            raise BrokerUnreachable(
                repr(settings),
                f"its management API {address} answers {answer.status}: {answer.text[:200]}{advice}",
            )
