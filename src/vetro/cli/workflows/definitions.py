"""Definitions on disk: the folders of a metadata repository as the files of an archive."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from vetro.cli.terminal.documents import NotADocument, read_yaml
from vetro.cli.terminal.output import fail
from vetro.cli.terminal.paths import text_in
from vetro.json_values import Json

FOLDERS = {
    "workflows": "workflows",
    "heat_templates": "templates/cf",
    "agent_templates": "templates/agent",
    "scripts": "templates/agent/scripts",
    "init-scripts": "init-scripts",
    "agent-config": "agent-config",
}
SHIPPED = Path(__file__).resolve().parents[2] / "_library" / "v03"
IN_SOURCES = Path(__file__).resolve().parents[4] / "library" / "v03"


def shipped_folder() -> Path:
    """Where the definitions that ship lie: in the installed package, or in the sources."""
    return SHIPPED if SHIPPED.is_dir() else IN_SOURCES


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of definitions in a folder, by their path in an archive."""
    contents: dict[str, bytes] = {}
    for name, target in FOLDERS.items():
        root = folder / name
        for file in sorted(root.rglob("*")):
            if file.is_file():
                contents[f"{target}/{file.relative_to(root).as_posix()}"] = file.read_bytes()
    return contents


def manifest_of(folder: Path, service: str) -> dict[str, Json]:
    """The manifest of a service; ends the command if there is none."""
    file = folder / f"{service}-manifest.yaml"
    known = sorted(
        one.name.removesuffix("-manifest.yaml") for one in folder.glob("*-manifest.yaml")
    )
    if not file.is_file():
        fail(f"there is no service {service} in {folder}", f"There are: {', '.join(known)}.")
    return cast("dict[str, Json]", document(file))


def document(file: Path) -> Json:
    """The YAML or JSON of a file; ends the command if it cannot be read."""
    try:
        return read_yaml(text_in(file, "a file of YAML or JSON"))
    except NotADocument as error:
        fail(f"{file}: {error}")
