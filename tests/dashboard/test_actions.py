"""Actions of a deployed application: arguments, failures, files, two at once, the keyboard."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from .conftest import Service, Visit
from .test_keyboard import choose

pytestmark = pytest.mark.programs

MANIFEST = """
Format: MuranoPL/1.4
Type: Application
FullName: test.dashboard.Acts
Name: Acts
Description: Actions of every kind
Version: 1.0.0
Classes: {test.dashboard.Acts: App.yaml}
"""
CLASS = """
Name: test.dashboard.Acts
Namespaces: {std: io.murano}
Extends: std:Application
Methods:
  deploy:
    Body: [{Return: null}]
  greet:
    Scope: Public
    Arguments:
      - who: {Contract: $.string().notNull()}
      - extra: {Contract: {}, Default: {}}
    Body:
      - Return: format('Hello {0}', $who)
  fails:
    Scope: Public
    Body:
      - Throw: DiskFull
        Message: The disk is full, delete old dumps
  file:
    Scope: Public
    Body:
      - Return: new(std:File, filename => 'report.csv', mimeType => 'text/csv', base64Content => 'YSxiCg==')
  slow:
    Scope: Public
    Body:
      - sleep(300)
"""


@pytest.fixture
def acts(service: Service, tmp_path: Path) -> str:
    """An environment with the application, deployed; its id."""
    root = tmp_path / "acts"
    (root / "Classes").mkdir(parents=True)
    (root / "manifest.yaml").write_text(MANIFEST)
    (root / "Classes/App.yaml").write_text(CLASS)
    service.run("package", "import", "--exists-action", "skip", str(root))
    made = service.api("POST", "/v1/environments", {"name": f"acts of {tmp_path.name}"})
    service.run("env", "add", made["id"], "Acts", "--name", "shop")
    service.run("env", "deploy", made["id"])
    return str(made["id"])


def act(page: Page, name: str) -> None:
    """Choose an action of the application."""
    page.get_by_role("button", name="Actions of shop").click()
    page.get_by_role("menuitem", name=name).click()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_actions_say_what_came_of_them(visit: Visit, acts: str, tmp_path: Path) -> None:
    """Arguments that are no JSON are not sent, a failure is said in its words, a file keeps its name."""
    person = visit()
    page = person.sign_in()
    person.open(f"/environments/{acts}")
    dialog, run = page.get_by_role("dialog"), page.get_by_role("button", name="Run")

    act(page, "greet")
    dialog.get_by_label("who").fill("world")
    dialog.get_by_label("extra").fill('{"a": ')
    run.click()
    expect(dialog.get_by_role("alert")).to_contain_text("extra is not JSON")
    dialog.get_by_label("extra").fill('{"a": 1}')
    run.click()
    expect(dialog).to_contain_text("Hello world")
    page.keyboard.press("Escape")

    act(page, "fails")
    run.click()
    expect(dialog.get_by_role("alert")).to_contain_text("The disk is full, delete old dumps")
    with page.expect_download() as given:
        dialog.get_by_role("button", name="Download exception.json").click()
    given.value.save_as(tmp_path / "exception.json")
    assert "test.dashboard.Acts/Classes/App.yaml" in (tmp_path / "exception.json").read_text()
    page.keyboard.press("Escape")
    failed = page.get_by_role("alert", name="The action fails failed")
    expect(failed).to_contain_text("The disk is full, delete old dumps")
    expect(failed).to_contain_text("run the action again")

    act(page, "file")
    run.click()
    with page.expect_download() as given:
        dialog.get_by_role("button", name="Download report.csv").click()
    given.value.save_as(tmp_path / "report.csv")
    assert (tmp_path / "report.csv").read_text() == "a,b\n"
    page.keyboard.press("Escape")
    # What failed is not said any more when something went well after it.
    expect(failed).to_have_count(0)


@pytest.mark.thorough
def test_while_an_action_runs_no_other_can_be_begun_and_it_can_be_cancelled(
    visit: Visit, acts: str
) -> None:
    """The page calls it an action, not a deployment; an older dialog is refused with the reason."""
    person = visit()
    page = person.sign_in()
    person.open(f"/environments/{acts}")
    act(page, "greet")
    page.get_by_role("dialog").get_by_label("who").fill("late")
    person.service.run("action", "call", acts, "slow", "--no-wait")
    page.get_by_role("button", name="Run").click()
    refused = page.get_by_role("dialog").get_by_role("alert")
    expect(refused).to_contain_text("deploy")
    page.keyboard.press("Escape")
    running = page.get_by_role("region", name="The action slow is running")
    expect(running).to_be_visible()
    page.get_by_role("button", name="Actions of shop").click()
    expect(page.get_by_role("menuitem", name="greet")).to_be_disabled()
    page.keyboard.press("Escape")
    running.get_by_role("button", name="Cancel action").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel action").click()
    expect(running).to_have_count(0)


@pytest.mark.thorough
def test_the_keyboard_goes_back_to_what_opened_a_dialog(visit: Visit, acts: str) -> None:
    """Also through a menu that is gone; when that is gone too, to the page."""
    person = visit()
    page = person.sign_in()
    person.open(f"/environments/{acts}")
    for name in ("greet", "Metadata"):
        opener = page.get_by_role("button", name="Actions of shop")
        opener.press("Enter")
        choose(page, name)
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(opener).to_be_focused()
