"""The client's commands against a whole service (without machines), good input and bad."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from vetro.cli import cli

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
VETRO = str(Path(sys.executable).with_name("vetro"))
MANIFEST = """
Format: '1.4'
Type: Application
FullName: test.Shop
Version: VERSION
Name: Shop
Description: A shop
Author: ann
Tags: [trade]
Classes:
  test.Shop: Shop.yaml
  test.Prices: Shop.yaml
UI: ui.yaml
"""
CLASSES = """
Namespaces: {=: test, std: io.murano}
Name: Shop
Extends: std:Application
Properties:
  name: {Contract: $.string().notNull()}
  port: {Contract: $.int().notNull().check($ > 0)}
  url: {Contract: $.string(), Usage: Out}
Methods:
  deploy:
    Body:
      - $this.find(std:Environment).reporter.report($this, opening)
      - $.url: format('http://shop:{0}', $.port)
  sell:
    Scope: Public
    Arguments:
      - what: {Contract: $.string().notNull()}
    Body:
      - Return: format('sold {0} on {1}', $what, $.port)
  close:
    Scope: Public
    Body:
      - Throw: Shut
        Message: we are shut
---
Name: Prices
Methods:
  of:
    Usage: Static
    Scope: Public
    Arguments:
      - what: {Contract: $.string().notNull()}
    Body:
      - Return: [$what, 5]
"""
FORM = """
Version: 2.4
Application:
  ?: {type: test.Shop}
  name: name()
  port: $.shop.port
Forms:
  - shop:
      fields:
        - {name: port, type: integer, label: Port, initial: 80, minValue: 1}
"""


@dataclass
class Service:
    """A running ``vetro up``, and the command against it."""

    directory: Path
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list[str])
    environ: dict[str, str] = field(default_factory=dict[str, str])

    def run(self, *arguments: object, **options: Any) -> tuple[int, str]:
        """Exit code and everything printed."""
        result = CliRunner().invoke(cli, [str(one) for one in arguments], **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output

    def ok(self, *arguments: object) -> str:
        """The output of a command that works."""
        code, text = self.run(*arguments)
        assert code == 0, f"{arguments}: {text}\n{''.join(self.lines)}"
        return text

    def json(self, *arguments: object) -> Any:
        """The JSON document of a command that works."""
        return json.loads(self.ok(*arguments, "--json"))

    def refused(self, *arguments: object, code: int = 1) -> str:
        """The one line of a command that fails, and its hint."""
        found, text = self.run(*arguments)
        lines = text.splitlines()
        assert found == code, f"{arguments}: {text}"
        assert lines[0].startswith("Error: "), text
        assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("Hint: ")), text
        return text


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all tests of the module."""
    directory = tmp_path_factory.mktemp("client")
    environ = {
        "VETRO_DATA_DIR": str(directory / "data"),
        "XDG_STATE_HOME": str(directory / "state"),
        "VETRO_NODE_ENABLED": "false",
    }
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    process = subprocess.Popen(
        [VETRO, "up", "--port", "0", "--driver", "simulated"],
        env={**inherited, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    made = Service(directory, process, environ=environ)
    begun = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            made.lines.append(line)
            if line.startswith("  instances"):
                begun.set()
        begun.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert begun.wait(120)
        assert process.poll() is None, "".join(made.lines)
        yield made
    finally:
        process.terminate()
        process.wait(60)
        reader.join(60)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def service(running: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The service; commands find it by the files in its data directory."""
    for name in [key for key in os.environ if key.startswith(("OS_", "VETRO_U", "VETRO_T"))]:
        monkeypatch.delenv(name)
    for name, value in running.environ.items():
        monkeypatch.setenv(name, value)
    return running


@pytest.fixture
def package(tmp_path: Path) -> Callable[..., Path]:
    """Make the package's directory."""

    def make(version: str = "1.0.0", form: str = FORM) -> Path:
        root = tmp_path / f"shop-{version}"
        for name, text in {
            "manifest.yaml": MANIFEST.replace("VERSION", version),
            "Classes/Shop.yaml": CLASSES,
            "UI/ui.yaml": form,
        }.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return root

    return make


@pytest.fixture
def shop(service: Service, package: Callable[..., Path]) -> Iterator[Service]:
    """The service with the package in its catalog."""
    service.ok("package", "import", package(), "--exists-action", "skip")
    yield service
    for row in service.json("package", "list"):
        service.ok("package", "delete", "--yes", row["id"])


def test_an_environment_from_its_making_to_its_end(shop: Service) -> None:
    """Create, add by the form, look, deploy, act, change, take out, rename, destroy."""
    made = shop.json("env", "create", "main")
    assert made["name"] == "main"
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
    said = shop.ok("env", "destroy", "--yes", "left", "other", "--abandon")
    assert said.count("abandoned") == 2
    assert shop.json("env", "list") == []


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
    assert "--set x: expected" in shop.refused("env", "edit", "e", "a", "--set", "x", code=2)
    assert "Applications: none." in shop.refused("env", "edit", "e", "a", "--set", "x=1")
    assert "Applications: none." in shop.refused("env", "remove", "e", "a")
    assert "never deployed" in shop.refused("env", "follow", "e")
    assert "/services/0/name" in shop.refused("env", "model", "e", "--path", "nope")
    assert "deploy first" in shop.refused("action", "call", "e", "x")
    assert "--arg x: expected" in shop.refused("action", "call", "e", "x", "--arg", "x", code=2)
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
]


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


@pytest.mark.parametrize("how", ["add", "edit", "file"])
def test_objects_are_checked_before_they_are_taken(shop: Service, tmp_path: Path, how: str) -> None:
    """The same mistakes are refused in a form, in an edit and in a file; nothing is changed."""
    import tarfile

    text = tmp_path / "text"
    text.write_text("x" * 2000)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(text, "etc/hostname")
    shop.ok("image", "import", "debian", tmp_path / "a.tar")
    sample = Path(__file__).resolve().parents[2] / "library" / "ApacheHttpServer"
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
    assert "no host name" in refused(hostname="a_b")
    assert "an application of this name already" in refused(called="other")
    if how != "edit":
        assert "web has a machine web1 already" in refused(hostname="web1")
    assert shop.json("env", "model", "looked") == before
    assert len(shop.json("env", "show", "looked")["services"]) == 2
    if how == "edit":
        changed = ("--set", "port=81", "--set", "instance.flavor=m1.small")
        assert shop.json("env", "edit", "looked", "web", *changed)["port"] == 81
    shop.ok("env", "destroy", "--yes", "looked")
    shop.ok("image", "delete", "--yes", "debian")


def test_a_refused_change_leaves_no_session_behind(shop: Service) -> None:
    """An application that is refused in an environment without changes leaves it as it was."""
    sample = Path(__file__).resolve().parents[2] / "library" / "ApacheHttpServer"
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


def test_packages_from_upload_to_deletion(
    service: Service, package: Callable[..., Path], tmp_path: Path
) -> None:
    """Import with a category, skip, replace and keep both, change, download, delete."""
    assert service.json("category", "create", "Web")["name"] == "Web"
    (row,) = service.json("package", "import", package(), "-c", "Web", "--public")
    assert (row["categories"], row["is_public"]) == (["Web"], True)
    assert "catalog already" in service.refused("package", "import", package())
    (same,) = service.json("package", "import", package(), "--exists-action", "skip")
    assert same["id"] == row["id"]
    (newer,) = service.json("package", "import", package("2.0.0"), "--exists-action", "update")
    assert (newer["version"], len(service.json("package", "list"))) == ("2.0.0", 2)
    service.ok("package", "delete", "--yes", newer["id"])
    (again,) = service.json("package", "import", package(), "--exists-action", "update")
    assert again["id"] != row["id"]
    assert (again["categories"], again["is_public"]) == (["Web"], True)
    changed = service.json("package", "update", "Shop", "--private", "--tag", "a", "--tag", "b")
    assert (changed["is_public"], changed["tags"]) == (False, ["a", "b"])
    assert service.json("package", "update", "Shop", "--tag", "", "--disable")["tags"] == []
    assert service.json("package", "list") == []
    assert service.json("package", "show", "Shop")["enabled"] is False
    service.ok("package", "update", "Shop", "--enable", "--name", "Corner", "--description", "d")
    assert service.json("package", "list", "--search", "corner")[0]["description"] == "d"
    assert "Corner" in service.ok("package", "list", "--category", "Web")
    every = ["--name", "Corner", "--fqn", "test.Shop", "--class-name", "test.Prices", "--owned"]
    every += ["--type", "application", "--tag", "none", "--tag", "trade", "--limit", "1"]
    service.ok("package", "update", "Shop", "--tag", "trade")
    (one,) = service.json("package", "list", "--include-disabled", *every)
    assert service.json("package", "list", "--marker", one["id"]) == []
    for wrong in (["--name", "x"], ["--fqn", "x"], ["--class-name", "x"], ["--type", "Library"]):
        assert service.json("package", "list", *wrong) == [], wrong
    target = tmp_path / "back.zip"
    assert service.json("package", "download", "test.Shop", target)["file"] == str(target)
    assert target.read_bytes()[:2] == b"PK"
    piped = CliRunner().invoke(cli, ["package", "download", "test.Shop"])
    assert piped.stdout_bytes == target.read_bytes()
    assert [row["name"] for row in service.json("category", "show", "Web")["packages"]]
    assert "--category" in service.refused("category", "delete", "--yes", "Web")
    assert service.json("package", "delete", "--yes", "Corner") == {"deleted": ["test.Shop 1.0.0"]}
    assert service.json("category", "delete", "--yes", "Web") == {"deleted": ["Web"]}
    assert service.json("category", "list") == []


def test_an_import_says_what_the_check_finds(
    service: Service, package: Callable[..., Path], tmp_path: Path
) -> None:
    """What stands in the catalog counts as there; findings do not keep a package out."""
    service.ok("package", "import", package())
    user = tmp_path / "user"
    for name, text in {
        "manifest.yaml": "Format: '1.4'\nType: Library\nFullName: test.user\nDescription: x\n"
        "Require: {test.Shop: 1}\nClasses: {test.user.A: A.yaml}\n",
        "Classes/A.yaml": "Namespaces: {=: test.user, t: test}\nName: A\nExtends: t:Shop\n"
        "Methods:\n  m: {Body: [$.sell(), lenn($.port)]}\n",
    }.items():
        (user / name).parent.mkdir(parents=True, exist_ok=True)
        (user / name).write_text(text)
    text = service.ok("package", "import", user)
    assert "A.yaml:5:14: E313 sell of test.Shop needs what" in text
    assert f"{user}: 2 errors, 1 warning" in text
    service.ok("package", "delete", "--yes", "test.user")
    (row,) = service.json("package", "import", user)
    assert [item["code"] for item in row["findings"]] == ["E313", "E311", "W121"]
    service.ok("package", "delete", "--yes", "test.user", "Shop")


def test_a_package_shows_fields_and_actions(shop: Service) -> None:
    """What its form asks for, and what can be called, with arguments."""
    shown = shop.json("package", "show", "Shop")
    assert [(item["name"], item["type"]) for item in shown["fields"]] == [("port", "integer")]
    sell = next(item for item in shown["actions"] if item["action"] == "sell")
    assert (sell["class"], sell["call"]) == ("test.Shop", "sell(what)")
    assert sell["arguments"] == [{"name": "what", "contract": "$.string().notNull()"}]
    text = shop.ok("package", "show", "Shop")
    assert "sell(what)" in text
    assert "FIELD" in text


def test_a_replacement_that_is_refused_leaves_the_old_package(
    service: Service, package: Callable[..., Path]
) -> None:
    """The catalog is as it was when the upload fails after the old one was taken out."""
    (row,) = service.json("package", "import", package(), "--public")
    text = service.refused(
        "package", "import", package(), "--exists-action", "update", "-c", "Nowhere"
    )
    assert "Nowhere" in text
    (kept,) = service.json("package", "list")
    for key in ("fully_qualified_name", "version", "is_public", "tags", "class_definitions"):
        assert kept[key] == row[key]
    service.ok("package", "delete", "--yes", "Shop")


def test_bad_input_about_packages(shop: Service, tmp_path: Path) -> None:
    """Each mistake is one line with a hint."""
    text = tmp_path / "x.zip"
    text.write_text("text")
    assert "Packages: test.Shop." in shop.refused("package", "show", "Nope")
    assert "'Nope'" in shop.refused("package", "delete", "--yes", "Nope")
    assert "No such file" in shop.refused("package", "import", tmp_path / "nope")
    assert "no manifest.yaml" in shop.refused("package", "import", tmp_path)
    assert "not a zip archive" in shop.refused("package", "import", text)
    assert "not a zip archive" in shop.refused("package", "import", text, "--exists-action", "skip")
    assert "no manifest.yaml" in shop.refused("package", "build", tmp_path)
    assert "Nothing to change" in shop.refused("package", "update", "Shop", code=2)
    assert "Nowhere" in shop.refused("package", "update", "Shop", "-c", "Nowhere")
    assert "No such file" in shop.refused("package", "download", "Shop", tmp_path / "no" / "x")
    assert "Categories: none." in shop.refused("category", "show", "Nope")
    assert "needs a name" in shop.refused("category", "create", " ")


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


def test_images_are_looked_at_before_they_are_sent(service: Service, tmp_path: Path) -> None:
    """A file that is no tar is refused here, an unknown type as well; lists and deletes work."""
    import tarfile

    text = tmp_path / "text"
    text.write_text("no tar" * 200)
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(text, "etc/hostname")
    assert "not a tar archive" in service.refused("image", "import", "i", text)
    assert "'floppy'" in service.refused("image", "import", "i", text, "--type", "floppy", code=2)
    (row,) = service.json("image", "import", "i", archive)
    assert "i" in service.ok("image", "list")
    copy = tmp_path / "copy.tar"
    told = service.json("image", "export", "i", copy)
    assert copy.read_bytes() == Path(archive).read_bytes()
    assert (told["sha256"], told["size"]) == (row["sha256"], copy.stat().st_size)
    assert "exists" in service.refused("image", "export", "i", copy)
    assert "not exported" in service.refused("image", "export", "i", tmp_path / "no/such.tar")
    assert "There is no image" in service.refused("image", "export", "j", tmp_path / "j.tar")
    assert sorted(path.name for path in tmp_path.iterdir() if "partial" in path.name) == []
    assert service.json("image", "delete", "--yes", "i") == {"deleted": [f"i ({row['uuid']})"]}
    assert "Images: none." in service.refused("image", "delete", "--yes", "i")


def test_machines_that_are_not_there(service: Service) -> None:
    """Lists are empty, names are unknown."""
    assert service.json("server", "list") == []
    assert service.json("vm", "list") == []
    assert "vetro server list" in service.refused("server", "show", "x")
    for command in ("show", "start", "stop", "reboot"):
        assert "vetro vm list" in service.refused("vm", command, "x")
    assert "vetro vm list" in service.refused("vm", "destroy", "x", "--yes")


def test_tokens_and_passwords(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token works in the place of the file; a wrong one, or password, is said to be wrong."""
    token = service.json("token")["token"]
    assert service.ok("token").strip()
    monkeypatch.setenv("VETRO_TOKEN", token)
    service.ok("--url", service.json("token")["url"], "env", "list")
    monkeypatch.setenv("VETRO_TOKEN", "wrong")
    assert "unset VETRO_TOKEN" in service.refused("env", "list")
    monkeypatch.delenv("VETRO_TOKEN")
    monkeypatch.setenv("OS_USERNAME", "admin")
    monkeypatch.setenv("OS_PASSWORD", "wrong")
    assert "Login of" in service.refused("env", "list")
    monkeypatch.delenv("OS_PASSWORD")
    monkeypatch.delenv("OS_USERNAME")
    monkeypatch.setenv("VETRO_DATA_DIR", "/nowhere")
    assert "No credentials" in service.refused("env", "list")
    monkeypatch.setenv("VETRO_TOKEN", "t")
    assert "No Vetro answers" in service.refused("--url", "http://127.0.0.1:1", "env", "list")


def completions(*words: str) -> list[str]:
    """What a shell offers for the last word."""
    completer = ShellComplete(cli, {}, "vetro", "_VETRO_COMPLETE")
    return [item.value for item in completer.get_completions(list(words[:-1]), words[-1])]


def test_shells_complete_names(shop: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, choices and the names on the server; nothing when there is no server."""
    shop.ok("env", "create", "alpha")
    shop.ok("env", "create", "beta")
    assert completions("pac") == ["package"]
    assert completions("up", "--driver", "lx") == ["lxc", "lxc+qemu"]
    assert completions("env", "show", "") == ["alpha", "beta"]
    assert completions("env", "show", "b") == ["beta"]
    assert completions("env", "add", "alpha", "test") == ["test.Shop"]
    assert completions("package", "import", "-c", "") == []
    assert completions("project", "show", "ad") == ["admin"]
    assert completions("project", "delete", "nosuch") == []
    assert completions("keypair", "list", "--project", "ad") == ["admin"]
    monkeypatch.setenv("VETRO_DATA_DIR", "/nowhere")
    assert completions("env", "show", "") == []
    monkeypatch.setenv("VETRO_DATA_DIR", str(shop.directory / "data"))
    assert completions("env", "add", "alpha", "test.Shop", "--set", "") == ["port="]
    assert completions("env", "add", "alpha", "test.Shop", "--set", "x") == []
    assert completions("env", "add", "alpha", "test.Shop", "--set", "port=") == []
    assert completions("env", "add", "alpha", "test.Nope", "--set", "") == []
    assert completions("env", "add", "alpha", "--set", "") == []
    shop.ok("env", "add", "alpha", "test.Shop", "--name", "corner")
    assert {"name=", "port="} <= set(completions("env", "edit", "alpha", "corner", "--set", ""))
    assert completions("env", "edit", "alpha", "corner", "--set", "po") == ["port="]
    assert completions("env", "edit", "alpha", "nosuch", "--set", "") == []
    assert completions("env", "edit", "beta", "corner", "--set", "") == []
    for name in ("alpha", "beta"):
        shop.ok("env", "destroy", "--yes", name)


def results(rows: list[dict[str, Any]]) -> dict[str, str]:
    """What came of each package of an import."""
    return {f"{row['package']} {row['version'] or ''}".strip(): row["result"] for row in rows}


def test_a_bundle_comes_with_what_it_requires(service: Service, shelf: Any) -> None:
    """Versions satisfy the conditions, circles do no harm, images are checked against their hashes."""
    good, bad = "content of an image", "f" * 64
    digest = hashlib.sha256(good.encode()).hexdigest()
    images = "Images:\n" + "".join(
        f"- {{Name: {name}, DiskFormat: {kind}, ContainerFormat: bare, Hash: {wanted},"
        " Meta: {title: Fine OS, type: linux.fine}}\n"
        for name, kind, wanted in (
            ("fine", "qcow2", digest),
            ("damaged", "qcow2", bad),
            ("odd", "floppy", digest),
        )
    )
    (shelf.directory / "images").mkdir()
    for name in ("fine", "damaged"):
        (shelf.directory / "images" / name).write_text(good)
    shelf.add("b.Web", "1.0.0", images=images, b_Db=">=1,<2", b_Gone=">=3")
    for version in ("1.0.0", "1.5.0", "2.0.0"):
        shelf.add("b.Db", version, b_Log="1")
    shelf.add("b.Log", "1.0.0", b_Db="1")
    (shelf.directory / "bundles").mkdir()
    text = {"Packages": [{"Name": "b.Web", "Version": ">=1"}, {"Name": "b.Nowhere"}]}
    (shelf.directory / "bundles" / "all.bundle").write_text(json.dumps(text))
    service.ok("bundle", "index", shelf.directory)

    code, said = service.run("bundle", "import", "all", "--repo-url", shelf.url, "--json")
    assert code == 1
    assert "Not everything was imported: b.Nowhere, b.Gone" in said
    rows, _ = json.JSONDecoder().raw_decode(said[said.index("[") :])
    assert results(rows) == {
        "b.Nowhere": "failed",
        "b.Gone >=3": "missing",
        "b.Db 1.5.0": "imported",
        "b.Log 1.0.0": "imported",
        "b.Web 1.0.0": "imported",
        "image fine": "imported",
        "image damaged": "failed",
        "image odd": "failed",
    }
    reasons = {row["package"]: row["reason"] for row in rows}
    assert f"its sha256 is {digest}, not {bad}" in reasons["image damaged"]
    assert "the repository has no version >=3 of it" in reasons["b.Gone"]
    (image,) = service.json("image", "list")
    assert (image["name"], image["os"]) == ("fine", "linux")
    assert json.loads(image["tags"]["murano_image_info"]) == {
        "title": "Fine OS",
        "type": "linux.fine",
    }

    # Again: what is there stays, also what only was required.
    _, said = service.run("bundle", "import", "all", "--repo-url", shelf.url, "--json")
    rows, _ = json.JSONDecoder().raw_decode(said[said.index("[") :])
    assert results(rows)["b.Web 1.0.0"] == "skipped"
    assert "b.Db 1.5.0" not in results(rows)
    service.ok("image", "delete", "--yes", "fine")
    # What is required is replaced, too, when that is asked for.
    shelf.add("b.Alone", "1.0.0", b_Log="1")
    service.ok("bundle", "index", shelf.directory)
    alone = ("package", "import", "b.Alone", "--repo-url", shelf.url, "--no-images")
    assert results(service.json(*alone)) == {"b.Alone 1.0.0": "imported"}
    again = (*alone, "--exists-action", "s", "--dep-exists-action", "u")
    replaced = {"b.Db 1.5.0": "replaced", "b.Log 1.0.0": "replaced", "b.Alone 1.0.0": "skipped"}
    assert results(service.json(*again)) == replaced
    service.ok("package", "delete", "--yes", "b.Web", "b.Db", "b.Log", "b.Alone")


def test_who_watches_is_asked_about_a_package_that_is_there(
    service: Service, package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Skip, update or abort, when no option has said it; the option's first letter will do."""
    there = package("7.0.0")
    service.ok("package", "import", there)
    monkeypatch.setattr("vetro.cli.terminal.choices.is_watched", lambda: True)
    for letter, code, said in (("s", 0, "7.0.0"), ("u", 0, "7.0.0"), ("a", 1, "catalog already")):
        found, text = service.run("package", "import", there, input=f"{letter}\n")
        assert (found, said in text, "Skip it (s)" in text) == (code, True, True), text
        found, text = service.run("package", "import", there, "--exists-action", letter)
        assert (found, said in text, "Skip it (s)" in text) == (code, True, False), text
    assert service.run("package", "delete", "--yes", "test.Shop", "--version", "7.0.0")[0] == 0


def test_signatures_travel_with_archives(service: Service, shelf: Any, tmp_path: Path) -> None:
    """From `sign` through the index, `save` and an import to what the catalog shows; a wrong one stops."""
    key = tmp_path / "key.pem"
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    key.write_bytes(pem)
    archive = shelf.add("b.Web", "1.0.0")
    (signed,) = service.json("package", "sign", archive, "--key", key)
    assert signed["file"] == f"{archive}.sig"
    service.ok("bundle", "index", shelf.directory)
    repository = ("--repo-url", shelf.url)
    service.ok("package", "import", "b.Web", *repository)
    shown = {"key": signed["key"], "signer": None}
    (row,) = service.json("package", "list")
    assert row["signature"] == shown
    service.ok("package", "delete", "--yes", "b.Web")
    service.ok("package", "save", "b.Web", *repository, "-o", tmp_path / "saved")
    (row,) = service.json("package", "import", tmp_path / "saved" / "b.Web.zip")
    assert row["signature"] == shown
    service.ok("package", "delete", "--yes", "b.Web")
    wrong = shelf.add("b.Web", "2.0.0")
    Path(f"{wrong}.sig").write_text(Path(f"{archive}.sig").read_text())
    assert "is not a signature of b.Web.2.0.0.zip" in service.refused("package", "import", wrong)
    Path(f"{wrong}.sig").write_text("x")
    assert "is not a line 'vetro-ed25519" in service.refused("package", "import", wrong)
    assert service.json("package", "list") == []
    sign = ("package", "sign", "--key", key)
    assert "a directory has no signature" in service.refused(*sign, tmp_path)
    assert "the key cannot be read" in service.refused("package", "sign", "--key", archive, archive)


def test_archives_that_are_not_what_was_promised(service: Service, shelf: Any) -> None:
    """Another hash, another package, another version: nothing of it enters the catalog."""
    archive = shelf.add("b.Web", "1.0.0")
    service.ok("bundle", "index", shelf.directory)
    archive.write_bytes(archive.read_bytes() + b"more")
    words = ("package", "import", "b.Web", "--repo-url", shelf.url)
    code, said = service.run(*words)
    assert code == 1
    assert "not what was promised" in said
    (shelf.directory / "index.json").unlink()
    shelf.add("b.Other", "1.0.0").rename(shelf.directory / "apps" / "b.Web.zip")
    code, said = service.run(*words)
    assert "the archive has the package b.Other" in said
    code, said = service.run("package", "import", "b.Nope", "--repo-url", shelf.url)
    assert (code, "the server answers 404" in said) == (1, True)
    code, said = service.run("bundle", "import", "../x", "--repo-url", shelf.url)
    assert (code, "Invalid filename path supplied" in said) == (1, True)
    code, said = service.run("bundle", "import", "nothing")
    assert (code, "No base_url for repository supplied" in said) == (1, True)
    assert service.json("package", "list") == []


def test_a_bundle_file_takes_packages_from_beside_it(
    service: Service, shelf: Any, tmp_path: Path
) -> None:
    """Directories and archives that lie beside the bundle need no repository; addresses neither."""
    beside = tmp_path / "beside"
    beside.mkdir()
    shelf.add("b.One", "1.0.0", b_Two="1")
    (shelf.directory / "src" / "b.One-1.0.0").rename(beside / "b.One")
    shelf.add("b.Two", "1.0.0").rename(beside / "b.Two.zip")
    shelf.add("b.Three", "1.0.0")
    url = f"{shelf.url}/apps/b.Three.1.0.0.zip"
    (beside / "my.bundle").write_text(
        f"Packages:\n- Name: b.One\n- {{Name: b.Three, Url: {url}}}\n"
    )
    rows = service.json("bundle", "import", beside / "my.bundle")
    assert list(results(rows)) == ["b.Two 1.0.0", "b.One 1.0.0", "b.Three 1.0.0"]
    assert set(results(rows).values()) == {"imported"}
    code, said = service.run("package", "import", url)
    assert (code, "in the catalog already" in said) == (1, True)
    rows = service.json("package", "import", url, "--exists-action", "update")
    assert results(rows) == {"b.Three 1.0.0": "replaced"}
    service.ok("package", "delete", "--yes", "b.One", "b.Two", "b.Three")


HEAT = """
heat_template_version: 2013-05-23
parameters:
  title: {type: string, constraints: [{length: {max: 9}, description: at most nine letters}]}
resources:
  net: {type: 'OS::Neutron::Net', properties: {name: {get_param: title}}}
outputs:
  text: {value: {str_replace: {template: 'T-%', params: {'%': {get_param: title}}}}}
  file: {value: {get_file: note.txt}}
"""


def test_a_heat_template_goes_from_the_catalog_to_a_stack(service: Service, tmp_path: Path) -> None:
    """Import, form, schema, deployment by an engine, outputs, and the end of the stack."""
    source = tmp_path / "heat"
    (source / "Resources" / "HotFiles").mkdir(parents=True)
    (source / "manifest.yaml").write_text(
        "Format: Heat.HOT/1.0\nType: Application\nFullName: test.Heat\nVersion: 1.0.0\n"
        "Name: Heat\nDescription: d\n"
    )
    (source / "template.yaml").write_text(HEAT)
    (source / "Resources" / "HotFiles" / "note.txt").write_text("hello")
    service.ok("package", "import", source)
    shown = service.json("package", "show", "test.Heat")
    assert [one["name"] for one in shown["fields"]] == ["title", "name", "title"]
    schema = service.json("package", "schema", "test.Heat")
    assert "templateParameters" in schema[""]["properties"]
    service.ok("env", "create", "warm")
    refused = service.refused("env", "add", "warm", "test.Heat", "--set", "group0.name=h",
                              "--set", "group1.title=0123456789")  # fmt: skip
    assert "at most" in refused
    service.ok("env", "add", "warm", "test.Heat", "--name", "h", "--set", "group1.title=blue",
               "--set", "group0.name=h")  # fmt: skip
    service.ok("env", "deploy", "warm")
    (app,) = service.json("env", "show", "warm")["services"]
    assert app["templateOutputs"] == {"text": "T-blue", "file": "hello"}
    assert "blue" in {one["name"] for one in service.json("network", "list")}
    service.ok("env", "destroy", "--yes", "warm")
    assert "blue" not in {one["name"] for one in service.json("network", "list")}
    service.ok("package", "delete", "--yes", "test.Heat")
