"""The calls of the metadata repository (metadata-repository.md §4 to §8)."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litestar import Response
from litestar.handlers import HTTPRouteHandler

from vetro.documents import DocumentError, DocumentLimits, read_json
from vetro.http import (
    BadRequest,
    Forbidden,
    MethodNotAllowed,
    NotFound,
    Policy,
    Reply,
    UnsupportedMediaType,
    content_type,
    listed,
    read_body,
    receive_multipart,
    shape,
)
from vetro.http import endpoint as http
from vetro.http.endpoint import AnyRequest, Body, respond, routes
from vetro.http.parameters import STRING, query
from vetro.json_values import Json
from vetro.repository import changes
from vetro.repository.paths import (
    CLIENT_KINDS,
    MANIFESTS,
    NAMING_RULE,
    UnsafePath,
    file_name,
    is_service_name,
    kind_named,
    sanitised_name,
    url_path,
)
from vetro.repository.store import Repository

OCTETS = "application/octet-stream"
MULTIPART_OVERHEAD = 64 * 1024
JSON_LIMITS = DocumentLimits(depth=50, nodes=100_000)
DONE: Json = {"result": "success"}

# What the calls answer, for the OpenAPI document.
_TEXT = {"type": "string"}
_TEXTS = listed(_TEXT)
_BYTES = {"type": "string", "format": "binary"}
_OCTETS = (OCTETS,)
SUCCESS = shape(
    "Done", {"result": {"type": "string", "enum": ["success"]}, "warnings": _TEXTS}, ["warnings"]
)
FILES = {"type": "object", "additionalProperties": listed({})}
SERVICE = shape("Service", {"full_service_name": _TEXT, "valid": {"type": "boolean"}})
SERVICES = shape("Services", {"services": listed(SERVICE)})
INFO = shape(
    "ServiceInfo",
    {
        "full_service_name": _TEXT,
        "valid": {"type": "boolean"},
        "errors": _TEXTS,
        "warnings": _TEXTS,
    },
)
ARCHIVE = Reply(_BYTES, media=_OCTETS)
CLIENT_ARCHIVE = Reply(_BYTES, media=_OCTETS, others={304: None})
PATH = Reply(FILES, media=("application/json", *_OCTETS))


class Call(http.Call[Repository]):
    """A request about definitions of the caller's project."""

    @property
    def project(self) -> str:
        """The project of the token."""
        return self.principal.project_id

    @property
    def kind(self) -> str:
        """The type in the path. Errors: 404."""
        kind = kind_named(self.path["kind"])
        if kind is None:
            raise NotFound(f"There is no type {self.path['kind']!r:.80}")
        return kind

    @property
    def inner_path(self) -> str:
        """The path below the type. Errors: 404."""
        try:
            return url_path(str(self.path.get("path", "")))
        except UnsafePath as error:
            raise NotFound(f"Nothing can be at this path: {error}") from error

    @property
    def name(self) -> str:
        """The service in the path. Errors: 404."""
        name = self.path["name"]
        if not is_service_name(name):
            raise NotFound(f"{name!r:.120} cannot be a service: {NAMING_RULE}")
        return name


@dataclass(frozen=True)
class Endpoint(http.Endpoint[Call]):
    """A call; ``changes``: whether it needs the role for changes, where one is set."""

    changes: bool = False


def _done(findings: list[str]) -> Json:
    return {**DONE, "warnings": findings} if findings else DONE


def _octets(content: bytes, **headers: str) -> Response[bytes]:
    return Response(content, media_type=OCTETS, headers=headers)


# Clients (§5)


async def client_archive(call: Call) -> Json:
    """The archive for a client, `ui` or `conductor`; 304 when the caller has it."""
    client = call.path["client"]
    if client not in CLIENT_KINDS:
        raise NotFound(f"There is no client type {client!r:.80}; there are ui and conductor")
    known = call.query("hash")
    archives = await call.service.archive(
        call.project, client, known or _one_tag(call.header("if-none-match"))
    )
    tag = {"ETag": f'"{archives.sha1}"', "X-Content-SHA1": archives.sha1}
    tag["Cache-Control"] = "private, no-cache"
    several = [one.strip() for one in call.header("if-none-match").split(",")]
    if archives.content is None or (not known and (tag["ETag"] in several or several == ["*"])):
        return Response(None, status_code=304, headers=tag)
    return _octets(archives.content, **tag)


def _one_tag(tags: str) -> str:
    """The hash in a header with one strong entity tag."""
    return tags[1:-1] if len(tags) == 42 and tags[0] == tags[-1] == '"' else ""


async def client_service(call: Call) -> Json:
    """One service with its files, as an archive that can be uploaded again."""
    return _octets(await call.service.service_archive(call.project, call.name))


# Files (§7)


async def list_files(call: Call) -> Json:
    """The files of a type."""
    return {call.path["kind"]: await call.service.listing(call.project, call.kind)}


async def show_path(call: Call) -> Json:
    """A file's bytes, or the files in a directory."""
    kind, path = call.kind, call.inner_path
    if not path:
        return await list_files(call)
    files = (await call.service.definitions(call.project)).files[kind]
    if path not in files:
        raise NotFound(f"There is neither a file nor a directory {path} among the {kind}")
    if files[path] is None:
        return {call.path["kind"]: await call.service.listing(call.project, kind, path)}
    return _octets(await call.service.content(call.project, kind, path))


async def upload_file(call: Call) -> Json:
    """Store a file in the root of a type, or in a directory of it."""
    kind, directory = call.kind, call.inner_path
    if directory:
        definitions = await call.service.definitions(call.project)
        if definitions.files[kind].get(directory, "") is not None:
            if kind != MANIFESTS:
                raise NotFound(
                    f"There is no directory {directory} among the {kind};"
                    f" create it with PUT /admin/{kind}/{directory}"
                )
            raise Forbidden("Manifests are not in directories: give the name of the file alone")
    name, content = await _received(call)
    findings = await changes.store_file(
        call.service,
        call.project,
        kind,
        directory,
        name,
        content,
        overwrite=call.flag("overwrite"),
        strict=call.flag("strict"),
    )
    return _done(findings)


async def replace_path(call: Call) -> Json:
    """Create a directory; with `overwrite=true` and bytes as body: store a file, whatever there is."""
    kind, path = call.kind, call.inner_path
    if not path:
        raise MethodNotAllowed("A type always exists: name a directory below it")
    if call.flag("overwrite") and content_type(call.request) == OCTETS:
        content = await read_body(call.request, call.service.settings.body_limit)
        if not content:
            raise BadRequest("The body is empty: send the file's bytes")
        directory, _, name = path.rpartition("/")
        if kind == MANIFESTS and directory:
            raise Forbidden("Manifests are not in directories: give the name of the file alone")
        findings = await changes.store_file(
            call.service,
            call.project,
            kind,
            directory,
            name,
            content,
            overwrite=True,
            strict=call.flag("strict"),
        )
        return _done(findings)
    if kind == MANIFESTS:
        raise Forbidden("Manifests are not in directories: upload the file without one")
    await changes.make_directory(call.service, call.project, kind, path)
    return DONE


async def remove_path(call: Call) -> Json:
    """Remove a file or an empty directory; with `recursive=true` one with all that is in it."""
    kind, path = call.kind, call.inner_path
    if not path:
        raise MethodNotAllowed("A type cannot be removed: name a file or a directory below it")
    await changes.remove_path(
        call.service, call.project, kind, path, recursive=call.flag("recursive")
    )
    return DONE


async def _received(call: Call) -> tuple[str, bytes]:
    """The name and the bytes of an uploaded file. Errors: 400, 413."""
    if content_type(call.request) == OCTETS:
        content = await read_body(call.request, call.service.settings.body_limit)
        if not content:
            raise BadRequest("The body is empty: send the file's bytes")
        given = call.query("filename")
        if not given:
            raise BadRequest("The query needs filename: the name to store the bytes under")
        try:
            return file_name(given), content
        except UnsafePath as error:
            raise BadRequest(f"filename: {error}") from error
    given, content = await _form_file(call, call.service.settings.body_limit)
    try:
        return sanitised_name(given), content
    except UnsafePath as error:
        raise BadRequest(str(error)) from error


async def _form_file(call: Call, limit: int) -> tuple[str, bytes]:
    """The part `file` of a form: its file name and its bytes. Errors: 400, 413."""
    with tempfile.TemporaryDirectory(prefix="vetro-upload-") as place:
        try:
            parts = await receive_multipart(
                call.request,
                Path(place),
                limit,
                max_parts=8,
                total_bytes=limit + MULTIPART_OVERHEAD,
            )
        except UnsupportedMediaType as error:
            raise BadRequest(
                f"Send the bytes as {OCTETS}, or a multipart form with a part 'file'"
            ) from error
        for part in parts:
            if part.name == "file" and part.stored is not None:
                given = part.stored
                content = given if isinstance(given, bytes) else given.read_bytes()
                return part.filename or "", content
    raise BadRequest("The form has no part 'file' with a file name")


# Services (§8)


async def list_services(call: Call) -> Json:
    """Every service of the project, valid or not, enabled or not."""
    definitions = await call.service.definitions(call.project)
    return {"services": [one.info() for one in definitions.services.values()]}


async def show_service(call: Call) -> Json:
    """The files of a service by type."""
    return (await call.service.service(call.project, call.name)).files()


async def service_info(call: Call) -> Json:
    """What the manifest says, and what is wrong with the service."""
    service = await call.service.service(call.project, call.name)
    return {
        **service.info(),
        "errors": [*service.errors, *service.form_errors],
        "warnings": list(service.warnings),
    }


async def toggle_enabled(call: Call) -> Json:
    """Switch a service on or off for clients."""
    await changes.toggle(call.service, call.project, call.name)
    return DONE


async def put_service(call: Call) -> Json:
    """Create or replace a service's manifest."""
    name = call.name
    content = await read_body(call.request, call.service.settings.body_limit)
    if not content.strip():
        raise BadRequest("The body is empty: send the manifest as a JSON object")
    try:
        body = read_json(content, JSON_LIMITS)
    except DocumentError as error:
        raise BadRequest(f"The body is {error}") from error
    await changes.put_service(call.service, call.project, name, body)
    return DONE


async def upload_service(call: Call) -> Json:
    """Store a service with all its files from an archive: all of it or nothing."""
    findings = await changes.upload_service(
        call.service,
        call.project,
        await _received_archive(call, call.service.settings.body_limit),
        overwrite=call.flag("overwrite"),
        strict=call.flag("strict"),
    )
    return _done(findings)


async def _received_archive(call: Call, limit: int) -> bytes:
    if content_type(call.request) == "multipart/form-data":
        _, content = await _form_file(call, limit)
    else:
        content = await read_body(call.request, limit)
    if not content:
        raise BadRequest("The body is empty: send the archive's bytes")
    return content


async def remove_service(call: Call) -> Json:
    """Remove a service and the files that only it lists; `keep_files=true`: the manifest alone."""
    await changes.remove_service(
        call.service, call.project, call.name, keep_files=call.flag("keep_files")
    )
    return DONE


async def reset_caches(call: Call) -> Json:
    """Forget the archives that were built; the next calls build them again."""
    await call.service.reset_caches(call.project)
    return DONE


async def import_tree(call: Call) -> Json:
    """Store the definitions of an on-disk repository, sent as a tar of its directory."""
    findings = await changes.import_tree(
        call.service,
        call.project,
        await _received_archive(call, call.service.settings.import_limit),
        overwrite=call.flag("overwrite"),
        replace=call.flag("replace"),
        strict=call.flag("strict"),
    )
    return _done(findings)


async def export_tree(call: Call) -> Json:
    """All definitions of the project as a tar.gz of an on-disk repository."""
    return _octets(await call.service.tree(call.project))


_FLAGS = query(STRING, "overwrite", "strict")
_FILE = Body({"type": "string", "format": "binary"}, OCTETS)
_MANIFEST = Body(
    {
        "type": "object",
        "properties": {
            "full_service_name": {"type": "string"},
            "service_display_name": {"type": "string"},
            "description": {"type": "string"},
            "author": {"type": "string"},
            "enabled": {"type": "boolean"},
        },
        "required": ["service_display_name"],
    }
)
_KIND, _PATH = "/v1/admin/{kind}", "/v1/admin/{kind}/{path:path}"
_SERVICES, _SERVICE = "/v1/admin/services", "/v1/admin/services/{name}"


def _endpoint(name: str, verb: str, path: str, run: Any, **given: Any) -> Endpoint:
    changing = path.startswith("/v1/admin") and verb != "GET" and run is not reset_caches
    return Endpoint(name, verb, path, run, any_accept=True, changes=changing, **given)


ENDPOINTS = [
    _endpoint("fetch_archive", "GET", "/v1/client/{client}", client_archive,
              params=query(STRING, "hash"),
              reply=CLIENT_ARCHIVE),
    _endpoint("fetch_service", "GET", "/v1/client/services/{name}", client_service,
              reply=ARCHIVE),
    _endpoint("list_files", "GET", _KIND, list_files, reply=FILES),
    _endpoint("upload_file", "POST", _KIND, upload_file,
              params=(*query(STRING, "filename"), *_FLAGS), takes=_FILE, reply=SUCCESS),
    _endpoint("show_path", "GET", _PATH, show_path,
              reply=PATH),
    _endpoint("upload_file_to_directory", "POST", _PATH, upload_file,
              params=(*query(STRING, "filename"), *_FLAGS), takes=_FILE, reply=SUCCESS),
    _endpoint("create_directory", "PUT", _PATH, replace_path, params=_FLAGS, reply=SUCCESS,
              errors=(405,)),
    _endpoint("remove_path", "DELETE", _PATH, remove_path, params=query(STRING, "recursive"),
              reply=SUCCESS, errors=(405,)),
    _endpoint("list_services", "GET", _SERVICES, list_services,
              reply=SERVICES),
    _endpoint("upload_service", "POST", _SERVICES, upload_service, params=_FLAGS, takes=_FILE,
              reply=SUCCESS),
    _endpoint("show_service", "GET", _SERVICE, show_service, reply=FILES),
    _endpoint("put_service", "PUT", _SERVICE, put_service, takes=_MANIFEST, reply=SUCCESS),
    _endpoint("remove_service", "DELETE", _SERVICE, remove_service,
              params=query(STRING, "keep_files"), reply=SUCCESS),
    _endpoint("service_info", "GET", _SERVICE + "/info", service_info, reply=INFO),
    _endpoint("toggle_enabled", "POST", _SERVICE + "/toggle_enabled", toggle_enabled,
              reply=SUCCESS),
    _endpoint("toggle_enabled_alias", "POST", _SERVICE + "/toggleEnabled", toggle_enabled,
              deprecated=True, reply=SUCCESS),
    _endpoint("reset_caches", "POST", "/v1/admin/reset_caches", reset_caches, reply=SUCCESS),
    _endpoint("import_definitions", "POST", "/v1/admin/import", import_tree,
              params=(*query(STRING, "replace"), *_FLAGS), takes=_FILE, reply=SUCCESS),
    _endpoint("export_definitions", "GET", "/v1/admin/export", export_tree,
              reply=ARCHIVE),
]  # fmt: skip


#: The rules of all calls below ``/client`` and below ``/admin`` (§4).
RULES = {"client:*": "@", "admin:*": "@"}


def repository_handlers(repository: Repository, policy: Policy) -> list[HTTPRouteHandler]:
    """The routes of the repository."""
    call = functools.partial(Call, repository)
    role = repository.settings.change_role

    async def around(endpoint: Endpoint, request: AnyRequest) -> Response[object]:
        one = call(request)
        policy.require_reading(one.principal, endpoint, request.method)
        area = endpoint.path.split("/")[2]
        policy.require(one.principal, f"{area}:*", one.path)
        if endpoint.changes and role:
            caller = one.principal
            if not caller.is_admin and role not in caller.roles:
                raise Forbidden(f"Changing definitions needs the role {role} in this project")
        return respond(request, endpoint, await endpoint.run(one))

    return routes(ENDPOINTS, around)
