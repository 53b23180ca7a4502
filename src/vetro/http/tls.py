"""Mutual TLS between parts of Vetro: each shows a certificate of one authority and demands one."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path


class TlsError(ValueError):
    """A certificate, a key or the authority's certificate cannot be used; the message names the file."""


@dataclass(frozen=True)
class MutualTls:
    """PEM files: a certificate (with its chain), its private key, and the authority's certificate.

    The certificate names the address that others reach this part at (subject alternative name), and
    may be used for servers and for clients.
    """

    certificate: Path
    key: Path
    authority: Path

    def server_context(self) -> ssl.SSLContext:
        """For a listener: who connects must show a certificate of the authority. ``TlsError``."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        return self._loaded(context)

    def client_context(self) -> ssl.SSLContext:
        """For connections: whom we reach must show a certificate of the authority. ``TlsError``."""
        return self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        for file in (self.certificate, self.key, self.authority):
            if not file.is_file():
                raise TlsError(f"{file}: there is no such file")
        try:
            context.load_cert_chain(self.certificate, self.key)
        except ssl.SSLError as error:
            raise TlsError(
                f"{self.certificate} and {self.key} are not a certificate and its key: {error}"
            ) from error
        try:
            context.load_verify_locations(self.authority)
        except ssl.SSLError as error:
            raise TlsError(f"{self.authority} is not a certificate: {error}") from error
        return context
