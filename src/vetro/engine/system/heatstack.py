"""``HeatStack``: a region's template, and pushing it to a back end (core-library.md §4.4)."""

from __future__ import annotations

import asyncio
import copy
import time
from typing import Any, cast

from vetro.engine.errors import HeatStackError, StackFailed
from vetro.engine.merging import merge
from vetro.engine.services import EngineServices, services_of
from vetro.muranopl import CallContext, native
from vetro.stacks import Stack, StackBusy

Json = Any
VERSION = "2013-05-23"
BUSY_SECONDS = 3.0


def is_cfn(template: dict[str, Json]) -> bool:
    """Whether a template is in CloudFormation's spelling."""
    return any(
        key in template
        for key in ("AWSTemplateFormatVersion", "HeatTemplateFormatVersion", "Resources")
    )


def has_resources(template: dict[str, Json]) -> bool:
    """Whether a template makes anything."""
    return bool(template.get("resources") or template.get("Resources"))


class HeatStack:
    """A stack: what it should be, and whether that was pushed."""

    def __init__(
        self, name: str, description: str | None = None, region_name: str | None = None
    ) -> None:
        self._name = name
        self._description = description
        self._region = region_name
        self._template: dict[str, Json] | None = None
        self._parameters: dict[str, Json] = {}
        self._files: dict[str, str] = {}
        self._environment: str | None = None
        self._applied = True
        self._pushing = False
        self._deferred = False

    # What the template is

    def current(self, ctx: CallContext) -> Json:
        """The template; of the back end when none was set. Never null."""
        return copy.deepcopy(self._current(ctx))

    def _current(self, ctx: CallContext) -> dict[str, Json]:
        if self._template is None:
            services = services_of(ctx)

            async def fetch() -> Json:
                stack = await services.stacks.get(services.project_id, self._name)
                if stack is None:
                    return None
                return {"template": stack.template, "parameters": stack.parameters}

            found = ctx.effect("stack.get", {"stack": self._name}, fetch)
            self._template = found["template"] if found else {}
            parameters = cast("dict[str, Json]", found["parameters"] if found else {})
            self._parameters = {k: v for k, v in parameters.items() if not k.startswith("OS::")}
            self._applied = True
        return cast("dict[str, Json]", self._template)

    def parameters(self, ctx: CallContext) -> Json:
        """The template's parameters."""
        self._current(ctx)
        return dict(self._parameters)

    def reload(self, ctx: CallContext) -> Json:
        """Forget what was not pushed."""
        self._template = None
        self._parameters = {}
        return self.current(ctx)

    def set_template(self, template: Json) -> None:
        """Replace the template; the parameters go."""
        self._template = copy.deepcopy(template) or {}
        self._parameters = {}
        self._applied = False

    def set_parameters(self, parameters: Json) -> None:
        """Replace the parameters."""
        self._parameters = dict(parameters or {})
        self._applied = False

    def set_files(self, files: Json) -> None:
        """Replace the files that the template names."""
        self._files = dict(files or {})
        self._applied = False

    def set_hot_environment(self, hot_environment: str | None) -> None:
        """Replace the environment text."""
        self._environment = hot_environment
        self._applied = False

    def update_template(self, ctx: CallContext, template: Json) -> None:
        """Merge a fragment into the template. Errors: wrong version, types that do not fit."""
        given = cast("dict[str, Json]", template or {})
        version = given.get("heat_template_version", VERSION)
        if str(version) != VERSION:
            raise HeatStackError(f"Currently only heat_template_version {VERSION} is supported.")
        before = self._current(ctx)
        merged = merge(before, given)
        if merged != before:
            self._template = merged
            self._applied = False

    def remove_resources(
        self, ctx: CallContext, resources: list[str], outputs: list[str] | None = None
    ) -> bool:
        """Take resources and outputs out of the template; whether there were any."""
        template = self._current(ctx)
        changed = False
        for sections, names in (
            (("resources", "Resources"), resources),
            (("outputs", "Outputs"), outputs or []),
        ):
            for section in sections:
                body = template.get(section)
                if not isinstance(body, dict):
                    continue
                kept = {k: v for k, v in cast("dict[str, Json]", body).items() if k not in names}
                if len(kept) != len(cast("dict[str, Json]", body)):
                    template = {**template, section: kept}
                    changed = True
        if changed:
            self._template = template
            self._applied = False
        return changed

    # What the back end has

    @native(lock=False)
    def push(self, ctx: CallContext, async_: bool = False, is_async: bool = False) -> None:
        """Make the back end's stack match. With ``async`` it happens before the next ``output``."""
        if async_ or is_async:
            if not self._deferred:
                self._deferred = True
                ctx.session.on_finish(lambda: self._finish(ctx))
            return
        self._deferred = False
        self._push(ctx)

    async def _finish(self, ctx: CallContext) -> None:
        """At the end of the session: what was put off is done now."""
        if self._deferred and not self._applied:
            self._deferred = False
            await self._apply(services_of(ctx), copy.deepcopy(self._template or {}))
            self._applied = True

    def _push(self, ctx: CallContext) -> None:
        services = services_of(ctx)
        while self._pushing:
            # Another green thread pushes: what we added goes with the next push, once.
            ctx.wait(asyncio.sleep(0.02))
        if self._applied or self._template is None:
            return
        self._pushing = True
        try:
            template = copy.deepcopy(self._template)
            if not is_cfn(template):
                template.setdefault("heat_template_version", VERSION)
            if self._description:
                template.setdefault("description", self._description)

            async def push() -> Json:
                await self._apply(services, template)

            ctx.effect("stack.push", {"stack": self._name, "template": template}, push)
            # Applied only if nobody changed it meanwhile.
            self._applied = {
                k: v for k, v in template.items() if k in self._template
            } == self._template
        finally:
            self._pushing = False

    async def _apply(self, services: EngineServices, template: dict[str, Json]) -> None:
        deadline = time.monotonic() + services.settings.stack_timeout
        while True:
            try:
                stack = await services.stacks.get(services.project_id, self._name)
                if not has_resources(template):
                    if stack is not None:
                        await self._delete(services)
                    return
                await self._create_or_update(services, template, stack)
                return
            except StackBusy:
                if time.monotonic() > deadline:
                    raise
                services.progress(f"another operation on stack {self._name}")
                await asyncio.sleep(BUSY_SECONDS)

    async def _create_or_update(
        self, services: EngineServices, template: dict[str, Json], stack: Stack | None
    ) -> None:
        options: dict[str, Any] = {
            "parameters": self._parameters,
            "files": self._files,
            "environment": self._environment,
            "tags": ["murano"],
            "timeout": services.settings.stack_timeout,
            "progress": services.progress,
        }
        call = services.stacks.create if stack is None else services.stacks.update
        done = await call(services.project_id, self._name, template, **options)
        expected = "CREATE_COMPLETE" if stack is None else "UPDATE_COMPLETE"
        if str(done.status.value) != expected:
            raise StackFailed(f"Unexpected stack state {done.status.value}: {done.reason}")

    async def _delete(self, services: EngineServices) -> None:
        left = await services.stacks.delete(
            services.project_id, self._name, progress=services.progress
        )
        if left is not None:
            raise StackFailed(f"Unexpected stack state {left.status.value}: {left.reason}")

    def output(self, ctx: CallContext) -> Json:
        """The stack's outputs; what was put off is pushed first."""
        if self._deferred:
            self._deferred = False
            self._push(ctx)
        services = services_of(ctx)

        async def fetch() -> Json:
            stack = await services.stacks.get(services.project_id, self._name)
            return stack.outputs if stack is not None else {}

        return ctx.effect("stack.output", {"stack": self._name}, fetch)

    @native(lock=False)
    def delete(self, ctx: CallContext) -> None:
        """Remove the stack and everything in it."""
        self._deferred = False
        services = services_of(ctx)

        async def remove() -> None:
            deadline = time.monotonic() + services.settings.stack_timeout
            while True:
                try:
                    await self._delete(services)
                    return
                except StackBusy:
                    if time.monotonic() > deadline:
                        raise
                    await asyncio.sleep(BUSY_SECONDS)

        ctx.effect("stack.delete", {"stack": self._name}, remove)
        self._template = {}
        self._parameters = {}
        self._applied = True
