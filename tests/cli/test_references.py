"""What applications name of an installation, in the same one, in one with the same names, in one without."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from vetro.cli.client.connection import Connection
from vetro.cli.environments.references import Things, settle, with_lasting_names, with_names
from vetro.http.client import SyncResponse

MACHINE: dict[str, Any] = {
    "?": {"type": "io.murano.resources.LinuxMuranoInstance", "id": "m"},
    "name": "web",
    "flavor": "m1.tiny",
}
NETWORK = {"?": {"type": "io.murano.resources.ExistingNeutronNetwork", "id": "n"}}
VOLUME = {"?": {"type": "io.murano.resources.CinderVolume/0.0.0", "id": "v"}, "size": 1}
OBJECT = {"?": {"type": "org.acme.Anything/1.0.0", "id": "o"}}
PATHS = {
    "image": "/images",
    "key pair": "/keypairs",
    "network": "/networks",
    "subnet": "/subnets",
    "router": "/routers",
    "security group": "/security-groups",
    "port": "/ports",
    "floating address": "/floating-ips",
    "volume": "/volumes",
    "volume snapshot": "/volume-snapshots",
    "volume backup": "/volume-backups",
}


def number(installation: int, kind: str) -> str:
    """The id of the thing of a kind in an installation."""
    return f"{installation:08x}-0000-4000-8000-{list(PATHS).index(kind):012x}"


class Installation(Connection):
    """The lists of a service that has one thing of each kind, all called `mine`, or nothing at all."""

    def __init__(self, installation: int, *, is_empty: bool = False) -> None:
        self.rows: dict[str, list[dict[str, str]]] = {
            path: [] if is_empty else [self.row(installation, kind)] for kind, path in PATHS.items()
        }

        #: The inputs of classes that the service knows.
        self.classes: dict[str, list[str]] = {}
        self.is_of_cloud = False

    @staticmethod
    def row(installation: int, kind: str) -> dict[str, str]:
        """A thing as the service lists it."""
        if kind == "key pair":
            return {"name": "mine"}
        called = {"floating address": {"address": "mine"}}.get(kind, {"name": "mine"})
        more = {"network_uuid": number(installation, "network")} if kind == "subnet" else {}
        return {"uuid": number(installation, kind), **called, **more}

    @property
    def project_id(self) -> str:
        """Any."""
        return "p"

    def answer(self, method: str, path: str, **_options: Any) -> SyncResponse:
        """A list."""
        found: Any = self.rows.get(path.removeprefix("/compute"))
        if (
            path.startswith("/v1/schemas/")
            and (properties := self.classes.get(path[12:])) is not None
        ):
            found = {"": {"properties": [*properties]}}
        if path == "/v1/quotas":
            maker = "openstack" if self.is_of_cloud else "vetro"
            found = {"quotas": {"instances": {"enforced_by": maker}}}
        if path == "/v1/flavors":
            found = {"flavors": [{"name": "m1.tiny"}]}
        if found is None:
            return SyncResponse(404, {}, b'{"error": {"message": "no compute service here"}}')
        return SyncResponse(200, {}, json.dumps(found).encode())


def places(installation: int) -> list[tuple[str, dict[str, Any], str]]:
    """Every kind of reference: its kind, an object with it, and the property."""
    ids = {kind: number(installation, kind) for kind in PATHS if kind != "key pair"}
    names = [
        ("key pair", MACHINE, "keyname", "mine"),
        ("image", MACHINE, "image", "mine"),
        ("security group", MACHINE, "securityGroups", ["mine"]),
        ("network", NETWORK, "internalNetworkName", "mine"),
        ("subnet", NETWORK, "internalSubnetworkName", "mine"),
        ("network", NETWORK, "externalNetworkName", "mine"),
        ("image", VOLUME, "sourceImage", "mine"),
    ]
    # By id anywhere, in properties that only the author of a class knows, also deep inside.
    found = [(kind, {**OBJECT, "own": id_}, "own") for kind, id_ in ids.items()]
    found += [
        (kind, {**OBJECT, "own": {"deep": [{"in": id_}]}}, "own") for kind, id_ in ids.items()
    ]
    found += [(kind, {**MACHINE, "image": ids["image"]}, "image") for kind in ("image",)]
    return found + [(kind, {**node, key: value}, key) for kind, node, key, value in names]


def test_every_kind_of_reference_is_found_again_or_named() -> None:
    """In the same installation it is the same thing, in another the one of its name; else it is named."""
    for kind, node, key in places(1):
        exported = copy.deepcopy(node)
        rows = with_names(Things(Installation(1)), [exported])
        text = json.dumps(exported)
        assert "00000001-0000" not in text, (kind, key)
        assert "mine" in text, (kind, key)
        was_id = "00000001-0000" in json.dumps(node)
        assert [row["uuid"] for row in rows] == ([number(1, kind)] if was_id else []), (kind, key)

        here, there = copy.deepcopy(exported), copy.deepcopy(exported)
        assert settle(Things(Installation(1)), [here], rows) == []
        assert here == node, (kind, key)
        assert settle(Things(Installation(2)), [there], rows) == []
        assert there == json.loads(json.dumps(node).replace("00000001-0000", "00000002-0000"))
        # All that is not there is said, by kind and name.
        said = settle(Things(Installation(3, is_empty=True)), [copy.deepcopy(exported)], rows)
        assert len(said) == 1, (kind, key, said)
        assert said[0].startswith(f"there is no {kind} 'mine'"), (kind, key, said)


def test_one_name_of_several_things_is_not_guessed() -> None:
    """The newest image is taken; of others the ids are said, and so is that two would become one."""
    several = Installation(2)
    for kind in ("image", "volume"):
        several.rows[PATHS[kind]].append({"uuid": number(4, kind), "name": "mine"})
    for kind, said in (("image", []), ("volume", ["there is more than one volume 'mine'"])):
        exported = {**OBJECT, "own": number(1, kind)}
        rows = with_names(Things(Installation(1)), [exported])
        found = settle(Things(several), [exported], rows)
        assert [one.partition(":")[0] for one in found] == said
        assert exported["own"] == ("mine" if said else number(4, kind))
        exported["own"] = number(4, kind)  # somebody has chosen, in the file
        assert settle(Things(several), [exported], rows) == []
    exported = {**OBJECT, "a": number(2, "volume"), "b": number(4, "volume")}
    rows = with_names(Things(several), [exported])
    (said,) = settle(Things(Installation(1)), [exported], rows)
    assert said == "2 different things are called volume 'mine': write ids instead"


def test_a_file_that_was_edited_says_what_it_says() -> None:
    """Another name is looked up, what was taken out is not missed, and other texts stay."""
    first = {**OBJECT, "own": number(1, "image"), "note": "mine"}
    second = {"?": {"type": "org.acme.Anything", "id": "p"}, "own": number(1, "volume")}
    exported = [first, second]
    rows = with_names(Things(Installation(1)), exported)
    there = Installation(2)
    there.rows["/images"].append({"uuid": number(5, "image"), "name": "other"})
    first["own"] = "other"
    assert settle(Things(there), [first], rows) == []
    assert first == {**OBJECT, "own": number(5, "image"), "note": "mine"}


def test_a_router_that_nobody_asked_for_is_not_missed() -> None:
    """A deployment has written the default router into a network; elsewhere it is another one."""
    network = {**OBJECT, "name": "n", "externalRouterId": number(1, "router")}
    rows = with_names(Things(Installation(1)), [network])
    assert network["externalRouterId"] == "mine"
    assert settle(Things(Installation(3, is_empty=True)), [network], rows) == []
    assert network["externalRouterId"] is None


def test_a_template_names_what_lasts() -> None:
    """By name what the core library takes by name; other properties, and an image with an heir, by id."""
    ids = {"note": number(1, "image"), "keyname": number(1, "volume")}
    model = {**MACHINE, "image": number(1, "image"), **ids}
    with_lasting_names(Things(Installation(1)), model)
    assert model == {**MACHINE, "image": "mine", **ids}
    theirs = {**OBJECT, "imageId": number(1, "image"), "internalNetworkName": number(1, "network")}
    kept = {**theirs, "balancerImage": number(1, "image"), "groups": {"image": number(1, "volume")}}
    with_lasting_names(Things(Installation(1)), kept)
    # A form hands on what is called an image to a machine; of others the class may take ids alone.
    assert kept == {**theirs, "balancerImage": "mine", "groups": {"image": number(1, "volume")}}
    renewed = Installation(1)
    renewed.rows["/images"].append({"uuid": number(9, "image"), "name": "mine"})
    older = {**MACHINE, "image": number(1, "image")}
    with_lasting_names(Things(renewed), older)
    assert older["image"] == number(1, "image")


INPUTS = ["name", "flavor", "image", "keyname", "securityGroups", "networks"]
OWN: dict[str, Any] = {
    "name": "cone",
    "flavor": "vanilla",
    "image": "cone.png",
    "keyname": "front door",
    "securityGroups": ["night"],
    "internalNetworkName": "friends",
    "externalRouterId": "r",
    "sourceImage": "http://example.org/a.img",
    "openstackId": "none",
}


def test_properties_of_other_classes_are_their_own() -> None:
    """Whatever they are called; a class that inherits a machine's has a machine's."""
    there = Installation(2)
    for known in ({}, {"org.acme.Anything": list(OWN), "io.murano.resources.Instance": INPUTS}):
        there.classes = known
        model = {**OBJECT, **OWN}
        assert settle(Things(there), [model]) == []
        assert model == {**OBJECT, **OWN}
    there.classes = {"org.acme.Anything": [*INPUTS, "more"], "io.murano.resources.Instance": INPUTS}
    said = settle(Things(there), [{**OBJECT, **OWN, "flavor": "m1.tiny"}])
    assert [one.split(" (")[0] for one in said] == [
        "there is no image 'cone.png'",
        "there is no key pair 'front door'",
        "there is no security group 'night'",
    ]


def test_ids_in_longer_texts_and_in_keys_are_exchanged_or_named() -> None:
    """They stay in the file, where nobody could read a name; an import writes those of its installation."""
    image, volume = number(1, "image"), number(1, "volume")
    deep = [{volume: "/srv", "in": f"{volume},{image}"}]
    model = {**OBJECT, "url": f"http://images/{image.upper()}/file?a=1", "mounts": {"deep": deep}}
    exported = copy.deepcopy(model)
    rows = with_names(Things(Installation(1)), [exported])
    assert exported == model
    assert {(one["kind"], one["inside"]) for one in rows} == {("image", True), ("volume", True)}
    assert settle(Things(Installation(1)), [exported], rows) == []
    there = copy.deepcopy(model)
    assert settle(Things(Installation(2)), [there], rows) == []
    wanted = (
        json.dumps(model).replace(image.upper(), image).replace("00000001-0000", "00000002-0000")
    )
    assert there == json.loads(wanted)
    said = settle(Things(Installation(3, is_empty=True)), [copy.deepcopy(model)], rows)
    assert said == ["there is no image 'mine'", "there is no volume 'mine'"]
    assert settle(Things(Installation(3, is_empty=True)), [{**OBJECT}], rows) == [], "taken out"


def test_an_id_of_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the core library names something; of others nobody knows what their ids are of."""
    gone = "77777777-0000-4000-8000-000000000000"
    model = {**MACHINE, "image": gone, "note": gone}
    assert with_names(Things(Installation(1)), [model]) == []
    assert capsys.readouterr().err.splitlines() == [
        f"There is no image with the id {gone} (image of io.murano.resources.LinuxMuranoInstance):"
        " it stays as it is"
    ]
    (said,) = settle(Things(Installation(1)), [model])
    assert said.startswith(f"there is no image '{gone}'")


def test_what_a_cloud_has_is_not_looked_up_here(capsys: pytest.CaptureFixture[str]) -> None:
    """Where stacks are Heat's the compute service's lists say nothing of what there is."""
    cloud = Installation(1)
    cloud.is_of_cloud = True
    model = {**MACHINE, "image": number(1, "image"), "keyname": "of the cloud"}
    exported = copy.deepcopy(model)
    assert with_names(Things(cloud), [exported]) == []
    assert settle(Things(cloud, "two"), [exported]) == []
    assert exported == model
    assert capsys.readouterr().err.count("Nothing is looked up") == 2


def test_ids_stay_where_nothing_can_be_looked_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a compute service an export has ids, an import takes those of the file; one line says so."""
    nowhere = Installation(1)
    nowhere.rows.clear()
    model = {**MACHINE, "image": number(1, "image"), "own": number(1, "volume")}
    exported = copy.deepcopy(model)
    assert with_names(Things(nowhere), [exported]) == []
    assert exported == model
    assert capsys.readouterr().err.count("Not looked up") == 1
    rows = with_names(Things(Installation(1)), [exported])
    assert exported != model
    assert settle(Things(nowhere), [exported], rows) == []
    assert exported == model
