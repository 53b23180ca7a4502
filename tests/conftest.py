"""What every test shares."""

import json
import os
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import structlog
from hypothesis import settings

POSTGRES_URL = os.environ.get("VETRO_TEST_POSTGRES_URL")

# CI must not be a lottery: there the generated examples are always the same. `make soak` and a
# developer's own runs look for new ones.
settings.register_profile("ci", derandomize=True, deadline=None)
# No example has a deadline anywhere: a busy machine is no reason to fail.
settings.register_profile("developer", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "developer")

# As services log: an exception as plain text. The renderer's own way takes seconds for a deep one.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=True),
        structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of an empty database, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/test.db"
        return
    if POSTGRES_URL is None:
        pytest.skip("VETRO_TEST_POSTGRES_URL is not set; tools/with-postgres.sh sets it")
    name = f"t{secrets.token_hex(8)}"
    async with await psycopg.AsyncConnection.connect(POSTGRES_URL, autocommit=True) as admin:
        await admin.execute(f"CREATE DATABASE {name}")
    try:
        yield POSTGRES_URL.rsplit("/", 1)[0] + f"/{name}"
    finally:
        async with await psycopg.AsyncConnection.connect(POSTGRES_URL, autocommit=True) as admin:
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failed test at once: a long run need not end to be mended."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stdout.write(f"\nFAILED {report.when}: {report.nodeid}\n")
        sys.stdout.flush()


class ProgramLog:
    """Records which programs of the machine each test starts, for `tools/machine_programs.py`.

    Python tells an audit hook of every program it starts; of those that a started process starts
    in its turn it knows nothing. What is part of the virtual environment, or made by the test, is
    nothing of the machine's.
    """

    def __init__(self, directory: Path) -> None:
        self._file = (directory / f"{os.getpid()}.jsonl").open("a", encoding="utf-8")
        self._own = (sys.prefix, str(Path(__file__).parent.parent), "/tmp/")
        self._seen: set[tuple[str, str]] = set()
        self.test: pytest.Item | None = None
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "subprocess.Popen" or self.test is None:
            return
        executable, argv, _, environment = arguments
        name = os.fsdecode(executable or argv[0])
        path = shutil.which(name, path=(environment or os.environ).get("PATH"))
        if path is None or path == sys.executable or path.startswith(self._own):
            return
        key = self.test.nodeid, path
        if key not in self._seen:
            self._seen.add(key)
            markers = [mark.name for mark in self.test.iter_markers()]
            record = {"test": self.test.nodeid, "markers": markers, "program": path}
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()


_programs = os.environ.get("VETRO_TEST_PROGRAMS")
_program_log = ProgramLog(Path(_programs)) if _programs else None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Say whose programs are started."""
    if _program_log is not None:
        _program_log.test = item
    yield
