"""Running a task of an environment with flat services: the project's XML workflows (§1).

The services stand in ``Objects`` without a ``?``: an environment as the v0.3 API keeps it. An interrupted
task continues from its last round (`Checkpoints`).
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import io
import socket
import tarfile
from copy import deepcopy
from pathlib import Path
from typing import cast

from vetro.documents import DocumentError, read_json, read_yaml
from vetro.engine.checkpoints import Checkpoints
from vetro.engine.journal import JournalEffects
from vetro.engine.services import EngineServices, RegionDoor, library_path
from vetro.engine.settings import EngineSettings
from vetro.engine.worker.messages import orders_to
from vetro.engine.worker.refusal import message_of, result_of_refusal
from vetro.engine.worker.workflow_port import WorkflowPort
from vetro.environments import EngineTask, Environments, TaskResult, shortened
from vetro.json_values import Json
from vetro.messaging import MessageTransport
from vetro.repository import Repository, RepositorySection
from vetro.secrecy import Cover, secrets_in
from vetro.storage import Database
from vetro.workflows import (
    Broker,
    Files,
    Outcome,
    Task,
    Trace,
    WorkflowSettings,
    queue_of,
    result_queue_of,
    services_of,
    units_of,
)

MOST_EVENTS = 20_000
"""Events that the trace of one run keeps."""
LONGEST_TEXT = 1000
"""Characters of one text in it: user data and scripts are long."""


async def run_workflows(
    services: EngineServices,
    database: Database,
    task: EngineTask,
    effects: JournalEffects,
    checkpoints: Checkpoints,
    orders: socket.socket | None = None,
) -> TaskResult:
    """Run a task to its result; errors of the workflows are in the result and in a report.

    ``orders``: the socket over which the pool may cancel the task.
    """
    settings = services.settings
    try:
        door, broker = door_of(services), broker_of(settings)
        first_boot = await asyncio.to_thread(first_boot_files, settings)
    except (ValueError, OSError) as error:
        return await refused(services, task, str(error))
    progress = await checkpoints.take_over()
    effects.count_from(await checkpoints.journaled())
    if progress is not None:
        said = f"The deployment was cut off in round {progress['round'] + 1} and goes on from there"
        await services.reports.report(task.environment_id, "warning", said, None)
    files = await definitions_of(database, task.project_id)
    model = model_of(task)
    seed = f"{task.id}/{hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()}"
    trace = Trace(most=MOST_EVENTS)
    cover = Cover(secrets_in([task.model]))
    reports = Environments(database).tasks.reports

    async def keep_trace(round_number: int) -> None:
        await reports.keep_trace(task.id, round_number, readable(trace.take(), cover))

    loop = asyncio.get_running_loop()
    transport = door or services.transport
    port = WorkflowPort(services, effects, checkpoints, loop, seed, keep_trace, transport)
    if progress is not None:
        port.begin_round(progress["round"])
    running = Task(
        model,
        Files(files, read_template, first_boot),
        port,
        WorkflowSettings(
            network_topology=settings.network.topology,
            max_environments=settings.network.max_environments,
            max_hosts=settings.network.max_hosts,
            env_ip_template=settings.network.env_ip_template,
            file_server=settings.engine.file_server or None,
            load_balancers_refused=port.lacks_balancers,
            broker=broker,
        ),
        progress=progress,
        trace=trace,
    )

    def end(reason: str) -> None:
        running.cancel(reason)
        port.cancel(reason)

    with orders_to(end, orders, settings.engine.task_seconds):
        outcome = await asyncio.to_thread(running.run)
    await keep_trace(outcome.rounds)
    result = result_of(task, outcome)
    if services.refused is not None:
        # What a former run of this task has changed is not counted here.
        changed = effects.changed | ({"stack.push"} if progress is not None else set[str]())
        result = result_of_refusal(services.refused, changed, model=result.model, cover=cover)
        await services.reports.report(task.environment_id, "error", message_of(result), None)
        return result
    # What the rules used before the task was cut off is not known any more.
    if not (result.is_exception or outcome.stopped) and (task.is_delete or progress is None):
        environment = task.environment_id
        await release(environment, effects, transport, outcome.model, port.used)
        if task.is_delete and door is not None:
            await door.forget_results()
    return result


def readable(value: Json, cover: Cover) -> Json:
    """A trace as it may be kept: without the secrets of the model, long texts cut."""
    if isinstance(value, dict):
        return {key: readable(one, cover) for key, one in cast("dict[str, Json]", value).items()}
    if isinstance(value, list):
        return [readable(one, cover) for one in cast("list[Json]", value)]
    return shortened(cover(value), LONGEST_TEXT) if isinstance(value, str) else value


def model_of(task: EngineTask) -> dict[str, Json]:
    """The environment as rules see it; of a deletion without services and ``deleted`` (§13.1)."""
    given = task.model.get("Objects")
    known: Json = given if given is not None else task.model.get("ObjectsCopy") or {}
    model = cast("dict[str, Json]", deepcopy(known))
    model["id"] = task.environment_id
    model.setdefault("name", task.environment_name)
    model.setdefault("services", [])
    if given is None:
        model |= {"services": [], "deleted": True}
    return model


async def refused(services: EngineServices, task: EngineTask, said: str) -> TaskResult:
    """A task that cannot begin: the reason is in a report and in the result (§1.1)."""
    await services.reports.report(task.environment_id, "error", said, None)
    return TaskResult(task.model, {"message": said, "details": None}, True)


def result_of(task: EngineTask, outcome: Outcome) -> TaskResult:
    """The result to store; a deletion that failed keeps what there was."""
    failed = outcome.error is not None
    result = {"message": outcome.error, "details": None} if failed else None
    if task.is_delete:
        failed = failed or not (outcome.model.get("state") or {}).get("deleted")
        if failed and result is None:
            result = {"message": "The stack could not be deleted", "details": None}
        kept = task.model.get("ObjectsCopy") if failed else None
        return TaskResult({**task.model, "Objects": None, "ObjectsCopy": kept}, result, failed)
    objects = outcome.model
    return TaskResult({**task.model, "Objects": objects, "ObjectsCopy": objects}, result, failed)


def read_template(text: str) -> Json:
    """A template: JSON, or YAML, of which JSON with trailing commas is a part (§8.1)."""
    try:
        return read_json(text)
    except DocumentError:
        return read_yaml(text)


async def definitions_of(database: Database, project_id: str) -> dict[str, bytes]:
    """The files of a project's definitions, as its conductor archive has them."""
    repository = Repository(database, RepositorySection(), library_path() / "v03")
    archive = await repository.archive(project_id, "conductor")
    return await asyncio.to_thread(unpacked, archive.content or b"")


def unpacked(content: bytes) -> dict[str, bytes]:
    """The regular files of an archive that our own repository has built."""
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None
            if stream is not None:
                files[member.name.removeprefix("./")] = stream.read()
    return files


SHIPPED = {"init-scripts": "init_scripts_dir", "agent-config": "agent_config_dir"}
"""Folder of a case or an archive → setting with the installation's own directory."""


def door_of(services: EngineServices) -> RegionDoor | None:
    """The door to the guests where the installation has a broker. Raises: ValueError for its settings."""
    broker = services.settings.broker({})
    if broker is None or services.brokers is None:
        return None
    return services.brokers(broker, result_queue_of(services.environment_id))


def broker_of(settings: EngineSettings) -> Broker:
    """What agent configurations contain about the broker. Raises: OSError when its CA file is missing."""
    known = settings.rabbitmq
    return Broker(
        host=str(settings.config("rabbitmq", "host") or Broker.host),
        port=known.port,
        login=known.login,
        password=known.password,
        virtual_host=known.virtual_host,
        ssl=known.ssl,
        ca_root_cert=Path(known.ca_certs).read_bytes() if known.ca_certs else b"",
    )


def first_boot_files(settings: EngineSettings) -> dict[str, bytes]:
    """Init scripts and agent configurations: what ships, and the installation's own. Raises: OSError."""
    files: dict[str, bytes] = {}
    for folder, setting in SHIPPED.items():
        own = str(getattr(settings.engine, setting))
        for root in [library_path() / "v03" / folder, *([Path(own)] if own else [])]:
            for path in sorted(root.iterdir()):
                if path.is_file():
                    files[f"{folder}/{path.name}"] = path.read_bytes()
    return files


async def release(
    environment: str,
    effects: JournalEffects,
    transport: MessageTransport,
    model: dict[str, Json],
    used: set[str],
) -> None:
    """Remove the mailboxes and credentials of units that the environment no longer has.

    ``used``: mailboxes that rules have used, whatever they are called.
    """
    kept = used | {
        queue_of(environment, str(service.get("id")), str(unit.get("id")))
        for service in services_of(model)
        for unit in units_of(service)
    }
    for queue in await transport.queues_of(f"e{environment}-".lower()):
        if queue not in kept:
            delete = functools.partial(transport.delete, queue)
            await effects.record("agent.release", {"queue": queue}, delete)
