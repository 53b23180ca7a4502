"""Files that rows of the database refer to: archives of packages, images, backups of volumes.

A ``BlobStore`` keeps the files of one purpose by name: in a directory that all services share, in the
database, or in a bucket of an S3-compatible store. ``open_blobs`` opens the one that the settings name
(decision 0520).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.blobs.errors import BlobMissing, BlobsFull, BlobsUnavailable
    from vetro.blobs.opening import open_blobs
    from vetro.blobs.settings import BLOB_SUFFIXES, BlobsSection
    from vetro.blobs.store import BlobStore, DirectoryBlobs, StoredBlob, digest_of
    from vetro.blobs.tables import MIGRATIONS

__getattr__ = import_when_used(__name__)
