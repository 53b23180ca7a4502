"""The records of stacks and of who works on one, and the protocol of their store."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from vetro.digits import is_number
from vetro.stacks.model import Json, Stack, StackResource, StackStatus, resources_of

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def process_owner() -> str:
    """A name for an operation of this process: boot, pid, start time, and a random part."""
    pid = os.getpid()
    return f"{_boot_id()}:{pid}:{_start_time(pid) or 0}:{secrets.token_hex(4)}"


def is_gone(owner: str) -> bool:
    """True if the owner was a process of this machine and does not run any more."""
    parts = owner.split(":")
    if len(parts) != 4 or not is_number(parts[1]):
        return False
    boot, pid, started, _ = parts
    if boot != _boot_id():
        return False  # another machine, or this one before a reboot: its time limit decides
    return str(_start_time(int(pid)) or 0) != started


def _boot_id() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return "unknown"


def _start_time(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    # A zombie does no more work.
    return None if fields[0] == "Z" else int(fields[19])


@dataclass(slots=True, kw_only=True)
class ResourceRow:
    """A resource that exists or may exist."""

    id: int = 0
    name: str
    type: str
    physical_id: str
    current: bool = True
    """False: replaced or taken out of the template, to be removed."""
    retain: bool = False
    status: StackStatus = StackStatus.CREATE_IN_PROGRESS
    reason: str = ""
    properties: dict[str, Json] = field(default_factory=dict[str, Json])
    data: dict[str, Json] = field(default_factory=dict[str, Json])
    requires: list[int] = field(default_factory=list[int])
    claim: str | None = ""
    """The mark of what the stack makes under it; '': made before there were marks.

    None: nothing there is the stack's, because the creation was refused or what was there is used.
    """


@dataclass(slots=True, kw_only=True)
class StackRow:
    """A stack with its resources."""

    id: str
    project_id: str
    name: str
    status: StackStatus
    reason: str = ""
    waiting_on: str | None = None
    template: dict[str, Json] = field(default_factory=dict[str, Json])
    parameters: dict[str, Json] = field(default_factory=dict[str, Json])
    files: dict[str, str] = field(default_factory=dict[str, str])
    environment: str | None = None
    tags: list[str] = field(default_factory=list[str])
    outputs: dict[str, Json] = field(default_factory=dict[str, Json])
    created: datetime
    updated: datetime | None = None
    fence: int = 0
    owner: str | None = None
    owner_until: datetime | None = None
    resources: list[ResourceRow] = field(default_factory=list[ResourceRow])

    def snapshot(self) -> Stack:
        """The stack as callers see it."""
        current = {row.name: row for row in self.resources if row.current}
        return Stack(
            id=self.id,
            project_id=self.project_id,
            name=self.name,
            status=self.status,
            reason=self.reason,
            template=self.template,
            parameters=self.parameters,
            created=self.created,
            updated=self.updated,
            outputs=self.outputs,
            waiting_on=self.waiting_on,
            tags=self.tags,
            files=self.files,
            environment=self.environment,
            resources={
                name: StackResource(name, row.type, row.status, row.reason, row.physical_id)
                for name, row in current.items()
            },
            unmade=self._unmade() if self.status.failed else [],
        )

    def types_of(self, physical_id: str) -> frozenset[str]:
        """The types of its resources that have this id."""
        return frozenset(row.type for row in self.resources if row.physical_id == physical_id)

    def is_held(self, now: datetime) -> bool:
        """Whether a living process works on it, by the clock of ``owner_until``."""
        if self.owner is None or self.owner_until is None:
            return False
        return self.owner_until > now and not is_gone(self.owner)

    def judged(self, now: datetime) -> StackRow:
        """The same row; one whose operation died shows as failed."""
        if self.status.in_progress and not self.is_held(now):
            action = self.status.value.removesuffix("_IN_PROGRESS")
            self.status = StackStatus(f"{action}_FAILED")
            self.reason = "The operation was interrupted before it finished"
            self.waiting_on = None
        return self

    def _unmade(self) -> list[str]:
        # A resource whose replacement failed still exists. Members of groups are `web.0`, `web.1`.
        made = {
            row.name
            for row in self.resources
            if row.status is not StackStatus.CREATE_FAILED or not row.current
        }
        while parents := {name.rpartition(".")[0] for name in made if "." in name} - made:
            made |= parents
        return [name for name in resources_of(self.template) if name not in made]


@dataclass(frozen=True, slots=True)
class Hold:
    """The right to work on a stack. Every write names it; a newer hold invalidates it."""

    stack_id: str
    name: str
    fence: int
    owner: str


class StackStore(Protocol):
    """Stores stacks. Every method that takes a `Hold` raises `OperationLost` when it is invalid."""

    async def find(self, project_id: str, name: str) -> StackRow | None: ...

    async def head(self, project_id: str, name: str) -> StackRow | None:
        """A stack without its template, parameters, files and resources."""
        ...

    async def create(self, row: StackRow, owner: str, seconds: float) -> Hold:
        """Store a new stack and take hold of it. Raises `StackExists`."""
        ...

    async def take(
        self,
        stack_id: str,
        name: str,
        values: Mapping[str, object],
        owner: str,
        seconds: float,
        *,
        fence: int | None = None,
    ) -> Hold:
        """Take hold of a stack without a living owner and change it. Raises `StackBusy`.

        `fence`: of the last hold that the caller knows of; a later one is `StackBusy`, too."""
        ...

    async def renew(self, hold: Hold, seconds: float) -> None: ...

    async def change(self, hold: Hold, values: Mapping[str, object]) -> None: ...

    async def settle(self, hold: Hold, values: Mapping[str, object]) -> None:
        """Change the stack and release it."""
        ...

    async def remove(self, hold: Hold) -> None: ...

    async def add_resource(self, hold: Hold, row: ResourceRow) -> None:
        """Store a new resource row and give it its id."""
        ...

    async def change_resource(self, hold: Hold, row: ResourceRow) -> None: ...

    async def remove_resource(self, hold: Hold, row: ResourceRow) -> None: ...

    async def resources(self, project_id: str, physical_id: str) -> list[ResourceRow]:
        """The resources with this id in all stacks of the project."""
        ...
