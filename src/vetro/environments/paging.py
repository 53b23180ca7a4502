"""Lists in pages and with filters (catalog-api.md, Beyond upstream).

Parameters: ``limit``, ``marker``, ``name`` and ``status``. Without any of them a list is whole, as
the released API has it. Pages follow each other by keyset: a row that comes or goes meanwhile makes
no other row appear twice or never. The status of an environment and the state of a deployment are
computed from other rows; a page that filters by them reads on until it is full.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Column, ColumnElement, Select

from vetro.http import BadRequest, NotFound, paginate
from vetro.http.endpoint import AnyRequest
from vetro.storage import StoredRow, Transaction, following

MOST = 1000
"""The longest page."""
FILTERED_ROWS = 500
"""Rows that are read at once while a computed value filters them."""

View = TypeVar("View", bound=Mapping[str, object])
"""What is shown of a row: with its ``id``."""


@dataclass(frozen=True)
class Listing:
    """What of a list is asked for; ``None`` does not restrict it.

    ``limit``: rows of the page; ``marker``: the id of the last row of the page before;
    ``name``: exactly this one; ``status``: a computed value.
    """

    limit: int | None = None
    marker: str | None = None
    name: str | None = None
    status: str | None = None


ALL = Listing()


def listing_of(request: AnyRequest, statuses: Collection[str] = ()) -> Listing:
    """What a request asks for. Errors: 400 for a limit or a status that does not exist."""
    page = paginate(request, default_limit=None, max_limit=MOST)
    given = request.query_params
    status = given.get("status") if statuses else None
    if status is not None and status not in statuses:
        raise BadRequest(f"status must be one of {', '.join(statuses)}, not {status!r:.80}")
    return Listing(page.limit, page.marker, given.get("name"), status)


@dataclass(frozen=True)
class Order:
    """The columns that order a list, the last of them its id; newest first if ``descending``."""

    columns: tuple[Column[object], ...]
    descending: bool = False

    def after(self, row: StoredRow) -> ColumnElement[bool]:
        """Whether a row follows ``row``."""
        return following([(one, getattr(row, one.name), self.descending) for one in self.columns])

    def of(self, query: Select[object]) -> Select[object]:
        """The query in this order."""
        columns = (one.desc() if self.descending else one for one in self.columns)
        return query.order_by(*columns)


async def page(
    tx: Transaction,
    query: Select[object],
    order: Order,
    listing: Listing,
    views: Callable[[Sequence[StoredRow]], Awaitable[list[View]]],
    *,
    computed: str = "status",
) -> tuple[list[View], str | None]:
    """A page of a list, and the marker of the next one, if anything follows.

    ``query`` selects the columns of ``order``, the rows of the caller and, if it is to be, the name;
    ``views`` makes what is shown of at most `MOST` rows, because it looks them up by their ids and
    databases limit the number of values of a statement; ``computed`` is the member that
    ``listing.status`` is about.
    Errors: 404 for a marker that is not in the list (any more).
    """
    if listing.marker is not None:
        marked = await tx.execute(query.where(order.columns[-1] == listing.marker))
        last = marked.first()
        if last is None:
            raise NotFound(
                f"Marker {listing.marker} is not in this list (any more); begin it again",
                type_="MarkerNotFound",
            )
    else:
        last = None
    shown: list[View] = []
    while True:
        rest = order.of(query if last is None else query.where(order.after(last)))
        if listing.limit is not None:
            missing = listing.limit + 1 - len(shown)
            wanted = max(missing, FILTERED_ROWS) if listing.status else missing
            rest = rest.limit(wanted)
        else:
            wanted = None
        rows = list(await tx.execute(rest))
        for start in range(0, len(rows), MOST):
            for view in await views(rows[start : start + MOST]):
                if listing.status is None or view[computed] == listing.status:
                    shown.append(view)
        if listing.limit is not None and len(shown) > listing.limit:
            cut = shown[: listing.limit]
            return cut, str(cut[-1]["id"])
        if wanted is None or len(rows) < wanted:
            return shown, None
        last = rows[-1]


def answer(key: str, found: tuple[Sequence[object], str | None]) -> dict[str, object]:
    """The list under ``key``, and ``next_marker`` if anything follows."""
    views, marker = found
    return {key: views, **({"next_marker": marker} if marker else {})}
