"""The file with the networks of environments that name none (catalog-api.md §5.1)."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from vetro.json_values import Json
from vetro.packages import DataError, read_yaml


class NetworkTemplateError(ValueError):
    """The file cannot be read, or holds no networks."""


def read_network_template(file: Path) -> dict[str, object]:
    """What the file holds, with ``environment`` and ``flat``. Errors: ``NetworkTemplateError``."""
    try:
        value: Json = read_yaml(file.read_bytes(), file.name)
    except (OSError, DataError) as error:
        raise NetworkTemplateError(f"{file}: {error}") from error
    try:
        typed = isinstance(value["environment"]["?"]["type"], str) and "flat" in value
    except (KeyError, TypeError):
        typed = False
    if not typed:
        raise NetworkTemplateError(f"{file}: it has no networks")
    return cast("dict[str, object]", value)
