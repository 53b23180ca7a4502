"""Sending an image to the service: its record, then its file."""

from __future__ import annotations

import contextlib
from pathlib import Path

from vetro.cli.client.connection import Connection
from vetro.cli.terminal.output import CommandError
from vetro.compute.client import vm_calls
from vetro.compute.wire import Image, NewImage
from vetro.http import Fault
from vetro.http.client import TransportError


def upload_image(connection: Connection, manifest: NewImage, path: Path) -> Image:
    """Create the record of an image and send its file. All or nothing.

    Errors: ``CommandError`` when the service refuses the record; for the file ``Fault``,
    ``TransportError``.
    """
    made = connection.send(vm_calls.new_image(manifest))
    try:
        connection.client.upload(
            "PUT",
            f"{connection.url}/compute{vm_calls.image_file_path(made.uuid)}",
            path,
            headers={"X-Auth-Token": connection.token, "Content-Type": "application/octet-stream"},
        )
    except BaseException:
        # A record without a file would be in everybody's way. The service may be gone with it.
        if made.state != "active":
            with contextlib.suppress(Fault, TransportError, CommandError):
                connection.send(vm_calls.remove_image(made.uuid))
        raise
    return made
