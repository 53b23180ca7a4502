"""Compiled code and parsed class files, kept on disk from run to run.

An entry's name is a digest of its source and of the language itself, so an entry is never out of
date. Loaded code will be executed: an entry is accepted only with the seal of this cache's key, and
the cache is used only in a directory that belongs to this user and that no other user can write
to. In any other case (a damaged entry, a foreign one, a full disk) the entry counts as missing.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import marshal
import os
import pickle
import secrets
import stat
import sys
import tempfile
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, cast

import vetro

if TYPE_CHECKING:
    from vetro.muranopl.syntax.yamltree import Node

_SEAL = 32
"""Bytes of the seal before an entry's content."""
MAX_ENTRIES = 20_000


@functools.cache
def language_version() -> bytes:
    """A digest of the Python that runs and of the sources of both languages."""
    made = hashlib.sha256(f"{sys.implementation.cache_tag} {sys.version}".encode())
    root = Path(vetro.__path__[0])
    for directory in (root / "muranopl", root / "yaql"):
        for file in sorted(directory.rglob("*.py")):
            facts = file.stat()
            made.update(f"{file.relative_to(root)} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return made.digest()


class CodeCache:
    """The cache in a directory, which is made (for this user alone) if it does not exist.

    `usable` is False when the directory is not trusted or not writable; every look-up then misses.
    `loaded`, `stored` and `refused` count entries.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self.loaded = self.stored = self.refused = 0
        self._key = _open_key(self.directory)

    @property
    def usable(self) -> bool:
        """True when entries are looked for and written."""
        return self._key is not None

    def code(self, text: str, filename: str) -> CodeType:
        """The compiled form of generated source."""
        name = self._name("code", filename, text)
        found = self._read(name)
        if found is not None:
            try:
                code = marshal.loads(found)  # noqa: S302 - only what this cache has sealed
                if isinstance(code, CodeType):
                    self.loaded += 1
                    return code
            except (ValueError, EOFError, TypeError):
                pass
            self.refused += 1
        code = compile(text, filename, "exec", dont_inherit=True)
        self._write(name, marshal.dumps(code))
        return code

    def documents(self, text: str, file: str) -> list[Node] | None:
        """The cached trees of a class file; None when there are none."""
        found = self._read(self._name("tree", file, text))
        if found is None:
            return None
        try:
            trees = pickle.loads(found)  # noqa: S301 - only what this cache has sealed comes here
        except Exception:  # noqa: BLE001 - whatever is wrong with it, it is not used
            self.refused += 1
            return None
        self.loaded += 1
        return cast("list[Node]", trees)

    def keep_documents(self, text: str, file: str, documents: list[Node]) -> None:
        """Remember the trees of a class file."""
        if self._key is not None:
            content = pickle.dumps(documents, pickle.HIGHEST_PROTOCOL)
            self._write(self._name("tree", file, text), content)

    # -- files ---------------------------------------------------------------------------------

    def _name(self, kind: str, place: str, text: str) -> str:
        made = hashlib.sha256(language_version())
        for part in (kind, place, text):
            data = part.encode("utf-8", "surrogatepass")
            made.update(len(data).to_bytes(8, "big"))
            made.update(data)
        return made.hexdigest()

    def _seal(self, name: str, content: bytes) -> bytes:
        assert self._key is not None
        return hmac.digest(self._key, name.encode() + content, "sha256")

    def _read(self, name: str) -> bytes | None:
        if self._key is None:
            return None
        try:
            data = (self.directory / name).read_bytes()
        except OSError:
            return None
        content = data[_SEAL:]
        if len(data) < _SEAL or not hmac.compare_digest(data[:_SEAL], self._seal(name, content)):
            self.refused += 1
            return None
        return content

    def _write(self, name: str, content: bytes) -> None:
        if self._key is None:
            return
        # Names are digests: one entry in 256 triggers a clean-up, however few each process writes.
        # (A counter in each process never triggered it in workers that live for one deployment.)
        if name.startswith("00"):
            self._make_room()
        try:
            # Written to a temporary file and renamed: a reader never sees half an entry.
            with tempfile.NamedTemporaryFile(dir=self.directory, delete=False) as file:
                file.write(self._seal(name, content) + content)
            os.replace(file.name, self.directory / name)
        except OSError:
            return
        self.stored += 1

    def _make_room(self) -> None:
        """Remove the oldest half when there are too many entries."""
        try:
            entries = [entry for entry in os.scandir(self.directory) if len(entry.name) == 64]
            if len(entries) > MAX_ENTRIES:
                entries.sort(key=lambda entry: entry.stat().st_mtime)
                for entry in entries[: len(entries) // 2]:
                    os.unlink(entry.path)
        except OSError:
            return


def _open_key(directory: Path) -> bytes | None:
    """The secret key of a cache; None when another user owns or can write to the directory."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(directory):
            return None
        file = directory / "key"
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            pass
        else:
            with os.fdopen(handle, "wb") as made:
                made.write(secrets.token_bytes(32))
        if not _is_ours(file):
            return None
        key = file.read_bytes()
    except OSError:
        return None
    return key if len(key) == 32 else None


def _is_ours(path: Path) -> bool:
    facts = path.lstat()
    if stat.S_ISLNK(facts.st_mode):
        return False
    return facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
