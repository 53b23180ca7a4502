"""Service manifests: reading, checking, writing (metadata-repository.md §3)."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from vetro.documents import DocumentError, DocumentLimits, read_yaml, write_yaml
from vetro.repository.paths import FILE_KINDS, UnsafePath, kind_named, safe_path

SUFFIX = "-manifest.yaml"
LIMITS = DocumentLimits(depth=50, aliases=1000, nodes=100_000)
#: Computed for every answer; never stored.
COMPUTED = ("valid", "errors", "warnings")
#: What a manifest that is created with PUT gets where nothing is given (§3).
DEFAULTS: Mapping[str, object] = {
    "description": "",
    "author": "",
    "version": 0.1,
    "service_version": 1,
    "enabled": True,
}


class ManifestError(ValueError):
    """A manifest cannot be used: no service comes of it. The message is for its author."""


@dataclass(frozen=True)
class Manifest:
    """A manifest that can be seen. ``sections``: the safe paths it lists, by type, each once.

    ``values``: its other keys. ``problems``: what makes the service invalid whatever files there are.
    """

    name: str
    values: Mapping[str, Any]
    sections: Mapping[str, tuple[str, ...]]
    listed: Mapping[str, tuple[Any, ...]]
    problems: tuple[str, ...] = ()

    @property
    def enabled(self) -> bool:
        """Whether the service is handed to clients; absent counts as yes."""
        return self.values.get("enabled", True) is not False

    @property
    def display_name(self) -> str:
        """The name for people."""
        return str(self.values.get("service_display_name") or self.name)


def service_of(file: str) -> str | None:
    """The name that a manifest's file name gives its service; ``None``: it is not a manifest."""
    return file.removesuffix(SUFFIX) if file.endswith(SUFFIX) and file != SUFFIX else None


def manifest_file(name: str) -> str:
    """The name of a service's manifest file."""
    return f"{name}{SUFFIX}"


def read_mapping(content: bytes) -> dict[str, object]:
    """The keys and values of a manifest. Errors: ``ManifestError``."""
    try:
        document = read_yaml(content, LIMITS)
    except DocumentError as error:
        raise ManifestError(f"not a manifest: {error}") from error
    if not isinstance(document, dict):
        raise ManifestError("not a manifest: it is not a mapping of keys to values")
    return {str(key): value for key, value in cast("dict[object, object]", document).items()}


def read_manifest(file: str, content: bytes) -> Manifest:
    """The manifest in a file. Errors: ``ManifestError`` says why no service comes of it."""
    wanted = service_of(file)
    if wanted is None:
        raise ManifestError(f"{file} is not named NAME{SUFFIX}")
    values = read_mapping(content)
    name = values.get("full_service_name")
    if not isinstance(name, str) or not name:
        raise ManifestError(f"{file}: full_service_name is missing or is not text")
    if name != wanted:
        raise ManifestError(f"{file}: full_service_name is {name!r}, the file is named {wanted!r}")
    problems: list[str] = []
    sections: dict[str, tuple[str, ...]] = {}
    listed: dict[str, tuple[object, ...]] = {}
    for kind in FILE_KINDS:
        safe, stored = _section(kind, values, problems)
        sections[kind], listed[kind] = tuple(dict.fromkeys(safe)), tuple(stored)
    rest = {
        key: plain(value)
        for key, value in values.items()
        if not _is_section(key) and key not in COMPUTED
    }
    return Manifest(name, rest, sections, listed, tuple(problems))


def _is_section(key: str) -> bool:
    return kind_named(key) is not None


def _section(
    kind: str, values: Mapping[str, object], problems: list[str]
) -> tuple[list[str], list[object]]:
    safe: list[str] = []
    stored: list[object] = []
    for key, value in values.items():
        if kind_named(key) != kind or value is None:
            continue
        if not isinstance(value, list):
            problems.append(f"{key} is not a list of paths")
            continue
        for entry in cast("list[object]", value):
            stored.append(plain(entry))
            if not isinstance(entry, str):
                problems.append(f"{key} lists {entry!r:.80}, which is not text")
                continue
            try:
                safe.append(safe_path(entry))
            except UnsafePath as error:
                problems.append(f"{key}: {error}")
    return safe, stored


def plain(value: object) -> Any:
    """A YAML value as JSON has it: what JSON cannot say becomes text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {key if isinstance(key, str) else str(key): plain(one) for key, one in items}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in cast("list[object]", value)]
    return str(value)


def manifest_of_request(name: str, body: object) -> dict[str, object]:
    """The manifest that ``PUT /admin/services/NAME`` stores (§8.5). Errors: ``ManifestError``."""
    if not isinstance(body, dict):
        raise ManifestError("The body must be a JSON object: the service's manifest")
    values = dict(cast("dict[str, Any]", body))
    given = values.get("full_service_name")
    if given and given != name:
        raise ManifestError(f"full_service_name is {given!r:.80}, the address says {name!r}")
    display = values.get("service_display_name")
    if not isinstance(display, str) or not display.strip():
        raise ManifestError("service_display_name is missing: the name that users see")
    result: dict[str, Any] = {"full_service_name": name, "service_display_name": display}
    for key, default in DEFAULTS.items():
        value = values.get(key)
        result[key] = default if value is None else value
    if not isinstance(result["enabled"], bool):
        raise ManifestError("enabled must be true or false")
    for key, value in values.items():
        if key in result or key in COMPUTED:
            continue
        if not _is_section(key):
            result[key] = value
            continue
        if value is None:
            continue
        problems: list[str] = []
        kind = kind_named(key) or key
        _section(kind, {key: value}, problems)
        if problems:
            raise ManifestError(problems[0])
        result[kind] = [*result.get(kind, []), *value]
    return result


def write_manifest(values: Mapping[str, object]) -> bytes:
    """A manifest's file: block style, UTF-8, keys in their order (§3)."""
    return write_yaml(dict(values), ordered=True).encode()
