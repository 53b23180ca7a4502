"""The operator's rules about models, asked by a worker before a deployment (catalog-api.md §12)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vetro.engine.policy import ModelRefused, enforce
from vetro.engine.settings import EngineSettings
from vetro.environments import EngineTask
from vetro.muranopl import DirectEffects, Runtime, SessionInfo


async def judged(
    settings: EngineSettings,
    runtime: Runtime,
    info: SessionInfo,
    services: object,
    task: EngineTask,
) -> tuple[dict[str, object], str]:
    """The objects to deploy, changed by the rules, and why they must not be; else an empty text.

    Only classes are loaded for it, in a session of its own: nothing of the model runs.
    """
    effects = DirectEffects(start=datetime.now(UTC))
    session = runtime.session(effects=effects, info=info, services=services)
    objects: dict[str, object] = task.model["Objects"]

    def ancestors(item: Mapping[str, object]) -> list[str]:
        """The classes of an object; none of one whose class is not found: loading says that."""
        type_ = session.class_of(item)
        return [] if type_ is None else [one.name for one in type_.ancestors]

    def ask() -> tuple[dict[str, Any], str]:
        session.fix_packages(task.model)
        file = Path(settings.engine.model_policy_file)
        try:
            return enforce(file, objects, task.project_id, ancestors), ""
        except ModelRefused as error:  # here: a session makes every error one of the language
            return objects, str(error)

    try:
        return await session.in_green_thread_async(ask)
    finally:
        await session.close_async()
