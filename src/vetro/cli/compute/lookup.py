"""Objects of the compute service by the names that people know them by.

Names are looked up in one project: the user's own, or the one that ``--project`` names. Ids are known
everywhere. Several objects of one name are never chosen from silently (`choice.choose`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from vetro.cli.client.connection import Connection, error_text, hint_for, segment
from vetro.cli.client.name_completion import PROJECT, NameOf
from vetro.cli.terminal.choices import choose
from vetro.cli.terminal.confirmation import agree, some_of, yes_option
from vetro.cli.terminal.output import counted, done, emit_object, emit_rows, fail, json_option

Row = dict[str, Any]
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.I)
_SHOWN_NAMES = 20


@dataclass(frozen=True)
class Kind:
    """One kind of object: its path, what it is called, and the command that lists it.

    ``names``: the properties that a user may name it by, beside its uuid. ``columns``: of the list.
    """

    path: str
    noun: str
    command: str
    names: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    in_use: str
    """The hint when the service refuses to delete one that is used."""

    @property
    def argument(self) -> NameOf:
        """The type of an argument that names one: it completes names."""
        return NameOf(self.path, label=self.names[0])

    def label(self, row: Row) -> str:
        """What tells an object from others of its name."""
        more = [str(row[one]) for one in ("cidr", "address", "mac") if row.get(one)]
        more += [counted(len(row["subnets"]), "subnet")] if "subnets" in row else []
        more.append(f"project {row['project_id']}" if row["project_id"] else "shared")
        return f"{row['uuid']} ({', '.join(more)})"

    def called(self, row: Row) -> str:
        """What a user calls an object: its name, or its uuid when it has none."""
        return str(row.get(self.names[0]) or row["uuid"])


NETWORK = Kind(
    "/compute/networks",
    "network",
    "network",
    ("name",),
    (("UUID", "uuid"), ("NAME", "name"), ("RANGES", "ranges"), ("SHARED", "external"),
     ("MTU", "mtu")),
    "Destroy its VMs first ('vetro vm destroy'), or delete ports that no VM uses ('vetro port delete').",
)  # fmt: skip
SUBNET = Kind(
    "/compute/subnets",
    "subnet",
    "subnet",
    ("name", "cidr"),
    (("UUID", "uuid"), ("NAME", "name"), ("RANGE", "cidr"), ("GATEWAY", "gateway"),
     ("NETWORK", "network")),
    "Delete its ports ('vetro port list') and detach it from its router ('vetro router detach')"
    " first.",
)  # fmt: skip
ROUTER = Kind(
    "/compute/routers",
    "router",
    "router",
    ("name",),
    (("UUID", "uuid"), ("NAME", "name"), ("SUBNETS", "ranges"), ("OUTSIDE", "outside")),
    "Detach its subnets first ('vetro router detach').",
)
PORT = Kind(
    "/compute/ports",
    "port",
    "port",
    ("name", "mac"),
    (("UUID", "uuid"), ("NAME", "name"), ("NETWORK", "network"), ("ADDRESS", "ip"),
     ("FLOATING", "floating"), ("VM", "device_uuid")),
    "Destroy the VM first ('vetro vm destroy'): its ports are free then.",
)  # fmt: skip
ADDRESS = Kind(
    "/compute/floating-ips",
    "floating address",
    "address",
    ("address",),
    (("UUID", "uuid"), ("ADDRESS", "address"), ("LEADS TO", "fixed_ip"), ("PORT", "port_uuid"),
     ("VM", "device_uuid")),
    "Disassociate it first ('vetro address disassociate').",
)  # fmt: skip
GROUP = Kind(
    "/compute/security-groups",
    "security group",
    "group",
    ("name",),
    (("UUID", "uuid"), ("NAME", "name"), ("RULES", "count"), ("DESCRIPTION", "description")),
    "Take it from its ports first ('vetro port update --group'), and from the rules of others"
    " ('vetro group rule remove').",
)


def project_of(connection: Connection, wanted: str | None) -> str:
    """A project's id: of the one that is named (by id, or by name if the user is in it), or the own."""
    if wanted is None:
        return connection.project_id
    rows: list[Row] = connection.identity("/auth/projects")["projects"]
    found = [row["id"] for row in rows if wanted in (row["id"], row["name"])]
    if not found and not re.fullmatch(r"[0-9a-f]{32}|[0-9a-f-]{36}", wanted):
        names = ", ".join(sorted(row["name"] for row in rows)) or "none"
        fail(
            f"You are in no project '{wanted}'",
            f"Your projects: {names}. Operators name others by their ids.",
        )
    return found[0] if found else wanted


def listing(connection: Connection, kind: Kind, project: str | None) -> list[Row]:
    """The objects of a project, with shared networks; of all that the user may see for ``None``."""
    params = {"all_projects": "true"} if project is None else {"project_id": project}
    rows: list[Row] = connection.get(kind.path, params=params)
    return sorted(rows, key=lambda row: (str(row.get(kind.names[0]) or ""), row["uuid"]))


def find(connection: Connection, kind: Kind, wanted: str, project: str | None = None) -> Row:
    """The object that a user means; the command ends when there is none, and asks when there are more."""
    if _UUID.match(wanted):
        answer = connection.answer("GET", f"{kind.path}/{wanted.lower()}")
        if answer.status < 400:
            return answer.json()
        if answer.status != 404:
            fail(error_text(answer), hint_for(answer))
    rows = listing(connection, kind, project or connection.project_id)
    found: list[Row] = []
    for name in kind.names:
        found = found or [row for row in rows if wanted and row.get(name) == wanted]
    if not found:
        names = [kind.called(row) for row in rows]
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        there = ", ".join(names[:_SHOWN_NAMES]) + more
        fail(
            f"There is no {kind.noun} '{wanted}' in this project",
            f"There are: {there}." if there else f"'vetro {kind.command} create' makes one.",
        )
    return choose(found, wanted, kind.label, "Name it by its uuid.")


def path_of(kind: Kind, row: Row) -> str:
    """An object's path."""
    return f"{kind.path}/{segment(row['uuid'])}"


def delete(connection: Connection, kind: Kind, rows: Sequence[Row]) -> list[Row]:
    """Delete objects; one that is in use ends the command with who uses it. The deleted ones."""
    gone: list[Row] = []
    for row in rows:
        answer = connection.answer("DELETE", path_of(kind, row))
        if answer.status >= 400:
            hint = kind.in_use if answer.status == 409 else hint_for(answer)
            before = f" (deleted before: {', '.join(kind.called(one) for one in gone)})"
            fail(error_text(answer) + (before if gone else ""), hint)
        gone.append(row)
    return gone


project_option = click.option(
    "--project", type=PROJECT, help="The project it is for, by name or id [yours]."
)


def common_verbs(
    group: click.Group,
    kind: Kind,
    look: Callable[[Connection, list[Row]], list[Row]] | None = None,
    *,
    renamed: bool = True,
    deleted: bool = True,
) -> None:
    """Give a group of commands ``list``, ``show``, ``rename`` and ``delete``.

    ``look`` adds what the list and ``show`` tell beside what the service says.
    """

    @group.command("list", help=f"List {kind.noun}{'es' if kind is ADDRESS else 's'}.")
    @click.option("--project", type=PROJECT, help="Those of this project, by name or id [yours].")
    @click.option("--all-projects", is_flag=True, help="Of every project (operators).")
    @json_option
    def _list(project: str | None, all_projects: bool) -> None:  # pyright: ignore[reportUnusedFunction]
        with Connection() as connection:
            wanted = None if all_projects else project_of(connection, project)
            rows = listing(connection, kind, wanted)
            emit_rows(look(connection, rows) if look else rows, kind.columns)

    @group.command("show", help=f"Show one {kind.noun}, by {' or '.join(kind.names)} or uuid.")
    @click.argument("name_or_uuid", type=kind.argument)
    @json_option
    def _show(name_or_uuid: str) -> None:  # pyright: ignore[reportUnusedFunction]
        with Connection() as connection:
            row = find(connection, kind, name_or_uuid)
            emit_object((look(connection, [row]) if look else [row])[0])

    if renamed:

        @group.command("rename", help=f"Give a {kind.noun} another name.")
        @click.argument("name_or_uuid", type=kind.argument)
        @click.argument("new_name")
        @json_option
        def _rename(name_or_uuid: str, new_name: str) -> None:  # pyright: ignore[reportUnusedFunction]
            with Connection() as connection:
                row = find(connection, kind, name_or_uuid)
                body = {"name": new_name}
                changed = connection.request("PUT", path_of(kind, row), json=body).json()
            done(f"The {kind.noun} {kind.called(row)} is called {new_name}", **changed)

    if deleted:

        @group.command("delete", help=f"Delete {kind.noun}s that nothing uses.")
        @click.argument("names_or_uuids", nargs=-1, required=True, type=kind.argument)
        @yes_option
        @json_option
        def _delete(names_or_uuids: tuple[str, ...]) -> None:  # pyright: ignore[reportUnusedFunction]
            with Connection() as connection:
                # All are looked up before one is deleted: a wrong name changes nothing.
                rows = [find(connection, kind, one) for one in dict.fromkeys(names_or_uuids)]
                agree_to_delete(kind, rows)
                report_deleted(kind, delete(connection, kind, rows))


def agree_to_delete(kind: Kind, rows: Sequence[Row]) -> None:
    """Go on only when the user agrees to lose these."""
    called = some_of([kind.called(row) for row in rows])
    agree(f"The {kind.noun} {called} is deleted", "Go on")


def report_deleted(kind: Kind, rows: Sequence[Row]) -> None:
    """Say what is gone."""
    called = ", ".join(kind.called(row) for row in rows)
    done(f"Deleted {kind.noun} {called}", deleted=[row["uuid"] for row in rows])
