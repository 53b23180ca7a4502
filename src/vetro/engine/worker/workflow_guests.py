"""How guests of XML workflows are reached, and what is removed when they are gone (§10.1, §10.5)."""

from __future__ import annotations

import functools
from pathlib import Path

from vetro.engine.journal import JournalEffects
from vetro.engine.services import EngineServices, RegionDoor, library_path
from vetro.engine.settings import EngineSettings
from vetro.json_values import Json
from vetro.messaging import MessageTransport
from vetro.workflows import Broker, queue_of, result_queue_of, services_of, units_of

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
