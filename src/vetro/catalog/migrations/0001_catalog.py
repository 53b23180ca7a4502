"""Packages, classes, tags, categories."""

import sqlalchemy as sa
from alembic import op

revision = "catalog_0001"
down_revision = None
branch_labels = ("catalog",)


def upgrade() -> None:
    """Create the tables of the catalog room."""
    op.create_table(
        "catalog_packages",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("fully_qualified_name", sa.String(128), nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("type", sa.String(20), nullable=False),
        sa.Column("author", sa.String(80)),
        sa.Column("description", sa.Text),
        sa.Column("supplier", sa.Text, nullable=False),
        sa.Column("owner_id", sa.String(64), nullable=False),
        sa.Column("is_public", sa.Boolean, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("archive", sa.String(64), nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("fully_qualified_name", "owner_id", "version"),
    )
    op.create_index("catalog_packages_owner", "catalog_packages", ["owner_id"])
    op.create_table(
        "catalog_classes",
        sa.Column(
            "package_id",
            sa.String(36),
            sa.ForeignKey("catalog_packages.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("name", sa.String(128), nullable=False),
        sa.PrimaryKeyConstraint("package_id", "name"),
    )
    op.create_index("catalog_classes_name", "catalog_classes", ["name"])
    op.create_table(
        "catalog_tags",
        sa.Column(
            "package_id",
            sa.String(36),
            sa.ForeignKey("catalog_packages.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("package_id", "name"),
    )
    op.create_table(
        "catalog_categories",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(80), nullable=False, unique=True),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "catalog_package_categories",
        sa.Column(
            "package_id",
            sa.String(36),
            sa.ForeignKey("catalog_packages.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column(
            "category_id", sa.String(36), sa.ForeignKey("catalog_categories.id"), nullable=False
        ),
        sa.PrimaryKeyConstraint("package_id", "category_id"),
    )
