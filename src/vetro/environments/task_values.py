"""What an engine gets and returns for a task, and the channels that notify about tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypedDict

from vetro.http import Principal
from vetro.json_values import Json, JsonObject

MOST_REPORTS = 10_000
"""Reports of one task that a program may add."""
REPORT_LENGTH = 64 * 1024
"""Characters of a report's text, and of its details."""
MOST_LOGGED = 2000
"""Characters of a reason that are logged."""


def shortened(text: str, most: int = REPORT_LENGTH) -> str:
    """A text of at most ``most`` characters: a longer one is cut in its middle, with a note."""
    if len(text) <= most:
        return text
    half = (most - 60) // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters are left out …\n{text[-half:]}"


def cancel_channel(task_id: str) -> str:
    """The channel of notifications that a task is to be cancelled."""
    return f"task/{task_id}/cancel"


def task_channel(task_id: str) -> str:
    """The channel of notifications about the reports and the end of one task."""
    return f"task/{task_id}"


class Delegations(Protocol):
    """Lets tasks act as the users who asked for them, longer than their tokens live."""

    async def grant(self, principal: Principal) -> dict[str, str]:
        """What a task signs in with as the caller; empty: nothing is needed. Errors: 403, 503."""
        ...

    async def revoke(self, delegation: dict[str, str]) -> None:
        """End a delegation. Idempotent; one that cannot be ended now ends by itself."""
        ...


class TaskAction(TypedDict):
    """What a task calls: a method of an object of the model, with arguments by name."""

    object_id: str
    method: str
    args: JsonObject


class StoredResult(TypedDict):
    """An action's result as it is stored (§5.6)."""

    result: Json
    isException: bool


def is_deployment(action: TaskAction | None, environment_id: str) -> bool:
    """Whether a task deploys its environment: an application's own action may be called ``deploy`` too."""
    return (
        action is not None
        and action.get("method") == "deploy"
        and action.get("object_id") == environment_id
    )


@dataclass(frozen=True)
class EngineTask:
    """An engine's task. ``action`` is ``None`` for a deletion (``model.Objects`` is null then)."""

    id: str
    environment_id: str
    session_id: str
    project_id: str
    user_id: str
    action: TaskAction | None
    model: JsonObject
    environment_name: str = ""
    model_kind: str = "muranopl"
    """`muranopl`, or `workflow`: flat services, which XML workflows deploy."""
    request_id: str = ""
    """The id of the request that asked for it: users quote it, operators find it in the log."""

    traceparent: str = ""
    """What continues the trace of that request (`vetro.tracing`); '' without one."""

    delegation: dict[str, str] = field(default_factory=dict[str, str])
    """What `Delegations` gave for it: with it the task acts as its user."""

    may_lose: list[str] | None = None
    """The machines, volumes and addresses that its request lets go; ``None``: it does not guard."""

    @property
    def is_delete(self) -> bool:
        """Whether the environment is to be destroyed."""
        return self.model.get("Objects") is None

    @property
    def is_deployment(self) -> bool:
        """Whether it is neither an action nor a deletion."""
        return not self.is_delete and is_deployment(self.action, self.environment_id)


@dataclass(frozen=True)
class LeakedObject:
    """An object whose ``.destroy`` failed: something of it may be left behind."""

    object_id: str
    type_name: str
    name: str | None
    error: str


@dataclass(frozen=True)
class TaskResult:
    """What an engine returns: the model after the run and the action's result."""

    model: JsonObject
    result: Json = None
    is_exception: bool = False
    extra: JsonObject = field(default_factory=dict[str, Json])
    leaked: tuple[LeakedObject, ...] = ()
    untouched: bool = False
    """It failed before it changed anything: the model of the environment and the session stay."""
    halfway: bool = False
    """It was refused after it had begun: what was wished still waits (``vetro.environments.halfway``)."""

    @property
    def action(self) -> StoredResult:
        """The stored result (§5.6)."""
        return {"result": self.result, "isException": self.is_exception}
