"""The stamps that the allocator's index follows: each relevant change of a server raises its stamp.

Triggers raise it, so every writer does. On SQLite it is a counter (writers come one after another).
On PostgreSQL it is the number of the transaction: a counter would fail, because numbers taken in
one order may be committed in another (docs/decisions/0022-placement-index.md).
"""

import sqlalchemy as sa
from alembic import op

revision = "compute_0003"
down_revision = "compute_0002"

SOURCES = (
    ("compute_servers", "uuid"),
    ("compute_vms", "server_uuid"),
    ("compute_tickets", "server_uuid"),
)


def upgrade() -> None:
    """Create the table, fill it and set the triggers."""
    op.create_table(
        "compute_placement_changes",
        sa.Column("server_uuid", sa.String(36), primary_key=True),
        sa.Column("stamp", sa.BigInteger, nullable=False),
    )
    op.create_index("compute_placement_changes_stamp", "compute_placement_changes", ["stamp"])
    op.execute(
        "INSERT INTO compute_placement_changes (server_uuid, stamp)"
        " SELECT uuid, 1 FROM compute_servers"
    )
    if op.get_bind().dialect.name == "sqlite":
        _sqlite()
    else:
        _postgresql()


def _sqlite() -> None:
    def raise_stamp(value: str) -> str:
        return (
            # Names of our own columns only.
            "INSERT INTO compute_placement_changes (server_uuid, stamp) VALUES"  # noqa: S608
            f" ({value}, (SELECT COALESCE(MAX(stamp), 0) + 1 FROM compute_placement_changes))"
            " ON CONFLICT (server_uuid) DO UPDATE SET stamp = excluded.stamp;"
        )

    for table, column in SOURCES:
        for event, values in (
            ("INSERT", (f"NEW.{column}",)),
            ("UPDATE", (f"OLD.{column}", f"NEW.{column}")),
            ("DELETE", (f"OLD.{column}",)),
        ):
            body = " ".join(raise_stamp(value) for value in values)
            op.execute(
                f"CREATE TRIGGER {table}_placement_{event.lower()} AFTER {event} ON {table}"
                f" BEGIN {body} END"
            )


def _postgresql() -> None:
    for table, column in SOURCES:
        function = f"{table}_placement"
        statement = (
            "INSERT INTO compute_placement_changes (server_uuid, stamp)"
            " VALUES ({value}, pg_current_xact_id()::text::bigint)"
            " ON CONFLICT (server_uuid) DO UPDATE SET stamp = excluded.stamp"
            " WHERE compute_placement_changes.stamp <> excluded.stamp;"
        )
        # In the order of names, so that two transactions that swap VMs do not deadlock.
        op.execute(
            # Names of our own columns only.
            f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$"  # noqa: S608
            " DECLARE one text; BEGIN"
            " FOR one IN SELECT DISTINCT name FROM (VALUES"
            f" (CASE WHEN TG_OP <> 'INSERT' THEN OLD.{column} END),"
            f" (CASE WHEN TG_OP <> 'DELETE' THEN NEW.{column} END)) AS names (name)"
            " WHERE name IS NOT NULL ORDER BY name LOOP"
            f" {statement.format(value='one')}"
            " END LOOP; RETURN NULL; END $$"
        )
        op.execute(
            f"CREATE TRIGGER {function} AFTER INSERT OR UPDATE OR DELETE ON {table}"
            f" FOR EACH ROW EXECUTE FUNCTION {function}()"
        )
