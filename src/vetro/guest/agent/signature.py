"""Verify RSA signatures (PKCS#1 v1.5, SHA-256) with integers only (guest-agent.md §3).

Verification is one modular exponentiation and a comparison of the whole encoded message; the
decrypted block is not parsed, so the forgeries that exploit lenient parsers are impossible.
"""

import base64
import binascii
import hashlib

from .errors import ConfigurationError

_SHA256_INFO = bytes.fromhex("3031300d060960864801650304020105000420")
_RSA_OID = bytes.fromhex("06092a864886f70d010101")


class PublicKey:
    """An RSA public key."""

    def __init__(self, modulus: int, exponent: int) -> None:
        self.modulus = modulus
        self.exponent = exponent
        self.size = (modulus.bit_length() + 7) // 8

    def verify(self, message: bytes, signature: bytes) -> bool:
        """True if `signature` is this key's signature of exactly these bytes."""
        if len(signature) != self.size:
            return False
        number = int.from_bytes(signature, "big")
        if number >= self.modulus:
            return False
        opened = pow(number, self.exponent, self.modulus).to_bytes(self.size, "big")
        digest = hashlib.sha256(message).digest()
        tail = b"\x00" + _SHA256_INFO + digest
        padding = self.size - 2 - len(tail)
        if padding < 8:
            return False
        return opened == b"\x00\x01" + b"\xff" * padding + tail


def load_public_key(pem: str) -> PublicKey:
    """Read a PEM public key: PKCS#1 (`RSA PUBLIC KEY`) or SubjectPublicKeyInfo (`PUBLIC KEY`).

    Lines may be indented (INI continuation lines are). Raises `ConfigurationError`.
    """
    label: "str | None" = None
    lines: "list[str]" = []
    for line in (part.strip() for part in pem.strip().splitlines()):
        if line.startswith("-----BEGIN ") and line.endswith("-----"):
            label = line[len("-----BEGIN ") : -len("-----")]
        elif line.startswith("-----END "):
            break
        elif label is not None and line:
            lines.append(line)
    if label not in ("RSA PUBLIC KEY", "PUBLIC KEY"):
        raise ConfigurationError(
            "engine_key is not a PEM public key: it must begin with -----BEGIN RSA PUBLIC KEY-----"
        )
    try:
        body = base64.b64decode("".join(lines), validate=True)
        if label == "PUBLIC KEY":
            body = _unwrap(body)
        fields = _Reader(_Reader(body).take(0x30))
        key = PublicKey(fields.integer(), fields.integer())
    except (binascii.Error, ValueError) as error:
        raise ConfigurationError("engine_key cannot be read: %s" % error) from error
    if key.modulus.bit_length() < 1024 or key.exponent < 3:
        raise ConfigurationError("engine_key is too weak: at least 1024 bits are needed")
    return key


def _unwrap(body: bytes) -> bytes:
    outer = _Reader(_Reader(body).take(0x30))
    algorithm = outer.take(0x30)
    if not algorithm.startswith(_RSA_OID):
        raise ValueError("it is not an RSA key")
    bits = outer.take(0x03)
    if not bits or bits[0] != 0:
        raise ValueError("the key is not a whole number of bytes")
    return bits[1:]


class _Reader:
    """Reads DER values one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, tag: int) -> bytes:
        data, at = self._data, self._at
        if at + 2 > len(data) or data[at] != tag:
            raise ValueError("unexpected DER value at byte %d" % at)
        length = data[at + 1]
        at += 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or at + count > len(data):
                raise ValueError("bad DER length at byte %d" % at)
            length = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + length > len(data):
            raise ValueError("the DER data ends early")
        self._at = at + length
        return data[at : at + length]

    def integer(self) -> int:
        return int.from_bytes(self.take(0x02), "big", signed=True)
