"""Archives of packages, in files named by their content."""

from __future__ import annotations

import hashlib
from pathlib import Path


class BlobStore:
    """A directory of files named by SHA-256. Content never changes, so nothing needs a lock."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)

    def path(self, digest: str) -> Path:
        """Where the content with this digest is."""
        return self.directory / f"{digest}.zip"

    def adopt(self, file: Path) -> str:
        """Move a file (on the same disk) into the store; returns its digest."""
        hasher = hashlib.sha256()
        with file.open("rb") as opened:
            while chunk := opened.read(1 << 20):
                hasher.update(chunk)
        digest = hasher.hexdigest()
        file.replace(self.path(digest))
        return digest

    def remove(self, digest: str) -> None:
        """Delete content that nothing refers to any more."""
        self.path(digest).unlink(missing_ok=True)
