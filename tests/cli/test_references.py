"""What applications name of an installation, in the same one, in one with the same names, in one without."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from vetro.cli.client.connection import Connection
from vetro.cli.environments.references import Things, settle, with_lasting_names, with_names
from vetro.http.client import SyncResponse

MACHINE = {
    "?": {"type": "io.murano.resources.LinuxMuranoInstance", "id": "m"},
    "name": "web",
    "flavor": "m1.tiny",
}
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
        ("network", OBJECT, "internalNetworkName", "mine"),
        ("subnet", OBJECT, "internalSubnetworkName", "mine"),
        ("network", OBJECT, "externalNetworkName", "mine"),
        ("image", OBJECT, "sourceImage", "mine"),
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
    """Images and networks by name; by id what programs take by nothing else, and an image with an heir."""
    model = {**OBJECT, "a": number(1, "image"), "b": number(1, "volume"), "c": number(1, "network")}
    with_lasting_names(Things(Installation(1)), model)
    assert model == {**OBJECT, "a": "mine", "b": number(1, "volume"), "c": "mine"}
    renewed = Installation(1)
    renewed.rows["/images"].append({"uuid": number(9, "image"), "name": "mine"})
    older = {**OBJECT, "a": number(1, "image")}
    with_lasting_names(Things(renewed), older)
    assert older["a"] == number(1, "image")


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
