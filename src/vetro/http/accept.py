"""406 when the ``Accept`` header excludes every answer of a call (catalog-api.md §3).

A handler that answers with JSON needs no declaration. One that always answers with bytes or a
stream is declared with ``opt=ANY_ACCEPT`` (a ``File`` or ``Stream`` return type has the same
effect).
"""

from __future__ import annotations

from litestar.response import File, Stream

from vetro.http.any_request import AnyRequest
from vetro.http.faults import NotAcceptable
from vetro.http.media_types import JSON, quality

OPTION = "vetro_any_accept"
ANY_ACCEPT: dict[str, object] = {OPTION: True}


def check_accept(request: AnyRequest) -> None:
    """Refuse a client that accepts no answer of this call, before its handler runs. 406."""
    given = [value for name, value in request.scope["headers"] if name == b"accept"]
    accept = b",".join(given).decode("latin-1")
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
