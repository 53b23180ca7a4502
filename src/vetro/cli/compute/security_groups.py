"""``vetro group``: security groups, and the rules that say who may connect to what."""

from __future__ import annotations

import ipaddress
import re

import click

from vetro.cli.client.connection import Connection
from vetro.cli.compute.lookup import (
    GROUP,
    Row,
    common_verbs,
    find,
    project_of,
    project_option,
    row_of,
)
from vetro.cli.compute.networks import refuse_nothing
from vetro.cli.terminal.output import PrintingGroup, done, emit_rows, fail
from vetro.compute.client.calls import SECURITY_GROUPS
from vetro.compute.wire import (
    NewSecurityGroup,
    Rule,
    SecurityGroup,
    SecurityGroupChange,
    SecurityRule,
)
from vetro.digits import is_number

RULE_COLUMNS = [
    ("NUMBER", "number"),
    ("DIRECTION", "direction"),
    ("PROTOCOL", "protocol"),
    ("PORTS", "ports"),
    ("REMOTE", "remote"),
]
_NAMED = ("tcp", "udp", "icmp", "any")


@click.group(cls=PrintingGroup)
def group() -> None:
    """Security groups: what may reach a port, and what it may reach.

    Without a group a port is open. In a group, in goes only what a rule allows; everything goes out
    until a rule for going out says what may.
    """


@group.group()
def rule() -> None:
    """Rules of a security group."""


def _counted(_connection: Connection, found: list[SecurityGroup]) -> list[Row]:
    return [row_of(one, count=len(one.rules)) for one in found]


common_verbs(group, GROUP, _counted)


def _protocol(_context: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is None or value.lower() in _NAMED or (is_number(value) and int(value) < 256):
        return value.lower() if value else value
    raise click.BadParameter(f"{value!r} is not one of {', '.join(_NAMED)}, nor a number below 256")


def _port_range(
    _context: click.Context, _param: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    found = re.fullmatch(r"(\d{1,5})(?:[-:](\d{1,5}))?", value)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= low <= high <= 65535:
        raise click.BadParameter(
            f"{value!r} is neither a port (80) nor a range of them (8000-8080)"
        )
    return low, high


def _remote(_context: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        return str(ipaddress.ip_network(value))
    except ValueError as error:
        raise click.BadParameter(
            f"{error}. A range is written like 10.77.5.0/24, or fd00:5::/64"
        ) from error


@group.command("create", short_help="Make a security group.")
@click.argument("name")
@click.option("--description", default="", help="What it is for.")
@project_option
def group_create(name: str, description: str, project: str | None) -> None:
    """Make a security group NAME without rules: nothing gets in until 'rule add'."""
    with Connection() as connection:
        owner = project_of(connection, project)
        new = NewSecurityGroup(project_id=owner, name=name, description=description)
        made = connection.send(SECURITY_GROUPS.create(new))
    done(f"Security group {name} ({made.uuid}) is there; nothing gets in yet", **row_of(made))


@group.command("update", short_help="Change a group's description or name.")
@click.argument("name_or_uuid", type=GROUP.argument)
@click.option("--name", help="What it is called.")
@click.option("--description", help="What it is for.")
def group_update(name_or_uuid: str, name: str | None, description: str | None) -> None:
    """Change a group's name or description."""
    change = SecurityGroupChange()
    if name is not None:
        change.name = name
    if description is not None:
        change.description = description
    refuse_nothing(change, "--name or --description")
    with Connection() as connection:
        row = find(connection, GROUP, name_or_uuid)
        changed = connection.send(SECURITY_GROUPS.change(row.uuid, change))
    done(f"Security group {GROUP.called(row)} is changed", **row_of(changed))


def _as_row(number: int, given: Row, names: dict[str, str]) -> Row:
    low, high = given.get("port_range_min"), given.get("port_range_max")
    of_group = given.get("remote_group_id")
    return {
        **given,
        "number": number,
        "direction": "out" if given.get("direction") == "egress" else "in",
        "protocol": given.get("protocol") or "any",
        "ports": "any" if low is None else str(low) if low == high else f"{low}-{high}",
        "remote": (
            f"group {names.get(of_group, of_group)}"
            + (" (IPv6)" if given.get("ethertype") == "IPv6" else "")
            if of_group
            else given.get("remote_ip_prefix") or "anywhere"
        ),
    }


def _rules(connection: Connection, group: SecurityGroup) -> list[Row]:
    names = {one.uuid: one.name for one in connection.send(SECURITY_GROUPS.all())}
    return [_as_row(number, one, names) for number, one in enumerate(group.rules, 1)]


def _store(connection: Connection, group: SecurityGroup, rules: list[Rule]) -> SecurityGroup:
    change = SecurityGroupChange(rules=rules)
    return connection.send(SECURITY_GROUPS.change(group.uuid, change))


@rule.command("list")
@click.argument("name_or_uuid", type=GROUP.argument)
def rule_list(name_or_uuid: str) -> None:
    """List the rules of a group, each with its number."""
    with Connection() as connection:
        row = find(connection, GROUP, name_or_uuid)
        emit_rows(_rules(connection, row), RULE_COLUMNS)


@rule.command("add", short_help="Let something in, or out.")
@click.argument("name_or_uuid", type=GROUP.argument)
@click.option("--out", "outwards", is_flag=True, help="For what goes out [what comes in].")
@click.option("--protocol", callback=_protocol, help="tcp, udp, icmp, any or a number [tcp].")
@click.option("--port", "ports", callback=_port_range, help="A port, or a range: 8000-8080 [any].")
@click.option("--remote", callback=_remote, help="The range at the other end [0.0.0.0/0].")
@click.option("--remote-group", type=GROUP.argument, help="The group at the other end.")
@click.option("--ipv6", is_flag=True, help="For IPv6 [the family of --remote, else IPv4].")
def rule_add(
    name_or_uuid: str,
    outwards: bool,
    protocol: str | None,
    ports: tuple[int, int] | None,
    remote: str | None,
    remote_group: str | None,
    ipv6: bool,
) -> None:
    """Add a rule to a group; the nodes of its ports have it when this returns.

    \b
    Examples:
      vetro group rule add web --port 443
      vetro group rule add web --protocol icmp --remote 10.0.0.0/8
    """
    protocol = protocol or "tcp"
    if ports is not None and protocol not in ("tcp", "udp", "6", "17"):
        fail(f"{protocol} has no ports", "--port goes with --protocol tcp or udp.", 2)
    if remote is not None and remote_group is not None:
        fail("--remote and --remote-group exclude each other", exit_code=2)
    if ipv6 and remote is not None and ":" not in remote:
        fail(f"{remote} is a range of IPv4", "Leave --ipv6 out, or give a range of IPv6.", 2)
    ipv6 = ipv6 or ":" in (remote or "")
    with Connection() as connection:
        row = find(connection, GROUP, name_or_uuid)
        other = find(connection, GROUP, remote_group, row.project_id) if remote_group else None
        made = SecurityRule(
            direction="egress" if outwards else "ingress",
            protocol=None if protocol == "any" else protocol,
            port_range_min=ports[0] if ports else None,
            port_range_max=ports[1] if ports else None,
            ethertype="IPv6" if ipv6 else "IPv4",
            remote_ip_prefix=None if other else remote or ("::/0" if ipv6 else "0.0.0.0/0"),
            remote_group_id=other.uuid if other else None,
        ).body()
        if made in row.rules:
            done(f"Security group {GROUP.called(row)} has this rule already", **row_of(row))
            return
        changed = _store(connection, row, [*row.rules, made])
    done(f"Security group {GROUP.called(row)} has rule {len(changed.rules)}", **row_of(changed))


@rule.command("remove", short_help="Remove a rule by its number.")
@click.argument("name_or_uuid", type=GROUP.argument)
@click.argument("number", type=click.IntRange(1))
def rule_remove(name_or_uuid: str, number: int) -> None:
    """Remove the rule of this NUMBER ('vetro group rule list'); later ones move up."""
    with Connection() as connection:
        row = find(connection, GROUP, name_or_uuid)
        rules = row.rules
        if number > len(rules):
            fail(
                f"Security group {GROUP.called(row)} has no rule {number}, only {len(rules)}",
                "'vetro group rule list' shows their numbers.",
            )
        changed = _store(connection, row, rules[: number - 1] + rules[number:])
    done(f"Rule {number} of security group {GROUP.called(row)} is removed", **row_of(changed))
