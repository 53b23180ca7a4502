"""The catalog: packages and categories of all projects (catalog-api.md §6.2, §6.3, §9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import bindparam, delete, exists, or_, select, update

from vetro.blobs import BLOB_SUFFIXES, BlobStore, DirectoryBlobs
from vetro.catalog.adding import (
    REMOVED,
    Read,
    ReplacementMetadata,
    UploadMetadata,
    add_tags,
    checked_signature,
    file_in,
    insert_package,
    read_upload,
    refuse_conflicts,
    replace_archive,
)
from vetro.catalog.archives import archive_name, fetch_archive
from vetro.catalog.categories import CategoryStore
from vetro.catalog.indexing import forget_words, index_package, unindex_package
from vetro.catalog.inheritance import index_parents, making_packages
from vetro.catalog.listing import EXTRAS, package_views, search_packages
from vetro.catalog.resolving import (
    NO_PINS,
    Pins,
    ancestors_of,
    best_archive,
)
from vetro.catalog.search import PackageQuery
from vetro.catalog.tables import classes, index, package_categories, packages, tags
from vetro.catalog.uses import (
    PackageUser,
    PackageUses,
    StoredPackage,
    in_use,
    stored_package,
    stored_packages,
    users_of,
    withdrawn,
)
from vetro.http import (
    UNCONDITIONAL,
    Condition,
    Forbidden,
    NotFound,
    Principal,
)
from vetro.packages import (
    Package,
    Signers,
    open_package,
)
from vetro.storage import Database, Prepared, StorageError, StoredRow, Transaction

log = structlog.get_logger("vetro.catalog")

_PACKAGE = Prepared(
    select(packages).where(packages.c.id == bindparam("wanted"), packages.c.deleted.is_(None))
)
_OTHER = packages.alias("other")
#: What a deletion has to know: the package, the names of its classes, and what else leaves with it.
_LEAVING = Prepared(
    select(
        packages,
        index.c.names,
        index.c.is_waiting,
        exists()
        .where(_OTHER.c.archive == packages.c.archive, _OTHER.c.id != packages.c.id)
        .label("is_archive_shared"),
    )
    .join(index, index.c.package_id == packages.c.id)
    .where(packages.c.id == bindparam("wanted"), packages.c.deleted.is_(None))
)
_DELETED_ONES = Prepared(select(packages).where(packages.c.deleted.is_not(None)))
_DELETED = Prepared(
    update(packages)
    .where(packages.c.id == bindparam("wanted"))
    .values(deleted=bindparam("now", type_=packages.c.deleted.type), enabled=False)
)
_WITHOUT = {
    table: Prepared(
        delete(table).where(table.c.package_id == bindparam("wanted")).execution_options(short=True)
    )
    for table in (tags, package_categories)
}
_OF_ARCHIVE = Prepared(select(packages.c.id).where(packages.c.archive == bindparam("digest")))


ONLY_ADMINISTRATORS = "Only an administrator may make a package public"


def _unknown(id_: str) -> NotFound:
    return NotFound(f"Package id:{id_} does not exist", type_="PackageNotFound")


def _drop_file(archive: Path | bytes) -> None:
    if isinstance(archive, Path):
        archive.unlink(missing_ok=True)


def _may_replace(
    principal: Principal, row: StoredRow, metadata: ReplacementMetadata, may_publish: bool
) -> None:
    """Refuse who may not give a package another content. Errors: 403."""
    if row.owner_id != principal.project_id and not principal.is_admin:
        raise Forbidden(f"Package {row.id} belongs to another project")
    if metadata.is_public and not row.is_public and not may_publish:
        raise Forbidden(ONLY_ADMINISTRATORS)
    if row.is_public and not may_publish:
        raise Forbidden(
            f"{row.fully_qualified_name} {row.version} is public: only an administrator may replace it;"
            " raise Version in the manifest, and import that"
        )


def _log_upload(event: str, principal: Principal, view: Mapping[str, Any]) -> None:
    log.info(
        event,
        package=view["fully_qualified_name"],
        version=view["version"],
        package_id=view["id"],
        public=view["is_public"],
        user=principal.user_id,
        project=principal.project_id,
    )


class Catalog:
    """Packages and categories in a database, archives in a store or a directory of files.

    ``signers``: whose keys are known.
    """

    def __init__(
        self, database: Database, blobs: BlobStore | Path, signers: Signers | None = None
    ) -> None:
        self.database = database
        self.signers = signers or Signers()
        in_directory = isinstance(blobs, Path)
        self.blobs = DirectoryBlobs(blobs, BLOB_SUFFIXES["packages"]) if in_directory else blobs
        self.categories = CategoryStore(database)

    async def archives(self, most: int | None = 100) -> list[str]:
        """The files that the store must have: of some packages, or of all (``most`` is None)."""
        async with self.database.read() as tx:
            rows = await tx.execute(select(packages.c.archive).distinct().limit(most))
            return [archive_name(row.archive) for row in rows]

    # Packages, for users

    async def upload(
        self,
        principal: Principal,
        archive: Path | bytes,
        metadata: UploadMetadata,
        *,
        may_publish: bool = False,
    ) -> dict[str, Any]:
        """Check and add an archive: a file, which is moved or removed, or its content.

        Errors: 400, 403, 409, 507.
        """
        if metadata.is_public and not (may_publish or principal.is_admin):
            _drop_file(archive)
            raise Forbidden(ONLY_ADMINISTRATORS)
        async with self._received(archive) as (package, extended, digest):
            async with self.database.transaction() as tx:
                # Without the lock, a deletion of the same content could remove the file between
                # both steps.
                await tx.exclude(f"catalog/archive/{digest}")
                metadata.signature = checked_signature(
                    metadata.signature, digest, f"{package.full_name} {package.version}"
                )
                now = self.database.clock.now()
                view, replaced = await insert_package(
                    tx, principal, package, metadata, digest, now, self.signers
                )
                await index_parents(tx, view["id"], extended)
                await index_package(tx, view, is_new=True)
                await self._keep(tx, archive, digest)
            for former in replaced:
                await self.drop_unused(former)
        _log_upload("package_uploaded", principal, view)
        return view

    async def check_replaceable(
        self, principal: Principal, id_: str, *, may_publish: bool = False
    ) -> None:
        """Refuse who may not replace a package, before its archive is received. Errors: 403, 404."""
        async with self.database.read() as tx:
            row = await self._row(tx, id_)
        _may_replace(principal, row, ReplacementMetadata(), may_publish or principal.is_admin)

    async def replace(
        self,
        principal: Principal,
        id_: str,
        archive: Path | bytes,
        metadata: ReplacementMetadata,
        *,
        may_publish: bool = False,
        condition: Condition = UNCONDITIONAL,
    ) -> dict[str, Any]:
        """Put an archive in the place of a package of its name and version, completely or not at all.

        The package keeps its id, and environments that use it take the new content. Errors: 400, 403,
        404, 409, 412, 507; after each of them the catalog is as before.
        """
        may_publish = may_publish or principal.is_admin
        async with self._received(archive) as (package, extended, digest):
            async with self.database.transaction() as tx:
                await tx.exclude(f"catalog/package/{id_}")
                await tx.exclude(f"catalog/archive/{digest}")
                row = await self._row(tx, id_)
                _may_replace(principal, row, metadata, may_publish)
                condition.check((await package_views(tx, [row], self.signers))[0], EXTRAS)
                metadata.signature = checked_signature(
                    metadata.signature, digest, f"{package.full_name} {package.version}"
                )
                now = self.database.clock.now()
                await replace_archive(tx, row, package, metadata, digest, now)
                await index_parents(tx, id_, extended)
                view = (await package_views(tx, [await self._row(tx, id_)], self.signers))[0]
                await index_package(tx, view)
                await self._keep(tx, archive, digest)
            if row.archive != digest:
                await self.drop_unused(row.archive)
        _log_upload("package_replaced", principal, view)
        return view

    @asynccontextmanager
    async def _received(self, archive: Path | bytes) -> AsyncGenerator[Read]:
        """A checked upload. When the block fails, nothing of it stays in the store."""
        try:
            read = await read_upload(archive)
            try:
                yield read
            except BaseException:
                await self._drop_left(read[2])
                raise
        finally:
            _drop_file(archive)  # unless it was moved

    async def _keep(self, tx: Transaction, archive: Path | bytes, digest: str) -> None:
        name = archive_name(digest)
        if isinstance(archive, bytes):
            await self.blobs.add(archive, name, sha256=digest, tx=tx)
        else:
            await self.blobs.adopt(archive, name, sha256=digest, tx=tx)

    async def _drop_left(self, digest: str) -> None:
        """Remove what a failed upload may have left. A store that fails again keeps it for a sweep: the
        caller gets the first error."""
        try:
            await self.drop_unused(digest)
        except (StorageError, OSError) as error:
            log.warning("archive_left", archive=digest, error=str(error))

    async def _set_tags(self, tx: Transaction, id_: str, names: Sequence[str]) -> None:
        await tx.execute(_WITHOUT[tags], {"wanted": id_})
        await add_tags(tx, id_, names)

    async def _row(self, tx: Transaction, id_: str) -> StoredRow:
        row = (await tx.execute(_PACKAGE, {"wanted": id_})).first()
        if row is None:
            raise _unknown(id_)
        return row

    def _readable(self, principal: Principal, row: StoredRow) -> None:
        if not (row.is_public or row.owner_id == principal.project_id or principal.is_admin):
            raise Forbidden(f"Package {row.id} belongs to another project")

    async def show(self, principal: Principal, id_: str) -> dict[str, Any]:
        """One package. Errors: 403, 404."""
        async with self.database.read() as tx:
            row = await self._row(tx, id_)
            self._readable(principal, row)
            return (await package_views(tx, [row], self.signers))[0]

    async def archive_for(self, principal: Principal, id_: str) -> tuple[str, str, Path]:
        """A readable package's full name, its archive's digest and path. Errors: 403, 404."""
        async with self.database.read() as tx:
            row = await self._row(tx, id_)
        self._readable(principal, row)
        path = await fetch_archive(self.blobs, row.archive)
        return row.fully_qualified_name, row.archive, path

    async def open_for(self, principal: Principal, id_: str) -> Package:
        """A readable package. Errors: 403, 404."""
        _, _, path = await self.archive_for(principal, id_)
        return await asyncio.to_thread(open_package, path)

    async def delete(
        self,
        principal: Principal,
        id_: str,
        uses: PackageUses,
        *,
        force: bool = False,
        condition: Condition = UNCONDITIONAL,
    ) -> None:
        """Remove a package of the caller's project from the catalog.

        With ``force``, its archive stays until no environment uses it any more. Errors:
        403, 404, 409 (in use, without ``force``), 412.

        Where one unit of work writes at a time (SQLite), users are asked for within it, so what nobody
        uses is removed at once; they are asked for before it too while the answer would take long, and
        keep others from writing. Elsewhere an environment may begin to use the package meanwhile: it is
        hidden first, and its users are asked for again once nobody can find it any more.
        """
        is_alone, leaving = self.database.is_sqlite, None
        if not (is_alone and uses.answers_soon):
            async with self.database.read() as tx:
                leaving = await self._leaving(tx, principal, id_, uses, force=force)
        async with self.database.transaction() as tx:
            await tx.exclude(f"catalog/package/{id_}")
            if is_alone or leaving is None:
                leaving = await self._leaving(tx, principal, id_, uses, force=force)
            row, package, users = leaving
            if not is_alone:
                row = await self._row(tx, id_)
            if condition:
                condition.check((await package_views(tx, [row], self.signers))[0], EXTRAS)
            at_once = is_alone and not users
            if at_once:
                await forget_words(tx, id_, row)
                await tx.execute(REMOVED, {"wanted": id_})
                if not row.is_archive_shared:
                    await self.blobs.remove(archive_name(row.archive), tx=tx)
            else:
                await unindex_package(tx, id_)
                await tx.execute(_DELETED, {"wanted": id_, "now": self.database.clock.now()})
                # A deleted package does not keep its tags and categories in use.
                for statement in _WITHOUT.values():
                    await tx.execute(statement, {"wanted": id_})
        log.log(
            30 if users else 20,
            "package_deleted",
            package=package.full_name,
            version=package.version,
            package_id=id_,
            user=principal.user_id,
            project=principal.project_id,
            **({"by_force_from": [user.id for user in users]} if users else {}),
        )
        if not at_once:
            await self.drop_unused_packages(uses)

    async def _leaving(
        self, tx: Transaction, principal: Principal, id_: str, uses: PackageUses, *, force: bool
    ) -> tuple[StoredRow, StoredPackage, list[PackageUser]]:
        """A package that is to be removed, and its users. Errors: 403, 404, 409."""
        row = (await tx.execute(_LEAVING, {"wanted": id_})).first()
        if row is None:
            raise _unknown(id_)
        if row.owner_id != principal.project_id and not principal.is_admin:
            raise Forbidden(f"Package {id_} belongs to another project")
        package = stored_package(row, row.names["class_definitions"])
        users = (await users_of(self.database, [package], uses, tx)).get(id_, [])
        if users and not force:
            raise in_use(package, users, principal)
        return row, package, users

    async def drop_unused_packages(self, uses: PackageUses) -> int:
        """Remove deleted packages that no environment uses any more; returns how many."""
        async with self.database.read() as tx:
            rows = list(await tx.execute(_DELETED_ONES))
            if not rows:
                return 0
            stored = await stored_packages(tx, rows)
        used = await users_of(self.database, stored, uses)
        # Checked after they were hidden: no environment can have started to use them since.
        unused = [row for row in rows if not used.get(row.id)]
        for row in unused:
            async with self.database.transaction() as tx:
                await tx.exclude(f"catalog/archive/{row.archive}")
                await tx.execute(REMOVED, {"wanted": row.id})
                await self._drop_archive(tx, row.archive)
        return len(unused)

    async def drop_unused(self, digest: str) -> None:
        """Remove an archive from the store unless a package has it."""
        async with self.database.transaction() as tx:
            await tx.exclude(f"catalog/archive/{digest}")
            await self._drop_archive(tx, digest)

    async def _drop_archive(self, tx: Transaction, digest: str) -> None:
        if (await tx.execute(_OF_ARCHIVE, {"digest": digest})).first() is None:
            await self.blobs.remove(archive_name(digest), tx=tx)

    async def search(
        self, principal: Principal, query: PackageQuery
    ) -> tuple[list[dict[str, Any]], str | None]:
        """A page of packages and the marker of the next. Errors: 404 for an unknown marker.

        A page continues after the marker's place in the order, whatever was added or removed
        meanwhile.
        """
        return await search_packages(self.database, principal, query, self.signers)

    async def show_category(self, principal: Principal, id_: str) -> dict[str, object]:
        """A category and those of its packages that the caller may see. Errors: 404."""
        category = await self.categories.get(id_)
        names = [category["name"]]
        query = PackageQuery(include_disabled=True, categories=names, limit=10_000)
        views, _ = await self.search(principal, query)
        keys = ("id", "name", "fully_qualified_name")
        return {**category, "packages": [{k: view[k] for k in keys} for view in views]}

    async def _refuse_withdrawal(
        self,
        principal: Principal,
        id_: str,
        operations: object,
        uses: PackageUses,
        *,
        force: bool,
    ) -> None:
        """Refuse to withdraw a public package that environments of other projects use."""
        from vetro.catalog.patching import parse_operations

        async with self.database.read() as tx:
            row = await self._row(tx, id_)
            if row.owner_id != principal.project_id and not principal.is_admin:
                return  # the patch is refused for that
            view = (await package_views(tx, [row], self.signers))[0]
            (package,) = await stored_packages(tx, [row])
        before = dict(view)
        for change in parse_operations(operations):
            change.apply(view)
        taken = [key for key in ("is_public", "enabled") if before[key] and not view[key]]
        if not before["is_public"] or not taken:
            return
        found = (await users_of(self.database, [package], uses)).get(id_, [])
        others = [user for user in found if user.project_id != row.owner_id]
        if others and not force:
            raise withdrawn(package, others, principal, private="is_public" in taken)
        if others:
            log.warning(
                "package_withdrawn",
                package=package.full_name,
                version=package.version,
                package_id=id_,
                user=principal.user_id,
                project=principal.project_id,
                changed=taken,
                by_force_from=[user.id for user in others],
            )

    async def patch(
        self,
        principal: Principal,
        id_: str,
        operations: object,
        uses: PackageUses,
        *,
        force: bool = False,
        may_publish: bool = False,
        condition: Condition = UNCONDITIONAL,
    ) -> dict[str, Any]:
        """Apply a package patch, completely or not at all. Errors: 400, 403, 404, 409, 412.

        409 also when it withdraws a public package that other projects use (without ``force``).
        """
        from vetro.catalog.patching import parse_operations

        await self._refuse_withdrawal(principal, id_, operations, uses, force=force)
        async with self.database.transaction() as tx:
            await tx.exclude(f"catalog/package/{id_}")
            row = await self._row(tx, id_)
            self._readable(principal, row)
            changes = parse_operations(operations)
            makes_public = any(c.path == "is_public" and c.value is True for c in changes)
            if makes_public and not (may_publish or principal.is_admin):
                raise Forbidden(ONLY_ADMINISTRATORS)
            if row.owner_id != principal.project_id and not principal.is_admin:
                raise Forbidden(f"Package {id_} belongs to another project")
            view = (await package_views(tx, [row], self.signers))[0]
            condition.check(view, EXTRAS)
            signature = row.signature
            for change in changes:
                if change.path == "signature":
                    signature = checked_signature(
                        change.value, row.archive, f"{row.fully_qualified_name} {row.version}"
                    )
                else:
                    change.apply(view)
            if makes_public and not row.is_public:
                await refuse_conflicts(
                    tx,
                    fqn=row.fully_qualified_name,
                    version=row.version,
                    owner=row.owner_id,
                    class_names=view["class_definitions"],
                    public=True,
                    except_id=id_,
                )
            await tx.execute(
                update(packages)
                .where(packages.c.id == id_)
                .values(
                    name=view["name"],
                    description=view["description"],
                    is_public=view["is_public"],
                    enabled=view["enabled"],
                    signature=signature,
                    updated=self.database.clock.now(),
                )
            )
            await self._set_tags(tx, id_, view["tags"])
            await file_in(tx, id_, view["categories"])
            view = (await package_views(tx, [await self._row(tx, id_)], self.signers))[0]
            await index_package(tx, view)
            return view

    async def usable(self, project_id: str) -> list[StoredPackage]:
        """The packages that a project's environments can move to: enabled, its own or public."""
        near = or_(packages.c.is_public, packages.c.owner_id == project_id)
        query = select(packages).where(near, packages.c.enabled, packages.c.deleted.is_(None))
        async with self.database.read() as tx:
            return await stored_packages(tx, list(await tx.execute(query)))

    async def making(self, principal: Principal, names: Sequence[str]) -> list[dict[str, Any]]:
        """The enabled packages that can make an object of these classes, each with its ``classes`` of them.

        They declare the class, or are applications with a class that inherits it.
        """
        return await making_packages(self.database, self.blobs, principal, names)

    async def ancestors(self, tx: Transaction, principal: Principal, name: str) -> tuple[str, ...]:
        """The classes that a class inherits, as far as the project's packages define them."""
        return await ancestors_of(tx, self.blobs, name, principal.project_id)

    # Packages, for the engine

    async def find_package(
        self, name: str, spec: str, project_id: str | None, pinned: Pins = NO_PINS
    ) -> Package | None:
        """The best version of a package that a project may use (packages-and-forms.md A7).

        ``pinned``: packages and versions of the environment's last run. They are found even if they
        were deleted or disabled since.
        """
        named = packages.c.fully_qualified_name == name
        return await self._best(named, spec, project_id, pinned)

    async def find_package_for_class(
        self, class_name: str, spec: str, project_id: str | None, pinned: Pins = NO_PINS
    ) -> Package | None:
        """The package that declares a class: the project's own before a public one."""
        declares = packages.c.id.in_(
            select(classes.c.package_id).where(classes.c.name == class_name)
        )
        return await self._best(declares, spec, project_id, pinned)

    async def _best(
        self, condition: object, spec: str, project_id: str | None, pinned: Pins
    ) -> Package | None:
        archive = await best_archive(self.database, condition, spec, project_id, pinned)
        if archive is None:
            return None
        return open_package(await fetch_archive(self.blobs, archive))
