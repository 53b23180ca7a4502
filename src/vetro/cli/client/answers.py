"""What services answer, as far as commands read it (catalog-api.md; identity: Keystone's own words).

An answer may have further members: a service may be newer than the command.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from vetro.json_values import JsonObject


class Environment(TypedDict):
    """An environment in a list, or alone."""

    id: str
    name: str
    status: str
    region: NotRequired[str | None]


class Deployment(TypedDict):
    """A deployment of an environment. Times are in the API's form."""

    id: str
    created: str
    started: str | None
    finished: str | None
    state: str
    action: JsonObject | None


class Report(TypedDict, total=False):
    """A line of a deployment's story."""

    id: str
    created: str
    level: str
    text: str
    details: str | None


class Loss(TypedDict):
    """What a deployment would have lost. ``key``: how the next request lets it go."""

    key: str
    text: str


class OpenSession(TypedDict):
    """A session of an environment, with what waits in it."""

    id: str
    own: bool
    overtaken: bool
    changes: list[JsonObject]
    summary: str
    user_id: str


class LeakedObject(TypedDict):
    """A removed object whose clean-up failed."""

    id: str
    type: str
    name: str | None
    error: str
    deployment_id: str
    created: str


class OvertakenSession(TypedDict):
    """A session with changes that a deployment or an action has overtaken."""

    session: str
    own: bool


class PackageRow(TypedDict):
    """A package of the catalog in a list."""

    id: str
    name: str
    fully_qualified_name: str
    version: str
    is_public: bool
    enabled: bool
    categories: list[str]
    tags: list[str]


class Category(TypedDict):
    """A category of the catalog."""

    id: str
    name: str


class Project(TypedDict):
    """A project in a list of the identity service."""

    id: str
    name: str
