"""Whom the client trusts over TLS, and what it shows of itself: the options and ``OS_…`` variables for it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from vetro.cli.terminal.output import fail

CACERT, CERT, KEY = "OS_CACERT", "OS_CERT", "OS_KEY"


def trust(variables: Mapping[str, str], *, insecure: bool = False) -> ssl.SSLContext | None:
    """What connections are made with; ``None``: the system's trust, as without any of the variables.

    Ends the command when a file cannot be used. ``insecure``: whoever answers is believed.
    """
    authorities = variables.get(CACERT)
    certificate, key = variables.get(CERT), variables.get(KEY)
    if not (authorities or certificate or insecure):
        return None
    try:
        context = ssl.create_default_context(cafile=None if insecure else authorities)
    except OSError as error:  # of which those of TLS are
        fail(
            f"{authorities} is no file with certificates of authorities: {_said(error)}",
            f"It is from --cacert or {CACERT}: PEM, of those that signed the service's certificate.",
        )
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        try:
            context.load_cert_chain(certificate, key or None, password=lambda: b"")
        except OSError as error:
            fail(
                f"{certificate} cannot be used as this client's certificate: {_said(error)}",
                f"{CERT} has the certificate and {KEY} its key, in PEM and without a password.",
            )
    return context


def _said(error: OSError) -> str:
    return error.strerror or str(error)
