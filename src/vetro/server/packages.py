"""The catalog of a process: its archives, the formats of plug-ins and the known signers."""

from __future__ import annotations

from pathlib import Path

from vetro.blobs import open_blobs
from vetro.catalog import Catalog
from vetro.packages import PackageError, Signers, enable_plugins
from vetro.server.errors import StartError
from vetro.server.settings import Settings
from vetro.storage import Database


def catalog_of(settings: Settings, database: Database) -> Catalog:
    """Errors: ``StartError`` for a file of `api.signers_directory` that is not a public key."""
    enable_plugins(settings.engine.enabled_plugins)
    keys = settings.api.signers_directory
    try:
        signers = Signers.read(Path(keys).expanduser() if keys else None)
    except PackageError as error:
        raise StartError(f"api.signers_directory: {error.message}") from error
    directory = settings.blob_directory("packages")
    return Catalog(database, open_blobs(settings.blobs, "packages", directory, database), signers)
