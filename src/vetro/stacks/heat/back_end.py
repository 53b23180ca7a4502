"""The back end `heat`: stacks of a real OpenStack (core-library.md §4.4.2, §4.4.3)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar, Unpack

import structlog

from vetro.openstack import RequestRefused, ServiceAway, Session
from vetro.stacks.errors import StackBusy, StackError, StackNotFound
from vetro.stacks.heat.answers import (
    Progress,
    failure_of,
    refusal,
    snapshot,
)
from vetro.stacks.heat.client import HeatClient, StackItem, place_of
from vetro.stacks.heat.first_start import as_given
from vetro.stacks.heat.losing import Losing
from vetro.stacks.heat.ownership import StackOfSomebodyElse, is_ours
from vetro.stacks.heat.patience import Patience
from vetro.stacks.heat.requests import body_of, is_same, kept, place_of_stack, wanted_of
from vetro.stacks.heat.restoring import REMOVED, Restoring
from vetro.stacks.heat.written_out import written_out
from vetro.stacks.losses import Loss, LossRefused, unnamed
from vetro.stacks.model import (
    Change,
    ChangeKind,
    Json,
    ProgressCallback,
    Stack,
    StackPlan,
    StackStatus,
    TemplateOptions,
    WorkOptions,
    resources_of,
)

T = TypeVar("T")
#: Heat bounds an operation itself, to the minute; this much later it is given up.
GRACE_SECONDS = 90.0
#: An operation is noticed to have ended so much later, at most, as a share of the time it took.
PAUSE_SHARE = 0.15
SERVERS = ("OS::Nova::Server", "AWS::EC2::Instance")
_LOST = ("", "ERROR", "SHUTOFF", "DELETED", "SOFT_DELETED")
#: What resources fail with when the token that Heat works with is not valid any more.
_ENDED = re.compile(r"\b401\b|unauthorized|requires authentication", re.IGNORECASE)
#: Heat ends an operation so before it begins the one that takes its place: a removal, a rollback.
_CANCELLED = re.compile(r"\bstack \w+ cancelled", re.IGNORECASE)
log = structlog.get_logger(__name__)
_KINDS = {
    "added": ChangeKind.CREATE,
    "updated": ChangeKind.UPDATE,
    "replaced": ChangeKind.REPLACE,
    "deleted": ChangeKind.DELETE,
    "unchanged": ChangeKind.KEEP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatSettings:
    """Settings of the back end. Times in seconds."""

    patience: Patience = field(default_factory=Patience)
    """With services that give no usable answer."""
    first_pause: float = 0.1
    longest_pause: float = 2.0
    """Between two looks at an operation: it grows from the one to the other with the time that has passed."""
    successor_seconds: float = 30.0
    """How long an operation that was cancelled is watched for the operation that takes its place."""
    former_tags: tuple[str, ...] = ()
    """The tags of stacks of releases that gave no tag of their own; see `ownership`."""


class HeatStacks:
    """`Stacks` over Heat, for the project that the session is scoped to.

    A stack of somebody else does not exist here, and its name is taken: nothing is read from it, and nothing
    changes or removes it.

    ``token``: what stacks are created with; Heat makes a trust from it, which Keystone refuses to users who
    signed in with a delegation. By default that of the session.
    """

    def __init__(
        self,
        session: Session,
        settings: HeatSettings | None = None,
        token: str = "",
    ) -> None:
        self._settings = settings or HeatSettings()
        self._client = HeatClient(session, self._settings.patience)
        self._token = token

    async def get(self, project_id: str, name: str) -> Stack | None:
        """The stack with its template, or None."""
        found = await self._kept(project_id, name)
        return None if found is None else replace(found, template=as_given(found.template))

    async def _kept(self, project_id: str, name: str) -> Stack | None:
        """The stack with what Heat was given."""
        shown = await self._shown(name, outputs=True)
        if shown is None:
            return None
        content = await self._client.content(place_of(shown))
        if content is None:
            return None
        resources = await self._client.resources(place_of(shown))
        return snapshot(shown, project_id, content=content, resources=resources)

    async def _shown(self, name: str, *, outputs: bool = False) -> dict[str, Json] | None:
        """The stack as Heat shows it, if it is ours."""
        shown = await self._client.show(name, outputs=outputs)
        return shown if shown is not None and is_ours(shown, self._settings.former_tags) else None

    async def head(self, project_id: str, name: str) -> Stack | None:
        """State and outputs; see `Stacks.head`."""
        shown = await self._shown(name, outputs=True)
        return None if shown is None else snapshot(shown, project_id)

    async def lost(self, project_id: str, name: str) -> list[str]:
        """See `Stacks.lost`; Nova is asked for each server."""
        shown = await self._shown(name)
        if shown is None:
            return []
        return [
            one["resource_name"]
            for one in await self._client.resources(place_of(shown))
            if one["resource_type"] in SERVERS
            and one["physical_resource_id"]
            and not one["resource_status"].endswith("_IN_PROGRESS")
            and await self._client.server_state(one["physical_resource_id"]) in _LOST
        ]

    async def altered(self, project_id: str, name: str) -> list[str]:
        """See `KnowsAlterations`; Neutron is asked. Errors: `StackError`."""
        found = await self._kept(project_id, name)
        if found is None or found.status.in_progress:
            return []
        restoring = Restoring(self._client, found)
        await restoring.look()
        if restoring.unseen:
            raise StackError(" ".join(restoring.unseen))
        return restoring.by_hand.resources

    async def create(
        self,
        project_id: str,
        name: str,
        template: Mapping[str, Json],
        **options: Unpack[WorkOptions],
    ) -> Stack:
        """Create a stack; see `Stacks.create`. A name that is taken is `StackBusy`: look again."""
        body = body_of(template, options)
        operation = _Operation(self._client, self._settings, name, options)
        await operation.begin_create({**body, "stack_name": name}, self._token)
        made = await self._settled(operation, project_id, body)
        if not (self._token and made.failure and _ENDED.search(made.failure.text)):
            return made
        # Heat works with the token that it was given, and that has been revoked, or is too old by now.
        log.warning("stack_gone_on_with", stack=name, reason=made.reason)
        operation = _Operation(self._client, self._settings, name, options)
        await operation.begin_update(body)
        changed = await self._settled(operation, project_id, body)
        whole = changed.status is StackStatus.UPDATE_COMPLETE
        return replace(changed, status=StackStatus.CREATE_COMPLETE) if whole else changed

    async def update(
        self,
        project_id: str,
        name: str,
        template: Mapping[str, Json],
        **options: Unpack[WorkOptions],
    ) -> Stack:
        """Change a stack; see `Stacks.update`. One that is as wanted already is not touched."""
        body = body_of(template, options)
        found = await self._kept(project_id, name)
        if found is None:
            raise StackNotFound(name)
        restoring = Restoring(self._client, found)
        if not found.status.in_progress:
            await restoring.look()
            await self._judge_gone(restoring, found, body, options.get("may_lose"))
        settled = not found.status.failed and not found.status.in_progress
        if settled and is_same(found, body) and not restoring.again:
            template = as_given(found.template)
            done = replace(found, status=StackStatus.UPDATE_COMPLETE, template=template)
            return await restoring.whole(done)
        await self._guard(found, options.get("may_lose"), body, restoring.again)
        operation = _Operation(self._client, self._settings, name, options)
        await operation.begin_update(body, restoring.again)
        done = await self._settled(operation, project_id, body)
        return await restoring.whole(done, wanted_of(body))

    async def delete(
        self,
        project_id: str,
        name: str,
        *,
        progress: ProgressCallback | None = None,
        may_lose: Collection[str] | None = None,
    ) -> Stack | None:
        """Remove a stack; see `Stacks.delete`."""
        if may_lose is not None:
            await self._guard(await self._kept(project_id, name), may_lose, None)
        if await self._shown(name) is None:
            return None
        operation = _Operation(self._client, self._settings, name, {"progress": progress})
        if not await operation.begin_delete():
            return None
        shown = await operation.settle()
        if shown is None:
            return None
        failure = failure_of(operation.events, shown)
        return snapshot(shown, project_id, failure=failure)

    async def plan(
        self,
        project_id: str,
        name: str,
        template: Mapping[str, Json],
        **options: Unpack[TemplateOptions],
    ) -> StackPlan:
        """What create or update would do, by Heat's own preview."""
        body = body_of(template, {**options})
        shown = await self._client.show(name)
        if shown is not None and not is_ours(shown, self._settings.former_tags):
            raise StackOfSomebodyElse(name, shown["id"])
        try:
            if shown is None:
                made = await self._client.preview_create({**body, "stack_name": name})
                changes = [_change(one, ChangeKind.CREATE) for one in made]
            else:
                found = await self._client.preview_update(place_of(shown), body)
                changes = [_change(one, _KINDS[kind]) for kind in _KINDS for one in found[kind]]
        except RequestRefused as error:
            raise refusal(error, name) from error
        return StackPlan(shown is not None, changes)

    async def would_lose(
        self, project_id: str, name: str, resources: Collection[str]
    ) -> list[Loss]:
        """See `Stacks.would_lose`."""
        found = await self._kept(project_id, name)
        if found is None:
            return []
        known = resources_of(found.template)
        return await self._losing(found).of_removal(resources, known)

    async def would_lose_with(
        self, project_id: str, name: str, template: Mapping[str, Json]
    ) -> list[Loss]:
        """See `Stacks.would_lose_with`."""
        found = await self._kept(project_id, name)
        if found is None:
            return []
        body = body_of(
            template,
            {
                "parameters": found.parameters,
                "files": found.files,
                "environment": found.environment,
                "tags": found.tags,
            },
        )
        preview = await self._preview(found.name, place_of_stack(found), body)
        return await self._losing(found).of_update(written_out(wanted_of(body)), preview)

    async def _guard(
        self,
        found: Stack | None,
        may_lose: Collection[str] | None,
        body: Mapping[str, Json] | None,
        again: Collection[StackItem] = (),
    ) -> None:
        """Raises `LossRefused` when an operation would lose what may not be lost, and `StackBusy` while
        another one goes on. ``body``: that of an update; None: the stack is removed. ``again``: what is made
        again because somebody has removed it."""
        if may_lose is None or found is None:
            return
        losing = self._losing(found, again)
        new = None if body is None else written_out(wanted_of(body))
        if body is None or new is None:
            lost = await losing.of_all()
        else:
            preview = await self._preview(found.name, place_of_stack(found), body)
            lost = await losing.of_update(new, preview)
        if refused := unnamed(lost, may_lose):
            raise LossRefused(found.name, refused)
        if lost and new is not None:
            await losing.look(new)

    def _losing(self, found: Stack, again: Collection[StackItem] = ()) -> Losing:
        """Judges a stack. Errors: `StackBusy`: what an operation that goes on leaves is not known yet."""
        if found.status.in_progress:
            raise StackBusy(found.name, found.status.value)
        gone = {one.path for one in again}
        place = place_of_stack(found)
        return Losing(self._client, place, found.id, written_out(kept(found)), gone)

    async def _judge_gone(
        self,
        restoring: Restoring,
        found: Stack,
        body: Mapping[str, Json],
        may_lose: Collection[str] | None,
    ) -> None:
        """Decide what of that which somebody has removed is made again: what takes nothing from its user."""
        if not restoring.by_hand.gone:
            return
        new = written_out(wanted_of(body))
        preview = await self._preview(found.name, place_of_stack(found), body)
        anyway = await self._losing(found).of_update(new, preview)
        for item in restoring.by_hand.gone:
            if item.path in restoring.definitions and item.path not in new.resources:
                continue  # it leaves
            lost = await self._losing(found, [item]).of_update(new, preview)
            more = [one for one in lost if one.key not in {other.key for other in anyway}]
            restoring.judged(item, unnamed(more, may_lose or ()))

    async def _preview(
        self, name: str, place: str, body: Mapping[str, Json]
    ) -> dict[str, list[dict[str, Json]]]:
        """What Heat says that an update would do."""

        async def ask() -> dict[str, list[dict[str, Json]]]:
            try:
                return await self._client.preview_update(place, body, nested=True)
            except RequestRefused as error:
                raise refusal(error, name) from error

        subject = f"Asking Heat what an update of the stack {name} would do"
        return await self._settings.patience.ask(ask, subject)

    async def _settled(
        self, operation: _Operation, project_id: str, body: Mapping[str, Json]
    ) -> Stack:
        shown = await operation.settle()
        if shown is None:
            raise StackError(
                f"The stack {operation.name} was deleted at Heat by somebody else while it was worked on;"
                " deploy again to create it again"
            )
        template = body["template"]
        if template.get("outputs") or template.get("Outputs"):
            shown = await self._client.show(place_of(shown), outputs=True) or shown
        if not status_failed(shown):
            return snapshot(shown, project_id)
        return snapshot(shown, project_id, failure=failure_of(operation.events, shown))


def status_failed(shown: Mapping[str, Json]) -> bool:
    """Whether the last operation ended badly, or was taken back."""
    status = str(shown["stack_status"])
    return status.endswith("_FAILED") or status.startswith("ROLLBACK")


def _unheard(_text: str) -> None:
    """Ignores progress."""


class _Operation:
    """One operation on a stack: begun once, watched until it has settled."""

    def __init__(
        self,
        client: HeatClient,
        settings: HeatSettings,
        name: str,
        options: WorkOptions,
    ) -> None:
        self._say: ProgressCallback = options.get("progress") or _unheard
        self.client = HeatClient(client.session, settings.patience, self._say)
        self.settings = settings
        self.name = name
        self.events: list[dict[str, Json]] = []
        """Those of this operation, oldest first."""
        timeout = options.get("timeout")
        self._ends = None if timeout is None else time.monotonic() + timeout + GRACE_SECONDS
        self._place = ""
        self._stack_id = ""
        self._seen: set[str] = set()
        self._before: Json = None
        self._working = Progress()

    async def begin_create(self, body: Mapping[str, Json], token: str) -> None:
        """Ask Heat for the stack. Errors: `TemplateError`, `StackBusy`, `StackError`."""
        asked = False

        async def ask() -> None:
            nonlocal asked
            # An answer that got lost may have been a yes.
            again = asked
            if again and await self._shown() is not None:
                return
            asked = True
            try:
                made = await self._refusable(self.client.create(body, token))
                self._place, self._stack_id = made
            except StackBusy:
                if await self._shown() is not None:
                    if again:
                        return  # Heat had begun and did not show it yet
                    raise
                # The name is of a stack whose deletion is not quite over.
                raise ServiceAway(
                    "Heat", self.name, "a stack of this name is being deleted"
                ) from None

        await self._insist(ask)
        if not self._place:
            await self._remember(events=False)

    async def begin_update(
        self, body: Mapping[str, Json], again: Collection[StackItem] = ()
    ) -> None:
        """Ask Heat for the change. ``again``: what it has to make again. Errors: `StackNotFound` and those of
        a creation."""
        for item in again:
            await self._insist(partial(self._mark, item))
        await self._remember(events=True)
        if not self._place or not await self._insist(
            lambda: self._refusable(self.client.update(self._place, body))
        ):
            raise StackNotFound(self.name)

    async def _mark(self, item: StackItem) -> None:
        await self._refusable(self.client.mark_unhealthy(item, REMOVED))

    async def begin_delete(self) -> bool:
        """Ask Heat to remove it; ``False`` when there is nothing."""
        await self._remember(events=True)
        if not self._place:
            return False
        await self._insist(lambda: self._refusable(self.client.delete(self._place)))
        return True

    async def settle(self) -> dict[str, Json] | None:
        """Watch until Heat has ended; the stack, ``None`` when it is gone.

        A cancelled operation has failed, but a removal or a rollback follows: how that ends is the answer.
        """
        began, since = False, time.monotonic()
        cancelled: float | None = None
        while True:
            shown = await self.client.show(self._place)
            if shown is None:
                return None
            running = str(shown["stack_status"]).endswith("_IN_PROGRESS")
            began = began or running or shown.get("updated_time") != self._before
            if not running and (not began or status_failed(shown)):
                # The state came first: its last event is among those that are read.
                began = await self._read_events() or began
            now = time.monotonic()
            if began and not running:
                if not _CANCELLED.search(str(shown.get("stack_status_reason"))):
                    return shown
                cancelled = now if cancelled is None else cancelled
                if now - cancelled >= self.settings.successor_seconds:
                    return shown
            if self._ends is not None and now > self._ends:
                raise StackError(
                    f"Heat has not finished its work on the stack {self.name} in time"
                    f" ({shown['stack_status']}; {self._working.text})"
                )
            pause = max((now - since) * PAUSE_SHARE, self.settings.first_pause)
            pause = min(pause, self.settings.longest_pause)
            own, _ = await asyncio.gather(self._read_events(), asyncio.sleep(pause))
            began = began or own
            self._say(self._working.text)

    async def _read_events(self) -> bool:
        """Take in what is new; whether the stack itself is among it."""
        events = await self.client.events(self._place)
        new = [one for one in events if one["id"] not in self._seen]
        self._seen |= {one["id"] for one in new}
        self.events += new
        self._working.see(new, self._stack_id)
        return any(one.get("physical_resource_id") == self._stack_id for one in new)

    async def _shown(self) -> dict[str, Json] | None:
        """The stack of this name. Errors: `StackOfSomebodyElse`."""
        shown = await self.client.show(self.name)
        if shown is not None and not is_ours(shown, self.settings.former_tags):
            raise StackOfSomebodyElse(self.name, shown["id"])
        return shown

    async def _remember(self, *, events: bool) -> None:
        shown = await self._shown()
        if shown is None:
            return
        self._place, self._stack_id = place_of(shown), shown["id"]
        self._before = shown.get("updated_time")
        if events:
            known = await self.client.events(self._place)
            self._seen = {one["id"] for one in known}

    async def _refusable(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except RequestRefused as error:
            if error.status == 401:
                raise StackError(
                    f"The stack {self.name} is made with the token of who deploys, and that is not valid any"
                    f" more: {error}. Deploy again"
                ) from error
            raise refusal(error, self.name) from error

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        subject = f"Work on the stack {self.name}"
        return await self.settings.patience.ask(ask, subject, self._say)


def _change(one: Mapping[str, Json], kind: ChangeKind) -> Change:
    return Change(one["resource_name"], one["resource_type"], kind, "by Heat's preview")
