"""The catalog: packages and categories of all projects (catalog-api.md §6.2, §6.3, §9)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Row, and_, delete, func, insert, or_, select, update

from vetro.catalog.blobs import BlobStore, digest_of
from vetro.catalog.search import ORDER_COLUMNS, PackageQuery
from vetro.catalog.tables import categories, classes, package_categories, packages, tags
from vetro.catalog.times import api_time
from vetro.http import BadRequest, Conflict, Forbidden, NotFound, Principal
from vetro.muranopl.versions import Version, version_spec
from vetro.packages import Package, PackageError, open_package
from vetro.storage import Database, Transaction


class UploadMetadata(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON part of an upload."""

    tags: list[str] = []
    categories: list[str] = []
    description: str | None = None
    name: str | None = None
    is_public: bool = False
    enabled: bool = True


def new_id() -> str:
    """A random id: 32 lower-case hex digits."""
    return uuid.uuid4().hex


class Catalog:
    """Packages and categories in a database, archives in a directory."""

    def __init__(self, database: Database, blob_dir: Path) -> None:
        self.database = database
        self.blobs = BlobStore(blob_dir)

    # Packages, for users

    async def upload(
        self, principal: Principal, file: Path, metadata: UploadMetadata
    ) -> dict[str, Any]:
        """Check and add the archive in ``file`` (which is moved or removed). Errors: 400, 403, 409."""
        digest = ""
        try:
            # Parsing every class takes a while: others are served meanwhile.
            package = await asyncio.to_thread(self._checked, file)
            if metadata.is_public and not principal.is_admin:
                raise Forbidden("Only an administrator may make a package public")
            digest = await asyncio.to_thread(digest_of, file)
            async with self.database.transaction() as tx:
                # A deletion of the same content must not remove the file between these two steps.
                await tx.exclude(f"catalog/archive/{digest}")
                id_ = await self._insert(tx, principal, package, metadata, digest)
                row = await self._row(tx, id_)
                view = (await self._view(tx, [row]))[0]
                self.blobs.adopt(file, digest)
                return view
        except BaseException:
            if digest:
                await self._drop_unused(digest)
            raise
        finally:
            file.unlink(missing_ok=True)

    def _checked(self, file: Path) -> Package:
        try:
            package = open_package(file)
            package.check_classes()
        except PackageError as error:
            raise BadRequest(
                f"Couldn't load package from file: {error}", type_=type(error).__name__
            ) from error
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
        return package

    async def _insert(
        self,
        tx: Transaction,
        principal: Principal,
        package: Package,
        metadata: UploadMetadata,
        digest: str,
    ) -> str:
        manifest = package.manifest
        await self._refuse_conflicts(
            tx,
            fqn=manifest.full_name,
            version=manifest.version,
            owner=principal.project_id,
            class_names=list(manifest.classes),
            public=metadata.is_public,
        )
        category_ids = [await self._category_id(tx, name) for name in metadata.categories]
        id_, now = new_id(), self.database.clock.now()
        await tx.execute(
            insert(packages).values(
                id=id_,
                fully_qualified_name=manifest.full_name,
                version=manifest.version,
                name=manifest.name,
                type=manifest.type,
                author=manifest.author,
                description=manifest.description,
                supplier={k: v for k, v in manifest.supplier.items() if k != "Logo"},
                owner_id=principal.project_id,
                is_public=metadata.is_public,
                enabled=metadata.enabled,
                archive=digest,
                created=now,
                updated=now,
            )
        )
        for name in manifest.classes:
            await tx.execute(insert(classes).values(package_id=id_, name=name))
        await self._set_tags(tx, id_, [*manifest.tags, *metadata.tags])
        for category_id in dict.fromkeys(category_ids):
            await tx.execute(
                insert(package_categories).values(package_id=id_, category_id=category_id)
            )
        return id_

    async def _refuse_conflicts(
        self,
        tx: Transaction,
        *,
        fqn: str,
        version: str,
        owner: str,
        class_names: Sequence[str],
        public: bool,
        except_id: str = "",
    ) -> None:
        """409 when the name, or a class of it, is taken in this project (or in public).

        Who checks holds the catalog of the project (and the public one) until the end of ``tx``.
        """
        held = [f"catalog/{owner}", *(["catalog/public"] if public else [])]
        await tx.exclude(*held)
        others = packages.c.id != except_id
        query = select(packages).where(others, packages.c.fully_qualified_name == fqn)
        for row in await tx.execute(query):
            if row.owner_id == owner and row.version == version:
                raise Conflict(
                    f"Package {fqn} {version} is in this project's catalog already;"
                    " delete it first, or raise Version in the manifest"
                )
            if public and row.is_public and row.version == version:
                raise Conflict(f"A public package {fqn} {version} exists already")
        if not class_names:
            return
        near = packages.c.owner_id == owner
        if public:
            near = or_(near, packages.c.is_public)
        query = (
            select(classes.c.name, packages.c.fully_qualified_name)
            .join(packages, packages.c.id == classes.c.package_id)
            # Versions of one package declare the same classes.
            .where(others, near, packages.c.fully_qualified_name != fqn)
            .where(classes.c.name.in_(list(class_names)))
        )
        taken = (await tx.execute(query)).first()
        if taken is not None:
            raise Conflict(
                f"Class {taken.name} is declared by package {taken.fully_qualified_name} already"
            )

    async def _set_tags(self, tx: Transaction, id_: str, names: Sequence[str]) -> None:
        await tx.execute(delete(tags).where(tags.c.package_id == id_))
        for position, name in enumerate(dict.fromkeys(names)):
            await tx.execute(insert(tags).values(package_id=id_, name=name, position=position))

    async def _category_id(self, tx: Transaction, name: str) -> str:
        await tx.exclude("catalog/categories")
        row = (await tx.execute(select(categories).where(categories.c.name == name))).first()
        if row is None:
            raise BadRequest(f"Category '{name}' doesn't exist")
        return str(row.id)

    async def _row(self, tx: Transaction, id_: str) -> Row[Any]:
        row = (await tx.execute(select(packages).where(packages.c.id == id_))).first()
        if row is None:
            raise NotFound(f"Package id:{id_} does not exist", type_="PackageNotFound")
        return row

    def _readable(self, principal: Principal, row: Row[Any]) -> None:
        if not (row.is_public or row.owner_id == principal.project_id or principal.is_admin):
            raise Forbidden(f"Package {row.id} belongs to another project")

    async def _view(self, tx: Transaction, rows: Sequence[Row[Any]]) -> list[dict[str, Any]]:
        ids = [row.id for row in rows]
        names: dict[str, dict[str, list[str]]] = {
            id_: {"class_definitions": [], "tags": [], "categories": []} for id_ in ids
        }
        parts = (
            (
                "class_definitions",
                select(classes.c.package_id, classes.c.name).order_by(classes.c.name),
            ),
            ("tags", select(tags.c.package_id, tags.c.name).order_by(tags.c.position)),
            (
                "categories",
                select(package_categories.c.package_id, categories.c.name)
                .join(categories, categories.c.id == package_categories.c.category_id)
                .order_by(categories.c.name),
            ),
        )
        for key, query in parts:
            column = query.selected_columns[0]
            for row in await tx.execute(query.where(column.in_(ids))):
                names[row.package_id][key].append(row.name)
        return [
            {
                "id": row.id,
                "name": row.name,
                "fully_qualified_name": row.fully_qualified_name,
                "version": row.version,
                "type": row.type,
                "author": row.author or "",
                "description": row.description or "",
                "supplier": row.supplier,
                **names[row.id],
                "owner_id": row.owner_id,
                "is_public": row.is_public,
                "enabled": row.enabled,
                "created": api_time(row.created),
                "updated": api_time(row.updated),
            }
            for row in rows
        ]

    async def show(self, principal: Principal, id_: str) -> dict[str, Any]:
        """One package. Errors: 403, 404."""
        async with self.database.read() as tx:
            row = await self._row(tx, id_)
            self._readable(principal, row)
            return (await self._view(tx, [row]))[0]

    async def open_for(self, principal: Principal, id_: str) -> tuple[Package, Path]:
        """A readable package and its archive. Errors: 403, 404."""
        async with self.database.read() as tx:
            row = await self._row(tx, id_)
        self._readable(principal, row)
        path = self.blobs.path(row.archive)
        return open_package(path), path

    async def delete(self, principal: Principal, id_: str) -> None:
        """Remove a package of the caller's project. Errors: 403, 404."""
        async with self.database.transaction() as tx:
            row = await self._row(tx, id_)
            if row.owner_id != principal.project_id and not principal.is_admin:
                raise Forbidden(f"Package {id_} belongs to another project")
            await tx.execute(delete(packages).where(packages.c.id == id_))
        await self._drop_unused(row.archive)

    async def _drop_unused(self, digest: str) -> None:
        async with self.database.transaction() as tx:
            await tx.exclude(f"catalog/archive/{digest}")
            used = await tx.execute(select(packages.c.id).where(packages.c.archive == digest))
            if used.first() is None:
                self.blobs.remove(digest)

    def _visible(self, principal: Principal, query: PackageQuery) -> Any:
        mine = packages.c.owner_id == principal.project_id
        conditions: list[Any] = []
        if query.catalog or not principal.is_admin:
            conditions.append(or_(mine, packages.c.is_public))
        if query.owned:
            conditions.append(mine)
        if not query.include_disabled:
            conditions.append(packages.c.enabled)
        for value, column in (
            (query.fqn, packages.c.fully_qualified_name),
            (query.name, packages.c.name),
            (query.version, packages.c.version),
        ):
            if value is not None:
                conditions.append(column == value)
        if query.type is not None:
            conditions.append(func.lower(packages.c.type) == query.type.lower())
        if query.ids is not None:
            conditions.append(packages.c.id.in_(query.ids))
        if query.class_name is not None:
            conditions.append(
                packages.c.id.in_(
                    select(classes.c.package_id).where(classes.c.name == query.class_name)
                )
            )
        if query.tags is not None:
            conditions.append(
                packages.c.id.in_(select(tags.c.package_id).where(tags.c.name.in_(query.tags)))
            )
        if query.categories is not None:
            conditions.append(
                packages.c.id.in_(
                    select(package_categories.c.package_id)
                    .join(categories, categories.c.id == package_categories.c.category_id)
                    .where(categories.c.name.in_(query.categories))
                )
            )
        return and_(*conditions) if conditions else packages.c.id.is_not(None)

    async def search(
        self, principal: Principal, query: PackageQuery
    ) -> tuple[list[dict[str, Any]], str | None]:
        """A page of packages and the marker of the next. Errors: 404 for an unknown marker."""
        async with self.database.read() as tx:
            rows = list(await tx.execute(select(packages).where(self._visible(principal, query))))
            ranked = await self._ranked(tx, rows, query)
            start = 0
            if query.marker is not None:
                ids = [row.id for row in ranked]
                if query.marker not in ids:
                    raise NotFound(f"Marker {query.marker} is not the id of a package in this list")
                start = ids.index(query.marker) + 1
            page = ranked[start : start + query.limit]
            more = len(ranked) > start + query.limit
            views = await self._view(tx, page)
        return views, (page[-1].id if page and more else None)

    async def _ranked(
        self, tx: Transaction, rows: list[Row[Any]], query: PackageQuery
    ) -> list[Row[Any]]:
        """Rows in the asked order; with ``search`` only matching ones, best field first."""
        for name in reversed([ORDER_COLUMNS[one] for one in query.order_by] + ["id"]):
            rows.sort(key=lambda row, name=name: getattr(row, name), reverse=query.descending)
        if not query.search:
            return rows
        words = [word.lower() for word in query.search]
        views = {view["id"]: view for view in await self._view(tx, rows)}

        def weight(row: Row[Any]) -> int:
            view = views[row.id]
            fields = (
                view["name"],
                view["fully_qualified_name"],
                view["description"],
                " ".join(view["categories"]),
                " ".join(view["tags"]),
                " ".join(view["class_definitions"]),
                view["author"],
                view["type"],
            )
            for rank, text in enumerate(fields):
                if any(word in text.lower() for word in words):
                    return rank
            return -1

        weighed = [(weight(row), row) for row in rows]
        found = [pair for pair in weighed if pair[0] >= 0]
        return [pair[1] for pair in sorted(found, key=lambda pair: pair[0])]

    async def patch(self, principal: Principal, id_: str, operations: object) -> dict[str, Any]:
        """Apply a package patch; all of it or nothing. Errors: 400, 403, 404, 409."""
        from vetro.catalog.patching import parse_operations

        async with self.database.transaction() as tx:
            await tx.exclude(f"catalog/package/{id_}")
            row = await self._row(tx, id_)
            self._readable(principal, row)
            changes = parse_operations(operations)
            makes_public = any(c.path == "is_public" and c.value is True for c in changes)
            if makes_public and not principal.is_admin:
                raise Forbidden("Only an administrator may make a package public")
            if row.owner_id != principal.project_id and not principal.is_admin:
                raise Forbidden(f"Package {id_} belongs to another project")
            view = (await self._view(tx, [row]))[0]
            for change in changes:
                change.apply(view)
            if makes_public and not row.is_public:
                await self._refuse_conflicts(
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
                    updated=self.database.clock.now(),
                )
            )
            await self._set_tags(tx, id_, view["tags"])
            ids = [await self._category_id(tx, name) for name in view["categories"]]
            await tx.execute(
                delete(package_categories).where(package_categories.c.package_id == id_)
            )
            for category_id in dict.fromkeys(ids):
                await tx.execute(
                    insert(package_categories).values(package_id=id_, category_id=category_id)
                )
            return (await self._view(tx, [await self._row(tx, id_)]))[0]

    # Packages, for the engine

    async def find_package(self, name: str, spec: str, project_id: str | None) -> Package | None:
        """The best version of a package that a project may use (packages-and-forms.md A7)."""
        return await self._best(packages.c.fully_qualified_name == name, spec, project_id)

    async def find_package_for_class(
        self, class_name: str, spec: str, project_id: str | None
    ) -> Package | None:
        """The package that declares a class: the project's own before a public one."""
        declares = packages.c.id.in_(
            select(classes.c.package_id).where(classes.c.name == class_name)
        )
        return await self._best(declares, spec, project_id)

    async def _best(self, condition: Any, spec: str, project_id: str | None) -> Package | None:
        near = or_(packages.c.is_public, packages.c.owner_id == (project_id or ""))
        query = select(packages).where(condition, packages.c.enabled, near)
        async with self.database.read() as tx:
            rows = list(await tx.execute(query))
        wanted = version_spec(spec or None)
        fitting = [row for row in rows if Version.parse(row.version) in wanted]
        if not fitting:
            return None
        best = max(
            fitting, key=lambda row: (row.owner_id == project_id, Version.parse(row.version))
        )
        return open_package(self.blobs.path(best.archive))

    # Categories

    async def list_categories(self) -> list[dict[str, Any]]:
        """All categories with their number of packages."""
        count = (
            select(func.count())
            .where(package_categories.c.category_id == categories.c.id)
            .scalar_subquery()
        )
        query = select(categories, count.label("package_count")).order_by(categories.c.name)
        async with self.database.read() as tx:
            return [self._category(row) for row in await tx.execute(query)]

    def _category(self, row: Row[Any]) -> dict[str, Any]:
        return {
            "id": row.id,
            "name": row.name,
            "created": api_time(row.created),
            "updated": api_time(row.updated),
            "package_count": row.package_count,
        }

    async def add_category(self, principal: Principal, name: object) -> dict[str, Any]:
        """Create a category. Errors: 400, 403, 409."""
        if not principal.is_admin:
            raise Forbidden("Only an administrator may add categories")
        if not isinstance(name, str) or not name.strip():
            raise BadRequest("A category needs a name")
        if len(name) > 80:
            raise BadRequest("A category's name has at most 80 characters")
        now = self.database.clock.now()
        async with self.database.transaction() as tx:
            await tx.exclude("catalog/categories")
            taken = await tx.execute(select(categories).where(categories.c.name == name))
            if taken.first() is not None:
                raise Conflict(f"Category '{name}' exists already")
            values = {"id": new_id(), "name": name, "created": now, "updated": now}
            await tx.execute(insert(categories).values(**values))
        return {
            "id": values["id"],
            "name": name,
            "created": api_time(now),
            "updated": api_time(now),
            "package_count": 0,
        }

    async def show_category(self, principal: Principal, id_: str) -> dict[str, Any]:
        """A category and those of its packages that the caller may see. Errors: 404."""
        found = [one for one in await self.list_categories() if one["id"] == id_]
        if not found:
            raise NotFound(f"Category {id_} does not exist", type_="CategoryNotFound")
        query = PackageQuery(catalog=True, categories=[found[0]["name"]], limit=10_000)
        views, _ = await self.search(principal, query)
        keys = ("id", "name", "fully_qualified_name")
        return {**found[0], "packages": [{k: view[k] for k in keys} for view in views]}

    async def delete_category(self, principal: Principal, id_: str) -> None:
        """Remove an empty category. Errors: 403 (also when in use), 404."""
        if not principal.is_admin:
            raise Forbidden("Only an administrator may delete categories")
        async with self.database.transaction() as tx:
            await tx.exclude("catalog/categories")
            row = (await tx.execute(select(categories).where(categories.c.id == id_))).first()
            if row is None:
                raise NotFound(f"Category {id_} does not exist", type_="CategoryNotFound")
            used = await tx.execute(
                select(package_categories).where(package_categories.c.category_id == id_)
            )
            if used.first() is not None:
                raise Forbidden(f"Category '{row.name}' has packages: it cannot be deleted")
            await tx.execute(delete(categories).where(categories.c.id == id_))
