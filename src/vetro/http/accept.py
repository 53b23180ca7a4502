"""The ``Accept`` header, and 406 when it excludes every answer of a call (catalog-api.md §3).

A handler that answers with JSON needs no declaration. One that always answers with bytes or a
stream is declared with ``opt=ANY_ACCEPT`` (a ``File`` or ``Stream`` return type has the same
effect).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litestar import Request
from litestar.response import File, Stream

from vetro.http.faults import NotAcceptable

OPTION = "vetro_any_accept"
ANY_ACCEPT: dict[str, Any] = {OPTION: True}
JSON = "application/json"


def quality(accept: str, media_type: str) -> float:
    """How much a client wants ``media_type``, 0 (not at all) to 1; the most specific range decides."""
    if not accept.strip():
        return 1.0
    wanted_type = media_type.split("/", 1)[0]
    best_rank, best = 0, 0.0
    for part in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        rank = {media_type: 3, f"{wanted_type}/*": 2, "*/*": 1, "*": 1}.get(name, 0)
        if rank > best_rank:
            best_rank, best = rank, _q(parameters)
    return best


def _q(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0


def prefers_html(accept: str) -> bool:
    """Whether ``text/html`` is asked for explicitly and ranks above JSON."""
    names = [part.split(";", 1)[0].strip().lower() for part in accept.split(",")]
    if "text/html" not in names:
        return False
    json = quality(accept, JSON) if JSON in names else 0.0
    return quality(accept, "text/html") > json


async def check_accept(request: Request[Any, Any, Any]) -> None:
    """Refuse a client that accepts no answer of this call, before its handler runs. 406."""
    accept = ",".join(request.headers.getall("accept", []))
    if not accept:
        return
    handler = request.route_handler
    if handler.opt.get(OPTION):
        return
    answer = handler.parsed_fn_signature.return_type.annotation
    if isinstance(answer, type) and issubclass(answer, File | Stream):
        return
    # HTML is for error pages only (§4): it does not make a JSON call acceptable.
    if quality(accept, JSON) == 0.0:
        raise NotAcceptable(f"This call returns {JSON}, which the Accept header excludes")
