"""Whether it is stored what a package's classes extend is said by the package.

It was said by a row without a parent for each class; and each that extends nothing had one for
io.murano.Object, which every class inherits: two pages of SQLite for every upload and
every deletion.
"""

import sqlalchemy as sa
from alembic import op

revision = "catalog_0009"
down_revision = "catalog_0008"


def upgrade() -> None:
    """Say it of the packages that have rows, and remove those that nothing is asked of."""
    op.add_column(
        "catalog_packages",
        sa.Column("parents_known", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.execute(
        "UPDATE catalog_packages SET parents_known = (1 = 1)"
        " WHERE id IN (SELECT package_id FROM catalog_parents)"
    )
    op.execute("DELETE FROM catalog_parents WHERE parent IN ('', 'io.murano.Object')")
