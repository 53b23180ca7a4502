"""Definitions of services: contents, sets, projects, archives."""

import sqlalchemy as sa
from alembic import op

revision = "repository_0001"
down_revision = None
branch_labels = ("repository",)


def upgrade() -> None:
    """Create the tables of the repository room."""
    op.create_table(
        "repository_contents",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "repository_sets",
        sa.Column("id", sa.String(80), primary_key=True),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "repository_projects",
        sa.Column("project_id", sa.String(64), primary_key=True),
        sa.Column("set_id", sa.String(80), sa.ForeignKey("repository_sets.id"), nullable=False),
    )
    op.create_index("repository_projects_set", "repository_projects", ["set_id"])
    op.create_table(
        "repository_entries",
        sa.Column(
            "set_id",
            sa.String(80),
            sa.ForeignKey("repository_sets.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("path", sa.String(512), nullable=False),
        sa.Column("digest", sa.String(64), sa.ForeignKey("repository_contents.digest")),
        sa.PrimaryKeyConstraint("set_id", "kind", "path"),
    )
    op.create_index("repository_entries_digest", "repository_entries", ["digest"])
    op.create_table(
        "repository_archives",
        sa.Column(
            "set_id",
            sa.String(80),
            sa.ForeignKey("repository_sets.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("client", sa.String(16), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("sha1", sa.String(40), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("set_id", "client"),
    )
