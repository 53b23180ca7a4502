"""Headers and limits that a family of APIs has for every call."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

MEBIBYTE = 2**20
#: All headers of a request together: clients send several long ones (tokens, service catalogs).
MAX_HEADER_BYTES = 65_536


def header_bytes(line: int) -> int:
    """Bytes of all headers of a request together, where one may have ``line``."""
    return max(MAX_HEADER_BYTES, 4 * line)


@dataclass(frozen=True)
class Conventions:
    """Headers on every answer, and the default limit of bodies.

    ``keeps_request_id``: a request id that the client sends is used instead of a new one.
    ``response_time_header``: has the milliseconds until the answer began; '' for no such header.
    ``json_limit_bytes``: the limit of ``read_json`` when its caller gives none.
    ``body_limit_bytes``: when given, the limit of every body, whatever its call names.
    ``nul_is_unknown``: nothing is at a path with a NUL character (404); else such a path is a mistake (400).
    """

    request_id_header: str = "X-Openstack-Request-Id"
    request_id_prefix: str = "req-"
    keeps_request_id: bool = False
    response_time_header: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    json_limit_bytes: int = MEBIBYTE
    body_limit_bytes: int = 0
    nul_is_unknown: bool = False


#: catalog-api.md §2 and §11; the identity service uses them too.
CATALOG_CONVENTIONS = Conventions()

#: metadata-repository.md §4.1.
REPOSITORY_CONVENTIONS = Conventions(nul_is_unknown=True)

#: compute-node-api.md §2. A node with a thousand machines reports more than a mebibyte of status.
COMPUTE_CONVENTIONS = Conventions(
    request_id_header="x-request-id",
    request_id_prefix="",
    keeps_request_id=True,
    response_time_header="x-response-time",
    headers={"Server": "Compute Node API", "x-server-name": socket.gethostname()},
    json_limit_bytes=16 * MEBIBYTE,
)
