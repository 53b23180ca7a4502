"""A machine that a change would replace: named, asked for, and kept until somebody says that it may go."""

import json
import uuid
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from .conftest import Service, Visit

pytestmark = [pytest.mark.thorough, pytest.mark.programs]

MANIFEST = """
Format: MuranoPL/1.4
Type: Application
FullName: test.dashboard.Keeps
Name: Keeps
Description: A machine
Version: 1.0.0
Classes: {test.dashboard.Keeps: App.yaml}
UI: ui.yaml
"""
CLASS = """
Name: test.dashboard.Keeps
Namespaces: {std: io.murano, res: io.murano.resources}
Extends: std:Application
Properties:
  text: {Contract: $.string()}
  instance: {Contract: $.class(res:Instance).notNull()}
Methods:
  deploy:
    Body: [$.instance.deploy()]
  release:
    Scope: Public
    Body: [$.instance.releaseResources()]
"""
FORM = """
Version: 2.4
Application:
  ?: {type: test.dashboard.Keeps}
  text: $.main.text
  instance:
    ?: {type: io.murano.resources.LinuxInstance}
    name: generateHostname($.main.host, 1)
    flavor: m1.tiny
    image: $.main.image
Forms:
  - main:
      fields:
        - {name: text, type: string, label: Text, initial: first}
        - {name: host, type: string, label: Host name, initial: 'keep-#'}
        - {name: image, type: image, label: Image, initial: debian-12-apache}
"""


@pytest.fixture
def kept(service: Service, image: str, tmp_path: Path) -> str:
    """An environment with the application and its machine, deployed; its id."""
    root = tmp_path / "keeps"
    (root / "Classes").mkdir(parents=True)
    (root / "UI").mkdir()
    (root / "manifest.yaml").write_text(MANIFEST)
    (root / "Classes/App.yaml").write_text(CLASS)
    (root / "UI/ui.yaml").write_text(FORM)
    service.run("package", "import", "--exists-action", "skip", str(root))
    made = service.api("POST", "/v1/environments", {"name": f"keeps of {tmp_path.name}"})
    service.run("env", "add", made["id"], "test.dashboard.Keeps", "--name", "blog")
    service.run("env", "deploy", made["id"])
    return str(made["id"])


def machines(service: Service, names: set[str]) -> dict[str, str]:
    """The ids of machines by their names."""
    listed = json.loads(service.run("vm", "list", "--json"))
    return {one["alias"]: one["uuid"] for one in listed if one["alias"] in names}


def change(page: Page, label: str, value: str) -> None:
    """Open the form of the application, enter a value, and save."""
    page.get_by_role("button", name="Actions of blog").click()
    page.get_by_role("menuitem", name="Change").click()
    page.get_by_label(label).fill(value)
    while page.get_by_role("button", name="Next").is_visible():
        page.get_by_role("button", name="Next").click()
        page.get_by_label("Application name").wait_for()
    page.get_by_role("button", name="Save the changes").click()


def test_a_machine_is_lost_only_when_somebody_says_so(
    visit: Visit, service: Service, kept: str
) -> None:
    """The dialog names it with both names; left as it is the machine stays, then it is replaced."""
    names = {"keep-1", "other"}
    before = machines(service, names)
    assert set(before) == {"keep-1"}
    person = visit()
    page = person.sign_in()
    person.open(f"/environments/{kept}")

    change(page, "Text", "first")
    expect(page.get_by_text("Nothing was changed: blog has all of this already.")).to_be_visible()
    expect(page.get_by_role("button", name="Deploy changes")).to_be_disabled()
    change(page, "Text", "second")
    page.get_by_role("button", name="Deploy changes").click()
    expect(page.get_by_text("The deployment has begun.")).to_be_visible()
    service.wait_for(kept)
    assert machines(service, names) == before

    change(page, "Host name", "other")
    page.get_by_role("button", name="Deploy changes").click()
    dialog = page.get_by_role("dialog", name="Lose this?")
    expect(dialog).to_contain_text("Machine keep-1 is replaced by a new one. Its data is lost.")
    expect(dialog).to_contain_text("keep-1 → other")
    dialog.get_by_role("button", name="Leave it as it is").click()
    expect(dialog).not_to_be_visible()
    assert machines(service, names) == before
    told = page.get_by_role("alert").filter(has_text="Not deployed: it would lose something")
    expect(told).to_contain_text("keep-1 → other")

    told.get_by_role("button", name="Go on and lose it").click()
    dialog.get_by_role("button", name="Go on and lose it").click()
    expect(dialog).not_to_be_visible()
    service.wait_for(kept)
    assert set(machines(service, names)) == {"other"}
    expect(told).not_to_be_visible()


@pytest.mark.parametrize("visit", [True], indirect=True)
def test_environments_that_are_deployed_together_are_asked_one_by_one(
    visit: Visit, service: Service, kept: str
) -> None:
    """From the list and from the menu of a tile, as on its own page: one is left, the others go on."""
    mark = uuid.uuid4().hex[:8]
    made = [kept]
    for number in range(2):
        body = {"name": f"{mark}-{number}"}
        made.append(str(service.api("POST", "/v1/environments", body)["id"]))
        service.run("env", "add", made[-1], "test.dashboard.Keeps", "--name", "blog",
                    "--set", f"host={mark}-{number}-#")  # fmt: skip
        service.run("env", "deploy", made[-1])
    service.api("PUT", f"/v1/environments/{kept}", {"name": f"{mark}-kept"})
    names = {"keep-1", f"{mark}-0-1", f"{mark}-1-1", *(f"{mark}-new-{n}" for n in range(3))}
    before = machines(service, names)
    assert len(before) == 3
    for number, one in enumerate(made):
        service.run("env", "edit", one, "blog", "--set", f"instance.name={mark}-new-{number}")
    person = visit()
    page = person.sign_in()
    for name in ("kept", "0", "1"):
        page.get_by_label(f"Choose {mark}-{name}").check()
    chosen = page.get_by_role("region", name="What to do with those that are chosen")
    chosen.get_by_role("button", name="Deploy").click()
    dialog = page.get_by_role("dialog")
    asked: dict[str, str] = {}
    for _ in made:
        expect(dialog).to_contain_text("is replaced by a new one. Its data is lost.")
        title = dialog.get_by_role("heading").inner_text()
        name = title.removeprefix(f"Lose this of {mark}-").removesuffix("?")
        assert name not in asked
        asked[name] = dialog.inner_text()
        leave = name == "0"
        dialog.get_by_role(
            "button", name="Leave it as it is" if leave else "Go on and lose it"
        ).click()
        expect(dialog.get_by_text(title)).not_to_be_visible()
    assert sorted(asked) == ["0", "1", "kept"]
    assert f"{mark}-0-1 → {mark}-new-1" in asked["0"]
    service.wait_for(kept)
    service.wait_for(made[2])
    after = machines(service, names)
    assert set(after) == {f"{mark}-0-1", f"{mark}-new-0", f"{mark}-new-2"}
    assert after[f"{mark}-0-1"] == before[f"{mark}-0-1"]
    page.get_by_role("button", name=f"Actions of {mark}-0").click()
    page.get_by_role("menuitem", name="Deploy").click()
    expect(dialog).to_contain_text(f"{mark}-0-1 → {mark}-new-1")
    dialog.get_by_role("button", name="Go on and lose it").click()
    expect(dialog).not_to_be_visible()
    service.wait_for(made[1])
    assert f"{mark}-new-1" in machines(service, names)


def test_an_action_loses_a_machine_only_when_somebody_says_so(
    visit: Visit, service: Service, kept: str
) -> None:
    """Left as it is, the action's form is there again; told to go on, it removes the machine."""
    before = machines(service, {"keep-1"})
    assert set(before) == {"keep-1"}
    person = visit()
    page = person.sign_in()
    person.open(f"/environments/{kept}")
    page.get_by_role("button", name="Actions of blog").click()
    page.get_by_role("menuitem", name="release").click()
    page.get_by_role("button", name="Run").click()
    dialog = page.get_by_role("dialog", name="Lose this?")
    expect(dialog).to_contain_text("Machine keep-1 is removed. Its data is lost.")
    dialog.get_by_role("button", name="Leave it as it is").click()
    assert machines(service, {"keep-1"}) == before
    page.get_by_role("button", name="Run").click()
    dialog.get_by_role("button", name="Go on and lose it").click()
    expect(page.get_by_text("Done. The action returned nothing.")).to_be_visible()
    assert machines(service, {"keep-1"}) == {}


def test_a_second_application_has_a_machine_of_its_own(
    visit: Visit, service: Service, kept: str
) -> None:
    """Added again with the host name as the form offers it, its name is the next one."""
    before = machines(service, {"keep-1"})
    found = service.api("GET", "/v1/catalog/packages?fqn=test.dashboard.Keeps")["packages"]
    person = visit()
    page = person.sign_in()
    person.open(f"/environments/{kept}/add/{found[0]['id']}")
    page.get_by_role("button", name="Next").click()
    page.get_by_label("Application name").fill("second")
    page.get_by_role("button", name="Add to the environment").click()
    page.get_by_role("button", name="Deploy changes").click()
    expect(page.get_by_text("The deployment has begun.")).to_be_visible()
    service.wait_for(kept)
    after = machines(service, {"keep-1", "keep-2"})
    assert set(after) == {"keep-1", "keep-2"}
    assert after["keep-1"] == before["keep-1"]
