"""Tables of the catalog (catalog-api.md §9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    insert,
    text,
)

from vetro.storage import Json, Prepared, Transaction, UtcDateTime

metadata = MetaData()

packages = Table(
    "catalog_packages",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("fully_qualified_name", String(128), nullable=False),
    Column("version", String(64), nullable=False),
    Column("name", String(80), nullable=False),
    Column("type", String(20), nullable=False),
    Column("author", String(80)),
    Column("description", Text),
    Column("supplier", Json, nullable=False),
    Column("owner_id", String(64), nullable=False),
    Column("is_public", Boolean, nullable=False),
    Column("enabled", Boolean, nullable=False),
    # Name of the archive's file in the blob directory: its SHA-256.
    Column("archive", String(64), nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    # Deleted while environments use it: hidden from users, but those environments find it.
    Column("deleted", UtcDateTime),
    # A detached signature of the archive, as its author gave it.
    Column("signature", Text),
    # Whether it is stored what its classes extend.
    Column("parents_known", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("fully_qualified_name", "owner_id", "version"),
    Index("catalog_packages_owner", "owner_id"),
)

classes = Table(
    "catalog_classes",
    metadata,
    Column(
        "package_id",
        String(36),
        ForeignKey("catalog_packages.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("name", String(128), nullable=False),
    PrimaryKeyConstraint("package_id", "name"),
    Index("catalog_classes_name", "name"),
    sqlite_with_rowid=False,
)

# What the classes extend.
parents = Table(
    "catalog_parents",
    metadata,
    Column(
        "package_id",
        String(36),
        ForeignKey("catalog_packages.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("name", String(128), nullable=False),
    Column("parent", String(128), nullable=False),
    PrimaryKeyConstraint("package_id", "name", "parent"),
    Index("catalog_parents_parent", "parent"),
    sqlite_with_rowid=False,
)

tags = Table(
    "catalog_tags",
    metadata,
    Column(
        "package_id",
        String(36),
        ForeignKey("catalog_packages.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("name", String(80), nullable=False),
    Column("position", Integer, nullable=False),
    PrimaryKeyConstraint("package_id", "name"),
    sqlite_with_rowid=False,
)

categories = Table(
    "catalog_categories",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String(80), nullable=False, unique=True),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
)

package_categories = Table(
    "catalog_package_categories",
    metadata,
    Column(
        "package_id",
        String(36),
        ForeignKey("catalog_packages.id", ondelete="CASCADE"),
        nullable=False,
    ),
    # Restricted: a category in use cannot be deleted, even by a concurrent request.
    Column("category_id", String(36), ForeignKey("catalog_categories.id"), nullable=False),
    PrimaryKeyConstraint("package_id", "category_id"),
)

#: What a package is found by, in lower case (``vetro.catalog.indexing``), and the names of its
#: classes, tags and categories, so that a list needs one statement. The trigrams are beside it.
index = Table(
    "catalog_index",
    metadata,
    Column(
        "package_id",
        String(36),
        ForeignKey("catalog_packages.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("names", Json, nullable=False),
    *(
        Column(name, Text, nullable=False)
        for name in (
            *("name", "full_name", "description", "categories"),
            *("tags", "classes", "author", "type"),
        )
    ),
    # Whether the text is to be added to the trigrams (SQLite).
    Column("is_waiting", Boolean, nullable=False, server_default=false()),
    Index(
        "catalog_index_waiting",
        "is_waiting",
        sqlite_where=text("is_waiting = 1"),
        postgresql_where=text("is_waiting"),
    ),
)

FEW_ROWS = 4


async def add_rows(tx: Transaction, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows. On SQLite all at once; elsewhere few go one by one: a statement for one row is compiled
    once, one of several each time."""
    if tx.is_sqlite and rows:
        await tx.execute(_INSERTS[table], rows)
        return
    if len(rows) > FEW_ROWS:
        await tx.execute(insert(table).values(rows))
        return
    for row in rows:
        await tx.execute(_INSERTS[table], row)


_INSERTS = {
    table: Prepared(insert(table)) for table in (classes, tags, parents, package_categories)
}
