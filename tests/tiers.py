"""Which tests a run takes: `make test` the tier `quick`, `make test-all` the tier `full`, which is all.

`VETRO_TEST_TIER` names the tier; without it every test runs. The tier `quick` leaves out

- tests with the marker `thorough`: long walks, kill points, what another test shows more cheaply;
- of a table with the marker `sampled(every=N)` all cases but about one in N, always the same ones: a case is
  chosen by its name, so that one more case does not change which others run;
- of a test with the marker `sampled(only=[...])` all cases but these;
- of tests that run on both databases about three in four of those on PostgreSQL, except in the storage:
  elsewhere the two differ in few statements, and each store and each face keeps some;
- of a table of six cases or more, each with files of its own (a database, a service), about one in two.

Tests in a browser come first: they take longest, and short tests share the end of a run best.
What was left out is counted by directory and said at the end of the run (decision 0788).
"""

from __future__ import annotations

import json
import os
import zlib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

TIER = os.environ.get("VETRO_TEST_TIER", "full")
TIERS = ("quick", "full")
#: A table is what has so many cases.
TABLE = 6


def pytest_configure() -> None:
    """Refuse a tier that does not exist: a run of it would show nothing."""
    if TIER not in TIERS:
        raise pytest.UsageError(f"VETRO_TEST_TIER={TIER}: the tiers are {' and '.join(TIERS)}")


def left_out(item: pytest.Item, table: list[int]) -> bool:
    """Whether the tier `quick` leaves this test to `make test-all`; ``table``: the lots of all its cases."""
    if item.get_closest_marker("thorough") is not None:
        return True
    sampled = item.get_closest_marker("sampled")
    if sampled is not None and (only := sampled.kwargs.get("only")):
        return not item.name.endswith(tuple(f"[{case}]" for case in only))
    every = 1
    if sampled is not None:
        every = sampled.kwargs["every"]
    elif len(table) >= TABLE and "tmp_path" in getattr(item, "fixturenames", ()):
        every = 2 if any(lot % 2 == 0 for lot in table) else 1
    if database_of(item) == "postgresql" and "storage" not in item.path.parts:
        every = max(every, 4)
    return lot_of(item) % every != 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the tests of the tier in their order, and note how many of each directory were left."""
    items.sort(key=lambda item: "visit" not in getattr(item, "fixturenames", ()))
    if TIER == "full":
        return
    tables: defaultdict[str, list[int]] = defaultdict(list)
    for item in items:
        tables[table_of(item)].append(lot_of(item))
    left = [item for item in items if left_out(item, tables[table_of(item)])]
    taken = set(items) - set(left)
    items[:] = [item for item in items if item in taken]
    config.hook.pytest_deselected(items=left)
    if records := os.environ.get("VETRO_TEST_RECORDS"):
        counts = Counter(directory_of(item.nodeid) for item in left)
        # Every process of a run collects the same, and leaves the same.
        Path(records, "left.json").write_text(json.dumps(counts), encoding="utf-8")


def lot_of(item: pytest.Item) -> int:
    """A number that depends on nothing but the name of a test."""
    return zlib.crc32(item.name.encode())


def database_of(item: pytest.Item) -> str:
    """The database that a test runs on, when it runs on both."""
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        return str(item.callspec.params.get("database_url", ""))
    return ""


def table_of(item: pytest.Item) -> str:
    """The test that an item is a case of, on its database."""
    return f"{item.nodeid.partition('[')[0]} {database_of(item)}"


def directory_of(test: str) -> str:
    """The directory below `tests` that a test is of; `tests` itself for a file beside them."""
    parts = test.partition("::")[0].split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]
