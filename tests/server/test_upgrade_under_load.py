"""Processes of the version before and of this one serve together while an installation is upgraded."""

import compileall
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.server.site import FIRST, SECOND, Load, running_site

from vetro.storage.migrate import VERSION_TABLE

ROOT = Path(__file__).resolve().parents[2]
POSTGRES = os.environ.get("VETRO_TEST_POSTGRES_URL", "")
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.e2e,
    pytest.mark.postgres,
]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules of the last commit before the newest migration."""
    given = os.environ.get("VETRO_TEST_VERSION_BEFORE")
    tree = Path(given) if given else tmp_path_factory.mktemp("before")
    if not given:
        command = [str(ROOT / "tools/version-before.sh"), str(tree)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(done.stderr)
    assert compileall.compile_dir(tree / "src", quiet=1)  # once, and not in each process
    return tree / "src"


@pytest.fixture
def databases() -> Iterator[list[str]]:
    """The addresses of two empty databases."""
    if not POSTGRES:
        pytest.skip("VETRO_TEST_POSTGRES_URL is not set; tools/with-postgres.sh sets it")
    names = [f"upgrade{secrets.token_hex(8)}" for _ in range(2)]
    with psycopg.connect(POSTGRES, autocommit=True) as admin:
        for name in names:
            admin.execute(f"CREATE DATABASE {name}".encode())
        yield [f"{POSTGRES.rsplit('/', 1)[0]}/{name}" for name in names]
        for name in names:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def revisions(database: str) -> set[str]:
    """The newest migrations that a database has had."""
    with psycopg.connect(database) as connection:
        found = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}".encode())
        return {str(name) for (name,) in found}


def test_an_upgrade_process_by_process_is_not_noticed(
    before: Path, databases: list[str], tmp_path: Path
) -> None:
    """One of each kind becomes new and migrates the database, the others go on as they are, and no request,
    deployment or heartbeat fails; nor when the others follow.
    """
    with running_site(tmp_path, *databases, source=before) as site:
        was = revisions(databases[0])
        load = Load(site)
        try:
            load.goes_on()
            site.end(FIRST)
            site.source = None
            site.begin(*FIRST)
            assert revisions(databases[0]) != was
            load.goes_on()  # old and new ones take turns
            site.restart(*SECOND, "node")
            load.goes_on()
        finally:
            load.end()
        assert load.failures == []
        assert set(load.deployed) == {"ready"}
        assert "heartbeat_not_delivered" not in site.log("node")
        assert site.states() == ["running"]
