"""The parts of a running `vetro up`, and how each of them is: for the dashboard's page of health."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.http import ServicePart
from vetro.server.isolation import Instances
from vetro.server.settings import Settings


def parts_of(
    settings: Settings, missing: Mapping[str, str], *, workers: int | None, instances: Instances
) -> list[ServicePart]:
    """Every part with what it is made of; ``missing``: what ``/readyz`` says is wrong, by part.

    ``workers``: of the engine in this process, ``None`` when engines run elsewhere. No paths and no
    addresses: everybody who can sign in may read it.
    """
    made = {
        "database": "SQLite" if settings.database_url.startswith("sqlite") else "PostgreSQL",
        "disk": "",
        "engine": "other processes" if workers is None else f"{workers} workers",
        "stacks": {"heat": "Heat", "native": "Vetro's own"}[settings.openstack.stacks],
        "identity": "Keystone" if settings.identity.url else "built in",
        "messages": "RabbitMQ and HTTP" if settings.rabbitmq.host else "HTTP",
        "node": f"{instances.driver}; {instances.holds}"
        if settings.node.enabled
        else "other machines",
    }
    made |= {name: "" for name in missing if name not in made}
    return [ServicePart(name, text, missing.get(name, "")) for name, text in made.items()]
