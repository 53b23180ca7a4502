"""The tables of catalog-api.md §9: where each of its columns is kept, and what holds for the rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import Connection, inspect

from vetro.broker import MIGRATIONS as BROKER
from vetro.server.installation import migration_sets
from vetro.storage import Database, migrate

# Table of the specification -> our table, and its columns: those of other names as `theirs=ours`. A model is
# JSON text in `model`, an archive with its logo and form in the store of files by its digest.
ENTITIES = {
    "environment": (
        "environments",
        "id name tenant_id description_text version description=model model_kind created updated",
    ),
    "environment-template": (
        "environments_templates",
        "id name tenant_id description_text version description=services is_public created updated",
    ),
    "session": (
        "environments_sessions",
        "id environment_id user_id state description=model version created updated",
    ),
    "task": (
        "environments_tasks",
        "id environment_id started finished description action result created updated",
    ),
    "status": (
        "environments_statuses",
        "id task_id entity_id entity text level details created",
    ),
    "package": (
        "catalog_packages",
        "id fully_qualified_name version name type author description supplier owner_id is_public"
        " enabled archive created updated",
    ),
    "class_definition": ("catalog_classes", "name package_id"),
    "category": ("catalog_categories", "id name created updated"),
    "package_to_category": ("catalog_package_categories", "package_id category_id"),
    "package_to_tag": ("catalog_tags", "package_id name"),
    "instance_stats": (
        "environments_instances",
        "environment_id instance_id instance_type created destroyed type_name type_title unit_count",
    ),
    "apistats": (
        "environments_request_stats",
        "host request_count error_count average_response_time requests_per_tenant"
        " requests_per_second errors_per_second cpu_count cpu_percent created updated",
    ),
    "cf_orgs": ("broker_organizations", "id tenant=project_id"),
    "cf_spaces": ("broker_spaces", "id environment_id"),
    "cf_serv_inst": ("broker_instances", "id service_id environment_id tenant=project_id"),
}
ABSENT = {"started": "NOT NULL", "finished": "", "result": "", "entity_id": "", "entity": ""}
UNIQUE = {
    "environments": {"name", "tenant_id"},
    "environments_templates": {"name", "tenant_id"},
    "catalog_categories": {"name"},
    "catalog_packages": {"fully_qualified_name", "owner_id", "version"},
}
# Tasks and their statuses outlive their environment: they are its history until that is pruned.
OWNED = {
    ("environments_sessions", "environments"): "CASCADE",
    ("catalog_classes", "catalog_packages"): "CASCADE",
    ("catalog_tags", "catalog_packages"): "CASCADE",
    ("catalog_package_categories", "catalog_categories"): "",
}
LENGTHS = {
    ("environments", "id"): 255,
    ("environments", "name"): 255,
    ("environments_statuses", "entity_id"): 255,
    ("environments_statuses", "level"): 32,
    ("environments_sessions", "state"): 36,
    ("environments_instances", "type_title"): 512,
    ("catalog_classes", "name"): 128,
    ("catalog_categories", "name"): 80,
    ("catalog_tags", "name"): 80,
}


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A database with the tables of all rooms."""
    opened = await Database.open(database_url)
    await migrate(opened, [*migration_sets(), BROKER])
    yield opened
    await opened.close()


async def test_every_entity_is_kept(database: Database) -> None:
    """Each column is there, as long as it has to be; what may be missing may be null; names are unique
    where they have to be, and rows go with what they belong to.
    """
    async with database.read() as tx:
        await tx.connection.run_sync(look)


def look(connection: Connection) -> None:
    """Compare the tables with the specification."""
    seen = inspect(connection)
    for entity, (table, names) in ENTITIES.items():
        columns = {str(one["name"]): one for one in seen.get_columns(table)}
        wanted = {name.rpartition("=")[2] for name in names.split()}
        assert wanted <= columns.keys(), entity
        for name in wanted & ABSENT.keys():
            assert columns[name]["nullable"] is not bool(ABSENT[name]), (entity, name)
    for (table, name), length in LENGTHS.items():
        (column,) = [one for one in seen.get_columns(table) if one["name"] == name]
        assert getattr(column["type"], "length", None) == length, (table, name)
    for table, names in UNIQUE.items():
        found: list[Any] = [
            *(one["column_names"] for one in seen.get_unique_constraints(table)),
            *(one["column_names"] for one in seen.get_indexes(table) if one["unique"]),
        ]
        assert names in [set(one) for one in found], (table, found)
    for (table, other), rule in OWNED.items():
        rules = [
            one.get("options", {}).get("ondelete", "")
            for one in seen.get_foreign_keys(table)
            if one["referred_table"] == other
        ]
        assert rules == [rule], (table, other, rules)
