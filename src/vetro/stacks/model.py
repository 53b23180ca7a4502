"""What a stack looks like from outside, and what a back end must do (core-library.md §4.4, §9)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypedDict, Unpack, runtime_checkable

from vetro.json_values import Json
from vetro.stacks.losses import Loss

ProgressCallback = Callable[[str], None]
"""Called with a one-line text saying what the operation waits for now. Must not block."""


class StackStatus(StrEnum):
    """`<ACTION>_<STATE>`, in Heat's spelling."""

    CREATE_IN_PROGRESS = "CREATE_IN_PROGRESS"
    CREATE_COMPLETE = "CREATE_COMPLETE"
    CREATE_FAILED = "CREATE_FAILED"
    UPDATE_IN_PROGRESS = "UPDATE_IN_PROGRESS"
    UPDATE_COMPLETE = "UPDATE_COMPLETE"
    UPDATE_FAILED = "UPDATE_FAILED"
    ROLLBACK_IN_PROGRESS = "ROLLBACK_IN_PROGRESS"
    ROLLBACK_COMPLETE = "ROLLBACK_COMPLETE"
    ROLLBACK_FAILED = "ROLLBACK_FAILED"
    DELETE_IN_PROGRESS = "DELETE_IN_PROGRESS"
    DELETE_COMPLETE = "DELETE_COMPLETE"
    DELETE_FAILED = "DELETE_FAILED"

    @property
    def in_progress(self) -> bool:
        """True while an operation has not settled."""
        return self.value.endswith("_IN_PROGRESS")

    @property
    def failed(self) -> bool:
        """True when the last operation ended badly."""
        return self.value.endswith("_FAILED")


def resources_of(template: Mapping[str, Json]) -> dict[str, Json]:
    """The resources of a template as it was given, in either spelling."""
    return template.get("resources") or template.get("Resources") or {}


@dataclass(frozen=True, slots=True)
class StackResource:
    """One resource of a stack as it is now."""

    name: str
    type: str
    status: StackStatus
    reason: str
    physical_id: str | None


@dataclass(frozen=True, slots=True)
class StackFailure:
    """What made an operation fail."""

    resource: str
    """Its name; empty when it was the operation as a whole."""
    kind: str
    """The class of the error, such as `PlacementFailure`."""
    text: str
    details: Json = None
    """Of a `PlacementFailure` the allocator's steps."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A snapshot of a stack. Changing the maps in it changes nothing."""

    id: str
    project_id: str
    name: str
    status: StackStatus
    reason: str
    """Why it is in this state; for a failure the failed resource and its cause."""
    template: dict[str, Json]
    """The template of the last create or update, in the spelling it was given."""
    parameters: dict[str, Json]
    created: datetime
    updated: datetime | None
    """Changes with every create and update that settles, so that callers can tell a new
    outcome from an old one."""
    outputs: dict[str, Json]
    waiting_on: str | None = None
    tags: list[str] = field(default_factory=list[str])
    files: dict[str, str] = field(default_factory=dict[str, str])
    """The files and the environment that the template was given with."""
    environment: str | None = None
    resources: dict[str, StackResource] = field(default_factory=dict[str, StackResource])
    unmade: list[str] = field(default_factory=list[str])
    """After a failure: resources of the template of which nothing was made."""
    failure: StackFailure | None = None
    """Only in what the operation that failed returns; later only `reason` has it."""
    warnings: list[str] = field(default_factory=list[str])
    """Only in what an operation returns: what it could not do or see, and what was not there any more and has
    been made again."""


class ChangeKind(StrEnum):
    """What an operation does to one resource."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Change:
    """What would happen to one resource, and why."""

    resource: str
    type: str
    kind: ChangeKind
    reason: str
    properties: tuple[str, ...] = ()
    """The properties that differ (update and replace)."""


@dataclass(frozen=True, slots=True)
class StackPlan:
    """The answer to "what would this create or update do?"."""

    exists: bool
    changes: list[Change]

    @property
    def empty(self) -> bool:
        """True when nothing would be touched."""
        return all(change.kind is ChangeKind.KEEP for change in self.changes)


class TemplateOptions(TypedDict, total=False):
    """What belongs to a template besides its text."""

    parameters: Mapping[str, Json] | None
    files: Mapping[str, str] | None
    environment: str | None


class WorkOptions(TemplateOptions, total=False):
    """The options of a creation or an update."""

    tags: Sequence[str]
    rollback: bool
    """When a resource fails: a creation removes what it made, an update returns to the former template."""
    timeout: float | None
    """Seconds that the whole operation may take."""
    progress: ProgressCallback | None
    may_lose: Collection[str] | None
    """The machines, volumes and addresses (`Loss.key`) that the request lets go; anything else that the
    operation would replace or remove raises `LossRefused` before it begins. None: it does not guard."""


@runtime_checkable
class KnowsBalancers(Protocol):
    """A back end that can say before it has a template whether load balancers are possible."""

    async def lacks_balancers(self) -> str | None:
        """Why no stack can have a load balancer now; ``None`` when it can."""
        ...


@runtime_checkable
class KnowsAlterations(Protocol):
    """A back end that sees what somebody has taken by hand from what its stacks have made."""

    async def altered(self, project_id: str, name: str) -> list[str]:
        """The stack's resources, by name, from which something is missing that `update` puts back."""
        ...


@runtime_checkable
class KnowsIncarnations(Protocol):
    """A back end whose servers may be given another root disk and stay the same server."""

    async def incarnations(self, project_id: str, name: str) -> dict[str, str]:
        """The stack's servers, by resource name: a value that is another one when the disk was made anew."""
        ...


class Stacks(Protocol):
    """A back end for infrastructure templates. One instance serves all projects.

    `create`, `update` and `delete` return when the operation has settled. A failure of a resource raises no
    exception: the returned stack's `status` is `…_FAILED` and `reason` names the resource and the cause.
    Exceptions mean that nothing was begun (`TemplateError`,
    `StackExists`, `StackNotFound`, `StackBusy`) or that the operation was taken from us
    (`OperationLost`).
    """

    async def get(self, project_id: str, name: str) -> Stack | None:
        """The stack, or None. A deleted stack is gone."""
        ...

    async def head(self, project_id: str, name: str) -> Stack | None:
        """The stack as `get` gives it but without template, parameters and resources: its state and
        outputs, which a deployment reads once for every machine."""
        ...

    async def lost(self, project_id: str, name: str) -> list[str]:
        """The stack's servers, by resource name, that no longer run although they were made: stopped,
        failed, or removed by somebody else."""
        ...

    async def create(
        self,
        project_id: str,
        name: str,
        template: Mapping[str, Json],
        **options: Unpack[WorkOptions],
    ) -> Stack:
        """Create a stack."""
        ...

    async def update(
        self,
        project_id: str,
        name: str,
        template: Mapping[str, Json],
        **options: Unpack[WorkOptions],
    ) -> Stack:
        """Change a stack to match `template`."""
        ...

    async def delete(
        self,
        project_id: str,
        name: str,
        *,
        progress: ProgressCallback | None = None,
        may_lose: Collection[str] | None = None,
    ) -> Stack | None:
        """Remove the stack and everything it made. None when it is gone (also when it never
        was there); a stack in `DELETE_FAILED` when something could not be removed.

        `may_lose`: see `WorkOptions`."""
        ...

    async def would_lose(
        self, project_id: str, name: str, resources: Collection[str]
    ) -> list[Loss]:
        """What an update would lose whose template lacks these resources. Touches nothing.

        Raises `StackBusy` while an operation goes on."""
        ...

    async def would_lose_with(
        self, project_id: str, name: str, template: Mapping[str, Json]
    ) -> list[Loss]:
        """What an update to this template would lose; parameters and files stay. Touches nothing.

        Raises `StackBusy` while an operation goes on."""
        ...

    async def plan(
        self,
        project_id: str,
        name: str,
        template: Mapping[str, Json],
        **options: Unpack[TemplateOptions],
    ) -> StackPlan:
        """What `create` or `update` with these arguments would do. Touches nothing."""
        ...
