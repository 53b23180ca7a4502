"""Classes, parents and tags in one tree of SQLite each, instead of a table and an index of its key.

Every upload and every deletion writes a page of each tree.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "catalog_0008"
down_revision = "catalog_0007"


def upgrade() -> None:
    """Copy the tables; PostgreSQL has no such choice."""
    if op.get_bind().dialect.name != "sqlite":
        return
    _copy("catalog_classes", ["package_id", "name"], _text("name", 128))
    op.create_index("catalog_classes_name", "catalog_classes", ["name"])
    _copy(
        "catalog_parents",
        ["package_id", "name", "parent"],
        *(_text("name", 128), _text("parent", 128)),
    )
    op.create_index("catalog_parents_parent", "catalog_parents", ["parent"])
    position = sa.Column("position", sa.Integer, nullable=False)
    _copy("catalog_tags", ["package_id", "name"], _text("name", 80), position)


def _text(name: str, length: int) -> sa.Column[str]:
    return sa.Column(name, sa.String(length), nullable=False)


def _copy(table: str, key: list[str], *columns: sa.Column[Any]) -> None:
    op.rename_table(table, f"{table}_before")
    op.create_table(
        table,
        sa.Column(
            "package_id",
            sa.String(36),
            sa.ForeignKey("catalog_packages.id", ondelete="CASCADE"),
            nullable=False,
        ),
        *columns,
        sa.PrimaryKeyConstraint(*key),
        sqlite_with_rowid=False,
    )
    names = ", ".join(["package_id", *(column.name for column in columns)])
    # In the order of the key, so each row is added at the end.
    op.execute(
        f"INSERT INTO {table} ({names}) SELECT {names} FROM {table}_before"  # noqa: S608
        f" ORDER BY {', '.join(key)}"
    )
    # Its indexes leave with it.
    op.drop_table(f"{table}_before")
