"""Software deployments: configurations that a server's own agent of the cloud carries out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from vetro.stacks.compute_service.optional_parts import SOFTWARE_DEPLOYMENTS
from vetro.stacks.compute_service.optional_parts import SoftwareDeployments as DeploymentPort
from vetro.stacks.resources.base import (
    Json,
    Property,
    ResourceContext,
    ResourceType,
    entries,
    text,
)


class SoftwareDeployment(ResourceType):
    """`OS::Heat::SoftwareDeployment`."""

    name = "OS::Heat::SoftwareDeployment"
    needs = SOFTWARE_DEPLOYMENTS
    properties = {
        "config": Property("any"),
        "server": Property(),
        "input_values": Property("map"),
        "signal_transport": Property(
            allowed=(
                "CFN_SIGNAL",
                "TEMP_URL_SIGNAL",
                "HEAT_SIGNAL",
                "ZAQAR_SIGNAL",
                "NO_SIGNAL",
                "NO_TRANSPORT",
                "AUTO",
            )
        ),
        "actions": Property("list", ignored=True),
        "name": Property(ignored=True),
    }
    required = (("config",), ("server",))
    attributes = frozenset({"deploy_stdout", "deploy_stderr", "deploy_status_code"})

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        given = text(properties["config"])
        found = await context.config_text(given)
        stdout, stderr = await cast("DeploymentPort", context.compute).run_deployment(
            context.physical_id,
            server=text(properties["server"]),
            config=given if found is None else found,
            inputs=entries(properties.get("input_values")),
        )
        await context.save({"deploy_stdout": stdout, "deploy_stderr": stderr})

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        return

    async def attribute(
        self, context: ResourceContext, properties: Mapping[str, Json], name: str
    ) -> Json:
        shown: dict[str, Json] = {**context.data, "deploy_status_code": "0"}
        return shown if name == "show" else shown.get(name)


class StructuredDeployment(SoftwareDeployment):
    """`OS::Heat::StructuredDeployment`."""

    name = "OS::Heat::StructuredDeployment"


class StructuredConfig(ResourceType):
    """`OS::Heat::StructuredConfig`: a map, kept as JSON; `get_input` in it stays as it is."""

    name = "OS::Heat::StructuredConfig"
    needs = SOFTWARE_DEPLOYMENTS
    properties = {
        "group": Property(),
        "config": Property("any"),
        "inputs": Property("list"),
        "outputs": Property("list"),
        "options": Property("map"),
    }
    attributes = frozenset({"config"})

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await context.save({"config": msgspec.json.encode(properties.get("config") or {}).decode()})

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        return

    async def attribute(
        self, context: ResourceContext, properties: Mapping[str, Json], name: str
    ) -> Json:
        return properties.get("config") if name == "config" else None
