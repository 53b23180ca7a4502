"""What every test shares."""

import os
import secrets
import sys
from collections.abc import AsyncIterator
from pathlib import Path

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
