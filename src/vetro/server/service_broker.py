"""``vetro broker``: the service broker for Cloud Foundry in a process of its own."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from vetro.server import data_directory
from vetro.server.alone import run_alone, serve_alone
from vetro.server.errors import StartError
from vetro.server.listeners import port_of, url_at
from vetro.server.settings import Settings
from vetro.storage import Database, DatabaseTooNew, migrate

if TYPE_CHECKING:
    from vetro.http import ConnectionLimits


def run_broker(settings: Settings) -> int:
    """Run the broker until a signal; the exit code. Errors: ``StartError``.

    It needs a data directory, its database, and to reach an identity service and a catalog API.
    """
    return run_alone(settings, "broker", settings.cfapi.host, settings.cfapi.port, _serve)


async def _serve(settings: Settings, listener: socket.socket, limits: ConnectionLimits) -> None:
    from vetro import broker
    from vetro.http.client import HttpClient

    given = settings.cfapi
    key = data_directory.secret(settings.shared_dir / "broker-key").encode()
    url = given.database_url or f"sqlite:///{settings.data_dir / 'broker.db'}"
    database = await Database.open(url, data_dir=settings.data_dir)
    try:
        try:
            await migrate(database, [broker.MIGRATIONS])
        except DatabaseTooNew as error:
            raise StartError(str(error), "The data directory belongs to a newer Vetro.") from error
        async with HttpClient() as http:
            store = broker.Broker(database, broker.CatalogApi(given, http, key), key)
            face = broker.broker_face(store, debug=settings.server.debug)
            where = url_at(given.host, port_of(listener))
            said = f"The service broker listens on {where}/v2"
            await serve_alone(settings, listener, limits, [face], database, said)
    finally:
        await database.close()
