"""Changing the applications of an environment: which one, in which session, to what values."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from vetro.cli.client.answers import Environment, JsonObject
from vetro.cli.client.connection import Connection, segment
from vetro.cli.environments.applications import application_row
from vetro.cli.environments.sessions import forget_session, open_session_of
from vetro.cli.terminal.documents import named_values
from vetro.cli.terminal.output import fail


def parse_settings(pairs: tuple[str, ...], option: str = "--set") -> JsonObject:
    """``a.b=value`` pairs as nested values; a value that is JSON is taken as such."""
    return named_values(pairs, option, "NAME=VALUE", "port=8080")


def find_application(services: list[dict[str, object]], wanted: str) -> int:
    """Position of the application with this id or name; an id goes before names."""
    rows = [application_row(service) for service in services]
    by_name = [
        index
        for index, row in enumerate(rows)
        if wanted in (row["name"], services[index].get("name"))
    ]
    found = [index for index, row in enumerate(rows) if row["id"] == wanted] or by_name
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(str(rows[index]["id"]) for index in found)
        fail(f"Several applications are called '{wanted}'", f"Give the id of one: {ids}.")
    names = ", ".join(str(application_row(s)["name"] or application_row(s)["id"]) for s in services)
    fail(f"There is no application '{wanted}'", f"Applications: {names or 'none'}.")


@contextmanager
def session_and_services(
    connection: Connection, environment: Environment, given: str | None = None
) -> Generator[tuple[dict[str, str], list[JsonObject]]]:
    """The headers that name the session (the ``given`` one, else the user's), and its applications as
    they are stored.

    A session that was opened for the block is removed again when the block fails: an environment in
    which nothing was changed does not wait for a deployment.
    """
    there = given or open_session_of(connection, environment, create_one=False)
    session = given or open_session_of(connection, environment) or ""
    try:
        headers = {"X-Configuration-Session": session}
        services = connection.get(f"/v1/environments/{environment['id']}/services", headers=headers)
        for service in services:
            service.get("?", {}).pop("status", None)
        yield headers, services
    except BaseException:
        if session != there:
            path = f"/v1/environments/{environment['id']}/sessions/{segment(session)}"
            connection.answer("DELETE", path)
            forget_session(environment)
        raise
