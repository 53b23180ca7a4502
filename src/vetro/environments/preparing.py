"""New environments: their bodies are checked and their models made before anything is stored (§5.1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from vetro.environments.checking import Before, check_model
from vetro.environments.machine_names import settle_new
from vetro.environments.model import (
    default_networks,
    encoded,
    initial_model,
    networks_of_template,
    new_id,
)
from vetro.http import BadRequest, PayloadTooLarge, Principal
from vetro.json_values import Json, JsonObject
from vetro.packages import DataError, read_yaml
from vetro.quotas import QuotasSection

COLUMN_FIELDS = ("id", "version", "tenant_id", "created", "updated", "description", "status")
SPECIAL = (
    *COLUMN_FIELDS,
    "model_kind",
    "name",
    "description_text",
    "defaultNetworks",
    "services",
    "?",
)

NetworkDriver = Callable[[Principal, str | None], Awaitable[str]]
"""The driver for a new environment of a caller in a region."""


@dataclass(frozen=True)
class EnvironmentSettings:
    """``network_driver`` chooses the default network's class, ``networks`` is in its place (§5.1).

    ``network_driver_of``: chooses in place of the driver.

    ``model_limit``: bytes of JSON that the objects of one environment may have.
    """

    network_driver: str = "neutron"
    network_driver_of: NetworkDriver | None = None
    networks: JsonObject | None = None
    model_limit: int = 16 * 2**20
    quotas: QuotasSection = field(default_factory=QuotasSection)

    async def driver_for(self, principal: Principal, region: str | None) -> str:
        """The driver of the networks of a caller's new environment in a region."""
        chosen = self.network_driver_of
        return self.network_driver if chosen is None else await chosen(principal, region)

    async def refuse_large(self, objects: object) -> None:
        """Refuse objects beyond ``model_limit``. Errors: 413."""
        size = len(await encoded(objects))
        if size > self.model_limit:
            raise PayloadTooLarge(
                f"The objects of this environment would have {size} bytes; engine.model_limit is"
                f" {self.model_limit}"
            )


@dataclass(frozen=True)
class PreparedEnvironment:
    """A checked environment that is not stored yet. ``echo``: what the caller sent of it."""

    id: str
    name: str
    description_text: str
    model: JsonObject
    echo: JsonObject


def named_body(body: object, what: str = "Environment") -> JsonObject:
    """The body of something that has a name. Errors: 400."""
    if not isinstance(body, dict) or "name" not in body:
        raise BadRequest(f"{what} name is required: the body must be an object with it")
    return cast("JsonObject", body)


def checked_name(name: object, what: str = "Environment") -> str:
    """A name of 1 to 255 characters that is not blank. Errors: 400."""
    if not isinstance(name, str):
        raise BadRequest(f"{what} name must be given as text")
    if not name.strip():
        raise BadRequest(f"Please, specify a name of the {what.lower()}: it must not be blank")
    if len(name) > 255:
        raise BadRequest(f"{what} name should be 255 characters maximum")
    return name


def checked_text(given: Mapping[str, object]) -> str:
    """The ``description_text`` of a body; '' without one. Errors: 400."""
    text = given.get("description_text", "")
    if not isinstance(text, str):
        raise BadRequest("description_text must be text")
    return text


async def prepare(
    settings: EnvironmentSettings, principal: Principal, body: object
) -> PreparedEnvironment:
    """Check the body of a new environment and make its model. Errors: 400, 409, 413."""
    given = named_body(body)
    name, text = checked_name(given["name"]), checked_text(given)
    region = given.get("region")
    if region is not None and not isinstance(region, str):
        raise BadRequest("region must be text or null")
    networks = given.get("defaultNetworks")
    if networks is None:
        if settings.networks is None:
            networks = default_networks(name, await settings.driver_for(principal, region))
        else:
            networks = networks_of_template(settings.networks, name)
    elif not isinstance(networks, dict):
        raise BadRequest("defaultNetworks must be an object")
    extra = {key: value for key, value in given.items() if key not in SPECIAL}
    id_ = new_id()
    model = initial_model(
        environment_id=id_,
        name=name,
        default_networks=networks,
        properties=extra,
        project_id=principal.project_id,
        user_id=principal.user_id,
    )
    if given.get("services") is not None:
        model["Objects"]["services"] = given["services"]
    # Networks that the operator's file says are as they are.
    own: JsonObject = (
        {} if given.get("defaultNetworks") is not None else {"defaultNetworks": networks}
    )
    check_model(model["Objects"], Before.of({"?": model["Objects"]["?"], **own}))
    settle_new(model["Objects"])
    await settings.refuse_large(model["Objects"])
    echo = {key: value for key, value in given.items() if key not in COLUMN_FIELDS}
    return PreparedEnvironment(id_, name, text, model, echo)


class NetworkTemplateError(ValueError):
    """The file cannot be read, or holds no networks."""


def read_network_template(file: Path) -> dict[str, object]:
    """What the file holds, with ``environment`` and ``flat``. Errors: ``NetworkTemplateError``."""
    try:
        value: Json = read_yaml(file.read_bytes(), file.name)
    except (OSError, DataError) as error:
        raise NetworkTemplateError(f"{file}: {error}") from error
    try:
        typed = isinstance(value["environment"]["?"]["type"], str) and "flat" in value
    except (KeyError, TypeError):
        typed = False
    if not typed:
        raise NetworkTemplateError(f"{file}: it has no networks")
    return cast("dict[str, object]", value)
