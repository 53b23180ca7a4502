"""Commands that destroy or lose something: one rule for all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import click
import pytest

from vetro.cli import cli
from vetro.cli.client.connection import Connection
from vetro.cli.terminal import confirmation as choice
from vetro.http.client import SyncResponse

NAMED_SO = re.compile(r"(^|[ -])(destroy|delete|remove|rollback|reset|evacuate|rotate|discard)")
# Named so, but nothing is lost by them: why.
LOSES_NOTHING = {
    "env remove": "the application goes with the next deploy; 'env changes --discard' brings it back",
    "group rule remove": "a rule is a line that 'group rule add' writes again",
    "server delete-nictags": "tags are names, given again with update-nictags",
}
ENVIRONMENT = {"id": "e1", "name": "web", "status": "ready"}
APPLICATION = {
    "?": {"id": "a1", "type": "org.Site", "name": "site"},
    "instance": {
        "?": {"id": "m1", "type": "io.Linux"},
        "name": "host",
        "flavor": "m1",
        "image": "i",
    },
}
PACKAGE = {
    "id": "p1", "name": "Site", "fully_qualified_name": "org.Site", "version": "1.0.0",
    "is_public": True,
}  # fmt: skip
UUID = "0b1e2a3c-4d5e-4f60-8a7b-9c0d1e2f3a4b"
SERVER = {"uuid": "s1", "hostname": "node-1", "vms": {UUID: {"alias": "db"}}}
OBJECTS: dict[str, dict[str, Any]] = {
    "networks": {},
    "subnets": {"network_uuid": UUID, "cidr": "10.0.0.0/24"},
    "routers": {},
    "ports": {"network_uuid": UUID, "mac": "90:b8:d0:00:00:01", "fixed_ips": []},
    "security-groups": {},
    "floating-ips": {"network_uuid": UUID, "address": "192.0.2.1"},
}
ANSWERS: dict[str, Any] = {
    "/v1/environments": {"environments": [ENVIRONMENT]},
    "/v1/environments/e1": {**ENVIRONMENT, "services": [APPLICATION]},
    "/v1/environments/e1/sessions": {
        "sessions": [
            {"id": "x", "own": True, "overtaken": False, "changes": [1], "summary": "added more"}
        ]
    },
    "/v1/catalog/packages": {"packages": [PACKAGE]},
    "/v1/catalog/categories": {"categories": [{"id": "c1", "name": "Web"}]},
    "/projects": {"projects": [{"id": "p1", "name": "team", "enabled": True}]},
    "/v1/quotas/p1": {"quotas": {"cores": {"used": 1, "limit": 4, "default": -1, "unit": ""}}},
    "/projects/p1/holdings": {"holdings": {"environments": ["web", "db"], "images": ["debian"]}},
    "/compute/images": [{"uuid": "i1", "name": "debian", "version": "1", "published_at": "then"}],
    "/compute/servers": [SERVER],
    "/compute/ports": [],
    "/compute/routers": [],
    **{
        f"/compute/{kind}/{UUID}": {"uuid": UUID, "name": "one", "project_id": "p1", **more}
        for kind, more in OBJECTS.items()
    },
}
# Every command, what it says would be lost, and the option that agrees.
COMMANDS: dict[tuple[str, ...], tuple[str, str]] = {
    ("env", "destroy", "web"): (
        "1 application (site), 1 machine and their disks, changes that wait (added more), its history",
        "--yes",
    ),
    ("env", "destroy", "web", "--abandon"): ("its machines (1) stay", "--yes"),
    ("env", "changes", "web", "--discard"): ("added more", "--yes"),
    ("package", "delete", "Site"): ("org.Site 1.0.0", "--yes"),
    ("category", "delete", "Web"): ("Web", "--yes"),
    ("project", "delete", "team"): ("project team would be deleted", "--yes"),
    ("project", "delete", "team", "--force"): (
        "project team would be deleted, with all that it has (environments: 2 (web, db), images: 1 (debian))",
        "--yes",
    ),
    ("quota", "reset", "team"): ("would lose the limits of its own (cores 4)", "--yes"),
    ("image", "delete", "debian"): ("debian (i1)", "--yes"),
    ("vm", "destroy", "db"): ("VM db would be destroyed with its disks", "--yes"),
    ("vm", "delete", "db", "db"): ("VM db would be destroyed with its disks", "--yes"),
    **{
        (kind, "delete", UUID): (f"{noun} one would be deleted", "--yes")
        for kind, noun in (
            ("network", "network"),
            ("subnet", "subnet"),
            ("router", "router"),
            ("port", "port"),
            ("group", "security group"),
        )
    },
    ("address", "delete", UUID): ("floating address 192.0.2.1 would be deleted", "--yes"),
    ("keypair", "delete", "k"): ("key pair k would be deleted", "--yes"),
    ("vm", "snapshot", "rollback", "db", "old"): ("what changed since old", "--yes"),
    ("vm", "snapshot", "delete", "db", "old"): ("would lose its snapshot old", "--yes"),
    ("server", "factory-reset", "node-1"): ("Everything on server node-1", "--yes"),
    ("server", "evacuate", "node-1"): ("its VMs would run twice", "--fenced"),
    ("key", "rotate"): ("backups of the database", "--yes"),
}


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below a group by its whole name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, f"{path}{name} ")
        else:
            yield f"{path}{name}", found


def options(command: click.Command) -> set[str]:
    """The names of a command's options."""
    return {name for one in command.params for name in one.opts}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests that would change something; reads are answered from a table."""
    changed: list[str] = []

    def answer(to: Connection, method: str, url: str, **__: Any) -> SyncResponse:
        path = url.removeprefix(to.identity_url).removeprefix(to.url)
        if method != "GET":
            changed.append(f"{method} {path}")
            refusal = {"error": {"message": "stopped here"}}
            return SyncResponse(418, {}, json.dumps(refusal).encode())
        return SyncResponse(200, {}, json.dumps(ANSWERS[path]).encode())

    monkeypatch.setattr(Connection, "_send", answer)
    monkeypatch.setattr(Connection, "token", "t")
    return changed


@pytest.fixture(autouse=True)
def project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody logs in."""
    monkeypatch.setattr(Connection, "project_id", "p1")


@pytest.fixture(autouse=True)
def data(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No installation of this machine is meant."""
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_every_command_that_loses_something_has_the_rule() -> None:
    """By their names, all commands there are; each is tested below or says why it loses nothing."""
    found = dict(commands(cli))
    losing = {name for name in found if NAMED_SO.search(name)} - set(LOSES_NOTHING)
    without = {name for name in losing if not {"--yes", "--fenced"} & options(found[name])}
    assert without == set(), "these destroy something: give them yes_option and agree()"
    ruled = {name for name, command in found.items() if "--yes" in options(command)}
    for name in ruled:
        assert "-y" in options(found[name]), f"{name}: --yes comes from yes_option"
    assert set(LOSES_NOTHING) <= set(found)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("as_json", [False, True])
def test_nobody_to_ask_nothing_is_done(
    sent: list[str], invoke: Any, monkeypatch: pytest.MonkeyPatch, command: Any, as_json: bool
) -> None:
    """Without a terminal, or with --json on one: exit code 2, what would be lost, and the option."""
    monkeypatch.setattr(choice, "is_watched", lambda: as_json)
    losing, option = COMMANDS[command]
    code, text = invoke(*command, *(["--json"] if as_json else []), input="y\n")
    assert (code, sent) == (2, [])
    assert losing in text
    assert option in text


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_on_a_terminal_the_user_is_asked(
    sent: list[str], invoke: Any, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    """A refusal or an empty answer changes nothing."""
    monkeypatch.setattr(choice, "is_watched", lambda: True)
    losing, _ = COMMANDS[command]
    code, text = invoke(*command, input="\n")
    assert (code, sent) == (1, [])
    assert losing in text
    assert "[y/N]" in text
    assert "Nothing was done" in text


@pytest.mark.parametrize("agreed", [True, False])
@pytest.mark.parametrize("command", [one for one in COMMANDS if one[0] != "key"], ids=" ".join)
def test_whoever_agrees_is_obeyed(
    sent: list[str], invoke: Any, monkeypatch: pytest.MonkeyPatch, command: Any, agreed: bool
) -> None:
    """The option agrees without a question; otherwise an answer agrees."""
    monkeypatch.setattr(choice, "is_watched", lambda: not agreed)
    code, text = invoke(*command, *([COMMANDS[command][1]] if agreed else []), input="y\n")
    assert len(sent) == 1
    assert (code, "stopped here" in text) == (1, True)
    assert ("[y/N]" in text) is not agreed
