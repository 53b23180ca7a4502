"""Alembic runs this: migrate over the connection that ``vetro.storage.migrate`` opened."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table=context.config.attributes["version_table"],
)
with context.begin_transaction():
    context.run_migrations()
