"""What can be wrong with a form.

::

    FormError           a definition is wrong, or an object cannot be built: with its place
    ├── NoSuchPage      a page that the form does not have
    └── PageInvalid     the values of a page are refused: ``page``, and ``errors`` by field
"""

from __future__ import annotations

from collections.abc import Mapping

PAGE = "page"
"""The key of errors that are about a page and not about one field (B10)."""


class FormError(Exception):
    """A form is wrong; ``line`` and ``column`` (from 1) for mistakes in the definition."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column

    @property
    def placed(self) -> str:
        """The message with its place."""
        if self.line is None:
            return self.message
        return f"{self.message} (line {self.line}, column {self.column or 1} of the form)"


class NoSuchPage(FormError):
    """The form has no page of this name."""


class PageInvalid(FormError):
    """Values are refused. ``errors``: texts by field; those of the whole page under ``page``."""

    def __init__(self, page: str, errors: Mapping[str, list[str]]) -> None:
        self.page = page
        self.errors = dict(errors)
        said = "; ".join(
            text if field == PAGE else f"{page}.{field}: {text}"
            for field, texts in self.errors.items()
            for text in texts
        )
        super().__init__(said)
