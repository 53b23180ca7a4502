"""Deployments outlive their environment: they store their project, without a foreign key."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "environments_0006"
down_revision = "environments_0005"

TASKS = "environments_tasks"
OLD = (
    "id, environment_id, session_id, sequence, action, description, result, waiting_on, cancellation,"
    " started, finished, created, updated"
)
#: The project of the existing deployments; the names of their users were not stored.
FILL = (
    f"UPDATE {TASKS} SET"  # noqa: S608 - our constant
    f" project_id = (SELECT tenant_id FROM environments WHERE id = {TASKS}.environment_id),"
    f" environment_name = (SELECT name FROM environments WHERE id = {TASKS}.environment_id),"
    " user_id = COALESCE((SELECT user_id FROM environments_sessions"
    f" WHERE id = {TASKS}.session_id), '')"
)


def new_columns() -> list[sa.Column[Any]]:
    """The deployment's project and user, and the time when its environment was removed."""
    return [
        sa.Column("project_id", sa.String(64), nullable=False, server_default=""),
        sa.Column("environment_name", sa.String(255), nullable=False, server_default=""),
        sa.Column("user_id", sa.String(64), nullable=False, server_default=""),
        sa.Column("user_name", sa.String(255), nullable=False, server_default=""),
        sa.Column("environment_gone", sa.BigInteger),
    ]


def upgrade() -> None:
    """Add the columns and remove the foreign key."""
    if op.get_bind().dialect.name == "sqlite":
        # SQLite cannot drop a constraint: the table is created anew.
        op.create_table(
            f"{TASKS}_new",
            sa.Column("id", sa.String(36), primary_key=True),
            sa.Column("environment_id", sa.String(255), nullable=False),
            sa.Column("session_id", sa.String(36), nullable=False),
            sa.Column("sequence", sa.BigInteger, nullable=False),
            sa.Column("action", sa.Text),
            sa.Column("description", sa.Text, nullable=False),
            sa.Column("result", sa.Text),
            sa.Column("started", sa.BigInteger, nullable=False),
            sa.Column("finished", sa.BigInteger),
            sa.Column("created", sa.BigInteger, nullable=False),
            sa.Column("updated", sa.BigInteger, nullable=False),
            sa.Column("cancellation", sa.Text),
            sa.Column("waiting_on", sa.Text),
            *new_columns(),
        )
        op.execute(f"INSERT INTO {TASKS}_new ({OLD}) SELECT {OLD} FROM {TASKS}")  # noqa: S608
        op.drop_table(TASKS)
        op.rename_table(f"{TASKS}_new", TASKS)
        op.create_index("environments_tasks_environment", TASKS, ["environment_id"])
    else:
        op.drop_constraint(f"{TASKS}_environment_id_fkey", TASKS, type_="foreignkey")
        for column in new_columns():
            op.add_column(TASKS, column)
    op.execute(FILL)
    op.create_index("environments_tasks_project", TASKS, ["project_id", "started"])
    op.create_index("environments_tasks_gone", TASKS, ["environment_gone"])
