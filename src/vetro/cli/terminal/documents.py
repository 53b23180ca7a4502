"""JSON and YAML that people give: in arguments, files and standard input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

from vetro import documents
from vetro.cli.terminal.output import fail
from vetro.cli.terminal.typed import note
from vetro.documents import DocumentLimits

#: Models of environments may be deeper than what packages hold.
LIMITS = DocumentLimits(depth=500)
#: A text that cannot be read; the message is one line.
NotADocument = documents.DocumentError


def read_json(text: str) -> Any:
    """The value of a JSON text. Raises NotADocument, also for one nested too deep."""
    _refuse_empty(text)
    return documents.read_json(text, LIMITS)


def read_yaml(text: str) -> Any:
    """The value of a JSON or YAML text. Raises NotADocument."""
    _refuse_empty(text)
    try:
        return read_json(text)
    except documents.DocumentTooLarge:
        raise
    except NotADocument:
        return documents.read_yaml(text, LIMITS)


def json_or_text(text: str) -> object:
    """The value of a JSON text; any other text as it is."""
    try:
        return read_json(text)
    except NotADocument:
        return text


def named_values(pairs: Iterable[str], option: str, form: str, example: str) -> dict[str, object]:
    """``name=value`` pairs; a value that is JSON is taken as such. ``form`` and ``example``: for messages."""
    found = parted(pairs, option, form, f"{option} {example}")
    return {name: json_or_text(text) for name, text in found}


def parted(pairs: Iterable[str], what: str, form: str, example: str) -> list[tuple[str, str]]:
    """``name=value`` pairs as texts; ``what`` they are, ``form`` and ``example`` are for messages.

    One without a name may be a secret, with nothing that tells it: a message says its number alone.
    """
    found: list[tuple[str, str]] = []
    for number, pair in enumerate(pairs, 1):
        name, equals, text = pair.partition("=")
        if not equals or not name.strip():
            fail(f"{what}, number {number}: expected {form}", f"For example {example}.", 2)
        found.append((name, text))
    return found


def text_of(file: TextIO) -> str:
    """All of a file. One that is no UTF-8 ends the command."""
    try:
        return file.read()
    except UnicodeDecodeError as error:
        fail(
            f"{file.name}: not UTF-8 text: {error.reason} at byte {error.start}",
            "Name a text file.",
            2,
        )


def json_in(file: TextIO, hint: str) -> Any:
    """The value of a JSON file. One that is none ends the command; ``hint``: what it must be."""
    try:
        found = read_json(text_of(file))
    except NotADocument as error:
        fail(f"{file.name}: {error}", hint)
    note(found)
    return found


def _refuse_empty(text: str) -> None:
    if not text.strip():
        raise NotADocument("it is empty")
