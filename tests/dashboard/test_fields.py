"""Forms with every kind of field, made from a class and written by an author, filled in in a browser."""

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .conftest import Service, Visit
from .test_composing import to_the_last_page
from .test_misfortune import environment
from .test_staying import Held

pytestmark = pytest.mark.programs

BACKEND = "org.example.fields.Backend"
POOL = "org.example.fields.Pool"
SINK = "org.example.fields.Sink"
CLASSES = {
    BACKEND: "Properties: {weight: {Contract: $.int(), Default: 1}}",
    POOL: """
Properties:
  backends: {Contract: [$.class(Backend).notNull()]}
  rules: {Contract: [{port: $.int().notNull(), proto: $.string(), open: $.bool()}]}
""",
    SINK: "Properties: {}",
}
#: Types of packages-and-forms.md B4, as an author writes them, and how each is shown.
FIELDS = {
    "line": "type: string, helpText: Some help, description: A description",
    "lines": "type: text, required: false",
    "count": "type: integer, minValue: 2, maxValue: 9",
    "flag": "type: boolean",
    "public": "type: floatingip",
    "secret": "type: password",
    "address": "type: clusterip",
    "databases": "type: databaselist",
    "mode": "type: choice, choices: [[a, Fast], [b, Safe]]",
    "flavor": "type: flavor",
    "image": "type: image",
    "key": "type: keypair",
    "zone": "type: azone, required: false",
    "network": "type: network",
    "group": "type: securitygroup",
    "volume": "type: volume, required: false",
    "dns": "type: zone, required: false",
    "domain": "type: domain",
    "one": f"type: {BACKEND}, required: false",
    "any": f"type: [{BACKEND}, {POOL}], required: false",
    "some": f"type: {BACKEND}, multiple: true, maxValue: 2",
    "nodes": "type: instance, initial: 1",
    "rows": "type: table, columns: [{columnName: host, columnType: label, title: Host},"
    " {columnName: main, columnType: radio, title: Main},"
    " {columnName: kept, columnType: checkbox, title: Kept}]",
}
HIDDEN = (
    "{name: unseen, type: string, hidden: true, initial: kept, description: A note on the page}"
)


def package(service: Service, at: Path, name: str, form: str = "") -> str:
    """Import a package of one class, with a form or without; its id."""
    found = service.api("GET", f"/v1/catalog/packages?fqn={name}")["packages"]
    if found:
        return str(found[0]["id"])
    short = name.rsplit(".", 1)[-1]
    file = at / f"{short}.zip"
    with zipfile.ZipFile(file, "w") as made:
        made.writestr(
            "manifest.yaml",
            f"Format: '1.4'\nType: Application\nFullName: {name}\nName: {short} of fields\n"
            f"Version: 1.0.0\nDescription: For a test\nAuthor: ann\nTags: []\n"
            + ("UI: ui.yaml\n" if form else "")
            + (f"Require: {{{BACKEND}: '1'}}\n" if name == POOL else "")
            + f"Classes:\n  {name}: {short}.yaml\n",
        )
        made.writestr(
            f"Classes/{short}.yaml",
            "Namespaces: {=: org.example.fields, std: io.murano}\n"
            f"Name: {short}\nExtends: std:Application\n{CLASSES[name]}\n",
        )
        if form:
            made.writestr("UI/ui.yaml", form)
    service.run("package", "import", "--public", str(file))
    return str(service.api("GET", f"/v1/catalog/packages?fqn={name}")["packages"][0]["id"])


def sink_with_form(service: Service, at: Path) -> str:
    """The package whose form has every type of field; its id."""
    package(service, at, BACKEND)
    fields = "\n".join(f"        - {{name: {name}, {one}}}" for name, one in FIELDS.items())
    values = "\n".join(f"  {name}: $.main.{name}" for name in [*FIELDS, "unseen"])
    form = (
        f"Version: 2.4\nApplication:\n  '?': {{type: {SINK}}}\n{values}\n"
        f"Forms:\n  - main:\n      fields:\n{fields}\n        - {HIDDEN}\n"
    )
    return package(service, at, SINK, form)


def component(service: Service, made: str, name: str) -> None:
    """Add a back end to the session of an environment."""
    at = f"/v1/environments/{made}"
    sessions = service.api("GET", f"{at}/sessions")["sessions"]
    session = sessions[0]["id"] if sessions else service.api("POST", f"{at}/configure")["id"]
    body = {"?": {"id": name.replace(" ", ""), "type": f"{BACKEND}/1.0.0", "name": name}}
    service.api("POST", f"{at}/services", body, X_Configuration_Session=session)


def added(service: Service, made: str, name: str) -> Any:
    """The component of a class in the session of an environment."""
    at = f"/v1/environments/{made}"
    session = service.api("GET", f"{at}/sessions")["sessions"][0]["id"]
    services = service.api("GET", f"{at}/services", X_Configuration_Session=session)
    return next(one for one in services if one["?"]["type"].startswith(name))


def choose(page: Page, field: str, option: str) -> None:
    """Choose in a drop-down."""
    box = page.get_by_role("combobox", name=field, exact=True)
    # A list is hidden when its field is scrolled away, as it is to show an option far below it.
    box.evaluate("box => box.scrollIntoView({block: 'center'})")
    box.click()
    page.get_by_role("option", name=option).click()


@pytest.mark.thorough
@pytest.mark.parametrize("visit", [True], indirect=True)
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_a_list_of_components_takes_existing_and_new_ones_in_an_order(
    visit: Visit, service: Service, tmp_path: Path, theme: str, width: int
) -> None:
    """Two are chosen, one is made, one is moved, one is taken out; rows of a table are entered beside."""
    package(service, tmp_path, BACKEND)
    pool = package(service, tmp_path, POOL)
    made = environment(service, f"pool {theme}")
    for name in ("alpha", "beta"):
        component(service, made, name)
    person = visit(theme=theme, width=width)
    page = person.sign_in()
    person.open(f"/environments/{made}/add/{pool}")
    group = page.get_by_role("group", name="Backends", exact=True)
    for name in ("alpha", "beta"):
        choose(page, "Add to Backends", name)
    expect(group.get_by_role("listitem")).to_have_text(["1. alpha", "2. beta"])
    expect(group.get_by_role("combobox", name="Add to Backends")).to_have_count(0)
    page.get_by_role("button", name="New: Backend of fields").click()
    nested = page.get_by_role("dialog")
    nested.get_by_role("button", name="Next").click()
    nested.get_by_label("Name").fill("gamma")
    nested.get_by_role("button", name="Add to the environment").click()
    expect(group.get_by_role("listitem")).to_have_text(["1. alpha", "2. beta", "3. gamma"])
    up = group.get_by_role("button", name="Move gamma up")
    up.click()
    expect(group.get_by_role("listitem")).to_have_text(["1. alpha", "2. gamma", "3. beta"])
    expect(up).to_be_focused()
    page.keyboard.press("Enter")
    expect(group.get_by_role("listitem")).to_have_text(["1. gamma", "2. alpha", "3. beta"])
    expect(group.get_by_role("button", name="Move gamma down")).to_be_focused()
    group.get_by_role("button", name="Take alpha out").click()
    expect(group.get_by_role("button", name="Take beta out")).to_be_focused()
    assert person.violations() == []
    rules = page.get_by_role("group", name="Rules", exact=True)
    rules.get_by_role("button", name="Add row").click()
    rules.get_by_label("Port 1").fill("http")
    expect(rules.get_by_text("Port: enter a whole number")).to_be_visible()
    rules.get_by_label("Port 1").fill("80")
    expect(rules.get_by_text("Port: enter a whole number")).to_have_count(0)
    rules.get_by_label("Open 1").check()
    assert person.violations() == []
    to_the_last_page(page)
    page.get_by_role("button", name="Add to the environment").click()
    page.wait_for_url(f"**/environments/{made}")
    model = added(service, made, POOL)
    services = service.api(
        "GET",
        f"/v1/environments/{made}/services",
        X_Configuration_Session=service.api("GET", f"/v1/environments/{made}/sessions")["sessions"][
            0
        ]["id"],
    )
    named = {one["?"]["id"]: one["?"]["name"] for one in services}
    assert [named[one] for one in model["backends"]] == ["gamma", "beta"]
    assert model["rules"] == [{"port": 80, "proto": None, "open": True}]
    # The form of the component has them as they are.
    person.open(f"/environments/{made}/edit/{model['?']['id']}")
    expect(group.get_by_role("listitem")).to_have_text(["1. gamma", "2. beta"])


@pytest.mark.thorough
@pytest.mark.parametrize("field", ["Flavor", "Network", "Group"])
@pytest.mark.parametrize("height", [900, 480])
def test_a_list_of_choices_stays_open_while_an_answer_moves_the_page(
    visit: Visit, service: Service, image: str, tmp_path: Path, field: str, height: int
) -> None:
    """Somebody quick opens a list before what was typed is checked; the complaints move the field."""
    sink = sink_with_form(service, tmp_path)
    made = environment(service, f"quick {field} {height}")
    person = visit()
    page = person.sign_in()
    page.set_viewport_size({"width": 1280, "height": height})
    person.open(f"/environments/{made}/add/{sink}")
    held = Held(page, lambda route: route.request.method == "POST", re.compile("/check"))
    page.get_by_role("textbox", name="Count").fill("10")
    page.get_by_role("textbox", name="Address").fill("10.0.0.999")
    page.get_by_role("textbox", name="Databases").fill("1st")
    page.locator("input[name=secret]").fill("a")
    held.wait()
    choice = page.get_by_role("combobox", name=field, exact=True)
    choice.click()
    options = page.get_by_role("option").locator("visible=true")
    expect(options.first).to_be_visible()
    held.release()
    expect(page.get_by_text("is not a name for a database")).to_have_count(1)
    expect(choice).to_have_attribute("aria-expanded", "true")
    # The list follows its field in the next frames: whoever clicks sees it, and scrolls nothing away.
    expect(options.first).to_be_in_viewport(ratio=1)
    text = options.first.inner_text()
    options.first.click()
    expect(choice).to_have_value(text)


@pytest.mark.sampled(only=["light-1280-True"])
@pytest.mark.parametrize("visit", [True], indirect=True)
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_every_type_of_field_is_filled_in(
    visit: Visit, service: Service, image: str, tmp_path: Path, theme: str, width: int
) -> None:
    """Each has its control, refuses what is no value of it, and gives the object its value."""
    sink = sink_with_form(service, tmp_path)
    made = environment(service, f"sink {theme}")
    component(service, made, "delta")
    person = visit(theme=theme, width=width)
    page = person.sign_in()
    person.open(f"/environments/{made}/add/{sink}")
    main = page.get_by_role("main")
    expect(main).to_contain_text("A note on the page")
    expect(main).to_contain_text("Some help")
    expect(main).to_contain_text("A description")
    assert person.violations() == []
    # Slow machines draw a long page after the frame that follows the answer.
    machine = page.context.new_cdp_session(page)
    machine.send("Emulation.setCPUThrottlingRate", {"rate": 10})
    page.get_by_role("button", name="Next").click()
    line = page.get_by_role("textbox", name="Line", exact=True)
    expect(line).to_be_focused()
    expect(line).to_have_attribute("aria-invalid", "true")
    machine.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    line.fill("one line")
    page.get_by_role("textbox", name="Lines").fill("one\ntwo")
    count = page.get_by_role("textbox", name="Count")
    count.fill("10")
    expect(main.get_by_text("Enter a number of at most 9")).to_be_visible()
    count.fill("9")
    expect(main.get_by_text("Enter a number of at most 9")).to_have_count(0)
    page.get_by_role("checkbox", name="Flag").check()
    page.get_by_role("checkbox", name="Public").check()
    page.locator("input[name=secret]").fill("Abcdef1!")
    again = page.get_by_label("Secret, once more")
    again.fill("Abcdef1?")
    expect(main.get_by_text("Secrets don't match")).to_be_visible()
    again.fill("Abcdef1!")
    page.get_by_role("textbox", name="Address").fill("10.0.0.999")
    expect(main.get_by_text("Enter an IPv4 address")).to_be_visible()
    page.get_by_role("textbox", name="Address").fill("10.0.0.9")
    page.get_by_role("textbox", name="Databases").fill("1st")
    expect(main.get_by_text("is not a name for a database")).to_be_visible()
    page.get_by_role("textbox", name="Databases").fill("first, second")
    choose(page, "Mode", "Safe")
    choose(page, "Flavor", "m1.tiny")
    choose(page, "Image", image)
    choose(page, "Network", "Auto")
    for name in ("One", "Any"):  # the only one that there is
        expect(page.get_by_role("combobox", name=name, exact=True)).to_have_value("delta")
    some = page.get_by_role("group", name="Some", exact=True)
    expect(some.get_by_role("listitem")).to_have_text(["1. delta"])  # the only one
    page.get_by_role("textbox", name="Nodes").fill("3")
    rows = page.get_by_role("group", name="Rows", exact=True)
    for number, host in enumerate(("a.example", "b.example"), 1):
        rows.get_by_role("button", name="Add row").click()
        rows.get_by_label(f"Host {number}").fill(host)
    rows.get_by_label("Main 2").check()
    rows.get_by_label("Kept 1").check()
    rows.get_by_role("button", name="Add row").click()
    rows.get_by_role("button", name="Remove row 3").click()
    expect(rows.get_by_role("button", name="Add row")).to_be_focused()
    assert person.violations() == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    to_the_last_page(page)
    page.get_by_role("button", name="Add to the environment").click()
    page.wait_for_url(f"**/environments/{made}")
    model = added(service, made, SINK)
    expected = {
        "line": "one line", "lines": "one\ntwo", "count": 9, "flag": True, "public": True,
        "address": "10.0.0.9", "databases": ["first", "second"], "mode": "b", "flavor": "m1.tiny",
        "network": [None, None], "one": "delta", "any": "delta", "some": ["delta"], "nodes": 3,
        "rows": [{"host": "a.example", "main": False, "kept": True},
                 {"host": "b.example", "main": True, "kept": False}],
        "domain": None, "unseen": "kept",
    }  # fmt: skip
    assert {name: model.get(name) for name in expected} == expected
