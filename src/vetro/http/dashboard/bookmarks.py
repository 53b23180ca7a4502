"""Addresses of the dashboard that Vetro's replaces, as bookmarks have them (dashboard-and-cli.md A1)."""

from __future__ import annotations

import re

_ID = r"([^/]+)"
_PACKAGE = r"api/v1/catalog/packages/\1"

#: A path below ``/dashboard/``, and where it leads now (below ``/dashboard/`` too).
_MOVED: tuple[tuple[str, str], ...] = (
    (rf"catalog/switch_environment/{_ID}", r"catalog?environment=\1"),
    (rf"catalog/add/{_ID}/{_ID}(?:/[^/]+){{0,2}}", r"environments/\2/add/\1"),
    (rf"catalog/quick-add/{_ID}", r"catalog/\1/deploy"),
    (rf"catalog/details/{_ID}", r"catalog/\1"),
    (rf"catalog/images/{_ID}", rf"{_PACKAGE}/logo"),
    (rf"catalog/supplier-images/{_ID}", rf"{_PACKAGE}/supplier_logo"),
    (r"environments/create_environment", r"environments?create=true"),
    (r"environments/deployment_history", r"history"),
    (rf"environments/{_ID}/services", r"environments/\1"),
    (rf"environments/{_ID}/services/get_d3_data", r"environments/\1/topology"),
    (rf"environments/{_ID}/([0-9a-f]{{32}}|[0-9a-f-]{{36}})", r"environments/\1/components/\2"),
    (r"packages/upload", r"packages?upload=true"),
    (r"packages/import_bundle", r"packages?import=true"),
    (rf"packages/modify/{_ID}", r"packages?edit=\1"),
    (rf"packages/download/{_ID}/{_ID}", r"api/v1/catalog/packages/\2/download"),
    (r"images(?:/mark_image)?", r"machines?tab=images"),
    (r"categories(?:/add)?", r"packages?categories=true"),
    (rf"packages/{_ID}", r"catalog/\1"),
)
_COMPILED = [(re.compile(pattern), target) for pattern, target in _MOVED]


#: The earlier dashboard was one of several in a common one, below this name.
_SLUG = "app-catalog"


def moved(path: str) -> str | None:
    """Where a bookmarked path below ``/dashboard`` leads now; ``None`` for every other path."""
    first, _, below = path.strip("/").partition("/")
    is_old = first == _SLUG
    name = (below if is_old else path).strip("/")
    for pattern, target in _COMPILED:
        found = pattern.fullmatch(name)
        if found:
            return "/dashboard/" + found.expand(target)
    return f"/dashboard/{name}" if is_old else None
