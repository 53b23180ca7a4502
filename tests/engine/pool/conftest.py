"""The pool with real worker processes, and its surroundings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.engine.pool.yard import CLASSES, MANIFEST, Yard

from vetro import catalog, engine, environments, identity, messaging, repository, stacks
from vetro.engine import EnginePool, EngineSection, EngineSettings
from vetro.environments import Environments
from vetro.storage import Database, migrate


@pytest.fixture
def yard_settings(request: pytest.FixtureRequest, settings: EngineSettings) -> EngineSettings:
    """The pool's settings; a test may change some."""
    return replace(settings, engine=replace(settings.engine, **getattr(request, "param", {})))


@pytest.fixture
def settings(tmp_path: Path) -> EngineSettings:
    """Settings of an engine that needs nothing but its database."""
    package = tmp_path / "installed" / "test.apps"
    (package / "Classes").mkdir(parents=True)
    (package / "manifest.yaml").write_text(MANIFEST)
    (package / "Classes" / "all.yaml").write_text(CLASSES)
    return EngineSettings(
        database_url=f"sqlite:///{tmp_path}/test.db",
        data_dir=tmp_path,
        compute_url="http://127.0.0.1:9",
        service_key="key",
        mailbox_url="http://mailbox.example",
        package_dir=tmp_path / "packages",
        engine=EngineSection(
            packages_directories=[str(tmp_path / "installed")], workers=2, project_workers=2
        ),
    )


@pytest.fixture
def pool(yard_settings: EngineSettings) -> Iterator[EnginePool]:
    """A pool whose zygote is there."""
    made = EnginePool(yard_settings)
    made.prepare()
    yield made
    made.close()


@pytest.fixture
async def yard(settings: EngineSettings, pool: EnginePool) -> AsyncIterator[Yard]:
    """The pool's surroundings; the pool does not run yet."""
    database = await Database.open(settings.database_url, data_dir=settings.data_dir)
    rooms = (catalog, environments, messaging, stacks, engine, identity, repository)
    await migrate(database, [room.MIGRATIONS for room in rooms])
    made = Yard(database, Environments(database), settings, pool)
    yield made
    for task in made.running:
        await made.stop(task)
    await database.close()
