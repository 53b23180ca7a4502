"""Software deployments: configurations that the agent of a server carries out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from vetro.stacks.doors import SOFTWARE_DEPLOYMENTS, Guests
from vetro.stacks.errors import InvalidProperty, ResourceFailure
from vetro.stacks.resources.base import (
    Json,
    Property,
    ResourceContext,
    ResourceType,
    Shown,
    StackOnly,
    as_static,
    entries,
    flag,
    items,
    text,
)
from vetro.stacks.resources.deployment_plan import plan_of
from vetro.stacks.resources.ports import without_ipv4

_SHOWN = ("deploy_stdout", "deploy_stderr", "deploy_status_code")
_ACTIONS = ("CREATE", "UPDATE")
_LAST_CHARACTERS = 1_000


class SoftwareDeployment(ResourceType):
    """`OS::Heat::SoftwareDeployment`: made when the guest has carried the configuration out."""

    name = "OS::Heat::SoftwareDeployment"
    needs = SOFTWARE_DEPLOYMENTS
    waits = True
    properties = {
        "config": Property("any", update=True),
        "server": Property(),
        "input_values": Property("map", update=True),
        "signal_transport": Property(
            update=True,
            allowed=(
                "CFN_SIGNAL",
                "TEMP_URL_SIGNAL",
                "HEAT_SIGNAL",
                "ZAQAR_SIGNAL",
                "NO_SIGNAL",
                "NO_TRANSPORT",
                "AUTO",
            ),
        ),
        "actions": Property("list", update=True),
        "name": Property(update=True),
    }
    required = (("config",), ("server",))
    attributes = frozenset(_SHOWN)

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        super().check(resource, properties)
        for one in items(as_static(properties.get("actions"))):
            if as_static(one) is not None and one not in _ACTIONS:
                raise InvalidProperty(
                    f"the action {one!r} is not supported: a configuration is carried out at"
                    f" {' and '.join(_ACTIONS)}",
                    resource=resource,
                )

    def check_attribute(self, resource: str, attribute: str) -> None:
        """Every name may be that of an output of the configuration."""

    def within(self, properties: Mapping[str, Json]) -> str | None:
        return text(properties.get("server"))

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await self._carry_out(context, properties, "CREATE")

    async def update(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await self._carry_out(context, properties, "UPDATE")

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        return

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        return {
            **entries(context.data.get("outputs")),
            **{key: context.data.get(key) for key in _SHOWN},
        }

    async def _carry_out(
        self, context: ResourceContext, properties: Mapping[str, Json], action: str
    ) -> None:
        if action not in (items(properties.get("actions")) or _ACTIONS):
            return
        # Resumed, a creation is the same plan: it is not run twice. A change is another one.
        run = int(context.data.get("run") or 0) + (action == "UPDATE")
        await context.save({**context.data, "run": run})
        given = properties["config"]
        found = await context.config(given) if isinstance(given, str) else None
        config = found or {"config": given if isinstance(given, dict) else text(given)}
        values = _inputs(config, entries(properties.get("input_values")))
        values |= {
            "deploy_server_id": text(properties["server"]),
            "deploy_action": action,
            "deploy_stack_id": context.stack_id,
            "deploy_resource_name": context.name,
            "deploy_signal_id": context.physical_id,
        }
        outputs = [entries(one) for one in items(config.get("outputs"))]
        deployment: dict[str, Json] = {
            "id": context.physical_id,
            "name": text(properties.get("name"), context.name),
            "group": text(config.get("group")),
            "config": _with_inputs(_content(config), values),
            "inputs": [{"name": name, "value": value} for name, value in values.items()],
            "outputs": [text(one.get("name")) for one in outputs],
            "options": config.get("options") or {},
        }
        encoded = msgspec.json.encode(deployment).decode()
        other = context.doors.over_ipv6(encoded)
        if other != encoded:
            server = text(properties["server"])
            ports = await context.compute.ports_of(context.project_id, server)
            encoded = other if await without_ipv4(context, [one.uuid for one in ports]) else encoded
        plan = plan_of(
            f"{context.physical_id}-{run}",
            f"deployment {context.name}",
            encoded,
            context.doors.deployment_seconds,
        )
        context.say(f"the agent of the server to carry out {context.name}")
        guests = cast("Guests", context.doors.guests)
        wait = text(properties.get("signal_transport")) not in ("NO_SIGNAL", "NO_TRANSPORT")
        seconds = context.doors.deployment_seconds if wait else 0
        answer = await guests.run(text(properties["server"]), plan, seconds)
        if wait:
            result = entries(answer)
            await context.save({**context.data, **result})
            _judge(result, outputs)


class StructuredDeployment(SoftwareDeployment):
    """`OS::Heat::StructuredDeployment`: `get_input` in its configuration gives the inputs."""

    name = "OS::Heat::StructuredDeployment"
    properties = {
        **SoftwareDeployment.properties,
        "input_key": Property(ignored="inputs are named by get_input", allowed=("get_input",)),
        "input_values_validate": Property(ignored="inputs are not checked", only=("lax",)),
    }


class StructuredConfig(StackOnly):
    """`OS::Heat::StructuredConfig`: a map, kept as JSON; `get_input` in it stays as it is."""

    name = "OS::Heat::StructuredConfig"
    properties = {
        "group": Property(),
        "config": Property("any"),
        "inputs": Property("list"),
        "outputs": Property("list"),
        "options": Property("map"),
    }
    attributes = frozenset({"config"})

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        config = msgspec.json.encode(properties.get("config") or {}).decode()
        more = {key: properties.get(key) for key in ("group", "inputs", "outputs", "options")}
        await context.save({"config": config, "structured": True, **more})

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        config = properties.get("config")
        return {"id": context.physical_id, "config": config}


def _content(config: Mapping[str, Json]) -> Json:
    written = config.get("config")
    return msgspec.json.decode(text(written)) if config.get("structured") else written


def _inputs(config: Mapping[str, Json], given: Mapping[str, Json]) -> dict[str, Json]:
    """The inputs: what the configuration declares with its defaults, and what is given."""
    declared = {text(one.get("name")): one for one in map(entries, items(config.get("inputs")))}
    values = {name: one.get("default", "") for name, one in declared.items()}
    return {**values, **given}


def _with_inputs(value: Json, inputs: Mapping[str, Json]) -> Json:
    """A structured configuration with `get_input` evaluated; an unknown one is null."""
    if isinstance(value, dict):
        map_ = entries(cast("Json", value))
        if list(map_) == ["get_input"]:
            return inputs.get(text(map_["get_input"]))
        return {key: _with_inputs(one, inputs) for key, one in map_.items()}
    if isinstance(value, list):
        return [_with_inputs(one, inputs) for one in items(cast("Json", value))]
    return value


def _judge(result: Mapping[str, Json], outputs: list[dict[str, Json]]) -> None:
    code = int(result.get("deploy_status_code") or 0)
    if code:
        last = text(result.get("deploy_stderr")).strip()[-_LAST_CHARACTERS:]
        raise ResourceFailure(
            f"The deployment exited with status {code}" + (f": {last}" if last else "")
        )
    encoded = entries(result.get("outputs"))
    for one in outputs:
        error = encoded.get(text(one.get("name")))
        if flag(one.get("error_output"), False) and error:
            raise ResourceFailure(f"The deployment's output {one['name']} reports: {error}")
