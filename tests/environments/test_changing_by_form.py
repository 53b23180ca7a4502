"""Components changed by their forms: the model is the only truth, and nothing is made anew (issue 33)."""

from typing import Any

import pytest
from sqlalchemy import select, update
from tests.environments.test_wizards import answered, field

from vetro.environments import CallAnswer
from vetro.environments.tables import wizards

Api = Any  # the fixture of conftest.py

FORM = """
Version: 2.1
Application:
  ?: {type: org.acme.App}
  size: $.p.size
  password: $.p.secret
  key: encryptData($.p.word)
  machine:
    ?: {type: io.murano.resources.LinuxMuranoInstance}
    name: generateHostname($.p.host, 1)
    flavor: m1.small
Forms:
  - p:
      fields:
        - {name: size, type: integer, initial: 2}
        - {name: secret, type: password, regexpValidator: '.*', confirmInput: false}
        - {name: word, type: string, initial: sesame}
        - {name: host, type: string, initial: '', required: false}
"""


class Room:
    """An environment, a session and a package, and what a browser does with them."""

    def __init__(self, api: Api, package_zip: Any) -> None:
        self.api = api
        self.zip = package_zip

    async def begin(self, form: str = FORM, version: str = "1.0.0") -> None:
        """Upload the package and open a session of an environment."""
        await self.upload(form, version)
        self.environment, self.session = await self.api.opened()

    async def upload(self, form: str, version: str) -> None:
        """Upload a version of the package."""
        answer = await self.api.upload(self.zip(form=form, version=version))
        assert answer.status == 200, answer.text
        self.package = answer.json()["id"]

    async def start(self, **which: Any) -> Any:
        """Start a wizard in the session."""
        body = {**which, "environment_id": self.environment, "quick": True}
        answer = await self.api.call("POST", "/wizards", body, session=self.session)
        assert answer.status == 200, answer.text
        return answer.json()

    async def save(self, wizard: Any, **entered: Any) -> Any:
        """Send every page as it is shown, with what is entered, and finish."""
        path = f"/wizards/{wizard['id']}"
        for page in wizard["form"]["pages"]:
            shown = {one["name"]: one["value"] for one in page["fields"] if not one["secret"]}
            values = {**shown, **entered}
            answer = await self.api.call(
                "POST", f"{path}/pages/{page['name']}", {"values": values}, session=self.session
            )
            assert answer.json()["valid"], answer.text
        answer = await self.api.call("POST", f"{path}/finish", {}, session=self.session)
        assert answer.status == 200, answer.text
        return answer.json()

    async def add(self, **entered: Any) -> Any:
        """Add a component by the form."""
        wizard = await self.start(package=self.package)
        return (await self.save(wizard, **{"secret": "first", **entered}))["component"]

    async def change(self, id_: str, **entered: Any) -> Any:
        """Change a component by its form."""
        return await self.save(await self.start(component_id=id_), **entered)

    async def component(self, id_: str) -> Any:
        """A component as the session has it."""
        path = f"/environments/{self.environment}/services/{id_}"
        return (await self.api.call("GET", path, session=self.session)).json()

    async def edit(self, id_: str, **properties: Any) -> None:
        """Change properties without a form, as `vetro env edit` does."""
        body = {**await self.component(id_), **properties}
        path = f"/environments/{self.environment}/services/{id_}"
        assert (await self.api.call("PUT", path, body, session=self.session)).status == 200

    async def deploy(self) -> None:
        """Deploy the session, and open another one."""
        await self.api.deploy(self.environment, self.session)
        await self.api.finish()
        self.session = await self.api.session(self.environment)


@pytest.fixture
async def room(api: Api, package_zip: Any) -> Room:
    """A room with the package of `FORM`."""
    made = Room(api, package_zip)
    await made.begin()
    return made


async def test_a_form_that_is_saved_with_nothing_changed_changes_nothing(room: Room) -> None:
    """The machine keeps its random name, the secrets stay, and the session holds no change."""
    made = await room.add()
    await room.deploy()
    before = await room.component(made["?"]["id"])
    saved = await room.change(made["?"]["id"])
    assert saved["changed"] is False
    assert await room.component(made["?"]["id"]) == before
    path = f"/environments/{room.environment}/sessions/{room.session}"
    assert (await room.api.call("GET", f"/environments/{room.environment}/sessions")).json()[
        "sessions"
    ][-1]["changes"] == [], path


async def test_one_field_changes_one_property(room: Room) -> None:
    """Names, references of secrets, ids and passwords are those that the component has."""
    made = await room.add(host="web-#")
    await room.deploy()
    saved = await room.change(made["?"]["id"], size=5)
    assert saved["changed"] is True
    component = await room.component(made["?"]["id"])
    assert component["size"] == 5
    for one in ("password", "key", "machine"):
        assert component[one] == made[one]
    assert component["machine"]["name"] == "web-1"


async def test_the_form_opens_with_what_was_set_without_it(room: Room) -> None:
    """An edited property and a rotated password are not reverted by a change of another field."""
    id_ = (await room.add())["?"]["id"]
    await room.deploy()
    await room.edit(id_, size=7, password="rotated")
    await room.deploy()
    wizard = await room.start(component_id=id_)
    page = wizard["form"]["pages"][0]
    assert field(page, "size")["value"] == 7
    assert (field(page, "secret")["value"], field(page, "secret")["filled"]) == (None, True)
    await room.save(wizard, host="named")
    component = await room.component(id_)
    assert (component["size"], component["password"]) == (7, "rotated")
    assert component["machine"]["name"] == "named"


async def test_discarded_values_do_not_return(room: Room) -> None:
    """After the changes of a session are let go, the form has what is deployed."""
    id_ = (await room.add())["?"]["id"]
    await room.deploy()
    await room.change(id_, size=9)
    path = f"/environments/{room.environment}/sessions/{room.session}"
    assert (await room.api.call("DELETE", path)).status == 200
    room.session = await room.api.session(room.environment)
    wizard = await room.start(component_id=id_)
    assert field(wizard["form"]["pages"][0], "size")["value"] == 2
    assert (await room.save(wizard))["changed"] is False


async def test_what_is_changed_while_a_form_is_open_is_not_lost(room: Room) -> None:
    """Only what was entered in the form is written, into what the component is by then."""
    id_ = (await room.add())["?"]["id"]
    wizard = await room.start(component_id=id_)
    await room.edit(id_, size=8, password="later")
    await room.save(wizard, host="named")
    component = await room.component(id_)
    assert (component["size"], component["password"]) == (8, "later")


async def test_the_form_is_that_of_the_deployed_version(room: Room) -> None:
    """Whatever is newer in the catalog: the version does not move; after an upgrade it is the new one."""
    id_ = (await room.add())["?"]["id"]
    await room.deploy()
    newer = FORM.replace("initial: 2", "initial: 2, label: Larger")
    await room.upload(newer, "1.1.0")
    wizard = await room.start(component_id=id_)
    assert wizard["package"]["version"] == "1.0.0"
    await room.save(wizard, size=4)
    component = await room.component(id_)
    assert (component["size"], component["?"]["classVersion"]) == (4, "1.0.0")
    await room.edit(id_, **{"?": {**component["?"], "classVersion": "1.1.0"}})
    await room.deploy()
    wizard = await room.start(component_id=id_)
    page = wizard["form"]["pages"][0]
    assert (wizard["package"]["version"], field(page, "size")["label"]) == ("1.1.0", "Larger")
    await room.save(wizard, size=6)
    assert (await room.component(id_))["?"]["classVersion"] == "1.1.0"


async def test_a_component_of_the_api_is_changed_by_the_form(room: Room) -> None:
    """It has never had a form; what the form cannot know stays, and fields that it lacks are not forced."""
    body = {
        "?": {"type": "org.acme.App", "id": "a1", "classVersion": "1.0.0"},
        "size": 3,
        "machine": {
            "?": {"type": "io.murano.resources.LinuxMuranoInstance", "id": "m1"},
            "name": "db",
        },
        "extra": ["kept"],
    }
    await room.api.add(room.environment, room.session, **body)
    wizard = await room.start(component_id="a1")
    page = wizard["form"]["pages"][0]
    assert (field(page, "size")["value"], field(page, "host")["value"]) == (3, "db")
    assert (field(page, "word")["kept"], field(page, "word")["value"]) == (True, None)
    await room.save(wizard, size=4)
    component = await room.component("a1")
    assert {key: one for key, one in component.items() if key != "?"} == {
        **{key: one for key, one in body.items() if key != "?"}, "size": 4,
    }  # fmt: skip


async def test_a_component_without_a_form_gets_that_of_its_class(
    api: Api, package_zip: Any
) -> None:
    """The schema of its class is asked for; what the component has is shown."""
    room = Room(api, package_zip)
    await room.begin(form="")
    await api.add(
        room.environment, room.session,
        **{"?": {"type": "org.acme.App", "id": "a1", "classVersion": "1.0.0"}, "size": 3},
    )  # fmt: skip
    schema = {"properties": {"size": {"type": "integer", "title": "Size"}}}
    body = {"component_id": "a1", "environment_id": room.environment}
    asked = api.call("POST", "/wizards", body, session=room.session)
    wizard = await answered(api, asked, CallAnswer({"": schema}), methods=("",))
    assert field(wizard["form"]["pages"][0], "size")["value"] == 3


async def test_the_names_of_further_machines_are_free(room: Room) -> None:
    """Added again with the host name as offered: the number goes on, also of what is only pending.

    A name that is removed and not deployed yet is taken: its machine is still there.
    """
    names = [(await room.add(host="web-#"))["machine"]["name"] for _ in range(2)]
    assert names == ["web-1", "web-2"]
    await room.deploy()
    services = f"/environments/{room.environment}/services"
    first = (await room.api.call("GET", services, session=room.session)).json()[0]["?"]["id"]
    gone = await room.api.call("DELETE", f"{services}/{first}", session=room.session)
    assert gone.status == 200
    third = await room.add(host="Web-#")
    assert third["machine"]["name"] == "Web-3"
    # As guests have it.
    fourth = await room.add(host="web_#.")
    assert fourth["machine"]["name"] == "web_4."


async def test_the_secrets_of_a_change_are_stored_once(room: Room) -> None:
    """A new word gets a reference of its own that the project finds; an unchanged one stays."""
    made = await room.add()
    id_ = made["?"]["id"]
    await room.change(id_, word="open")
    key = (await room.component(id_))["key"]
    secrets = room.api.rooms.form_secrets
    assert key != made["key"]
    assert await secrets.read("p", key) == "open"
    assert await secrets.read("p", made["key"]) == "sesame"
    await room.change(id_, size=3)
    assert (await room.component(id_))["key"] == key


async def test_a_form_of_a_package_that_is_gone_says_what_to_do(api: Api, package_zip: Any) -> None:
    """The class is in no package of the catalog: the component's properties can be changed instead."""
    room = Room(api, package_zip)
    await room.begin()
    await api.add(room.environment, room.session, **{"?": {"type": "org.other.App", "id": "o1"}})
    body = {"component_id": "o1", "environment_id": room.environment}
    answer = await api.call("POST", "/wizards", body, session=room.session)
    assert (answer.status, answer.json()["error"]["type"]) == (404, "NoForm")
    assert "import it" in answer.json()["error"]["message"]


async def test_finishing_twice_makes_one_component(room: Room) -> None:
    """An answer that was lost is asked for again: the component is there, and is not made anew."""
    wizard = await room.start(package=room.package)
    first = await room.save(wizard, secret="first")
    path = f"/wizards/{wizard['id']}/finish"
    again = (await room.api.call("POST", path, {}, session=room.session)).json()
    assert (first["changed"], again["changed"]) == (True, False)
    assert again["component"]["?"]["id"] == first["component"]["?"]["id"]
    services = f"/environments/{room.environment}/services"
    assert len((await room.api.call("GET", services, session=room.session)).json()) == 1


async def test_a_form_that_an_earlier_release_opened_is_opened_again(room: Room) -> None:
    """It does not know what the component had: it would replace it, or make a second one."""
    id_ = (await room.add())["?"]["id"]
    wizard = await room.start(component_id=id_)
    async with room.api.database.transaction() as tx:
        mine = wizards.c.id == wizard["id"]
        state = (await tx.execute(select(wizards.c.state).where(mine))).scalar_one()
        old = {key: state[key] for key in ("pages", "entered", "parameters", "problem")}
        await tx.execute(update(wizards).where(mine).values(state=old))
    path = f"/wizards/{wizard['id']}/finish"
    answer = await room.api.call("POST", path, {}, session=room.session)
    assert (answer.status, answer.json()["error"]["type"]) == (404, "WizardNotFound")


HOSTS = """
Version: 2.1
Application:
  ?: {type: org.acme.App}
  title: $.p.title
  machine:
    ?: {type: io.murano.resources.LinuxMuranoInstance}
    name: %s
    flavor: m1.small
Forms:
  - p:
      fields:
        - {name: title, type: string, initial: shop}
        - {name: host, type: string, initial: %s}
"""


@pytest.mark.parametrize("name", ["$.p.host", "generateHostname($.p.host, 1)"])
async def test_a_form_does_not_offer_the_name_of_another_machine(room: Room, name: str) -> None:
    """A fixed name counts on, and a number that it ends with; what is entered is refused beside its field."""
    await room.upload(HOSTS % (name, "shop"), "2.0.0")
    made = [
        (await room.save(await room.start(package=room.package)))["component"] for _ in range(3)
    ]
    assert [one["machine"]["name"] for one in made] == ["shop", "shop-2", "shop-3"]
    assert {one["title"] for one in made} == {"shop"}
    wizard = await room.start(package=room.package)
    path = f"/wizards/{wizard['id']}/pages/p"
    for host in ("shop-2", "SHOP_2"):
        values = {"values": {"title": "x", "host": host}}
        answer = (await room.api.call("POST", path, values, session=room.session)).json()
        assert not answer["valid"]
        assert answer["errors"].keys() == {"host"}
        assert "(machine.name) has the machine shop-2. Choose" in answer["errors"]["host"][0]
    await room.save(wizard, host="other")
    changing = await room.start(component_id=made[-1]["?"]["id"])
    path = f"/wizards/{changing['id']}/pages/p"
    values = {"values": {"title": "x", "host": "other"}}
    answer = (await room.api.call("POST", path, values, session=room.session)).json()
    assert answer["errors"].keys() == {"host"}
    await room.save(changing, title="y", host="shop-3")
    await room.save(await room.start(component_id=made[-1]["?"]["id"]), host="shop-4")


async def test_a_form_that_chooses_regions_says_nothing_of_names(room: Room) -> None:
    """One name is two machines in two regions: only the whole model knows."""
    form = HOSTS % ("$.p.host", "shop")
    await room.upload(
        form.replace("    flavor:", "    regionName: $.p.title\n    flavor:"), "2.0.0"
    )
    await room.save(await room.start(package=room.package))
    await room.save(await room.start(package=room.package), title="south")
