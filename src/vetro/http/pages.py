"""Lists in pages: ``limit`` and ``marker`` in the query, keyset cursors in the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vetro.http.any_request import AnyRequest
from vetro.http.faults import BadRequest

T = TypeVar("T")


@dataclass(frozen=True)
class PageRequest:
    """At most ``limit`` items (``None``: all) after the one that ``marker`` names (``None``: the start)."""

    limit: int | None
    marker: str | None

    @property
    def fetch(self) -> int | None:
        """The number of rows to fetch: one more than shown, to detect a next page."""
        return None if self.limit is None else self.limit + 1

    def cut(self, rows: Sequence[T], marker_of: Callable[[T], str]) -> tuple[list[T], str | None]:
        """The rows of this page out of up to ``fetch`` rows, and the marker of the next or ``None``."""
        if self.limit is None or len(rows) <= self.limit:
            return list(rows), None
        shown = list(rows[: self.limit])
        return shown, marker_of(shown[-1])


def paginate(
    request: AnyRequest,
    *,
    default_limit: int | None = 20,
    max_limit: int = 100,
) -> PageRequest:
    """The page that a request asks for. A limit above ``max_limit`` is lowered to it.

    Errors: 400 for a limit that is not a whole number above zero.
    """
    given = request.query_params.get("limit")
    limit = default_limit
    if given is not None:
        # isdecimal: int() would also accept '1_000', ' 5 ' and '+5'.
        if not given.isascii() or not given.isdecimal() or int(given[:9]) == 0:
            raise BadRequest(f"limit must be a whole number above 0, not {given!r}")
        limit = min(int(given[:9]), max_limit)
    return PageRequest(limit, request.query_params.get("marker") or None)
