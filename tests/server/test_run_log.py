"""What a service says of itself: log lines and metrics of a real one."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.waiting import until

from vetro.server.run_log import database_of
from vetro.server.settings import load_settings

SECRET = "hunter-two-99"
MANIFEST = """
Format: '1.4'
Type: Application
FullName: test.reports
Name: Reports
Description: Applications that end in every way
Author: tests
Classes:
  test.Quiet: all.yaml
  test.Thrower: all.yaml
  test.Sleeper: all.yaml
"""
CLASSES = """
Namespaces: {=: test, std: io.murano}
Name: Quiet
Extends: std:Application
Methods:
  deploy:
    Body: []
  ask:
    Scope: Public
    Body:
      Return: 5
---
Name: Thrower
Extends: std:Application
Properties:
  password: {Contract: $.string()}
Methods:
  deploy:
    Body:
      - Throw: Trouble
        Message: format('it broke with {0}', $.password)
---
Name: Sleeper
Extends: std:Application
Methods:
  deploy:
    Body:
      - sleep(3600)
"""


class Watch:
    """Scrapes and log lines of an installation."""

    def __init__(self, vetro: Any) -> None:
        self.vetro = vetro

    def page(self) -> str:
        """The metrics as they are scraped."""
        with urllib.request.urlopen(f"{self.vetro.url}/metrics", timeout=60) as answer:
            return str(answer.read().decode())

    def value(self, name: str, **labels: str) -> float:
        """A sample that has these labels; 0 when there is none."""
        for family in text_string_to_metric_families(self.page()):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return 0

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The log lines of an event."""
        found = (line for line in self.vetro.log().splitlines() if line.startswith("{"))
        return [one for one in map(json.loads, found) if one["event"] == event]


@pytest.fixture
def watch(install: Callable[..., Any], tmp_path: Path) -> Watch:
    """A service with a package whose applications succeed, fail and sleep."""
    vetro = install("reports", driver="simulated", VETRO_SERVER_LOG_FORMAT="json")
    vetro.inside = True
    package = tmp_path / "package"
    (package / "Classes").mkdir(parents=True)
    (package / "manifest.yaml").write_text(MANIFEST)
    (package / "Classes/all.yaml").write_text(CLASSES)
    vetro.run("package", "import", str(package))
    return Watch(vetro)


def begin(watch: Watch, name: str, class_name: str, **properties: str) -> None:
    """An environment with one application; its deployment is asked for."""
    watch.vetro.run("env", "create", name)
    file = watch.vetro.directory / f"{name}.json"
    header = {"type": f"test.{class_name}", "id": name}
    file.write_text(json.dumps({"?": header, **properties}))
    watch.vetro.run("env", "add", name, "--file", str(file))
    watch.vetro.run("env", "deploy", name, "--no-wait")


@pytest.mark.thorough
def test_deployments_are_logged_and_counted_by_how_they_ended(watch: Watch) -> None:
    """One that succeeds, one that fails, one that is cancelled, an action and a destruction.

    Each has a line for its start and one for its end with ids, user, outcome, seconds and the reason;
    the metrics count the same, and no secret is in either.
    """
    ended = "vetro_deployments_ended_total"
    begin(watch, "good", "Quiet")
    begin(watch, "bad", "Thrower", password=SECRET)
    begin(watch, "long", "Sleeper")

    until(lambda: watch.value(ended, outcome="success") == 1, "the success is counted")
    until(lambda: watch.value(ended, outcome="failed") == 1, "the failure is counted")
    until(
        lambda: watch.value("vetro_engine_workers", kind="deployments", state="busy") == 1,
        "only the sleeper has a worker",
    )
    limit = watch.value("vetro_engine_workers_limit", kind="deployments")
    assert watch.value("vetro_engine_workers", kind="deployments", state="idle") == limit - 1
    until(lambda: watch.value("vetro_deployments_running") == 1, "it is read from the database")
    assert watch.value("vetro_environments", state="deploying") == 1
    watch.vetro.run("deployment", "cancel", "long", "--reason", "enough", code=None)
    until(lambda: watch.value(ended, outcome="cancelled") == 1, "the cancellation is counted")
    watch.vetro.run("action", "call", "good", "ask")
    watch.vetro.run("env", "destroy", "good", "--yes")
    assert watch.value(ended, kind="action", outcome="success") == 1
    assert watch.value(ended, kind="deletion", outcome="success") == 1
    seconds = "vetro_deployment_seconds_count"
    assert watch.value(seconds, kind="deployment", outcome="cancelled") == 1
    until(lambda: watch.value("vetro_environments", state="deploy failure") == 2, "states")

    good, bad, long = sorted(
        watch.lines("deployment_ended"),
        key=lambda line: ["good", "bad", "long"].index(line["environment_name"]),
    )
    started = {line["deployment"] for line in watch.lines("deployment_started")}
    assert started == {good["deployment"], bad["deployment"], long["deployment"]}
    assert [one["outcome"] for one in (good, bad, long)] == ["success", "failed", "cancelled"]
    assert "reason" not in good
    assert bad["reason"].endswith("it broke with ***")
    assert "enough" in long["reason"]
    for line in (good, bad, long):
        assert line["environment"]
        assert line["project"]
        assert line["user"]
        assert line["seconds"] >= 0
    assert [line["action"] for line in watch.lines("action_ended")] == ["ask"]
    assert [line["outcome"] for line in watch.lines("deletion_ended")] == ["success"]
    assert SECRET not in watch.vetro.log()
    assert SECRET not in watch.page()

    history = watch.vetro.json("deployment", "list", "--env", "good")
    assert [one["environment_gone"] is not None for one in history] == [True, True, True]
    assert {"good", "bad", "long"} <= set(watch.vetro.run("deployment", "list").split())
    assert "Deletion finished" in watch.vetro.run("deployment", "show", "good", history[0]["id"])


def test_start_stop_packages_and_failed_logins_are_said(watch: Watch) -> None:
    """Start and end have settings and reason; catalog changes and failed logins name the user."""
    vetro = watch.vetro
    (started,) = watch.lines("service_started")
    assert started["listens"] == f"127.0.0.1:{vetro.port}"
    assert started["driver"] == "simulated"
    assert started["database"] == f"sqlite {vetro.directory}/vetro.db"
    assert {"vetro", "python", "data_dir", "workers"} <= set(started)
    vetro.run("package", "delete", "test.reports", "--yes")
    auth = {
        "identity": {
            "methods": ["password"],
            "password": {
                "user": {"name": "mallory", "domain": {"id": "default"}, "password": SECRET}
            },
        }
    }
    status, _ = vetro.http("POST", "/identity/v3/auth/tokens", {"auth": auth})
    assert status == 401
    assert watch.value("vetro_login_failures_total", reason="refused") == 1
    (uploaded,) = watch.lines("package_uploaded")
    (deleted,) = watch.lines("package_deleted")
    assert uploaded["package"] == deleted["package"] == "test.reports"
    assert uploaded["user"]
    (refused,) = watch.lines("login_failed")
    assert (refused["user"], refused["address"]) == ("mallory", "127.0.0.1")
    vetro.stop()
    (stopping,) = watch.lines("service_stopping")
    assert stopping["reason"] == "signal SIGTERM"
    assert len(watch.lines("service_stopped")) == 1
    assert SECRET not in vetro.log()


@pytest.mark.thorough
def test_everything_declared_is_scraped_and_no_label_grows_with_use(watch: Watch) -> None:
    """The page has what docs/metrics.md lists; environments and packages add no line."""
    listed = {
        line.split("`")[1]
        for line in (Path(__file__).parents[2] / "docs/metrics.md").read_text().splitlines()
        if line.startswith("| `vetro_")
    }
    begin(watch, "first", "Quiet")
    ended = "vetro_deployments_ended_total"
    until(lambda: watch.value(ended, outcome="success") == 1, "it is counted")
    watch.vetro.run("env", "create", "first-of-many")
    scraped = watch.page()
    families = {line.split()[2] for line in scraped.splitlines() if line.startswith("# TYPE")}
    assert listed - families == set()
    before = len(scraped.splitlines())
    begin(watch, "second", "Quiet")
    until(lambda: watch.value(ended, outcome="success") == 2, "so is the second")
    for number in range(3):
        watch.vetro.run("env", "create", f"more-{number}")
    assert len(watch.page().splitlines()) == before


def test_the_database_is_named_without_its_password(tmp_path: Path) -> None:
    """The log has the database's name without the password."""
    given = {"VETRO_DATABASE_URL": "postgresql://vetro:hunter2@db.example:5433/cloud"}
    said = database_of(load_settings(environ={"VETRO_DATA_DIR": str(tmp_path), **given}))
    assert said == "postgresql db.example:5433/cloud"
