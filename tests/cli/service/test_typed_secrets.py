"""What is typed and is secret is printed by no command, whatever becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.service.shop import CLASSES, FORM
from tests.cli.serving import Service

pytestmark = [pytest.mark.e2e]
SECRET = 'Tr0ub4dor\'s "ß" %'
#: A class with a secret that is text, one below an object, and one that must be a number.
KEEPER = CLASSES.replace(
    "  port: {Contract: $.int().notNull().check($ > 0)}\n",
    "  port: {Contract: $.int().notNull().check($ > 0)}\n"
    "  adminPassword: {Contract: $.string()}\n"
    "  apiKey: {Contract: $.int()}\n"
    "  db: {Contract: {password: $.string()}}\n"
    "  code: {Contract: $.string()}\n",
).replace(
    "      - what: {Contract: $.string().notNull()}\n    Body:\n      - Return: format",
    "      - what: {Contract: $.string().notNull()}\n"
    "      - password: {Contract: $.int()}\n    Body:\n      - Return: format",
)
KEEPER_FORM = FORM.replace(
    "  port: $.shop.port\n",
    "  port: $.shop.port\n  adminPassword: $.shop.adminPassword\n  code: $.shop.code\n",
).replace(
    "minValue: 1}\n",
    "minValue: 1}\n        - {name: adminPassword, type: password, label: Password, required: false}\n"
    "        - {name: code, type: password, label: Code, required: false}\n",
)
TEXT = json.dumps(SECRET, ensure_ascii=False)
BELOW = json.dumps({"password": SECRET})
#: Commands, with what each is to end in: 0, or the mistake that is in them.
COMMANDS: list[tuple[int, list[str]]] = [
    (0, ["env", "edit", "main", "corner", "--set", f"adminPassword={SECRET}"]),
    (0, ["env", "edit", "main", "corner", "--set", f"adminPassword={TEXT}", "--json"]),
    (0, ["env", "edit", "main", "corner", "--set", f"db={BELOW}"]),
    (0, ["env", "edit", "main", "corner", f"--set=db.password={SECRET}", "--format", "value"]),
    (0, ["env", "edit", "main", "corner", "--set", f"db.password={SECRET}", "--column", "db"]),
    (1, ["env", "edit", "main", "corner", "--set", f"apiKey={SECRET}"]),
    (1, ["env", "edit", "main", "corner", "--set", f"noPassword={SECRET}"]),
    (1, ["env", "edit", "main", "corner", "--set", f"name.password={SECRET}"]),
    (1, ["env", "edit", "none", "corner", "--set", f"adminPassword={SECRET}"]),
    (2, ["env", "edit", "main", "corner", "--set", f"adminPassword:{SECRET}"]),
    (2, ["env", "edit", "main", "corner", "--set", "adminPassword", SECRET]),
    (2, ["env", "edit", "main", "corner", f"adminPassword={SECRET}"]),
    (2, ["env", "edit", "main", "corner", f"--admin-password={SECRET}"]),
    (0, ["env", "add", "main", "Shop", "--name", "a", "--set", f"adminPassword={SECRET}"]),
    (0, ["env", "add", "main", "Shop", "--name", "b", "--set", f"adminPassword={SECRET}", "--json"]),
    (0, ["env", "add", "other", "Shop", "--name", "d", "--set", f"code={SECRET}", "--json"]),
    (0, ["cnapi", "/security-groups", "-d", json.dumps({"name": "a password", "description": "x"})]),
    (1, ["cnapi", "/keypairs/k", "-d", BELOW, "-X", "PUT"]),
    (1, ["env", "add", "main", "Shop", "--name", "c", "--set", f"secretPort={SECRET}"]),
    (0, ["env", "changes", "main"]),
    (0, ["env", "changes", "main", "--json"]),
    (0, ["env", "show", "main"]),
    (0, ["env", "show", "main", "--json"]),
    (0, ["env", "show", "main", "--only-apps"]),
    (0, ["env", "list", "--json"]),
    (0, ["env", "patch", "main", "{patch}"]),
    (0, ["env", "patch", "main", "{patch}", "--json"]),
    (0, ["env", "patch", "main", "{model}", "--model"]),
    (1, ["env", "patch", "main", "{wrong}"]),
    (1, ["env", "patch", "main", "{tested}"]),
    (1, ["env", "patch", "main", "{tested}", "--model"]),
    (0, ["env", "upgrade", "main", "corner", "--set", f"adminPassword={SECRET}", "--preview"]),
    (0, ["env", "upgrade", "main", "corner", "--set", f"adminPassword={SECRET}", "--preview",
         "--json"]),
    (0, ["env", "remove", "main", "b", "--json"]),
    (0, ["env", "deploy", "main", "--json"]),
    (1, ["action", "call", "main", "sell", "--arg", "what=tea", "--arg", f"password={SECRET}"]),
    (0, ["deployment", "list", "main", "--json"]),
    (1, ["action", "static", "test.Prices", "of", "--arg", f"password={SECRET}"]),
    (0, ["template", "list", "--json"]),
]  # fmt: skip


def spelled() -> list[str]:
    """The secret as texts, JSON, addresses and Python write it."""
    from urllib.parse import quote

    return [SECRET, SECRET[:9], json.dumps(SECRET)[1:-1], quote(SECRET), repr(SECRET)[1:-1]]


@pytest.mark.thorough
def test_no_command_prints_what_was_typed_and_is_secret(
    service: Service, package: Callable[..., Path], tmp_path: Path
) -> None:
    """Neither its answer nor its error nor ``--debug`` nor the service's log have it."""
    root = package(form=KEEPER_FORM)
    (root / "Classes/Shop.yaml").write_text(KEEPER)
    service.ok("package", "import", root)
    service.ok("env", "create", "main")
    service.ok("env", "create", "other")
    service.ok("env", "add", "main", "Shop", "--name", "corner")
    files: dict[str, list[dict[str, Any]]] = {
        "patch": [{"op": "replace", "path": "/0/adminPassword", "value": SECRET}],
        "model": [{"op": "add", "path": "/services/0/adminPassword", "value": SECRET}],
        "tested": [{"op": "test", "path": "/0/adminPassword", "value": SECRET + "x"}],
        "wrong": [{"op": "nothing", "path": "/0/x", "value": {"password": SECRET}}],
    }
    for name, steps in files.items():
        (tmp_path / name).write_text(json.dumps(steps))
    names = {name: tmp_path / name for name in files}
    problems: list[str] = []
    for expected, command in COMMANDS:
        given = [str(names.get(one.strip("{}"), one)) if one[0] == "{" else one for one in command]
        for options in ((), ("--debug",)):
            code, said = service.run(*options, *given)
            shown = [one for one in spelled() if one in said]
            if shown:
                problems.append(f"{command} prints it: {said}")
            if not options and code != expected:
                problems.append(f"{command} ended with {code}: {said}")
    log = "".join(service.lines)
    problems += [f"the log has {one}" for one in spelled() if one in log]
    model = service.ok("env", "model", "main", "--path", "services/0/adminPassword", "--raw")
    assert model == f"{SECRET}\n", "the command to edit with shows what there is"
    for name in ("main", "other"):
        service.ok("env", "destroy", name, "--yes")
    assert not problems, "\n".join(problems)
