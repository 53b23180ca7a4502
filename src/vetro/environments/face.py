"""The catalog face: discovery and ``/v1`` (catalog-api.md §1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from litestar import Litestar, Response

from vetro.catalog import CATALOG_ENDPOINTS, Catalog, PackageLimits, Sources, catalog_handlers
from vetro.environments import (
    deployment_endpoints,
    environment_endpoints,
    model_endpoints,
    quota_endpoints,
    shapes,
    static_call_endpoints,
    template_endpoints,
    upgrade_endpoints,
    v03_endpoints,
    wizard_endpoints,
)
from vetro.environments.api_settings import ApiSection, StatsSection
from vetro.environments.endpoint import Call, CloudQuotas, Endpoint, Services, no_types
from vetro.environments.model import Json
from vetro.environments.request_statistics import RequestStatistics
from vetro.environments.rules import DEFAULT, ENVIRONMENT_FIRST, NAMES, RULES
from vetro.environments.static_calls import TIMEOUT_SECONDS, CallStore
from vetro.environments.store import MODELS_CHANNEL
from vetro.environments.tasks import TaskStore
from vetro.environments.templates import TemplateStore
from vetro.environments.upgrading import Upgrades
from vetro.environments.uses import EnvironmentUses
from vetro.environments.wizard_offers import NoPlatform, Platform, WizardOffers
from vetro.environments.wizards import ServiceForm, Wizards
from vetro.http import (
    CATALOG_CONVENTIONS,
    MEMBER_API,
    Audit,
    Authenticator,
    Face,
    NoSuchPath,
    NotFound,
    Policy,
    Principal,
    ProjectLimits,
    Remembered,
    RequestCounts,
    ServiceUnavailable,
    denied,
    listed,
    make_face,
    with_tag,
)
from vetro.http.endpoint import AnyRequest, respond, routes
from vetro.quotas import ProjectQuotas
from vetro.storage import watch

log = structlog.get_logger("vetro.environments")
#: Calls that need no token, so no policy either.
OPEN = frozenset({"list_versions", "show_version", "discovery"})
DROPPING_SECONDS = 0.2
"""How long archives that are not used any more stay, so that many are removed at once."""


def _version(request: AnyRequest) -> dict[str, object]:
    base = f"{request.url.scheme}://{request.headers.get('host', '')}"
    return {
        "id": "v1.0",
        "status": "CURRENT",
        "links": [{"rel": "self", "href": f"{base}/v1/"}],
    }


async def versions(call: Call) -> Json:
    """The versions of the API."""
    return {"versions": [_version(call.request)]}


async def version(call: Call) -> Json:
    """Version 1."""
    return {"version": _version(call.request)}


async def sizes(call: Call) -> Json:
    """The sizes that instances can have."""
    return {
        "flavors": [
            {"name": one["value"], **{key: one[key] for key in ("memory", "disk", "vcpus")}}
            for one in await _offered(call, "flavors")
        ]
    }


async def networks(call: Call) -> Json:
    """The networks that an environment can join, with their subnets: none that lead outside."""
    return {
        "networks": [
            {key: one[key] for key in ("id", "name", "subnets")}
            for one in await _offered(call, "networks")
            if not one["external"]
        ]
    }


async def _offered(call: Call, kind: str) -> Sequence[Mapping[str, Any]]:
    """What the back end offers to the project. Errors: 404, 503."""
    found, warnings = await call.service.platform.offers([kind], call.principal, None)
    offered = found[kind]
    if offered is None:
        raise NotFound(f"The back end of this service does not list its {kind}")
    if warnings:
        raise ServiceUnavailable(warnings[0])
    return offered


async def request_statistics(call: Call) -> Json:
    """What each process that serves the API has counted of its requests."""
    statistics = call.service.request_statistics
    return [] if statistics is None else await statistics.listing()


async def discovery(call: Call) -> Json:
    """The versions again, for whatever begins with none of them (§1)."""
    path = call.request.url.path
    if _is_versioned(path):
        raise NoSuchPath(f"{path} does not exist")
    return await versions(call)


ENDPOINTS = [
    Endpoint("list_versions", "GET", "/", versions, status=300, reply=shapes.VERSIONS),
    Endpoint("show_version", "GET", "/v1", version, reply=shapes.ONE_VERSION),
    Endpoint("list_flavors", "GET", "/v1/flavors", sizes, reply=shapes.FLAVORS, errors=(404,)),
    Endpoint("list_networks", "GET", "/v1/networks", networks, reply=shapes.NETWORKS,
             errors=(404,)),
    Endpoint("list_request_statistics", "GET", "/v1/stats", request_statistics,
             reply=listed(shapes.REQUEST_STATISTIC)),
    Endpoint(
        "discovery",
        "GET POST PUT PATCH DELETE",
        "/{anything:path}",
        discovery,
        status=300,
        listed=False,
    ),
    *environment_endpoints.ENDPOINTS,
    *model_endpoints.ENDPOINTS,
    *deployment_endpoints.ENDPOINTS,
    *static_call_endpoints.ENDPOINTS,
    *upgrade_endpoints.ENDPOINTS,
    *template_endpoints.ENDPOINTS,
    *wizard_endpoints.ENDPOINTS,
    *quota_endpoints.ENDPOINTS,
    *v03_endpoints.ENDPOINTS,
]  # fmt: skip


def _is_versioned(path: str) -> bool:
    """Whether a path belongs to the API or to its description."""
    return path.split("/", 2)[1] in ("v1", "schema")


def _is_v03(path: str) -> bool:
    """Whether a path belongs to the dialect without a version (§7)."""
    return path.split("/", 2)[1] == "environments"


def catalog_policy(file: Path | None = None) -> Policy:
    """The rules of this API, with those of a file (§10). Errors: ``PolicyError``."""
    return Policy(DEFAULT, file, NAMES)


def allowed_rules(policy: Policy, caller: Principal) -> list[str]:
    """The rules of this API that let a caller through in its own project: what pages offer it.

    Who only reads has those of the calls that read, some of which share theirs with calls that change.
    """
    target = {"project_id": caller.project_id, "user_id": caller.user_id}
    known = {*RULES.values(), *DEFAULT, MEMBER_API}
    if policy.only_reads(caller):
        known = {
            RULES[one.name]
            for one in (*ENDPOINTS, *CATALOG_ENDPOINTS)
            if one.name in RULES and one.reads(one.verbs)
        }
    return sorted(rule for rule in known if policy.allows(caller, rule, target))


def _guarded(
    services: Services, policy: Policy
) -> Callable[[Endpoint, AnyRequest], Awaitable[Response[Any]]]:
    """The hook of every call: the policy's rule, and the few calls that look for what they are
    about before it."""

    async def around(endpoint: Endpoint, request: AnyRequest) -> Response[Any]:
        call = Call(services, request)
        if endpoint.name in OPEN:
            return respond(request, endpoint, await endpoint.run(call))
        # The dialect without a version has the same calls, hence the same rules.
        name = endpoint.name.removeprefix("v03_")
        rule = RULES.get(name, "default")
        target = call.path
        if "template_id" in target:
            # The name that policies know it by (§10).
            target = {**target, "env_template_id": target["template_id"]}
        # The words of a schema are names of properties.
        call.hides_secrets = rule != "get_schema" and policy.only_reads(call.principal)
        allowed = policy.allows(call.principal, rule, target)
        may = allowed and (endpoint.reads(request.method) or not policy.only_reads(call.principal))
        if not may and name in ENVIRONMENT_FIRST:
            async with services.database.read() as tx:
                await services.store.environment(
                    tx, call.principal, call.environment, with_model=False
                )
        policy.require_reading(call.principal, endpoint, request.method)
        if not allowed:
            raise denied(rule)
        if name == "list_environments" and (call.flag("all_tenants") or call.query("tenant")):
            policy.require(call.principal, "list_environments_all_tenants")
        result = call.seen(await endpoint.run(call))
        return await with_tag(request, respond(request, endpoint, result))

    return around


def environments_face(
    catalog: Catalog,
    work: TaskStore,
    authenticator: Authenticator,
    *,
    identity_url: str = "",
    static_call_timeout: float = TIMEOUT_SECONDS,
    debug: bool = False,
    platform: Platform | None = None,
    api: ApiSection | None = None,
    service_types: Callable[[str], Awaitable[frozenset[str]]] = no_types,
    service_form: ServiceForm | None = None,
    policy: Policy | None = None,
    stats: StatsSection | None = None,
    audit: Audit | None = None,
    quotas: ProjectQuotas | None = None,
    cloud_quotas: CloudQuotas | None = None,
) -> Face:
    """Discovery, environments and packages behind one prefix (none).

    ``platform``: what forms can choose from, sizes of instances among it. ``service_types``: the
    types of flat services that a project's metadata repository adds. ``service_form``: their forms.
    ``policy``: by default the built-in rules. ``quotas``: by default those of environments alone.
    ``cloud_quotas``: what a project may have at the cloud that makes stacks in our place.
    """
    rules = policy or catalog_policy()
    calls = CallStore(work.database, timeout_seconds=static_call_timeout)
    uses = EnvironmentUses(work.database)

    @asynccontextmanager
    async def forgotten(_app: Litestar) -> AsyncGenerator[None, None]:
        """Remove archives of deleted packages that no environment uses any more: now, and
        whenever a model is stored (by the hundred at times: once for all of them is enough)."""

        async def drop(_named: set[str] | None) -> None:
            await catalog.drop_unused_packages(uses)

        dropping = asyncio.create_task(
            watch(work.database, MODELS_CHANNEL, drop, gather_seconds=DROPPING_SECONDS),
            name="unused packages",
        )
        try:
            yield
        finally:
            dropping.cancel()
            await asyncio.gather(dropping, return_exceptions=True)

    def revision() -> Hashable:
        written = work.database.revision()
        return None if written is None else (written, rules.revision())

    chosen = api or ApiSection()
    limits = PackageLimits(
        int(chosen.package_size_limit * 2**20), chosen.limit_param_default, chosen.api_limit_max
    )
    sources = Sources(chosen.repository_url, tuple(chosen.import_from))
    counts = RequestCounts()
    statistics = RequestStatistics(work.database, counts, (stats or StatsSection()).period)
    chosen_from = platform or NoPlatform()
    offers = WizardOffers(work.store, catalog, chosen_from)
    services = Services(
        work,
        calls,
        Upgrades(work.sessions, catalog, calls),
        TemplateStore(work.sessions),
        Wizards(work.sessions, catalog, calls, offers, service_form),
        chosen_from,
        quotas or ProjectQuotas(work.database, [work.store.quotas]),
        cloud_quotas,
        statistics,
        chosen,
        service_types,
    )
    most = int(chosen.max_request_body_size * 2**20)
    return make_face(
        name="catalog",
        conventions=replace(CATALOG_CONVENTIONS, body_limit_bytes=most),
        prefix="",
        title="Vetro catalog API",
        handlers=[
            *routes(ENDPOINTS, _guarded(services, rules)),
            *catalog_handlers(catalog, uses, rules, RULES, limits=limits, sources=sources),
        ],
        authenticator=authenticator,
        public=lambda method, path: (
            (not _is_versioned(path) and not _is_v03(path))
            or (path == "/v1" and method in ("GET", "HEAD"))
        ),
        www_authenticate=f'Keystone uri="{identity_url}"',
        debug=debug,
        lifespan=[forgotten, statistics.stored],
        counts=counts,
        audit=audit,
        project_limits=ProjectLimits(
            chosen.project_requests,
            chosen.project_waiting,
            rate=chosen.project_rate,
            burst=chosen.project_burst,
        ),
        compresses=True,
        conditional=True,
        remembered=Remembered(revision),
    )
