"""The index of words by number: SQLite finds a row of it by nothing else."""

from hashlib import blake2b

import sqlalchemy as sa
from alembic import op

revision = "catalog_0006"
down_revision = "catalog_0005"

ROWS = 500


def upgrade() -> None:
    """Give the texts of packages the numbers of their ids."""
    connection = op.get_bind()
    if connection.dialect.name != "sqlite":
        return
    op.execute("ALTER TABLE catalog_index_text RENAME TO catalog_index_text_before")
    op.execute(
        "CREATE VIRTUAL TABLE catalog_index_text"
        " USING fts5(package_id UNINDEXED, body, tokenize='trigram')"
    )
    last = 0
    while True:
        found = connection.execute(
            sa.text(
                "SELECT rowid AS place, package_id, body FROM catalog_index_text_before"
                " WHERE rowid > :last ORDER BY rowid LIMIT :most"
            ),
            {"last": last, "most": ROWS},
        ).all()
        if not found:
            break
        last = found[-1].place
        connection.execute(
            sa.text(
                "INSERT INTO catalog_index_text (rowid, package_id, body) VALUES (:number, :id, :body)"
            ),
            [
                {"number": _number(row.package_id), "id": row.package_id, "body": row.body}
                for row in found
            ],
        )
    op.execute("DROP TABLE catalog_index_text_before")


def _number(package_id: str) -> int:
    return int.from_bytes(blake2b(package_id.encode(), digest_size=7).digest())
