"""Status entries, service instances, jobs, settings, NICs; what recovery of tasks needs."""

import sqlalchemy as sa
from alembic import op

revision = "compute_0002"
down_revision = "compute_0001"


def upgrade() -> None:
    """Add the tables and columns of the whole service."""
    op.add_column(
        "compute_servers",
        sa.Column("headnode", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.add_column(
        "compute_servers",
        sa.Column("reservoir", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.add_column(
        "compute_servers",
        sa.Column("shared_key", sa.Boolean, nullable=False, server_default=sa.true()),
    )
    op.add_column("compute_tasks", sa.Column("req_id", sa.String(128)))
    op.add_column("compute_tasks", sa.Column("params", sa.Text))
    op.add_column("compute_tasks", sa.Column("fence", sa.Text))
    op.add_column("compute_tasks", sa.Column("instance", sa.String(128)))
    op.add_column("compute_tasks", sa.Column("job_uuid", sa.String(36)))
    op.create_index("compute_tasks_status", "compute_tasks", ["status", "created"])
    op.add_column("compute_tickets", sa.Column("reqid", sa.String(128)))
    op.create_index("compute_tickets_expiry", "compute_tickets", ["status", "expires_at"])
    op.add_column("compute_vms", sa.Column("payload", sa.Text))
    op.add_column("compute_subnets", sa.Column("replaced_by", sa.String(36)))
    op.create_table(
        "compute_status",
        sa.Column("server_uuid", sa.String(36), primary_key=True),
        sa.Column("instance", sa.String(128), nullable=False),
        sa.Column("last_heartbeat", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "compute_instances",
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("seen", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "compute_counters",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    # Fences continue from the numbers of the first version.
    op.execute(
        "INSERT INTO compute_counters (name, value)"
        " SELECT 'ticket-fence', COALESCE(MAX(fence), 0) FROM compute_tickets"
    )
    op.create_table(
        "compute_settings",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "compute_jobs",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("target", sa.String(128), nullable=False),
        sa.Column("execution", sa.String(20), nullable=False),
        sa.Column("params", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("chain", sa.Text, nullable=False),
        sa.Column("chain_results", sa.Text, nullable=False),
        sa.Column("timeout", sa.Integer, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("started", sa.BigInteger),
        sa.Column("finished", sa.BigInteger),
    )
    op.create_index("compute_jobs_target", "compute_jobs", ["name", "target", "execution"])
    op.create_table(
        "compute_job_info",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("job_uuid", sa.String(36), nullable=False),
        sa.Column("date", sa.BigInteger, nullable=False),
        sa.Column("entry", sa.Text, nullable=False),
    )
    op.create_index("compute_job_info_job", "compute_job_info", ["job_uuid", "number"])
    op.create_table(
        "compute_nics",
        sa.Column("mac", sa.String(17), primary_key=True),
        sa.Column("server_uuid", sa.String(36), nullable=False),
        sa.Column("interface", sa.String(64), nullable=False),
        sa.Column("ip", sa.String(64)),
        sa.Column("nic_tags_provided", sa.Text, nullable=False),
    )
    op.create_index("compute_nics_server", "compute_nics", ["server_uuid"])
    op.create_table(
        "compute_nic_tags",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("mtu", sa.Integer, nullable=False),
    )
