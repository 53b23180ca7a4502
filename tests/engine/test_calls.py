"""Static actions and schemas in real worker processes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vetro import catalog, engine, environments, identity, messaging, stacks
from vetro.engine import EnginePool, EngineSection, EngineSettings
from vetro.environments import Environments
from vetro.http import BadRequest, Fault, GatewayTimeout, NotFound, Principal, ServiceUnavailable
from vetro.storage import Database, migrate

ANN = Principal("id-ann", "ann", "p", roles=frozenset({"member"}))
MANIFEST = """
Format: '1.4'
Type: Library
FullName: test.calls
Version: 0.3.0
Classes:
  test.Bar: all.yaml
  test.Shape: all.yaml
"""
CLASSES = """
Namespaces: {=: test, std: io.murano, sys: io.murano.system, m: io.murano.metadata}
Name: Bar
Methods:
  greet:
    Usage: Static
    Scope: Public
    Arguments:
      - name: {Contract: $.string().notNull()}
      - times: {Contract: $.int().check($ > 0), Default: 1}
    Body:
      - Return: format('Hello, {0}', $name) * $times
  who:
    Usage: Static
    Scope: Public
    Body:
      - Return: [std:User.getCurrent().name, std:Project.getCurrent().id]
  many:
    Usage: Static
    Scope: Public
    Arguments:
      - size: {Contract: $.int()}
    Body: {Return: range($size).toList()}
  keyed:
    Usage: Static
    Scope: Public
    Arguments:
      - key: {Contract: $.string().notNull()}
      - fails: {Contract: $.bool(), Default: false}
    Body:
      - $text: decryptData($key)
      - If: $fails
        Then:
          - Throw: Trouble
            Message: format('no use of {0}', $text)
      - Return: len($text)
  broken:
    Usage: Static
    Scope: Public
    Body: {Throw: Trouble, Message: it broke}
  lost:
    Usage: Static
    Scope: Public
    Body: {Return: $.nowhere()}
  asleep:
    Usage: Static
    Scope: Public
    Body: [sleep(3600)]
  wild:
    Usage: Static
    Scope: Public
    Body:
      - While: !yaql true
        Do: []
  made:
    Usage: Static
    Scope: Public
    Body:
      - Return: new(Shape, edges => 3)
  hidden: {Usage: Static, Body: {Return: 1}}
  ofObjects: {Scope: Public, Body: {Return: 1}}
---
Name: Shape
Properties:
  edges: {Contract: $.int().notNull().check($ > 2)}
  colour: {Contract: $.string(), Default: red}
  area: {Contract: $.int(), Usage: Out}
Methods:
  regular:
    Usage: Static
    Scope: Public
    Meta: [{m:ModelBuilder: {enabled: true}}]
    Arguments:
      - sides: {Contract: $.int().notNull()}
    Body:
      - Return: new(Shape, edges => $sides)
"""


@dataclass
class Desk:
    """A running pool and the callers' side."""

    pool: EnginePool
    rooms: Environments
    running: asyncio.Task[None]
    handed: asyncio.Event
    """Set when a worker has got an order."""

    async def act(self, method: str, class_version: str = "=0", **arguments: Any) -> Any:
        """Call a static action of ``test.Bar``."""
        return await self.rooms.calls.act(
            ANN, "test.Bar", method, arguments, package_name=None, class_version=class_version
        )

    async def schemas(self, class_name: str, *methods: str, version: str = "=0") -> Any:
        """The schemas of a class."""
        return await self.rooms.calls.schemas(
            ANN, class_name, methods or None, package_name=None, class_version=version
        )

    async def fault(self, method: str, **arguments: Any) -> Fault:
        """How a call fails."""
        with pytest.raises(Fault) as caught:
            await self.act(method, **arguments)
        return caught.value


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """A pool with one package."""
    package = tmp_path / "installed" / "test.calls"
    (package / "Classes").mkdir(parents=True)
    (package / "manifest.yaml").write_text(MANIFEST)
    (package / "Classes" / "all.yaml").write_text(CLASSES)
    settings = EngineSettings(
        database_url=f"sqlite:///{tmp_path}/test.db",
        data_dir=tmp_path,
        compute_url="http://127.0.0.1:9",
        service_key="key",
        mailbox_url="http://mailbox.example",
        package_dir=tmp_path / "packages",
        engine=EngineSection(
            packages_directories=[str(tmp_path / "installed")],
            workers=2,
            action_result_limit=10_000,
        ),
    )
    pool = EnginePool(settings)
    pool.prepare()
    try:
        database = await Database.open(settings.database_url, data_dir=tmp_path)
        rooms = (catalog, environments, messaging, stacks, engine, identity)
        await migrate(database, [room.MIGRATIONS for room in rooms])
        made = Environments(database)
        handed = asyncio.Event()
        hand_over = pool._hand_over

        async def watched(*order: Any) -> int | None:
            pid = await hand_over(*order)
            handed.set()
            return pid

        monkeypatch.setattr(pool, "_hand_over", watched)
        running = asyncio.create_task(pool.run(database))
        yield Desk(pool, made, running, handed)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await database.close()
    finally:
        pool.close()


async def test_results_come_back_as_json(desk: Desk) -> None:
    """Named arguments, defaults and the caller's identity arrive; objects return as in models."""
    assert await desk.act("greet", name="John") == "Hello, John"
    assert await desk.act("greet", name="x", times=2) == "Hello, xHello, x"
    assert await desk.act("greet", class_version="0.3.0", name="John") == "Hello, John"
    assert await desk.act("who") == ["id-ann", "p"]
    made = await desk.act("made")
    assert (made["edges"], made["?"]["type"]) == (3, "test.Shape/0.3.0@test.calls")


async def test_failures_are_sorted(desk: Desk) -> None:
    """404: unknown or not exposed, 400: wrong arguments, 503: the program's own error."""
    for fault in (
        await desk.fault("nothing"),
        await desk.fault("hidden"),
        await desk.fault("ofObjects"),
        await desk.fault("greet", class_version="=7", name="a"),
    ):
        assert isinstance(fault, NotFound), fault.message
    assert "the class is in test.calls 0.3.0" in fault.message
    for fault in (
        await desk.fault("greet"),
        await desk.fault("greet", name="a", colour="red"),
        await desk.fault("greet", name=None),
        await desk.fault("greet", name="a", times=0),
        await desk.fault("greet", class_version="seven", name="a"),
    ):
        assert isinstance(fault, BadRequest), fault.message
    broken = await desk.fault("broken")
    assert isinstance(broken, ServiceUnavailable)
    assert (broken.message, broken.type) == ("it broke", "Trouble")
    assert "all.yaml" in broken.extra["details"]
    lost = await desk.fault("lost")
    assert isinstance(lost, ServiceUnavailable)
    assert "nowhere" in lost.message


@pytest.mark.thorough
async def test_a_static_action_reads_what_a_form_encrypted(desk: Desk) -> None:
    """It has the text behind the reference; its errors do not; another project's is not there."""
    await desk.rooms.form_secrets.keep("p", None, {"own": "open sesame"})
    await desk.rooms.form_secrets.keep("q", None, {"theirs": "shibboleth"})
    assert await desk.act("keyed", key="own") == len("open sesame")
    fault = await desk.fault("keyed", key="own", fails=True)
    assert fault.message == "no use of ***"
    assert "sesame" not in fault.extra["details"]
    fault = await desk.fault("keyed", key="theirs")
    assert "the project has no secret 'theirs'" in fault.message


@pytest.mark.thorough
async def test_results_have_a_limit(desk: Desk) -> None:
    """A result that is too large is refused with the name of the setting."""
    assert await desk.act("many", size=100) == list(range(100))
    fault = await desk.fault("many", size=10_000)
    assert isinstance(fault, ServiceUnavailable)
    assert "engine.action_result_limit is 10000" in fault.message


async def test_schemas_are_made_where_classes_are(desk: Desk) -> None:
    """The class is under the empty key, its model builders by name; 404 for unknown ones."""
    found = await desk.schemas("test.Shape")
    assert list(found) == ["", "regular"]
    edges = found[""]["properties"]["edges"]
    assert (edges["type"], edges["minimum"], edges["exclusiveMinimum"]) == ("integer", 2, True)
    assert "area" not in found[""]["properties"]
    only = await desk.schemas("test.Shape", "regular")
    assert list(only) == ["regular"]
    assert list(only["regular"]["properties"]) == ["sides"]
    with pytest.raises(NotFound, match=r"test.Shape.*0\.3\.0"):
        await desk.schemas("test.Shape", version="9")
    with pytest.raises(NotFound, match="test.Nothing"):
        await desk.schemas("test.Nothing")


@pytest.mark.sampled(only=["wild"])
@pytest.mark.parametrize("method", ["asleep", "wild"])
async def test_a_call_has_its_time(desk: Desk, method: str) -> None:
    """A program that sleeps or loops without end is stopped, and its worker ends."""
    desk.rooms.calls.timeout_seconds = 1.0
    with pytest.raises((GatewayTimeout, ServiceUnavailable), match=r"second"):
        await desk.act(method)
    desk.rooms.calls.timeout_seconds = 60.0
    assert await desk.act("greet", name="John") == "Hello, John"


async def test_a_killed_worker_fails_its_call_only(desk: Desk) -> None:
    """The caller gets the error at once, and the next call works."""
    asking = asyncio.create_task(desk.act("asleep"))
    await desk.handed.wait()
    (pid,) = desk.pool._workers.values()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ServiceUnavailable, match=r"was killed while answering test.Bar.asleep"):
        await asking
    assert desk.pool._workers == {}
    assert await desk.act("greet", name="John") == "Hello, John"


@pytest.mark.thorough
async def test_a_pool_that_stops_answers_what_runs(desk: Desk) -> None:
    """A running call is answered at once when its engine stops."""
    asking = asyncio.create_task(desk.act("asleep"))
    await desk.handed.wait()
    desk.running.cancel()
    with pytest.raises(ServiceUnavailable, match="The engine was stopped during this call"):
        await asking


async def test_calls_are_never_repeated(desk: Desk) -> None:
    """A second attempt is answered with the reason, not run."""
    desk.running.cancel()
    await asyncio.gather(desk.running, return_exceptions=True)
    asking = asyncio.create_task(desk.act("greet", name="John"))
    while True:
        lease = await desk.rooms.calls.queue.claim("an engine that dies", 60)
        if lease is not None:
            break
        await desk.rooms.calls.queue.wait_for_work(60)
    await desk.rooms.calls.queue.release(lease)
    again = asyncio.create_task(desk.pool.run(desk.rooms.tasks.database))
    try:
        with pytest.raises(ServiceUnavailable, match="check what it has done"):
            await asking
    finally:
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)
