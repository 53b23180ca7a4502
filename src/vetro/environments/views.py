"""What the API answers about rows of environments, sessions, templates and deployments, typed.

Times are the API's texts (``vetro.catalog.api_time``). ``vetro.environments.shapes`` makes the schemas of
the OpenAPI document from these types.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from vetro.json_values import Json, JsonObject


class EnvironmentView(TypedDict):
    """The column fields of an environment."""

    id: str
    name: str
    tenant_id: str
    description_text: str
    version: int
    model_kind: str
    created: str
    updated: str


class ListedEnvironment(EnvironmentView):
    """An environment in a list. ``has_changes``: whether it is ``pending`` because of changes to deploy,
    not only because a session is open."""

    status: str
    has_changes: bool


class ShownEnvironment(ListedEnvironment):
    """An environment with its services. ``acquired_by``: the session that deploys it."""

    acquired_by: str | None
    services: Json


class SessionView(TypedDict):
    """A session."""

    id: str
    environment_id: str
    user_id: str
    state: str
    version: int
    created: str
    updated: str


class Changed(TypedDict):
    """What an undeployed change is about."""

    application: str | None
    id: str | None
    type: str | None


class Change(Changed):
    """An undeployed change: see ``vetro.environments.pending.changes``."""

    change: str
    properties: NotRequired[list[str]]


class OpenedSession(SessionView):
    """A session in the list of those that are open, with its changes and their summary in words."""

    own: bool
    overtaken: bool
    changes: list[Change]
    summary: str


class SessionChanges(TypedDict):
    """A session that would be overtaken, and what it would lose."""

    session: str
    user_id: str
    own: bool
    changes: list[Change]


class TemplateView(TypedDict):
    """The column fields of a template."""

    id: str
    name: str
    tenant_id: str
    description_text: str
    version: int
    is_public: bool
    created: str
    updated: str


class ShownTemplate(TemplateView):
    """A template with its components."""

    services: list[object]


class DeploymentView(TypedDict):
    """A deployment. ``action``, ``result`` and ``description`` are stored JSON (§5.6)."""

    id: str
    environment_id: str
    environment_name: str
    environment_gone: str | None
    user_id: str
    user_name: str
    created: str
    updated: str
    started: str
    finished: str | None
    state: str
    outcome: str | None
    action: JsonObject | None
    waiting_on: Json
    result: Json
    description: Json


class LastReport(TypedDict):
    """The beginning of the newest report of a deployment."""

    level: str
    text: str
    created: str


class ListedDeployment(DeploymentView):
    """A deployment in a list."""

    last_report: LastReport | None


class ReportView(TypedDict):
    """A report of a deployment."""

    id: str
    task_id: str
    entity_id: str
    entity: str | None
    level: str
    text: str
    details: str | None
    created: str
    updated: str


class LeakedView(TypedDict):
    """A leaked object as the API shows it; ``deployment_id``: whose ``.destroy`` failed."""

    id: str
    type: str
    name: str | None
    error: str
    deployment_id: str
    created: str


class TraceRound(TypedDict):
    """What the rules of XML workflows did in a round (``vetro.workflows.Trace``)."""

    round: int
    events: list[JsonObject]
