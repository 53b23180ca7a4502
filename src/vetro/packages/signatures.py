"""Detached signatures of archives (packages-and-forms.md A, Beyond upstream; decision 0387).

A signature is a line of text, kept beside the archive as `NAME.zip.sig`::

    vetro-ed25519 <public key> <signature>

both in base64, 32 and 64 bytes. What is signed is the SHA-256 of the archive, so that a catalog checks a
signature without reading the archive again. Whose key it is, an installation says by a directory of
public keys, each in a PEM file that is named after its owner.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vetro.packages.errors import PackageFormatError, PackageLoadError

SIGNATURE_SUFFIX = ".sig"
_KIND = "vetro-ed25519"
_MOST_CHARACTERS = 1000


def _message(digest: str) -> bytes:
    # What is signed for one purpose must mean nothing for another.
    return f"vetro package archive sha256:{digest.lower()}".encode("ascii")


@dataclass(frozen=True)
class Signature:
    """A public key and what it signed, both as bytes."""

    key: bytes
    value: bytes

    @property
    def fingerprint(self) -> str:
        """The key for people, as OpenSSH writes fingerprints."""
        digest = base64.b64encode(hashlib.sha256(self.key).digest()).decode()
        return f"SHA256:{digest.rstrip('=')}"

    def text(self) -> str:
        """The line of a signature file."""
        parts = (base64.b64encode(one).decode() for one in (self.key, self.value))
        return f"{_KIND} {' '.join(parts)}\n"

    def belongs_to(self, digest: str) -> bool:
        """Whether its key signed the archive of this SHA-256 (hexadecimal)."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(self.value, _message(digest))
        except InvalidSignature:
            return False
        return True


@functools.lru_cache(maxsize=1024)
def parse_signature(text: str) -> Signature:
    """Read a signature. Errors: ``PackageFormatError``."""
    words = text.split() if len(text) <= _MOST_CHARACTERS else []
    try:
        kind, key, value = words
        found = Signature(
            base64.b64decode(key, validate=True), base64.b64decode(value, validate=True)
        )
    except (ValueError, binascii.Error):
        kind, found = "", Signature(b"", b"")
    if kind != _KIND or (len(found.key), len(found.value)) != (32, 64):
        raise PackageFormatError(
            f"the signature is not a line '{_KIND} KEY SIGNATURE': 'vetro package sign' writes one"
        )
    return found


def sign_archive(archive: Path, private_key: bytes) -> Signature:
    """Sign an archive with an Ed25519 key in PEM. Errors: ``PackageLoadError``."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(private_key, None)
    except (ValueError, TypeError) as error:
        raise PackageLoadError(f"the key cannot be read: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise PackageLoadError(
            "the key is not an Ed25519 key: 'openssl genpkey -algorithm ed25519' makes one"
        )
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Signature(key.public_key().public_bytes_raw(), key.sign(_message(digest)))


@dataclass(frozen=True)
class Signers:
    """The owners of trusted keys, by the bytes of the key."""

    names: Mapping[bytes, str] = field(default_factory=dict[bytes, str])

    @classmethod
    def read(cls, directory: Path | None) -> Signers:
        """The keys of a directory's `NAME.pem` files. Errors: ``PackageLoadError`` for one that is none."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        names: dict[bytes, str] = {}
        if directory is None:
            return cls()
        if not directory.is_dir():
            raise PackageLoadError(f"{directory}: there is no such directory of public keys")
        for path in sorted(directory.glob("*.pem")):
            try:
                key = load_pem_public_key(path.read_bytes())
            except (OSError, ValueError) as error:
                raise PackageLoadError(f"{path}: not a public key: {error}") from error
            if not isinstance(key, Ed25519PublicKey):
                raise PackageLoadError(f"{path}: not an Ed25519 public key")
            names[key.public_bytes_raw()] = path.stem
        return cls(names)

    def describe(self, text: str | None) -> dict[str, object] | None:
        """A stored signature as the catalog shows it; ``signer`` is null for an unknown key."""
        if not text:
            return None
        signature = parse_signature(text)
        return {"key": signature.fingerprint, "signer": self.names.get(signature.key)}
