"""What the processes load: the memory at rest of every machine of a rack follows from it."""

import json
import subprocess
import sys

import pytest

from vetro.cli import PROCESSES

# A node agent has no database, no language and no HTTP framework: each costs memory on every machine.
FOREIGN = (
    *("sqlalchemy", "psycopg", "sqlite3", "alembic", "cryptography", "litestar"),
    *("yaml", "numpy", "vetro.storage", "vetro.yaql", "vetro.muranopl", "vetro.catalog"),
    *(
        "vetro.identity.service",
        "vetro.identity.tables",
        "vetro.engine.pool",
        "vetro.environments.tasks",
    ),
    *("vetro.messaging.mailboxes", "vetro.messaging.amqp"),
)


def loaded_by(*statements: str) -> set[str]:
    """The modules that a new process has after these imports."""
    program = "\n".join(("import json, sys", *statements, "print(json.dumps(sorted(sys.modules)))"))
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(json.loads(found.stdout))


def test_a_node_agent_loads_no_database_and_no_service() -> None:
    """What `vetro node` imports before it runs contains none of the libraries of the services."""
    loaded = loaded_by("from vetro.server.node import run_node", "from vetro.node import NodeAgent")
    assert "vetro.node.agent" in loaded
    assert [name for name in FOREIGN if name in loaded] == []


@pytest.mark.sampled(only=["up"])
@pytest.mark.parametrize("command", sorted(PROCESSES))
def test_a_process_loads_nothing_that_draws_in_colours(command: str) -> None:
    """The log library takes `rich` where it finds it; processes that run for long do without."""
    loaded = loaded_by(
        "from vetro.cli import cli",
        f"cli.get_command(None, {command!r})",
        "import vetro.server.up, vetro.server.node, structlog.dev, structlog.tracebacks",
    )
    assert "structlog.dev" in loaded
    assert {name.partition(".")[0] for name in loaded} & {"rich", "pygments"} == set()


def test_a_service_on_sqlite_loads_no_driver_of_postgresql() -> None:
    """What `vetro up` imports before it runs contains neither psycopg nor a message bus client."""
    loaded = loaded_by("import vetro.server.up")
    assert "vetro.storage.database" in loaded
    assert [name for name in ("psycopg", "aio_pika", "libvirt", "numpy") if name in loaded] == []
