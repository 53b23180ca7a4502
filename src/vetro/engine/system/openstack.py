"""Clients of services that only an OpenStack has: workflows and metadata definitions (§4.10)."""

from __future__ import annotations

import json
from typing import cast

from vetro.engine.errors import MistralError, NoWorkflowService
from vetro.engine.services import EngineServices, WorkflowService, services_of
from vetro.json_values import Json
from vetro.muranopl import CallContext

POLL_SECONDS = 2.0
HIDDEN_OUTPUT = ("openstack", "__execution", "task")


class MistralClient:
    """Runs workflows. Errors: ``NoWorkflowService`` at the first use where there is none."""

    def __init__(self, region_name: str | None = None) -> None:
        self._region = region_name

    def upload(self, ctx: CallContext, definition: str) -> None:
        """Make the workflows of a definition known."""
        services = services_of(ctx)
        ctx.effect(
            "workflow.upload",
            {"definition": definition},
            lambda: _workflows(services).upload(definition, self._region),
        )

    def run(
        self,
        ctx: CallContext,
        name: str,
        timeout: float = 600,
        inputs: Json = None,
        params: Json = None,
    ) -> Json:
        """Run a workflow and return its output; with ``timeout`` 0 its id, at once.

        Errors: ``MistralError`` when it fails or takes longer than ``timeout`` seconds.
        """
        services = services_of(ctx)
        given: dict[str, Json] = {"name": name, "inputs": inputs or {}, "params": params or {}}

        async def start() -> str:
            service = _workflows(services)
            return await service.start(name, given["inputs"], given["params"], self._region)

        id_ = ctx.effect("workflow.start", given, start)
        if timeout == 0:
            return id_
        request = {"id": id_, "timeout": timeout}
        return ctx.effect("workflow.result", request, lambda: self._result(services, id_, timeout))

    async def _result(self, services: EngineServices, id_: str, timeout: float) -> Json:
        waited = 0.0
        while True:
            state, output = await _workflows(services).execution(id_, self._region)
            if state == "ERROR":
                raise MistralError(
                    f"Mistral execution completed with ERROR. Execution id: {id_}. Output: {output}"
                )
            if state == "SUCCESS":
                values = json.loads(output) if isinstance(output, str) else output
                if not isinstance(values, dict):
                    return values
                shown = cast("dict[str, Json]", values)
                return {key: one for key, one in shown.items() if key not in HIDDEN_OUTPUT}
            if waited >= timeout:
                raise MistralError(f"Mistral run timed out. Execution id: {id_}.")
            services.waiting.say(id_, f"the workflow execution {id_}")
            # Counted, not measured: what the pauses add up to is the same on every replay.
            await services.pause(POLL_SECONDS)
            services.waiting.say(id_, "")
            waited += POLL_SECONDS


def _workflows(services: EngineServices) -> WorkflowService:
    if services.workflows is None:
        raise NoWorkflowService
    return services.workflows


class MetadefBrowser:
    """Looks up which metadata a resource type may have; without a service none."""

    def __init__(self, region_name: str | None = None, cache: bool = True) -> None:
        self._region = region_name
        self._cache: dict[tuple[str, str], Json] | None = {} if cache else None

    def get_namespaces(self, ctx: CallContext, resource_type: str) -> Json:
        """The namespaces that belong to a resource type."""
        return self._look(ctx, "namespaces", resource_type)

    def get_objects(self, ctx: CallContext, namespace: str) -> Json:
        """The objects of a namespace, each with its ``properties``."""
        return self._look(ctx, "objects", namespace)

    def _look(self, ctx: CallContext, what: str, key: str) -> Json:
        if self._cache is not None and (what, key) in self._cache:
            return self._cache[what, key]
        service = services_of(ctx).metadefs
        found: Json = []
        if service is not None:
            found = ctx.effect(
                f"metadef.{what}",
                {"key": key},
                lambda: getattr(service, what)(key, self._region),
            )
        if self._cache is not None:
            self._cache[what, key] = found
        return found
