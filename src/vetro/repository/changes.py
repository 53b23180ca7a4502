"""Changes to the definitions of a project: each is all or nothing (metadata-repository.md §7, §8).

What is uploaded is unpacked, checked and parsed before the transaction begins; the transaction
compares it with what is stored then, and writes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog

from vetro.http import BadRequest, Forbidden, NotFound
from vetro.repository.incoming import ArchiveError, Incoming, read_service, read_tree
from vetro.repository.manifests import (
    ManifestError,
    manifest_file,
    manifest_of_request,
    read_manifest,
    read_mapping,
    write_manifest,
)
from vetro.repository.parsing import check_upload
from vetro.repository.paths import FILE_KINDS, MANIFESTS, parents
from vetro.repository.sets import Editor, digest_of, version_of_project
from vetro.repository.store import Repository, service_named

log = structlog.get_logger("vetro.repository")


@asynccontextmanager
async def editing(repository: Repository, project_id: str) -> AsyncGenerator[Editor]:
    """A transaction that changes a project's definitions; saved at the end of the block."""
    async with repository.database.read() as tx:
        version = await version_of_project(tx, project_id)
    if version is None:
        await repository.begin(project_id)
    async with repository.database.transaction() as tx:
        editor = await Editor.open(tx, project_id)
        if editor is None:
            raise NotFound("The project was deleted meanwhile")
        yield editor
        await editor.save(project_id, repository.database.clock.now())


def findings_of(files: Mapping[str, Mapping[str, bytes]]) -> list[str]:
    """What is wrong with some files, with places."""
    return [
        finding.at(kind, path)
        for kind, there in files.items()
        for path, content in there.items()
        for finding in check_upload(kind, path, content)
    ]


async def checked(files: Mapping[str, Mapping[str, bytes]], *, strict: bool) -> list[str]:
    """What is wrong with the files of an upload. Errors: 400 with the findings when ``strict``."""
    found = await asyncio.to_thread(findings_of, files)
    if found and strict:
        raise BadRequest("Nothing was stored: " + "; ".join(found[:20]))
    return found


# Files (§7)


async def store_file(
    repository: Repository,
    project_id: str,
    kind: str,
    directory: str,
    name: str,
    content: bytes,
    *,
    overwrite: bool = False,
    strict: bool = False,
) -> list[str]:
    """Store a file; the findings of parsing it. Errors: 400, 403 (it exists), 404 (no directory)."""
    path = f"{directory}/{name}" if directory else name
    findings = await checked({kind: {path: content}}, strict=strict)
    async with editing(repository, project_id) as editor:
        refuse_missing_directory(editor, kind, directory)
        if editor.exists(kind, path) and not (overwrite and editor.is_file(kind, path)):
            what = "file" if editor.is_file(kind, path) else "directory"
            raise Forbidden(
                f"There is a {what} {path} among the {kind} already;"
                " delete it first, or upload with overwrite=true"
            )
        editor.put(kind, path, content)
    _log("definition_stored", project_id, kind=kind, path=path, bytes=len(content))
    return findings


def refuse_missing_directory(editor: Editor, kind: str, directory: str) -> None:
    """Errors: 404 for a directory that is not there, or is a file."""
    if not editor.is_directory(kind, directory):
        raise NotFound(
            f"There is no directory {directory} among the {kind};"
            f" create it with PUT /admin/{kind}/{directory}"
        )


async def make_directory(repository: Repository, project_id: str, kind: str, path: str) -> None:
    """Create a directory and those above it (§7.3). Errors: 403 where a file stands."""
    async with editing(repository, project_id) as editor:
        for one in [*parents(path), path]:
            if editor.is_file(kind, one):
                raise Forbidden(f"{one} is a file among the {kind}: it cannot be a directory")
        editor.make_directory(kind, path)


async def remove_path(
    repository: Repository, project_id: str, kind: str, path: str, *, recursive: bool = False
) -> None:
    """Remove a file or a directory (§7.4). Errors: 403 for one that is not empty, 404."""
    async with editing(repository, project_id) as editor:
        if not editor.exists(kind, path):
            raise NotFound(f"There is no {path} among the {kind}")
        below = editor.below(kind, path)
        if below and not recursive:
            raise Forbidden(
                f"The directory {path} has {len(below)} entries;"
                " remove them first, or delete it with recursive=true"
            )
        for one in [*below, path]:
            editor.remove(kind, one)
    _log("definition_removed", project_id, kind=kind, path=path)


# Services (§8)


async def toggle(repository: Repository, project_id: str, name: str) -> bool:
    """Switch a service on or off; the new state. Errors: 404."""
    file = manifest_file(name)
    async with editing(repository, project_id) as editor:
        await _visible(repository, editor, name)
        values = read_mapping(await editor.content(MANIFESTS, file))
        enabled = not read_manifest(file, await editor.content(MANIFESTS, file)).enabled
        values["enabled"] = enabled
        editor.put(MANIFESTS, file, write_manifest(values))
    _log("service_switched", project_id, service=name, enabled=enabled)
    return enabled


async def _visible(repository: Repository, editor: Editor, name: str) -> None:
    """Errors: 404 unless there is this service now."""
    service_named(await repository.judge(editor.tx, editor.files), name)


async def put_service(
    repository: Repository, project_id: str, name: str, body: object
) -> list[str]:
    """Create or replace a manifest (§8.5); what is wrong with the service then. Errors: 400."""
    try:
        content = write_manifest(manifest_of_request(name, body))
        read_manifest(manifest_file(name), content)
    except ManifestError as error:
        raise BadRequest(str(error)) from error
    async with editing(repository, project_id) as editor:
        _refuse_directory(editor, manifest_file(name))
        editor.put(MANIFESTS, manifest_file(name), content)
    _log("service_stored", project_id, service=name)
    return []


def _refuse_directory(editor: Editor, file: str) -> None:
    if editor.exists(MANIFESTS, file) and not editor.is_file(MANIFESTS, file):
        raise Forbidden(f"{file} is a directory")


async def upload_service(
    repository: Repository,
    project_id: str,
    archive: bytes,
    *,
    overwrite: bool = False,
    strict: bool = False,
) -> list[str]:
    """Store a service with its files (§8.6). Errors: 400, and then nothing is stored."""
    try:
        manifest, incoming = await asyncio.to_thread(read_service, archive, repository.limits)
    except ArchiveError as error:
        raise BadRequest(str(error)) from error
    findings = await checked(incoming.files, strict=strict)
    findings += [f"{path}: ignored, it is of no type" for path in incoming.ignored]
    async with editing(repository, project_id) as editor:
        # The service's own manifest is replaced: that is how a service is upgraded.
        store_incoming(editor, incoming, overwrite=overwrite, replaceable=(MANIFESTS,))
    _log("service_uploaded", project_id, service=manifest.name)
    return findings


def store_incoming(
    editor: Editor, incoming: Incoming, *, overwrite: bool, replaceable: Sequence[str] = ()
) -> None:
    """Put checked content into a set. Errors: 400 where a file differs from a stored one."""
    for kind, folders in incoming.directories.items():
        for path in sorted(folders):
            if editor.is_file(kind, path):
                raise BadRequest(f"{kind}/{path} is a file in the repository, not a directory")
            editor.make_directory(kind, path)
    for kind, files in incoming.files.items():
        for path, content in files.items():
            stored = editor.files[kind].get(path, "")
            if stored is None:
                raise BadRequest(f"{kind}/{path} is a directory in the repository, not a file")
            clash = editor.clash(kind, path)
            if clash is not None:
                raise BadRequest(f"{kind}/{clash} is a file in the repository, not a directory")
            same = not stored or stored == digest_of(content)
            if not same and not overwrite and kind not in replaceable:
                raise BadRequest(
                    f"{kind}/{path} is in the repository with different content;"
                    " rename it in the archive, or upload with overwrite=true"
                )
            editor.put(kind, path, content)


async def import_tree(
    repository: Repository,
    project_id: str,
    archive: bytes,
    *,
    overwrite: bool = False,
    replace: bool = False,
    strict: bool = False,
) -> list[str]:
    """Store the definitions of an on-disk repository; ``replace``: instead of all there are.

    Errors: 400, and then nothing is stored.
    """
    try:
        incoming = await asyncio.to_thread(read_tree, archive, repository.limits, repository.layout)
    except ArchiveError as error:
        raise BadRequest(str(error)) from error
    findings = await checked(incoming.files, strict=strict)
    findings += [f"{path}: ignored, it is of no type" for path in incoming.ignored]
    async with editing(repository, project_id) as editor:
        if replace:
            editor.clear()
        store_incoming(editor, incoming, overwrite=overwrite or replace)
    count = sum(len(files) for files in incoming.files.values())
    _log("definitions_imported", project_id, files=count, replaced=replace)
    return findings


async def remove_service(
    repository: Repository, project_id: str, name: str, *, keep_files: bool = False
) -> None:
    """Remove a service, and the files that no other service lists (§8.7). Errors: 404."""
    async with editing(repository, project_id) as editor:
        definitions = await repository.judge(editor.tx, editor.files)
        service = service_named(definitions, name)
        others = [one for one in definitions.services.values() if one.name != name]
        editor.remove(MANIFESTS, manifest_file(name))
        for kind in FILE_KINDS if not keep_files else ():
            used = _listed(kind, others)
            for path in service.manifest.sections[kind]:
                if path not in used and editor.is_file(kind, path):
                    editor.remove(kind, path)
    _log("service_removed", project_id, service=name, files_kept=keep_files)


def _listed(kind: str, services: Iterable[Any]) -> set[str]:
    return {path for service in services for path in service.manifest.sections[kind]}


def _log(event: str, project_id: str, **facts: object) -> None:
    log.info(event, project=project_id, **facts)
