"""What users of the stock clients see of the errors that need another project, or odd input (§5, §6)."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from tests.cli.stock.conftest import CLASSES, FORM, MANIFEST, Clients, id_in, wait_for

from vetro.cli.client.connection import read_openrc

pytestmark = [pytest.mark.e2e]
Case = tuple[tuple[str, ...], str, str]
"""A command, its standard input, and what it shows."""


def differing(clients: Clients, cases: list[Case], *options: str) -> list[tuple[Case, int, str]]:
    """The cases that do not fail with what they are to show."""
    wrong: list[tuple[Case, int, str]] = []
    for case in cases:
        argv, stdin, said = case
        code, out, err = clients.tried("murano", *options, *argv, stdin=stdin)
        # The client prints why a static action or an import failed, and ends well.
        expected = 0 if argv[0] == "static-action-call" else 1
        if code != expected or said not in out + err or "Traceback" in out + err:
            wrong.append((case, code, out + err))
    return wrong


def archive_of(clients: Clients, file: str, manifest: str, classes: str = CLASSES) -> str:
    """A package's archive."""
    path = clients.directory / file
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.yaml", manifest)
        archive.writestr("Classes/Shop.yaml", classes)
        archive.writestr("UI/ui.yaml", FORM)
    return str(path)


def adding(*services: object) -> str:
    """A patch for `environment-apps-edit`."""
    return json.dumps([{"op": "add", "path": "/-", "value": each} for each in services])


@pytest.fixture(scope="module")
def eve(clients: Clients) -> list[str]:
    """The options of a member of another project."""
    rc = read_openrc(clients.directory / "data" / "admin-openrc")
    clients.openstack("project", "create", "elsewhere")
    clients.openstack("user", "create", "--password", "a long secret", "mallory")
    clients.openstack("role", "add", "--project", "elsewhere", "--user", "mallory", "member")
    return [
        *("--os-username", "mallory", "--os-password", "a long secret"),
        *("--os-project-name", "elsewhere", "--os-auth-url", rc["OS_AUTH_URL"]),
        *("--os-user-domain-name", "Default", "--os-project-domain-name", "Default"),
    ]


def test_members_of_another_project_are_refused(
    clients: Clients, eve: list[str], shop: Path
) -> None:
    """Environments, templates and packages of a project are changed by nobody else (403)."""
    run = clients.murano
    app = clients.directory / "foreign.json"
    app.write_text(json.dumps({"?": {"type": "test.Shop"}, "name": "x"}))
    mine = id_in(run("environment-create", "of-admin"), "of-admin")
    session = id_in(run("environment-session-create", mine))
    in_session = ("--session-id", session)
    public = id_in(run("env-template-create", "for-all", "--is-public"), "for-all")
    private = id_in(run("env-template-create", "for-us"), "for-us")
    ours = id_in(run("package-import", str(shop), "--exists-action", "u"), "Shop")
    name = json.dumps([{"op": "replace", "path": "/name", "value": "x"}])
    edit = ("environment-apps-edit", mine, *in_session)
    rest: list[Case] = [
        # §5
        (("environment-delete", mine), "", "another project"),
        (("environment-delete", mine, "--abandon"), "", "another project"),
        (edit, adding({"?": {"type": "test.Shop"}}), "project"),
        (("environment-model-edit", mine, *in_session), name, "project"),
        (("environment-action-get-result", mine, "--task-id", "x"), "", "project"),
        # §6.1
        (("env-template-show", private), "", "403"),
        (("env-template-update", private, "x"), "", "403"),
        (("env-template-update", public, "x"), "", "403"),
        (("env-template-delete", private), "", "403"),
        (("env-template-delete", public), "", "403"),
        (("env-template-create-env", private, "x"), "", "403"),
        (("env-template-clone", private, "x"), "", "403"),
        (("env-template-add-app", public, str(app)), "", "403"),
        (("env-template-del-app", public, "x"), "", "403"),
        # §6.2, §6.3
        (("package-show", ours), "", "403"),
        (("package-download", ours, "none.zip"), "", "403"),
        (("package-update", ours, "--name", "x"), "", "403"),
        (("package-delete", ours), "", "403"),
        (("category-delete", "x"), "", "delete_category"),
    ]
    wrong = differing(clients, rest, *eve)
    # A package of another project with the same name is no conflict until both are public.
    theirs = id_in(run(*eve, "package-import", str(shop), "--exists-action", "a"), "Shop")
    run("package-update", ours, "--is-public", "true")
    wrong += differing(
        clients,
        [
            (("package-update", ours, "--name", "x"), "", "403"),
            (("package-delete", ours), "", "403"),
            (("package-update", theirs, "--is-public", "true"), "", "403"),
        ],
        *eve,
    )
    taken: Case = (("package-update", theirs, "--is-public", "true"), "", "409")
    wrong += differing(clients, [taken])
    run(*eve, "package-delete", theirs)
    for one in (public, private):
        run("env-template-delete", one)
    run("package-delete", ours)
    run("environment-delete", mine, "--abandon")
    assert wrong == [], "\n".join(map(str, wrong))


FAILING = """
  fail:
    Usage: Static
    Scope: Public
    Body:
      - Throw: Broken
        Message: the shelf is empty
"""


@pytest.mark.thorough
def test_odd_input_is_refused_with_its_reason(clients: Clients) -> None:
    """What remains of §5 and §6: names, sessions that have ended, services, calls, packages."""
    run = clients.murano
    app = clients.directory / "odd.json"
    app.write_text(json.dumps({"?": {"type": "test.Odd"}, "name": "x"}))
    manifest = MANIFEST.replace("test.Shop", "test.Odd").replace("Name: Shop", "Name: Odd")
    odd = archive_of(
        clients, "odd.zip", manifest, CLASSES.replace("Name: Shop", "Name: Odd") + FAILING
    )
    package = id_in(run("package-import", odd, "--exists-action", "u"), "Odd")
    one = id_in(run("environment-create", "odd"), "odd")
    done, overtaken = (id_in(run("environment-session-create", one)) for _ in range(2))
    run("environment-deploy", one, "--session-id", done)
    assert wait_for(clients, one)
    session = id_in(run("environment-session-create", one))
    public = id_in(run("env-template-create", "odd-public", "--is-public"), "odd-public")
    shop = {"?": {"type": "test.Odd"}, "name": "x", "port": 1}

    def edit(of: str, *services: object, where: str = one) -> Case:
        argv = ("environment-apps-edit", where, "--session-id", of)
        return argv, adding(*services), ""

    def model(of: str, change: object, where: str = one) -> tuple[tuple[str, ...], str]:
        return ("environment-model-edit", where, "--session-id", of), json.dumps(change)

    name = [{"op": "replace", "path": "/name", "value": "x"}]
    static = ("static-action-call", "test.Odd")
    long = archive_of(
        clients,
        "long.zip",
        manifest.replace("Name: Odd", f"Name: {'x' * 81}").replace("test.Odd", "test.Long"),
    )
    broken = archive_of(clients, "broken.zip", manifest.replace("Type: Application", "Type: Boat"))
    other = archive_of(clients, "other.zip", manifest.replace("test.Odd", "test.Other"))
    (clients.directory / "huge.zip").write_bytes(b"PK" + bytes(7 * 2**20))
    (clients.directory / "not.zip").write_bytes(b"no archive")
    importing = ("package-import", "--exists-action", "a")
    cases: list[Case] = [
        # §5.1 to §5.4
        (("environment-rename", "nothing", "x"), "", "nothing"),
        (("environment-deploy", one, "--session-id", done), "", "deployed"),
        (("environment-deploy", one, "--session-id", overtaken), "", "invalid"),
        (*edit(session, shop, where="nothing")[:2], "not found"),
        (*edit(done, shop)[:2], "403"),
        (*edit(overtaken, shop)[:2], "overtaken"),
        (*edit(session, {**shop, "inner": {"?": {"id": "x"}}})[:2], "type"),
        (*edit(session, 7)[:2], "400"),
        (*model(done, name), "403"),
        (*model(overtaken, name), "overtaken"),
        (*model(session, []), "400"),
        (*model(session, [{"op": "replace", "path": "/region", "value": 5}]), "400"),
        (*model(session, [{"op": "remove", "path": "/defaultNetworks"}]), "not permitted"),
        (*model(session, name, "nothing"), "not found"),
        # §5.6, §5.7
        ((*static, "fail"), "", "the shelf is empty"),
        ((*static, "price", "--arguments", "what=x", "--class-version", "!"), "", "!"),
        (("class-schema", "test.Odd", "--class-version", "!"), "", "!"),
        # §6.1
        (("env-template-create", "x" * 256), "", "255"),
        (("env-template-update", public, " "), "", "blank"),
        (("env-template-update", public, "x" * 256), "", "255"),
        (("env-template-clone", public, " "), "", "blank"),
        (("env-template-clone", public, "odd-public"), "", "exists"),
        (("env-template-create-env", "nothing", "x"), "", "nothing"),
        (("env-template-add-app", "nothing", str(app)), "", "nothing"),
        (("env-template-del-app", "nothing", "x"), "", "nothing"),
        # §6.2
        ((*importing, other, "-c", "No such"), "", "No such"),
        ((*importing, "huge.zip"), "", "huge"),
        ((*importing, "not.zip"), "", "not.zip"),
        ((*importing, long), "", "80"),
        ((*importing, broken), "", "Boat"),
        (("package-update", package, "--name", "x" * 81), "", "80"),
    ]
    wrong = differing(clients, cases)
    run("env-template-delete", public)
    run("package-delete", package)
    run("environment-delete", one, "--abandon")
    assert wrong == [], "\n".join(map(str, wrong))
