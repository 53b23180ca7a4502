"""The answers of the catalog calls, for the OpenAPI document (catalog-api.md §6.2, §6.3)."""

from __future__ import annotations

from vetro.http import Reply, listed, shape

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
CATEGORY = shape(
    "Category",
    {
        "id": _TEXT,
        "name": _TEXT,
        "package_count": {"type": "integer"},
        "created": _TIME,
        "updated": _TIME,
    },
)
_PACKAGE_NAME = shape("PackageName", {"id": _TEXT, "name": _TEXT, "fully_qualified_name": _TEXT})
CATEGORY_WITH_PACKAGES = shape(
    "CategoryWithPackages",
    {**CATEGORY["properties"], "packages": listed(_PACKAGE_NAME)},
)
_BYTES = {"type": "string", "format": "binary"}
_ONE = "/v1/catalog/packages/{package_id}"

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

REPLIES = {
    "GET /v1/catalog/packages": Reply(
        shape("PackagePage", {"packages": listed(PACKAGE), "next_marker": _TEXT}, ["next_marker"]),
        name="list_packages",
        errors=(404,),
    ),
    "POST /v1/catalog/packages": Reply(PACKAGE, name="upload_package", errors=(409,)),
    "POST /v1/catalog/checks": Reply(
        shape("PackageCheck", {"findings": listed(_FINDING)}), name="check_package"
    ),
    f"GET {_ONE}": Reply(PACKAGE, name="show_package"),
    f"PATCH {_ONE}": Reply(PACKAGE, name="change_package", errors=(409,)),
    f"DELETE {_ONE}": Reply(name="delete_package", errors=(409,)),
    f"GET {_ONE}/download": Reply(
        _BYTES,
        media=("application/octet-stream",),
        others={206: _BYTES, 304: None},
        errors=(416,),
        name="download_package",
    ),
    f"GET {_ONE}/needs": Reply(
        shape(
            "PackageNeeds",
            {
                "sizes": listed(shape("SizeNeed", {"label": _TEXT, "limits": {"type": "object"}})),
                "license": {"type": ["string", "null"]},
            },
        ),
        name="show_package_needs",
    ),
    f"GET {_ONE}/{{part}}": Reply(
        _BYTES,
        media=("text/plain", "text/markdown", "application/octet-stream"),
        others={304: None},
        name="show_package_part",
    ),
    "GET /v1/catalog/repository": Reply(
        shape("RepositoryInfo", {"url": {"type": ["string", "null"]}, "any_address": _FLAG}),
        name="show_repository",
    ),
    "POST /v1/catalog/bundles": Reply(
        shape("Bundle", {"packages": listed(_BUNDLED), "skipped": _TEXTS}),
        name="read_bundle",
        errors=(404,),
    ),
    "POST /v1/catalog/imports": Reply(
        shape("PackageImport", {"outcomes": listed(_OUTCOME)}), name="import_package"
    ),
    "GET /v1/catalog/categories": Reply(
        shape(
            "CategoryPage", {"categories": listed(CATEGORY), "next_marker": _TEXT}, ["next_marker"]
        ),
        name="list_categories",
        errors=(404,),
    ),
    "POST /v1/catalog/categories": Reply(CATEGORY, name="create_category", errors=(409,)),
    "GET /v1/catalog/categories/{category_id}": Reply(CATEGORY_WITH_PACKAGES, name="show_category"),
    "DELETE /v1/catalog/categories/{category_id}": Reply(name="delete_category"),
}
