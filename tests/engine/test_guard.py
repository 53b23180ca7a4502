"""What a deployment may lose: refused before it begins, named, and done when the request names it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.engine.guarded import ANN, CLASSES, MANIFEST, Guarded, blog, disk, own

from vetro import catalog, engine, environments, identity, messaging, repository, stacks
from vetro.compute.wire import Image
from vetro.engine import EngineSection, EngineSettings
from vetro.engine.worker import back_ends
from vetro.engine.worker.deployment import preload
from vetro.environments import Environments
from vetro.environments.instance_records import instance_statistics
from vetro.muranopl import Runtime
from vetro.stacks.errors import ResourceFailure
from vetro.stacks.memory import MemoryCompute
from vetro.storage import Database, migrate


@pytest.fixture(scope="module")
def runtime() -> Callable[[], Runtime]:
    """Makes the runtime that workers start from; compiled once."""
    made: list[Runtime] = []

    def get() -> Runtime:
        if not made:
            made.append(preload())
        return made[0]

    return get


@pytest.fixture
async def guarded(
    tmp_path: Path, runtime: Callable[[], Runtime], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Guarded]:
    """An engine with an empty cloud."""
    package = tmp_path / "installed" / "test.guarded"
    (package / "Classes").mkdir(parents=True)
    (package / "manifest.yaml").write_text(MANIFEST)
    (package / "Classes" / "all.yaml").write_text(CLASSES)
    settings = EngineSettings(
        database_url=f"sqlite:///{tmp_path}/test.db",
        data_dir=tmp_path,
        compute_url="http://127.0.0.1:9",
        service_key="key",
        mailbox_url="http://mailbox.example",
        package_dir=tmp_path / "packages",
        engine=EngineSection(packages_directories=[str(tmp_path / "installed")]),
    )
    compute = MemoryCompute()

    def port_of(_client: object) -> MemoryCompute:
        return compute

    monkeypatch.setattr(back_ends, "port_of", port_of)
    database = await Database.open(settings.database_url, data_dir=settings.data_dir)
    rooms = (catalog, environments, messaging, stacks, engine, identity, repository)
    await migrate(database, [room.MIGRATIONS for room in rooms])
    yield Guarded(database, Environments(database), settings, runtime, compute)
    await database.close()


def rename(objects: Any) -> None:
    """Give the first application's machine another host name."""
    objects["services"][0]["instance"]["name"] = "b"


def take_out(objects: Any) -> None:
    """Take the first application out."""
    del objects["services"][0]


CHANGES: dict[str, tuple[Callable[[Any], None], list[str]]] = {
    "another host name": (
        rename,
        ["replaces machine a, its data is lost: host name a → b", "removes address 192.0.2.1"],
    ),
    "another image": (
        lambda objects: objects["services"][0]["instance"].update(image="vetro-balancer"),
        ["replaces machine a, its data is lost: image debian → vetro-balancer"],
    ),
    "the application taken out": (
        take_out,
        ["removes machine a, its data is lost", "removes address"],
    ),
    "no floating address": (
        lambda objects: objects["services"][0]["instance"].update(assignFloatingIp=False),
        ["removes address"],
    ),
}


@pytest.mark.parametrize("case", CHANGES)
async def test_what_an_edit_would_lose_is_refused_named_and_changes_nothing(
    guarded: Guarded, case: str
) -> None:
    """The model is as before, the change waits; with the names it is done."""
    change, said = CHANGES[case]
    await guarded.create(blog("a"), blog("other", id_="second"))
    before, servers = await guarded.whole(), guarded.servers
    session = await guarded.edit(change)
    result = await guarded.deploy(session, may_lose=[])
    assert result["isException"]
    assert result["outcome"] == "failed"
    losses = result["result"]["losses"]
    assert result["result"]["message"].startswith("Nothing was changed, because this ")
    for text in said:
        assert any(one["text"].startswith(text) for one in losses), losses
    assert guarded.servers == servers
    assert await guarded.whole() == before
    assert await guarded.status() == "pending"
    waiting = await guarded.rooms.sessions.listing(ANN, guarded.environment)
    assert [(one["id"], len(one["changes"])) for one in waiting] == [(session, 1)]
    keys = [one["key"] for one in losses]
    result = await guarded.deploy(session, may_lose=keys)
    assert not result["isException"], result
    assert await guarded.status() == "ready"
    if case != "no floating address":
        assert guarded.servers.get("a") != servers["a"]
    assert guarded.servers["other"] == servers["other"]


@pytest.mark.parametrize("of", ["a machine", "the volume that it boots from"])
async def test_an_image_named_by_its_id_is_not_asked_about(guarded: Guarded, of: str) -> None:
    """Two words for one image lose nothing: no question, and the machine stays."""
    volume = {**BOOT, "sourceImage": "debian"}
    booted = blog("a", image=None, blockDevices=[{"volume": volume}])
    await guarded.create(blog("a") if of == "a machine" else booted)
    servers = guarded.servers
    uuid = guarded.compute.images["debian"].uuid

    def rename_image(objects: Any) -> None:
        instance = objects["services"][0]["instance"]
        if of == "a machine":
            instance["image"] = uuid
        else:
            instance["blockDevices"][0]["volume"]["sourceImage"] = uuid

    session = await guarded.edit(rename_image)
    result = await guarded.deploy(session, may_lose=[])
    assert not result["isException"], result
    assert guarded.servers == servers


def swap(objects: Any) -> None:
    """Two machines change their host names."""
    first, second, *_ = (one["instance"] for one in objects["services"])
    first["name"], second["name"] = second["name"], first["name"]


def other_images(objects: Any) -> None:
    """Every machine is made of another image."""
    for one in objects["services"]:
        one["instance"]["image"] = "vetro-balancer"


def some_of_each(objects: Any) -> None:
    """One leaves, one has another name, one another image."""
    del objects["services"][0]
    objects["services"][0]["instance"]["name"] = "d"
    objects["services"][1]["instance"]["image"] = "vetro-balancer"


SEVERAL: dict[str, tuple[Callable[[Any], None], list[str]]] = {
    "a swap": (
        swap,
        ["a, its data is lost: host name a → b", "b, its data is lost: host name b → a"],
    ),
    "images": (
        other_images,
        [f"{one}, its data is lost: image debian → vetro-balancer" for one in "abc"],
    ),
    "some of each": (
        some_of_each,
        [
            "a, its data",
            "b, its data is lost: host name b → d",
            "c, its data is lost: image debian →",
        ],
    ),
}


@pytest.mark.parametrize("case", SEVERAL)
async def test_everything_is_asked_at_once(guarded: Guarded, case: str) -> None:
    """What the models tell of machines whose turn has not come is named as well, and one answer will do."""
    change, said = SEVERAL[case]
    await guarded.create(
        blog("a"),
        blog("b", id_="second", volumes={"/data": disk("second")}),
        blog("c", id_="third", assignFloatingIp=False),
    )
    before, servers = await guarded.whole(), guarded.servers
    session = await guarded.edit(change)
    result = await guarded.deploy(session, may_lose=[])
    assert (await guarded.whole(), guarded.servers) == (before, servers)
    losses = result["result"]["losses"]
    keys = [one["key"] for one in losses]
    assert len({*keys}) == len(keys)
    for text in said:
        (_,) = [one for one in losses if f"s machine {text}" in one["text"]]
    assert result["result"]["message"].endswith("or drop the changes")
    result = await guarded.deploy(session, may_lose=keys)
    assert not result["isException"], result
    assert not {*guarded.servers.values()} & {servers[key[-1]] for key in keys if key[0] == "m"}
    assert await guarded.status() == "ready"


NETWORK = {"?": {"id": "net", "type": "io.murano.resources.NeutronNetwork"}, "name": "more"}
BOOT = {"?": {"id": "boot", "type": "io.murano.resources.CinderVolume"}, "name": "boot", "size": 1}
GROUP = {"?": {"id": "near", "type": "io.murano.resources.InstanceAffinityGroup"}, "name": "near"}
EVERY: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a": ({}, {"keyname": "mine"}, "replaces machine a, its data is lost: key pair none → mine"),
    "b": (
        {"keyname": "mine"},
        {"keyname": None},
        "machine b, its data is lost: key pair mine → none",
    ),
    "c": ({"assignFloatingIp": True}, {"assignFloatingIp": False}, "removes address 192.0.2.1"),
    "d": ({"assignFloatingIp": True}, {"assignFloatingIp": False}, "removes address 192.0.2.2"),
    "e": (
        {},
        {
            "networks": {
                "useEnvironmentNetwork": True,
                "useFlatNetwork": False,
                "primaryNetwork": None,
                "customNetworks": [NETWORK],
            }
        },
        "replaces machine e, its data is lost: network none → more",
    ),
    "f": (
        {},
        {"instanceAffinityGroup": GROUP},
        "replaces machine f, its data is lost: placement none → anti-affinity near",
    ),
    "g": (
        {},
        {"image": None, "blockDevices": [{"volume": {**BOOT, "sourceImage": "debian"}}]},
        "replaces machine g, its data is lost: image debian → none, volume none → boot",
    ),
}
"""What a machine has, what it gets, and what that loses."""


async def test_every_property_that_loses_something_is_asked_for_in_one_question(
    guarded: Guarded,
) -> None:
    """Before anything is made for what is not to be: a network, a volume. One answer is enough."""
    guarded.compute.keypair_list["p", "mine"] = "ssh-rsa key"
    machines = [blog(name, id_=f"of-{name}", assignFloatingIp=False) for name in EVERY]
    for one in machines:
        one["instance"].update(EVERY[one["instance"]["name"]][0])
    await guarded.create(*machines)
    before, servers = await guarded.whole(), guarded.servers

    def change(objects: Any) -> None:
        for one in objects["services"]:
            one["instance"].update(EVERY[one["instance"]["name"]][1])

    session = await guarded.edit(change)
    result = await guarded.deploy(session, may_lose=[])
    assert (await guarded.whole(), guarded.servers) == (before, servers)
    losses = result["result"]["losses"]
    assert len(losses) == len(EVERY)
    for _, _, text in EVERY.values():
        assert any(one["text"].endswith(text) for one in losses), (text, losses)
    assert not [one for one in guarded.compute.calls if one[0].startswith("create")]
    keys = [one["key"] for one in losses]
    assert not (await guarded.deploy(session, may_lose=keys))["isException"]
    same = {name for name, id_ in guarded.servers.items() if id_ == servers[name]}
    assert same == {"c", "d"}


async def test_machines_of_the_region_are_asked_for_beside_a_stack_of_an_applications_own(
    guarded: Guarded,
) -> None:
    """Whichever of both is refused first."""
    await guarded.create(own(), blog("a"))

    def change(objects: Any) -> None:
        objects["services"][0]["image"] = "vetro-balancer"
        objects["services"][1]["instance"]["name"] = "b"

    result = await guarded.deploy(await guarded.edit(change), may_lose=[])
    (loss,) = [one for one in result["result"]["losses"] if one["key"] == "machine a"]
    assert loss["changes"] == [{"name": "host name", "old": "a", "new": "b"}]


async def test_a_request_without_the_field_does_as_the_original_api(guarded: Guarded) -> None:
    """Nothing is asked: the machine goes."""
    await guarded.create(blog("a"))
    assert not (await guarded.deploy(await guarded.edit(rename)))["isException"]
    assert [*guarded.servers] == ["b"]


async def test_statistics_know_what_a_guarded_deployment_has_made(guarded: Guarded) -> None:
    """What was refused never was."""
    await guarded.create(blog("a"))

    async def known() -> dict[str, bool]:
        async with guarded.database.read() as tx:
            rows = await instance_statistics(
                tx, guarded.environment, "", guarded.database.clock.now()
            )
        return {str(one["instance_id"]): bool(one["active"]) for one in rows}

    before = await known()
    assert before
    assert all(before.values())
    session = await guarded.edit(lambda objects: objects["services"].append(blog("b", id_="new")))
    assert not (await guarded.deploy(session, may_lose=[]))["isException"]
    assert (await known()).items() > before.items()
    more = await known()
    result = await guarded.deploy(await guarded.edit(take_out), may_lose=[])
    assert await known() == more
    keys = [one["key"] for one in result["result"]["losses"]]
    assert not (await guarded.deploy(await guarded.edit(take_out), may_lose=keys))["isException"]
    assert [*(await known()).values()].count(False) == len(before)


async def test_a_guarded_deployment_that_loses_nothing_goes_on(guarded: Guarded) -> None:
    """Another application comes, and an unchanged one is deployed again."""
    await guarded.create(blog("a"))
    servers = guarded.servers
    session = await guarded.edit(
        lambda objects: objects["services"].append(blog("other", id_="second"))
    )
    assert not (await guarded.deploy(session, may_lose=[]))["isException"]
    assert not (await guarded.deploy(may_lose=[]))["isException"]
    assert guarded.servers["a"] == servers["a"]
    assert "other" in guarded.servers


@pytest.mark.parametrize("kind", ["Quiet", "Deaf"])
async def test_a_refusal_fails_the_deployment_whatever_the_program_does_with_it(
    guarded: Guarded, kind: str
) -> None:
    """The push was put off to the end, or its error was caught."""
    await guarded.create(blog("a", kind))
    servers = guarded.servers
    session = await guarded.edit(rename)
    result = await guarded.deploy(session, may_lose=[])
    assert result["isException"]
    assert [one["key"] for one in result["result"]["losses"]][:1] == ["machine a"]
    assert guarded.servers == servers
    keys = [one["key"] for one in result["result"]["losses"]]
    assert not (await guarded.deploy(session, may_lose=keys))["isException"]
    assert [*guarded.servers] == ["b"]


async def test_a_stack_of_an_applications_own_is_guarded_when_the_application_goes(
    guarded: Guarded,
) -> None:
    """The error of `.destroy` is muted, the refusal is not."""
    await guarded.create(own())
    servers = guarded.servers
    session = await guarded.edit(take_out)
    result = await guarded.deploy(session, may_lose=[])
    assert [one["key"] for one in result["result"]["losses"]] == ["machine shop"]
    assert guarded.servers == servers
    leaked = guarded.rooms.tasks.endings.leaked
    assert await leaked.listing(ANN, guarded.environment) == []
    assert not (await guarded.deploy(session, may_lose=["machine shop"]))["isException"]
    assert guarded.servers == {}


async def test_the_last_application_of_an_environment_is_guarded(guarded: Guarded) -> None:
    """Deploying an environment without applications removes its whole stack."""
    await guarded.create(blog("a"))
    servers = guarded.servers
    session = await guarded.edit(take_out)
    result = await guarded.deploy(session, may_lose=["machine b"])
    keys = [one["key"] for one in result["result"]["losses"]]
    assert keys[0] == "machine a"
    assert guarded.servers == servers
    assert not (await guarded.deploy(session, may_lose=keys))["isException"]
    assert guarded.servers == {}


async def test_a_refused_removal_leaves_the_guest_its_mailbox(guarded: Guarded) -> None:
    """The program gives it up with the machine, before the stack refuses."""
    await guarded.create(blog("a"))
    mailboxes = messaging.Mailboxes(guarded.database)
    session = await guarded.edit(take_out)
    queues = await mailboxes.queues_of("")
    assert queues
    result = await guarded.deploy(session, may_lose=[])
    assert await mailboxes.queues_of("") == queues
    async with guarded.database.read() as tx:
        rows = await instance_statistics(tx, guarded.environment, "", guarded.database.clock.now())
    assert all(one["active"] for one in rows)
    keys = [one["key"] for one in result["result"]["losses"]]
    assert not (await guarded.deploy(session, may_lose=keys))["isException"]
    assert await mailboxes.queues_of("") == []


async def test_an_action_is_guarded_as_a_deployment_is(guarded: Guarded) -> None:
    """Refused it leaves no session; named it is done, and without the field it is as ever."""
    await guarded.create(blog("a"))
    before, servers = await guarded.whole(), guarded.servers
    result = await guarded.act("shut", may_lose=[])
    assert result["isException"]
    assert result["result"]["losses"][0]["text"] == "removes machine a, its data is lost"
    assert result["result"]["message"].endswith(
        "Call the action again and say that this may be lost"
    )
    assert guarded.servers == servers
    assert await guarded.whole() == before
    assert await guarded.status() == "ready"
    keys = [one["key"] for one in result["result"]["losses"]]
    result = await guarded.act("shut", may_lose=keys)
    assert result["result"] == "closed"
    assert guarded.servers == {}


async def test_a_plan_that_was_sent_before_the_refusal_is_sent_again(guarded: Guarded) -> None:
    """The model stays, so the action does the same once more, to the same machine."""
    await guarded.create(blog("a"))
    before = await guarded.whole()
    result = await guarded.act("retire", may_lose=[])
    assert result["result"]["message"].startswith("It was stopped before the loss, because this ")
    assert await guarded.whole() == before
    assert await guarded.status() == "ready"
    keys = [one["key"] for one in result["result"]["losses"]]
    assert not (await guarded.act("retire", may_lose=keys))["isException"]
    assert guarded.servers == {}


async def test_destroying_an_environment_is_not_guarded(guarded: Guarded) -> None:
    """It is its own request, and says what it does."""
    await guarded.create(blog("a"))
    await guarded.destroy()
    assert guarded.servers == {}


@pytest.mark.parametrize("way", ["sent again", "dropped"])
async def test_after_other_changes_the_deployment_keeps_what_it_has_done(
    guarded: Guarded, way: str
) -> None:
    """The wish waits, and what was made for it is known: dropped it goes, and sent again it is done."""
    await guarded.create(box(), blog("b", id_="second"))
    before, servers = await guarded.model(), guarded.servers
    networks = {*guarded.compute.network_list}
    session = await guarded.edit(halfway)
    result = await guarded.deploy(session, may_lose=[])
    assert result["result"]["message"] == (
        "It was stopped before the loss, because this replaces machine a, its data is lost: image debian →"
        " vetro-balancer. Deploy again and say that this may be lost, or drop the changes. A deployment"
        " without them takes back what was begun"
    )
    assert ({*guarded.compute.network_list} > networks, guarded.servers) == (True, servers)
    assert await guarded.model() == before
    (waiting,) = await guarded.rooms.sessions.listing(ANN, guarded.environment)
    assert (waiting["id"], waiting["summary"]) == (session, "changed blog: network, instance.base")
    assert await guarded.status() == "deploy failure"
    keys = [one["key"] for one in result["result"]["losses"]]
    if way == "sent again":
        result = await guarded.deploy(session, may_lose=keys)
        assert {*guarded.compute.network_list} > networks
        assert {one for one in guarded.servers if guarded.servers[one] != servers[one]} == {"a"}
    else:
        await guarded.rooms.sessions.delete_session(ANN, guarded.environment, session)
        assert await guarded.status() == "deploy failure"
        result = await guarded.deploy(may_lose=[])
        assert (guarded.compute.network_list.keys(), guarded.servers) == (networks, servers)
        assert await guarded.model() == before
    assert result["outcome"] == "success", result
    assert await guarded.status() == "ready"


async def test_what_was_installed_before_the_refusal_is_known(guarded: Guarded) -> None:
    """When the wish is dropped, the former settings are due again: the machine has the other ones."""

    async def installed() -> Any:
        _, model = await guarded.whole()
        return [row for row in model["Attributes"] if row[1] == "io.murano.system.Installation"]

    def other(objects: Any) -> None:
        objects["services"][0]["setting"] = "port 2"
        objects["services"][0]["instance"]["base"] = "vetro-balancer"

    await guarded.create({**box("Installed"), "setting": "port 1"}, blog("b", id_="second"))
    before, model = await installed(), await guarded.model()
    assert before
    session = await guarded.edit(other)
    result = await guarded.deploy(session, may_lose=[])
    assert "takes back what was begun" in result["result"]["message"]
    assert await installed() != before
    assert await guarded.model() == model
    assert await guarded.status() == "deploy failure"
    await guarded.rooms.sessions.delete_session(ANN, guarded.environment, session)
    result = await guarded.deploy(may_lose=[])
    assert (result["outcome"], await installed()) == ("success", before)


def box(kind: str = "Boxed") -> dict[str, Any]:
    """An application whose machine is made of what no model tells."""
    made = blog("a", kind)
    made["instance"]["?"]["type"] = "test.Box"
    return made


def halfway(objects: Any) -> None:
    """A network is made, and after that the machine is to be of something else."""
    network = {"?": {"id": "net", "type": "io.murano.resources.NeutronNetwork"}, "name": "more"}
    objects["services"][0]["network"] = network
    objects["services"][0]["instance"]["base"] = "vetro-balancer"


async def test_the_refusal_shows_no_secret(guarded: Guarded) -> None:
    """What stands under a secret's name is masked in the losses, too."""
    await guarded.create(own(password="hunter2"))
    session = await guarded.edit(lambda objects: objects["services"][0].update(image="hunter2"))
    result = await guarded.deploy(session, may_lose=[])
    (loss,) = result["result"]["losses"]
    assert loss["changes"] == [{"name": "image", "old": "debian", "new": "***"}]
    assert "hunter2" not in str(result)


LETS_GO = ["machine a"]


def wishing(*images: str, **other: Any) -> Callable[[Any], None]:
    """Edit the image of the second application's machine, and `other` properties of the first one's."""

    def change(objects: Any) -> None:
        for image in images:
            objects["services"][1]["instance"]["image"] = image
        objects["services"][0]["instance"].update(other)

    return change


@pytest.fixture
async def failed(guarded: Guarded) -> Guarded:
    """The machine `a` was to have an image that is not there; what is deployed first is `b`."""
    await guarded.create(blog("b", id_="second"), blog("a"))
    servers = guarded.servers
    result = await guarded.deploy(await guarded.edit(wishing("nowhere")), may_lose=LETS_GO)
    assert result["isException"]
    assert guarded.servers == servers
    return guarded


@pytest.mark.parametrize("may_lose", [[], LETS_GO, None])
@pytest.mark.parametrize("times", [1, 2])
async def test_another_components_push_carries_no_wish_that_was_put_back(
    failed: Guarded, may_lose: list[str] | None, times: int
) -> None:
    """However often it has failed: nobody is asked about the machine, and it stays."""
    servers = failed.servers
    if times > 1:
        assert (await failed.deploy(may_lose=LETS_GO))["isException"]
    session = await failed.edit(wishing("debian", flavor="m1.small"))
    result = await failed.deploy(session, may_lose=may_lose)
    assert not result["isException"], result
    assert failed.servers == servers
    result = await failed.deploy(await failed.edit(wishing(flavor="m1.tiny")), may_lose=[])
    assert not result["isException"], result


async def test_a_wish_that_was_put_back_is_not_done_when_it_can_be(failed: Guarded) -> None:
    """The image is there by now, and nothing is guarded: the other component's push leaves the machine."""
    servers = failed.servers
    failed.compute.images["nowhere"] = Image(uuid="i-4", name="nowhere")
    session = await failed.edit(wishing("debian", flavor="m1.small"))
    assert not (await failed.deploy(session))["isException"]
    assert failed.servers == servers


async def test_a_wish_that_failed_and_is_still_there_is_asked_for_and_done(failed: Guarded) -> None:
    """The image is there by now, and another component is edited as well."""
    servers = failed.servers
    failed.compute.images["nowhere"] = Image(uuid="i-4", name="nowhere")
    session = await failed.edit(wishing(flavor="m1.small"))
    result = await failed.deploy(session, may_lose=[])
    assert [one["key"] for one in result["result"]["losses"]] == LETS_GO
    assert failed.servers == servers
    assert not (await failed.deploy(session, may_lose=LETS_GO))["isException"]
    assert failed.servers["a"] != servers["a"]
    assert failed.servers["b"] == servers["b"]


async def test_a_wish_that_was_fulfilled_before_the_failure_is_not_taken_back(
    guarded: Guarded,
) -> None:
    """The machine is made of the other image, and then its disk fails; the next deployment keeps it."""
    await guarded.create(blog("b", id_="second"), blog("a"))
    servers = guarded.servers
    guarded.compute.fail["attach_volume"] = ResourceFailure("the node has no place for it")

    def change(objects: Any) -> None:
        objects["services"][1]["instance"].update(
            image="vetro-balancer", volumes={"/data": disk("blog")}
        )

    result = await guarded.deploy(await guarded.edit(change), may_lose=LETS_GO)
    assert result["isException"]
    made = guarded.servers
    assert made["a"] != servers["a"]
    guarded.compute.fail.clear()
    result = await guarded.deploy(await guarded.edit(wishing(flavor="m1.small")), may_lose=[])
    assert not result["isException"], result
    assert guarded.servers == made


async def test_a_change_in_place_before_the_failed_wish_is_not_taken_back(
    guarded: Guarded,
) -> None:
    """The machine has grown although that deployment failed; after the next one failed it is as large."""
    await guarded.create(blog("b", id_="second"), blog("a"))
    servers = guarded.servers

    def grow(objects: Any) -> None:
        objects["services"][1]["instance"].update(
            flavor="m1.small", volumes={"/data": disk("blog")}
        )

    guarded.compute.fail["attach_volume"] = ResourceFailure("the node has no place for it")
    assert (await guarded.deploy(await guarded.edit(grow), may_lose=[]))["isException"]
    result = await guarded.deploy(await guarded.edit(wishing("nowhere")), may_lose=LETS_GO)
    assert result["isException"]
    guarded.compute.fail.clear()
    guarded.compute.calls.clear()
    session = await guarded.edit(wishing("debian", flavor="m1.small"))
    result = await guarded.deploy(session, may_lose=[])
    assert not result["isException"], result
    assert guarded.servers == servers
    assert guarded.compute.calls.count("update_server") == 1  # of the other one


@pytest.mark.parametrize("name", ["keyname", "networks"])
async def test_a_wish_for_what_was_not_there_before_is_put_back_as_well(
    guarded: Guarded, name: str
) -> None:
    """A first key pair, a second network: the deployment fails, and nothing of it is carried on."""
    await guarded.create(blog("b", id_="second"), blog("a"))
    servers = guarded.servers
    networks = {"useEnvironmentNetwork": True, "customNetworks": [NETWORK]}
    wish = {"keyname": "gone", "networks": networks}[name]
    formerly = (await guarded.model())["services"][1]["instance"].get(name)

    def change(value: Any, **other: Any) -> Callable[[Any], None]:
        def edit(objects: Any) -> None:
            objects["services"][1]["instance"][name] = value
            objects["services"][0]["instance"].update(other)

        return edit

    guarded.compute.fail["create_subnet"] = ResourceFailure("there is no range for it")
    result = await guarded.deploy(await guarded.edit(change(wish)), may_lose=LETS_GO)
    assert result["isException"]
    assert guarded.servers == servers
    session = await guarded.edit(change(formerly, flavor="m1.small"))
    result = await guarded.deploy(session, may_lose=[])
    assert not result["isException"], result
    assert guarded.servers == servers


@pytest.mark.parametrize("wrong", [{"flavor": None}, {"keyname": ["a"]}])
async def test_what_a_contract_refuses_is_said_before_anything_is_asked(
    guarded: Guarded, wrong: dict[str, Any]
) -> None:
    """Who agrees to a loss does not get the error after that; mended, the loss is asked for."""
    await guarded.create(blog("b", id_="second"), blog("a"))
    servers = guarded.servers
    session = await guarded.edit(wishing("vetro-balancer", **wrong))
    result = await guarded.deploy(session, may_lose=[])
    assert next(iter(wrong)) in result["result"]["message"]
    assert "losses" not in result["result"]
    assert (guarded.servers, guarded.compute.calls) == (servers, [])
    session = await guarded.edit(wishing(flavor="m1.tiny", keyname=None))
    result = await guarded.deploy(session, may_lose=[])
    assert [one["key"] for one in result["result"]["losses"]] == LETS_GO
    assert guarded.servers == servers
