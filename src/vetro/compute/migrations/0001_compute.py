"""Servers, VMs, tasks, tickets, images, networks."""

import sqlalchemy as sa
from alembic import op

revision = "compute_0001"
down_revision = None
branch_labels = ("compute",)


def upgrade() -> None:
    """Create the tables of the compute room."""
    op.create_table(
        "compute_servers",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("hostname", sa.String(255), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("setup", sa.Boolean, nullable=False),
        sa.Column("reserved", sa.Boolean, nullable=False),
        sa.Column("sysinfo", sa.Text, nullable=False),
        sa.Column("sample", sa.Text, nullable=False),
        sa.Column("agents", sa.Text, nullable=False),
        sa.Column("extra", sa.Text, nullable=False),
        sa.Column("agent_url", sa.String(255), nullable=False),
        sa.Column("network_version", sa.BigInteger, nullable=False),
        sa.Column("last_heartbeat", sa.BigInteger),
        sa.Column("last_boot", sa.BigInteger),
        sa.Column("created", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "compute_vms",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("server_uuid", sa.String(36), nullable=False),
        sa.Column("owner_uuid", sa.String(64), nullable=False),
        sa.Column("alias", sa.String(255)),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("memory_mib", sa.Integer, nullable=False),
        sa.Column("quota_gib", sa.Integer, nullable=False),
        sa.Column("cpu_cap", sa.Integer, nullable=False),
        sa.Column("vm", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
    )
    op.create_index("compute_vms_server", "compute_vms", ["server_uuid"])
    op.create_table(
        "compute_tasks",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("server_uuid", sa.String(36), nullable=False),
        sa.Column("task", sa.String(64), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("vm_uuid", sa.String(36)),
        sa.Column("history", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("finished", sa.BigInteger),
    )
    op.create_table(
        "compute_tickets",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("server_uuid", sa.String(36), nullable=False),
        sa.Column("scope", sa.String(64), nullable=False),
        sa.Column("id", sa.String(255), nullable=False),
        sa.Column("action", sa.String(255)),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("extra", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("compute_tickets_queue", "compute_tickets", ["server_uuid", "scope", "id"])
    op.create_table(
        "compute_images",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("owner_uuid", sa.String(64), nullable=False),
        sa.Column("public", sa.Boolean, nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("os", sa.String(32), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64)),
        sa.Column("manifest", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
    )
    op.create_index("compute_images_name", "compute_images", ["name"])
    op.create_table(
        "compute_networks",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("owner_uuid", sa.String(64), nullable=False),
        sa.Column("external", sa.Boolean, nullable=False),
        sa.Column("mtu", sa.Integer, nullable=False),
    )
    op.create_table(
        "compute_subnets",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column(
            "network_uuid", sa.String(36), sa.ForeignKey("compute_networks.uuid"), nullable=False
        ),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("owner_uuid", sa.String(64), nullable=False),
        sa.Column("cidr", sa.String(64), nullable=False),
        sa.Column("gateway", sa.String(64)),
        sa.Column("dns", sa.Text, nullable=False),
    )
    op.create_index("compute_subnets_network", "compute_subnets", ["network_uuid"])
    op.create_table(
        "compute_routers",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("owner_uuid", sa.String(64), nullable=False),
        sa.Column("external_network", sa.String(36)),
    )
    op.create_table(
        "compute_router_interfaces",
        sa.Column(
            "router_uuid",
            sa.String(36),
            sa.ForeignKey("compute_routers.uuid", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column(
            "subnet_uuid", sa.String(36), sa.ForeignKey("compute_subnets.uuid"), nullable=False
        ),
        sa.PrimaryKeyConstraint("router_uuid", "subnet_uuid"),
    )
    op.create_table(
        "compute_security_groups",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("owner_uuid", sa.String(64), nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("rules", sa.Text, nullable=False),
    )
    op.create_table(
        "compute_ports",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column(
            "network_uuid", sa.String(36), sa.ForeignKey("compute_networks.uuid"), nullable=False
        ),
        sa.Column(
            "subnet_uuid", sa.String(36), sa.ForeignKey("compute_subnets.uuid"), nullable=False
        ),
        sa.Column("owner_uuid", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("mac", sa.String(17), nullable=False, unique=True),
        sa.Column("ip", sa.String(64), nullable=False),
        sa.Column("security_groups", sa.Text, nullable=False),
        sa.Column("port_security", sa.Boolean, nullable=False),
        sa.Column("allowed_addresses", sa.Text, nullable=False),
        sa.Column("device_uuid", sa.String(36)),
        sa.Column("device_owner", sa.String(64), nullable=False),
        sa.UniqueConstraint("subnet_uuid", "ip"),
    )
    op.create_index("compute_ports_device", "compute_ports", ["device_uuid"])
    op.create_table(
        "compute_floating_ips",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("network_uuid", sa.String(36), nullable=False),
        sa.Column("owner_uuid", sa.String(64), nullable=False),
        sa.Column("address", sa.String(64), nullable=False, unique=True),
        sa.Column(
            "port_uuid", sa.String(36), sa.ForeignKey("compute_ports.uuid", ondelete="SET NULL")
        ),
    )
    op.create_table(
        "compute_keypairs",
        sa.Column("owner_uuid", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("public_key", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner_uuid", "name"),
    )
