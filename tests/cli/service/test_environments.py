"""Environments and their applications by command, good input and bad."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.service.shop import CLASSES
from tests.cli.serving import Service

from vetro.cli.client.connection import Connection
from vetro.cli.terminal.output import word

pytestmark = [pytest.mark.e2e]
MISTAKES: list[tuple[tuple[str, ...], str, str]] = [
    (("package", "import", "{text}"), "not a zip", "vetro package build"),
    (("package", "import", "{shop}"), "catalog already", "--exists-action update"),
    (("env", "create", "taken"), "already exists", "choose another name"),
    (("category", "delete", "--yes", "Used"), "cannot be deleted", "package update --category"),
    (("image", "import", "i", "{text}"), "not a tar archive", "root file system"),
    (("image", "build", "a/b"), "is not an image name", "debian-12-apache"),
    (("image", "build", "i", "--packages", "A B"), "is not a package name", "--packages apache2"),
    (("image", "build", "i", "--suite", "1/2"), "is not a release name", "bookworm"),
    (("image", "delete", "--yes", "nope"), "There is no image", "Images: "),
    (("env", "show", "nope"), "There is no environment", "Environments of this project: taken"),
    (("deployment", "show", "taken", "nope"), "nope", "vetro deployment list taken"),
    (("deployment", "cancel", "taken"), "No deployment of taken", "vetro deployment list taken"),
    (("env", "destroy", "taken"), "its history", "--yes"),
    (("env", "deploy", "taken", "--session", "nope"), "nope> is not found", "vetro env session"),
    (("action", "result", "taken", "nope"), "There is no task", "vetro deployment list"),
    (("package", "list", "--marker", "nope"), "Marker nope", "last row of the page"),
]


def test_an_environment_from_its_making_to_its_end(shop: Service) -> None:
    """Create, add by the form, look, deploy, act, change, take out, rename, destroy."""
    assert shop.json("env", "create", "main")["name"] == "main"
    added = shop.json("env", "add", "main", "Shop", "--name", "corner", "--set", "port=8080")
    assert (added["port"], added["name"]) == (8080, "corner")
    assert "corner" in shop.ok("env", "show", "main")
    assert shop.json("env", "show", "main")["services"][0]["port"] == 8080
    lines = [json.loads(line) for line in shop.ok("env", "deploy", "main", "--json").splitlines()]
    assert [one["text"] for one in lines[:-1]] == [
        "Action deploy is scheduled",
        "opening",
        "Deployment finished",
    ]
    assert (lines[-1]["environment"], lines[-1]["state"]) == ("main", "success")
    assert shop.ok("env", "model", "main", "--path", "services/0/url", "--raw") == (
        "http://shop:8080\n"
    )
    names = [row["name"] for row in shop.json("action", "list", "main")]
    assert {"sell", "close"} < set(names)
    assert "sell" in shop.ok("action", "list", "main")
    assert shop.json("action", "call", "main", "sell", "--arg", "what=tea") == "sold tea on 8080"
    code, text = shop.run("action", "call", "main", "close")
    assert (code, "we are shut" in text) == (1, True)
    shop.refused("action", "call", "main", "buy")
    task = shop.json("action", "call", "main", "close", "--no-wait")["task_id"]
    code, text = shop.run("action", "result", "main", task, "--wait", "--json")
    assert (code, "we are shut" in text) == (1, True)
    task = shop.json("action", "call", "main", "sell", "--arg", "what=ink", "--no-wait")["task_id"]
    assert shop.json("action", "result", "main", task, "--wait") == "sold ink on 8080"
    shop.refused("action", "result", "main", "nope")
    rows = shop.json("deployment", "list", "main")
    assert [row["state"] for row in rows][-1] == "success"
    assert "opening" in shop.ok("deployment", "show", "main", rows[-1]["id"])
    assert len(shop.json("deployment", "list")) == len(rows)
    assert shop.json("env", "edit", "main", "corner", "--set", "port=9090")["port"] == 9090
    assert "done" in shop.ok("env", "deploy", "main")
    assert "opening" in shop.ok("env", "follow", "main")
    assert shop.json("env", "rename", "main", "second")["name"] == "second"
    removed = shop.json("env", "remove", "second", "corner")["removed"]
    assert removed["port"] == 9090
    lines = shop.ok("env", "destroy", "--yes", "second", "--json").splitlines()
    assert json.loads(lines[-1]) == {"environment": "second", "state": "gone"}
    assert shop.json("env", "list") == []


def test_what_a_removal_left_behind_is_shown_until_it_is_dismissed(shop: Service) -> None:
    """The environment's page counts it, the list names it, and a dismissed one is gone."""
    shop.ok("env", "create", "jammed")
    added = shop.json("env", "add", "jammed", "Shop", "--name", "door", "--set", "port=6666")
    shop.ok("env", "deploy", "jammed")
    assert shop.json("env", "leaked", "jammed") == []
    assert "left something behind" not in shop.ok("env", "show", "jammed")
    shop.ok("env", "remove", "jammed", "door")
    assert "the door is jammed" in shop.ok("env", "deploy", "jammed")
    assert "1 removed object may have left something" in shop.ok("env", "show", "jammed")
    (row,) = shop.json("env", "leaked", "jammed")
    assert (row["id"], row["type"]) == (added["?"]["id"], "test.Shop")
    assert (row["name"], row["error"]) == ("door", "the door is jammed")
    assert shop.json("env", "show", "jammed")["leaked"] == [row]
    assert "vetro env leaked jammed" in shop.refused("env", "leaked", "jammed", "--dismiss", "x")
    shop.ok("env", "leaked", "jammed", "--dismiss", row["id"])
    assert shop.json("env", "leaked", "jammed") == []
    shop.ok("env", "destroy", "--yes", "jammed")


def test_deployed_applications_are_taken_over_from_their_list(
    shop: Service, tmp_path: Path
) -> None:
    """What --only-apps printed of one environment, statuses and actions too, another one gets and deploys."""
    shop.ok("env", "create", "old")
    shop.ok("env", "add", "old", "Shop", "--set", "port=80", "--name", "corner")
    assert "done" in shop.ok("env", "deploy", "old")
    listed = shop.json("env", "show", "old", "--only-apps", "--show-secrets")
    assert listed[0]["?"]["status"] == "ready"
    assert listed[0]["?"]["_actions"]
    shop.ok("env", "destroy", "--yes", "old", "--abandon")
    file = tmp_path / "apps.json"
    file.write_text(json.dumps(listed))
    shop.ok("env", "create", "new")
    (added,) = shop.json("env", "add", "new", "--file", file)
    assert added["?"]["id"] == listed[0]["?"]["id"]
    assert "status" not in added["?"]
    assert "done" in shop.ok("env", "deploy", "new")
    (there,) = shop.json("env", "show", "new", "--only-apps")
    assert (there["name"], there["port"]) == ("corner", 80)
    shop.ok("env", "destroy", "--yes", "new")


@pytest.mark.thorough
def test_environments_are_left_and_abandoned(shop: Service, tmp_path: Path) -> None:
    """--no-wait comes back at once; --file adds an object as it is; --abandon forgets."""
    shop.ok("env", "create", "left")
    file = tmp_path / "app.json"
    file.write_text('{"?": {"type": "test.Shop/1.0.0"}, "name": "n", "port": 1}')
    assert shop.json("env", "add", "left", "--file", file)["port"] == 1
    assert shop.json("env", "deploy", "left", "--no-wait")["action"]["method"] == "deploy"
    assert "done" in shop.ok("env", "follow", "left")
    assert len(shop.ok("env", "session", "left").strip()) == 32
    steps = tmp_path / "steps.json"
    steps.write_text(
        '[{"op": "replace", "path": "/0/port", "value": 2}, {"op": "add", "path": "/-", "value":'
        '  {"?": {"type": "test.Shop/1.0.0", "id": "===id1==="}, "name": "===id1===", "port": 3}}]'
    )
    changed = shop.json("env", "patch", "left", steps)["services"]
    assert [one["port"] for one in changed] == [2, 3]
    assert changed[1]["name"] == changed[1]["?"]["id"] != "===id1==="
    steps.write_text('[{"op": "replace", "path": "/services/1/port", "value": 4}]')
    assert shop.json("env", "patch", "left", steps, "--model")["services"][1]["port"] == 4
    wrong = {'[{"op": "remove", "path": "/9"}]': 1, '[{"op": "fly"}]': 1, "[7]": 1, "{}": 2, "[": 1}
    for text, code in wrong.items():
        steps.write_text(text)
        shop.refused("env", "patch", "left", steps, code=code)
    session = shop.ok("env", "session", "left").strip()
    of_session = ("left", "--session", session)
    port = ("--path", "/services/1/port")
    assert shop.json("env", "model", *of_session, *port) == 4
    assert "no element" in shop.refused("env", "model", "left", *port)
    assert [one["port"] for one in shop.json("env", "show", *of_session, "--only-apps")] == [2, 4]
    steps.write_text('[{"op": "replace", "path": "/0/port", "value": 5}]')
    shop.ok("env", "patch", *of_session, steps)
    assert "done" in shop.ok("env", "deploy", *of_session)
    assert shop.json("env", "show", "left", "--only-apps")[0]["port"] == 5
    for command in (("show",), ("model",), ("deploy",), ("patch", steps)):
        given = ("env", command[0], "left", *command[1:], "--session", "none")
        assert "none" in shop.refused(*given)
    shop.ok("env", "create", "other", "--join-net-id", "net", "--join-subnet-id", "sub")
    joined = shop.json("env", "model", "other", "--path", "/defaultNetworks/environment")
    assert (joined["internalNetworkName"], joined["internalSubnetworkName"]) == ("net", "sub")
    shop.refused("env", "create", "third", "--join-subnet-id", "sub", code=2)
    project = shop.json("env", "show", "other")["tenant_id"]
    assert len(shop.json("env", "list", "--project", project)) == 2
    assert shop.json("env", "list", "--project", "none") == []
    assert "'third'" in shop.refused("env", "destroy", "--yes", "left", "third")
    text = shop.refused("env", "destroy", "left", "other", code=2)
    assert "left" in text
    assert "other" in text
    assert shop.ok("env", "destroy", "--yes", "left", "other", "--abandon").count("abandoned") == 2
    assert shop.json("env", "list") == []


@pytest.mark.thorough
def test_changes_that_wait_are_never_passed_over(
    shop: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit and three additions before an action: refused, kept when asked to, or taken over."""
    shop.ok("env", "create", "wait")
    shop.ok("env", "add", "wait", "Shop", "--name", "corner")
    shop.ok("env", "deploy", "wait")
    shop.ok("env", "edit", "wait", "corner", "--set", "port=9090")
    for name in ("a", "b", "c"):
        shop.ok("env", "add", "wait", "Shop", "--name", name)
    said = "changed corner: port; added a (test.Shop); added b (test.Shop); added c (test.Shop)"
    assert said in shop.ok("env", "changes", "wait")
    model = shop.json("env", "model", "wait", "--path", "services/0/?")
    sell = ("action", "call", "wait", f"{model['id']}_sell", "--arg", "what=tea")
    text = shop.refused(*sell, code=2)
    assert said in text
    assert "--keep-pending" in text
    count = len(shop.json("deployment", "list", "wait"))
    for wrong in ((), ("--arg", "what=tea", "--arg", "waht=x"), ("--arg", "what={}")):
        assert "what" in shop.refused(*sell[:4], *wrong, "--keep-pending")
    assert len(shop.json("deployment", "list", "wait")) == count
    assert shop.json(*sell, "--keep-pending") == "sold tea on 80"
    assert len(shop.json("deployment", "list", "wait")) == count + 1
    # The state file is lost, or another machine is used: the changes are found all the same.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert said in shop.ok("env", "changes", "wait")
    assert "goes on" in shop.ok("env", "deploy", "wait")
    names = [one["name"] for one in shop.json("env", "show", "wait")["services"]]
    assert names == ["corner", "a", "b", "c"]
    assert shop.json("env", "model", "wait", "--path", "services/0/port") == 9090
    # Somebody calls an action in between, by the API or with --leave-pending.
    shop.ok("env", "remove", "wait", "c")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "third"))
    (held,) = shop.json("env", "changes", "wait")
    overtake(shop, "wait", f"{model['id']}_sell")
    for command in (("deploy", "wait"), ("add", "wait", "Shop", "--name", "d")):
        refused = shop.refused("env", *command)
        assert "removed c" in refused
        assert "--take-over" in refused
    assert "no" in shop.ok("env", "changes", "wait")  # DEPLOYABLE
    (taken,) = shop.json("env", "changes", "wait", "--take-over")
    assert (taken["summary"], taken["overtaken"]) == ("removed c", False)
    assert taken["id"] != held["id"]
    assert "Dropped: removed c" in shop.ok("env", "changes", "wait", "--discard", "--yes")
    assert shop.json("env", "changes", "wait") == []
    shop.refused("env", "changes", "wait", "--discard", "--yes")
    shop.refused("env", "changes", "wait", "--take-over")
    shop.refused("env", "changes", "wait", "--take-over", "--discard", code=2)
    shop.ok("env", "destroy", "--yes", "wait")


def overtake(shop: Service, environment: str, action: str) -> None:
    """Call an action as the stock clients do, without looking at what waits."""
    from vetro.cli.client.connection import Connection, find_environment
    from vetro.cli.client.deployment_progress import follow_deployment

    with Connection() as connection:
        row = find_environment(connection, environment)
        path = f"/v1/environments/{row['id']}/actions/{action}"
        task = connection.request("POST", path, json={"what": "tea"}).json()["task_id"]
        assert follow_deployment(connection, row, task) == 0


def test_applications_move_to_newer_versions(
    shop: Service, package: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists mark them, a preview shows the changes, a deploy makes it so; back with --to."""
    shop.ok("env", "create", "up")
    shop.ok("env", "add", "up", "Shop", "--name", "corner", "--set", "port=81")
    shop.ok("env", "deploy", "up")
    assert "Nothing to move" in shop.ok("env", "upgrade", "up")
    newer = package("1.1.0")
    classes = CLASSES.replace("$.int().notNull().check($ > 0)", "$.int().notNull()").replace(
        "  url:", "  owner: {Contract: $.string().notNull()}\n  url:"
    )
    (newer / "Classes/Shop.yaml").write_text(classes)
    shop.ok("package", "import", newer)
    (row,) = shop.json("env", "list")
    assert [(one["version"], one["newest"]) for one in row["upgrades"]] == [("1.0.0", "1.1.0")]
    assert "corner 1.1.0" in shop.ok("env", "list")
    assert "1.1.0" in shop.ok("env", "show", "up")
    assert shop.json("env", "show", "up")["versions"][0]["newer"] == ["1.1.0"]

    code, text = shop.run("env", "upgrade", "up", "--preview")
    assert code == 1
    for line in (
        "corner: test.Shop 1.0.0 -> 1.1.0",
        "+ owner: $.string().notNull()",
        "~ port: contract $.int().notNull().check($ > 0) -> $.int().notNull()",
        "problem: test.Shop.owner is required",
    ):
        assert line in text
    assert shop.json("env", "changes", "up") == []
    code, text = shop.run("env", "upgrade", "up", "--yes")
    assert (code, "would fail" in text, "--set" in text) == (1, True, True)
    given = ("corner", "--set", "owner=ann")
    code, text = shop.run("env", "upgrade", "up", *given)
    assert (code, "Give --yes" in text) == (2, True)
    assert "env deploy up" in shop.ok("env", "upgrade", "up", *given, "--yes")
    assert "changed corner: ?.type, owner" in shop.ok("env", "changes", "up")
    shop.ok("env", "deploy", "up")
    (service,) = shop.json("env", "show", "up")["services"]
    assert (service["?"]["type"], service["owner"]) == ("test.Shop/1.1.0@test.Shop", "ann")

    assert "downgrade" in shop.ok("env", "upgrade", "up", "corner", "--to", "1.0.0", "--preview")
    found = shop.json("env", "upgrade", "up", "corner", "--to", "1.0.0", "--yes")
    assert found["applications"][0]["direction"] == "downgrade"
    assert "there are: 1.0.0, 1.1.0" in shop.run("env", "upgrade", "up", "corner", "--to", "9")[1]
    shop.refused("env", "upgrade", "up", "--to", "1.0.0", code=2)
    assert "Applications: corner." in shop.refused("env", "upgrade", "up", "nobody")
    shop.ok("env", "deploy", "up")
    shop.ok("env", "destroy", "up", "--yes")


def test_bad_input_about_environments(shop: Service, tmp_path: Path) -> None:
    """Each mistake is one line that says what there is instead."""
    shop.ok("env", "create", "e")
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    assert "Environments of this project: e." in shop.refused("env", "show", "f")
    assert "already exists" in shop.refused("env", "create", "e")
    assert "blank" in shop.refused("env", "create", "")
    assert "Packages: test.Shop." in shop.refused("env", "add", "e", "Nope")
    assert "Name a PACKAGE" in shop.refused("env", "add", "e", code=2)
    assert "not JSON" in shop.refused("env", "add", "e", "--file", bad)
    assert "port" in shop.refused("env", "add", "e", "Shop", "--set", "port=0")
    assert "colour" in shop.refused("env", "add", "e", "Shop", "--set", "colour=red")
    assert "--set, number 1: expected" in shop.refused(
        "env", "edit", "e", "a", "--set", "x", code=2
    )
    assert "Applications: none." in shop.refused("env", "edit", "e", "a", "--set", "x=1")
    assert "Applications: none." in shop.refused("env", "remove", "e", "a")
    assert "never deployed" in shop.refused("env", "follow", "e")
    assert "/services/0/name" in shop.refused("env", "model", "e", "--path", "nope")
    assert "deploy first" in shop.refused("action", "call", "e", "x")
    assert "--arg, number 1: expected" in shop.refused(
        "action", "call", "e", "x", "--arg", "x", code=2
    )
    assert "vetro deployment list e" in shop.refused("deployment", "show", "e", "nope")
    shop.ok("env", "destroy", "--yes", "e")


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"type": "test.Shop"}, "Without a version a class is one of 0.x: write"),
        ({"type": "test.Shop", "classVersion": "7"}, "There is 1.0.0: write"),
        ({"type": "test.Shop/2.0"}, "There is 1.0.0: write"),
        ({"type": "test.Nope"}, "'vetro package list'"),
    ],
)
def test_a_class_that_is_not_found_says_what_to_write(
    shop: Service, tmp_path: Path, header: dict[str, str], says: str
) -> None:
    """The version that is there, in the form in which it is written."""
    shop.ok("env", "create", "versions")
    file = tmp_path / "app.json"
    file.write_text(json.dumps({"?": header, "name": "n", "port": 1}))
    text = shop.refused("env", "add", "versions", "--file", file)
    assert says in text
    if "write" in says:
        assert '"type": "test.Shop/1.0.0"' in text
        file.write_text('{"?": {"type": "test.Shop/1.0.0"}, "name": "n", "port": 1}')
        assert "ACTIONS" not in shop.ok("env", "add", "versions", "--file", file)
    shop.ok("env", "destroy", "--yes", "versions")


def test_every_mistake_has_a_hint_that_fits(shop: Service, tmp_path: Path, package: Any) -> None:
    """One line says what is wrong and the next what to do about this, not about something else."""
    (tmp_path / "text.zip").write_text("text" * 400)
    shop.ok("env", "create", "taken")
    shop.ok("category", "create", "Used")
    shop.ok("package", "update", "Shop", "--category", "Used")
    known = {"text": str(tmp_path / "text.zip"), "shop": str(package())}
    for words, wrong, hint in MISTAKES:
        code, text = shop.run(*(word.format(**known) for word in words))
        lines = [line for line in text.splitlines() if not line.startswith("Building")]
        assert code in (1, 2), words
        assert len(lines) == 2, text
        assert lines[0].startswith("Error: "), text
        assert wrong in lines[0]
        assert lines[1].startswith("Hint: "), text
        assert hint in lines[1]
    shop.ok("package", "update", "Shop", "--category", "")
    shop.ok("category", "delete", "--yes", "Used")
    shop.ok("env", "destroy", "--yes", "taken")


@pytest.mark.sampled(only=["edit"])
@pytest.mark.parametrize("how", ["add", "edit", "file"])
def test_objects_are_checked_before_they_are_taken(shop: Service, tmp_path: Path, how: str) -> None:
    """The same mistakes are refused in a form, in an edit and in a file; nothing is changed."""
    import tarfile

    text = tmp_path / "text"
    text.write_text("x" * 2000)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(text, "etc/hostname")
    shop.ok("image", "import", "debian", tmp_path / "a.tar")
    sample = Path(__file__).resolve().parents[3] / "library" / "ApacheHttpServer"
    shop.ok("package", "import", sample, "--exists-action", "skip")
    shop.ok("env", "create", "looked")
    fits = ("--set", "image=debian", "--set", "hostname=web1")
    (web,) = [shop.json("env", "add", "looked", "ApacheHttpServer", "--name", "web", *fits)]
    shop.ok("env", "add", "looked", "Shop", "--name", "other")
    before = shop.json("env", "model", "looked")

    def refused(**wrong: Any) -> str:
        """Try properties of the sample's application in the way that is tested."""
        nested = {"image", "flavor", "hostname"}
        if how == "add":
            names = {"image": "debian", "hostname": "web2", **wrong}
            name = names.pop("called", "web2")
            pairs = [f"{key}={value}" for key, value in names.items()]
            words = ["ApacheHttpServer", "--name", name]
        else:
            pairs = [
                f"{'instance.' if key in nested else ''}"
                f"{({'hostname': 'name', 'called': 'name'}).get(key, key)}={value}"
                for key, value in wrong.items()
            ]
            words = ["web"]
        if how == "file":
            model = json.loads(json.dumps(web))
            model["?"].update(name="web2")
            model["?"].pop("id")
            model["name"] = "web2"
            model["instance"]["?"].pop("id")
            model["instance"]["name"] = "web2"
            for pair in pairs:
                path, _, value = pair.partition("=")
                *parents, last = path.split(".")
                (model["instance"] if parents else model)[last] = value
            if "called" in wrong:
                model["?"]["name"] = wrong["called"]
            file = tmp_path / "object.json"
            file.write_text(json.dumps(model))
            return shop.refused("env", "add", "looked", "--file", file)
        if how == "edit" and "called" in wrong:
            pairs.append(f"?.name={wrong['called']}")
        sets = [word for pair in pairs for word in ("--set", pair)]
        return shop.refused("env", how, "looked", *words, *sets)

    assert "port" in refused(port="abc")
    assert "port" in refused(port="70000")
    assert "colour" in refused(colour="red")
    assert "there is no image nope; there are: debian" in refused(image="nope")
    assert "there is no flavor m1.tinny; did you mean m1.tiny?" in refused(flavor="m1.tinny")
    assert "host name" in refused(hostname="a_b")
    assert "an application of this name already" in refused(called="other")
    if how != "edit":
        assert "web (instance.name) has the machine web1" in refused(hostname="web1")
    assert shop.json("env", "model", "looked") == before
    assert len(shop.json("env", "show", "looked")["services"]) == 2
    if how == "edit":
        changed = ("--set", "port=81", "--set", "instance.flavor=m1.small")
        assert shop.json("env", "edit", "looked", "web", *changed)["port"] == 81
    shop.ok("env", "destroy", "--yes", "looked")
    shop.ok("image", "delete", "--yes", "debian")


USER = """
Namespaces: {=: test, std: io.murano}
Name: User
Extends: std:Application
Properties:
  name: {Contract: $.string().notNull()}
  shop: {Contract: $.class(Shop)}
  shops: {Contract: [$.class(Shop).notNull()], Default: []}
  needs: {Contract: $.class(Shop)}
"""


def test_an_application_that_others_use_is_taken_out_with_their_consent(
    shop: Service, tmp_path: Path, package: Callable[..., Path]
) -> None:
    """Its users are named with the property, and nothing is changed; --let-go lets them do without, but
    not where the class does not allow it; the way back is shown, and works."""
    source = package("2.0.0")
    needy = USER.replace("Name: User", "Name: Needy").replace(
        "needs: {Contract: $.class(Shop)}", "needs: {Contract: $.class(Shop).notNull()}"
    )
    classes = f"{CLASSES}---{USER}---{needy}".replace(
        "---\nNamespaces: {=: test, std: io.murano}", "---"
    )
    (source / "Classes/Shop.yaml").write_text(classes)
    manifest = (source / "manifest.yaml").read_text()
    listed = "Classes:\n  test.User: Shop.yaml\n  test.Needy: Shop.yaml\n"
    (source / "manifest.yaml").write_text(manifest.replace("Classes:\n", listed))
    shop.ok("package", "import", source)
    shop.ok("env", "create", "used")

    def add(kind: str, name: str, **properties: Any) -> str:
        header = {"type": f"test.{kind}", "classVersion": "2.0.0", "name": name}
        file = tmp_path / "one.json"
        file.write_text(json.dumps({"?": header, "name": name, **properties}))
        return shop.json("env", "add", "used", "--file", file)["?"]["id"]

    corner, other = add("Shop", "corner", port=80), add("Shop", "other", port=81)
    add("User", "ann", shop=corner, shops=[other, corner], needs=other)
    before = shop.json("env", "show", "used", "--only-apps")
    said = shop.refused("env", "remove", "used", "corner")
    assert "corner is in use: ann uses it as shop; ann uses it as shops.1" in said
    assert "--let-go" in said
    patch = tmp_path / "patch.json"
    patch.write_text('[{"op": "remove", "path": "/0"}]')
    assert "ann (shop) uses corner" in shop.refused("env", "patch", "used", patch)
    patch.write_text('[{"op": "remove", "path": "/services/0"}]')
    assert "ann (shop) uses corner" in shop.refused("env", "patch", "used", "--model", patch)
    assert shop.json("env", "show", "used", "--only-apps") == before
    text = shop.ok("env", "remove", "used", "corner", "--let-go")
    assert "vetro env changes used --discard" in text
    (_, ann) = shop.json("env", "show", "used", "--only-apps")
    assert (ann["shop"], ann["shops"], ann["needs"]) == (None, [other], other)
    bob = add("Needy", "bob", needs=other)
    before = shop.json("env", "show", "used", "--only-apps")
    said = shop.refused("env", "remove", "used", "other", "--let-go")
    assert "bob cannot do without: needs must be" in said
    assert shop.json("env", "show", "used", "--only-apps") == before
    # A client that does not ask takes it out all the same: the deployment is refused, not begun.
    shop.ok("env", "deploy", "used")
    row, session = shop.json("env", "show", "used"), shop.json("env", "session", "used")["id"]
    with Connection() as connection:
        path = f"/v1/environments/{row['id']}/services/{other}"
        headers = {"X-Configuration-Session": session}
        connection.request("DELETE", path, headers=headers)
    before = shop.json("deployment", "list", "used")
    said = shop.refused("env", "deploy", "used")
    assert "other was taken out and is in use" in said
    assert "bob (needs) uses other" in said
    assert shop.json("deployment", "list", "used") == before
    shop.ok("env", "changes", "used", "--discard", "--yes")
    left = shop.json("env", "show", "used", "--only-apps")
    assert {one["?"]["id"] for one in left} == {other, ann["?"]["id"], bob}
    shop.ok("env", "destroy", "--yes", "used")


def test_the_applications_of_an_earlier_deployment_come_back(shop: Service) -> None:
    """A removal that was deployed is taken back: by default to the deployment before the last."""
    shop.ok("env", "create", "back")
    assert "no deployment before" in shop.refused("env", "restore", "back")
    for name in ("one", "two"):
        shop.ok("env", "add", "back", "Shop", "--name", name)
    shop.ok("env", "deploy", "back")
    before = shop.json("env", "show", "back", "--only-apps")
    assert "vetro env restore back" in shop.ok("env", "remove", "back", "two")
    shop.ok("env", "deploy", "back")
    assert len(shop.json("env", "show", "back", "--only-apps")) == 1
    assert "no deployment zzz" in shop.refused("env", "restore", "back", "zzz")
    restored = shop.json("env", "restore", "back")
    assert [(one["change"], one["application"]) for one in restored["changes"]] == [
        ("added", "two")
    ]
    shop.ok("env", "deploy", "back")
    after = shop.json("env", "show", "back", "--only-apps")
    assert [one["?"]["id"] for one in after] == [one["?"]["id"] for one in before]
    first = shop.json("deployment", "list", "back")[1]["id"]
    shop.ok("env", "restore", "back", first[:12])
    (held,) = shop.json("env", "changes", "back")
    assert held["summary"] == "removed two"
    shop.ok("env", "destroy", "--yes", "back")


def test_a_refused_change_leaves_no_session_behind(shop: Service) -> None:
    """An application that is refused in an environment without changes leaves it as it was."""
    sample = Path(__file__).resolve().parents[3] / "library" / "ApacheHttpServer"
    shop.ok("package", "import", sample, "--exists-action", "skip")
    shop.ok("env", "create", "quiet")
    state = shop.json("env", "show", "quiet")["status"]
    words = ("env", "add", "quiet", "ApacheHttpServer", "--set", "image=nope")
    said = shop.refused(*words)
    assert "there is no image nope; there are none yet: 'vetro image build nope'" in said
    shop.refused("env", "remove", "quiet", "nothing")
    assert shop.json("env", "show", "quiet")["status"] == state
    shop.ok("env", "add", "quiet", "Shop", "--name", "other")
    shop.refused(*words)
    assert [one["name"] for one in shop.json("env", "show", "quiet")["services"]] == ["other"]
    shop.ok("env", "destroy", "--yes", "quiet")


def test_classes_answer_without_an_environment(shop: Service) -> None:
    """Static actions and schemas, by version; what is not there says where it is."""
    arguments = ("action", "static", "test.Prices", "of", "--class-version", "1")
    assert json.loads(shop.ok(*arguments, "--arg", "what=tea")) == ["tea", 5]
    assert "of(what)" in shop.refused(*arguments)
    assert json.loads(shop.ok(*arguments[:4], "--arg", "what=tea")) == ["tea", 5]
    other = ("action", "static", "test.Prices", "of", "--class-version", "=0")
    assert "test.Shop 1.0.0" in shop.refused(*other)
    assert "has no method" in shop.refused(*arguments[:3], "on", *arguments[4:])
    assert "must be a name" in shop.refused("action", "static", "a b", "of")
    found = json.loads(shop.ok("package", "schema", "test.Shop", "--class-version", "1"))
    assert found[""]["properties"]["port"]["minimum"] == 0
    assert json.loads(shop.ok("package", "schema", "test.Shop")) == found
    assert "" in json.loads(shop.ok("package", "schema", "io.murano.Environment"))
    assert '"test.Nope"' in shop.refused("package", "schema", "test.Nope")
    assert "not a version spec" in shop.refused(
        "package", "schema", "test.Shop", "--class-version", "x"
    )


STALL = {
    "manifest.yaml": (
        "Format: '1.4'\nType: Application\nFullName: test.Stall\nVersion: 1.0.0\nName: Stall\n"
        "Description: A stall\nAuthor: ann\nTags: []\nRequire: {test.Goods: '>=1.0'}\n"
        "Classes: {test.Stall: Stall.yaml}\n"
    ),
    "Classes/Stall.yaml": (
        "Namespaces: {=: test, std: io.murano}\nName: Stall\nExtends: std:Application\nProperties:\n"
        "  name: {Contract: $.string()}\n"
        "  costs: {Contract: $.int(), Usage: Out}\n"
        "Methods:\n  deploy:\n    Body:\n      - $.costs: new(Goods, kind => tea).price()\n"
    ),
}


def goods(version: str, price: int) -> dict[str, str]:
    """The files of the library that the stall requires."""
    return {
        "manifest.yaml": (
            f"Format: '1.4'\nType: Library\nFullName: test.Goods\nVersion: {version}\nName: Goods\n"
            "Description: What is sold\nAuthor: ann\nTags: []\nClasses: {test.Goods: Goods.yaml}\n"
        ),
        "Classes/Goods.yaml": (
            "Namespaces: {=: test}\nName: Goods\nProperties:\n"
            "  kind: {Contract: $.string().notNull()}\n"
            f"Methods:\n  price:\n    Body:\n      - Return: {price}\n"
        ),
    }


def test_an_environment_is_taken_elsewhere_with_the_versions_of_required_packages(
    service: Service, tmp_path: Path
) -> None:
    """What the required library was is in the file; where it is missing, the import names it."""

    def add(files: dict[str, str], name: str) -> None:
        for file, content in files.items():
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text(content)
        service.ok("package", "import", tmp_path / name)

    def remove() -> None:
        for row in service.json("package", "list"):
            service.ok("package", "delete", "--yes", row["id"])

    def costs(environment: str) -> int:
        return service.json("env", "show", environment)["services"][0]["costs"]

    add(goods("1.0.0", 5), "goods-1.0")
    add(STALL, "stall")
    service.ok("env", "create", "market")
    wanted = {"?": {"type": "test.Stall/1.0.0"}, "name": "tea"}
    (tmp_path / "apps.json").write_text(json.dumps([wanted]))
    service.ok("env", "add", "market", "--file", tmp_path / "apps.json")
    assert "done" in service.ok("env", "deploy", "market")
    assert costs("market") == 5
    assert "CREATED" in service.ok("env", "list")
    exported = tmp_path / "market.json"
    service.ok("env", "export", "market", "-o", exported)
    document = json.loads(exported.read_text())
    assert document["packages"]["test.Goods"] == ["1.0.0"]
    assert document["packages"]["test.Stall"] == ["1.0.0"]
    assert "costs" not in document["services"][0]
    service.ok("env", "destroy", "--yes", "market")
    remove()

    # Another place: without the packages, with the application alone, with a newer library alone.
    assert "test.Stall" in service.refused("env", "import", exported)
    add(goods("2.0.0", 7), "goods-2.0")
    add(STALL, "stall")
    assert "test.Goods 1.0.0" in service.refused("env", "import", exported)
    assert service.json("env", "list") == []
    add(goods("1.0.0", 5), "goods-1.0")
    service.ok("env", "import", exported, "--name", "fair")
    assert "done" in service.ok("env", "deploy", "fair")
    assert costs("fair") == 5
    service.ok("env", "destroy", "--yes", "fair")
    remove()


def test_tables_say_a_status_as_the_dashboard_does(shop: Service) -> None:
    """``env list`` and ``env show`` say what to do next; what programs read is the API's."""
    shop.ok("env", "create", "worded")

    def said(*form: str) -> str:
        listed = shop.ok("env", "list", *form, "--column", "name", "--column", "status")
        (row,) = [line for line in listed.splitlines() if line.startswith("worded")]
        (shown,) = shop.ok("env", "show", "worded", *form, "--column", "status").splitlines()
        words = row.removeprefix("worded").strip()
        assert shown.removeprefix("status").strip() == words
        return words

    assert said() == "Ready to configure"
    shop.ok("env", "add", "worded", "Shop", "--name", "corner")
    assert said() == "Ready to deploy"
    assert said("-f", "value") == "pending"
    assert shop.json("env", "show", "worded")["status"] == "pending"
    shop.ok("env", "deploy", "worded")
    assert said() == "Ready"
    assert said("-f", "value") == "ready"
    assert shop.ok("package", "show", "Shop", "--column", "name").split() == ["name", "Shop"]
    shop.ok("env", "destroy", "--yes", "worded")


def test_commands_in_hints_run_as_they_stand(shop: Service) -> None:
    """A name with a space is one word for a shell."""
    shop.ok("env", "create", "two words")
    shop.ok("env", "add", "two words", "Shop", "--name", "corner")
    shown = shop.ok("env", "show", "two words")
    (hint,) = re.findall("'vetro (env changes .*)' shows what", shown)
    assert "corner" in shop.ok(*shlex.split(hint))
    shop.ok("env", "destroy", "--yes", "two words")


@pytest.mark.parametrize(
    "name", ["plain", "two words", "it's", 'a "b" c', "$HOME and `id`", "back\\slash !"]
)
def test_a_shell_reads_a_name_as_it_is(name: str) -> None:
    """Whatever an environment is called, what a hint shows is one word."""
    assert shlex.split(word(name)) == [name]


def test_an_image_is_found_by_its_id_when_another_has_its_name(
    shop: Service, tmp_path: Path
) -> None:
    """Forms choose an image by its id, so an older one of the same name must be known by its own."""
    import tarfile

    (tmp_path / "text").write_text("x" * 2000)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "text", "etc/hostname")
    for _ in range(2):
        shop.ok("image", "import", "debian-12-apache", tmp_path / "a.tar")
    ids = [one["uuid"] for one in shop.json("image", "list") if one["name"] == "debian-12-apache"]
    assert len(ids) == 2
    assert shop.ok("image", "show", ids[0], "--column", "name").split() == [
        "NAME",
        "debian-12-apache",
    ]
    sample = Path(__file__).resolve().parents[3] / "library" / "ApacheHttpServer"
    shop.ok("package", "import", sample, "--exists-action", "skip")
    shop.ok("env", "create", "twins")
    for number, id_ in enumerate(ids):
        shop.ok(
            *("env", "add", "twins", "ApacheHttpServer", "--name", f"w{number}"),
            *("--set", f"image={id_}"),
        )
    shop.ok("env", "destroy", "--yes", "twins")
    for id_ in ids:
        shop.ok("image", "delete", "--yes", id_)
