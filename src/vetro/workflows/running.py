"""What is running: the task as functions see it, the place of a call, the commands it queues (§1, §5, §7).

Functions are compiled before there is a task. They reach it through the frame of each call, and ask of it
what `RunningTask` names; `task.Task` implements it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from vetro.workflows.errors import Place
from vetro.workflows.files import Files
from vetro.workflows.paths import Cursor, Path
from vetro.workflows.ports import (
    AgentRequest,
    Fragment,
    NetworkRequest,
    Port,
    WorkflowSettings,
)
from vetro.workflows.scopes import Mutes, RuleMark, Scope
from vetro.workflows.source import Element
from vetro.workflows.trace import Trace
from vetro.workflows.values import Json, equal


class RunningTask(Protocol):
    """What functions and queued commands ask of the task."""

    model: dict[str, Json]
    """The environment's model; rules change it in place."""
    files: Files
    port: Port
    settings: WorkflowSettings
    trace: Trace | None
    round: int
    """The number of the round, from 1."""
    round_began: datetime
    """The time that names of this round are made of."""
    issued_names: set[tuple[str | None, str]]
    """The service and the text of each host name that was generated."""

    @property
    def environment_id(self) -> str:
        """The id of the environment."""
        ...

    def admit(self, value: Json) -> None:
        """A list or map is about to be written. Raises: EvaluationError when the model gets too large."""
        ...

    def mark_changed(self, frame: Frame, path: Path, value: Json) -> None:
        """The model changed: the file runs again."""
        ...

    def enqueue(self, command: Command) -> None:
        """Queue a command for the end of the round, unless the same one waits already."""
        ...

    def request_stop(self) -> None:
        """No further round after this one (§1.1)."""
        ...

    def report(
        self, entity: str, id_: str | None, level: str, text: str, details: str | None = None
    ) -> None:
        """Send a report without the secrets that are known (§13.4)."""
        ...

    def warn_of_missing(self, template: str, missing: list[str], place: Place) -> None:
        """Keys of a template that have no mapping stay as they are."""
        ...

    def warn(self, place: Place, message: str) -> None:
        """Note in the trace what looks wrong but goes on."""
        ...

    def timestamp(self) -> str:
        """The time as errors carry it."""
        ...

    def next_count(self) -> int:
        """A number that rises."""
        ...


class Run:
    """One run of a file, or of a block of a command."""

    __slots__ = ("changed", "mutes", "task")

    def __init__(self, task: RunningTask, mutes: Mutes) -> None:
        self.task = task
        self.mutes = mutes
        self.changed = False


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a call stands. ``anonymous``: an object around it has no id, so nothing in it can be muted."""

    run: Run
    cursor: Cursor = ()
    rule: RuleMark | None = None
    object_id: str | None = None
    anonymous: bool = False

    def within(self, run: Run) -> Frame:
        """The same place in another run."""
        return Frame(run, self.cursor, self.rule, self.object_id, self.anonymous)


Closure = Callable[[Frame, Scope], Json]
"""A call as it was compiled."""


@dataclass(slots=True)
class Blocks:
    """What a command does afterwards, and where it puts its result and its error."""

    element: Element
    success: Closure | None
    failure: Closure | None
    result: str | None = None
    error: str | None = None


@dataclass(slots=True)
class Command:
    """A queued command. ``broken``: it could not be built, and why."""

    kind: str
    blocks: Blocks
    frame: Frame
    scope: Scope
    place: Place
    broken: str | None = None
    fragment: Fragment | None = None
    body: dict[str, Json] = field(default_factory=dict[str, Json])
    arguments: dict[str, Json] = field(default_factory=dict[str, Json])
    network: NetworkRequest | None = None
    agent: AgentRequest | None = None
    snapshot: dict[str, Json] | None = None

    def repeats(self, other: Command) -> bool:
        """Whether both are the same call, from the same place with the same values (§9.2)."""
        if (
            self.blocks.element is not other.blocks.element
            or self.frame.cursor != other.frame.cursor
        ):
            return False
        mine, others = self.agent, other.agent
        if mine is not None and others is not None:
            same = (mine.template, mine.queue) == (others.template, others.queue) and equal(
                mine.mappings, others.mappings
            )
        else:
            same = (
                self.fragment == other.fragment
                and self.network == other.network
                and equal(self.body, other.body)
                and equal(self.arguments, other.arguments)
            )
        return same and equal(self.variables(), other.variables())

    def variables(self) -> dict[str, Json]:
        """The variables its blocks will see."""
        if self.snapshot is None:
            self.snapshot = self.scope.visible()
        return self.snapshot
