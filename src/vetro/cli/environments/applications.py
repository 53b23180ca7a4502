"""The applications of an environment as they are shown: where they answer, what waits to be deployed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import click

from vetro.cli.client.answers import JsonObject
from vetro.cli.terminal.output import cell, emit_rows

COLUMNS = [
    ("APPLICATION", "name"),
    ("TYPE", "type"),
    ("VERSION", "version"),
    ("NEWER", "newer"),
    ("PENDING", "pending"),
    ("URL", "url"),
    ("ID", "id"),
    ("ACTIONS", "actions"),
]
# Columns that say nothing unless there is something.
SOMETIMES = ("version", "newer", "pending", "url", "actions")
# What the table has of a flat service already.
FLAT_HEADER = ("id", "type", "name", "status")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+\Z")
# Of a property's text, on one line.
SHOWN = 100


def header_of(service: Mapping[str, object]) -> Mapping[str, object]:
    """The header of an application; a flat service of version 0.3 has its parts beside the rest."""
    return cast("Mapping[str, object]", service.get("?", service))


def application_row(
    service: Mapping[str, object],
    pending: str = "",
    versions: Mapping[str, JsonObject] | None = None,
) -> JsonObject:
    """One application as a table row.

    ``pending``: how it differs from what is deployed; ``versions``: by its id the ``version`` of its
    package, and the ``newest`` that it could move up to.
    """
    header = header_of(service)
    actions = cast("JsonObject", header.get("_actions") or {})
    known = (versions or {}).get(str(header.get("id")), {})
    return {
        "name": header.get("name") or service.get("name"),
        "type": str(header.get("type", "")).split("/")[0],
        "version": known.get("version"),
        "newer": known.get("newest"),
        "pending": pending,
        "url": ", ".join(str(value) for key, value in service.items() if _is_url(key, value)),
        "id": header.get("id"),
        "actions": ", ".join(sorted(str(a["name"]) for a in actions.values() if a.get("enabled"))),
    }


def _is_url(key: str, value: object) -> bool:
    return key != "?" and isinstance(value, str) and bool(_URL.match(value))


def emit_applications(rows: Sequence[JsonObject]) -> None:
    """The table of applications, without columns that are empty."""
    filled = [
        (title, key)
        for title, key in COLUMNS
        if key not in SOMETIMES or any(row[key] for row in rows)
    ]
    emit_rows(rows, filled)


def show_applications(
    services: Sequence[JsonObject],
    waiting: Iterable[JsonObject],
    versions: Mapping[str, JsonObject],
) -> None:
    """The table, and below it the plain properties of each application.

    ``waiting``: the changes that are not deployed (``changes`` of a session); those are marked.
    ``versions``: as of ``application_row``.
    """
    changes = {str(one["id"]): one for one in waiting if one.get("type")}
    rows = [
        application_row(one, described(changes.get(str(header_of(one).get("id")))), versions)
        for one in services
    ]
    rows += [
        {**application_row({}), "name": one["application"] or one["id"], "id": one["id"],
         "type": str(one["type"]).split("/")[0], "pending": "removed"}
        for one in changes.values() if one["change"] == "removed"
    ]  # fmt: skip
    emit_applications(rows)
    for service, row in zip(services, rows, strict=False):
        change = changes.get(str(row["id"]), {})
        lines = properties(service, change.get("properties") or ())
        if lines:
            click.echo(f"\n{click.style(str(row['name'] or row['id']), bold=True)}")
        for line in lines:
            click.echo(f"  {line}")


def described(change: JsonObject | None) -> str:
    """A change in a cell: ``added``, or the changed properties."""
    if change is None:
        return ""
    return ", ".join(change.get("properties") or ()) or str(change["change"])


def properties(service: JsonObject, changed: Iterable[str]) -> list[str]:
    """A line for each plain property, what a deployment has put there too; changed ones are marked."""
    hidden = ("?", "name") if "?" in service else FLAT_HEADER
    plain = {
        key: value
        for key, value in service.items()
        if key not in hidden and value is not None and not isinstance(value, (dict, list))
    }
    width = max((len(key) for key in plain), default=0)
    first = {path.partition(".")[0] for path in changed}
    return [
        f"{key:{width}}  {_line(cell(value))}{'  (not deployed yet)' if key in first else ''}"
        for key, value in plain.items()
    ]


def _line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
