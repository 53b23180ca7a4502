"""Data files of packages, YAML and JSON (core-library.md section 4.1), within document limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vetro import documents
from vetro.documents import DocumentError
from vetro.packages.errors import DataError


def text_of(content: bytes, file: str) -> str:
    """UTF-8 text with ``\\n`` between lines. Errors: ``DataError``."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError("not UTF-8 text", file=file) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_yaml(content: bytes, file: str) -> Any:
    """The value of a YAML file's one document; dates stay text.

    Errors: ``DataError``, also for a file nested deeper than 100 or of more than a million nodes.
    """
    return _read(documents.read_yaml, content, file)


def read_json(content: bytes, file: str) -> Any:
    """The value of a JSON file. Errors: ``DataError``, also for one nested deeper than 100."""
    return _read(documents.read_json, content, file)


def _read(reader: Callable[[str], object], content: bytes, file: str) -> Any:
    try:
        return reader(text_of(content, file))
    except DocumentError as error:
        raise DataError(error.message, file=file, line=error.line, column=error.column) from error
