"""Archives of packages on their way to the catalog."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from vetro.cli.client.answers import PackageRow
from vetro.cli.client.connection import Connection, segment
from vetro.cli.terminal.output import fail
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
    connection: Connection, name: str, content: bytes, **metadata: object
) -> PackageRow:
    """Upload an archive, and return the package object."""
    return _send(connection, "POST", "/v1/catalog/packages", name, content, metadata)


def replace_package(
    connection: Connection, existing: PackageRow, name: str, content: bytes, **metadata: object
) -> PackageRow:
    """Upload an archive in the place of a package; what ``metadata`` does not say stays. All or nothing."""
    path = f"/v1/catalog/packages/{segment(existing['id'])}"
    return _send(connection, "PUT", path, name, content, metadata)


def _send(
    connection: Connection,
    method: str,
    path: str,
    name: str,
    content: bytes,
    metadata: Mapping[str, object],
) -> PackageRow:
    # A service of the release before knows only some of the names.
    given = {key: value for key, value in metadata.items() if value is not None}
    return connection.request(
        method,
        path,
        files={"file": (f"{name}.zip", content, "application/octet-stream")},
        data={"__metadata__": json.dumps(given)},
    ).json()


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
