"""What can be wrong with a document, and how large it may be.

::

    DocumentError           it cannot be read; the message is one line, with the place when it is known
    └── DocumentTooLarge    beyond a limit: bytes, depth, aliases or nodes
"""

from __future__ import annotations

from dataclasses import dataclass


class DocumentError(ValueError):
    """A document cannot be read. ``line`` and ``column`` count from 1; ``None`` when unknown."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        self.message = " ".join(message.split())
        self.line = line
        self.column = column
        place = "" if line is None else f" (line {line}, column {column or 1})"
        super().__init__(self.message + place)


class DocumentTooLarge(DocumentError):
    """A document is beyond a limit."""


@dataclass(frozen=True)
class DocumentLimits:
    """Limits of one document. ``None``: without this limit.

    ``bytes``: its size in UTF-8. ``depth``: nesting of collections. ``aliases``: YAML aliases.
    ``nodes``: scalars and collections; each alias counts as all the nodes it expands to.
    """

    bytes: int | None = None
    depth: int = 100
    aliases: int | None = None
    nodes: int = 1_000_000
