"""The types of objects in a repository (metadata-repository.md §1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MANIFESTS = "manifests"
#: The canonical names of the types whose files a manifest lists.
FILE_KINDS = ("ui", "workflows", "heat", "agent", "scripts")
#: What the archive of each client has (§5.1).
CLIENT_KINDS = {"ui": ("ui",), "conductor": ("workflows", "heat", "agent", "scripts")}

_DIRECTORIES = {
    "ui": "ui_forms",
    "workflows": "workflows",
    "heat": "heat_templates",
    "agent": "agent_templates",
    "scripts": "scripts",
}
_OUTPUT = {
    "workflows": "workflows",
    "heat": "templates/cf",
    "agent": "templates/agent",
    "scripts": "templates/agent/scripts",
}


def kind_named(name: str) -> str | None:
    """The canonical type for a name in a URL, a manifest or an archive; ``None``: there is none."""
    if name == "workflow":
        return "workflows"
    return name if name == MANIFESTS or name in FILE_KINDS else None


@dataclass(frozen=True)
class Layout:
    """The directories of each type: on disk (§2) and in the archive for engines (§6.1)."""

    directories: Mapping[str, str]
    output: Mapping[str, str]

    @classmethod
    def of(cls, directories: Mapping[str, Any], output: Mapping[str, Any]) -> Layout:
        """The default layout with these differences. Errors: ``ValueError`` names the setting."""
        for name, given, known in (
            ("directories", directories, _DIRECTORIES),
            ("output", output, _OUTPUT),
        ):
            for kind, path in given.items():
                if kind not in known:
                    raise ValueError(
                        f"repository.{name}: there is no type {kind}; known: {', '.join(known)}"
                    )
                parts = path.split("/") if isinstance(path, str) else [".."]
                if (path or name == "directories") and any(one in ("", ".", "..") for one in parts):
                    raise ValueError(
                        f"repository.{name}: {kind} must be a relative path, not {path!r}"
                    )
        return cls({**_DIRECTORIES, **directories}, {**_OUTPUT, **output})
