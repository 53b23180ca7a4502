"""The call of an environment: what the endpoints of the ``/v1`` face have at hand."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from litestar import Response

from vetro.environments.api_settings import ApiSection
from vetro.environments.model import Json, encoded, segments, without_secrets
from vetro.environments.request_statistics import RequestStatistics
from vetro.environments.sessions import SessionStore
from vetro.environments.static_calls import CallStore
from vetro.environments.store import EnvironmentStore
from vetro.environments.tasks import TaskStore
from vetro.environments.templates import TemplateStore
from vetro.environments.upgrading import Upgrades
from vetro.environments.wizard_offers import Platform
from vetro.environments.wizards import Wizards
from vetro.http import BadRequest, Principal
from vetro.http import endpoint as http
from vetro.quotas import ProjectQuotas
from vetro.storage import Database

MODEL_LIMIT = 8 * 2**20
E = "/v1/environments/{environment_id}"
ANYTHING = "*"
"""As a key of ``mayLose``: whatever there is may be lost."""


async def no_types(_project_id: str) -> frozenset[str]:
    """The types of services without a metadata repository."""
    return frozenset()


class CloudQuota(Protocol):
    """What a project has of a resource at a cloud, and may have (-1: any amount)."""

    @property
    def used(self) -> int:
        """What it has."""
        ...

    @property
    def limit(self) -> int:
        """What it may have."""
        ...


class CloudQuotas(Protocol):
    """The quotas of a cloud that makes the stacks of some regions, or of all."""

    async def usage(
        self, principal: Principal, region: str | None
    ) -> tuple[Mapping[str, CloudQuota], Sequence[str]]:
        """Of the caller's project in a region, by the names of our resources, and warnings.

        Nothing where stacks are made by Vetro itself.
        """
        ...


@dataclass(frozen=True)
class Services:
    """What the calls work on. ``platform``: what forms, and instances, can be made of.

    ``cloud_quotas``: those of the cloud that makes stacks in our place.
    """

    work: TaskStore
    calls: CallStore
    upgrades: Upgrades
    templates: TemplateStore
    wizards: Wizards
    platform: Platform
    quotas: ProjectQuotas
    cloud_quotas: CloudQuotas | None = None
    request_statistics: RequestStatistics | None = None
    api: ApiSection = field(default_factory=ApiSection)
    #: The types of services that a project's metadata repository adds to the nine of v0.3.
    service_types: Callable[[str], Awaitable[frozenset[str]]] = no_types

    @property
    def store(self) -> EnvironmentStore:
        """Environments."""
        return self.work.store

    @property
    def sessions(self) -> SessionStore:
        """Their sessions."""
        return self.work.sessions

    @property
    def database(self) -> Database:
        """The database of all of them."""
        return self.work.database


@dataclass
class Call(http.Call[Services]):
    """A request about environments. ``hides_secrets``: its caller only reads."""

    hides_secrets: bool = False

    def seen(self, value: Json) -> Any:
        """The value of an answer as the caller may see it."""
        if not self.hides_secrets or not isinstance(value, dict | list | str):
            return value
        return without_secrets(value, segments(self.path.get("path", "")))

    async def model_response(self, value: Json) -> Response[Any]:
        """What may be large; if it is, it is written beside the loop: others are served meanwhile."""
        body = await encoded(self.seen(value))
        return Response(body, media_type="application/json", status_code=200)

    async def json(self, *content_types: str, limit_bytes: int | None = None) -> Any:
        """The body; it may be asked for again, when the endpoint of one dialect calls that of the other."""
        if not self._bodies:
            self._bodies.append(await super().json(*content_types, limit_bytes=limit_bytes))
        return self._bodies[0]

    @functools.cached_property
    def _bodies(self) -> list[object]:
        return []

    @property
    def environment(self) -> str:
        """The environment in the path."""
        return self.path["environment_id"]

    @property
    def template(self) -> str:
        """The environment template in the path."""
        return self.path["template_id"]

    @property
    def session(self) -> str | None:
        """The configuration session; an empty header is none."""
        return self.header("x-configuration-session") or None

    def may_overtake(self) -> bool:
        """Whether sessions with changes may be overtaken, as clients know it. Errors: 400."""
        given = self.query("pending", "overtake")
        if given not in ("overtake", "refuse"):
            raise BadRequest(
                f"pending must be 'overtake' (the default) or 'refuse', not {given!r:.80}"
            )
        return given == "overtake"

    def may_lose(self) -> list[str] | None:
        """What the request lets go, by ``mayLose``; ``None``: anything.

        Given once, even empty, nothing else may be lost. So it is without it, too, where
        ``api.guard_deployments`` is set; ``*`` says everywhere that anything may be.
        """
        given = self.request.query_params.getall("mayLose", [])
        if ANYTHING in given:
            return None
        if not given and not self.service.api.guard_deployments:
            return None
        return [text for one in given if (text := str(one))]

    def keeps_used(self) -> bool:
        """Whether a change is refused that takes out what other components use. Errors: 400."""
        given = self.query("uses", "ignore")
        if given not in ("ignore", "refuse"):
            raise BadRequest(f"uses must be 'ignore' (the default) or 'refuse', not {given!r:.80}")
        return given == "refuse"


Endpoint = http.Endpoint[Call]
