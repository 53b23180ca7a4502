"""What is the stack's own: the mark of each resource, and of what was refused none."""

import sqlalchemy as sa
from alembic import op

revision = "stacks_0002"
down_revision = "stacks_0001"

_RELATIONS = (
    "OS::Nova::KeyPair",
    "OS::Neutron::RouterInterface",
    "OS::Neutron::FloatingIPAssociation",
    "OS::Nova::FloatingIPAssociation",
    "OS::Cinder::VolumeAttachment",
)


def upgrade() -> None:
    """Add the column. What was made bears no mark; what was refused is somebody else's or not there.

    A process of the version before, which does not know the column, makes rows without a mark.
    """
    op.add_column("stacks_resources", sa.Column("claim", sa.String(64), server_default=""))
    rows = sa.table("stacks_resources", sa.column("claim"), sa.column("type"), sa.column("status"))
    refused = sa.and_(rows.c.type.in_(_RELATIONS), rows.c.status == "CREATE_FAILED")
    op.execute(rows.update().where(refused).values(claim=None))
