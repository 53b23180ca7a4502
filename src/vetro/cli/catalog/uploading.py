"""Archives of packages on their way to the catalog."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from vetro.cli.client.answers import PackageRow
from vetro.cli.client.connection import Connection, segment
from vetro.cli.terminal.output import CommandError, fail
from vetro.cli.terminal.paths import PACKAGE, package_hint, package_there


def read_archive(path: Path) -> bytes:
    """A zip, or a directory packed on the way."""
    package_there(path)
    if path.is_dir():
        import tempfile

        from vetro.packages import PackageError, build_archive

        with tempfile.TemporaryDirectory() as directory:
            archive = Path(directory) / f"{path.name}.zip"
            try:
                build_archive(path, archive)
            except PackageError as error:
                fail(f"{path}: {error}", package_hint(error))
            return archive.read_bytes()
    content = path.read_bytes()
    if not content:
        fail(f"{path}: the file is empty", PACKAGE)
    return content


def signature_beside(path: Path, content: bytes) -> str | None:
    """The signature that lies beside an archive, checked before anything is uploaded."""
    from vetro.packages import SIGNATURE_SUFFIX, PackageError, parse_signature

    whole = Path(os.path.abspath(path))  # "." has no name
    file = whole.with_name(whole.name + SIGNATURE_SUFFIX)
    if not file.is_file():
        return None
    try:
        signature = parse_signature(file.read_text(encoding="utf-8", errors="replace"))
    except PackageError as error:
        fail(f"{file}: {error.message}", "Remove the file, or sign the archive again.")
    if not signature.belongs_to(hashlib.sha256(content).hexdigest()):
        fail(
            f"{file}: it is not a signature of the present content of {path.name}",
            "Fetch both again, or sign the archive again: 'vetro package sign'.",
        )
    return signature.text()


def upload_archive(
    connection: Connection,
    name: str,
    content: bytes,
    signature: str | None = None,
    **metadata: object,
) -> PackageRow:
    """Upload an archive, with its signature, and return the package object."""
    made: PackageRow = connection.request(
        "POST",
        "/v1/catalog/packages",
        files={"file": (f"{name}.zip", content, "application/octet-stream")},
        data={"__metadata__": json.dumps(metadata)},
    ).json()
    if signature is None:
        return made
    patch = [{"op": "replace", "path": "/signature", "value": signature}]
    return connection.request(
        "PATCH",
        f"/v1/catalog/packages/{segment(made['id'])}",
        content=json.dumps(patch).encode(),
        headers={"Content-Type": "application/murano-packages-json-patch"},
    ).json()


def replace_package(
    connection: Connection, existing: PackageRow, name: str, content: bytes, **metadata: Any
) -> PackageRow:
    """Upload an archive in the place of a package; the old one comes back when that fails."""
    path = f"/v1/catalog/packages/{segment(existing['id'])}"
    old = connection.request("GET", f"{path}/download").content
    # Environments that use it take the new one, which has the same name and version.
    connection.request("DELETE", path, params={"force": "true"})
    try:
        return upload_archive(connection, name, content, **metadata)
    except CommandError:
        upload_archive(
            connection,
            name,
            old,
            is_public=existing["is_public"],
            enabled=existing["enabled"],
            categories=existing["categories"],
            tags=existing["tags"],
        )
        raise


def find_same(connection: Connection, content: bytes, path: Path) -> PackageRow | None:
    """The project's package of the archive's name and version."""
    from vetro.packages import PackageError, Version, open_package

    try:
        opened = open_package(content)
    except PackageError as error:
        fail(f"{path}: {error}", "'vetro check' lists everything that is wrong.")
    params = {"fqn": opened.full_name, "owned": "true", "include_disabled": "true"}
    wanted = Version.parse(opened.version)
    for row in connection.get("/v1/catalog/packages", params=params)["packages"]:
        if Version.parse(str(row["version"])) == wanted:
            return row
    return None
