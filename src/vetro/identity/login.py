"""``POST /v3/auth/tokens``: from an auth request to a token and its body; guessing is slowed down."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import structlog
from sqlalchemy import select

from vetro.http import BadRequest, TooManyRequests, Unauthorized, counter
from vetro.identity import store
from vetro.identity.passwords import digest, verify_password
from vetro.identity.tables import DOMAIN_ID, application_credentials, projects
from vetro.identity.tokens import TokenData, TokenStore
from vetro.storage import Clock, Database, DatabaseFull, DatabaseReadOnly, Transaction

FREE_ATTEMPTS = 5
WINDOW_SECONDS = 60.0
MAX_ENTRIES = 10_000


class LoginThrottle:
    """After ``FREE_ATTEMPTS`` failures of one key (user and address) within a minute: wait.

    In memory on purpose: it protects each process's own work, and a restart lifts every delay.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncGenerator[None, None]:
        """Admit one attempt of a key at a time; the others wait in order."""
        lock, waiting = self._turns.get(key, (asyncio.Lock(), 0))
        self._turns[key] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._turns.pop(key)
            if waiting > 1:
                self._turns[key] = (lock, waiting - 1)

    def wait_seconds(self, key: str) -> float:
        """Seconds until the next attempt is allowed; 0: now."""
        now = self._clock.monotonic()
        recent = [t for t in self._failures.get(key, ()) if now - t < WINDOW_SECONDS]
        if len(recent) < FREE_ATTEMPTS:
            return 0.0
        return WINDOW_SECONDS - (now - recent[-FREE_ATTEMPTS])

    def failed(self, key: str) -> None:
        """Remember a failure."""
        now = self._clock.monotonic()
        recent = [t for t in self._failures.pop(key, []) if now - t < WINDOW_SECONDS]
        self._failures[key] = [*recent, now][-FREE_ATTEMPTS:]
        while len(self._failures) > MAX_ENTRIES:
            self._failures.popitem(last=False)

    def succeeded(self, key: str) -> None:
        """Forget the failures."""
        self._failures.pop(key, None)


log = structlog.get_logger("vetro.identity")

FAILURES = counter(
    "vetro_login_failures",
    "Logins that were refused.",
    reason="`refused`, or `throttled` after too many failed logins.",
)
_LONGEST_NAME = 255


def _named(body: object) -> dict[str, str]:
    """The user name and the method in an auth request, for the log."""
    value: Any = body
    identity: Any = value["auth"]["identity"]
    methods: list[Any] = identity["methods"]
    said = {"method": ",".join(str(one) for one in methods)[:_LONGEST_NAME]}
    for method in ("password", "application_credential"):
        part: Any = identity.get(method)
        if method not in methods or not isinstance(part, dict):
            continue
        given = cast("dict[str, object]", part)
        known = {"user": given.get("user")}
        if method == "application_credential":
            known[method] = given
        for who, one in known.items():
            if isinstance(one, dict):
                named = cast("dict[str, object]", one)
                text_of = named.get("name", named.get("id"))
                if isinstance(text_of, str):
                    said[who] = text_of[:_LONGEST_NAME]
    return said


@dataclass(frozen=True)
class CatalogEndpoint:
    """A service in the service catalog: ``url`` is its public, internal and admin interface."""

    type: str
    name: str
    url: str


@dataclass(frozen=True)
class Identified:
    """The user who logged in, and the limits that the method puts on the token."""

    user_id: str
    methods: list[str]
    expires_at: datetime | None = None
    project_id: str | None = None
    roles: list[dict[str, str]] | None = None
    application_credential_id: str | None = None


def mapping(value: object, where: str) -> dict[str, Any]:
    """``value`` as a JSON object. Errors: ``BadRequest`` names the member."""
    if not isinstance(value, dict):
        raise BadRequest(f"Expecting an object at {where}")
    return cast("dict[str, object]", value)


def text(value: object, where: str) -> str:
    """``value`` as text. Errors: ``BadRequest`` names the member."""
    if not isinstance(value, str):
        raise BadRequest(f"Expecting text at {where}")
    return value


class Login:
    """Checks credentials and scopes tokens."""

    region = "RegionOne"

    def __init__(
        self, database: Database, tokens: TokenStore, endpoints: Sequence[CatalogEndpoint]
    ) -> None:
        self.database = database
        self.tokens = tokens
        self.throttle = LoginThrottle(database.clock)
        self.endpoints = endpoints

    async def log_in(self, body: object, address: str) -> tuple[str, TokenData]:
        """A token for the auth request ``body``. Errors: 400, 401, 429.

        Refusals are logged and counted by name and address, without the given secret.
        """
        try:
            return await self._log_in(body, address)
        except (Unauthorized, TooManyRequests) as refusal:
            why = "throttled" if isinstance(refusal, TooManyRequests) else "refused"
            FAILURES.labels(why).inc()
            log.warning("login_failed", **_named(body), address=address, reason=why)
            raise

    async def _log_in(self, body: object, address: str) -> tuple[str, TokenData]:
        auth = mapping(mapping(body, "/").get("auth"), "/auth")
        identity = mapping(auth.get("identity"), "/auth/identity")
        methods = identity.get("methods")
        if not isinstance(methods, list) or not methods:
            raise BadRequest("Expecting a list of methods at /auth/identity/methods")
        identified: Identified | None = None
        for method in cast("list[object]", methods):
            check = {
                "password": self._password,
                "token": self._token,
                "application_credential": self._application_credential,
            }.get(text(method, "/auth/identity/methods"))
            if check is None:
                raise Unauthorized(
                    f"Attempted to authenticate with an unsupported method: {method}"
                )
            part = mapping(identity.get(str(method)), f"/auth/identity/{method}")
            identified = await check(part, address)
        assert identified is not None
        token = await self._token_of(identified, auth.get("scope"))
        data = await self.tokens.get(token)
        if data is None:
            raise Unauthorized("The user or the project is disabled")
        return token, data

    async def _token_of(self, who: Identified, scope: object) -> str:
        """A token, stored unless nothing can be: reading needs one, and what is stored can still be read."""
        try:
            async with self.database.transaction() as tx:
                return await self._scoped(tx, who, scope, keep=True)
        except (DatabaseFull, DatabaseReadOnly) as error:
            if self.database.keyring is None:
                raise
            async with self.database.read() as tx:
                token = await self._scoped(tx, who, scope, keep=False)
            log.warning("login_not_stored", user=who.user_id, error=str(error))
            return token

    async def _password(self, part: dict[str, object], address: str) -> Identified:
        user = mapping(part.get("user"), "/auth/identity/password/user")
        password = text(user.get("password"), "/auth/identity/password/user/password")
        async with self.database.read() as tx:
            row = await self._user(tx, user)
        key = f"{row.id if row else user.get('name') or user.get('id')}@{address}"
        # One attempt per key at a time: parallel guesses must not all pass before the first fails.
        async with self.throttle.turn(key):
            wait = self.throttle.wait_seconds(key)
            if wait > 0:
                raise TooManyRequests(
                    f"Too many failed logins; try again in {wait:.0f} seconds",
                    headers={"Retry-After": str(int(wait) + 1)},
                )
            good = await verify_password(row.password_hash if row else None, password)
            if not good or row is None or not row.enabled:
                self.throttle.failed(key)
                raise Unauthorized("The request you have made requires authentication.")
            self.throttle.succeeded(key)
        return Identified(row.id, ["password"])

    async def _user(self, tx: Transaction, user: dict[str, object]) -> Any:
        if "id" in user:
            table = store.KINDS["user"]
            wanted = text(user["id"], "/auth/identity/password/user/id")
            return (await tx.execute(select(table).where(table.c.id == wanted))).first()
        name = text(user.get("name"), "/auth/identity/password/user/name")
        domain = await self._domain(tx, user.get("domain"))
        return await store.find_by_name(tx, "user", name, domain)

    async def _domain(self, tx: Transaction, given: object) -> str:
        if given is None:
            return DOMAIN_ID
        domain = mapping(given, "domain")
        if "id" in domain:
            return text(domain["id"], "domain/id")
        name = text(domain.get("name"), "domain/name")
        row = await store.find_by_name(tx, "domain", name)
        return str(row.id) if row else ""

    async def _token(self, part: dict[str, object], _address: str) -> Identified:
        data = await self.tokens.get(text(part.get("id"), "/auth/identity/token/id"))
        if data is None or data.application_credential_id:
            raise Unauthorized("The request you have made requires authentication.")
        methods = list(dict.fromkeys([*data.methods, "token"]))
        # A token obtained with a token must not outlive it.
        return Identified(data.user_id, methods, expires_at=data.expires_at)

    async def _application_credential(self, part: dict[str, object], address: str) -> Identified:
        secret = text(part.get("secret"), "/auth/identity/application_credential/secret")
        query = select(application_credentials)
        async with self.database.read() as tx:
            if "id" in part:
                wanted = text(part["id"], "/auth/identity/application_credential/id")
                query = query.where(application_credentials.c.id == wanted)
            else:
                user = mapping(part.get("user"), "/auth/identity/application_credential/user")
                owner = await self._user(tx, user)
                query = query.where(
                    application_credentials.c.name == text(part.get("name"), "name"),
                    application_credentials.c.user_id == (owner.id if owner else ""),
                )
            row = (await tx.execute(query)).first()
        now = self.database.clock.now()
        if (
            row is None
            or row.secret_hash != digest(secret)
            or (row.expires_at is not None and row.expires_at <= now)
        ):
            raise Unauthorized("The request you have made requires authentication.")
        return Identified(
            row.user_id,
            ["application_credential"],
            expires_at=row.expires_at,
            project_id=row.project_id,
            roles=row.roles,
            application_credential_id=row.id,
        )

    async def _scoped(self, tx: Transaction, who: Identified, scope: object, *, keep: bool) -> str:
        """A token of the requested scope: project, domain, none, or the user's default project."""
        project_id = who.project_id
        domain_scope: str | None = None
        if scope is not None and scope != "unscoped" and project_id is None:
            wanted = mapping(scope, "/auth/scope")
            if "project" in wanted:
                project_id = await self._project(
                    tx, mapping(wanted["project"], "/auth/scope/project")
                )
            elif "domain" in wanted:
                domain_scope = await self._domain(tx, wanted["domain"])
            elif "unscoped" not in wanted and "system" not in wanted:
                raise BadRequest("Expecting project, domain or unscoped at /auth/scope")
        elif scope is None and project_id is None:
            user = await store.find(tx, "user", who.user_id)
            project_id = user.default_project_id
            if project_id and not await store.roles_of(tx, who.user_id, project_id):
                project_id = None
        roles: list[dict[str, str]] = []
        if domain_scope is not None:
            roles = await store.roles_of(tx, who.user_id, domain_scope, "domain")
            if not roles:
                raise Unauthorized("The user has no role in this domain")
        if project_id is not None:
            held = await store.roles_of(tx, who.user_id, project_id)
            allowed = {role["id"] for role in who.roles} if who.roles is not None else None
            roles = [role for role in held if allowed is None or role["id"] in allowed]
            if not roles:
                raise Unauthorized("The user has no role in this project")
        return await self.tokens.issue(
            tx,
            user_id=who.user_id,
            project_id=project_id,
            domain_scope=domain_scope,
            roles=roles,
            methods=who.methods,
            expires_at=who.expires_at,
            application_credential_id=who.application_credential_id,
            keep=keep,
        )

    async def _project(self, tx: Transaction, given: dict[str, object]) -> str:
        if "id" in given:
            query = select(projects).where(projects.c.id == text(given["id"], "project/id"))
        else:
            query = select(projects).where(
                projects.c.name == text(given.get("name"), "project/name"),
                projects.c.domain_id == await self._domain(tx, given.get("domain")),
            )
        row = (await tx.execute(query)).first()
        if row is None or not row.enabled:
            raise Unauthorized("The request you have made requires authentication.")
        return str(row.id)

    def catalog(self) -> list[dict[str, Any]]:
        """The service catalog."""
        return [
            {
                "id": digest(endpoint.type)[:32],
                "type": endpoint.type,
                "name": endpoint.name,
                "endpoints": [
                    {
                        "id": digest(endpoint.type + interface)[:32],
                        "interface": interface,
                        "region": self.region,
                        "region_id": self.region,
                        "url": endpoint.url,
                    }
                    for interface in ("public", "internal", "admin")
                ],
            }
            for endpoint in self.endpoints
        ]

    def body(self, data: TokenData, *, catalog: bool = True) -> dict[str, Any]:
        """The token body of Keystone v3."""
        domain = {"id": data.user_domain_id, "name": data.user_domain_name}
        value: dict[str, object] = {
            "methods": data.methods,
            "user": {
                "id": data.user_id,
                "name": data.user_name,
                "domain": domain,
                "password_expires_at": None,
            },
            "audit_ids": [data.audit_id],
            "issued_at": stamp(data.issued_at),
            "expires_at": stamp(data.expires_at),
        }
        if data.project_id is not None:
            value["project"] = {
                "id": data.project_id,
                "name": data.project_name,
                "domain": dict(zip(("id", "name"), data.project_domain or (), strict=False)),
            }
            value["is_domain"] = False
            value["roles"] = data.roles
            if catalog:
                value["catalog"] = self.catalog()
        elif data.domain_scope is not None:
            value["domain"] = {"id": data.domain_scope, "name": data.domain_scope_name}
            value["roles"] = data.roles
            if catalog:
                value["catalog"] = self.catalog()
        if data.application_credential_id:
            value["application_credential"] = {
                "id": data.application_credential_id,
                "restricted": True,
            }
        return {"token": value}


def stamp(moment: datetime) -> str:
    """A time as Keystone writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
