"""Signatures on execution plans (guest-agent.md §3)."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa


class PlanSigner:
    """An RSA key of the engine's own; guests know its public half."""

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        self._key = key

    @classmethod
    def load_or_create(cls, path: Path) -> PlanSigner:
        """The key in ``path``; a new one (0600) when there is none."""
        import os

        try:
            content = path.read_bytes()
        except FileNotFoundError:
            key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            content = key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
            temporary = path.with_name(path.name + ".new")
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(content)
            temporary.replace(path)
        loaded = serialization.load_pem_private_key(content, password=None)
        return cls(cast("rsa.RSAPrivateKey", loaded))

    def sign(self, queue: str, body: bytes) -> bytes:
        """The signature over the queue's name and the exact body."""
        return self._key.sign(queue.encode() + body, padding.PKCS1v15(), hashes.SHA256())

    def public_key(self, line_prefix: str = "") -> str:
        """The public half as PKCS#1 PEM, every line with ``line_prefix``."""
        pem = self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.PKCS1
        )
        return "\n".join(line_prefix + line for line in pem.decode().strip().splitlines())
