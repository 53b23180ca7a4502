"""Adding a package to the catalog: what an upload is checked for, and the rows that it becomes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from sqlalchemy import and_, bindparam, delete, insert, or_, select, update

from vetro.catalog.categories import category_id
from vetro.catalog.indexing import unindex_package
from vetro.catalog.inheritance import parents_in
from vetro.catalog.listing import package_object
from vetro.catalog.tables import (
    add_rows,
    classes,
    package_categories,
    packages,
    parents,
    tags,
)
from vetro.http import BadRequest, Conflict, Principal
from vetro.json_texts import decode_json
from vetro.packages import (
    MAX_TAGS,
    ArchiveLimits,
    Package,
    PackageError,
    Signers,
    check_upload,
    known_formats,
    open_package,
    other_errors,
    parse_signature,
)
from vetro.random_ids import random_hex
from vetro.storage import Prepared, StoredRow, Transaction

SHOWN_ERRORS = 20
"""Mistakes that the refusal of an upload names beside the first."""
QUICK_BYTES = 2048
"""Of an archive and of its content that are checked on the event loop: in 0.3 ms, if it is
nothing but mistakes in 14. A thread costs 0.1 ms of processor time and two waits for the scheduler."""
QUICK = ArchiveLimits(content_bytes=QUICK_BYTES, members=32)

Read = tuple[Package, list[tuple[str, str]], str]
"""A package, its classes with what they extend, the digest of its archive."""
_is_loaded = False
"""Whether the modules that a check needs are loaded."""


class UploadMetadata(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON part of an upload."""

    tags: list[str] = []
    categories: list[str] = []
    description: str | None = None
    name: str | None = None
    is_public: bool = False
    enabled: bool = True
    signature: str | None = None


class ReplacementMetadata(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON part of a replacement: what is not given stays as it is, and what is public stays public."""

    tags: list[str] | None = None
    categories: list[str] | None = None
    is_public: bool = False
    signature: str | None = None


_NEW_PACKAGE = Prepared(insert(packages))
REMOVED = Prepared(
    delete(packages)
    .where(packages.c.id == bindparam("wanted"))
    .returning(packages.c.id)
    .execution_options(short=True)
)
#: With those that are deleted: one of a new package's version is replaced by it.
_NAMED = Prepared(
    select(packages).where(
        packages.c.id != bindparam("except_id"),
        packages.c.fully_qualified_name == bindparam("name"),
    )
)
_TAKEN = Prepared(
    select(classes.c.name, packages.c.fully_qualified_name)
    .join(packages, packages.c.id == classes.c.package_id)
    .where(
        packages.c.id != bindparam("except_id"),
        packages.c.deleted.is_(None),
        or_(
            packages.c.owner_id == bindparam("owner"),
            and_(bindparam("public", type_=packages.c.is_public.type), packages.c.is_public),
        ),
        # Versions of one package declare the same classes.
        packages.c.fully_qualified_name != bindparam("name"),
        classes.c.name.in_(bindparam("classes", expanding=True)),
    )
)


async def read_upload(given: Path | bytes) -> Read:
    """A checked package, its classes with what they extend, and the digest of the archive. Errors: 400."""
    global _is_loaded
    # Plug-ins of formats may do what takes long.
    may_be_quick = _is_loaded and not known_formats()
    if may_be_quick and isinstance(given, bytes) and len(given) <= QUICK_BYTES:
        # More than it seems is left to a thread, and so is all that is wrong: to list it takes a while.
        with contextlib.suppress(PackageError):
            return _described(open_checked(given, QUICK), given)
    found = await asyncio.to_thread(_read_whole, given)
    _is_loaded = True
    return found


def _read_whole(given: Path | bytes) -> Read:
    content = given if isinstance(given, bytes) else given.read_bytes()
    try:
        package = open_checked(content)
    except PackageError as error:
        # All mistakes are reported at once, so that the author corrects the package once.
        more = other_errors(given, error)
        listed = "".join(f"\n{text}" for text in more[:SHOWN_ERRORS])
        if more[SHOWN_ERRORS:]:
            listed += f"\nand {len(more) - SHOWN_ERRORS} more"
        raise BadRequest(
            f"Couldn't load package from file: {error}{listed}", type_=type(error).__name__
        ) from error
    return _described(package, content)


def open_checked(content: bytes, limits: ArchiveLimits | None = None) -> Package:
    """A package that the catalog accepts. Errors: ``PackageError``."""
    package = open_package(content, limits=limits)
    check_upload(package)
    return package


def _described(package: Package, content: bytes) -> Read:
    manifest = package.manifest
    for value, name, limit in (
        (manifest.name, "Name", 80),
        (manifest.full_name, "FullName", 128),
        (manifest.author or "", "Author", 80),
        *((one, "class name", 128) for one in manifest.classes),
        *((one, "tag", 80) for one in manifest.tags),
    ):
        if len(value) > limit:
            raise BadRequest(f"{name} {value[:40]}… is longer than {limit} characters")
    return package, parents_in(package), sha256(content).hexdigest()


async def insert_package(
    tx: Transaction,
    principal: Principal,
    package: Package,
    metadata: UploadMetadata,
    digest: str,
    now: datetime,
    signers: Signers,
) -> tuple[dict[str, Any], list[str]]:
    """Store a package; what it shows, and the archives of deleted ones that it replaces.

    A deleted package of this name and version is removed, and its environments use this one.
    """
    manifest = package.manifest
    deleted = await refuse_conflicts(
        tx,
        fqn=manifest.full_name,
        version=manifest.version,
        owner=principal.project_id,
        class_names=list(manifest.classes),
        public=metadata.is_public,
    )
    replaced = [
        row
        for row in deleted
        if row.owner_id == principal.project_id and row.version == manifest.version
    ]
    for row in replaced:
        await unindex_package(tx, row.id)
        await tx.execute(REMOVED, {"wanted": row.id})
    category_names = list(dict.fromkeys(metadata.categories))
    category_ids = [await category_id(tx, name) for name in category_names]
    id_ = random_hex()
    values = {
        **_of_archive(package, digest, metadata.signature, now),
        "id": id_,
        "owner_id": principal.project_id,
        "is_public": metadata.is_public,
        "enabled": metadata.enabled,
        "created": now,
    }
    await tx.execute(_NEW_PACKAGE, values)
    await add_rows(tx, classes, [{"package_id": id_, "name": one} for one in manifest.classes])
    tag_names = await add_tags(tx, id_, [*manifest.tags, *metadata.tags])
    filed = [{"package_id": id_, "category_id": one} for one in category_ids]
    await add_rows(tx, package_categories, filed)
    names = {
        "class_definitions": sorted(manifest.classes),
        "tags": tag_names,
        "categories": sorted(category_names),
    }
    # As it is read later: values of YAML without a JSON form are stored as they are in JSON.
    supplier: object = decode_json(msgspec.json.encode(values["supplier"]))
    row: Any = SimpleNamespace(**{**values, "supplier": supplier})
    return package_object(row, names, signers), [str(one.archive) for one in replaced]


async def replace_archive(
    tx: Transaction,
    row: StoredRow,
    package: Package,
    metadata: ReplacementMetadata,
    digest: str,
    now: datetime,
) -> None:
    """Give the package ``row`` another archive of its name and version: it keeps its id and its users.

    What the metadata does not say stays; words of the manifest's tags are added. Errors: 400, 409.
    """
    manifest, id_ = package.manifest, str(row.id)
    if manifest.full_name != row.fully_qualified_name or manifest.version != row.version:
        raise BadRequest(
            f"The archive is {manifest.full_name} {manifest.version}, and can only replace a package"
            f" of that name and version, not {row.fully_qualified_name} {row.version}: upload it beside"
        )
    public = bool(row.is_public or metadata.is_public)
    await refuse_conflicts(
        tx,
        fqn=manifest.full_name,
        version=manifest.version,
        owner=row.owner_id,
        class_names=list(manifest.classes),
        public=public,
        except_id=id_,
    )
    had = (
        await tx.execute(select(tags).where(tags.c.package_id == id_).order_by(tags.c.position))
    ).all()
    chosen = [one.name for one in had] if metadata.tags is None else metadata.tags
    for table in (classes, parents, tags):
        await tx.execute(delete(table).where(table.c.package_id == id_))
    await add_rows(tx, classes, [{"package_id": id_, "name": one} for one in manifest.classes])
    await add_tags(tx, id_, [*manifest.tags, *chosen])
    if metadata.categories is not None:
        await file_in(tx, id_, metadata.categories)
    values = {
        **_of_archive(package, digest, metadata.signature, now),
        "is_public": public,
    }
    if metadata.signature is None and digest == row.archive:
        values["signature"] = row.signature
    await tx.execute(update(packages).where(packages.c.id == id_).values(**values))


async def file_in(tx: Transaction, id_: str, names: Sequence[str]) -> None:
    """Put a package into these categories and no others. Errors: 400."""
    ids = [await category_id(tx, name) for name in names]
    await tx.execute(delete(package_categories).where(package_categories.c.package_id == id_))
    filed = [{"package_id": id_, "category_id": one} for one in dict.fromkeys(ids)]
    await add_rows(tx, package_categories, filed)


def _of_archive(
    package: Package, digest: str, signature: str | None, now: datetime
) -> dict[str, object]:
    """What the catalog knows of a package from its archive."""
    manifest = package.manifest
    return {
        "fully_qualified_name": manifest.full_name,
        "version": manifest.version,
        "name": manifest.name,
        "type": manifest.type,
        "author": manifest.author,
        "description": manifest.description,
        "supplier": {k: v for k, v in manifest.supplier.items() if k != "Logo"},
        "archive": digest,
        "signature": signature,
        "parents_known": True,
        "updated": now,
    }


def checked_signature(text: str | None, digest: str, called: str) -> str | None:
    """A signature of an archive with this digest, as it is stored. Errors: 400."""
    if text is None:
        return None
    try:
        signature = parse_signature(text)
    except PackageError as error:
        raise BadRequest(error.message, type_=type(error).__name__) from error
    if not signature.belongs_to(digest):
        raise BadRequest(
            f"The signature is not one of the archive of {called}"
            f" (SHA-256 {digest}): sign the file that was uploaded"
        )
    return signature.text()


async def refuse_conflicts(
    tx: Transaction,
    *,
    fqn: str,
    version: str,
    owner: str,
    class_names: Sequence[str],
    public: bool,
    except_id: str = "",
) -> list[StoredRow]:
    """Refuse a name or class that is taken in this project (or in public). Errors: 409.

    The catalog of the project (and the public one) is locked until the end of ``tx``. Returns the
    deleted packages of that name.
    """
    held = [f"catalog/{owner}", *(["catalog/public"] if public else [])]
    await tx.exclude(*held)
    deleted: list[StoredRow] = []
    for row in await tx.execute(_NAMED, {"except_id": except_id, "name": fqn}):
        if row.deleted is not None:
            deleted.append(row)
            continue
        if row.owner_id == owner and row.version == version:
            raise Conflict(
                f"Package {fqn} {version} is in this project's catalog already;"
                " replace it, or raise Version in the manifest",
                extra={"package_id": row.id},
            )
        if public and row.is_public and row.version == version:
            raise Conflict(f"A public package {fqn} {version} exists already")
    if not class_names:
        return deleted
    given = {
        "except_id": except_id,
        "name": fqn,
        "owner": owner,
        "public": public,
        "classes": list(class_names),
    }
    taken = (await tx.execute(_TAKEN, given)).first()
    if taken is not None:
        raise Conflict(
            f"Class {taken.name} is declared by package {taken.fully_qualified_name} already"
        )
    return deleted


async def add_tags(tx: Transaction, id_: str, names: Sequence[str]) -> list[str]:
    """Store the tags of a package without any; each once. Errors: 400."""
    wanted = list(dict.fromkeys(names))
    if len(wanted) > MAX_TAGS:
        raise BadRequest(f"A package has at most {MAX_TAGS} tags, not {len(wanted)}")
    rows = [
        {"package_id": id_, "name": name, "position": position}
        for position, name in enumerate(wanted)
    ]
    await add_rows(tx, tags, rows)
    return wanted
