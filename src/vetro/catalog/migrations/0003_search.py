"""The index of searches: what a package is found by, and the names that lists show.

SQLite gets an FTS5 table of trigrams, PostgreSQL a tsvector of trigrams with a GIN index: both find
parts of words.
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "catalog_0003"
down_revision = "catalog_0002"

FIELDS = ("name", "full_name", "description", "categories", "tags", "classes", "author", "type")


def upgrade() -> None:
    """Create the tables, and fill them for the packages that are there."""
    op.create_table(
        "catalog_index",
        sa.Column(
            "package_id",
            sa.String(36),
            sa.ForeignKey("catalog_packages.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("names", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in FIELDS),
    )
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        op.execute(
            "CREATE VIRTUAL TABLE catalog_index_text"
            " USING fts5(package_id UNINDEXED, body, tokenize='trigram')"
        )
    else:
        op.execute("ALTER TABLE catalog_index ADD COLUMN trigrams tsvector")
        op.execute("CREATE INDEX catalog_index_trigrams ON catalog_index USING gin (trigrams)")
    query = "SELECT * FROM catalog_packages WHERE deleted IS NULL"
    for row in connection.execute(sa.text(query)).all():
        _index(connection, row)


def _index(connection: Any, row: Any) -> None:
    def names(query: str) -> list[str]:
        found = connection.execute(sa.text(query), {"id": row.id})
        return [one.name for one in found]

    classes = names("SELECT name FROM catalog_classes WHERE package_id = :id ORDER BY name")
    tags = names("SELECT name FROM catalog_tags WHERE package_id = :id ORDER BY position")
    categories = names(
        "SELECT c.name FROM catalog_package_categories p JOIN catalog_categories c"
        " ON c.id = p.category_id WHERE p.package_id = :id ORDER BY c.name"
    )
    listed = {"class_definitions": classes, "tags": tags, "categories": categories}
    texts = (
        *(row.name, row.fully_qualified_name, row.description or ""),
        *(" ".join(categories), " ".join(tags), " ".join(classes)),
        *(row.author or "", row.type),
    )
    values = dict(zip(FIELDS, (text.lower() for text in texts), strict=True))
    columns = ", ".join(f":{name}" for name in FIELDS)
    connection.execute(
        sa.text(
            f"INSERT INTO catalog_index (package_id, names, {', '.join(FIELDS)})"  # noqa: S608
            f" VALUES (:id, :names, {columns})"
        ),
        {"id": row.id, "names": json.dumps(listed), **values},
    )
    body = "\n".join(values.values())
    if connection.dialect.name == "sqlite":
        connection.execute(
            sa.text("INSERT INTO catalog_index_text (package_id, body) VALUES (:id, :body)"),
            {"id": row.id, "body": body},
        )
        return
    connection.execute(
        sa.text(
            "UPDATE catalog_index SET trigrams = array_to_tsvector(CAST(:parts AS text[]))"
            " WHERE package_id = :id"
        ),
        {"id": row.id, "parts": sorted({body[at : at + 3] for at in range(len(body) - 2)})},
    )
