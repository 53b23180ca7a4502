"""The errors of blob stores; HTTP faces answer them with 503 and 507 (see `vetro.storage.errors`)."""

from __future__ import annotations

from vetro.storage import NoRoom, StorageError


class BlobMissing(StorageError):
    """The store has no file of this name, or not the one that was meant; the message names it."""


class BlobsUnavailable(StorageError, ConnectionError):
    """The store cannot be reached, or refuses its credentials; the message says which and why."""


class BlobsFull(NoRoom):
    """The store has no room; nothing of the file was kept."""
