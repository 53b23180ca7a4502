"""JSON and YAML that people give: in arguments, files and standard input."""

from __future__ import annotations

import json
from typing import Any, TextIO

from vetro.cli.output import fail


class NotADocument(ValueError):
    """A text that cannot be read; the message is one line."""


def read_json(text: str) -> Any:
    """The value of a JSON text. Raises NotADocument, also for one nested too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise NotADocument("it is nested too deep") from None
    except ValueError as error:
        raise NotADocument(" ".join(str(error).split())) from error


def read_yaml(text: str) -> Any:
    """The value of a JSON or YAML text. Raises NotADocument."""
    import yaml

    try:
        return json.loads(text)
    except RecursionError:
        raise NotADocument("it is nested too deep") from None
    except ValueError:
        pass
    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise NotADocument("it is nested too deep") from None
    except (yaml.YAMLError, ValueError) as error:
        raise NotADocument(" ".join(str(error).split())) from error


def json_or_text(text: str) -> Any:
    """The value of a JSON text; any other text as it is."""
    try:
        return read_json(text)
    except NotADocument:
        return text


def text_of(file: TextIO) -> str:
    """All of a file. One that is no UTF-8 ends the command."""
    try:
        return file.read()
    except UnicodeDecodeError as error:
        fail(f"{file.name}: not UTF-8 text: {error.reason} at byte {error.start}", exit_code=2)
