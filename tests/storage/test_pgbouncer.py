"""PostgreSQL behind PgBouncer that gives a connection to each transaction, and budgets of connections."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import text
from tests.ports import free_port
from tests.waiting import until

from vetro.storage import (
    Database,
    DatabaseUnavailable,
    LeaseQueue,
    PostgresUse,
    migrate,
    postgres_use,
)

pytestmark = [pytest.mark.postgres, pytest.mark.programs]
POOL = 2


@pytest.fixture
def pooled(postgres_database: str) -> Iterator[str]:
    """The address of a database of its own, at a PgBouncer with two connections to it."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed; tools/system-packages.sh test installs it")
    port = free_port()
    server = urlsplit(postgres_database)
    # Not below pytest's directory: it does not run as root, and only root may look in there.
    directory = Path(tempfile.mkdtemp(prefix="vetro-pgbouncer."))
    directory.chmod(0o755)
    users, config, said = (directory / name for name in ("users", "pgbouncer.ini", "log"))
    users.write_text(f'"{server.username}" ""\n')
    config.write_text(
        f"[databases]\n* = host={server.hostname} port={server.port}\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {users}\npool_mode = transaction\n"
        f"default_pool_size = {POOL}\n"
    )
    command = [program, "-q", str(config)]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid", "nobody", "--clear-groups", "--", *command]
    with said.open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    address = server._replace(netloc=f"{server.username}@127.0.0.1:{port}").geturl()

    def answers() -> bool:
        assert process.poll() is None, said.read_text()
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            return False
        return True

    until(answers, "PgBouncer answers")
    yield address
    process.terminate()
    process.wait(60)
    shutil.rmtree(directory)


async def test_a_pooler_needs_the_servers_address_too(
    pooled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notifications that nobody would hear are found when the database is opened, and the remedy is said."""
    monkeypatch.setattr(postgres_use, "HEAR_SECONDS", 0.5)
    with pytest.raises(DatabaseUnavailable, match=r"server\.database_listen_url"):
        await Database.open(pooled)


async def test_work_is_done_through_a_pooler(pooled: str, postgres_database: str) -> None:
    """Migrations, locks, leases, snapshots and notifications work when each transaction may go elsewhere."""
    use = PostgresUse(6, postgres_database)
    one, other = await Database.open(pooled, use=use), await Database.open(pooled, use=use)
    try:
        await migrate(one, [])
        queue, taken = LeaseQueue(one, "q"), LeaseQueue(other, "q")

        async def put(number: int) -> None:
            async with one.transaction() as tx:
                await tx.exclude("a name")
                await queue.enqueue(tx, f"k{number}")

        async def take() -> str:
            while (lease := await taken.claim("w", 60)) is None:
                await taken.wait_for_work(owner="w")
            async with other.transaction() as tx:
                await taken.complete(tx, lease)
            return lease.key

        async with asyncio.timeout(60):
            done = await asyncio.gather(
                *(take() for _ in range(30)), *(put(number) for number in range(30))
            )
        assert sorted(key for key in done if key) == sorted(f"k{number}" for number in range(30))
        async with one.read() as tx:
            with pytest.raises(Exception, match="read-only"):
                await tx.execute(text("CREATE TABLE t (x int)"))
    finally:
        await one.close()
        await other.close()


async def test_a_process_keeps_to_its_connections(postgres_database: str) -> None:
    """Units above the budget wait; one connection more listens for notifications."""
    database = await Database.open(postgres_database, use=PostgresUse(3))
    query = text(
        "SELECT count(*), pg_sleep(0.01) FROM pg_stat_activity WHERE datname = current_database()"
    )

    async def count() -> int:
        async with database.read() as tx:
            return int((await tx.execute(query)).one()[0])

    try:
        assert max(await asyncio.gather(*(count() for _ in range(30)))) == 4
    finally:
        await database.close()
