"""The stock clients, and the service that they are run against."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from tests.cli.serving import Service

from vetro.cli.client.connection import read_openrc

ROOT = Path(__file__).parents[3]
STOCK = ROOT / ".venv-stock" / "bin" / "python"
ID = re.compile(r"\b[0-9a-f]{32}\b")
MANIFEST = """
Format: '1.0'
Type: Application
FullName: test.Shop
Name: Shop
Description: A shop
Author: ann
Tags: [trade]
Classes: {test.Shop: Shop.yaml}
UI: ui.yaml
"""
CLASSES = """
Namespaces: {=: test, std: io.murano}
Name: Shop
Extends: std:Application
Properties:
  name: {Contract: $.string().notNull()}
  port: {Contract: $.int().notNull()}
Methods:
  deploy:
    Body:
      - $this.find(std:Environment).reporter.report($this, opening)
  sell:
    Usage: Action
    Arguments:
      - what: {Contract: $.string().notNull()}
    Body:
      - Return: format('sold {0} on {1}', $what, $.port)
  price:
    Usage: Static
    Scope: Public
    Arguments:
      - what: {Contract: $.string().notNull()}
    Body:
      - Return: format('{0} costs 5', $what)
"""
LOGO = ROOT / "library" / "HelloScript" / "logo.png"
TEMPLATE = """
heat_template_version: 2013-05-23
resources:
  net: {type: OS::Neutron::Net}
"""
FORM = "Version: 2\nApplication: {'?': {type: test.Shop}}\n"
SHOP = {"?": {"type": "test.Shop", "id": "f" * 32}, "name": "corner", "port": 80}


@dataclass
class Clients:
    """A running service and a process that runs the clients' commands."""

    directory: Path
    process: subprocess.Popen[str]
    used: set[str] = field(default_factory=set[str])

    def run(self, *argv: str, stdin: str = "", code: int = 0) -> str:
        """Run a command; what it printed on both streams. It must end with ``code``."""
        found, out, err = self.tried(*argv, stdin=stdin)
        assert found == code, (argv, found, out, err)
        return out + err if code else out

    def tried(self, *argv: str, stdin: str = "") -> tuple[int, str, str]:
        """Run a command; its exit code, and what it printed on each stream."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"argv": argv, "stdin": stdin}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        self.used.add(" ".join(argv))
        return answer["code"], answer["out"], answer["err"]

    def murano(self, *argv: str, stdin: str = "", code: int = 0) -> str:
        """Run a command of `murano`."""
        return self.run("murano", *argv, stdin=stdin, code=code)

    def openstack(self, *argv: str, stdin: str = "", code: int = 0) -> Any:
        """Run a command of the plug-in."""
        return self.run("openstack", *argv, stdin=stdin, code=code)

    def json(self, *argv: str) -> Any:
        """What a command of the plug-in prints as JSON; the names of columns in lower case."""
        value = json.loads(self.openstack(*argv, "-f", "json"))

        def lower(row: dict[str, Any]) -> dict[str, Any]:
            return {key.lower(): one for key, one in row.items()}

        if isinstance(value, list):
            return [lower(row) for row in cast("list[dict[str, Any]]", value)]
        return lower(value)


def id_in(text: str, name: str = "") -> str:
    """The first id of a table, or that of the row with a name."""
    for line in text.splitlines():
        found = ID.search(line)
        if found and (not name or f" {name} " in line):
            return found.group()
    raise AssertionError(f"no id of {name!r} in {text}")


@pytest.fixture(scope="module")
def clients(without_machines: Service, request: pytest.FixtureRequest) -> Iterator[Clients]:
    """A project, and one process of clients, for all tests of the module."""
    assert STOCK.exists(), "run 'tools/stock-clients.sh python3 .venv-stock'"
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    with without_machines.project(f"stock_{Path(request.path).stem}") as made:
        directory = made.directory
        environ = {
            **inherited,
            **read_openrc(directory / "data" / "admin-openrc"),
            "PYTHONWARNINGS": "ignore",
            "COLUMNS": "200",
        }
        runner = subprocess.Popen(
            [STOCK, str(Path(__file__).with_name("runner.py"))],
            env=environ,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            with runner:
                yield Clients(directory, runner)
        finally:
            runner.wait()


@pytest.fixture(scope="module")
def shop(clients: Clients) -> Path:
    """The package's archive."""
    target = clients.directory / "test.Shop.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for name, text in {
            "manifest.yaml": MANIFEST,
            "Classes/Shop.yaml": CLASSES,
            "UI/ui.yaml": FORM,
        }.items():
            archive.writestr(name, text)
            (clients.directory / name).parent.mkdir(exist_ok=True)
            (clients.directory / name).write_text(text)
    return target


@pytest.fixture(scope="module")
def repository(clients: Clients, shop: Path) -> Iterator[str]:
    """A repository of packages over HTTP."""
    root = clients.directory / "repository"
    for name in ("apps", "bundles"):
        (root / name).mkdir(parents=True)
    (root / "apps" / "test.Shop.zip").write_bytes(shop.read_bytes())
    bundle = {"Packages": [{"Name": "test.Shop", "Version": ""}]}
    (root / "bundles" / "shops.bundle").write_text(json.dumps(bundle))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    handler = functools.partial(Quiet, directory=str(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def wait_for(clients: Clients, environment: str) -> str:
    """The state of an environment's newest deployment once it has ended."""
    base = ["deployment-list", environment]
    for _ in range(600):
        rows = clients.murano(*base).splitlines()
        newest = next(line for line in rows if ID.search(line))
        if "running" not in newest:
            return newest
        threading.Event().wait(0.2)
    raise AssertionError("the deployment does not end")
