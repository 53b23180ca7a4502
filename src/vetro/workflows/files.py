"""The files of a definition archive, by path, with containment (§9.1, §10.2, §10.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from vetro.workflows.errors import TemplateError
from vetro.workflows.values import Json

ReadDocument = Callable[[str], Json]
"""The value of a YAML or JSON text; raises ValueError with one line."""

#: Folders of old data directories that stand for others (§9.1).
_AT_ROOT = {"templates/cf/": "cf/", "templates/agent/": "agent/"}


class Files:
    """Files by their path in the archive, such as ``workflows/AD.xml``.

    ``read_document`` reads templates. ``fallback``: files of the installation, for init scripts and
    agent configurations an archive does not bring.
    """

    def __init__(
        self,
        contents: Mapping[str, bytes],
        read_document: ReadDocument,
        fallback: Mapping[str, bytes] | None = None,
    ) -> None:
        self._contents = contents
        self._fallback = fallback or {}
        self._read_document = read_document

    def workflows(self) -> list[tuple[str, bytes]]:
        """Name and content of each ``workflows/*.xml``, sorted by name."""
        found = {
            path.removeprefix("workflows/"): content
            for path, content in self._contents.items()
            if path.startswith("workflows/") and path.endswith(".xml") and path.count("/") == 1
        }
        return sorted(found.items())

    def find(self, folder: str, name: str) -> bytes | None:
        """A file below a folder. Raises: TemplateError for a name that leads out of it."""
        path = f"{folder}/{contained(name)}"
        for source in (self._contents, self._fallback):
            if path in source:
                return source[path]
            for start, short in _AT_ROOT.items():
                if path.startswith(start) and short + path.removeprefix(start) in source:
                    return source[short + path.removeprefix(start)]
        return None

    def text(self, folder: str, name: str, what: str) -> str:
        """A text file. Raises: TemplateError when it is missing or no UTF-8."""
        content = self.find(folder, name)
        if content is None:
            raise TemplateError(f"{what} {name!r} is missing: there is no {folder}/{name}")
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise TemplateError(f"{folder}/{name} is not UTF-8 text") from error

    def template(self, folder: str, name: str, what: str) -> dict[str, Json]:
        """A template, read at each call. Raises: TemplateError when it is missing or not a map."""
        source = f"{contained(name)}.template"
        try:
            value = self._read_document(self.text(folder, source, what))
        except ValueError as error:
            raise TemplateError(f"{folder}/{source} cannot be read: {error}") from error
        if not isinstance(value, dict):
            raise TemplateError(f"{folder}/{source} is not a map")
        return cast("dict[str, Json]", value)


def contained(name: str) -> str:
    """A relative path without ``..``. Raises: TemplateError."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or "\\" in name or "\0" in name or name.startswith("/"):
        raise TemplateError(f"the file name {name!r} does not stay inside its folder")
    return "/".join(parts)
