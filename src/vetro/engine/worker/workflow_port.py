"""What XML workflows ask for, done by the engine's back ends and kept in the journal (§9 to §13).

The rules run in a thread of their own; every method of the port hands its work to the engine's loop and
waits for it there.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import TypeVar

from vetro.documents import DocumentError, read_json
from vetro.engine.checkpoints import Checkpoints
from vetro.engine.journal import JournalEffects
from vetro.engine.services import EngineServices
from vetro.engine.system.stack_turns import settled, when_free
from vetro.engine.telling import Place, at_broker, at_mailbox, note_made, tell
from vetro.engine.withdrawal import withdraw
from vetro.json_values import Json
from vetro.messaging import MessageTransport, MessagingError
from vetro.stacks import (
    KnowsAlterations,
    KnowsBalancers,
    KnowsIncarnations,
    LossRefused,
    RouterWithoutGateway,
    Stack,
    StackError,
    StackFailure,
    StackStatus,
    choose_cidr,
)
from vetro.workflows import (
    AgentAnswer,
    AgentRequest,
    Cancelled,
    Fragment,
    NetworkRequest,
    PortError,
    Report,
    result_queue_of,
)

T = TypeVar("T")
FIRST_CONTACT_SECONDS = 1800.0
"""How much longer a guest that never answered may take: it boots and installs its agent (§10.2)."""


class WorkflowPort:
    """The port of one task (``vetro.workflows.Port``).

    ``seed``: of the task and its definitions. Ids follow from it and from the round, so that a round that
    is begun again sends plans under the same ids: a mailbox takes each once. ``transport``: to the guests.
    """

    def __init__(
        self,
        services: EngineServices,
        effects: JournalEffects,
        checkpoints: Checkpoints,
        loop: asyncio.AbstractEventLoop,
        seed: str,
        keep_trace: Callable[[int], Coroutine[object, object, None]],
        transport: MessageTransport,
    ) -> None:
        self._services = services
        self._transport = transport
        self._effects = effects
        self._checkpoints = checkpoints
        self._loop = loop
        self._seed = seed
        self._keep_trace = keep_trace
        self.begin_round(-1)
        self._stack = f"e{services.environment_id}"
        self._began = datetime.now(UTC)
        self._met: dict[str, bool] = {}
        self._told: set[str] = set()
        self._machines: dict[str, tuple[str | None, str]] = {}
        self.used: set[str] = set()
        """The guests' mailboxes that this run has used."""
        self._cancelled: str | None = None
        self._effect: asyncio.Task[object] | None = None

    def begin_round(self, finished: int) -> None:
        """What follows belongs to the round after this one."""
        seed = hashlib.sha256(f"{self._seed}/{finished}".encode()).digest()
        # Ids must not collide between tasks and rounds; nothing secret is drawn here.
        self._random = random.Random(seed)  # noqa: S311

    def _wait(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def cancel(self, reason: str) -> None:
        """End the running effect, and begin no other. In the engine's loop."""
        self._cancelled = reason
        if self._effect is not None:
            self._effect.cancel()

    def _wait_or_end(self, work: Coroutine[object, object, T]) -> T:
        """Wait for an effect. Raises: Cancelled, when the effect has ended after ``cancel()``."""

        async def effect() -> T:
            # In a task of its own, which `cancel()` ends; this one waits until it has ended.
            self._effect = asyncio.ensure_future(work)
            if self._cancelled is not None:
                self._effect.cancel()
            try:
                return await self._effect
            except asyncio.CancelledError:
                if self._cancelled is None:
                    raise
                raise Cancelled(self._cancelled) from None
            finally:
                self._effect = None

        return self._wait(effect())

    def _perform(self, kind: str, request: Json, execute: Callable[[], Awaitable[Json]]) -> Json:
        """Recorded in the journal before and after (architecture.md, effects)."""
        return self._wait_or_end(self._effects.record(kind, request, execute))

    def report(self, report: Report) -> None:
        """A status report of the deployment, in order."""
        subject = report.id or self._services.environment_id
        self._wait(
            self._services.reports.report(
                subject, report.level, report.text, report.details, entity=report.entity
            )
        )

    # Networks

    def network(self, requests: list[NetworkRequest]) -> list[Json | PortError]:
        """Answers of the network directory; ranges of one batch differ."""
        chosen: list[str] = []
        return [self._network(request, chosen) for request in requests]

    def _network(self, request: NetworkRequest, chosen: list[str]) -> Json | PortError:
        async def ask() -> Json:
            if request.command == "get-default-router-id":
                return await self._router()
            if request.command == "get-default-network-id":
                return {"networkId": await self._default_network()}
            if "existingNetwork" in request.arguments:
                return {"cidr": await self._range_of(str(request.arguments["existingNetwork"]))}
            return {"cidr": await self._free_range(request, chosen)}

        try:
            return self._perform(
                f"network.{request.command}", {"arguments": request.arguments}, ask
            )
        except (ConnectionError, RouterWithoutGateway) as error:
            return PortError(str(error), type(error).__name__)

    async def _router(self) -> Json:
        """One called murano, else the first (§11). Vetro's own is made where there is none, and may be
        waiting for its gateway.
        """
        settings, project = self._services.settings, self._services.project_id
        directory, own = self._services.directory, settings.network.router_name
        routers = await directory.list_routers(project)
        named = [one for one in routers if "murano" in str(one.get("name") or "")]
        found = next(iter([*named, *routers]), None)
        if found is None or found.get("name") == own:
            try:
                router = await directory.default_router(
                    project,
                    name=own,
                    create=settings.network.create_router,
                    external_network=settings.network.external_network,
                )
                outside = await directory.external_network_for_router(project, router)
                return {"routerId": router, "floatingId": outside}
            except KeyError:
                return {"routerId": "NOT_FOUND", "floatingId": "NOT_FOUND"}
            except RouterWithoutGateway:
                if found is None:
                    raise
        gateway: dict[str, Json] = found.get("external_gateway_info") or {}
        return {"routerId": str(found["id"]), "floatingId": gateway.get("network_id")}

    async def _default_network(self) -> str | None:
        """The only one; else one called murano, else the first external, shared, or any (§11)."""
        networks = await self._services.directory.list_networks(self._services.project_id)
        named = [one for one in networks if "murano" in str(one.get("name") or "")]
        external = [one for one in networks if one.get("router:external")]
        shared = [one for one in networks if one.get("shared")]
        return next((str(one["id"]) for one in [*named, *external, *shared, *networks]), None)

    async def _range_of(self, network: str) -> str | None:
        subnets = await self._services.directory.list_subnetworks(self._services.project_id)
        found = [one for one in subnets if one.get("network_id") == network]
        return str(found[0]["cidr"]) if found else None

    async def _free_range(self, request: NetworkRequest, chosen: list[str]) -> str | None:
        settings = self._services.settings.network
        used = await self._services.directory.router_cidrs(
            self._services.project_id, str(request.arguments.get("routerId") or "")
        )
        found = choose_cidr(
            None,
            [*used, *chosen],
            template=settings.env_ip_template,
            max_environments=settings.max_environments,
            max_hosts=settings.max_hosts,
        )
        if found is not None:
            chosen.append(found)
        return found

    # The stack

    def lacks_balancers(self) -> str | None:
        """Why a stack of this back end can have no load balancer; ``None``: it can, or that is unknown."""
        stacks = self._services.stacks
        if not isinstance(stacks, KnowsBalancers):
            return None
        try:
            return self._wait_or_end(stacks.lacks_balancers())
        except (ConnectionError, StackError) as error:
            return str(error)

    def update_stack(
        self, fragments: list[Fragment], template: dict[str, Json], arguments: dict[str, Json]
    ) -> dict[str, Json]:
        """Create or update the environment's stack; its outputs. Raises: PortError (§9.3)."""

        async def push() -> Json:
            before = await self._incarnations()
            outputs = await apply()
            now = await self._incarnations()
            self._machines = {name: (before.get(name), value) for name, value in now.items()}
            return outputs

        async def apply() -> dict[str, Json]:
            stack = await settled(self._services, self._stack, self._services.stacks.head)
            if (
                stack is not None
                and (outputs := await self._unchanged(template, arguments)) is not None
            ):
                return outputs
            call = self._services.stacks.create if stack is None else self._services.stacks.update
            done = await when_free(
                self._services,
                self._stack,
                lambda: call(
                    self._services.project_id,
                    self._stack,
                    template,
                    parameters=arguments,
                    rollback=stack is None,
                    progress=lambda text: self._services.waiting.say(self._stack, text),
                    may_lose=self._services.may_lose,
                ),
            )
            for text in done.warnings:
                await self._services.reports.report(None, "warning", text)
            expected = "CREATE_COMPLETE" if stack is None else "UPDATE_COMPLETE"
            if done.status.value != expected:
                raise PortError(f"Unexpected stack state {done.status.value}: {_reason(done)}")
            return dict(done.outputs)

        request = {"stack": self._stack, "template": template, "parameters": arguments}
        return self._stack_effect("stack.push", request, push)

    async def _unchanged(
        self, template: dict[str, Json], arguments: dict[str, Json]
    ) -> dict[str, Json] | None:
        """The outputs of a stack that is whole and has this template; ``None``: it must be updated.

        Whole is one from which nothing is missing, such as a machine that somebody has destroyed.
        """
        project, name = self._services.project_id, self._stack
        stack = await self._services.stacks.get(project, name)
        if stack is None or stack.status not in (
            StackStatus.CREATE_COMPLETE,
            StackStatus.UPDATE_COMPLETE,
        ):
            return None
        if (stack.template, stack.parameters) != (template, arguments):
            return None
        return None if await self._altered() else dict(stack.outputs)

    async def _altered(self) -> list[str]:
        """The resources from which something is missing; none, with a warning, when nobody could look."""
        services, stacks = self._services, self._services.stacks
        if not isinstance(stacks, KnowsAlterations):
            return []
        try:
            return await stacks.altered(services.project_id, self._stack)
        except StackError as error:
            await services.reports.report(None, "warning", str(error))
            return []

    async def _incarnations(self) -> dict[str, str]:
        stacks = self._services.stacks
        if not isinstance(stacks, KnowsIncarnations):
            return {}
        return await stacks.incarnations(self._services.project_id, self._stack)

    def machines(self) -> dict[str, tuple[str | None, str]]:
        """Which root disks they have: what was made anew has another one (decision 0803)."""
        return self._machines

    def delete_stack(self) -> None:
        """Delete it; one that is absent is success. Raises: PortError (§9.4)."""

        async def remove() -> Json:
            services, stack = self._services, self._stack
            left = await when_free(
                services,
                stack,
                lambda: services.stacks.delete(
                    services.project_id, stack, may_lose=services.may_lose
                ),
            )
            if left is not None:
                raise PortError(f"Unexpected stack state {left.status.value}: {_reason(left)}")
            return None

        self._stack_effect("stack.delete", {"stack": self._stack}, remove)

    def _stack_effect(
        self, kind: str, request: Json, execute: Callable[[], Awaitable[Json]]
    ) -> Json:
        try:
            if self._services.refused is not None:
                raise self._services.refused
            return self._perform(kind, request, execute)
        except (ConnectionError, StackError) as error:
            if isinstance(error, LossRefused):
                self._services.refused = error
            raise PortError(str(error), type(error).__name__) from error
        finally:
            self._loop.call_soon_threadsafe(self._services.waiting.say, self._stack, "")

    # Guests

    def guest_marks(self, queue: str) -> dict[str, str]:
        """Where a guest finds its mailbox, with a credential of its own; nothing where there is a broker.

        Raises: PortError when the broker cannot be used.
        """
        self.used.add(queue)
        services, signer = self._services, self._services.signer
        brokered = self._transport is not services.transport
        try:
            token = self._wait_or_end(self._credential(queue))
        except MessagingError as error:
            raise PortError(str(error), type(error).__name__) from error
        user = self._transport.broker_user(queue)
        own = {
            "RABBITMQ_USER": user,
            "RABBITMQ_PASSWORD": token,
            "RESULT_EXCHANGE_OPTION": f"result_exchange={user}\n",
            "RESULT_EXCHANGE_ELEMENT": f'<add key="rabbitmq.resultExchange" value="{user}"/>',
        }
        return {
            **(own if user else {}),
            "MAILBOX_URL": "" if brokered else services.settings.mailbox_url,
            "MAILBOX_TOKEN": "" if brokered else token,
            # Continuation lines of the INI file are indented.
            "ENGINE_KEY": "" if signer is None else signer.public_key("\t").strip(),
        }

    async def _credential(self, queue: str) -> str:
        token = await self._transport.issue_credential(queue)
        await note_made(self._transport, queue, self._place(queue))
        return token

    def _place(self, queue: str) -> Place:
        """Where a guest is to come."""
        services = self._services
        broker = services.settings.broker({})
        if broker is None or self._transport is services.transport:
            return at_mailbox(services.settings.mailbox_url, services.signer)
        results = result_queue_of(services.environment_id)
        user = self._transport.broker_user(queue)
        return at_broker(broker, services.signer, user=user, results=results)

    def run_plans(self, requests: list[AgentRequest]) -> list[AgentAnswer]:
        """Send all in order, then wait for all; one that cannot be sent fails alone (§10.2).

        One that was answered in a former run of this round is not sent again.
        """
        known = {one.plan_id: self._wait(self._known_answer(one)) for one in requests}
        new = [one for one in requests if known[one.plan_id] is None]
        refused: dict[str, str] = {}
        try:
            for request in new:
                if request.queue not in self._met:
                    self._met[request.queue] = self._wait(self._heard_before(request.queue))
                try:
                    self._perform(
                        "agent.send",
                        {"queue": request.queue, "id": request.plan_id, "name": request.template},
                        self._sender(request),
                    )
                except MessagingError as error:
                    refused[request.plan_id] = str(error)
            sent = [one for one in new if one.plan_id not in refused]
            came = self._wait_or_end(self._collect(sent))
        except Cancelled:
            self._wait(self._withdraw(new))
            raise
        answers = dict(zip([one.plan_id for one in sent], came, strict=True))
        return [
            known[one.plan_id]
            or answers.get(one.plan_id)
            or AgentAnswer(failure=refused[one.plan_id])
            for one in requests
        ]

    async def _heard_before(self, queue: str) -> bool:
        """Whether a guest was heard before this task: it need not boot any more."""
        heard = await self._transport.last_contact(queue)
        return heard is not None and heard < self._began

    async def _known_answer(self, request: AgentRequest) -> AgentAnswer | None:
        kept = await self._checkpoints.answer_of(request.plan_id)
        return None if kept is None else AgentAnswer(**kept)

    def _sender(self, request: AgentRequest) -> Callable[[], Awaitable[None]]:
        body = json.dumps(request.plan).encode()
        self.used.add(request.queue)

        async def send() -> None:
            await self._transport.declare(request.queue)
            if "ID" in request.plan and request.queue not in self._told:
                self._told.add(request.queue)
                services, place = self._services, self._place(request.queue)
                transport = self._transport
                await tell(transport, services.transport, services.signer, request.queue, place)
            await self._transport.send(
                request.queue,
                request.plan_id,
                body,
                signature=self._signed(request.queue, body),
                name=request.template,
                lifetime=self._seconds(request),
            )

        return send

    def _signed(self, queue: str, body: bytes) -> bytes | None:
        signer = self._services.signer
        return None if signer is None else signer.sign(queue, body)

    def _seconds(self, request: AgentRequest) -> float:
        if request.timeout is not None:
            return float(request.timeout)
        longer = 0.0 if self._met.get(request.queue) else FIRST_CONTACT_SECONDS
        return self._services.settings.engine.agent_timeout + longer

    async def _collect(self, requests: list[AgentRequest]) -> list[AgentAnswer]:
        answers = [asyncio.create_task(self._answer(one)) for one in requests]
        try:
            return list(await asyncio.gather(*answers))
        finally:
            for one in answers:
                one.cancel()  # of one that failed the others go with it
            await asyncio.gather(*answers, return_exceptions=True)

    async def _withdraw(self, requests: list[AgentRequest]) -> None:
        services = self._services
        await asyncio.gather(
            *(
                withdraw(self._transport, services.signer, one.queue, one.plan_id, "ID" in one.plan)
                for one in requests
            )
        )

    async def _answer(self, request: AgentRequest) -> AgentAnswer:
        seconds = self._seconds(request)
        transport = self._transport
        text = f"the agent of unit {request.unit}, which runs the plan {request.template}"
        self._services.waiting.say(request.plan_id, text)
        try:
            body = await transport.wait_result(request.plan_id, seconds)
        finally:
            self._services.waiting.say(request.plan_id, "")
        answer = _read(body, seconds)
        if body is not None:
            self._met[request.queue] = True
        # In this order: the mailbox forgets the answer when it is discarded.
        kept = {"result": answer.result, "timed_out": answer.timed_out, "failure": answer.failure}
        await self._checkpoints.keep_answer(request.plan_id, kept)
        await transport.discard(request.plan_id)
        return answer

    # The rest

    def new_id(self) -> str:
        """An id that is new, and the same when the round is begun again."""
        return f"{self._random.getrandbits(128):032x}"

    def now(self) -> datetime:
        """The time."""
        return datetime.now(UTC)

    def checkpoint(self, progress: dict[str, Json], round_number: int) -> None:
        """Stored, before anything of the next round is done."""
        if round_number:
            self._wait(self._keep_trace(round_number))
        self._wait(self._checkpoints.save(progress, round_number))
        self.begin_round(round_number)


def _read(body: bytes | None, seconds: float) -> AgentAnswer:
    if body is None:
        return AgentAnswer(timed_out=seconds)
    try:
        return AgentAnswer(result=read_json(body))
    except DocumentError as error:
        return AgentAnswer(failure=f"the agent's answer is no JSON: {error}")


def _reason(stack: Stack) -> str:
    failure: StackFailure | None = stack.failure
    return stack.reason if failure is None or failure.text in stack.reason else failure.text
