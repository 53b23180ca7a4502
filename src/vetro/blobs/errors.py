"""The errors of blob stores; HTTP faces answer them with 503 and 507 (see `vetro.storage.errors`)."""

from __future__ import annotations

import errno
import os

from vetro.storage import StorageError


class BlobMissing(StorageError):
    """The store has no file of this name, or not the one that was meant; the message names it."""


class BlobsUnavailable(StorageError, ConnectionError):
    """The store cannot be reached, or refuses its credentials; the message says which and why."""


class BlobsFull(StorageError, OSError):
    """The store has no room; nothing of the file was kept."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.ENOSPC, message)

    def __str__(self) -> str:
        return f"{self.args[1]} ({os.strerror(errno.ENOSPC)})"
