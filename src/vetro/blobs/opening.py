"""The store that the settings ``[blobs]`` name."""

from __future__ import annotations

from pathlib import Path

from vetro.blobs.in_database import DatabaseBlobs
from vetro.blobs.in_s3 import S3Blobs
from vetro.blobs.settings import BLOB_SUFFIXES, BlobsSection
from vetro.blobs.store import BlobStore, DirectoryBlobs, RemoteBlobs
from vetro.storage import Database


def open_blobs(
    section: BlobsSection, purpose: str, directory: Path, database: Database
) -> BlobStore:
    """The store of a purpose (a key of ``BLOB_SUFFIXES``); its files, or copies of them, in ``directory``."""
    suffix = BLOB_SUFFIXES[purpose]
    if section.store == "directory":
        return DirectoryBlobs(directory, suffix)
    if section.store == "s3":
        bucket = S3Blobs(section)
        remote, where = bucket, bucket.where
    else:
        remote, where = DatabaseBlobs(database), "the database"
    return RemoteBlobs(
        directory,
        remote,
        purpose=purpose,
        suffix=suffix,
        where=where,
        cache_bytes=section.cache_mib * 2**20,
    )
