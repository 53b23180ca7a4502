"""Encryption at rest: secrets are stored sealed, with a key that is kept outside the database.

Copies of a database go to backups, replicas and discarded disks. So columns that may hold secrets
of applications (models, user data, plans, journals) are ``Sealed…`` (``vetro.storage.sealed``):
AES-256-GCM with a key from a file. The file has one key a line, ``<id> <key in base64>``; the first
key seals, all keys open.

A sealed value names its key: ``sealed:<key id>:<base64 of nonce and ciphertext>``. Rotation puts a
new key on the first line; running processes check the file for changes before they seal a value.
"""

from __future__ import annotations

import base64
import os
import secrets
import threading
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from vetro.storage.errors import DatabaseReadOnly, KeyMissing, StorageError

PREFIX = "sealed:"
_NONCE = 12


class Keyring:
    """The keys in a file, which is read at the first use."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._gone = False
        self._ids: list[str] = []
        # Keep keys once read: a transaction may still see values from before a rotation.
        self._ciphers: dict[str, AESGCM] = {}

    def create(self) -> None:
        """Create the file with one key unless it exists."""
        if not self.file.exists():
            self._write([_new_key()], fresh=True)

    @property
    def ids(self) -> list[str]:
        """Ids of the keys, the sealing key first. Errors: ``KeyMissing``, ``StorageError``."""
        self._refresh()
        return list(self._ids)

    @property
    def current(self) -> str:
        """The id of the key that seals."""
        return self.ids[0]

    def check_kept(self, *, always: bool = False) -> None:
        """Check that what was sealed can be opened after a restart: the file is there.

        Without ``always``, only if it was missed when something was sealed. Errors: ``DatabaseReadOnly``.
        """
        if (self._gone or always) and self._seen is not None:
            self._refresh()
            if self._gone:
                raise DatabaseReadOnly(
                    f"the key file {self.file} is gone: secrets are not stored any more, since they could not"
                    " be read after the service stops. Restore it from a backup now: the service goes on"
                )

    def add(self) -> str:
        """Put a new key first; its id. Every process that reads this file now seals with it."""
        line = _new_key()
        self._write([line, *self._lines()])
        return line.split()[0]

    def keep_only(self, ids: list[str]) -> None:
        """Remove all other keys from the file."""
        self._write([line for line in self._lines() if line.split()[0] in ids])

    def seal(self, data: bytes, purpose: str = "") -> str:
        """``data`` encrypted, as text that names the key. Only with the same ``purpose`` it is opened again:
        one who can have something stored cannot use it as what is sealed for something else."""
        self._refresh()
        key = self._ids[0]
        header = f"{PREFIX}{key}:"
        nonce = secrets.token_bytes(_NONCE)
        sealed = self._ciphers[key].encrypt(nonce, data, (header + purpose).encode())
        return header + base64.b64encode(nonce + sealed).decode()

    def open(self, text: str, purpose: str = "") -> bytes:
        """The value of a sealed text. Errors: ``KeyMissing``; ``StorageError`` if it is damaged."""
        key, _, body = text.removeprefix(PREFIX).partition(":")
        if key not in self._ciphers:
            self._refresh(always=True)
            if key not in self._ciphers:
                raise KeyMissing(key, self.file)
        given = base64.b64decode(body)
        try:
            if f"{PREFIX}{key}:{base64.b64encode(given).decode()}" != text:
                # Another spelling of it is not it: a token that was ended would live on under that.
                raise InvalidTag
            return self._ciphers[key].decrypt(
                given[:_NONCE], given[_NONCE:], f"{PREFIX}{key}:{purpose}".encode()
            )
        except InvalidTag:
            raise StorageError(
                f"a sealed value does not belong to the key {key} of {self.file}: the database or the"
                " file was damaged"
            ) from None

    def _refresh(self, *, always: bool = False) -> None:
        try:
            status = self.file.stat()
        except OSError as error:
            if self._seen is not None:
                # The keys in memory still work; what they seal is not committed (`check_kept`).
                self._gone = True
                return
            if isinstance(error, FileNotFoundError):
                raise KeyMissing("", self.file) from None
            raise
        self._gone = False
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        if seen == self._seen and not always:
            return
        with self._lock:
            ids: list[str] = []
            for line in self._lines():
                name, _, key = line.partition(" ")
                try:
                    self._ciphers[name] = AESGCM(base64.b64decode(key, validate=True))
                except ValueError as error:
                    raise StorageError(f"{self.file}: '{name} …' is not a key") from error
                ids.append(name)
            if not ids:
                raise KeyMissing("", self.file)
            self._ids, self._seen = ids, seen

    def _lines(self) -> list[str]:
        try:
            text = self.file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise KeyMissing("", self.file) from None
        except UnicodeDecodeError as error:
            raise StorageError(f"{self.file}: it has no keys: {error}") from error
        lines = (line.strip() for line in text.splitlines())
        return [line for line in lines if line and not line.startswith("#")]

    def _write(self, lines: list[str], *, fresh: bool = False) -> None:
        """Replace the whole file and sync it to disk before a new key seals anything.

        ``fresh``: a file that another process has created meanwhile is kept.
        """
        temporary = self.file.with_name(f"{self.file.name}.{os.getpid()}.new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write("".join(f"{line}\n" for line in [_HEADER, *lines]))
            handle.flush()
            os.fsync(handle.fileno())
        try:
            if fresh:
                os.link(temporary, self.file)
            else:
                os.replace(temporary, self.file)
        except FileExistsError:
            pass
        finally:
            temporary.unlink(missing_ok=True)
        directory = os.open(self.file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


_HEADER = (
    "# Keys of Vetro's database: the first seals, all open. Without them its secrets are lost."
)


def _new_key() -> str:
    key = base64.b64encode(AESGCM.generate_key(256)).decode()
    return f"{secrets.token_hex(4)} {key}"
