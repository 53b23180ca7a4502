"""The catalog: packages and categories; store and HTTP (catalog-api.md §6.2, §6.3).

``Catalog`` is the store, which the engine asks for packages; ``catalog_handlers`` are its calls, served
by the ``/v1`` face.
"""

from __future__ import annotations

from pathlib import Path

from vetro.catalog.adding import ReplacementMetadata, UploadMetadata
from vetro.catalog.endpoints import ENDPOINTS as CATALOG_ENDPOINTS
from vetro.catalog.endpoints import PackageLimits, catalog_handlers
from vetro.catalog.importing import Sources
from vetro.catalog.indexing import rebuild_index
from vetro.catalog.leaving import delete_of_project, packages_of_project
from vetro.catalog.search import PackageQuery
from vetro.catalog.store import Catalog
from vetro.catalog.times import api_time, api_time_or_none
from vetro.catalog.uses import PackageUser, StoredPackage
from vetro.storage import MigrationSet

MIGRATIONS = MigrationSet(
    "catalog",
    Path(__file__).parent / "migrations",
    # `rebuild_index` fills it on PostgreSQL, and a table of its own on SQLite.
    derived=frozenset({"catalog_index.trigrams"}),
)
