"""What a session is started with and what a task answers (muranopl.md section 23)."""

from __future__ import annotations

from dataclasses import dataclass, field

from vetro.muranopl.runtime.destruction import Leak
from vetro.muranopl.threads.effects import Json


@dataclass(slots=True)
class SessionInfo:
    """On whose behalf a session runs (muranopl.md section 23)."""

    token: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    environment_owner_project_id: str | None = None
    environment_owner_user_id: str | None = None
    trust_id: str | None = None
    task_id: str | None = None


@dataclass(slots=True)
class TaskReply:
    """The outcome of a task (section 23).

    `stage` is None on success, else where it failed: `<validate>`, `<load>`, `<GC>`, the method's
    name, `<result>`, `<model>` or `<destroy>`. `model` is the model to store: the new one, or the
    unchanged one when the task did not reach its action.
    """

    model: Json
    result: Json = None
    is_exception: bool = False
    stage: str | None = None
    message: str | None = None
    details: str | None = None
    warnings: list[str] = field(default_factory=list[str])
    leaks: list[Leak] = field(default_factory=list[Leak])
    """Destroyed objects that may have left something behind: their `.destroy` failed."""
    limit: str | None = None
    """The limit that ended the task: `steps`, `memory` …"""

    def as_json(self) -> dict[str, Json]:
        """`{model, action: {result, isException}}`."""
        result: Json = self.result
        if self.is_exception:
            result = {"message": self.message, "details": self.details}
        return {
            "model": self.model,
            "action": {"result": result, "isException": self.is_exception},
        }
