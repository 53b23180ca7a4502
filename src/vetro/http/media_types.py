"""How much a client wants a media type: the ``Accept`` header (catalog-api.md §3)."""

from __future__ import annotations

from collections.abc import Sequence

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
