"""Which columns of which room are sealed."""

from sqlalchemy import LargeBinary

from vetro import blobs, catalog, compute, engine, environments, identity, messaging, stacks
from vetro.storage import STORAGE_MIGRATIONS, Json, SealedJson, sealed_columns

SETS = [
    STORAGE_MIGRATIONS,
    *(room.MIGRATIONS for room in (blobs, environments, compute, engine, messaging, stacks)),
]
IN_CLEAR = {
    # What machines, tickets and images say of themselves: no application puts anything there.
    "compute_servers": {"sysinfo", "sample", "agents", "extra"},
    "compute_settings": {"value"},
    "compute_tickets": {"extra"},
    "compute_tasks": {"fence"},
    "compute_tombstones": {"moved_vms"},
    "compute_jobs": {"chain", "chain_results"},
    "compute_job_info": {"entry"},
    "compute_nics": {"nic_tags_provided"},
    "compute_images": {"manifest"},
    "compute_networks": {"uplink"},
    "compute_subnets": {"dns"},
    "compute_security_groups": {"rules"},
    "compute_ports": {"security_groups", "allowed_addresses"},
    # Labels that users give volumes, and what a volume was made of.
    "compute_volumes": {"metadata", "source"},
    "messaging_plans": {"signature"},
    # Files: what a directory would have as it is.
    "blobs_parts": {"content"},
    # Names and numbers of stacks.
    "stacks_stacks": {"tags"},
    "stacks_resources": {"requires"},
}


def test_structured_columns_are_sealed_or_known_to_have_no_secrets() -> None:
    """Each column of JSON or bytes is sealed or declared free of applications' secrets."""
    found: dict[str, set[str]] = {}
    for one in SETS:
        assert one.tables is not None, one.room
        for table in one.tables.sorted_tables:
            for column in table.columns:
                sealed = isinstance(column.type, SealedJson)
                if not sealed and isinstance(column.type, Json | LargeBinary):
                    found.setdefault(table.name, set()).add(column.name)
    assert found == IN_CLEAR


def test_rooms_with_sealed_columns_are_rotated() -> None:
    """Rotation covers the tables of each room with sealed columns."""
    sealed = {columns[0].table.name for one in SETS for columns in sealed_columns(one.tables)}  # pyright: ignore[reportArgumentType]
    assert {
        "environments",
        "environments_form_secrets",
        "environments_sessions",
        "environments_tasks",
        "environments_traces",
        "compute_vms",
        "compute_tasks",
        "stacks_stacks",
        "stacks_resources",
        "engine_journal",
        "engine_checkpoints",
        "engine_answers",
        "messaging_plans",
        "messaging_calls",
        "storage_leased_work",
    } <= sealed
    for room in (catalog, identity):
        assert room.MIGRATIONS.tables is None
