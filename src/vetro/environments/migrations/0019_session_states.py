"""Sessions are found by their state: those that are only open are not read at each change."""

from alembic import op

revision = "environments_0019"
down_revision = "environments_0018"


def upgrade() -> None:
    """Put the state into the index."""
    op.drop_index("environments_sessions_environment", "environments_sessions")
    op.create_index(
        "environments_sessions_environment",
        "environments_sessions",
        ["environment_id", "state"],
    )
