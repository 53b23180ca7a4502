"""HTTP of packages and categories, part of the ``/v1`` face (catalog-api.md §6.2, §6.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from litestar import Request, Response, delete, get, patch, post
from litestar.params import FromPath

from vetro.catalog import bodies
from vetro.catalog.search import parse_query
from vetro.catalog.store import Catalog, UploadMetadata
from vetro.catalog.uses import PackageUses
from vetro.http import (
    ANY_ACCEPT,
    BadRequest,
    NotFound,
    Part,
    PartTooLarge,
    UnsupportedMediaType,
    content_type,
    download,
    known_content,
    principal_of,
    read_json,
    receive_multipart,
)
from vetro.packages import MAX_TAGS

AnyRequest = Request[Any, Any, Any]
MEBIBYTE = 2**20
PATCH_TYPE = "application/murano-packages-json-patch"


def empty() -> Response[Any]:
    """200 with a body of no bytes, as v1 answers when there is nothing to say (§3)."""
    return Response(b"", media_type="application/json", status_code=200)


async def receive_package(
    request: AnyRequest, directory: Path, limit_bytes: int
) -> tuple[Path, UploadMetadata]:
    """The file and the metadata of an upload. Errors: 400, 413, 507."""
    if content_type(request) != "multipart/form-data":
        raise BadRequest("A package is uploaded as multipart/form-data")
    try:
        parts = await receive_multipart(
            request, directory, limit_bytes, max_parts=8, total_bytes=limit_bytes + MEBIBYTE
        )
    except UnsupportedMediaType as error:
        raise BadRequest(error.message) from error
    except PartTooLarge as error:
        # A body within its own limit (§11) with a file beyond the package's (§6.2).
        raise BadRequest(
            f"Uploaded file is too large. The limit is {limit_bytes / MEBIBYTE:g} MiB"
        ) from error
    try:
        return _package_parts(parts)
    except BaseException:
        for part in parts:
            if part.path is not None:
                part.path.unlink(missing_ok=True)
        raise


def _package_parts(parts: list[Part]) -> tuple[Path, UploadMetadata]:
    if len(parts) > 2:
        raise BadRequest("An upload has at most two parts: the file and its metadata")
    files = [part for part in parts if part.path is not None]
    texts = [part for part in parts if part.path is None]
    if len(files) != 1 or files[0].path is None:
        raise BadRequest("An upload needs one file part, with a file name")
    if files[0].size == 0:
        raise BadRequest("The uploaded file is empty")
    metadata = UploadMetadata()
    if texts and texts[0].value.strip():
        try:
            metadata = msgspec.json.decode(texts[0].value, type=UploadMetadata)
        except msgspec.DecodeError as error:
            raise BadRequest(f"The metadata of the upload is wrong: {error}") from error
    for name in ("tags", "categories"):
        values: list[str] = getattr(metadata, name)
        if len(values) > MAX_TAGS:
            raise BadRequest(f"The metadata has {len(values)} {name}; at most {MAX_TAGS}")
        if len(set(values)) != len(values):
            raise BadRequest(f"The metadata has an element of {name} twice")
        if any(not 0 < len(value) <= 80 for value in values):
            raise BadRequest(f"The metadata's {name} are texts of 1 to 80 characters")
    return files[0].path, metadata


def package_handlers(catalog: Catalog, uses: PackageUses, *, package_size_limit: int) -> list[Any]:
    """The handlers of packages; ``package_size_limit`` in bytes."""

    @get("/v1/catalog/packages", operation_class=bodies.SEARCH)
    async def search(request: AnyRequest) -> dict[str, Any]:
        """Packages that match, a page at a time."""
        query = parse_query([(k, str(v)) for k, v in request.query_params.multi_items()])
        views, marker = await catalog.search(principal_of(request), query)
        return {"packages": views, **({"next_marker": marker} if marker else {})}

    @post("/v1/catalog/packages", status_code=200, operation_class=bodies.UPLOAD)
    async def upload(request: AnyRequest) -> dict[str, Any]:
        """Check and add a package archive."""
        path, metadata = await receive_package(request, catalog.blobs.directory, package_size_limit)
        return await catalog.upload(principal_of(request), path, metadata)

    @get("/v1/catalog/packages/{package_id:str}")
    async def show(request: AnyRequest, package_id: FromPath[str]) -> dict[str, Any]:
        """One package."""
        return await catalog.show(principal_of(request), package_id)

    @patch("/v1/catalog/packages/{package_id:str}", operation_class=bodies.PATCH)
    async def change(request: AnyRequest, package_id: FromPath[str]) -> dict[str, Any]:
        """Change what may be changed of a package.

        409 when other projects use a public one that is to be private or disabled; ``force=true``: not.
        """
        body = await read_json(request, (PATCH_TYPE,))
        force = request.query_params.get("force", "").lower() == "true"
        return await catalog.patch(principal_of(request), package_id, body, uses, force=force)

    @delete("/v1/catalog/packages/{package_id:str}", status_code=200, operation_class=bodies.DELETE)
    async def remove(request: AnyRequest, package_id: FromPath[str]) -> Response[Any]:
        """Remove a package; with ``force=true`` one that environments use, which still find it."""
        force = request.query_params.get("force", "").lower() == "true"
        await catalog.delete(principal_of(request), package_id, uses, force=force)
        return empty()

    @get("/v1/catalog/packages/{package_id:str}/download", opt=ANY_ACCEPT)
    async def archive(request: AnyRequest, package_id: FromPath[str]) -> Response[Any]:
        """The archive as it was uploaded; 304 for who has it, and parts of it."""
        name, path = await catalog.archive_for(principal_of(request), package_id)
        return await download(request, path, digest=path.stem, filename=f"{name}.zip")

    @get("/v1/catalog/packages/{package_id:str}/{part:str}", opt=ANY_ACCEPT)
    async def part_of(
        request: AnyRequest, package_id: FromPath[str], part: FromPath[str]
    ) -> Response[Any]:
        """``ui``, ``logo`` or ``supplier_logo``; empty when the package has none."""
        if part not in ("ui", "logo", "supplier_logo"):
            raise NotFound("There is nothing at this path")
        package = await catalog.open_for(principal_of(request), package_id)
        if part == "ui":
            return known_content(request, (package.ui or "").encode(), "text/plain")
        content = package.logo if part == "logo" else package.supplier_logo
        return known_content(request, content or b"")

    return [search, upload, show, change, remove, archive, part_of]


def category_handlers(catalog: Catalog) -> list[Any]:
    """The handlers of categories."""

    @get("/v1/catalog/categories", operation_class=bodies.CATEGORIES)
    async def listing(request: AnyRequest) -> dict[str, Any]:
        """Categories, sorted and paged."""
        return _page(await catalog.categories.listing(), dict(request.query_params.items()))

    @post("/v1/catalog/categories", status_code=200, operation_class=bodies.ADD_CATEGORY)
    async def add(request: AnyRequest) -> dict[str, Any]:
        """Create a category."""
        body = await read_json(request)
        if not isinstance(body, dict):
            raise BadRequest("A category is an object with a name")
        name: object = msgspec.convert(body, dict[str, Any]).get("name")
        return await catalog.categories.add(principal_of(request), name)

    @get("/v1/catalog/categories/{category_id:str}")
    async def show(request: AnyRequest, category_id: FromPath[str]) -> dict[str, Any]:
        """A category and its packages."""
        return await catalog.show_category(principal_of(request), category_id)

    @delete("/v1/catalog/categories/{category_id:str}", status_code=200)
    async def remove(request: AnyRequest, category_id: FromPath[str]) -> Response[Any]:
        """Remove an empty category."""
        await catalog.categories.delete(principal_of(request), category_id)
        return empty()

    return [listing, add, show, remove]


SORT_KEYS = ("name", "created", "updated", "package_count", "id")


def _page(rows: list[dict[str, Any]], given: dict[str, str]) -> dict[str, Any]:
    unknown = set(given) - {"sort_keys", "sort_dir", "limit", "marker"}
    if unknown:
        raise BadRequest(f"Unknown parameter: {min(unknown)}")
    keys = [key.strip() for key in given.get("sort_keys", "name").split(",") if key.strip()]
    for key in keys:
        if key not in SORT_KEYS:
            raise BadRequest(f"Unknown sort key: {key}")
    direction = given.get("sort_dir", "asc")
    if direction not in ("asc", "desc"):
        raise BadRequest("sort_dir must be asc or desc")
    for key in reversed([*keys, "id"]):
        rows.sort(key=lambda row, key=key: row[key], reverse=direction == "desc")
    start = 0
    if "marker" in given:
        ids = [row["id"] for row in rows]
        if given["marker"] not in ids:
            raise NotFound(f"Marker {given['marker']} is not the id of a category")
        start = ids.index(given["marker"]) + 1
    if "limit" not in given:
        return {"categories": rows[start:]}
    if not given["limit"].isdigit() or int(given["limit"]) <= 0:
        raise BadRequest("limit must be a whole number above 0")
    limit = int(given["limit"])
    page = rows[start : start + limit]
    marker = {"next_marker": page[-1]["id"]} if len(page) == limit else {}
    return {"categories": page, **marker}
