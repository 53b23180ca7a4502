"""``Agent`` and ``AgentListener``: execution plans to guests and back (core-library.md §4.2, §4.3)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vetro import tracing
from vetro.engine.errors import AgentTimeout, ForeignGuest, PolicyViolation
from vetro.engine.guest_times import trace_guest
from vetro.engine.plans import (
    PlanBuilder,
    bounded,
    decode_result,
    is_second_format,
    isolation_is_optional,
    read_result,
)
from vetro.engine.services import EngineServices, RegionDoor, logger, queue_name, services_of
from vetro.engine.system.resources import Resources
from vetro.engine.telling import Place, at_broker, at_mailbox, note_made, tell
from vetro.engine.withdrawal import withdraw
from vetro.json_values import Json
from vetro.messaging import MessageTransport, Progress, Unfinished
from vetro.muranopl import CallContext, MuranoObject

if TYPE_CHECKING:
    from vetro.messaging import BrokerSettings

RESULTS = "-execution-results-"


def broker_of(services: EngineServices, region: MuranoObject | None) -> BrokerSettings | None:
    """The broker of a region when it has one."""
    if region is None or services.brokers is None:
        return None
    config: dict[str, Json] = region.call("getConfig") or {}
    return services.settings.broker(config.get("agentRabbitMq") or {})


def door_of(
    services: EngineServices, region: MuranoObject | None, results: str
) -> RegionDoor | None:
    """The door to a region's guests when the region has a broker."""
    broker = broker_of(services, region)
    return None if broker is None or services.brokers is None else services.brokers(broker, results)


class Agent:
    """The agent of one instance."""

    def __init__(self, ctx: CallContext, host: MuranoObject) -> None:
        services = services_of(ctx)
        environment = host.find_owner("io.murano.Environment")
        owner = environment.id if environment is not None else services.environment_id
        # Ids of objects are chosen by whoever writes them, that of an environment too.
        is_own = owner == services.environment_id or not services.only_own_guests
        self._foreign = "" if is_own else owner
        self._queue = queue_name(owner, host.id)
        self._enabled = not services.settings.engine.disable_murano_agent
        self._signer = services.signer
        self._host = host
        self._transport: MessageTransport | None = None
        self._broker: tuple[BrokerSettings, str] | None = None
        self._host_id = host.id
        self._name = str(host.get("name") or host.id)
        self._is_leaving = False

    @property
    def enabled(self) -> bool:
        """Whether agents are in use."""
        return self._enabled

    def prepare(self) -> None:
        """Does nothing; old test code calls it."""

    def queue_name(self) -> str:
        """The name of the guest's mailbox."""
        return self._queue

    def signing_key(self, line_prefix: str = "") -> str:
        """The engine's public key, or ''."""
        return self._signer.public_key(line_prefix) if self._signer is not None else ""

    def _reached(self, services: EngineServices) -> MessageTransport:
        """How the guest is reached: by its region's broker, else at its mailbox."""
        if self._foreign:
            raise ForeignGuest(self._name, self._foreign)
        if self._transport is None:
            region: MuranoObject | None = None
            if self._host.is_a("io.murano.CloudResource"):
                region = self._host.call("getRegion")
            self._transport = services.transport
            listener: MuranoObject | None = None
            if region is not None:
                listener = region.get("agentListener")
            broker = None if listener is None else broker_of(services, region)
            if listener is not None and broker is not None and services.brokers is not None:
                self._broker = broker, listener.call("queueName")
                self._transport = services.brokers(*self._broker)
        return self._transport

    def _place(self, services: EngineServices) -> Place:
        """Where the agent is to come; `_reached` was asked before."""
        if self._broker is None:
            return at_mailbox(services.settings.mailbox_url, self._signer)
        broker, results = self._broker
        transport = self._transport or services.transport
        user = transport.broker_user(self._queue)
        return at_broker(broker, self._signer, user=user, results=results)

    def mailbox_url(self, ctx: CallContext) -> str:
        """Where the guest finds its mailbox; '' for a guest that uses a broker."""
        services = services_of(ctx)
        if self._reached(services) is not services.transport:
            return ""
        return services.settings.mailbox_url

    def mailbox_token(self, ctx: CallContext) -> str:
        """The guest's credential; always the same until it is revoked. '' where guests share the login of
        a broker.

        That it was issued is in the journal, what it is never: it is asked for again instead.
        """
        services = services_of(ctx)
        transport = self._reached(services)

        async def issue() -> None:
            await transport.issue_credential(self._queue)
            await note_made(transport, self._queue, self._place(services))

        ctx.effect("agent.credential", {"queue": self._queue}, issue)
        return ctx.wait(transport.issue_credential(self._queue))

    def broker_user(self, ctx: CallContext) -> str:
        """The guest's own user at its broker, with the credential as password; '' where it has none.

        The exchange that this user sends results to has the same name.
        """
        return self._reached(services_of(ctx)).broker_user(self._queue)

    def release(self, ctx: CallContext) -> None:
        """The guest is gone: its credential and its mailbox as well.

        Where machines are guarded, it is gone when the stack that was put off has been pushed.
        """
        services = services_of(ctx)
        transport = self._reached(services)

        def forget() -> None:
            request = {"queue": self._queue}
            ctx.effect("agent.release", request, lambda: transport.delete(self._queue))

        async def forget_later() -> None:
            # A hook runs at each end of a part of the session.
            if self._is_leaving and services.refused is None:
                self._is_leaving = False
                await ctx.session.in_green_thread_async(forget)

        if services.may_lose is None:
            forget()
        else:
            self._is_leaving = True
            ctx.session.on_finish(forget_later)

    def build_execution_plan(
        self, ctx: CallContext, template: Json, resources: MuranoObject | None
    ) -> Json:
        """The wire plan of a template whose files are in ``resources``."""
        services = services_of(ctx)
        effects = ctx.effects
        if self._queue not in services.stamps_known:
            # The clock may have been set back since, or be that of another machine.
            transport = self._reached(services)
            services.stamps.pass_over(ctx.wait(transport.last_stamp(self._queue)))
            services.stamps_known.add(self._queue)

        def read_file(name: str) -> bytes:
            if resources is None:
                raise FileNotFoundError(f"the plan names the file {name}, but has no resources")
            return resources.native(Resources).read(ctx, f"scripts/{name}")

        builder = PlanBuilder(
            read_file,
            effects.new_id,
            lambda: services.stamps.next(effects.now().timestamp()),
        )
        plan = builder.build(template)
        if "Isolation" not in plan and isolation_is_optional(ctx.session):
            plan["Isolation"] = "optional"
        return plan

    def call(
        self,
        ctx: CallContext,
        template: Json,
        resources: MuranoObject | None,
        timeout: float | None = None,
    ) -> Json:
        """Run a plan in the guest and return its value. Errors: time-out, the plan's error."""
        self._begin(ctx)
        plan = self.build_execution_plan(ctx, template, resources)
        return self._call(ctx, bounded(plan, self._seconds(ctx, timeout)), timeout)

    def send(self, ctx: CallContext, template: Json, resources: MuranoObject | None) -> None:
        """Send a plan without waiting."""
        self._begin(ctx)
        self._send(ctx, self.build_execution_plan(ctx, template, resources))

    def call_raw(self, ctx: CallContext, plan: Json, timeout: float | None = None) -> Json:
        """Run a plan as it is given."""
        self._begin(ctx)
        return self._call(ctx, plan, timeout)

    def send_raw(self, ctx: CallContext, plan: Json) -> None:
        """Send a plan as it is given, without waiting."""
        self._begin(ctx)
        self._send(ctx, plan)

    def wait_ready(self, ctx: CallContext, timeout: float | None = 100) -> None:
        """Wait until the guest answers. Errors: time-out."""
        self._ready(ctx, timeout)

    def _ready(self, ctx: CallContext, timeout: float | None, *, report: bool = True) -> None:
        self._need()
        template: dict[str, Json] = {
            "FormatVersion": "2.0.0",
            "Body": "return",
            "Scripts": {},
            "Files": {},
        }
        plan = self.build_execution_plan(ctx, template, None)
        plan["Isolation"] = "optional"  # it does nothing
        self._call(ctx, bounded(plan, self._seconds(ctx, timeout)), timeout, report=report)

    def is_ready(self, ctx: CallContext, timeout: float | None = 100) -> bool:
        """Whether the guest answers in time."""
        try:
            self._ready(ctx, timeout, report=False)
        except AgentTimeout:
            return False
        return True

    def _need(self) -> None:
        if not self._enabled:
            raise PolicyViolation

    def _begin(self, ctx: CallContext) -> None:
        self._need()
        services_of(ctx).guests_called.add(self._queue)

    def _message(self, ctx: CallContext, plan: Json) -> tuple[str, bytes, bytes | None]:
        id_ = str(plan.get("ID") or ctx.effects.new_id())
        if tracing.is_on() and is_second_format(plan):
            plan = {**plan, "Timings": True}
        body = json.dumps(plan, ensure_ascii=False).encode()
        signature = self._signer.sign(self._queue, body) if self._signer is not None else None
        return id_, body, signature

    def _seconds(self, ctx: CallContext, timeout: float | None) -> float:
        settings = services_of(ctx).settings
        return float(settings.engine.agent_timeout if timeout is None else timeout)

    def _send(self, ctx: CallContext, plan: Json, lifetime: float | None = None) -> str:
        services = services_of(ctx)
        transport = self._reached(services)
        id_, body, signature = self._message(ctx, plan)
        name = str(plan.get("Name") or "")

        async def deliver() -> None:
            await transport.declare(self._queue)
            if self._queue not in services.guests_met:
                services.guests_met.add(self._queue)
                await self._withdraw_abandoned(transport)
            if is_second_format(plan) and self._queue not in services.guests_told:
                place = self._place(services)
                await tell(transport, services.transport, self._signer, self._queue, place)
                services.guests_told.add(self._queue)
            await transport.send(
                self._queue,
                id_,
                body,
                signature=signature,
                name=name,
                lifetime=lifetime,
                stamp=_stamp(plan),
            )

        request = {"queue": self._queue, "id": id_, "name": plan.get("Name")}
        ctx.effect("agent.send", request, deliver)
        return id_

    def _call(
        self, ctx: CallContext, plan: Json, timeout: float | None, *, report: bool = True
    ) -> Json:
        services = services_of(ctx)
        seconds = self._seconds(ctx, timeout)
        id_ = self._send(ctx, plan, max(0.0, seconds))
        request = {"queue": self._queue, "id": id_, "timeout": seconds}
        found = ctx.effect(
            "agent.result", request, lambda: self._result(services, id_, plan, seconds, report)
        )
        return decode_result(found)

    async def _result(
        self, services: EngineServices, id_: str, plan: Json, seconds: float, report: bool
    ) -> Json:
        name = str(plan.get("Name") or id_)
        transport = self._transport or services.transport
        try:
            before = (await transport.progress(id_)).before
            text = f"the agent of {self._name}, which runs the plan {name}"
            if before:
                text = f"the agent of {self._name}: the plan {name} waits behind {_list(before)}"
            services.waiting.say(id_, text)
            body = await transport.wait_result(id_, seconds)
        except BaseException:
            # The deployment is cancelled, or waiting is not possible: the wait has ended.
            await withdraw(transport, self._signer, self._queue, id_, is_second_format(plan))
            raise
        finally:
            services.waiting.say(id_, "")
        if body is not None:
            await transport.discard(id_)
            result = read_result(body)
            trace_guest(result, self._queue)
            return result
        last = await transport.last_contact(self._queue)
        progress = await transport.progress(id_)
        withdrawn = await withdraw(
            transport, self._signer, self._queue, id_, is_second_format(plan)
        )
        if report:
            heard = "has never contacted the service"
            if last:
                heard = f"last contacted the service at {last:%Y-%m-%d %H:%M:%S} UTC"
            await services.reports.report(
                self._host_id,
                "warning",
                f"The agent of {self._name} (queue {self._queue}) did not answer the plan {name}"
                f" within {seconds:g} seconds; it {heard}. {_why(progress)} {withdrawn}",
            )
        raise AgentTimeout(
            seconds,
            {
                "instance": self._name,
                "queue": self._queue,
                "plan": name,
                "lastContact": last.isoformat() if last else None,
                "blockedBy": [one.name for one in progress.before],
            },
        )

    async def _withdraw_abandoned(self, transport: MessageTransport) -> None:
        """Withdraw what a session has left that was killed while it waited.

        An environment has one session at a time: what is awaited here, before this one has sent
        anything, nobody waits for.
        """
        for one in await transport.unfinished(self._queue):
            if one.awaited:
                done = await withdraw(transport, self._signer, self._queue, one.message_id)
                logger(__name__).warning(
                    "plan_left_by_killed_session",
                    queue=self._queue,
                    plan=one.name,
                    done=done,
                )


def _stamp(plan: Json) -> int | None:
    """The stamp of a plan as a guest reads it; ``None`` without one, or when it is none."""
    stamp = plan.get("Stamp")
    return stamp if type(stamp) is int and abs(stamp) < 1 << 63 else None


def _list(plans: Sequence[Unfinished]) -> str:
    """The plans that a guest has to finish first, the one that it runs at the head."""
    first, *others = plans
    text = f"{first.name} (sent {first.sent_at:%Y-%m-%d %H:%M:%S} UTC"
    text += ")" if first.awaited else ", no deployment waits for it)"
    if others:
        text += f" and {len(others)} more: {', '.join(one.name for one in others)}"
    return text


def _why(progress: Progress) -> str:
    """What held a plan up, as far as it is known."""
    if progress.before:
        return f"It waits behind {_list(progress.before)}: the guest runs one plan at a time."
    return {
        "guest": "The guest has the plan, but it has not finished.",
        "broker": "The broker has accepted the plan, and no other plan is before it.",
        "mailbox": "The guest has not fetched the plan.",
    }[progress.place]


class AgentListener:
    """Receives results of a region's agents.

    The transport keeps results until somebody asks, so nothing has to run here; what programs can
    see of a listener is kept: it starts once, and it stops with the session.
    """

    def __init__(self, ctx: CallContext, name: str) -> None:
        self._name = f"{RESULTS}{name}".lower()
        self._enabled = not services_of(ctx).settings.engine.disable_murano_agent
        self._started = False
        self._subscribed: set[str] = set()

    @property
    def enabled(self) -> bool:
        """Whether agents are in use."""
        return self._enabled

    def queue_name(self) -> str:
        """The name of the result queue."""
        return self._name

    def start(self, ctx: CallContext) -> None:
        """Begin to receive; again: nothing. Without agents: nothing."""
        if self._enabled and not self._started:
            self._started = True
            ctx.session.on_finish(self.stop)

    def stop(self) -> None:
        """Stop receiving."""
        self._started = False
        self._subscribed.clear()

    def subscribe(self, ctx: CallContext, message_id: str, event: object = None) -> None:
        """Expect the result of a message. Errors: agents are switched off."""
        self._need()
        self.start(ctx)
        self._subscribed.add(message_id)

    def unsubscribe(self, message_id: str) -> None:
        """Expect it no longer. Errors: agents are switched off."""
        self._need()
        self._subscribed.discard(message_id)

    def release(self, ctx: CallContext) -> None:
        """The region is gone: its result queue goes too, where there is a broker."""
        region = ctx.this.find_owner("io.murano.CloudRegion") if ctx.this is not None else None
        door = door_of(services_of(ctx), region, self._name)
        if door is not None:
            ctx.effect("listener.release", {"queue": self._name}, door.forget_results)

    @property
    def is_started(self) -> bool:
        """Whether results are received now."""
        return self._started

    def _need(self) -> None:
        if not self._enabled:
            raise PolicyViolation
