"""``HeatStack``: a region's template, and pushing it to a back end (core-library.md §4.4)."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from vetro.engine.errors import HeatStackError, StackFailed
from vetro.engine.services import EngineServices, logger, places, services_of
from vetro.engine.system.asked_rules import AskedRules, Rules, without_rules
from vetro.engine.system.leaving import Leaving
from vetro.engine.system.owners import Holder, Owners, refusal
from vetro.engine.system.put_back import Former, put_back, with_former
from vetro.engine.system.stack_turns import settled, when_free
from vetro.engine.system.template_parts import merge, without, without_unmade
from vetro.engine.system.template_spelling import is_cfn, respell, section
from vetro.json_values import Json
from vetro.muranopl import CallContext, MuranoObject, freeze, native
from vetro.stacks import (
    KnowsAlterations,
    KnowsIncarnations,
    LossRefused,
    PlacementFailure,
    Stack,
    StackError,
    unnamed,
)

if TYPE_CHECKING:
    import asyncio

    from vetro.stacks import Stacks

VERSION = "2013-05-23"
HOME = "environment-"
"""Before the id of the environment, in the tag of a stack that says whose it is."""


@dataclass
class _Push:
    """A running push: the revision that it carries, and its result."""

    revision: int
    done: asyncio.Event = field(default_factory=lambda: _event())
    error: BaseException | None = None


def _event() -> asyncio.Event:
    # Imported late: checking a package loads the system classes and runs nothing.
    import asyncio

    return asyncio.Event()


class HeatStack:
    """A stack: what it should be, and whether that was pushed.

    Every change of template, parameters, files or environment is a new revision; a push carries the
    revision of its beginning. A green thread that wants its revision pushed while a push goes on
    waits: for that push when it carries the revision, else for the next one, which carries what all
    waiting threads have added. So side by side deployments become few updates.
    """

    def __init__(
        self,
        ctx: CallContext,
        name: str,
        description: str | None = None,
        region_name: str | None = None,
    ) -> None:
        self._name = name
        self._description = description
        self._region = region_name
        self._template: dict[str, Json] | None = None
        self._parameters: dict[str, Json] = {}
        self._files: dict[str, str] = {}
        self._environment: str | None = None
        self._revision = 0
        self._pushed = 0
        self._content: Json = None
        """What the back end has, as far as it is settled; ``None`` when it is unknown."""
        self._push_now: _Push | None = None
        self._deferred = False
        self._unmade: set[str] = set()
        """Resources that a failed operation has not made and nobody has asked for since."""
        self._leaving = Leaving(name)
        self._former = Former(name)
        self._asked = AskedRules(name)
        self._owners = Owners(name, region_name)
        self._holder = Holder(ctx, name, region_name)
        self._finishes = self._explained = self._is_altered = False
        self._outputs: Json = None
        """The outputs as a program's value; ``None`` when they have to be asked for."""
        self._incarnations: Json = None
        """Which root disks the servers have; ``None`` when it has to be asked."""

    def _stacks(self, services: EngineServices) -> Stacks:
        return places(services, self._region)[0]

    # What the template is

    def current(self, ctx: CallContext) -> Json:
        """The template; of the back end when none was set. Never null."""
        return copy.deepcopy(self._current(ctx))

    def _current(self, ctx: CallContext) -> dict[str, Json]:
        if self._template is None:
            services = services_of(ctx)
            former = self._former.values(ctx)

            async def fetch() -> Json:
                stack = await self._get(services)
                if stack is None:
                    return None
                return {
                    "template": stack.template,
                    "parameters": stack.parameters,
                    "files": stack.files,
                    "environment": stack.environment,
                    "settled": not stack.status.failed,
                    "unmade": stack.unmade,
                    "altered": await self._altered(services),
                    "put_back": await self._put_back(services, stack, former),
                }

            found = ctx.effect("stack.get", {"stack": self._name}, fetch)
            template = cast("dict[str, Json]", found["template"] if found else {})
            if found and (names := found.get("put_back")):
                template = with_former(template, former, names)
            self._template = self._leaving.found(ctx, template)
            parameters = cast("dict[str, Json]", found["parameters"] if found else {})
            self._parameters = {k: v for k, v in parameters.items() if not k.startswith("OS::")}
            if found:
                # Journals of an earlier version have neither, nor what is put back.
                self._files = cast("dict[str, str]", found.get("files") or {})
                self._environment = found.get("environment")
            self._pushed = self._revision
            self._content = self._wanted()
            self._former.begin(self._content[0])
            if found and self._leaving:
                self._content[0] = found["template"]
                self._change()
                # Whoever wanted it gone may never push again, as one that moved to another region.
                self._deferred = True
                self._finish_later(ctx)
            if found and not found["settled"]:
                # Resources that the last operation left half done differ from the template.
                self._unmade = set(found.get("unmade") or [])
                self._content = None
                self._change()
            elif found and found.get("altered"):
                # By hand: the next push puts it back, also one that asks for nothing new.
                self._content = None
                self._change()
                self._is_altered = True
        return self._template

    def _change(self) -> None:
        self._revision += 1

    def _ask_for(self, fragment: dict[str, Json]) -> None:
        asked = self._unmade & section(fragment, "resources").keys()
        if asked:
            self._unmade -= asked
            self._change()

    def _wanted(self) -> Json:
        """Everything that a push carries."""
        # No copies: what a template is made of is never changed in place, only replaced.
        return [self._complete_template(), self._parameters, self._files, self._environment]

    def parameters(self, ctx: CallContext) -> Json:
        """The template's parameters."""
        self._current(ctx)
        return dict(self._parameters)

    def reload(self, ctx: CallContext) -> Json:
        """Forget what was not pushed."""
        self._outputs = self._incarnations = None
        self._template = None
        self._parameters = {}
        return self.current(ctx)

    def set_template(self, template: Json) -> None:
        """Replace the template; the parameters go."""
        given = cast("dict[str, Json]", copy.deepcopy(template) or {})
        self._template = given
        self._leaving.replaced(given)
        self._ask_for(given)
        self._parameters = {}
        self._change()

    def set_parameters(self, parameters: Json) -> None:
        """Replace the parameters."""
        self._parameters = dict(parameters or {})
        self._change()

    def set_files(self, files: Json) -> None:
        """Replace the files that the template names."""
        self._files = dict(files or {})
        self._change()

    def set_hot_environment(self, hot_environment: str | None) -> None:
        """Replace the environment text."""
        self._environment = hot_environment
        self._change()

    def update_template(self, ctx: CallContext, template: Json) -> None:
        """Merge a fragment into the template.

        Errors: wrong version, types that do not fit, a resource of another application.
        """
        self._merge(ctx, template, [], [])

    def _merge(
        self, ctx: CallContext, template: Json, resources: list[str], outputs: list[str]
    ) -> None:
        given = cast("dict[str, Json]", template or {})
        self._check_version(given)
        before = self._current(ctx)
        merged = merge(without(before, resources, outputs), respell(given, before))
        names = list(section(given, "resources"))
        first = self._owners.taken(ctx, before, merged, names)
        if first:
            # What was another object's goes before: under its name comes something else.
            self._becomes(before, without(before, first, []))
            for name in first:
                self._make_way(ctx, name)
            before = self._current(ctx)
            merged = merge(without(before, resources, outputs), respell(given, before))
        self._ask_for(given)
        self._becomes(before, merged)

    def _becomes(self, before: dict[str, Json], template: dict[str, Json]) -> bool:
        """Whether the template is another one than before."""
        if template == before:
            return False
        self._leaving.change(before, template, self._unmade)
        self._template = template
        self._change()
        return True

    def _check_version(self, given: dict[str, Json]) -> None:
        if str(given.get("heat_template_version", VERSION)) != VERSION:
            raise HeatStackError(f"Currently only heat_template_version {VERSION} is supported.")

    def set_resource(self, ctx: CallContext, name: str, body: Json) -> None:
        """Replace a resource as a whole: what it had before is gone, unlike with updateTemplate."""
        self.remove_resource(ctx, name)
        self.update_template(ctx, {"resources": {name: body}})

    def remove_resource(self, ctx: CallContext, name: str) -> bool:
        """Take one resource out of the template; whether it was there."""
        return self.remove_resources(ctx, [name])

    def remove_resources(
        self, ctx: CallContext, resources: list[str], outputs: list[str] | None = None
    ) -> bool:
        """Take resources and outputs out of the template; whether there were any."""
        before = self._current(ctx)
        return self._becomes(before, without(before, resources, outputs or []))

    def replace_fragment(
        self,
        ctx: CallContext,
        template: Json,
        resources: list[str] | None = None,
        outputs: list[str] | None = None,
    ) -> None:
        """Merge a fragment in place of what an object had put there: ``resources``, ``outputs``.

        Merging alone can only add; this way what the object does not want any more goes. Shared
        resources, such as a security group, are merged: they are not in the object's lists.
        """
        self._merge(ctx, template, resources or [], outputs or [])

    def server_holders(
        self, ctx: CallContext, name: str, instance: MuranoObject
    ) -> list[MuranoObject]:
        """The other instances whose server the resource of this name is, as of earlier sessions."""
        return [one for one in self._owners.instances(ctx, name) if one is not instance]

    def refuse_server(self, name: str, instance: MuranoObject, holder: MuranoObject) -> None:
        """Say that a server of this name is another instance's. Errors: ``HeatStackError``, always."""
        raise refusal(name, instance, holder)

    @native(lock=False)
    def make_way(self, ctx: CallContext, name: str) -> None:
        """Let the back end remove a resource that was taken out of the template, before another object
        puts its own there under the same name: that is another one.

        Errors: ``HeatStackError`` when it stays because others use it.
        """
        if name not in section(self._current(ctx), "resources"):
            self._make_way(ctx, name)

    def _make_way(self, ctx: CallContext, name: str) -> None:
        if self._leaving.has(name):
            self._push(ctx)
        if self._leaving.has(name):
            raise HeatStackError(
                f"The resource {name} of the stack {self._name} is of an object that leaves, and others"
                " still use it. Deploy without them first, or choose another name"
            )

    def note_rules(self, ctx: CallContext, group: str, key: str, rules: list[Json]) -> None:
        """The calling application asks for rules of a security group."""
        self._asked.note(ctx, self._current(ctx), group, key, rules)

    def forget_rules(self, ctx: CallContext) -> bool:
        """Take out the rules that only removed applications have asked for; whether there were any."""
        return self._take_out(ctx, self._asked.forsaken(ctx))

    @native(lock=False)
    def settle_rules(self, ctx: CallContext) -> None:
        """A whole deployment has ended well: rules that nobody asks for any more leave the back end, too.

        What somebody has taken out there by hand is put back, also when nobody has pushed.
        """
        self._current(ctx)
        if self._take_out(ctx, self._asked.given_up(ctx)) or self._is_altered:
            self._push(ctx)
        # Not before: what a failed push has left there is to be taken out by the next deployment.
        self._asked.forget(ctx)

    def _take_out(self, ctx: CallContext, gone: Rules) -> bool:
        if not gone:
            return False
        before = self._current(ctx)
        return self._becomes(before, without_rules(before, gone))

    def in_hot(self, ctx: CallContext) -> Json:
        """Resources and outputs of the template in today's spelling, whatever its own is."""
        template = respell(self._current(ctx), {"heat_template_version": VERSION})
        return copy.deepcopy({one: section(template, one) for one in ("resources", "outputs")})

    @native(lock=False)
    def check_removal(self, ctx: CallContext, resources: list[str]) -> None:
        """Refuse now what a later push would refuse: for programs that tell guests to end before.

        ``resources``: all that is about to leave. Raises: LossRefused when something of value would be lost
        with them that the task's request does not let go, such as a floating address.
        """
        services = services_of(ctx)
        may_lose = services.may_lose
        if may_lose is None:
            return

        async def judge() -> None:
            stacks = self._stacks(services)
            lost = await stacks.would_lose(services.project_id, self._name, resources)
            if refused := unnamed(lost, may_lose):
                raise LossRefused(self._name, refused)

        request: Json = {"stack": self._name, "resources": resources}
        self._change_stack(ctx, "stack.losses", request, judge)

    def has_resource(self, ctx: CallContext, name: str) -> bool:
        """Whether the template has a resource of this name."""
        return name in section(self._current(ctx), "resources")

    # What the back end has

    @native(lock=False)
    def push(self, ctx: CallContext, async_: bool = False, is_async: bool = False) -> None:
        """Make the back end's stack match.

        With ``async`` it happens with the next push, before the next ``output``, at the latest when
        the action or the session ends: several such pushes become one.
        """
        if async_ or is_async:
            self._deferred = True
            self._finish_later(ctx)
        else:
            self._push(ctx)

    def _finish_later(self, ctx: CallContext) -> None:
        if not self._finishes:
            self._finishes = True
            ctx.session.on_finish(lambda: self._finish(ctx))

    async def _finish(self, ctx: CallContext) -> None:
        if self._deferred:
            await self._push_late(ctx)
        if ctx.session.closed and not self._explained:
            self._explained = True
            for text in self._leaving.explained(self._template or {}):
                await services_of(ctx).reports.report(None, "warning", text)

    async def _push_late(self, ctx: CallContext) -> None:
        """What was put off is done now. Nobody waits for it, so its failure is a report."""
        try:
            await ctx.session.in_green_thread_async(lambda: self._push(ctx))
        except Exception as error:
            if services_of(ctx).refused is not None:
                return  # the task says so
            log = logger(__name__)
            log.warning("postponed_stack_update_failed", stack=self._name, exc_info=True)
            text = f"Updating the stack {self._name} failed: {error}"
            await services_of(ctx).reports.report(None, "error", text)

    def _push(self, ctx: CallContext) -> None:
        self._deferred = False
        wanted = self._revision
        while (running := self._push_now) is not None:
            ctx.wait(running.done.wait())
            if running.revision >= wanted:
                if running.error is not None:
                    raise running.error
                return
        if self._template is None or self._pushed == self._revision:
            return
        self._holder.take(ctx)
        content = self._wanted()
        if content == self._content:
            # What was changed was changed back: an unchanged redeployment asks for no update.
            self._pushed = self._revision
            return
        self._push_now = push = _Push(self._revision)
        self._outputs = None
        try:
            self._push_revision(ctx, content[0])
            self._pushed = push.revision
            self._content = content
        except BaseException as error:
            self._content = None
            push.error = error
            raise
        finally:
            self._outputs = self._incarnations = None
            self._push_now = None
            self._leaving.pushed(content[0], well=push.error is None)
            self._former.pushed(ctx, content[0], well=push.error is None)
            self._leaving.remember(ctx)
            if self._leaving:
                self._finish_later(ctx)
            push.done.set()

    def _complete_template(self) -> dict[str, Json]:
        template = without_unmade(dict(self._template or {}), self._unmade)
        if not is_cfn(template):
            template.setdefault("heat_template_version", VERSION)
        if self._description and "Description" not in template:
            template.setdefault("description", self._description)
        return self._leaving.complete(template)

    def _push_revision(self, ctx: CallContext, template: dict[str, Json]) -> None:
        services = services_of(ctx)
        options: dict[str, object] = {
            "parameters": dict(self._parameters),
            "files": dict(self._files),
            "environment": self._environment,
            "tags": [*services.settings.heat.stack_tags, *_home(services)],
            "timeout": services.settings.heat.stack_timeout,
            "progress": self._progress(services),
            "may_lose": services.may_lose,
        }
        request = {"stack": self._name, "template": template, "parameters": self._parameters}
        self._change_stack(
            ctx, "stack.push", request, lambda: self._apply(services, template, options)
        )

    def _change_stack(
        self, ctx: CallContext, kind: str, request: Json, work: Callable[[], Awaitable[None]]
    ) -> None:
        """Do it when no other operation is in the way. After a refusal of the task nothing is done."""
        services = services_of(ctx)
        if services.refused is not None:
            raise services.refused
        try:
            ctx.effect(kind, request, lambda: when_free(services, self._name, work))
        except LossRefused as error:
            services.refused = services.refused or error
            raise

    async def _apply(
        self, services: EngineServices, template: dict[str, Json], options: dict[str, Any]
    ) -> None:
        if not section(template, "resources"):
            await self._delete(services)
            return
        stack = await self._get(services, head=True)
        if stack is not None and (other := _elsewhere(services, stack)):
            raise HeatStackError(
                f"The stack {self._name} is of the environment {other}; this one would take it over with its"
                " data. Let the application use another name"
            )
        stacks = self._stacks(services)
        call = stacks.create if stack is None else stacks.update
        done = await call(services.project_id, self._name, template, **options)
        expected = "CREATE_COMPLETE" if stack is None else "UPDATE_COMPLETE"
        await self._expect(services, done, expected)

    async def _expect(self, services: EngineServices, stack: Stack, status: str) -> None:
        for text in stack.warnings:
            await services.reports.report(None, "warning", text)
        if stack.status.value == status:
            return
        failure = stack.failure
        extra: dict[str, object] = {}
        if failure is not None:
            extra = {"resource": failure.resource, "kind": failure.kind}
            if failure.kind == PlacementFailure.__name__:
                text = f"No server has enough free resources for {failure.resource}"
                details = placement_steps(failure.details)
                await services.reports.report(None, "warning", text, details)
        text = f"Unexpected stack state {stack.status.value}: {stack.reason}"
        raise StackFailed(text, extra)

    async def _get(self, services: EngineServices, *, head: bool = False) -> Stack | None:
        stacks = self._stacks(services)
        return await settled(services, self._name, stacks.head if head else stacks.get)

    async def _altered(self, services: EngineServices) -> list[str]:
        stacks = self._stacks(services)
        if not isinstance(stacks, KnowsAlterations):
            return []
        try:
            return await stacks.altered(services.project_id, self._name)
        except StackError as error:
            # A deployment goes on without that look.
            await services.reports.report(None, "warning", str(error))
            return []

    async def _put_back(
        self, services: EngineServices, stack: Stack, former: dict[str, Json]
    ) -> list[str]:
        """What of a failed operation's wishes is not begun with."""
        stacks = self._stacks(services)
        if not stack.status.failed:
            return []
        try:
            return await put_back(
                stack.template,
                former,
                lambda template: stacks.would_lose_with(services.project_id, self._name, template),
            )
        except StackError as error:
            logger(__name__).warning("wishes_not_judged", stack=self._name, error=str(error))
            return []

    def _progress(self, services: EngineServices) -> Callable[[str], None]:
        return lambda text: services.waiting.say(self._name, text)

    async def _delete(self, services: EngineServices) -> None:
        stack = await self._get(services, head=True)
        if stack is None or _elsewhere(services, stack):
            return  # nothing of it was made here
        left = await self._stacks(services).delete(
            services.project_id,
            self._name,
            progress=self._progress(services),
            may_lose=services.may_lose,
        )
        if left is not None:
            await self._expect(services, left, "DELETE_COMPLETE")

    def output(self, ctx: CallContext) -> Json:
        """The stack's outputs; what was put off is pushed first. ``{}`` when there is no stack."""
        if self._deferred or self._push_now is not None:
            self._push(ctx)
        services = services_of(ctx)

        async def fetch() -> Json:
            stack = await self._get(services, head=True)
            return stack.outputs if stack is not None else {}

        if self._outputs is None:
            # Only an operation on the stack changes them, and every machine of it asks.
            found = ctx.effect("stack.output", {"stack": self._name}, fetch)
            self._outputs = freeze(found)
        return self._outputs

    def incarnations(self, ctx: CallContext) -> Json:
        """Which root disks the stack's servers have, by resource name: what was made anew has another value.

        ``{}`` from a back end whose servers are others when their disks are: their ids say it.
        """
        services = services_of(ctx)
        stacks = self._stacks(services)
        if not isinstance(stacks, KnowsIncarnations):
            return {}
        if self._incarnations is None:
            self._incarnations = ctx.effect(
                "stack.incarnations",
                {"stack": self._name},
                lambda: stacks.incarnations(services.project_id, self._name),
            )
        return self._incarnations

    def lost_resources(self, ctx: CallContext) -> Json:
        """The names of servers that were made and no longer run."""
        services = services_of(ctx)
        return ctx.effect(
            "stack.lost",
            {"stack": self._name},
            lambda: self._stacks(services).lost(services.project_id, self._name),
        )

    @native(lock=False)
    def delete(self, ctx: CallContext) -> None:
        """Remove the stack and everything in it; nothing to do when there is none, or it is another's."""
        self._outputs = self._incarnations = None
        self._deferred = False
        if self._holder.is_another(ctx):
            return
        services = services_of(ctx)
        try:
            self._change_stack(
                ctx, "stack.delete", {"stack": self._name}, lambda: self._delete(services)
            )
        except Exception as error:
            # A `.destroy` that fails is muted; that something is left must not be forgotten.
            services.left[self._name] = str(error)
            raise
        services.left.pop(self._name, None)
        self._holder.give_up(ctx)
        self._template = {}
        self._parameters = {}
        self._leaving.forget(ctx)
        self._former.pushed(ctx, {}, well=True)
        self._change()
        self._pushed = self._revision
        self._content = self._wanted()


def _home(services: EngineServices) -> list[str]:
    """The tag that says whose a stack is: programs choose its name, and a project has many environments."""
    return [HOME + services.environment_id] if services.environment_id else []


def _elsewhere(services: EngineServices, stack: Stack) -> str | None:
    """The other environment that a stack is of. One of an earlier release has no such tag, nor others'."""
    homes = [one.removeprefix(HOME) for one in stack.tags if one.startswith(HOME)]
    return homes[0] if homes and services.environment_id not in homes else None


def placement_steps(steps: Json) -> str:
    """An allocation's steps as lines: how many servers each left, and why others were dropped."""
    lines: list[str] = []
    for step in cast("list[dict[str, Json]]", steps or []):
        lines.append(f"{step.get('step')}: {len(step.get('remaining') or [])} left")
        reasons = cast("dict[str, Json]", step.get("reasons") or {})
        lines += [f"  {server}: {reason}" for server, reason in sorted(reasons.items())]
    return "\n".join(lines)
