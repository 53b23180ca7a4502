"""Databases of tests share their dialects: a process compiles a statement once, not once for each database.

A service has one database and runs for days; a test has one of its own and runs for a tenth of a second. A
fourth of that was SQLAlchemy at work on statements that the test before had used, too (decision 0790).
"""

from typing import Any, cast

from sqlalchemy.util import LRUCache

from vetro.storage import Database

_MOST = 5000


def share_statements() -> None:
    """From now on, of all SQLite databases without a keyring: that is an attribute of a dialect."""
    database: Any = Database
    start = database._start
    shared: list[tuple[Any, Any]] = []

    async def started(opened: Any) -> None:
        if opened.is_sqlite and opened.keyring is None:
            engines: list[Any] = [opened._server.writing, opened._server.reading]
            if not shared:
                shared.extend((one.dialect, cast("Any", LRUCache)(_MOST)) for one in engines)
            for engine, (dialect, cache) in zip(engines, shared, strict=True):
                engine.dialect, engine._compiled_cache = dialect, cache
        await start(opened)

    database._start = started
