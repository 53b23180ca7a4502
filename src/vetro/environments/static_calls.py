"""Calls without an environment: static actions and schemas of classes (catalog-api.md §5.6, §5.7).

The caller waits for the answer. The call goes to an engine through a lease queue of its own, so
that it does not wait behind long deployments; the answer is stored in a row that the waiting caller
removes. An engine drops a call whose caller has gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Literal, NoReturn

from sqlalchemy import delete, insert, select, update

from vetro import log_context
from vetro.environments.lifecycle import call_ended
from vetro.environments.model import new_id
from vetro.environments.tables import calls
from vetro.environments.upgrades import Comparison, MovePlan
from vetro.http import (
    BadRequest,
    Fault,
    GatewayTimeout,
    NotFound,
    Principal,
    ServiceUnavailable,
)
from vetro.json_values import Json, JsonObject
from vetro.secrecy import Cover, secrets_in
from vetro.storage import (
    Database,
    Lease,
    LeaseQueue,
    StorageError,
    await_until,
    carried_through,
)

QUEUE = "engine-calls"
TIMEOUT_SECONDS = 60.0
KEPT_SECONDS = 300.0
"""How long after its end the row of a dead caller may stay."""

Kind = Literal["action", "schema", "upgrade"]
Failure = Literal["", "not found", "invalid", "failed", "timeout"]


def call_channel(call_id: str) -> str:
    """The channel of the notification that a call has been answered."""
    return f"call/{call_id}"


@dataclass(frozen=True)
class EngineCall:
    """A call for an engine. ``methods``: the one to call, or those whose schemas are wanted.

    ``methods`` is ``None`` for the schemas of everything that the class offers. ``seconds``: how
    long the caller waits. An ``upgrade`` compares classes and loads a model: its ``arguments`` are
    those of ``compare``, and it has no class.
    """

    id: str
    kind: Kind
    project_id: str
    user_id: str
    class_name: str
    methods: list[str] | None
    package_name: str | None
    class_version: str
    seconds: float
    arguments: JsonObject = field(default_factory=dict[str, Json])
    request_id: str = ""

    @property
    def subject(self) -> str:
        """The class, or the method that is called."""
        if self.kind == "action" and self.methods:
            return f"{self.class_name}.{self.methods[0]}"
        return "The preview of the upgrade" if self.kind == "upgrade" else self.class_name


@dataclass(frozen=True)
class CallAnswer:
    """A value, or why there is none: ``failure`` is the sort, ``type`` the error's name."""

    value: Json = None
    failure: Failure = ""
    message: str = ""
    type: str = ""
    details: str | None = None


FAULTS: dict[str, type[Fault]] = {
    "not found": NotFound,
    "invalid": BadRequest,
    "failed": ServiceUnavailable,
    "timeout": GatewayTimeout,
}


class CallStore:
    """The calls between the API and the engines."""

    def __init__(self, database: Database, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.database = database
        self.timeout_seconds = timeout_seconds
        self.queue = LeaseQueue(database, QUEUE)

    # API side

    async def act(
        self,
        principal: Principal,
        class_name: str,
        method: str,
        arguments: Mapping[str, object],
        *,
        package_name: str | None,
        class_version: str,
    ) -> object:
        """The result of a static action. Errors: 400, 404, 503, 504 (§5.6)."""
        call = self._call(
            principal, "action", class_name, [method], package_name, class_version, arguments
        )
        return await self._ask(call)

    async def schemas(
        self,
        principal: Principal,
        class_name: str,
        methods: Sequence[str] | None,
        *,
        package_name: str | None,
        class_version: str,
    ) -> JsonObject:
        """The schemas of a class (key ``""``) and its model builders. Errors: 400, 404, 503, 504."""
        named = None if methods is None else list(methods)
        call = self._call(principal, "schema", class_name, named, package_name, class_version, {})
        return await self._ask(call)

    async def compare(
        self,
        principal: Principal,
        project_id: str,
        model: Mapping[str, object],
        plans: Sequence[MovePlan],
    ) -> Comparison:
        """What moves would change in the objects of a model, and whether the model could be loaded.

        ``model`` is in the engine's spelling, with the packages of ``project_id``. Errors: 503, 504.
        """
        given = {"model": dict(model), "plans": [dict(plan) for plan in plans]}
        call = self._call(principal, "upgrade", "", None, None, "", given)
        return await self._ask(replace(call, project_id=project_id))

    def _call(
        self,
        principal: Principal,
        kind: Kind,
        class_name: str,
        methods: list[str] | None,
        package_name: str | None,
        class_version: str,
        arguments: Mapping[str, object],
    ) -> EngineCall:
        return EngineCall(
            id=new_id(),
            kind=kind,
            project_id=principal.project_id,
            user_id=principal.user_id,
            class_name=class_name,
            methods=methods,
            package_name=package_name,
            class_version=class_version,
            seconds=self.timeout_seconds,
            arguments=dict(arguments),
            request_id=log_context.said().get("request_id", ""),
        )

    async def _ask(self, call: EngineCall) -> Json:
        try:
            await self._submit(call)
            look = partial(self._answer_of, call.id)
            found = await await_until(self.database, call_channel(call.id), look, call.seconds)
        finally:
            await carried_through(self._withdraw(call.id))
        if found is None:
            self._too_late(call)
        answer = CallAnswer(**found)
        if not answer.failure:
            return answer.value
        raise FAULTS[answer.failure](
            answer.message,
            type_=answer.type or None,
            extra={"details": answer.details} if answer.details else None,
        )

    async def _submit(self, call: EngineCall) -> None:
        async with self.database.transaction() as tx:
            now = self.database.steady_now()
            await tx.execute(delete(calls).where(calls.c.expires < now))
            expires = now + timedelta(seconds=call.seconds + KEPT_SECONDS)
            await tx.execute(insert(calls).values(id=call.id, expires=expires))
            payload = asdict(call)
            payload.pop("id")
            await self.queue.enqueue(tx, call.id, payload, party=call.project_id)

    async def _answer_of(self, call_id: str) -> JsonObject | None:
        async with self.database.read() as tx:
            row = await tx.execute(select(calls.c.answer).where(calls.c.id == call_id))
            return row.scalar_one_or_none()

    def _too_late(self, call: EngineCall) -> NoReturn:
        raise GatewayTimeout(
            f"{call.subject} was not answered within {call.seconds:g} seconds: check that an "
            "engine runs; engine.static_call_timeout is the limit"
        )

    async def _withdraw(self, call_id: str) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(delete(calls).where(calls.c.id == call_id))

    # Engine side

    async def call_of(self, lease: Lease) -> EngineCall | None:
        """The call that a lease is for; ``None``, and no work any more, when its caller has gone.

        When that cannot be found out, or the caller is cancelled, the call waits for another engine: it
        was not begun, and a call that was begun is not repeated.
        """
        try:
            async with self.database.read() as tx:
                row = await tx.execute(select(calls.c.id).where(calls.c.id == lease.key))
                is_awaited = row.first() is not None
            if not is_awaited:
                async with self.database.transaction() as tx:
                    await self.queue.complete(tx, lease)
        except BaseException:
            with suppress(StorageError):
                await carried_through(self.queue.unclaim(lease))
            raise
        return EngineCall(id=lease.key, **lease.payload) if is_awaited else None

    def ended(self, call: EngineCall, answer: CallAnswer, seconds: float) -> None:
        """Log and count the answer to a call."""
        cover = Cover(secrets_in(call.arguments))
        call_ended(
            call.kind,
            call.subject,
            call.project_id,
            call.user_id,
            seconds,
            answer.failure,
            cover(answer.message)[:500],
        )

    async def answer(self, lease: Lease, answer: CallAnswer) -> None:
        """End a call; the answer is dropped when its caller has gone. Errors: ``LeaseLost``."""
        async with self.database.transaction() as tx:
            await self.queue.complete(tx, lease)
            await tx.execute(
                update(calls).where(calls.c.id == lease.key).values(answer=asdict(answer))
            )
            tx.notify(call_channel(lease.key))
