"""What local commands load: the language and the system classes, never the services.

The time that a command takes follows from it; a bound on time would depend on the machine.
"""

import json
import os
import subprocess
import sys

import pytest

SERVICES = (
    *("sqlalchemy", "alembic", "psycopg", "litestar", "uvicorn", "httpx2", "aio_pika"),
    *(
        "cryptography",
        "argon2",
        "numpy",
        "pyroute2",
        "vetro.server",
        "vetro.compute.service",
        "vetro.http",
    ),
    *("vetro.catalog", "vetro.environments", "vetro.identity", "vetro.storage", "vetro.node"),
    *(
        "vetro.compute.client.http_client",
        "vetro.engine.pool",
        "vetro.engine.worker.deployment",
        "vetro.engine.worker.back_ends",
        "vetro.messaging.amqp",
    ),
)
NEEDLESS = {
    "check": ("asyncio", "ssl", "socket", "http.client", "msgspec", "structlog", "rich"),
    "doc": ("asyncio", "ssl", "socket", "http.client", "msgspec", "structlog", "rich"),
    "run": ("http.client",),
    "test": ("http.client",),
    "repl": ("http.client",),
}
"""Large modules that a command has no use for."""
APPLICATION = """\
    Namespaces: {=: p, std: io.murano, sys: io.murano.system, t: io.murano.test}
    Name: App
    Extends: std:Application
    Methods:
      deploy:
        Body:
          - $this.find(std:Environment).reporter.report($this, hello)
      value:
        Usage: Static
        Body: {Return: sys:Resources.string('a.txt')}
    ---
    Name: AppTest
    Extends: t:TestFixture
    Methods:
      testValue:
        Body:
          - $this.assertEqual(hello, :App.value())
    """
RUN = """
import json, sys
from vetro.cli import main
sys.argv = ["vetro", *json.loads(sys.argv[1])]
try:
    main()
except SystemExit as end:
    print("EXIT", end.code or 0)
print("MODULES", json.dumps(sorted(sys.modules)))
"""


@pytest.fixture
def application(make_package):
    return make_package(
        "p", {"Classes/App.yaml": APPLICATION, "Resources/a.txt": "hello", "LICENSE": ""}
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["check"], "No errors found!"),
        (["run", "--class", "p.App", "--method", "value"], "hello"),
        (["test"], "1 passed"),
        (["doc"], "p.App"),
        (["repl"], "hello"),
    ],
    ids=lambda item: item[0] if isinstance(item, list) else None,
)
def test_local_commands_load_no_services(application, tmp_path, arguments, text):
    """`check`, `run`, `test`, `doc`, `repl` of a package on the class library, in a fresh process."""
    command, *options = arguments
    found = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps([command, str(application), *options])],
        input="type('p.App').value()\n",
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    said = found.stdout.partition("EXIT")[0]
    assert text in said, said + found.stderr
    assert "EXIT 0" in found.stdout
    (line,) = [line for line in found.stdout.splitlines() if line.startswith("MODULES ")]
    loaded = set(json.loads(line.removeprefix("MODULES ")))
    assert "vetro.engine.system" in loaded
    assert [name for name in (*SERVICES, *NEEDLESS[command]) if name in loaded] == []


def test_help_loads_no_room():
    """The list of commands needs none of what the commands do."""
    found = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(["--help"])],
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [line for line in found.stdout.splitlines() if line.startswith("MODULES ")]
    loaded = [name for name in json.loads(line.removeprefix("MODULES ")) if "vetro." in name]
    rooms = {name.split(".")[1] for name in loaded}
    assert rooms <= {"cli", "lazy_names"}
    assert {"yaml", "asyncio", "ssl", "msgspec"}.isdisjoint(
        json.loads(line.removeprefix("MODULES "))
    )
