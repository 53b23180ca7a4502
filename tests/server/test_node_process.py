"""The process of `vetro node`, which runs on every machine of a rack."""

import json
import subprocess
import sys

# A node agent has no database, no language and no HTTP framework: each costs memory on every machine.
FOREIGN = (
    *("sqlalchemy", "psycopg", "sqlite3", "aiosqlite", "alembic", "cryptography", "litestar"),
    *("yaml", "numpy", "vetro.storage", "vetro.yaql", "vetro.muranopl", "vetro.engine"),
    *("vetro.catalog", "vetro.environments", "vetro.identity", "vetro.messaging"),
)


def test_a_node_agent_loads_no_database_and_no_service() -> None:
    """What `vetro node` imports before it runs contains none of the libraries of the services."""
    program = (
        "import json, sys\nfrom vetro.server.node import run_node\nfrom vetro.node import NodeAgent\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(found.stdout))
    assert "vetro.node.agent" in loaded
    assert [name for name in FOREIGN if name in loaded] == []
