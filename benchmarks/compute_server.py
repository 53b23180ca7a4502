"""A compute service over real HTTP for the benchmarks: SQLite in a new directory, simulated nodes.

`compute_server.py [DATABASE]`: prints the port, then serves until its standard input ends. With a database
file the servers in it are taken to be heard every five seconds.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

MASTER = "benchmark"


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(*arguments: str) -> Generator[tuple[int, int], None, None]:
    """A service in a process of its own for the time of the block: its pid and port."""
    with subprocess.Popen(
        [sys.executable, __file__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as service:
        assert service.stdin is not None
        assert service.stdout is not None
        try:
            yield service.pid, int(service.stdout.readline())
        finally:
            service.stdin.close()
            service.wait(20)


class Nobody:
    """An identity service that knows nobody: keys are all that is used."""

    async def authenticate(self, token: str) -> None:
        """Nobody."""


async def main() -> None:
    """Serve."""
    from sqlalchemy import select

    from vetro.compute import (
        MIGRATIONS,
        ComputeService,
        ComputeSettings,
        NodeAware,
        compute_face,
    )
    from vetro.compute.tables import servers
    from vetro.http import assemble, configure_logging, serve
    from vetro.storage import Database, migrate

    configure_logging("warning", "json")
    with tempfile.TemporaryDirectory() as directory:
        given = sys.argv[1] if len(sys.argv) > 1 else None
        database = await Database.open(f"sqlite:///{given or f'{directory}/bench.db'}")
        await migrate(database, [MIGRATIONS])
        service = ComputeService(
            database, ComputeSettings(image_dir=Path(directory), node_key=MASTER)
        )
        face = compute_face(
            service, NodeAware(Nobody(), node_key=MASTER, service_key="operator"), prefix="/compute"
        )
        listener = socket.socket(proto=socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        listener.listen(4096)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def ready() -> None:
            print(listener.getsockname()[1], flush=True)

        def ended() -> None:
            if not sys.stdin.buffer.read1(1):
                loop.remove_reader(sys.stdin.fileno())
                stop.set()

        async def pulse(uuids: list[str]) -> None:
            while True:
                for uuid in uuids:
                    service.heartbeats.beat(uuid)
                await asyncio.sleep(5)

        loop.add_reader(sys.stdin.fileno(), ended)
        pulses: asyncio.Task[None] | None = None
        if given is not None:
            async with database.read() as tx:
                uuids = [row.uuid for row in await tx.execute(select(servers.c.uuid))]
            pulses = asyncio.create_task(pulse(uuids))
        gc.freeze()
        await serve(assemble([face]), [listener], stop, drain_seconds=1, on_ready=ready)
        if pulses is not None:
            pulses.cancel()
        listener.close()
        await database.close()


if __name__ == "__main__":
    asyncio.run(main())
