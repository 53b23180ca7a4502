"""The worker's side of static actions and schemas of a class (catalog-api.md §5.6, §5.7)."""

from __future__ import annotations

import structlog

from vetro.engine.settings import EngineSettings
from vetro.engine.worker.back_ends import back_ends
from vetro.engine.worker.deployment import KnownSecrets, reading, too_large
from vetro.engine.worker.upgrade_check import compare
from vetro.environments import CallAnswer, EngineCall, FormSecrets, Tracked, pinned_packages
from vetro.json_values import Json
from vetro.muranopl import (
    DirectEffects,
    LimitExceeded,
    Limits,
    MuranoError,
    Runtime,
    Session,
    SessionInfo,
)
from vetro.secrecy import Cover

log = structlog.get_logger(__name__)

_NOT_FOUND = {
    "NoPackageFound",
    "NoPackageForClassFound",
    "NoClassFound",
    "NoMethodFound",
    "MethodNotExposed",
    "NoFunctionRegisteredException",
    "NoMethodRegisteredException",
}
#: Errors in the call itself: wrong, missing or unknown arguments.
_UNFIT = {"NoMatchingMethodException", "NoMatchingFunctionException"}
_INVALID = {"ContractViolationException", "ValueError"}


class LoggedReports:
    """Writes reports to the log, for a program that runs without an environment."""

    async def report(
        self,
        entity_id: str | None,
        level: str,
        text: str,
        details: str | None = None,
        *,
        entity: str | None = None,
    ) -> None:
        """Write a line to the log."""
        log.info("static_action_report", entity=entity_id, level=level, text=text)

    async def track(self, values: Tracked) -> None:
        """Do nothing: statistics belong to environments."""

    async def untrack(self, instance_id: str) -> None:
        """Do nothing: statistics belong to environments."""


async def run_call(settings: EngineSettings, runtime: Runtime, call: EngineCall) -> CallAnswer:
    """Answer a call; errors of the program are in the answer."""
    async with back_ends(
        settings,
        runtime,
        project_id=call.project_id,
        user_id=call.user_id,
        environment_id="",
        reports=LoggedReports(),
        pinned=pinned_packages(call.arguments["model"]) if call.kind == "upgrade" else None,
    ) as world:
        info = SessionInfo(
            project_id=call.project_id,
            user_id=call.user_id,
            environment_owner_project_id=call.project_id,
            environment_owner_user_id=call.user_id,
        )
        limits = Limits(seconds=call.seconds)
        read = KnownSecrets()
        secrets = reading(FormSecrets(world.database), call.project_id, read.learn)

        def make_session(effects: DirectEffects) -> Session:
            return runtime.session(
                effects=effects,
                info=info,
                services=world.services,
                limits=limits,
                secrets=secrets,
            )

        try:
            if call.kind == "upgrade":
                return CallAnswer(await compare(make_session, call.arguments))
            session = make_session(DirectEffects())
            try:
                value = await (_act if call.kind == "action" else _describe)(session, call)
            finally:
                await session.close_async()
        except MuranoError as error:
            return failed(error, read.cover)
    said = too_large(value, settings.engine.action_result_limit)
    if said:
        return CallAnswer(
            failure="failed",
            type="ResultTooLarge",
            message=f"The result has {said}; engine.action_result_limit is"
            f" {settings.engine.action_result_limit}",
        )
    return CallAnswer(value)


async def _act(session: Session, call: EngineCall) -> object:
    assert call.methods is not None
    return await session.call_static_action_async(
        call.class_name,
        call.methods[0],
        call.arguments,
        package=call.package_name,
        class_version=call.class_version,
    )


async def _describe(session: Session, call: EngineCall) -> object:
    runtime = session.runtime

    def build() -> Json:
        # Resolve it as in a model: the project's own package first, in the version that is meant.
        type_ = runtime.classes.type_from_model(
            call.class_name, call.class_version, call.package_name, None, call.project_id
        )
        return runtime.schema(
            call.class_name,
            call.methods,
            version_spec=f"={type_.package.semantic_version}",
            package=type_.package.name,
        )

    return await session.in_green_thread_async(build)


def failed(error: MuranoError, cover: Cover) -> CallAnswer:
    """The answer that gives an error's message and its sort."""
    short = [name.rpartition(".")[2] for name in error.names]
    sort = "failed"
    if isinstance(error, LimitExceeded) and error.limit == "seconds":
        sort = "timeout"
    elif not error.from_program:
        # An error raised while the program runs is the program's, not the caller's.
        if not error.stack_trace and not _NOT_FOUND.isdisjoint(short):
            sort = "not found"
        elif not (_INVALID if error.stack_trace else _INVALID | _UNFIT).isdisjoint(short):
            sort = "invalid"
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    kind = short[0] if short else "MuranoError"
    return CallAnswer(
        failure=sort, message=cover(message), type=kind, details=cover(error.format())
    )
