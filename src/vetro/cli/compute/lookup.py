"""Objects of the compute service by the names that people know them by.

Names are looked up in one project: the user's own, or the one that ``--project`` names. Ids are known
everywhere. Several objects of one name are never chosen from silently (`choice.choose`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import click
import msgspec

from vetro.cli.client.connection import Connection, error_text, hint_for
from vetro.cli.client.name_completion import PROJECT, NameOf
from vetro.cli.terminal.confirmation import agree, choose, some_of, yes_option
from vetro.cli.terminal.output import counted, done, emit_object, emit_rows, fail
from vetro.compute.client.calls import (
    FLOATING_IPS,
    NETWORKS,
    PORTS,
    ROUTERS,
    SECURITY_GROUPS,
    SUBNETS,
    Change,
    Known,
    New,
    Shown,
)
from vetro.compute.client.calls import Kind as Calls

Row = dict[str, Any]
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.I)
_SHOWN_NAMES = 20


@dataclass(frozen=True)
class Kind(Generic[Shown, New, Change]):
    """One kind of object: its calls, and the command that lists it.

    ``names``: the properties that a user may name it by, beside its uuid. ``columns``: of the list.
    """

    calls: Calls[Shown, New, Change]
    command: str
    names: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    in_use: str
    """The hint when the service refuses to delete one that is used."""

    @property
    def noun(self) -> str:
        """Its noun in texts."""
        return self.calls.noun

    @property
    def argument(self) -> NameOf:
        """The type of an argument that names one: it completes names."""
        return NameOf(f"/compute{self.calls.path}", label=self.names[0])

    def label(self, one: Shown) -> str:
        """What distinguishes an object from others of its name."""
        row = row_of(one)
        more = [str(row[name]) for name in ("cidr", "address", "mac") if row.get(name)]
        more += [counted(len(row["subnets"]), "subnet")] if "subnets" in row else []
        more.append(f"project {one.project_id}" if one.project_id else "shared")
        return f"{one.uuid} ({', '.join(more)})"

    def called(self, one: Shown) -> str:
        """What a user calls an object: its name, or its uuid when it has none."""
        return str(getattr(one, self.names[0], "") or one.uuid)


def row_of(one: Known, **more: object) -> Row:
    """An object as it is printed, with what a command adds to it."""
    return {**msgspec.to_builtins(one), **more}


NETWORK = Kind(
    NETWORKS,
    "network",
    ("name",),
    (("UUID", "uuid"), ("NAME", "name"), ("RANGES", "ranges"), ("SHARED", "external"),
     ("MTU", "mtu")),
    "Destroy its VMs first ('vetro vm destroy'), or delete ports that no VM uses ('vetro port delete').",
)  # fmt: skip
SUBNET = Kind(
    SUBNETS,
    "subnet",
    ("name", "cidr"),
    (("UUID", "uuid"), ("NAME", "name"), ("RANGE", "cidr"), ("GATEWAY", "gateway"),
     ("NETWORK", "network")),
    "Delete its ports ('vetro port list') and detach it from its router ('vetro router detach')"
    " first.",
)  # fmt: skip
ROUTER = Kind(
    ROUTERS,
    "router",
    ("name",),
    (("UUID", "uuid"), ("NAME", "name"), ("SUBNETS", "ranges"), ("OUTSIDE", "outside")),
    "Detach its subnets first ('vetro router detach').",
)
PORT = Kind(
    PORTS,
    "port",
    ("name", "mac"),
    (("UUID", "uuid"), ("NAME", "name"), ("NETWORK", "network"), ("ADDRESS", "ip"),
     ("FLOATING", "floating"), ("VM", "device_uuid")),
    "Take it from the VM first ('vetro vm interface remove'), or destroy the VM: its ports are free then.",
)  # fmt: skip
ADDRESS = Kind(
    FLOATING_IPS,
    "address",
    ("address",),
    (("UUID", "uuid"), ("ADDRESS", "address"), ("LEADS TO", "fixed_ip"), ("PORT", "port_uuid"),
     ("VM", "device_uuid")),
    "Disassociate it first ('vetro address disassociate').",
)  # fmt: skip
GROUP = Kind(
    SECURITY_GROUPS,
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


def listing(
    connection: Connection, kind: Kind[Shown, New, Change], project: str | None
) -> list[Shown]:
    """The objects of a project, with shared networks; of all that the user may see for ``None``."""
    found = connection.send(kind.calls.all(project))
    return sorted(found, key=lambda one: (str(getattr(one, kind.names[0]) or ""), one.uuid))


def find(
    connection: Connection,
    kind: Kind[Shown, New, Change],
    wanted: str,
    project: str | None = None,
) -> Shown:
    """The object that a user means; the command ends when there is none, and asks when there are more."""
    if UUID.match(wanted):
        known = connection.look_up(kind.calls.one(wanted.lower()))
        if known is not None:
            return known
    rows = listing(connection, kind, project or connection.project_id)
    found: list[Shown] = []
    for name in kind.names:
        found = found or [one for one in rows if wanted and getattr(one, name) == wanted]
    if not found:
        names = [kind.called(one) for one in rows]
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        there = ", ".join(names[:_SHOWN_NAMES]) + more
        fail(
            f"There is no {kind.noun} '{wanted}' in this project",
            f"There are: {there}." if there else f"'vetro {kind.command} create' makes one.",
        )
    return choose(found, wanted, kind.label, "Name it by its uuid.")


def delete(
    connection: Connection, kind: Kind[Shown, New, Change], rows: Sequence[Shown]
) -> list[Shown]:
    """Delete objects and return those deleted. For one in use the command ends and names its users."""
    gone: list[Shown] = []
    for one in rows:
        answer = connection.answer_to(kind.calls.remove(one.uuid))
        if answer.status >= 400:
            hint = kind.in_use if answer.status == 409 else hint_for(answer)
            before = f" (deleted before: {', '.join(kind.called(one) for one in gone)})"
            fail(error_text(answer) + (before if gone else ""), hint)
        gone.append(one)
    return gone


project_option = click.option(
    "--project", type=PROJECT, help="The project it is for, by name or id [yours]."
)


def common_verbs(
    group: click.Group,
    kind: Kind[Shown, New, Change],
    look: Callable[[Connection, list[Shown]], list[Row]] = lambda _connection, found: [
        row_of(one) for one in found
    ],
    *,
    renamed: bool = True,
    deleting: str | None = "",
) -> None:
    """Give a group of commands ``list``, ``show``, ``rename`` and ``delete``.

    ``look`` makes of objects what the list and ``show`` print: by default them as they are.
    ``deleting``: the help text of ``delete``, '' for the usual one; ``None`` leaves it to the group.
    """

    @group.command("list", help=f"List {kind.noun}{'es' if kind.calls is FLOATING_IPS else 's'}.")
    @click.option("--project", type=PROJECT, help="Those of this project, by name or id [yours].")
    @click.option("--all-projects", is_flag=True, help="Of every project (operators).")
    def _list(project: str | None, all_projects: bool) -> None:  # pyright: ignore[reportUnusedFunction]
        with Connection() as connection:
            wanted = None if all_projects else project_of(connection, project)
            rows = listing(connection, kind, wanted)
            emit_rows(look(connection, rows), kind.columns)

    @group.command("show", help=f"Show one {kind.noun}, by {' or '.join(kind.names)} or uuid.")
    @click.argument("name_or_uuid", type=kind.argument)
    def _show(name_or_uuid: str) -> None:  # pyright: ignore[reportUnusedFunction]
        with Connection() as connection:
            row = find(connection, kind, name_or_uuid)
            emit_object(look(connection, [row])[0])

    if renamed:

        @group.command("rename", help=f"Give a {kind.noun} another name.")
        @click.argument("name_or_uuid", type=kind.argument)
        @click.argument("new_name")
        def _rename(name_or_uuid: str, new_name: str) -> None:  # pyright: ignore[reportUnusedFunction]
            with Connection() as connection:
                row = find(connection, kind, name_or_uuid)
                change = msgspec.convert({"name": new_name}, kind.calls.changed)
                changed = connection.send(kind.calls.change(row.uuid, change))
            done(f"The {kind.noun} {kind.called(row)} is called {new_name}", **row_of(changed))

    if deleting is not None:
        text = deleting or f"Delete {kind.noun}s that nothing uses."

        @group.command("delete", help=text, short_help=text.partition(";")[0].rstrip(".") + ".")
        @click.argument("names_or_uuids", nargs=-1, required=True, type=kind.argument)
        @yes_option
        def _delete(names_or_uuids: tuple[str, ...]) -> None:  # pyright: ignore[reportUnusedFunction]
            with Connection() as connection:
                # All are looked up before one is deleted: a wrong name changes nothing.
                rows = [find(connection, kind, one) for one in dict.fromkeys(names_or_uuids)]
                agree_to_delete(kind, rows)
                report_deleted(kind, delete(connection, kind, rows))


def agree_to_delete(kind: Kind[Shown, New, Change], rows: Sequence[Shown]) -> None:
    """Go on only when the user agrees to lose these."""
    called = some_of([kind.called(row) for row in rows])
    agree(f"The {kind.noun} {called} would be deleted", "Go on")


def report_deleted(kind: Kind[Shown, New, Change], rows: Sequence[Shown]) -> None:
    """Say what is gone."""
    called = ", ".join(kind.called(row) for row in rows)
    done(f"Deleted {kind.noun} {called}", deleted=[row.uuid for row in rows])
