"""A dashboard as people see it: `vetro up` with simulated machines, and the distribution's Chromium."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from tests import browser
from tests.browser import Person
from tests.ports import free_port
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
VETRO = str(Path(sys.executable).with_name("vetro"))
PASSWORD = "correct horse"
HOSTILE = "<img src=x onerror=window.hurt=1><script>window.hurt=1</script>"
#: `visit(theme=…, width=…)`: a new person, not signed in.
Visit = Callable[..., Person]


class Service:
    """A running `vetro up`, and its API for what a test prepares."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.directory = directory
        self.url = f"http://127.0.0.1:{self.port}"
        self.policy = directory / "policy.yaml"
        self.policy.write_text("{}")
        self.environ = {
            **os.environ,
            "VETRO_DATA_DIR": str(directory),
            "VETRO_URL": self.url,
            "VETRO_IDENTITY_ADMIN_PASSWORD": PASSWORD,
            "XDG_STATE_HOME": str(directory / "client"),
            "VETRO_SERVER_POLICY_FILE": str(self.policy),
        }
        self.token = ""

    def start(self) -> None:
        """Start the service and wait until it is ready."""
        with (self.directory / "up.log").open("ab") as log:
            self.process = subprocess.Popen(
                [VETRO, "up", "--port", str(self.port), "--driver", "simulated"],
                env=self.environ, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        until(self._ready, "vetro up is ready")

    def _ready(self) -> bool:
        assert self.process.poll() is None, (self.directory / "up.log").read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """Stop the service gracefully."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(240)

    def run(self, *arguments: str) -> str:
        """A command of the client; its output."""
        done = subprocess.run([VETRO, *arguments], env=self.environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def api(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """A request with the administrator's token; the JSON of its answer."""
        self.token = self.token or self.run("token").strip()
        data = None if body is None else json.dumps(body).encode()
        given = {"X-Auth-Token": self.token, "Content-Type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data, given, method=method)
        with urllib.request.urlopen(request, timeout=240) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def wait_for(self, environment: str) -> None:
        """Wait until an environment is deployed."""
        at = f"/v1/environments/{environment}"
        until(lambda: self.api("GET", at)["status"] == "ready", "the environment is deployed")

    def link(self) -> str:
        """A link that signs a browser in."""
        return str(self.api("POST", "/dashboard/api/links", X_Vetro_Dashboard="test")["url"])


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all tests of a worker, with the sample packages in its catalog."""
    if not (ROOT / "src/vetro/_dashboard/index.html").exists():
        pytest.skip("the dashboard is not built: make dashboard")
    running = Service(tmp_path_factory.mktemp("dashboard"))
    running.start()
    try:
        archives = sorted(str(one) for one in (ROOT / "dist/packages").glob("*.zip"))
        running.run("package", "import", "--public", *archives)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def image(service: Service, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image that the samples ask for; simulated machines look at its name only."""
    empty = tmp_path_factory.mktemp("image") / "empty.tar"
    empty.write_bytes(b"\0" * 10240)
    service.run("image", "import", "debian-12-apache", str(empty))
    return "debian-12-apache"


@pytest.fixture
def instance(service: Service, tmp_path: Path) -> Iterator[str]:
    """A running instance with an address, made without an environment."""
    (tmp_path / "text").write_text("x" * 2000)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "text", "etc/hostname")
    service.run("image", "import", "plain", str(tmp_path / "a.tar"))
    service.run("network", "create", "lan")
    service.run("subnet", "create", "lan", "10.77.0.0/24")
    service.run("vm", "create", "box", "--image", "plain", "--network", "lan", "--size", "m1.tiny")
    yield "box"
    if '"box"' in service.run("vm", "list", "--json"):
        service.run("vm", "destroy", "--yes", "box")
    service.run("network", "delete", "--yes", "lan")
    service.run("image", "delete", "--yes", "plain")


@pytest.fixture(scope="session")
def hostile(service: Service, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A package whose every text would run a script where it could; its id."""
    name = "org.example.Hostile"
    files = {
        "manifest.yaml": f"""
Format: MuranoPL/1.4
Type: Application
FullName: {name}
Name: 'Hostile {HOSTILE}'
Description: '{HOSTILE} [click](javascript:window.hurt=1) ![x](http://127.0.0.1:1/x.png)'
Author: '{HOSTILE}'
Version: 1.0.0
Tags: ['{HOSTILE[:30]}']
UI: ui.yaml
Supplier:
  Name: '{HOSTILE}'
  Summary: '{HOSTILE}'
  CompanyUrl: {{Text: '{HOSTILE}', Link: 'javascript:window.hurt=1'}}
Classes:
  {name}: App.yaml
""",
        "README.md": f"# {HOSTILE}\n\n[run](javascript:window.hurt=1) <svg onload=window.hurt=1>",
        # Named and begun as a picture, and a page to clients that guess its type.
        "logo.png": f"GIF89a<html>{HOSTILE}<svg xmlns='http://www.w3.org/2000/svg' onload='window.hurt=1'/>",
        "Classes/App.yaml": f"""
Name: {name}
Extends: io.murano.Application
Properties:
  title: {{Contract: $.string(), Default: ''}}
Methods:
  deploy:
    Body:
      - $this.find('io.murano.Environment').reporter.report($this, $.title)
""",
        "UI/ui.yaml": f"""
Version: 2.4
Application:
  ?: {{type: {name}}}
  title: $.main.title
Forms:
  - main:
      fields:
        - {{name: title, type: string, label: '{HOSTILE}', description: '{HOSTILE}', initial: '{HOSTILE}'}}
""",
    }
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        for file, text in files.items():
            made.writestr(file, text)
    path: Path = tmp_path_factory.mktemp("hostile") / "hostile.zip"
    path.write_bytes(archive.getvalue())
    service.run("package", "import", "--public", str(path))
    found = service.api("GET", f"/v1/catalog/packages?fqn={name}")["packages"]
    return str(found[0]["id"])


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The distribution's browser, without a window.

    Its driver runs an event loop in this thread: it ends with the module, or no test that follows could
    run a loop of its own.
    """
    with browser.chromium() as started:
        yield started


@pytest.fixture
def visit(chromium: Browser, service: Service, request: pytest.FixtureRequest) -> Iterator[Any]:
    """`visit(theme=…, width=…)`: a new person, not signed in. No page may log an error."""
    people: list[Person] = []

    def come(theme: str = "light", width: int = 1280, language: str = "en-GB") -> Person:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,  # pyright: ignore[reportArgumentType]
            locale=language,
            # axe is evaluated in the page, which its own policy forbids.
            bypass_csp=getattr(request, "param", False),
        )
        people.append(Person(context.new_page(), service))
        return people[-1]

    yield come
    for person in people:
        person.page.context.close()
    assert [text for person in people for text in person.complaints] == []
