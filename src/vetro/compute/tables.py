"""Tables of the compute service."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    BigInteger,
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
    true,
)

from vetro.quotas import quota_table
from vetro.storage import Json, MigrationSet, SealedJson, UtcDateTime

metadata = MetaData()
MIGRATIONS = MigrationSet(
    "compute",
    Path(__file__).parent / "migrations",
    metadata,
    derived=frozenset({"compute_placement_changes"}),
)


def _made_by() -> Column[str]:
    """The mark of who made a relation, for what has no uuid of its own; '': nobody said."""
    return Column("made_by", String(64), nullable=False, server_default="")


servers = Table(
    "compute_servers",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("hostname", String(255), nullable=False),
    Column("status", String(20), nullable=False),
    Column("setup", Boolean, nullable=False),
    Column("reserved", Boolean, nullable=False),
    Column("sysinfo", Json, nullable=False),
    # The last status sample: vms, meminfo, zpoolStatus, diskinfo.
    Column("sample", Json, nullable=False),
    Column("agents", Json, nullable=False),
    Column("extra", Json, nullable=False),
    Column("agent_url", String(255), nullable=False),
    Column("network_version", BigInteger, nullable=False),
    Column("last_heartbeat", UtcDateTime),
    Column("last_boot", UtcDateTime),
    Column("created", UtcDateTime, nullable=False),
    # From the sysinfo, and what an operator may filter by.
    Column("headnode", Boolean, nullable=False, server_default=false()),
    Column("reservoir", Boolean, nullable=False, server_default=false()),
    # Whether its agent shows the installation's key; otherwise one of its own (keys.py).
    Column("shared_key", Boolean, nullable=False, server_default=true()),
)

# Which service instance heard from a server last, and when (cnapi_status, compute-node-api.md §5.1).
status = Table(
    "compute_status",
    metadata,
    Column("server_uuid", String(36), primary_key=True),
    Column("instance", String(128), nullable=False),
    Column("last_heartbeat", UtcDateTime, nullable=False),
)

# VMs that left a server whose record was deleted: they go when it registers again.
tombstones = Table(
    "compute_tombstones",
    metadata,
    Column("server_uuid", String(36), primary_key=True),
    Column("moved_vms", Json, nullable=False),
)

# Service processes: the others take over the tasks of a silent one.
instances = Table(
    "compute_instances",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("seen", UtcDateTime, nullable=False),
)

counters = Table(
    "compute_counters",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# Service metadata and the default boot parameters, by name.
settings = Table(
    "compute_settings",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Json, nullable=False),
)

vms = Table(
    "compute_vms",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("server_uuid", String(36), nullable=False),
    Column("owner_uuid", String(64), nullable=False),
    Column("alias", String(255)),
    # allocated (room held, nothing created yet), creating, then what the node reports.
    Column("state", String(20), nullable=False),
    Column("memory_mib", Integer, nullable=False),
    Column("quota_gib", Integer, nullable=False),
    Column("cpu_cap", Integer, nullable=False),
    Column("vm", SealedJson, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    # Its original request: an evacuation recreates it elsewhere from this.
    Column("payload", SealedJson),
    # Whether its project's quotas count it: not the room that is held for a VM that moves.
    Column("counted", Boolean, nullable=False, server_default=true()),
    # Another one for each root disk that is made for it; null: made before this was kept.
    Column("incarnation", String(36)),
    Index("compute_vms_server", "server_uuid"),
    Index("compute_vms_owner", "owner_uuid", "counted"),
)

quotas = quota_table("compute_quotas", metadata)

tasks = Table(
    "compute_tasks",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("server_uuid", String(36), nullable=False),
    Column("task", String(64), nullable=False),
    Column("status", String(20), nullable=False),
    Column("vm_uuid", String(36)),
    Column("history", SealedJson, nullable=False),
    Column("result", SealedJson),
    Column("created", UtcDateTime, nullable=False),
    Column("finished", UtcDateTime),
    Column("req_id", String(128)),
    # Kept while the task is active: another service sends it again if this one dies.
    Column("params", SealedJson),
    Column("fence", Json),
    Column("instance", String(128)),
    Column("job_uuid", String(36)),
    # Only while traces are sent (`vetro.tracing`).
    Column("traceparent", String(55)),
    Index("compute_tasks_status", "status", "created"),
)

tickets = Table(
    "compute_tickets",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("server_uuid", String(36), nullable=False),
    Column("scope", String(64), nullable=False),
    Column("id", String(255), nullable=False),
    Column("action", String(255)),
    Column("status", String(20), nullable=False),
    # Order of arrival, and what a node compares to refuse an overtaken holder.
    Column("fence", BigInteger, nullable=False),
    Column("extra", Json, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("reqid", String(128)),
    Index("compute_tickets_queue", "server_uuid", "scope", "id"),
    Index("compute_tickets_expiry", "status", "expires_at"),
)

jobs = Table(
    "compute_jobs",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("target", String(128), nullable=False),
    # queued, running, succeeded, failed, canceled
    Column("execution", String(20), nullable=False),
    Column("params", SealedJson, nullable=False),
    # Values that steps pass to later steps.
    Column("state", SealedJson, nullable=False),
    Column("chain", Json, nullable=False),
    Column("chain_results", Json, nullable=False),
    Column("timeout", Integer, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("started", UtcDateTime),
    Column("finished", UtcDateTime),
    Index("compute_jobs_target", "name", "target", "execution"),
)

job_info = Table(
    "compute_job_info",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("job_uuid", String(36), nullable=False),
    Column("date", UtcDateTime, nullable=False),
    Column("entry", Json, nullable=False),
    Index("compute_job_info_job", "job_uuid", "number"),
)

# The physical NICs of servers and the tags they provide (§9).
nics = Table(
    "compute_nics",
    metadata,
    Column("mac", String(17), primary_key=True),
    Column("server_uuid", String(36), nullable=False),
    Column("interface", String(64), nullable=False),
    Column("ip", String(64)),
    Column("nic_tags_provided", Json, nullable=False),
    Index("compute_nics_server", "server_uuid"),
)

nic_tags = Table(
    "compute_nic_tags",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("uuid", String(36), nullable=False),
    Column("mtu", Integer, nullable=False),
)

images = Table(
    "compute_images",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("version", String(64), nullable=False),
    Column("owner_uuid", String(64), nullable=False),
    Column("public", Boolean, nullable=False),
    Column("type", String(32), nullable=False),
    Column("os", String(32), nullable=False),
    Column("state", String(20), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", String(64)),
    Column("manifest", Json, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Index("compute_images_name", "name"),
)

image_copies = Table(
    "compute_image_copies",
    metadata,
    Column("server_uuid", String(36), primary_key=True),
    Column("image_uuid", String(36), primary_key=True),
    # fetching, unpacking, present (a node's words); interrupted, failed, skipped, removed.
    Column("state", String(20), nullable=False),
    Column("percent", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("changed", UtcDateTime, nullable=False),
    Index("compute_image_copies_image", "image_uuid"),
)

networks = Table(
    "compute_networks",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("owner_uuid", String(64), nullable=False),
    Column("external", Boolean, nullable=False),
    Column("mtu", Integer, nullable=False),
    # {nic_tag, vlan_id}: on the machines' own interface that carries the tag; null: a fabric that Vetro
    # creates.
    Column("uplink", Json),
)

subnets = Table(
    "compute_subnets",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("network_uuid", String(36), ForeignKey("compute_networks.uuid"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("owner_uuid", String(64), nullable=False),
    Column("cidr", String(64), nullable=False),
    Column("gateway", String(64)),
    Column("dns", Json, nullable=False),
    # Set while a subnet of the same addresses replaces it: it is being removed.
    Column("replaced_by", String(36)),
    Index("compute_subnets_network", "network_uuid"),
)

routers = Table(
    "compute_routers",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("owner_uuid", String(64), nullable=False),
    Column("external_network", String(36)),
)

router_interfaces = Table(
    "compute_router_interfaces",
    metadata,
    Column(
        "router_uuid",
        String(36),
        ForeignKey("compute_routers.uuid", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("subnet_uuid", String(36), ForeignKey("compute_subnets.uuid"), nullable=False),
    _made_by(),
    PrimaryKeyConstraint("router_uuid", "subnet_uuid"),
)

security_groups = Table(
    "compute_security_groups",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("owner_uuid", String(64), nullable=False),
    Column("description", Text, nullable=False),
    Column("rules", Json, nullable=False),
)

ports = Table(
    "compute_ports",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("network_uuid", String(36), ForeignKey("compute_networks.uuid"), nullable=False),
    Column("subnet_uuid", String(36), ForeignKey("compute_subnets.uuid"), nullable=False),
    Column("owner_uuid", String(64), nullable=False),
    Column("name", String(255), nullable=False),
    Column("mac", String(17), nullable=False, unique=True),
    Column("ip", String(64), nullable=False),
    Column("security_groups", Json, nullable=False),
    Column("port_security", Boolean, nullable=False),
    Column("allowed_addresses", Json, nullable=False),
    Column("device_uuid", String(36)),
    Column("device_owner", String(64), nullable=False),
    # Two ports never get one address, even from concurrent services.
    UniqueConstraint("subnet_uuid", "ip"),
    Index("compute_ports_device", "device_uuid"),
    Index("compute_ports_ip", "ip"),
)

floating_ips = Table(
    "compute_floating_ips",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("network_uuid", String(36), nullable=False),
    Column("owner_uuid", String(64), nullable=False),
    Column("address", String(64), nullable=False, unique=True),
    Column("port_uuid", String(36), ForeignKey("compute_ports.uuid", ondelete="SET NULL")),
    _made_by(),  # who led it to the port
)

keypairs = Table(
    "compute_keypairs",
    metadata,
    Column("owner_uuid", String(64), nullable=False),
    Column("name", String(255), nullable=False),
    Column("public_key", Text, nullable=False),
    _made_by(),
    PrimaryKeyConstraint("owner_uuid", "name"),
)

volumes = Table(
    "compute_volumes",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("owner_uuid", String(64), nullable=False),
    Column("name", String(255), nullable=False),
    Column("size_gib", Integer, nullable=False),
    # ext4, qcow2; image: the root disk of the VM that boots from it; '' before it is first attached.
    Column("format", String(20), nullable=False),
    Column("state", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("server_uuid", String(36)),
    Column("vm_uuid", String(36)),
    Column("device", String(255), nullable=False),
    _made_by(),  # who attached it to the VM
    Column("read_only", Boolean, nullable=False),
    Column("metadata", Json, nullable=False),
    Column("source", Json),
    Column("created", UtcDateTime, nullable=False),
    Index("compute_volumes_vm", "vm_uuid"),
    Index("compute_volumes_owner", "owner_uuid"),
)

# Snapshots (kept by the volume's server) and backups (kept by the service).
volume_copies = Table(
    "compute_volume_copies",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("owner_uuid", String(64), nullable=False),
    Column("volume_uuid", String(36), nullable=False),
    Column("name", String(255), nullable=False),
    Column("size_gib", Integer, nullable=False),
    Column("format", String(20), nullable=False),
    Column("state", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("server_uuid", String(36)),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", String(64)),
    Column("created", UtcDateTime, nullable=False),
    Index("compute_volume_copies_volume", "volume_uuid"),
)

# A subnet's number on the wire between nodes; it keeps it once it has had instances on two.
fabric_numbers = Table(
    "compute_fabric_numbers",
    metadata,
    Column("subnet_uuid", String(36), primary_key=True),
    Column("vni", Integer, nullable=False, unique=True),
)

# What each node was last sent of a subnet's instances on other nodes (overlays.py).
spans_told = Table(
    "compute_spans_told",
    metadata,
    Column("server_uuid", String(36), primary_key=True),
    Column("subnet_uuid", String(36), primary_key=True),
    # '' after a failure: it equals no fingerprint.
    Column("fingerprint", String(32), nullable=False),
    Index("compute_spans_told_subnet", "subnet_uuid"),
)

# VMs that are being moved to another server, which has their networks already (migration.py).
moves = Table(
    "compute_moves",
    metadata,
    Column("vm_uuid", String(36), primary_key=True),
    Column("target_uuid", String(36), nullable=False),
    Column("job_uuid", String(36), nullable=False),
    Index("compute_moves_target", "target_uuid"),
)
