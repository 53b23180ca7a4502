"""One credential at one Keystone: its token, its service catalog, and requests with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import urlsplit

from vetro.http.client import HttpClient, Response, TransportError
from vetro.json_values import Json
from vetro.openstack.credentials import Credential
from vetro.openstack.errors import LoginRefused, NotInCatalog, RequestRefused, ServiceAway

#: A token is renewed when it has less than this left: a request that it is sent with takes a while.
MARGIN = timedelta(seconds=60)
LIMIT_SECONDS = 30.0


@dataclass(frozen=True)
class Login:
    """A token, and what Keystone says of it."""

    token: str
    body: Mapping[str, Json]
    renew: float
    """When to get another, by the monotonic clock."""


def explanation(response: Response) -> str:
    """What a service says in a refusal: each has its own shape of it."""
    try:
        body: Json = response.json()
    except ValueError:
        body = None
    if isinstance(body, dict):
        found = cast("dict[str, Json]", body)
        for key in ("error", "NeutronError", *found):
            inner = found.get(key)
            if isinstance(inner, dict) and isinstance(inner.get("message"), str):  # pyright: ignore[reportUnknownMemberType]
                return str(inner["message"])  # pyright: ignore[reportUnknownArgumentType]
        for key in ("message", "explanation", "title"):
            if isinstance(found.get(key), str):
                return str(found[key])
    return f"HTTP {response.status}: {response.text[:300]}"


class Session:
    """Requests to the services of a cloud with one credential.

    ``url`` is Keystone's, with or without ``/v3``. The token is got at the first request, renewed before
    it ends, and once more when a service does not take it any longer.
    """

    def __init__(
        self,
        url: str,
        credential: Credential,
        *,
        region: str = "",
        interface: str = "public",
        timeout_seconds: float = LIMIT_SECONDS,
        client: HttpClient | None = None,
    ) -> None:
        self.url = keystone_url(url)
        self.credential = credential
        self.region = region
        self.interface = interface
        self._own = client is None
        self._client = client or HttpClient(timeout_seconds=timeout_seconds)
        self._login: Login | None = None
        self._lock = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections."""
        if self._own:
            await self._client.close()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def login(self) -> Login:
        """The token and its description. Errors: `LoginRefused`, `ServiceAway`."""
        found = self._login
        if found is not None and time.monotonic() < found.renew:
            return found
        async with self._lock:
            if self._login is None or time.monotonic() >= self._login.renew:
                self._login = await self._log_in()
            return self._login

    async def project_id(self) -> str:
        """The project that the credential is scoped to."""
        return str((await self.login()).body["project"]["id"])

    async def user_id(self) -> str:
        """The user whose credential it is."""
        return str((await self.login()).body["user"]["id"])

    async def _log_in(self) -> Login:
        response = await self._send("Keystone", "POST", f"{self.url}/auth/tokens", json={
            "auth": self.credential.auth()
        })  # fmt: skip
        if response.status != 201:
            raise LoginRefused(
                f"Keystone at {self.url} refuses the {self.credential.who}: {explanation(response)}"
            )
        body: Mapping[str, Json] = response.json()["token"]
        ends = datetime.fromisoformat(str(body["expires_at"]).replace("Z", "+00:00"))
        left = (ends - datetime.now(UTC) - MARGIN).total_seconds()
        return Login(response.headers["x-subject-token"], body, time.monotonic() + max(left, 0))

    def forget(self) -> None:
        """Get a new token for the next request."""
        self._login = None

    async def endpoint(self, *types: str) -> str:
        """The address of a service, by the first of its types that the catalog has.

        Errors: `NotInCatalog` names the regions in which there is one.
        """
        elsewhere: set[str] = set()
        for type_ in types:
            for one in await self._endpoints(type_):
                if one.get("interface") != self.interface:
                    continue
                region = str(one.get("region_id"))
                if not self.region or region == self.region:
                    return one["url"].rstrip("/")
                elsewhere.add(region)
        where = f" in the region {self.region}" if self.region else ""
        known = f"; there is one in {', '.join(sorted(elsewhere))}" if elsewhere else ""
        raise NotInCatalog(
            f"The service catalog of {self.url} has no {self.interface} endpoint of the type"
            f" {types[0]}{where}{known}. Add it with 'openstack endpoint create'"
        )

    async def regions(self, type_: str) -> list[str]:
        """The regions that have a service."""
        return sorted({str(one.get("region_id")) for one in await self._endpoints(type_)})

    async def _endpoints(self, type_: str) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        catalog: list[dict[str, Json]] = (await self.login()).body.get("catalog") or []
        for service in catalog:
            if service.get("type") == type_:
                found += cast("list[dict[str, str]]", service.get("endpoints") or [])
        return found

    async def request(
        self,
        service: tuple[str, ...] | str,
        method: str,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        absent: tuple[int, ...] = (),
    ) -> Response | None:
        """Send a request to a service, by its type in the catalog (``identity``: this Keystone itself).

        ``None`` for a status in ``absent`` (404 of a thing that need not exist). Redirects within the
        service are followed; ``X-Auth-Token`` in ``headers`` is used in place of the session's. Errors:
        `RequestRefused`, `ServiceAway`, `LoginRefused`, `NotInCatalog`.
        """
        types = (service,) if isinstance(service, str) else service
        base = self.url if types == ("identity",) else await self.endpoint(*types)
        options: dict[str, object] = {"json": json, "params": params}
        response = await self._signed(types[0], method, base + path, options, headers)
        target = response.headers.get("location", "")
        # The token goes nowhere else. Heat leads from a stack's name to its id.
        if response.status in (302, 307, 308) and _origin(target) == _origin(base):
            options["params"] = None
            response = await self._signed(types[0], method, target, options, headers)
        if response.status in absent:
            return None
        if response.status >= 300:
            raise RequestRefused(response.status, explanation(response))
        return response

    async def _signed(
        self,
        service: str,
        method: str,
        url: str,
        options: Mapping[str, Any],
        headers: Mapping[str, str] | None,
    ) -> Response:
        if headers and "X-Auth-Token" in headers:
            return await self._send(service, method, url, headers=headers, **options)
        login = await self.login()
        sent = {"X-Auth-Token": login.token, **(headers or {})}
        response = await self._send(service, method, url, headers=sent, **options)
        if response.status != 401:
            return response
        # Ended before its time: revoked, or Keystone has other keys.
        if self._login is login:
            self.forget()
        sent["X-Auth-Token"] = (await self.login()).token
        return await self._send(service, method, url, headers=sent, **options)

    async def _send(
        self, service: str, method: str, url: str, *, json: object,
        params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None,
    ) -> Response:  # fmt: skip
        try:
            response = await self._client.request(
                method, url, json=json, params=params, headers=headers
            )
        except TransportError as error:
            raise ServiceAway(service, url, str(error)) from error
        # 429, and pages for people: what stands in front of a service speaks for it. Heat itself says 202
        # in HTML.
        page = response.headers.get("content-type", "").startswith("text/html")
        if response.status >= 500 or response.status == 429 or (page and response.status == 200):
            said = f"{response.status}, {explanation(response)}"
            raise ServiceAway(service, url, said)
        return response


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def keystone_url(url: str) -> str:
    """Keystone's address with the version of its API."""
    plain = url.rstrip("/")
    return plain if plain.endswith("/v3") else f"{plain}/v3"
