"""A count of the writes of environments and sessions, where one process writes at a time (SQLite)."""

from alembic import op

revision = "environments_0016"
down_revision = "environments_0015"


def upgrade() -> None:
    """Add the count and what counts. PostgreSQL has none: all who write models would wait for it."""
    if op.get_bind().dialect.name != "sqlite":
        return
    op.execute("CREATE TABLE environments_model_writes (number INTEGER NOT NULL)")
    op.execute("INSERT INTO environments_model_writes (number) VALUES (0)")
    count = "BEGIN UPDATE environments_model_writes SET number = number + 1; END"
    for table in ("environments", "environments_sessions"):
        for event in ("INSERT", "UPDATE", "DELETE"):
            name = f"{table}_{event.lower()}_counted"
            op.execute(f"CREATE TRIGGER {name} AFTER {event} ON {table} {count}")
