"""The answers of the catalog calls, for the OpenAPI document (catalog-api.md §6.2, §6.3)."""

from __future__ import annotations

from vetro.catalog.categories import CategoryView
from vetro.http import Reply, listed, shape, shape_of

_TEXT = {"type": "string"}
_TEXTS = listed(_TEXT)
_FLAG = {"type": "boolean"}
_TIME = {"type": "string", "examples": ["2026-01-31T12:00:00"]}

PACKAGE = shape(
    "Package",
    {
        "id": _TEXT,
        "name": _TEXT,
        "fully_qualified_name": _TEXT,
        "version": _TEXT,
        "type": {"type": "string", "enum": ["Application", "Library"]},
        "author": _TEXT,
        "description": _TEXT,
        "supplier": {"type": "object"},
        "class_definitions": _TEXTS,
        "tags": _TEXTS,
        "categories": _TEXTS,
        "owner_id": _TEXT,
        "is_public": _FLAG,
        "enabled": _FLAG,
        "signature": {
            "oneOf": [
                shape("PackageSignature", {"key": _TEXT, "signer": {"type": ["string", "null"]}}),
                {"type": "null"},
            ]
        },
        "created": _TIME,
        "updated": _TIME,
    },
    ["signature"],
)
CATEGORY = shape_of(CategoryView, "Category", created=_TIME, updated=_TIME)
_PACKAGE_NAME = shape("PackageName", {"id": _TEXT, "name": _TEXT, "fully_qualified_name": _TEXT})
CATEGORY_WITH_PACKAGES = shape(
    "CategoryWithPackages",
    {**CATEGORY["properties"], "packages": listed(_PACKAGE_NAME)},
)
BYTES = {"type": "string", "format": "binary"}
DOWNLOAD = Reply(BYTES, media=("application/octet-stream",), others={206: BYTES, 304: None})
PART = Reply(
    BYTES, media=("text/plain", "text/markdown", "application/octet-stream"), others={304: None}
)

_PLACE = {"type": ["integer", "null"], "minimum": 1}
_FINDING = shape(
    "PackageFinding",
    {
        "level": {"type": "string", "enum": ["error", "warning"]},
        "code": _TEXT,
        "message": _TEXT,
        "file": {"type": ["string", "null"]},
        "line": _PLACE,
        "column": _PLACE,
        "excerpt": listed({"type": "array", "items": {"type": ["integer", "string"]}}),
    },
)

_TEXT_OR_NULL = {"type": ["string", "null"]}
_BUNDLED = shape(
    "BundledPackage",
    {"name": _TEXT, "version": _TEXT_OR_NULL, "url": _TEXT_OR_NULL, "sha256": _TEXT_OR_NULL},
)
_OUTCOME = shape(
    "ImportOutcome",
    {
        "name": _TEXT,
        "version": _TEXT_OR_NULL,
        "result": {"type": "string", "enum": ["imported", "known", "missing", "failed"]},
        "reason": _TEXT,
        "id": _TEXT_OR_NULL,
        "images": _TEXTS,
    },
)
PACKAGE_PAGE = shape(
    "PackagePage", {"packages": listed(PACKAGE), "next_marker": _TEXT}, ["next_marker"]
)
CHECK = shape("PackageCheck", {"findings": listed(_FINDING)})
NEEDS = shape(
    "PackageNeeds",
    {
        "sizes": listed(shape("SizeNeed", {"label": _TEXT, "limits": {"type": "object"}})),
        "license": _TEXT_OR_NULL,
    },
)
REPOSITORY = shape("RepositoryInfo", {"url": _TEXT_OR_NULL, "any_address": _FLAG})
BUNDLE = shape("Bundle", {"packages": listed(_BUNDLED), "skipped": _TEXTS})
IMPORT = shape("PackageImport", {"outcomes": listed(_OUTCOME)})
CATEGORY_PAGE = shape(
    "CategoryPage", {"categories": listed(CATEGORY), "next_marker": _TEXT}, ["next_marker"]
)
