"""``vetro quota``: how much projects have and may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import click

from vetro.cli.client.connection import Connection, segment
from vetro.cli.client.name_completion import PROJECT
from vetro.cli.service.project import find_project
from vetro.cli.terminal.confirmation import agree, yes_option
from vetro.cli.terminal.output import PrintingGroup, done, emit_json, emit_rows, remark, wants_json

UNLIMITED = -1
RESOURCES = {
    "environments": "Environments.",
    "instances": "Containers and virtual machines.",
    "cores": "Processor cores of all instances.",
    "memory": "MiB of memory of all instances.",
    "addresses": "Floating addresses.",
    "volumes": "Volumes.",
    "disk": "GiB of all volumes.",
}
COLUMNS = [
    ("RESOURCE", "resource"),
    ("USED", "used"),
    ("LIMIT", "limit"),
    ("DEFAULT", "default"),
    ("UNIT", "unit"),
    ("ENFORCED BY", "enforced_by"),
]
Quotas = dict[str, Any]


@click.group(cls=PrintingGroup)
def quota() -> None:
    """Quotas: what projects have and may have; -1 is any amount."""


def _path(project_id: str) -> str:
    return f"/v1/quotas/{segment(project_id)}"


def _amount(number: int) -> str:
    return "any" if number == UNLIMITED else str(number)


def _emit(found: Quotas) -> None:
    if wants_json():
        emit_json(found)
        return
    rows = cast("dict[str, dict[str, Any]]", found["quotas"])
    emit_rows(
        [
            {
                **row,
                "resource": name,
                "limit": _amount(row["limit"]),
                "default": _amount(row["default"]),
            }
            for name, row in rows.items()
        ],
        COLUMNS,
    )
    for text in found.get("warnings", ()):
        remark(f"Warning: {text}")


@quota.command("show")
@click.argument("name_or_id", type=PROJECT, required=False)
@click.option(
    "--region", help="Region of an OpenStack; without it that of environments that name none."
)
def show(name_or_id: str | None, region: str | None) -> None:
    """Show what a project has and may have; without its name your own.

    Where an OpenStack makes the machines, your own are its numbers: it counts and refuses them.
    """
    if name_or_id is not None and region is not None:
        raise click.UsageError("--region shows your own project's quotas: leave the project out")
    with Connection() as connection:
        path, params = "/v1/quotas", {"region": region} if region else None
        if name_or_id is not None:
            path = _path(find_project(connection, name_or_id)["id"])
        found = connection.request("GET", path, params=params).json()
    _emit(found)


def _limits(command: Callable[..., None]) -> Callable[..., None]:
    """The options of the resources."""
    for name, text in reversed(RESOURCES.items()):
        option = click.option(f"--{name}", type=click.IntRange(min=UNLIMITED), help=text)
        command = option(command)
    return command


@quota.command("set")
@click.argument("name_or_id", type=PROJECT)
@_limits
def set_(name_or_id: str, **limits: int | None) -> None:
    """Give a project limits of its own; -1: any amount.

    A limit below what the project has takes nothing away: it gets no more until it has less.

    \b
    Example:
      vetro quota set demo --instances 10 --memory 40960
    """
    amounts = {name: amount for name, amount in limits.items() if amount is not None}
    if not amounts:
        raise click.UsageError("Give at least one limit, for example --instances 20")
    with Connection() as connection:
        row = find_project(connection, name_or_id)
        found = connection.request("PUT", _path(row["id"]), json=amounts).json()
    _emit(found)


@quota.command("reset")
@click.argument("name_or_id", type=PROJECT)
@yes_option
def reset(name_or_id: str) -> None:
    """Let a project have the limits of the settings again."""
    with Connection() as connection:
        row = find_project(connection, name_or_id)
        found = cast("dict[str, dict[str, Any]]", connection.get(_path(row["id"]))["quotas"])
        own = [
            f"{name} {_amount(one['limit'])}"
            for name, one in found.items()
            if one["limit"] != one["default"]
        ]
        limits = f" ({', '.join(own)})" if own else ""
        agree(f"project {row['name']} would lose the limits of its own{limits}", "Reset them")
        connection.request("DELETE", _path(row["id"]))
    done(f"Project {row['name']} has the limits of the settings", project_id=row["id"])
