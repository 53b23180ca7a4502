"""Archives of packages in the store of files: their names are the digests of their content."""

from __future__ import annotations

from pathlib import Path

from vetro.blobs import BLOB_SUFFIXES, BlobStore
from vetro.storage import Transaction


def archive_name(digest: str) -> str:
    """The name of an archive in the store."""
    return digest + BLOB_SUFFIXES["packages"]


async def fetch_archive(blobs: BlobStore, digest: str, tx: Transaction | None = None) -> Path:
    """The path of an archive on this machine. Errors: those of `BlobStore.fetch`."""
    return await blobs.fetch(archive_name(digest), sha256=digest, tx=tx)
