"""The clients of Murano, installed from the package index and run as they are, against a whole service.

Both have their complete command set run: `murano`, and the plug-in of `openstack`. What the clients
are known to do wrong themselves is not asserted here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.cli.serving import VETRO
from tests.cli.stock.conftest import (
    LOGO,
    ROOT,
    SHOP,
    TEMPLATE,
    Clients,
    id_in,
    wait_for,
)

from vetro.cli.client.connection import read_openrc

pytestmark = [pytest.mark.e2e]


def murano_manages_packages_and_categories(clients: Clients, shop: Path) -> None:
    """Import with each answer to a conflict, find by every filter, change, save, delete."""
    run = clients.murano
    web = id_in(run("category-create", "Web"), "Web")
    assert web in run("category-list")
    every = ["--is-public", "--package-version", "", "--dep-exists-action", "s"]
    text = run("package-import", str(shop), "-c", "Web", "--exists-action", "u", *every)
    first = id_in(text, "Shop")
    again = run("package-import", str(shop), "-c", "Web", "--exists-action", "u")
    second = id_in(again.split("+--", 1)[1], "Shop")
    assert second != first
    assert "Skipping" in run("package-import", str(shop), "--exists-action", "s")
    assert "Exiting" in run("package-import", str(shop), "--exists-action", "a")
    filters = [
        *("--owned", "--include-disabled", "--search", "sho", "--type", "application"),
        *("--fqn", "test.Shop", "--class_name", "test.Shop", "--tag", "trade"),
        *("--category", "Web", "--name", "Shop", "--limit", "1"),
    ]
    assert id_in(run("package-list", *filters)) == second
    assert "Shop" not in run("package-list", "--marker", second, "--owned")
    assert "Shop" in run("category-show", web)
    assert "trade" in run("package-show", second)
    changes = ["--is-public", "false", "--enabled", "true", "--tags", "a", "b", "--name", "Corner"]
    assert "Corner" in run("package-update", second, *changes, "--description", "d")
    run("package-download", second, "copy.zip")
    assert (clients.directory / "copy.zip").read_bytes() == shop.read_bytes()
    assert "=0" in run("class-schema", "test.None", code=1)
    assert '"port"' in run("class-schema", "test.Shop")
    run("class-schema", "test.Shop", "sell", "--package-name", "test.Shop", "--class-version", "=0")
    of_package = ["--package-name", "test.Shop", "--class-version", "=0"]
    called = run("static-action-call", "test.Shop", "price", "--arguments", "what=tea", *of_package)
    assert "tea costs 5" in called
    options = ["-r", "UI", "-f", "test.Made", "-a", "ann", "--tags", "a", "-d", "d", "-l", "l.png"]
    (clients.directory / "l.png").write_bytes(LOGO.read_bytes())
    classes = [
        "package-create",
        "-c",
        "Classes",
        "-u",
        "UI/ui.yaml",
        "-o",
        "made.zip",
        "-n",
        "Shop",
    ]
    run(*classes, *options, "--type", "Application")
    (clients.directory / "net.yaml").write_text(TEMPLATE)
    run("package-create", "-t", "net.yaml", "-o", "net.zip", "-f", "test.Net")
    assert zipfile.is_zipfile(clients.directory / "made.zip")
    run("package-delete", id_in(run("package-import", "net.zip", "--exists-action", "u")))
    assert "has packages" in run("category-delete", web, code=1)
    run("package-delete", second)
    run("category-delete", web)
    assert web not in run("category-list")


def murano_takes_packages_from_a_repository(clients: Clients, repository: str) -> None:
    """By name, by bundle, and saved beside each other without a service's help."""
    at = ["--murano-repo-url", repository]
    imported = id_in(
        clients.murano(*at, "package-import", "test.Shop", "--exists-action", "u"), "Shop"
    )
    clients.murano(*at, "package-save", "test.Shop", "-p", "saved", "--no-images")
    assert zipfile.is_zipfile(clients.directory / "saved" / "test.Shop.zip")
    clients.murano(*at, "bundle-save", "shops", "-p", "saved", "--no-images")
    clients.murano("package-delete", imported)
    bundle = ["bundle-import", "shops", "--exists-action", "u", "--is-public"]
    assert "Shop" in clients.murano(*at, *bundle)
    clients.murano("package-delete", id_in(clients.murano("package-list", "--owned")))


def murano_makes_templates_and_environments_of_them(clients: Clients) -> None:
    """Create, fill, rename, clone, use and delete."""
    run = clients.murano
    (clients.directory / "app.json").write_text(json.dumps(SHOP))
    made = id_in(run("env-template-create", "shops", "--is-public"), "shops")
    assert made in run("env-template-list")
    assert "corner" in run("env-template-add-app", made, "app.json")
    assert "corner" in run("env-template-show", made)
    assert "markets" in run("env-template-update", made, "markets")
    copy = id_in(run("env-template-clone", made, "copied"))
    created = run("env-template-create-env", made, "of-template", "--region", "RegionOne")
    assert "session_id" in created
    assert "corner" not in run("env-template-del-app", made, SHOP["?"]["id"])  # type: ignore[index]
    run("env-template-delete", made)
    assert "copied" in run("env-template-list")
    assert "copied" not in run("env-template-delete", copy)
    environment = id_in(run("environment-list"), "of-template")
    assert "of-template" not in run("environment-delete", environment, "--abandon")


def murano_composes_and_deploys_an_environment(clients: Clients, shop: Path) -> None:
    """A session is edited in both ways and deployed; an action is called; it is shown and deleted."""
    run = clients.murano
    package = id_in(run("package-import", str(shop), "--exists-action", "u"), "Shop")
    run("environment-create", "main", "--region", "RegionOne")
    assert "main" not in run("environment-list", "--tenant", "none")
    joined = ["--join-net-id", "net", "--join-subnet-id", "sub"]
    there = id_in(run("environment-create", "joined", *joined), "joined")
    assert "ExistingNeutron" in run("environment-model-show", there, "--path", "/defaultNetworks")
    run("environment-delete", there, "--abandon")
    one = id_in(run("environment-list", "--all-tenants"), "main")
    assert "exists" in run("environment-create", "main", code=1)
    assert "high" in run("environment-rename", one, "high")
    assert "high" in run("environment-show", "high")
    session = id_in(run("environment-session-create", one))
    patch = [{"op": "add", "path": "/-", "value": SHOP}]
    in_session = ["--session-id", session]
    run("environment-apps-edit", one, *in_session, stdin=json.dumps(patch))
    change = [{"op": "replace", "path": "/services/0/port", "value": 8080}]
    changed = run("environment-model-edit", one, *in_session, stdin=json.dumps(change))
    assert json.loads(changed[changed.index("{") :])["services"][0]["port"] == 8080
    refused = [{"op": "remove", "path": "/region", "value": ""}]
    assert "403" in run(
        "environment-model-edit", one, *in_session, stdin=json.dumps(refused), code=1
    )
    assert "RegionOne" in run("environment-model-show", one, "--path", "/region")
    assert "8080" in run("environment-show", one, *in_session, "--only-apps")
    assert "8080" in run("environment-model-show", one, *in_session, "--path", "/services")
    assert "deploying" in run("environment-deploy", one, *in_session)
    assert "success" in wait_for(clients, one)
    assert "success" in run("deployment-list", "--all-environments")
    assert "corner" in run("app-show", one)
    id_ = str(SHOP["?"]["id"])  # type: ignore[index]
    assert "8080" in run("app-show", one, "-p", id_)
    assert "There is no element" in run("app-show", one, "-p", "nothing", code=1)
    called = run(
        "environment-action-call", one, "--action-id", f"{id_}_sell", "--arguments", "what=tea"
    )
    task = id_in(called)
    assert "success" in wait_for(clients, one)
    assert "sold tea on 8080" in run("environment-action-get-result", one, "--task-id", task)
    assert "not found" in run("environment-delete", "nothing", code=1)
    assert "is used by 1 environment" in run("package-delete", package, code=1)
    run("environment-delete", one, "--abandon")
    run("package-delete", package)


def every_command_of_murano_was_run(clients: Clients) -> None:
    """The list is the client's own; the steps above ran each of its commands."""
    offered = re.findall(r"^    ([a-z-]+)(?:  |$)", clients.murano("help"), re.M)
    assert len(offered) > 40
    used = {word for line in clients.used if line.startswith("murano ") for word in line.split()}
    assert "environment-list" in clients.murano("bash-completion")
    assert set(offered) - used == {"bash-completion"}


def the_plugin_does_the_same(clients: Clients, shop: Path) -> None:
    """Each command of the OpenStack client's plug-in, with its JSON output where it has one."""
    run, ask = clients.openstack, clients.json
    ask("category", "create", "Shops")
    category = next(row["id"] for row in ask("category", "list") if row["name"] == "Shops")
    versions = [
        "--package-version",
        "",
        "--dep-exists-action",
        "s",
        "--murano-repo-url",
        "http://x/",
    ]
    public = [*versions, "--is-public", "--exists-action", "u"]
    run("package", "import", str(shop), "--categories", "Shops", *public)
    every = ["--owned", "--include-disabled", "--search", "shop", "--type", "Application"]
    every += ["--name", "Shop", "--fqn", "test.Shop", "--class_name", "test.Shop", "--limit", "5"]
    (row,) = ask("package", "list", *every, "--category", "Shops", "--tag", "trade")
    assert ask("package", "list", "--marker", row["id"], "--owned") == []
    package = row["id"]
    assert ask("category", "show", category)["name"] == "Shops"
    assert ask("package", "show", package)["fully_qualified_name"] == "test.Shop"
    changes = [
        "--name",
        "Corner",
        "--description",
        "d",
        "--is-public",
        "false",
        "--enabled",
        "true",
    ]
    run("package", "update", package, "--tags", "b", *changes)
    assert ask("package", "show", package)["name"] == "Corner"
    run("package", "download", package, "plugin.zip")
    run("package", "create", "-c", "Classes", "-u", "UI/ui.yaml", "-o", "plugin-made.zip")
    (clients.directory / "l.png").write_bytes(LOGO.read_bytes())
    (clients.directory / "net.yaml").write_text(TEMPLATE)
    said = ["-r", "UI", "-n", "Net", "-a", "ann", "--tags", "a", "-d", "d", "-l", "l.png"]
    said += ["-u", "UI/ui.yaml", "--type", "Application"]
    run("package", "create", "-t", "net.yaml", "-o", "plugin-net.zip", *said)
    of_package = ["--package-name", "test.Shop", "--class-version", "=0"]
    assert "port" in run("class-schema", "test.Shop", *of_package)
    call = ["static-action", "call", "test.Shop", "price", "--arguments", "what=tea"]
    assert "tea costs 5" in run(*call, *of_package)
    joined = ["--region", "RegionOne", "--join-net-id", "net", "--join-subnet-id", "sub"]
    run("environment", "create", "joined", *joined)
    run("environment", "delete", "joined", "--abandon")
    assert ask("environment", "list", "--tenant", "none") == []
    run("environment", "create", "second")
    assert "second" in run("environment", "list", "--all-tenants")
    one = next(row["id"] for row in ask("environment", "list") if row["name"] == "second")
    run("environment", "rename", one, "third")
    session = ask("environment", "session", "create", one)["id"]
    patch = clients.directory / "patch.json"
    patch.write_text(json.dumps([{"op": "add", "path": "/-", "value": SHOP}]))
    run("environment", "apps", "edit", one, str(patch), "--session-id", session)
    model = [{"op": "replace", "path": "/services/0/port", "value": 8080}]
    patch.write_text(json.dumps(model))
    run("environment", "model", "edit", one, str(patch), "--session-id", session)
    in_session = ["--session-id", session]
    assert "8080" in run("environment", "model", "show", one, "--path", "/", *in_session)
    assert "8080" in run("environment", "show", one, "--only-apps", *in_session)
    assert "corner" in run("environment", "show", one, "--session-id", session)
    run("environment", "deploy", one, "--session-id", session)
    assert "success" in wait_for(clients, one)
    assert ask("deployment", "list", one)[0]["state"] == "success"
    assert "success" in run("deployment", "list", "--all-environments")
    run("environment", "delete", one, "--abandon")
    run("package", "delete", package)
    run("category", "delete", category)
    bundle = clients.directory / "shops.bundle"
    bundle.write_text(json.dumps({"Packages": [{"Name": "test.Shop", "Version": ""}]}))
    address = ["--murano-repo-url", "http://x/", "--is-public", "--exists-action", "u"]
    run("bundle", "import", str(bundle), *address)
    run("package", "delete", ask("package", "list", "--owned")[0]["id"])


def environments_of_the_first_generation_are_handled_too(clients: Clients) -> None:
    """Made and filled without ``/v1`` (catalog-api.md §7), then shown, edited, deployed and forgotten."""
    rc = read_openrc(clients.directory / "data" / "admin-openrc")
    token = clients.openstack("token", "issue", "-f", "value", "-c", "id").strip()
    url = rc["OS_AUTH_URL"].removesuffix("/").removesuffix("/v3").removesuffix("/identity")

    def call(path: str, body: object, session: str = "") -> Any:
        headers = {"X-Auth-Token": token, "Content-Type": "application/json"}
        headers |= {"X-Configuration-Session": session} if session else {}
        request = urllib.request.Request(
            url + path, json.dumps(body).encode() if body else b"", headers, method="POST"
        )
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())

    run = clients.murano
    one = call("/environments", {"name": "flat"})["id"]
    session = call(f"/environments/{one}/configure", None)["id"]
    telnet: dict[str, Any] = {"type": "linuxTelnetService", "name": "first", "units": [{}]}
    made = call(f"/environments/{one}/services", telnet, session)
    assert one in run("environment-list")
    in_session = ["--session-id", session]
    assert made["id"] in run("environment-show", one, *in_session)
    patch = [
        {"op": "replace", "path": "/0/name", "value": "renamed"},
        {"op": "add", "path": "/-", "value": {**telnet, "name": "second"}},
    ]
    run("environment-apps-edit", one, *in_session, stdin=json.dumps(patch))
    units = run("environment-model-show", one, *in_session, "--path", "/services/1/units")
    assert "second_instance_0" in units
    change = [{"op": "replace", "path": "/services/0/name", "value": "again"}]
    run("environment-model-edit", one, *in_session, stdin=json.dumps(change))
    shown = run("environment-show", one, *in_session, "--only-apps")
    services = json.loads(shown[shown.index("[\n") :])
    assert [service["name"] for service in services] == ["again", "second"]
    assert services[0]["id"] == made["id"]
    wrong = [{"op": "add", "path": "/-", "value": {"?": {"type": "test.Shop"}}}]
    assert "400" in run("environment-apps-edit", one, *in_session, stdin=json.dumps(wrong), code=1)
    assert "flatter" in run("environment-rename", one, "flatter")
    run("environment-deploy", one, *in_session)
    assert wait_for(clients, one)
    assert clients.json("deployment", "list", one)
    assert one not in run("environment-delete", one, "--abandon")


#: What a client fails at by itself, whatever it is answered (dashboard-and-cli.md, Beyond upstream).
BROKEN = {("package-save", "--package-version")}
OF_PLUGIN = """
environment list,environment show,environment create,environment delete,environment deploy,
environment apps edit,environment model show,environment model edit,deployment list,package create,
package list,package import,package update,bundle import,static-action call,class-schema
"""
#: What the frame of the plug-in adds to each command.
FRAME = {
    "-h",
    "--help",
    "-f",
    "-c",
    "--quote",
    "--noindent",
    "--max-width",
    "--fit-width",
    "--print-empty",
    "--variable",
    "--prefix",
    "--sort-column",
    "--sort-ascending",
    "--sort-descending",
}


def offered_options(usage: str) -> set[str]:
    """The options that the usage of a command names."""
    return set(re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", usage.partition("\n\n")[0])) - FRAME


def every_option_was_used(clients: Clients) -> None:
    """The lists are the clients' own; the steps above gave each of their options."""
    unused: list[tuple[str, str]] = []
    verbs = re.findall(r"^    ([a-z-]+)(?:  |$)", clients.murano("help"), re.M)
    used = [line.split() for line in clients.used]
    for verb in verbs:
        usage = clients.murano("help", verb).replace(f"murano {verb}", "")
        given = {word for line in used if verb in line for word in line}
        unused += [(verb, one) for one in offered_options(usage) - given]
    for words in OF_PLUGIN.replace("\n", "").split(","):
        verb = words.split()
        usage = clients.openstack(*verb, "--help").replace(f"openstack {words}", "")
        lines = [line for line in used if line[1 : len(verb) + 1] == verb]
        given = {word for line in lines for word in line}
        unused += [(words, one) for one in offered_options(usage) - given]
    assert set(unused) - BROKEN == set()


def test_both_clients_run_all_their_commands_with_all_their_options(
    clients: Clients, shop: Path, repository: str
) -> None:
    """Step by step, in one test: its end looks at what was run, and workers share the tests of a file."""
    murano_manages_packages_and_categories(clients, shop)
    murano_takes_packages_from_a_repository(clients, repository)
    murano_makes_templates_and_environments_of_them(clients)
    murano_composes_and_deploys_an_environment(clients, shop)
    every_command_of_murano_was_run(clients)
    the_plugin_does_the_same(clients, shop)
    environments_of_the_first_generation_are_handled_too(clients)
    every_option_was_used(clients)


def test_global_options_say_where_and_as_whom(clients: Clients, shop: Path) -> None:
    """Another project's user by options alone, a token without a login, and what they may not do."""
    rc = read_openrc(clients.directory / "data" / "admin-openrc")
    stack = clients.openstack
    stack("project", "create", "other")
    stack("user", "create", "--password", "a long secret", "eve")
    stack("role", "add", "--project", "other", "--user", "eve", "member")
    mine = id_in(clients.murano("environment-create", "mine"), "mine")
    session = id_in(clients.murano("environment-session-create", mine))
    eve = ["--os-username", "eve", "--os-password", "a long secret", "--os-project-name", "other"]
    eve += ["--os-auth-url", rc["OS_AUTH_URL"], "--os-user-domain-name", "Default"]
    eve += ["--os-project-domain-name", "Default", "--os-region-name", "RegionOne", "--insecure"]
    eve += ["--murano-api-version", "1", "--os-endpoint-type", "publicURL"]
    eve += ["--os-service-type", "application-catalog", "--murano-packages-service", "murano"]
    assert "mine" not in clients.murano(*eve, "environment-list")
    wrong: list[tuple[tuple[str, ...], str]] = []
    for argv, said in [
        (("environment-show", mine), "project"),
        (("environment-show", mine, "--session-id", session), "project"),
        (("environment-rename", mine, "x"), "project"),
        (("environment-session-create", mine), "project"),
        (("environment-deploy", mine, "--session-id", session), "project"),
        (("environment-model-show", mine), "project"),
        (("environment-action-call", mine, "--action-id", "x"), "project"),
        (("deployment-list", mine), "project"),
        (("environment-list", "--all-tenants"), "list_environments_all_tenants"),
        (("environment-list", "--tenant", "x"), "list_environments_all_tenants"),
        (("category-create", "x"), "add_category"),
        (("package-import", "test.Shop.zip", "--is-public"), "make a package public"),
    ]:
        shown = clients.murano(*eve, *argv, code=1)
        if said not in shown or "Traceback" in shown:
            wrong.append((argv, shown))
    assert wrong == []
    token = stack("token", "issue", "-f", "value", "-c", "id").strip()
    url = rc["OS_AUTH_URL"].removesuffix("/").removesuffix("/v3").removesuffix("/identity")
    alone = ["--os-no-client-auth", "--os-auth-token", token, "--murano-url", url]
    assert "mine" in clients.murano(*alone, "environment-list")
    alone[2] = "wrong"
    assert "401" in clients.murano(*alone, "environment-list", code=1)
    clients.murano("environment-delete", mine, "--abandon")


def test_the_examples_of_the_api_page_work(clients: Clients) -> None:
    """The lines of docs/api.md, as they are, by curl: none fails, and what they made is gone after."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    script = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    environ = {
        **os.environ,
        **read_openrc(clients.directory / "data" / "admin-openrc"),
        "PATH": f"{Path(VETRO).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=environ,
        cwd=clients.directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "event: end" in done.stdout
    assert '"name":"renamed"' in done.stdout
    assert "by-curl" not in clients.murano("environment-list")
