"""Package archives, in files named by the digest of their content."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest_of(file: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


class BlobStore:
    """A directory of files named by SHA-256. Callers that adopt or remove a file lock its name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, digest: str) -> Path:
        """The path of the content with this digest."""
        return self.directory / f"{digest}.zip"

    def adopt(self, file: Path, digest: str) -> None:
        """Move a file (on the same disk) into the store under its digest."""
        file.replace(self.path(digest))

    def remove(self, digest: str) -> None:
        """Delete content that is not referred to any more."""
        self.path(digest).unlink(missing_ok=True)
