"""A compute service in a process of its own: ``service_process.py DATABASE_URL DIRECTORY``.

Prints its port, then serves until it is killed or its standard input ends.
"""

import asyncio
import socket
import sys
from pathlib import Path

from vetro.compute import MIGRATIONS, ComputeService, ComputeSettings, NodeAware, compute_face
from vetro.http import assemble, configure_logging, serve
from vetro.storage import Database, migrate


class Nobody:
    """An identity service that knows nobody: keys are all that is used."""

    async def authenticate(self, token: str) -> None:
        """Nobody."""


async def main() -> None:
    """Serve."""
    configure_logging("warning", "json")
    database = await Database.open(sys.argv[1])
    await migrate(database, [MIGRATIONS])
    service = ComputeService(
        database, ComputeSettings(image_dir=Path(sys.argv[2]), node_key="the installation's")
    )
    face = compute_face(
        service, NodeAware(Nobody(), node_key="the installation's", service_key="operator")
    )
    listener = socket.create_server(("127.0.0.1", 0))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ended() -> None:
        if not sys.stdin.buffer.read1(1):
            loop.remove_reader(sys.stdin.fileno())
            stop.set()

    loop.add_reader(sys.stdin.fileno(), ended)
    port = listener.getsockname()[1]
    await serve(
        assemble([face]), [listener], stop, drain_seconds=2,
        on_ready=lambda: print(port, flush=True),
    )  # fmt: skip
    listener.close()
    await database.close()


if __name__ == "__main__":
    asyncio.run(main())
