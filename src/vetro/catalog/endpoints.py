"""The calls of packages and categories, part of the ``/v1`` face (catalog-api.md §6.2, §6.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler

from vetro.catalog import answers, bodies
from vetro.catalog.adding import ReplacementMetadata, UploadMetadata
from vetro.catalog.importing import Imports, Sources
from vetro.catalog.listing import EXTRAS
from vetro.catalog.search import DEFAULT_LIMIT, MAX_LIMIT, parse_query, read_limit
from vetro.catalog.store import Catalog
from vetro.catalog.uses import PackageUses
from vetro.http import (
    IF_MATCH,
    BadRequest,
    Extras,
    NotFound,
    Part,
    PartTooLarge,
    Policy,
    UnsupportedMediaType,
    content_type,
    denied,
    download,
    known_content,
    receive_multipart,
    with_tag,
)
from vetro.http import endpoint as http
from vetro.http.endpoint import EMPTY, AnyRequest, respond, routes
from vetro.http.parameters import STRING, query
from vetro.json_texts import NotJson, decode_json
from vetro.json_values import Json
from vetro.packages import BUNDLE_BYTES, MAX_TAGS, FormError, examine, load_form

MEBIBYTE = 2**20
Metadata = TypeVar("Metadata", UploadMetadata, ReplacementMetadata)
PATCH_TYPE = "application/murano-packages-json-patch"


@dataclass(frozen=True)
class PackageLimits:
    """Bytes of an uploaded archive; packages on a page, when none are named and at most (§11)."""

    archive_bytes: int = 5 * MEBIBYTE
    page: int = DEFAULT_LIMIT
    largest_page: int = MAX_LIMIT


@dataclass(frozen=True)
class Services:
    """What the calls work on."""

    catalog: Catalog
    uses: PackageUses
    limits: PackageLimits
    policy: Policy
    imports: Imports


Call = http.Call[Services]
Endpoint = http.Endpoint[Call]


async def receive_package(
    request: AnyRequest, directory: Path, limit_bytes: int, kind: type[Metadata]
) -> tuple[Path | bytes, Metadata]:
    """The archive of an upload, a small one as its content, and the metadata. Errors: 400, 413, 507."""
    if content_type(request) != "multipart/form-data":
        raise BadRequest("Upload a package as multipart/form-data")
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
        return _package_parts(parts, kind)
    except BaseException:
        for part in parts:
            if isinstance(part.stored, Path):
                part.stored.unlink(missing_ok=True)
        raise


def _package_parts(parts: list[Part], kind: type[Metadata]) -> tuple[Path | bytes, Metadata]:
    if len(parts) > 2:
        raise BadRequest("An upload has at most two parts: the file and its metadata")
    files = [part for part in parts if part.stored is not None]
    texts = [part for part in parts if part.stored is None]
    if len(files) != 1 or files[0].stored is None:
        raise BadRequest("An upload needs one file part, with a file name")
    if files[0].size == 0:
        raise BadRequest("The uploaded file is empty")
    metadata = kind()
    if texts and texts[0].value.strip():
        try:
            metadata = decode_json(texts[0].value, kind)
        except NotJson as error:
            raise BadRequest(f"The metadata of the upload is wrong: {error}") from error
    for name in ("tags", "categories"):
        values: list[str] = getattr(metadata, name) or []
        if len(values) > MAX_TAGS:
            raise BadRequest(f"The metadata has {len(values)} {name}; at most {MAX_TAGS}")
        if len(set(values)) != len(values):
            raise BadRequest(f"The metadata lists an element of {name} twice")
        if any(not 0 < len(value) <= 80 for value in values):
            raise BadRequest(f"The metadata's {name} must be texts of 1 to 80 characters")
    return files[0].stored, metadata


def _may(call: Call, rule: str) -> bool:
    return call.service.policy.allows(call.principal, rule, call.path)


async def _refuse_public(call: Call) -> None:
    """Refuse to change a public package, if the policy says so. Errors: 403, 404."""
    if _may(call, "manage_public_package"):
        return
    found = await call.service.catalog.show(call.principal, call.path["package_id"])
    if found["is_public"]:
        raise denied("manage_public_package")


async def search(call: Call) -> Json:
    """Packages that match, a page at a time."""
    given = [(k, str(v)) for k, v in call.request.query_params.multi_items()]
    limits = call.service.limits
    query = parse_query(given, page=limits.page, largest=limits.largest_page)
    if not _may(call, "manage_public_package") and not call.principal.is_admin:
        # Packages that the caller may not edit are not in the editable view (§6.2).
        query = query if query.catalog else replace(query, owned=True)
    views, marker = await call.service.catalog.search(call.principal, query)
    return {"packages": views, **({"next_marker": marker} if marker else {})}


async def upload(call: Call) -> Json:
    """Check and add a package archive."""
    archive, metadata = await receive_package(
        call.request,
        call.service.catalog.blobs.directory,
        call.service.limits.archive_bytes,
        UploadMetadata,
    )
    may_publish = _may(call, "publicize_package")
    return await call.service.catalog.upload(
        call.principal, archive, metadata, may_publish=may_publish
    )


async def replace_package(call: Call) -> Json:
    """Put an archive in the place of a package of its name and version, which keeps its id.

    Members of the metadata that are not given stay as they are. Environments that use the package take the
    new content. When it is refused, the catalog is as before.
    """
    # Before the archive is received: who may not hears that first.
    if not _may(call, "upload_package"):
        raise denied("upload_package")
    await _refuse_public(call)
    catalog, id_ = call.service.catalog, call.path["package_id"]
    may_publish = _may(call, "publicize_package")
    await catalog.check_replaceable(call.principal, id_, may_publish=may_publish)
    archive, metadata = await receive_package(
        call.request,
        catalog.blobs.directory,
        call.service.limits.archive_bytes,
        ReplacementMetadata,
    )
    return await catalog.replace(
        call.principal,
        id_,
        archive,
        metadata,
        may_publish=may_publish,
        condition=call.condition,
    )


async def check(call: Call) -> Json:
    """Every finding of a package archive, with the lines around it; nothing is added."""
    archive, _ = await receive_package(
        call.request,
        call.service.catalog.blobs.directory,
        call.service.limits.archive_bytes,
        UploadMetadata,
    )
    try:
        return {"findings": await asyncio.to_thread(examine, archive)}
    finally:
        if isinstance(archive, Path):
            archive.unlink(missing_ok=True)


async def repository(call: Call) -> Json:
    """Where packages can be imported from: ``url`` of the repository, and whether any address will do."""
    return call.service.imports.described(call.principal)


async def read_bundle(call: Call) -> Json:
    """The packages of a bundle: its text, or its name in the repository, or its address."""
    return await call.service.imports.bundle(
        call.principal, await call.json(limit_bytes=BUNDLE_BYTES)
    )


async def import_package(call: Call) -> Json:
    """Add a package from the repository or an address, and what it requires; what came of each."""
    return await call.service.imports.run(
        call.principal, await call.json(), may_publish=_may(call, "publicize_package")
    )


async def show(call: Call) -> Json:
    """One package."""
    return await call.service.catalog.show(call.principal, call.path["package_id"])


async def change(call: Call) -> Json:
    """Change what may be changed of a package.

    409 when other projects use a public one that is to be private or disabled; ``force=true``: not.
    """
    # §6.2: that there is such a package, and whose, is said before its patch is read.
    found = await call.service.catalog.show(call.principal, call.path["package_id"])
    if found["is_public"] and not _may(call, "manage_public_package"):
        raise denied("manage_public_package")
    try:
        body = await call.json(PATCH_TYPE)
    except UnsupportedMediaType as error:
        raise BadRequest(error.message) from error
    force = call.flag("force")
    return await call.service.catalog.patch(
        call.principal,
        call.path["package_id"],
        body,
        call.service.uses,
        force=force,
        may_publish=_may(call, "publicize_package"),
        condition=call.condition,
    )


async def remove(call: Call) -> Json:
    """Remove a package; with ``force=true`` one that environments use, which still find it."""
    await _refuse_public(call)
    force = call.flag("force")
    await call.service.catalog.delete(
        call.principal,
        call.path["package_id"],
        call.service.uses,
        force=force,
        condition=call.condition,
    )
    return EMPTY


async def archive(call: Call) -> Json:
    """The archive as it was uploaded; 304 when the client has it already; parts of it on request."""
    wanted = call.path["package_id"]
    name, digest, path = await call.service.catalog.archive_for(call.principal, wanted)
    return await download(call.request, path, digest=digest, filename=f"{name}.zip")


async def part_of(call: Call) -> Json:
    """``ui``, ``logo``, ``supplier_logo`` or ``readme``; empty when the package has none."""
    if call.path["part"] not in ("ui", "logo", "supplier_logo", "readme"):
        raise NotFound("There is nothing at this path")
    package = await call.service.catalog.open_for(call.principal, call.path["package_id"])
    if call.path["part"] == "ui":
        return known_content(call.request, (package.ui or "").encode(), "text/plain")
    if call.path["part"] == "readme":
        file, text = package.readme or ("", "")
        kind = "text/markdown" if file.endswith(".md") else "text/plain"
        return known_content(call.request, text.encode(), kind)
    content = package.logo if call.path["part"] == "logo" else package.supplier_logo
    return known_content(call.request, content or b"")


async def needs(call: Call) -> Json:
    """The sizes of machines that a package's form asks for, and its licence; of one without form none."""
    package = await call.service.catalog.open_for(call.principal, call.path["package_id"])

    def read() -> Json:
        try:
            form = load_form(package.ui or "", package_name=package.full_name, title="")
            return form.needs(call.query("language")[:20])
        except FormError:
            return {"sizes": [], "license": None}

    return await asyncio.to_thread(read)


async def list_categories(call: Call) -> Json:
    """Categories, sorted and paged."""
    return _page(
        await call.service.catalog.categories.listing(), dict(call.request.query_params.items())
    )


async def add_category(call: Call) -> Json:
    """Create a category."""
    body = await call.json()
    if not isinstance(body, dict):
        raise BadRequest("A category must be an object with a name")
    name: object = msgspec.convert(body, dict[str, Any]).get("name")
    return await call.service.catalog.categories.add(name)


async def show_category(call: Call) -> Json:
    """A category and its packages."""
    return await call.service.catalog.show_category(call.principal, call.path["category_id"])


async def remove_category(call: Call) -> Json:
    """Remove an empty category."""
    await call.service.catalog.categories.delete(call.path["category_id"])
    return EMPTY


SORT_KEYS = ("name", "created", "updated", "package_count", "id")


def _page(found: Sequence[Mapping[str, Any]], given: dict[str, str]) -> dict[str, object]:
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
    rows = list(found)
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
    limit = read_limit(given["limit"])
    page = rows[start : start + limit]
    marker = {"next_marker": page[-1]["id"]} if len(page) == limit else {}
    return {"categories": page, **marker}


_ALL, _ONE = "/v1/catalog/packages", "/v1/catalog/packages/{package_id}"
_CATEGORIES, _CATEGORY = "/v1/catalog/categories", "/v1/catalog/categories/{category_id}"

ENDPOINTS = [
    Endpoint("list_packages", "GET", _ALL, search, bodies.SEARCH, remembered=True,
             extras=Extras(EXTRAS.names, "packages"), reply=answers.PACKAGE_PAGE, errors=(404,)),
    Endpoint("upload_package", "POST", _ALL, upload, takes=bodies.UPLOAD, extras=EXTRAS,
             reply=answers.PACKAGE, errors=(409,)),
    Endpoint("check_package", "POST", "/v1/catalog/checks", check, takes=bodies.UPLOAD,
             reply=answers.CHECK),
    Endpoint("show_package", "GET", _ONE, show, remembered=True, extras=EXTRAS,
             reply=answers.PACKAGE),
    Endpoint("replace_package", "PUT", _ONE, replace_package, IF_MATCH, bodies.UPLOAD,
             extras=EXTRAS, reply=answers.PACKAGE, errors=(409,)),
    Endpoint("change_package", "PATCH", _ONE, change, (*bodies.FORCE, *IF_MATCH), bodies.PATCH,
             extras=EXTRAS, reply=answers.PACKAGE, errors=(409,)),
    Endpoint("delete_package", "DELETE", _ONE, remove, (*bodies.FORCE, *IF_MATCH), errors=(409,)),
    Endpoint("download_package", "GET", _ONE + "/download", archive, any_accept=True,
             remembered=True, reply=answers.DOWNLOAD, errors=(416,)),
    Endpoint("show_package_needs", "GET", _ONE + "/needs", needs, query(STRING, "language"),
             reply=answers.NEEDS),
    Endpoint("show_package_part", "GET", _ONE + "/{part}", part_of, any_accept=True,
             remembered=True, reply=answers.PART),
    Endpoint("show_repository", "GET", "/v1/catalog/repository", repository,
             reply=answers.REPOSITORY),
    Endpoint("read_bundle", "POST", "/v1/catalog/bundles", read_bundle, takes=bodies.BUNDLE,
             reply=answers.BUNDLE, errors=(404,)),
    Endpoint("import_package", "POST", "/v1/catalog/imports", import_package, takes=bodies.IMPORT,
             reply=answers.IMPORT),
    Endpoint("list_categories", "GET", _CATEGORIES, list_categories, bodies.PAGE, remembered=True,
             reply=answers.CATEGORY_PAGE, errors=(404,)),
    Endpoint("create_category", "POST", _CATEGORIES, add_category, takes=bodies.ADD_CATEGORY,
             reply=answers.CATEGORY, errors=(409,)),
    Endpoint("show_category", "GET", _CATEGORY, show_category, remembered=True,
             reply=answers.CATEGORY_WITH_PACKAGES),
    Endpoint("delete_category", "DELETE", _CATEGORY, remove_category),
]  # fmt: skip


def catalog_handlers(
    catalog: Catalog,
    uses: PackageUses,
    policy: Policy,
    rules: Mapping[str, str],
    *,
    limits: PackageLimits | None = None,
    sources: Sources | None = None,
) -> list[HTTPRouteHandler]:
    """The routes of the catalog; ``uses`` says who uses a package, ``rules`` has the policy's rules by
    the names of calls, ``sources`` says where packages come from."""
    limits = limits or PackageLimits()
    imports = Imports(catalog, sources or Sources(), limits.archive_bytes)
    services = Services(catalog, uses, limits, policy, imports)

    async def around(endpoint: Endpoint, request: AnyRequest) -> Response[object]:
        call = Call(services, request)
        policy.require_reading(call.principal, endpoint, request.method)
        policy.require(call.principal, rules.get(endpoint.name, "default"), call.path)
        return await with_tag(request, respond(request, endpoint, await endpoint.run(call)))

    return routes(ENDPOINTS, around)
