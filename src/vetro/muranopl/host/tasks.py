"""A whole task: load, collect, act, save, clean up (muranopl.md section 23)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from vetro.muranopl.model.edits import settle_edits
from vetro.muranopl.syntax.findings import did_you_mean
from vetro.muranopl.threads.effects import Json
from vetro.muranopl.values.containers import freeze
from vetro.muranopl.values.errors import (
    LimitExceeded,
    MethodNotExposed,
    MuranoError,
    NoMethodFound,
    NoObjectFoundError,
)
from vetro.yaql.comparing import afford

from .requests import TaskReply

if TYPE_CHECKING:
    from .session import Session


async def run_task(session: Session, task: Mapping[str, Json]) -> TaskReply:
    """Run a task; the reply reports failures of the program.

    If the model cannot be loaded or garbage collection fails, the model stays unchanged. The model
    is saved even when the action failed. If the model cannot be written, the given model stays.
    """
    given = cast("Mapping[str, Json]", task.get("model") or {})
    reply = TaskReply(model=given)
    action = cast("Mapping[str, Json] | None", task.get("action"))
    try:
        try:
            settled = await session.in_green_thread_async(
                lambda: _settled(session, given, reply.warnings)
            )
        except MuranoError as error:
            return _failed(reply, "<validate>", error)
        try:
            await session.load_async(settled)
        except MuranoError as error:
            return _failed(reply, "<load>", error)
        await session.start_hooks_async()
        try:
            await session.collect_async()
        except MuranoError as error:
            return _failed(reply, "<GC>", error)
        finally:
            await session.finish_hooks_async()
        session.copy_objects()
        if action is not None:
            await _act(session, action, reply)
        try:
            reply.model = session.dump()
        except MuranoError as error:
            _failed(reply, "<model>", error)
    finally:
        try:
            await session.close_async()
        except MuranoError as error:
            if not reply.is_exception:
                _failed(reply, "<destroy>", error)
        reply.warnings.extend(session.warnings)
        reply.leaks.extend(session.collector.leaks.values())
    return reply


def _settled(session: Session, given: Mapping[str, Json], warnings: list[str]) -> object:
    """The model with edits judged, by the class versions that the environment is fixed to."""
    session.fix_packages(given)
    return settle_edits(session.class_in_model, given, warnings)


async def _act(session: Session, action: Mapping[str, Json], reply: TaskReply) -> None:
    name = str(action.get("method"))
    await session.start_hooks_async()
    try:
        value = await session.act_async(
            str(action.get("object_id")), name, cast("Mapping[str, Json]", action.get("args") or {})
        )
    except MuranoError as error:
        _failed(reply, name, error)
        return
    finally:
        await session.finish_hooks_async()
    try:
        reply.result = session.serialize(value)
    except MuranoError as error:
        _failed(reply, "<result>", error)


def action_call(
    session: Session, object_id: str, name: str, args: Mapping[str, Json] | Sequence[Json]
) -> Callable[[], object]:
    """A function that calls an action by object id and name; arguments by name or position."""

    def call() -> Any:
        target = session.find(object_id)
        if target is None:
            raise NoObjectFoundError(
                f'Object "{object_id}" is not found',
                hint="the object of an action must be in the given model",
            )
        method = target.type.find_method(name)
        if method is None:
            raise NoMethodFound(
                f"class {target.type.name} has no method {name!r}",
                hint=did_you_mean(name, target.type.method_names()),
            )
        if not method.is_action:
            raise MethodNotExposed(
                f"{target.type.name}.{name} is not an action",
                hint="an action must have `Scope: Public`",
            )
        return afford(session.run.invoke(target, name, *_given(args)), session.run)

    return call


def static_action(
    session: Session,
    class_name: str,
    name: str,
    args: Mapping[str, Json] | Sequence[Json],
    package: str | None,
    class_version: str | None,
) -> Callable[[], object]:
    """A function that calls a static action of a class, selected by version or package."""

    def call() -> Any:
        type_ = session.runtime.classes.type_from_model(
            class_name, class_version, package, None, session.info.project_id
        )
        found = type_.find_method(name)
        if found is None:
            raise NoMethodFound(
                f"class {class_name} has no method {name!r}",
                hint=did_you_mean(name, type_.method_names()),
            )
        if not found.is_action or found.usage != "Static":
            raise MethodNotExposed(
                f"{class_name}.{name} is not a static action",
                hint="a static action must have `Usage: Static` and `Scope: Public`",
            )
        session.note_types([type_])
        return afford(session.run.invoke(type_, name, *_given(args)), session.run)

    return call


def _given(args: Mapping[str, Json] | Sequence[Json]) -> tuple[list[object], dict[str, object]]:
    if isinstance(args, Mapping):
        return [], {key: freeze(value) for key, value in args.items()}
    return [freeze(value) for value in args], {}


def _failed(reply: TaskReply, stage: str, error: MuranoError) -> TaskReply:
    reply.is_exception = True
    reply.stage = stage
    reply.message = error.message
    reply.details = error.format()
    reply.limit = error.limit if isinstance(error, LimitExceeded) else None
    return reply
