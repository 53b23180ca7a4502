"""Types of objects in a repository (metadata-repository.md §1), and paths from outside (§4.1).

A path is normalised to NFC, then checked, then used as a key: nothing of it ever names a file of
the machine, except when a repository is exported, and then only after these checks.
"""

from __future__ import annotations

import re
import unicodedata
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


MAX_PATH = 512
SERVICE_NAME = re.compile(r"\w+(\.\w+)*\w+", re.ASCII)
NAMING_RULE = (
    "a service's name has at least two letters, digits or underscores, with single dots only"
    " between them"
)
_DRIVE = re.compile(r"[A-Za-z]:")


class UnsafePath(ValueError):
    """A path leaves its directory, or no file may have it; the message says why."""


def is_service_name(name: str) -> bool:
    """Whether a service may have this name (§4.1)."""
    return SERVICE_NAME.fullmatch(name) is not None


def safe_path(text: str) -> str:
    """A relative path, normalised to NFC. Errors: ``UnsafePath``."""
    path = unicodedata.normalize("NFC", text)
    if not path:
        raise UnsafePath("the path is empty")
    if len(path) > MAX_PATH:
        raise UnsafePath(f"the path is longer than {MAX_PATH} characters")
    for one in path:
        if ord(one) < 32 or ord(one) == 127 or 0xD800 <= ord(one) <= 0xDFFF:
            raise UnsafePath(f"{path!r} has a character that no name may have")
    if "\\" in path:
        raise UnsafePath(f"{path!r} has a backslash; separate directories with '/'")
    if path.startswith("/") or _DRIVE.match(path):
        raise UnsafePath(f"{path!r} is not relative")
    for segment in path.split("/"):
        if not segment:
            raise UnsafePath(f"{path!r} has an empty part")
        if segment == "..":
            raise UnsafePath(f"{path!r} leaves its directory")
        if segment.startswith("."):
            raise UnsafePath(f"{path!r} has a part that begins with a dot")
        if len(segment.encode()) > 255:
            raise UnsafePath(f"{path!r:.80} has a part longer than 255 bytes")
    return path


def url_path(text: str) -> str:
    """The path in a URL, decoded once: slashes at its end and repeated ones count as one.

    '' for the root of the type. Errors: ``UnsafePath``.
    """
    path = "/".join(part for part in text.split("/") if part)
    return safe_path(path) if path else ""


def file_name(text: str) -> str:
    """A name of one part, used as it is. Errors: ``UnsafePath``."""
    if "/" in text:
        raise UnsafePath(f"{text!r} has a '/': it must be a name without directories")
    return safe_path(text)


def sanitised_name(text: str) -> str:
    """The name of a form's file: its last part, without characters that names should not have.

    Errors: ``UnsafePath`` when nothing is left.
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", text))[-1].replace(" ", "_")
    kept = "".join(one for one in last if one.isalnum() or one in "_.-").lstrip(".")
    if not kept:
        raise UnsafePath(f"the file name {text!r:.80} has no part that can be used as a name")
    return safe_path(kept)


def parents(path: str) -> list[str]:
    """The directories above a path, outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
