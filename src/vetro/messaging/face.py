"""The guests' HTTP door to their mailboxes: `/agents/v1` (guest-agent.md §2a)."""

from __future__ import annotations

import asyncio
import base64
import functools
import math
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec
import structlog
from litestar import Litestar, Response
from sqlalchemy.exc import SQLAlchemyError

from vetro.http import (
    BEARER,
    BadRequest,
    Conflict,
    Face,
    Forbidden,
    PayloadTooLarge,
    Reply,
    RequestBudget,
    Security,
    TooManyRequests,
    Unauthorized,
    known_content,
    make_face,
    peer_address,
    read_body,
)
from vetro.http import endpoint as http
from vetro.http.endpoint import Answer, AnyRequest, routes, serving
from vetro.http.parameters import STRING, Rule, query
from vetro.ipv6_door import plain_door
from vetro.json_texts import NotJson, decode_json
from vetro.messaging.credentials import Guest
from vetro.messaging.errors import MalformedSignal, MessageTooLarge, TooManySignals
from vetro.messaging.machines import Homes, Machines, Origin
from vetro.messaging.mailboxes import Mailboxes
from vetro.messaging.results import MalformedResult
from vetro.messaging.signals import SIGNAL_LIMIT
from vetro.messaging.waiting import PollGate, WaitingRoom
from vetro.storage import StorageError

if TYPE_CHECKING:
    from vetro.http import Envelope


_BYTES = {"type": "string", "format": "binary"}
#: The exact bytes that were signed: JSON, which clients must not re-encode.
PLAN = Reply(_BYTES, others={204: None})
AGENT = Reply(_BYTES, media=("application/octet-stream",), others={304: None})
SECURITY = Security(
    {"guest": BEARER},
    public=lambda method, path: path == "/v1/agent.pyz" or path.startswith("/v1/signals/"),
)


_log = structlog.get_logger(__name__)

RESULT_LIMIT_HEADER = "X-Result-Limit"
#: How long a machine that was found at home is not asked about again.
_ADMITTED_SECONDS = 60.0


class _Alive(msgspec.Struct):
    version: str | None = None
    uptime: float | None = None


@dataclass
class Call(http.Call["GuestDoor"]):
    """A request of a guest."""

    guest: Guest


Endpoint = http.Endpoint[Call]
#: A call whose address is its credential.
SignedCall = http.Call["GuestDoor"]


class GuestDoor:
    """The face's state: open polls, request budgets, contacts that are not stored yet."""

    def __init__(
        self,
        mailboxes: Mailboxes,
        archive: Callable[[], bytes],
        door: str,
        machines: Machines | None,
    ) -> None:
        self.mailboxes = mailboxes
        self._machines = machines
        self._homes = None if machines is None else Homes(mailboxes.db, machines)
        self._admitted: dict[tuple[str, Origin], float] = {}
        """Until when a guest need not be asked about again, in monotonic seconds."""
        self.door = door
        #: The guest agent; its sources do not change while the service runs.
        self.archive = functools.cache(archive)
        settings = mailboxes.settings
        self.room = WaitingRoom(mailboxes)
        self._budget = RequestBudget(
            settings.requests_per_second,
            settings.request_burst,
            lambda: mailboxes.db.clock.monotonic(),
        )
        self._contacts: dict[str, datetime] = {}
        self._known: dict[str, str] = {}
        """The guests whose contact is stored, and where they have come."""
        self._contacted = asyncio.Event()
        inner = make_face(
            name="agents",
            prefix="/agents",
            title="Guest mailboxes",
            handlers=[
                *routes(ENDPOINTS, self._serve),
                *routes([*SIGNED_ENDPOINTS, *OPEN_ENDPOINTS], serving(partial(SignedCall, self))),
            ],
            public=lambda method, path: True,
            lifespan=[self._lifespan],
            security=SECURITY,
        )
        gate = PollGate(
            inner.app, self.room, self._admit, settings.longest_wait, settings.default_wait
        )
        self.face = Face(inner.name, inner.prefix, cast("Envelope", gate), inner.document)

    async def _serve(self, endpoint: Endpoint, request: AnyRequest) -> Response[Any]:
        """Run a call of a guest that is known and does not ask too often."""
        call = Call(self, request, await self._guest(request))
        return http.respond(request, endpoint, await endpoint.run(call))

    async def _guest(self, request: AnyRequest) -> Guest:
        """The requesting guest. 401: unknown or revoked credential, 429: too many requests."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        guest = None
        if scheme.lower() == "bearer" and token.strip():
            guest = await self.mailboxes.credentials.check(token.strip())
        if guest is None:
            raise Unauthorized(
                "The guest's credential is unknown or was revoked",
                headers={"WWW-Authenticate": 'Bearer realm="agents"'},
            )
        self.spend(guest.queue)
        origin = self._origin(cast("Mapping[str, Any]", request.scope))
        if not await self._is_at_home(guest, origin):
            _log.warning(
                "credential_of_another_machine",
                mailbox=guest.queue,
                address=origin.address,
                node=origin.node,
                advice="A copy of the machine's disk, or of its agent's configuration, is in use there."
                " Whoever has it could take the machine's plans: make the machine anew.",
            )
            raise Forbidden(
                f"The mailbox {guest.queue} belongs to another machine than the one at"
                f" {origin.address}: this credential is a copy. A machine gets a credential of its own"
                " when it is deployed"
            )
        await self._note_contact(guest.queue, plain_door(request.headers.get("host", "")))
        return guest

    def spend(self, queue: str) -> None:
        """Count a request against the budget of a guest or of a signed address. 429."""
        wait = self._budget.take(queue)
        if wait > 0:
            raise TooManyRequests(
                "This guest sends too many requests; try again later",
                headers={"Retry-After": str(math.ceil(wait))},
            )

    async def _admit(self, token: str, scope: Mapping[str, Any]) -> Guest | None:
        """The guest that begins to wait; ``None``: the handler refuses it."""
        guest = await self.mailboxes.credentials.check(token)
        if guest is None or not await self._is_at_home(guest, self._origin(scope)):
            return None
        await self._note_contact(guest.queue)
        return guest

    def _origin(self, scope: Mapping[str, Any]) -> Origin:
        """Where a request comes from: what a node's relay says, else the other end of the connection."""
        relayed = None if self._machines is None else self._machines.relayed(scope["headers"])
        return Origin(peer_address(scope)) if relayed is None else Origin(*relayed)

    async def _is_at_home(self, guest: Guest, origin: Origin) -> bool:
        if self._homes is None:
            return True
        now = self.mailboxes.db.clock.monotonic()
        if self._admitted.get((guest.queue, origin), 0.0) > now:
            return True
        if not await self._homes.admits(guest.queue, origin):
            return False
        self._admitted[guest.queue, origin] = now + _ADMITTED_SECONDS
        return True

    async def _note_contact(self, queue: str, door: str = "") -> None:
        now = self.mailboxes.db.clock.now()
        former = self._known.get(queue)
        # Store the first contact at once, as someone may wait for it; later ones in batches.
        if door and door != former:
            self._known[queue] = door
            await self.mailboxes.note_door(queue, door, known=door == self.door)
            return
        if former is None:
            self._known[queue] = ""
            await self.mailboxes.record_contacts({queue: now})
            return
        self._contacts[queue] = now
        self._contacted.set()

    @asynccontextmanager
    async def _lifespan(self, _app: Litestar) -> AsyncGenerator[None]:
        tasks = [
            asyncio.create_task(self._store_contacts(), name="mailbox contacts"),
            asyncio.create_task(self._prune(), name="mailbox pruning"),
            asyncio.create_task(self.room.watch(), name="mailbox news"),
            asyncio.create_task(self._end_polls(), name="mailbox closing"),
        ]
        try:
            yield
        finally:
            self.room.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._record(self._contacts)

    async def _record(self, contacts: dict[str, datetime]) -> None:
        """Store contacts; the next ones have newer times."""
        try:
            await self.mailboxes.record_contacts(contacts)
        except StorageError as error:
            _log.warning("contacts_not_stored", guests=len(contacts), error=str(error))
        except SQLAlchemyError:
            _log.exception("contacts_not_stored", guests=len(contacts))

    async def _end_polls(self) -> None:
        await self.face.app.closing.wait()
        self.room.close()

    async def _store_contacts(self) -> None:
        while True:
            await self._contacted.wait()
            await asyncio.sleep(self.mailboxes.settings.store_contacts)
            self._contacted.clear()
            contacts, self._contacts = self._contacts, {}
            await self._record(contacts)  # whatever happens: the task must not end

    async def _prune(self) -> None:
        while True:
            try:
                await self.mailboxes.prune()
            except StorageError as error:
                _log.warning("mailboxes_not_pruned", error=str(error))
            except SQLAlchemyError:
                _log.exception("mailboxes_not_pruned")
            self._budget.forget_idle()
            await asyncio.sleep(self.mailboxes.settings.prune_every)
            # After the sleep: a slow first pruning must not forget recent contacts.
            self._known.clear()
            self._admitted.clear()


async def next_plan(call: Call) -> Response[Any]:
    """The oldest plan that is not acknowledged: the exact bytes as signed.

    Waits up to `wait` seconds (default 30, at most 60) for one; 204 when none came. The plan is
    leased to the asking agent and handed out again when it is not acknowledged in time.
    `X-Result-Limit` says how many bytes its result may have.
    """
    mailboxes = call.service.mailboxes
    settings = mailboxes.settings
    given = call.query("wait")
    try:
        seconds = float(given) if given else settings.default_wait
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise BadRequest(f"wait is {given:.80}; give seconds from 0 to {settings.longest_wait:g}")
    session = call.header("x-agent-session") or None
    # The waiting is over when a request gets here: see `vetro.messaging.waiting`.
    plan = await mailboxes.next_plan(call.guest, session and session[:64], 0)
    if plan is None:
        return Response(b"", status_code=204, media_type="application/json")
    headers = {
        "X-Message-Id": plan.message_id,
        RESULT_LIMIT_HEADER: str(settings.sizes.result_limit),
    }
    if plan.signature is not None:
        headers["X-Signature"] = base64.b64encode(plan.signature).decode()
    return Response(plan.body, headers=headers, media_type="application/json")


async def acknowledge(call: Call) -> None:
    """The guest has the plan on its disk. May be repeated."""
    await call.service.mailboxes.acknowledge(call.guest, call.path["message_id"])


async def accept_result(call: Call) -> Answer:
    """The result of a plan. A repeated one is accepted and ignored.

    413 over the limit (1 MiB unless configured; `X-Result-Limit` says it); 400 for a body that is not a
    result document, which is kept as a dead letter.
    """
    mailboxes = call.service.mailboxes
    limit = mailboxes.settings.sizes.result_limit
    try:
        body = await read_body(call.request, limit)
        await mailboxes.accept_result(call.guest, body, call.header("x-message-id") or None)
    except (MessageTooLarge, PayloadTooLarge) as error:
        raise PayloadTooLarge(str(error), headers={RESULT_LIMIT_HEADER: str(limit)}) from error
    except MalformedResult as error:
        raise BadRequest(f"This is not a result: {error}") from error
    return Answer(202)


async def alive(call: Call) -> None:
    """What the agent says about itself: `{version, uptime}`."""
    body = await read_body(call.request, 65_536)
    try:
        said = decode_json(body or b"{}", _Alive)
    except NotJson as error:
        raise BadRequest(f"The body is not {{version, uptime}}: {error}") from error
    await call.service.mailboxes.record_alive(
        call.guest, said.version[:64] if said.version else None, said.uptime
    )


async def signal(call: SignedCall) -> None:
    """Report to a handle: `{status: SUCCESS or FAILURE, reason, data, id}`, each of them optional.

    CFN's spelling is `{Status, Reason, Data, UniqueId}`; an empty body is a success. The address
    with its `signature` is the credential. A second signal with the same id replaces the first;
    without an id each counts. 409: the handle keeps no more of them.
    """
    handle = call.path["handle"]
    signals = call.service.mailboxes.signals
    if not await signals.admits(handle, call.query("signature")):
        raise Unauthorized(
            "The signature is not that of a handle: the address is incomplete, or the resource that"
            " it belonged to was removed"
        )
    call.service.spend(f"signal/{handle}")
    try:
        await signals.take(handle, await read_body(call.request, SIGNAL_LIMIT))
    except MalformedSignal as error:
        raise BadRequest(str(error)) from error
    except TooManySignals as error:
        raise Conflict(str(error)) from error


async def guest_agent(call: SignedCall) -> Response[Any]:
    """The guest agent, `vetro-guest.pyz`, for machines whose image has none. Anybody may fetch it."""
    return known_content(call.request, await asyncio.to_thread(call.service.archive))


_WAIT = Rule("seconds", lambda _name, _value: [], {"type": ["number", "null"]})

ENDPOINTS = [
    Endpoint("next_plan", "GET", "/v1/plans", next_plan, query(_WAIT, "wait"), reply=PLAN,
             errors=(403, 429)),
    Endpoint("acknowledge", "POST", "/v1/plans/{message_id}/ack", acknowledge, status=204,
             errors=(403, 429)),
    Endpoint("send_result", "POST", "/v1/results", accept_result, status=202,
             errors=(403, 404, 413, 429, 507)),
    Endpoint("say_alive", "POST", "/v1/alive", alive, status=204,
             errors=(403, 413, 429)),
]  # fmt: skip
SIGNED_ENDPOINTS = [
    http.Endpoint[SignedCall](
        name, method, "/v1/signals/{handle}", signal, query(STRING, "signature"), status=204,
        errors=(401, 409, 413, 429),
    )
    for name, method in (("send_signal", "POST"), ("put_signal", "PUT"))
]  # fmt: skip
OPEN_ENDPOINTS = [
    http.Endpoint[SignedCall]("guest_agent", "GET", "/v1/agent.pyz", guest_agent, reply=AGENT)
]


def make_agents_face(
    mailboxes: Mailboxes, archive: Callable[[], bytes], door: str, machines: Machines | None
) -> Face:
    """The face at `/agents`; ``archive``: the guest agent; ``door``: where guests find it."""
    return GuestDoor(mailboxes, archive, door, machines).face
