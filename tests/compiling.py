"""Databases of tests share what SQLAlchemy compiles, which it does again for each dialect."""

from typing import Any

from vetro.storage import Database


def share_compiled_statements() -> None:
    """From now on, a database without a keyring uses the dialect and compiled statements of the first one.

    A tenth of the processor time of tests on databases was spent on compiling. A dialect has the keyring of
    its database (`vetro.storage.sealed`): those that have one keep a dialect of their own.
    """
    product: Any = Database
    start = product._start
    known: dict[tuple[object, ...], tuple[Any, Any]] = {}

    async def _start(database: Any) -> None:
        server = database._server
        engines = (server.writing, server.reading) if database.is_sqlite else (server.sync_engine,)
        for role, engine in enumerate(engines):
            if database.keyring is not None:
                break
            key = role, engine.url.drivername, engine.url.host, engine.url.port
            dialect, compiled = known.setdefault(key, (engine.dialect, engine._compiled_cache))
            # Only after its first connection a dialect knows the server.
            if getattr(dialect, "server_version_info", None) is not None:
                engine.dialect, engine._compiled_cache = dialect, compiled
        await start(database)

    product._start = _start
