"""Signatures on execution plans (guest-agent.md §3)."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from vetro.engine.errors import EngineError


class SigningKeyError(EngineError):
    """The key for signing plans cannot be used. Agents would refuse unsigned plans."""


class PlanSigner:
    """An RSA key of the engine's own; guests know its public half.

    ``former``: keys that it has replaced, in which guests are told of it.
    """

    def __init__(self, key: rsa.RSAPrivateKey, former: Sequence[PlanSigner] = ()) -> None:
        self._key = key
        self.former = former

    @classmethod
    def load_or_create(cls, path: Path) -> PlanSigner:
        """The key in ``path``, which former ones may follow; a new one (0600) when there is none.

        Processes that start at once agree on one key: the first to link its file wins.
        Errors: ``SigningKeyError`` naming the file.
        """
        try:
            if not path.exists():
                _make(path)
            content = path.read_bytes()
        except OSError as error:
            raise SigningKeyError(f"{path}: the signing key cannot be read: {error}") from error
        blocks = re.split(rb"(?=-----BEGIN )", content)
        first, *former = [_loaded(path, one) for one in blocks[1:] or [content]]
        return cls(first, [cls(one) for one in former])

    def sign(self, queue: str, body: bytes) -> bytes:
        """The signature over the queue's name and the exact body."""
        return self._key.sign(queue.encode() + body, padding.PKCS1v15(), hashes.SHA256())

    def public_key(self, line_prefix: str = "") -> str:
        """The public half as PKCS#1 PEM, every line with ``line_prefix``."""
        pem = self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.PKCS1
        )
        return "\n".join(line_prefix + line for line in pem.decode().strip().splitlines())


def _loaded(path: Path, content: bytes) -> rsa.RSAPrivateKey:
    try:
        loaded = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError) as error:
        raise SigningKeyError(f"{path}: this is not a PEM private key: {error}") from error
    if not isinstance(loaded, rsa.RSAPrivateKey):
        raise SigningKeyError(f"{path}: this is not an RSA key; plans can only be signed with RSA")
    return loaded


def _make(path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    content = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    # mkstemp creates it with 0600; unlike a rename, a link does not replace another process's key.
    descriptor, temporary = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
