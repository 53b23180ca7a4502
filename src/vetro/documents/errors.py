"""What can be wrong with a document.

::

    DocumentError           it cannot be read; the message is one line, with the place when it is known
    └── DocumentTooLarge    beyond a limit: bytes, depth, aliases or nodes
"""

from __future__ import annotations


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
