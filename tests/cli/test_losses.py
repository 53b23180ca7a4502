"""What a command would lose: shown, asked, and lost only with an answer."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.serving import Service, serving

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]
MANIFEST = """
Format: '1.4'
Type: Application
FullName: test.Blog
Name: Blog
Description: has a machine
Author: the tests
Classes: {test.Blog: blog.yaml, test.Box: blog.yaml}
"""
BLOG = """
Namespaces: {=: test, std: io.murano, res: io.murano.resources}
Name: Blog
Extends: std:Application
Properties:
  name: {Contract: $.string()}
  instance: {Contract: $.class(res:Instance).notNull()}
  network: {Contract: $.class(res:Network)}
Methods:
  deploy:
    Body:
      - If: $.network != null
        Then: [$.network.deploy()]
      - $.instance.deploy()
  close:
    Scope: Public
    Body:
      - $.instance.releaseResources()
      - Return: closed
---
# What it is made of no model tells.
Name: Box
Extends: res:Instance
Properties:
  base: {Contract: $.string().notNull(), Default: debian}
Methods:
  prepareStackTemplate:
    Arguments:
      - template: {Contract: {}}
    Body:
      - $server: $.name
      - $made: {resources: {$server: {properties: {image: $.base}}}}
      - Return: $template.mergeWith($made)
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that guards every request, with a simulated node, an image and the package."""
    directory = tmp_path_factory.mktemp("losses")
    package = directory / "blog"
    (package / "Classes").mkdir(parents=True)
    (package / "manifest.yaml").write_text(MANIFEST)
    (package / "Classes" / "blog.yaml").write_text(BLOG)
    with tarfile.open(directory / "debian.tar", "w") as tar:
        tar.add(package / "manifest.yaml", "etc/hostname")
    with serving(directory, "server_registered", VETRO_API_GUARD_DEPLOYMENTS="true") as made:
        with pytest.MonkeyPatch.context() as patch:
            made.reach(patch)
            for image in ("debian", "other"):
                made.ok("image", "import", image, directory / "debian.tar")
            made.ok("package", "import", package)
            while made.json("server", "list")[0]["status"] != "running":
                assert made.process.poll() is None
        yield made


@pytest.fixture
def service(running: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Service]:
    """The service with an environment of one application, deployed."""
    running.reach(monkeypatch)
    model: dict[str, Any] = {
        "?": {"type": "test.Blog", "id": "blog"},
        "name": "blog",
        "instance": {
            "?": {"type": "io.murano.resources.Instance", "id": "machine"},
            "name": "web-1",
            "image": "debian",
            "flavor": "m1.tiny",
        },
    }
    (tmp_path / "blog.json").write_text(json.dumps(model))
    running.ok("env", "create", "main")
    running.ok("env", "add", "main", "--file", tmp_path / "blog.json")
    running.ok("env", "deploy", "main")
    yield running
    running.ok("env", "destroy", "--yes", "main")


def machines(service: Service) -> dict[str, str]:
    """The machines by name."""
    return {row["alias"]: row["uuid"] for row in service.json("vm", "list")}


LOSS = "replaces machine web-1, its data is lost: host name web-1 → web-2"


def test_a_deployment_asks_before_it_replaces_a_machine(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal it ends and the machine stays; on one it asks; with --yes it goes on."""
    before = machines(service)
    assert [*before] == ["web-1"]
    service.ok("env", "edit", "main", "blog", "--set", "instance.name=web-2")
    code, text = service.run("env", "deploy", "main")
    assert code == 1
    assert LOSS in text
    assert "Give --yes to go on and lose it. 'vetro env changes main' shows" in text
    assert machines(service) == before
    assert "blog" in service.ok("env", "changes", "main")
    monkeypatch.setattr("vetro.cli.environments.losing.is_watched", lambda: True)
    code, text = service.run("env", "deploy", "main", input="n\n")
    assert (code, "Go on and lose it? [y/N]" in text) == (1, True)
    assert machines(service) == before
    code, text = service.run("env", "deploy", "main", input="y\n")
    assert (code, "Deployment done" in text) == (0, True)
    assert [*machines(service)] == ["web-2"]
    service.ok("env", "edit", "main", "blog", "--set", "instance.name=web-3")
    assert "Deployment done" in service.ok("env", "deploy", "--yes", "main")
    assert [*machines(service)] == ["web-3"]


def test_a_change_that_is_refused_can_be_dropped(service: Service) -> None:
    """The way back is the one of every change that waits."""
    before = machines(service)
    service.ok("env", "edit", "main", "blog", "--set", "instance.name=web-2")
    lines = service.run("env", "deploy", "main", "--json")[1].splitlines()
    (end,) = [json.loads(line) for line in lines if '"losses"' in line]
    assert [one["text"] for one in end["losses"]] == [LOSS]
    service.ok("env", "changes", "main", "--discard", "--yes")
    service.ok("env", "deploy", "main")
    assert machines(service) == before


def test_an_action_asks_before_it_removes_a_machine(service: Service) -> None:
    """Its result is printed when it was allowed."""
    before = machines(service)
    code, text = service.run("action", "call", "main", "close")
    assert (code, "removes machine web-1, its data is lost" in text) == (1, True)
    assert machines(service) == before
    assert service.json("action", "call", "--yes", "main", "close") == "closed"
    assert machines(service) == {}


def test_who_does_not_wait_is_not_asked(service: Service) -> None:
    """It fails then, and with --yes loses what it must."""
    before = machines(service)
    service.ok("env", "edit", "main", "blog", "--set", "instance.name=web-2")
    service.ok("env", "deploy", "main", "--no-wait")
    assert LOSS in service.run("env", "follow", "main")[1]
    assert machines(service) == before
    service.ok("env", "deploy", "main", "--no-wait", "--yes")
    service.ok("env", "follow", "main")
    assert [*machines(service)] == ["web-2"]
    called = service.json("action", "call", "--no-wait", "main", "close")["task_id"]
    assert service.run("action", "result", "--wait", "main", called)[0] == 1
    assert [*machines(service)] == ["web-2"]
    called = service.json("action", "call", "--no-wait", "--yes", "main", "close")["task_id"]
    service.ok("action", "result", "--wait", "main", called)
    assert machines(service) == {}


def test_a_refused_deployment_is_not_the_one_before_the_last(service: Service) -> None:
    """What was refused first and then allowed is taken back by default, as the removal says it is."""
    assert "vetro env restore main" in service.ok("env", "remove", "main", "blog")
    assert service.run("env", "deploy", "main")[0] == 1
    service.ok("env", "deploy", "--yes", "main")
    restored = service.json("env", "restore", "main")
    assert [(one["change"], one["application"]) for one in restored["changes"]] == [
        ("added", "blog")
    ]
    service.ok("env", "deploy", "main")
    service.ok("env", "edit", "main", "blog", "--set", "instance.name=web-2")
    assert service.run("env", "deploy", "main")[0] == 1
    service.ok("env", "changes", "main", "--discard", "--yes")
    restored = service.json("env", "restore", "main")
    assert [(one["change"], one["application"]) for one in restored["changes"]] == [
        ("removed", "blog")
    ]


def test_after_a_refusal_that_came_late_the_changes_wait(service: Service, tmp_path: Path) -> None:
    """They are shown, and dropped; the next deployment removes what was made for them. The only deployment
    that succeeded can be restored."""
    box = json.loads((tmp_path / "blog.json").read_text().replace("web-1", "box-1"))
    box["instance"]["?"] = {"type": "test.Box", "id": "box-machine"}
    box["?"]["id"] = box["name"] = "box"
    (tmp_path / "box.json").write_text(json.dumps(box))
    service.ok("env", "create", "late")
    service.ok("env", "add", "late", "--file", tmp_path / "box.json")
    service.ok("env", "deploy", "late")
    before, networks = machines(service), service.json("network", "list")
    network = {"?": {"type": "io.murano.resources.NeutronNetwork", "id": "more"}, "name": "more"}
    steps = [
        {"op": "add", "path": "/0/network", "value": network},
        {"op": "add", "path": "/0/instance/base", "value": "other"},
    ]
    (tmp_path / "steps.json").write_text(json.dumps(steps))
    service.ok("env", "patch", "late", tmp_path / "steps.json")
    code, text = service.run("env", "deploy", "late")
    assert (code, "image debian → other" in text) == (1, True)
    assert (machines(service), len(service.json("network", "list"))) == (before, len(networks) + 1)
    assert "box: instance.base, network" in service.ok("env", "changes", "late")
    restored = service.json("env", "restore", "late")
    assert restored["changes"] == []
    service.ok("env", "changes", "late", "--discard", "--yes")
    service.ok("env", "deploy", "late")
    assert (machines(service), service.json("network", "list")) == (before, networks)
    service.ok("env", "destroy", "--yes", "late")


def test_two_machines_that_change_names_are_asked_for_at_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both are named by the first refusal, and one answer lets both go."""
    (model,) = service.json("env", "model", "main", "--path", "services")
    other = json.loads((tmp_path / "blog.json").read_text().replace("web-1", "web-2"))
    other["?"]["id"], other["name"], other["instance"]["?"]["id"] = "other", "other", "second"
    (tmp_path / "other.json").write_text(json.dumps(other))
    service.ok("env", "add", "main", "--file", tmp_path / "other.json")
    service.ok("env", "deploy", "main")
    assert model["instance"]["name"] == "web-1"
    place = "/{}/instance/name"
    names = [{"op": "replace", "path": place.format(i), "value": f"web-{2 - i}"} for i in (0, 1)]
    (tmp_path / "swap.json").write_text(json.dumps(names))
    service.ok("env", "patch", "main", tmp_path / "swap.json")
    monkeypatch.setattr("vetro.cli.environments.losing.is_watched", lambda: True)
    code, text = service.run("env", "deploy", "main", input="n\n")
    assert (code, "Nothing was lost" in text) == (1, True)
    assert LOSS in text
    assert (
        LOSS.replace("web-1", "web-3").replace("web-2", "web-1").replace("web-3", "web-2") in text
    )
    before = machines(service)
    assert service.run("env", "deploy", "main", input="y\n")[0] == 0
    after = machines(service)
    assert after.keys() == before.keys()
    assert not {*after.values()} & {*before.values()}
