"""What users of the stock clients see of each documented error (catalog-api.md §4 to §7)."""

from __future__ import annotations

import json
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.cli.stock.conftest import FORM, MANIFEST, Clients, id_in

from vetro.cli.client.connection import read_openrc

pytestmark = [pytest.mark.e2e]


SLOW_MANIFEST = MANIFEST.replace("test.Shop", "test.Slow").replace("Shop", "Slow")
SLOW = """
Namespaces: {=: test, std: io.murano, sys: io.murano.system}
Name: Slow
Extends: std:Application
Properties:
  name: {Contract: $.string()}
Methods:
  deploy:
    Body:
      - sleep(600)
  stop:
    Usage: Action
    Body:
      - sleep(600)
"""


@pytest.mark.thorough
def test_errors_of_sessions_and_deployments_are_shown_as_their_reason(
    clients: Clients, shop: Path
) -> None:
    """Each documented refusal of §5.2 to §5.7 that a command can provoke (catalog-api.md)."""
    run = clients.murano
    slow = clients.directory / "test.Slow.zip"
    with zipfile.ZipFile(slow, "w") as archive:
        archive.writestr("manifest.yaml", SLOW_MANIFEST)
        archive.writestr("Classes/Slow.yaml", SLOW)
        archive.writestr("UI/ui.yaml", FORM)
    for package in (shop, slow):
        run("package-import", str(package), "--exists-action", "s")
    one, busy = (id_in(run("environment-create", name), name) for name in ("one", "busy"))
    session, late, foreign = (
        id_in(run("environment-session-create", each)) for each in (one, busy, busy)
    )
    patch = [{"op": "add", "path": "/-", "value": {"?": {"type": "test.Slow", "id": "e" * 32}}}]
    run("environment-apps-edit", busy, "--session-id", foreign, stdin=json.dumps(patch))
    run("environment-deploy", busy, "--session-id", foreign)

    def adding(*services: object) -> str:
        return json.dumps([{"op": "add", "path": "/-", "value": each} for each in services])

    def edit(environment: str, of: str, *services: object) -> tuple[tuple[str, ...], str]:
        return ("environment-apps-edit", environment, "--session-id", of), adding(*services)

    def model(of: str, op: str, path: str, value: object = "x") -> tuple[tuple[str, ...], str]:
        change = json.dumps([{"op": op, "path": path, "value": value}])
        return ("environment-model-edit", one, "--session-id", of), change

    def plain(*argv: str) -> tuple[tuple[str, ...], str]:
        return argv, ""

    app = {"?": {"type": "test.Shop", "id": "d" * 32}, "name": "x", "port": 1}
    flat: dict[str, Any] = {"type": "linuxTelnetService", "name": "x", "units": [{}]}
    static = ("static-action-call", "test.Shop")
    cases: list[tuple[tuple[tuple[str, ...], str], str]] = [
        # §5.1, §5.2: a deployment runs
        (plain("environment-delete", busy), "deploying"),
        (plain("environment-session-create", busy), "deploying"),
        (plain("environment-deploy", busy, "--session-id", late), "invalid"),
        (plain("environment-deploy", busy, "--session-id", foreign), "deploying"),
        (plain("environment-action-call", busy, "--action-id", "x"), "deploying"),
        # §5.3
        (edit(one, "nothing", app), "is not found"),
        (edit(one, foreign, app), "not tied with Environment"),
        (edit(busy, late, app), "invalid"),
        (edit(one, session, {"name": "x"}), "'?'"),
        (edit(one, session, {"?": {"id": "x"}}), "type"),
        (edit(one, session, app, app), "d" * 32),
        (edit(one, session, flat), "'?'"),
        # §5.4
        (model("nothing", "replace", "/name"), "is not found"),
        (model(foreign, "replace", "/name"), "not tied with Environment"),
        (model(session, "replace", "/?/id"), "not permitted"),
        (model(session, "add", "/name"), "not permitted"),
        (model(session, "replace", "/name", 5), "shape"),
        (model(session, "replace", "/nothing/deeper"), "nothing"),
        # §5.6
        (plain(*static, "none"), "none"),
        (plain(*static, "sell"), "sell"),
        (plain(*static, "price"), "what"),
        (plain(*static, "price", "--arguments", "other=tea"), "other"),
        (plain(*static, "price", "--arguments", "what=null"), "what"),
        (plain(*static, "price", "--package-name", "test.None"), "test.None"),
        (plain(*static, "price", "--class-version", ">=9"), "test.Shop"),
        # §5.7
        (plain("class-schema", "test.Shop", "--package-name", "test.None"), "test.None"),
        # §6.2, §6.3
        (plain("package-import", str(shop), "--exists-action", "a"), "already registered"),
        (plain("package-update", "nothing", "--is-public", "true"), "nothing"),
    ]
    wrong: list[tuple[object, str]] = []
    for (argv, stdin), said in cases:
        code, out, err = clients.tried("murano", *argv, stdin=stdin)
        # The client prints what a static action raises, and that a package is there, and ends well.
        expected = 0 if argv[0] in ("static-action-call", "package-import") else 1
        if code != expected or said not in out + err or "Traceback" in out + err:
            wrong.append(((argv, stdin), out + err))
    for each in (one, busy):
        run("environment-delete", each, "--abandon")
    assert wrong == []


def test_errors_of_the_first_generation_are_shown_as_their_reason(clients: Clients) -> None:
    """What §7 refuses of flat services, in an environment that was made without ``/v1``."""
    rc = read_openrc(clients.directory / "data" / "admin-openrc")
    token = clients.openstack("token", "issue", "-f", "value", "-c", "id").strip()
    url = rc["OS_AUTH_URL"].removesuffix("/").removesuffix("/v3").removesuffix("/identity")
    request = urllib.request.Request(
        url + "/environments",
        json.dumps({"name": "flat-errors"}).encode(),
        {"X-Auth-Token": token, "Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request) as answer:
        one: str = json.loads(answer.read())["id"]
    run = clients.murano
    session = ["--session-id", id_in(run("environment-session-create", one))]
    telnet: dict[str, Any] = {"type": "linuxTelnetService", "name": "t", "units": [{}]}
    farm: dict[str, Any] = {
        "type": "webServerFarm",
        "name": "f",
        "loadBalancerPort": 80,
        "units": [{}],
    }
    add = [{"op": "add", "path": "/-", "value": telnet}]
    run("environment-apps-edit", one, *session, stdin=json.dumps(add))
    refused: list[tuple[object, str]] = [
        ({"?": {"type": "test.Shop"}}, "flat"),
        ({"name": "x", "units": [{}]}, "type"),
        ({"type": "noSuchService", "name": "x", "units": [{}]}, "noSuchService"),
        ({"type": "linuxTelnetService", "name": "x"}, "units"),
        ({**telnet, "units": "many"}, "units"),
        ({**telnet, "units": [1]}, "units"),
        ({**farm, "loadBalancerPort": 70_000}, "loadBalancerPort"),
        ({**farm, "loadBalancerPort": "80"}, "loadBalancerPort"),
        ({"type": "webServerFarm", "name": "x", "units": [{}]}, "loadBalancerPort"),
        ({"type": "msSqlServer", "name": "x", "units": [{}], "mixedModeAuth": "true"}, "mixedModeAuth"),
        ({"type": "activeDirectory", "name": "x", "units": [{}], "domain": "d"}, "adminPassword"),
    ]  # fmt: skip
    wrong: list[tuple[object, str]] = []
    for service, said in refused:
        change = json.dumps([{"op": "add", "path": "/-", "value": service}])
        code, out, err = clients.tried(
            "murano", "environment-apps-edit", one, *session, stdin=change
        )
        if code != 1 or "400" not in out + err or said not in out + err:
            wrong.append((service, out + err))
    for path, value in (("/services/0/type", "webServer"), ("/services/0/units", "many")):
        change = json.dumps([{"op": "replace", "path": path, "value": value}])
        code, out, err = clients.tried(
            "murano", "environment-model-edit", one, *session, stdin=change
        )
        if code != 1 or path.rpartition("/")[2] not in out + err:
            wrong.append((path, out + err))
    assert wrong == []
    services = json.loads(
        run("environment-show", one, *session, "--only-apps").partition("\n")[2] or "[]"
    )
    assert len(services) <= 1
    run("environment-delete", one, "--abandon")


def test_errors_are_shown_as_their_reason(clients: Clients) -> None:
    """What the service refuses, the client shows in the service's words, with the status."""
    run = clients.murano
    one = id_in(run("environment-create", "refusing"))
    taken = id_in(run("environment-create", "taken"), "taken")
    other = id_in(run("environment-session-create", taken))
    template = id_in(run("env-template-create", "taken"), "taken")
    run("category-create", "taken")
    wrong: list[tuple[tuple[str, ...], str]] = []
    for argv, said in [
        (("environment-show", "nothing"), "Environment nothing not found"),
        (("environment-create", " "), "must not be blank"),
        (("environment-create", "x" * 256), "255"),
        (("environment-session-create", "nothing"), "not found"),
        (("package-show", "nothing"), "Package nothing not found"),
        (("package-list", "--marker", "nothing"), "Marker nothing"),
        (("category-create", "x" * 81), "80 characters"),
        (("env-template-show", "nothing"), "template nothing not found"),
        (("env-template-clone", "nothing", "x"), "template nothing not found"),
        (("environment-action-call", "nothing", "--action-id", "x"), "not found"),
        (("environment-action-call", one, "--action-id", "x"), "x"),
        (("environment-action-get-result", one, "--task-id", "x"), "x"),
        (("environment-rename", one, " "), "must not be blank"),
        (("environment-rename", one, "taken"), "exists"),
        (("environment-rename", one, "x" * 256), "255"),
        (("environment-show", one, "--session-id", "nothing"), "not found"),
        (("environment-show", one, "--session-id", other), "not tied with Environment"),
        (("environment-deploy", one, "--session-id", "nothing"), "nothing> is not found"),
        (("environment-deploy", one, "--session-id", other), "not tied with Environment"),
        (("environment-model-show", one, "--path", "/none"), "none"),
        (("deployment-list", "nothing"), "nothing"),
        (("app-show", "nothing"), "nothing"),
        (("package-download", "nothing", "none.zip"), "nothing"),
        (("package-update", "nothing", "--name", "x"), "Package"),
        (("package-delete", "nothing"), "nothing"),
        (("category-delete", "nothing"), "nothing"),
        (("category-create", "taken"), "exists"),
        (("env-template-create", "taken"), "exists"),
        (("env-template-create", " "), "blank"),
        (("env-template-clone", template, "x"), "public"),
        (("env-template-create-env", template, "taken"), "exists"),
        (("env-template-create-env", template, " "), "blank"),
        (("env-template-update", "nothing", "x"), "nothing"),
        (("env-template-delete", "nothing"), "nothing"),
        (("env-template-del-app", template, "none"), "none"),
        (("class-schema", "test.None"), "test.None"),
    ]:
        shown = run(*argv, code=1)
        if said not in shown or "Traceback" in shown:
            wrong.append((argv, shown))
    assert wrong == []
    (clients.directory / "large.zip").write_bytes(b"PK" + bytes(7 * 2**20))
    (clients.directory / "no.zip").write_bytes(b"no archive")
    of_plugin: list[tuple[tuple[str, ...], str]] = [
        (("environment", "show", "nothing"), "nothing"),
        (("environment", "create", " "), "must not be blank"),
        (("environment", "create", "taken"), "exists"),
        (("environment", "create", "x" * 256), "255"),
        (("environment", "rename", one, "taken"), "exists"),
        (("environment", "session", "create", "nothing"), "not found"),
        (("environment", "show", one, "--session-id", "nothing"), "not found"),
        (("environment", "show", one, "--session-id", other), "not tied with Environment"),
        (("environment", "deploy", one, "--session-id", other), "not tied with Environment"),
        (("environment", "model", "show", one, "--path", "/none"), "none"),
        (("environment", "delete", "nothing"), "nothing"),
        (("deployment", "list", "nothing"), "nothing"),
        (("package", "show", "nothing"), "Package"),
        (("package", "list", "--marker", "nothing"), "Marker nothing"),
        (("package", "update", "nothing", "--name", "x"), "Package"),
        (("package", "delete", "nothing"), "nothing"),
        (("package", "download", "nothing", "none.zip"), "nothing"),
        (("category", "create", "taken"), "exists"),
        (("category", "create", "x" * 81), "80 characters"),
        (("category", "delete", "nothing"), "nothing"),
        (("class-schema", "test.None"), "test.None"),
        (("static-action", "call", "test.None", "none"), "test.None"),
    ]
    for argv, said in of_plugin:
        shown = clients.openstack(*argv, code=1)
        if said not in shown or "Traceback" in shown:
            wrong.append((argv, shown))
    for name in ("large", "no"):
        shown = run("package-import", f"{name}.zip", "--exists-action", "a", code=1)
        if "Traceback" in shown:
            wrong.append((("package-import", name), shown))
    assert wrong == []
    # These two end with 0 all the same.
    assert "nothing" in run("category-show", "nothing")
    assert "test.None" in run("static-action-call", "test.None", "none")
