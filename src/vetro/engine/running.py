"""Running one task: packages, model, action, result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from vetro.catalog import Catalog
from vetro.compute.client import ComputeClient
from vetro.engine.journal import JournalEffects
from vetro.engine.services import EngineServices, library_path
from vetro.engine.settings import EngineSettings
from vetro.engine.signing import PlanSigner
from vetro.engine.system import register
from vetro.environments import EngineTask, Environments, TaskResult
from vetro.identity import Identity
from vetro.messaging import Mailboxes
from vetro.muranopl import PackageSource, Runtime, Session, SessionInfo, TaskReply, wait
from vetro.packages import Package, PackageError, open_package
from vetro.stacks import ComputeNetworkDirectory, NativeStacks
from vetro.stacks.compute_adapter import port_of
from vetro.storage import Database

log = structlog.get_logger(__name__)
UNTOUCHED = ("<validate>", "<load>", "<GC>")
"""Stages whose failure leaves the model as it was: nothing ran."""


def installed_packages(directories: Iterable[Path]) -> list[Package]:
    """The packages below directories; those that cannot be read are logged and left out."""
    found: list[Package] = []
    for directory in directories:
        for manifest in sorted(directory.glob("*/manifest.yaml")):
            try:
                found.append(open_package(manifest.parent))
            except PackageError as error:
                log.warning(
                    "a package was left out", directory=str(manifest.parent), error=str(error)
                )
    return found


def bare_runtime(code_cache: Path | None = None) -> Runtime:
    """A runtime that knows the system classes, and no package."""
    runtime = Runtime(code_cache=code_cache)
    register(runtime)
    return runtime


def preload(code_cache: Path | None = None) -> Runtime:
    """A runtime with the core library compiled: what a worker starts from."""
    runtime = bare_runtime(code_cache)
    runtime.add_package(open_package(library_path() / "io.murano"))
    runtime.compile_all()
    return runtime


class CatalogResolver:
    """Finds packages: installed directories first, then the catalog (packages-and-forms.md A7)."""

    def __init__(self, catalog: Catalog, installed: list[Package]) -> None:
        self.catalog = catalog
        self.installed = installed

    def find_package(self, name: str, spec: str, project_id: str | None) -> PackageSource | None:
        """A package by name."""
        for package in self.installed:
            if package.full_name == name:
                return package
        return wait(self.catalog.find_package(name, spec, project_id))

    def find_class(
        self, class_name: str, spec: str, project_id: str | None
    ) -> PackageSource | None:
        """A package by one of its classes."""
        for package in self.installed:
            if class_name in package.classes:
                return package
        return wait(self.catalog.find_package_for_class(class_name, spec, project_id))


@dataclass
class KnownPeople:
    """``People`` of the built-in identity service; who is not there any more is known by id."""

    identity: Identity

    async def user(self, id_: str) -> dict[str, Any]:
        """A user."""
        return dict(await self.identity.user(id_) or {"id": id_, "name": id_})

    async def project(self, id_: str) -> dict[str, Any]:
        """A project."""
        return dict(await self.identity.project(id_) or {"id": id_, "name": id_})


@dataclass
class TaskReports:
    """Reports of one task, kept in order by sending one at a time."""

    rooms: Environments
    task: EngineTask

    async def report(
        self, entity_id: str | None, level: str, text: str, details: str | None = None
    ) -> None:
        """Add a report."""
        await self.rooms.tasks.report(self.task.id, entity_id, level, text, details)

    async def track(self, values: dict[str, Any]) -> None:
        """Something runs; statistics must never fail a deployment."""
        try:
            await self.rooms.tasks.track_instance(self.task.environment_id, values)
        except Exception as error:  # noqa: BLE001 - §4.5: failure must never fail a deployment
            log.warning("statistics were not written", error=str(error))

    async def untrack(self, instance_id: str) -> None:
        """Something is gone."""
        try:
            await self.rooms.tasks.untrack_instance(self.task.environment_id, instance_id)
        except Exception as error:  # noqa: BLE001 - as above
            log.warning("statistics were not written", error=str(error))


async def run_task(
    settings: EngineSettings, runtime: Runtime, task: EngineTask, fence: int
) -> TaskResult:
    """Run a task to its result; failures of the program are in the result and in a report."""
    database = await Database.open(settings.database_url, data_dir=settings.data_dir)
    client = ComputeClient(settings.compute_url, settings.service_key)
    try:
        rooms = Environments(database)
        reports = TaskReports(rooms, task)
        compute = port_of(client)
        signer = await asyncio.to_thread(PlanSigner.load_or_create, settings.signing_key_file)
        services = EngineServices(
            settings=settings,
            project_id=str(task.model.get("project_id") or task.project_id),
            user_id=str(task.model.get("user_id") or task.user_id),
            environment_id=task.environment_id,
            stacks=NativeStacks(database, compute),
            directory=ComputeNetworkDirectory(compute),
            transport=Mailboxes(database),
            reports=reports,
            signer=signer,
            people=KnownPeople(Identity(database)),
        )
        if settings.class_configs.is_dir():
            runtime.class_configs = settings.class_configs
        runtime.resolver = CatalogResolver(
            Catalog(database, settings.package_dir),
            installed_packages(settings.packages_directories),
        )
        info = SessionInfo(
            project_id=task.project_id,
            user_id=task.user_id,
            environment_owner_project_id=services.project_id,
            environment_owner_user_id=services.user_id,
            task_id=task.id,
        )
        effects = JournalEffects(database, task.id, fence)
        session = runtime.session(effects=effects, info=info, services=services)
        alarm = _limit(session, settings.task_seconds)
        try:
            reply = await session.run_task_async({"action": task.action, "model": task.model})
            for warning in [*reply.warnings]:
                await reports.report(task.environment_id, "warning", warning)
            if reply.is_exception:
                text = reply.message or "The deployment failed"
                await reports.report(task.environment_id, "error", text, reply.details)
        finally:
            if alarm is not None:
                alarm.cancel()
            await session.close_async()
        return to_result(task, reply)
    finally:
        await client.close()
        await database.close()


def _limit(session: Session, seconds: float) -> asyncio.TimerHandle | None:
    """Have the run cancelled after so many seconds (0: never)."""
    if not seconds:
        return None
    reason = f"The deployment took longer than {seconds:g} seconds and was cancelled"
    return asyncio.get_running_loop().call_later(seconds, session.cancel, reason)


def to_result(task: EngineTask, reply: TaskReply) -> TaskResult:
    """The stored result: what the run left, and of a failure the message and the trace."""
    result = reply.result
    if reply.is_exception:
        result = {"message": reply.message, "details": reply.details}
    return TaskResult(stored_model(reply, task.is_delete), result, reply.is_exception)


def stored_model(reply: TaskReply, is_delete: bool) -> dict[str, Any]:
    """The model to be stored: ``ObjectsCopy`` is what this run leaves (catalog-api.md §8).

    By the copy the next run sees what a user has removed, and whether values were changed that only
    the program may set. The reply's own copy is from before the action: with it the next run would
    take back what this one has set. A good deletion leaves no objects at all.
    """
    model = dict(reply.model)
    if is_delete and not reply.is_exception:
        model["Objects"] = None
        model["ObjectsCopy"] = None
    elif reply.stage not in UNTOUCHED and model.get("Objects") is not None:
        model["ObjectsCopy"] = model["Objects"]
    return model
