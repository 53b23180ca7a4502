"""The catalog API and the identity service, as the broker calls them for a user of the platform."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from vetro.broker.offers import Json, as_object
from vetro.broker.settings import CfapiSection
from vetro.http import (
    BadRequest,
    Fault,
    Forbidden,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
)
from vetro.http.client import HttpClient, Response, TransportError

#: Seconds that an accepted password is believed: hashing one takes the identity service long.
TOKEN_SECONDS = 60.0
ACCOUNTS = 256
RESULT_INTERVAL_SECONDS = 0.2
#: How often a request that changes nothing is sent when its connection ends.
ATTEMPTS = 3
NOTHING, ANYTHING = "", "*"
"""What a deployment may lose of machines, volumes and addresses."""
#: Ids of Keystone's other domains.
_ID = re.compile(r"[0-9a-f]{32}")
CHALLENGE = {"WWW-Authenticate": 'Basic realm="vetro"'}


class ConcurrencyError(Fault):
    """422: something is being deployed in the environment of the space."""

    status = 422

    def __init__(self, message: str) -> None:
        super().__init__(message, extra={"error": "ConcurrencyError"})


@dataclass(frozen=True)
class Account:
    """A user of the platform, logged in to the project of the settings."""

    token: str = field(repr=False)
    project_id: str
    catalog_url: str


def identity_url(given: str) -> str:
    """The address of the identity's version 3, whatever version is given."""
    base = given.rstrip("/")
    for ending in ("/v3", "/v2.0"):
        base = base.removesuffix(ending)
    return f"{base}/v3"


def domain(given: str) -> dict[str, str]:
    """A domain by its id if the text can be one, else by its name.

    The first domain of a Keystone is called Default, with the id default: as a name that is another
    one wherever the database distinguishes capitals.
    """
    return {"id" if given == "default" or _ID.fullmatch(given) else "name": given}


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")


class CatalogApi:
    """Calls with the rights of an account; one pool of connections for all."""

    def __init__(self, settings: CfapiSection, http: HttpClient, salt: bytes) -> None:
        """``salt``: of the digests by which accounts are remembered."""
        self.settings = settings
        self.http = http
        self._salt = salt
        self._known: dict[bytes, tuple[float, Account]] = {}

    async def log_in(self, user: str, password: str) -> Account:
        """The account of a name and a password. Errors: 401, 429, 503."""
        secret = hashlib.blake2b(f"{user}\0{password}".encode(), key=self._salt).digest()
        now = time.monotonic()
        until, account = self._known.get(secret, (0.0, None))
        if account is not None and now < until:
            return account
        account = await self._log_in(user, password)
        if len(self._known) >= ACCOUNTS:
            self._known.clear()
        self._known[secret] = (now + TOKEN_SECONDS, account)
        return account

    async def _log_in(self, user: str, password: str) -> Account:
        given = self.settings
        identity = {
            "methods": ["password"],
            "password": {
                "user": {
                    "name": user,
                    "password": password,
                    "domain": domain(given.user_domain_name),
                }
            },
        }
        project = {"name": given.tenant, "domain": domain(given.project_domain_name)}
        body = {"auth": {"identity": identity, "scope": {"project": project}}}
        url = f"{identity_url(given.auth_url)}/auth/tokens"
        answer = await self._send("POST", url, harmless=True, json=body)
        if answer.status == 429:
            headers = {"Retry-After": answer.headers.get("retry-after", "60")}
            raise TooManyRequests("Too many failed logins", headers=headers)
        if answer.status >= 500:
            raise ServiceUnavailable(f"The identity service answers {answer.status}; try again")
        if answer.status != 201:
            raise Unauthorized("The name or the password is not accepted", headers=CHALLENGE)
        token = as_object(_json(answer).get("token"))
        return Account(
            answer.headers.get("x-subject-token", ""),
            str(as_object(token.get("project")).get("id", "")),
            (given.catalog_url or _catalog_url(token)).rstrip("/"),
        )

    async def call(
        self,
        account: Account,
        method: str,
        path: str,
        json: Json = None,
        *,
        params: dict[str, str] | None = None,
        session: str = "",
    ) -> Json:
        """The JSON of a call of the catalog API. Errors: its own 400, 401, 403, 404; 502, 503."""
        headers = {"X-Auth-Token": account.token}
        if session:
            headers["X-Configuration-Session"] = session
        url = f"{account.catalog_url}/v1{path}"
        harmless = method == "GET"
        answer = await self._send(
            method, url, harmless=harmless, json=json, headers=headers, params=params
        )
        if answer.status < 300:
            try:
                return answer.json()
            except ValueError as error:
                raise Fault(f"{method} {path} gave no JSON", status=502) from error
        if answer.status == 401:
            self._known.clear()
        said = as_object(_json(answer).get("error")).get("message")
        message = said if isinstance(said, str) else f"{method} {path}: {answer.status}"
        kinds = {400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound}
        kind = kinds.get(answer.status)
        if kind is None:
            raise Fault(f"The catalog refused {method} {path}: {message}", status=502)
        raise kind(message)

    async def _send(self, method: str, url: str, *, harmless: bool, **options: Any) -> Response:
        """Send a request; a harmless one again when its connection ends, as when the process at its other
        end stops."""
        left = ATTEMPTS if harmless else 1
        while True:
            left -= 1
            try:
                return await self.http.request(method, url, **options)
            except TransportError as error:
                if not left:
                    raise ServiceUnavailable(f"{error}; try again") from error

    # Packages

    async def applications(self, account: Account) -> list[Json]:
        """All packages of the type Application that the project sees."""
        found: list[Json] = []
        params = {"type": "Application", "limit": "100"}
        while True:
            page = await self.call(account, "GET", "/catalog/packages", params=params)
            found += page["packages"]
            marker = page.get("next_marker")
            if not marker:
                return found
            params["marker"] = marker

    async def application(self, account: Account, package_id: str) -> Json | None:
        """The application package with an id; ``None`` when there is none."""
        try:
            found = await self.call(account, "GET", f"/catalog/packages/{segment(package_id)}")
        except (NotFound, BadRequest, Forbidden):
            return None
        return found if found.get("type") == "Application" and found.get("enabled", True) else None

    # Environments

    async def environment(self, account: Account, environment_id: str) -> Json | None:
        """An environment with its status and services; ``None`` when it is gone."""
        try:
            return await self.call(account, "GET", f"/environments/{segment(environment_id)}")
        except NotFound:
            return None

    async def environment_named(self, account: Account, name: str) -> str:
        """The id of the environment with this name, which is created when it is not there."""
        listed = (await self.call(account, "GET", "/environments"))["environments"]
        for one in listed:
            if one["name"] == name:
                return str(one["id"])
        return str((await self.call(account, "POST", "/environments", {"name": name}))["id"])

    async def change(self, account: Account, environment_id: str, method: str, path: str,
                     body: Json = None, *, may_lose: str = NOTHING) -> None:  # fmt: skip
        """Change the services in a session of its own and deploy it. ``may_lose``: what the deployment may
        take from the machines of the space, as the catalog has it (docs/api-guide.md, losses).

        Errors: 400 and 404 for the change, `ConcurrencyError`, 502, 503. Nothing was changed then.
        """
        where = f"/environments/{segment(environment_id)}"
        try:
            session = str((await self.call(account, "POST", f"{where}/configure"))["id"])
        except Forbidden as error:
            raise await self._busy(account, environment_id, error) from error
        try:
            await self.call(account, method, f"{where}/services{path}", body, session=session)
            deploy = f"{where}/sessions/{session}/deploy"
            await self.call(account, "POST", deploy, params={"mayLose": may_lose})
        except Fault as error:
            try:
                await self.call(account, "DELETE", f"{where}/sessions/{session}")
            except Fault as other:
                error.add_note(f"The session {session} is left: {other}")
            if isinstance(error, Forbidden):
                raise await self._busy(account, environment_id, error) from error
            raise

    async def _busy(self, account: Account, environment_id: str, error: Fault) -> Fault:
        found = await self.environment(account, environment_id)
        status = found["status"] if found is not None else "gone"
        if status in ("deploying", "deleting"):
            return ConcurrencyError(
                f"The environment {environment_id} of this space is {status}: try again when it is done"
            )
        return error

    async def action_result(
        self, account: Account, environment_id: str, action: str, seconds: float
    ) -> Json | None:
        """Run an action; its result with ``isException``, or ``None`` when it takes too long."""
        where = f"/environments/{segment(environment_id)}/actions"
        try:
            path, lost = f"{where}/{segment(action)}", {"mayLose": NOTHING}
            task = (await self.call(account, "POST", path, {}, params=lost))["task_id"]
        except Forbidden as error:
            raise await self._busy(account, environment_id, error) from error
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            result = await self.call(account, "GET", f"{where}/{segment(str(task))}")
            if result:
                return result
            await asyncio.sleep(RESULT_INTERVAL_SECONDS)
        return None


def _json(answer: Response) -> dict[str, Json]:
    try:
        return as_object(answer.json())
    except ValueError:
        return {}


def _catalog_url(token: dict[str, Json]) -> str:
    """The address of the catalog API in the service catalog of a token. Errors: 503."""
    services: list[Json] = token.get("catalog") or []
    for service in services:
        if service.get("type") == "application-catalog":
            endpoints: list[Json] = service.get("endpoints") or []
            for endpoint in endpoints:
                if endpoint.get("interface") == "public":
                    return str(endpoint["url"])
    raise ServiceUnavailable(
        "The service catalog of the identity service has no application-catalog:"
        " the operator names it with cfapi.catalog_url"
    )
