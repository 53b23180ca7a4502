"""Writes the OpenAPI documents of the faces: `api_documents.py DIRECTORY`. No service is started.

The dashboard's build makes its types from them, so that a changed face breaks the build. A file is
written only when its content changes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from vetro import catalog, compute, environments, identity
from vetro.http import Face, dashboard_face
from vetro.storage import Database


async def faces(directory: Path) -> list[Face]:
    """The faces that the dashboard uses, on an empty database."""
    database = await Database.open(f"sqlite:///{directory}/empty.db", data_dir=directory)
    try:
        known = identity.Identity(database)
        tokens = known.authenticator()
        settings = compute.ComputeSettings(image_dir=directory, node_key="none")
        served = [
            environments.environments_face(
                catalog.Catalog(database, directory),
                environments.Environments(database, environments.EnvironmentSettings()).tasks,
                tokens,
            ),
            known.face([]),
            compute.compute_face(
                compute.ComputeService(database, settings),
                compute.NodeAware(tokens, node_key="none", service_key="none"),
            ),
        ]
        return [*served, dashboard_face(served, directory, "none")]
    finally:
        await database.close()


def name_of(face: Face) -> str:
    """The name of a face's document: that of its path."""
    return face.prefix.strip("/") or "catalog"


def main() -> int:
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        for face in asyncio.run(faces(Path(directory))):
            document: dict[str, Any] = face.document()
            text = json.dumps(document, indent=1, sort_keys=True) + "\n"
            path = target / f"{name_of(face)}.json"
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
