"""A session: one run of programs over one object model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .effects import EffectsPort, Json
from .limits import Limits

if TYPE_CHECKING:
    from .objects import MuranoObject
    from .runtime import Runtime
    from .types import MuranoType

Hook = Callable[[], Awaitable[None] | None]


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
    """What a task came to (section 23).

    `stage` is None on success, else where it failed: `<load>`, `<validate>`, `<GC>`, the method's
    name, or `<result>`. `model` is what is to be stored: the new model, or the unchanged one when
    the task did not get as far as its action.
    """

    model: Json
    result: Json = None
    is_exception: bool = False
    stage: str | None = None
    message: str | None = None
    details: str | None = None
    warnings: list[str] = field(default_factory=list[str])

    def as_json(self) -> dict[str, Json]:
        """`{model, action: {result, isException}}`."""
        result: Json = self.result
        if self.is_exception:
            result = {"message": self.message, "details": self.details}
        return {
            "model": self.model,
            "action": {"result": result, "isException": self.is_exception},
        }


class Session:
    """Made by `Runtime.session`. One host call runs at a time; concurrent ones wait their turn.

    Every operation has a plain form, which starts an event loop only if a program waits for
    something, and an `_async` form, which runs in the caller's loop and never blocks it.
    """

    runtime: Runtime
    effects: EffectsPort
    limits: Limits
    info: SessionInfo
    services: Any
    """Whatever the host gave `Runtime.session(services=…)`: native classes find their back ends
    here."""
    system_attributes: dict[str, Json]
    """`SystemData` of the model: kept from task to task."""

    # -- models --------------------------------------------------------------------------------

    def load(self, model: Json) -> MuranoObject | None:
        """Load `{"Objects": …, "ObjectsCopy": …, "Attributes": …, "SystemData": …}`; the root.

        Objects in `ObjectsCopy` that are not in `Objects` become candidates for `collect`.
        Raises MuranoError.
        """
        raise NotImplementedError

    async def load_async(self, model: Json) -> MuranoObject | None:
        """`load` from a running event loop."""
        raise NotImplementedError

    def dump(self) -> dict[str, Json]:
        """The model as it is now: `Objects`, `ObjectsCopy`, `Attributes`, `SystemData`."""
        raise NotImplementedError

    def serialize(self, value: Any) -> Json:
        """A value as an action result (section 15.2)."""
        raise NotImplementedError

    def find(self, object_id: str) -> MuranoObject | None:
        """The object with the id."""
        raise NotImplementedError

    @property
    def root(self) -> MuranoObject | None:
        """The root of the loaded model."""
        raise NotImplementedError

    # -- calls ---------------------------------------------------------------------------------

    def call(
        self, target: MuranoObject | MuranoType | str, method: str, /, *args: Any, **kwargs: Any
    ) -> Any:
        """Call a method of an object, or a static method of a type or class name.

        The result is plain data and `MuranoObject`. Raises MuranoError.
        """
        raise NotImplementedError

    async def call_async(
        self, target: MuranoObject | MuranoType | str, method: str, /, *args: Any, **kwargs: Any
    ) -> Any:
        """`call` from a running event loop; only green threads wait."""
        raise NotImplementedError

    async def run_task_async(self, task: Mapping[str, Json]) -> TaskReply:
        """A whole task: load, collect, act, save, clean up (section 23).

        `task`: `{"action": {"object_id", "method", "args"} | None, "model": …}`. Failures of the
        program are in the reply, not raised.
        """
        raise NotImplementedError

    async def call_static_action_async(
        self,
        class_name: str,
        method: str,
        args: Mapping[str, Json],
        *,
        package: str | None = None,
        class_version: str | None = None,
    ) -> Json:
        """Call a Public Static method without a model; its result as JSON (section 23)."""
        raise NotImplementedError

    def new(
        self, type_name: str, owner: MuranoObject | None = None, /, **properties: Any
    ) -> MuranoObject:
        """Make an object; only inside a green thread (native classes)."""
        raise NotImplementedError

    # -- life ----------------------------------------------------------------------------------

    def on_start(self, hook: Hook) -> None:
        """Run before the action; errors are logged."""
        raise NotImplementedError

    def on_finish(self, hook: Hook) -> None:
        """Run after the action and at the end of the session; errors are logged."""
        raise NotImplementedError

    async def close_async(self) -> None:
        """End of the session: finish hooks, then every object not in the model is destroyed."""
        raise NotImplementedError

    def close(self) -> None:
        """`close_async` without a loop."""
        raise NotImplementedError

    def cancel(self, reason: str) -> None:
        """End the call in progress with `Cancelled`; safe from another OS thread."""
        raise NotImplementedError

    # -- garbage (for io.murano.system.GC) ------------------------------------------------------

    def collect(self) -> int:
        """Destroy what no root reaches (section 21); the number of objects destroyed."""
        raise NotImplementedError

    def subscribe_destruction(
        self, publisher: MuranoObject, subscriber: MuranoObject, handler: str | None = None
    ) -> None:
        """Order of destruction, and a call of `subscriber.handler(publisher)` before it."""
        raise NotImplementedError

    def unsubscribe_destruction(
        self, publisher: MuranoObject, subscriber: MuranoObject, handler: str | None = None
    ) -> None:
        """Undo `subscribe_destruction`."""
        raise NotImplementedError

    def is_doomed(self, target: MuranoObject) -> bool:
        """Destroyed, or in the batch that is being destroyed."""
        raise NotImplementedError

    def is_destroyed(self, target: MuranoObject) -> bool:
        """Destroyed already."""
        raise NotImplementedError
