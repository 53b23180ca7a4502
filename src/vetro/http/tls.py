"""Mutual TLS between parts of Vetro: both sides present a certificate of one authority."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path


class TlsError(ValueError):
    """A certificate or key cannot be used; the message names the file."""


@dataclass(frozen=True)
class MutualTls:
    """PEM files: a certificate (with its chain), its private key, and the authority's certificate.

    The certificate names the address of this part (subject alternative name) and is valid for
    servers and for clients.
    """

    certificate: Path
    key: Path
    authority: Path

    def server_context(self) -> ssl.SSLContext:
        """For servers: the client must present a certificate of the authority. ``TlsError``."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        return self._loaded(context)

    def client_context(self) -> ssl.SSLContext:
        """For clients: the server must present a certificate of the authority. ``TlsError``."""
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
