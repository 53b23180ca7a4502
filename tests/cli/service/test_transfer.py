"""Environments and templates are taken to where the same names have other ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.serving import Service

LIBRARY = Path(__file__).resolve().parents[3] / "library"
SAMPLE = LIBRARY / "HelloScript"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBmSOIKVJdnPTyI8uwn0EUIInxQ1UOqkz8cQTXl8Qmwt mine"


CLASSES = """
Namespaces: {=: test.ice, std: io.murano, res: io.murano.resources}
Name: Cone
Extends: std:Application
Properties:
  name: {Contract: $.string().notNull()}
  flavor: {Contract: $.string().notNull()}
  image: {Contract: $.string()}
  sourceImage: {Contract: $.string()}
  ids: {Contract: {$.string().notNull(): $.string()}}
  machine: {Contract: $.class(Freezer)}
---
Name: Freezer
Extends: res:LinuxMuranoInstance
Properties:
  degrees: {Contract: $.int(), Default: -18}
"""
MANIFEST = """
Format: "1.4"
Type: Application
FullName: test.ice
Name: Ice
Description: Ice
Author: A
Classes: {test.ice.Cone: C.yaml, test.ice.Freezer: C.yaml}
"""


def test_what_a_property_names_is_said_by_its_class(service: Service, tmp_path: Path) -> None:
    """A package's own `flavor` and `sourceImage` are no machine's; in a class that inherits one they are."""
    root = tmp_path / "ice"
    (root / "Classes").mkdir(parents=True)
    (root / "manifest.yaml").write_text(MANIFEST)
    (root / "Classes" / "C.yaml").write_text(CLASSES)
    (tmp_path / "empty.tar").write_bytes(b"\0" * 10240)
    service.ok("package", "import", root)
    service.ok("image", "import", "cold", tmp_path / "empty.tar")
    image = next(one["uuid"] for one in service.json("image", "list") if one["name"] == "cold")
    cone: dict[str, Any] = {
        "?": {"type": "test.ice.Cone/0.0.0", "id": "c"},
        "name": "one", "flavor": "vanilla", "image": "cone.png", "sourceImage": "http://a.test/b",
        "ids": {image: f"see /images/{image}/file"},
        "machine": {
            "?": {"type": "test.ice.Freezer/0.0.0", "id": "m"},
            "name": "freezer", "flavor": "m1.tiny", "image": image,
        },
    }  # fmt: skip
    (tmp_path / "cone.json").write_text(json.dumps(cone))
    service.ok("env", "create", "van")
    service.ok("env", "add", "van", "--file", tmp_path / "cone.json")
    service.ok("env", "export", "van", "-o", tmp_path / "van.json")
    (exported,) = json.loads((tmp_path / "van.json").read_text())["services"]
    assert exported["machine"]["image"] == "cold"
    service.ok("template", "create", "kept", "--from-env", "van")
    (kept,) = service.json("template", "show", "kept")["services"]
    assert (kept["machine"]["image"], *kept["ids"]) == ("cold", image)
    service.ok("image", "delete", "--yes", image)
    said = service.refused("env", "import", tmp_path / "van.json", "--name", "lorry")
    assert "there is no image 'cold'" in said
    assert "vanilla" not in said
    service.ok("image", "import", "cold", tmp_path / "empty.tar")
    other = next(one["uuid"] for one in service.json("image", "list") if one["name"] == "cold")
    service.ok("env", "import", tmp_path / "van.json", "--name", "lorry")
    (made,) = service.json("env", "show", "lorry")["services"]
    assert made["machine"]["image"] == other
    assert made["ids"] == {other: f"see /images/{other}/file"}
    assert {made[key] for key in ("flavor", "image", "sourceImage")} == {
        cone[key] for key in ("flavor", "image", "sourceImage")
    }
    for name in ("van", "lorry"):
        service.ok("env", "destroy", "--yes", name)
    service.ok("template", "delete", "--yes", "kept")
    service.ok("image", "delete", "--yes", other)


def test_an_environment_is_made_again_where_the_same_names_have_other_ids(
    service: Service, tmp_path: Path
) -> None:
    """The file has names and the ids beside; what is not there is named, and nothing is made before."""

    def things() -> str:
        """An image, a key pair and a network, each new; the image's id."""
        service.ok("image", "import", "plain", tmp_path / "empty.tar")
        service.ok("keypair", "create", "mine", tmp_path / "mine.pub")
        service.ok("network", "create", "lan", "--cidr", "10.91.0.0/24")
        return next(one["uuid"] for one in service.json("image", "list") if one["name"] == "plain")

    def without() -> None:
        images = service.json("image", "list")
        service.ok("image", "delete", "--yes", *(one["uuid"] for one in images))
        service.ok("keypair", "delete", "--yes", "mine")
        service.ok("network", "delete", "--yes", "lan")

    def image_of(environment: str) -> Any:
        return service.json("env", "show", environment)["services"][0]["instance"]["image"]

    (tmp_path / "empty.tar").write_bytes(b"\0" * 10240)
    (tmp_path / "mine.pub").write_text(KEY)
    service.ok("package", "import", SAMPLE)
    first = things()
    network = service.json("network", "show", "lan")["uuid"]
    service.ok("env", "create", "there", "--join-net-id", network)
    service.ok("env", "add", "there", "HelloScript", "--name", "hello", "--set", "image=plain")
    service.ok("env", "edit", "there", "hello", "--set", "instance.keyname=mine")
    assert image_of("there") == first
    exported = tmp_path / "there.json"
    service.ok("env", "export", "there", "-o", exported)
    document = json.loads(exported.read_text())
    assert document["services"][0]["instance"]["image"] == "plain"
    assert {(one["kind"], one["name"], one["uuid"]) for one in document["references"]} == {
        ("image", "plain", first),
        ("network", "lan", network),
    }

    # Here it is the same image, also when another has the name by now.
    service.ok("image", "import", "plain", tmp_path / "empty.tar")
    service.ok("env", "import", exported, "--name", "here")
    assert image_of("here") == first
    service.ok("template", "create", "kept", "--from-env", "here")
    service.ok("env", "destroy", "--yes", "here")
    service.ok("env", "destroy", "--yes", "there")

    # Without them each is named, and there is no environment, neither of the file nor of the template.
    without()
    said = service.refused("env", "import", exported)
    for one in ("image 'plain'", "key pair 'mine'", "network 'lan'"):
        assert f"there is no {one}" in said
    said = service.refused("template", "create-env", "kept", "here")
    assert "there is no key pair 'mine'" in said
    assert service.json("env", "list") == []

    # Others of the same names take their place.
    second = things()
    service.ok("env", "import", exported)
    assert image_of("there") == second
    joined = service.json("env", "model", "there", "--path", "/defaultNetworks/environment")
    assert joined["internalNetworkName"] == service.json("network", "show", "lan")["uuid"]
    service.ok("template", "create", "lasting", "--from-env", "there")
    without()
    things()
    made = service.json("template", "create-env", "lasting", "here")
    session = ("--session", made["session_id"])
    assert service.json("env", "show", "here", *session)["services"][0]["instance"]["image"] == (
        "plain"
    )
    for name in ("here", "there"):
        service.ok("env", "destroy", "--yes", name)
    for name in ("kept", "lasting"):
        service.ok("template", "delete", "--yes", name)
    without()


@pytest.mark.thorough
def test_samples_of_several_machines_are_made_again_elsewhere(
    service: Service, tmp_path: Path
) -> None:
    """Each machine has the image of the same name, and a relation leads to the component of the new file."""
    (tmp_path / "empty.tar").write_bytes(b"\0" * 10240)
    service.ok("package", "import", *(LIBRARY / one for one in ("MariaDb", "WordPress", "TwoTier")))

    def images() -> dict[str, str]:
        for name in ("plain", "pages"):
            service.ok("image", "import", name, tmp_path / "empty.tar")
        return {one["name"]: one["uuid"] for one in service.json("image", "list")}

    first = images()
    service.ok("env", "create", "blog")
    plain, pages = ("--set", "image=plain"), ("--set", "image=pages")
    service.ok("env", "add", "blog", "MariaDb", "--name", "store", *plain)
    service.ok(
        "env",
        "add",
        "blog",
        "WordPress",
        "--name",
        "site",
        "--set",
        "password=correct horse",
        *pages,
    )
    service.ok(
        "env", "add", "blog", "TwoTier", "--name", "tiers", *plain, "--set", "balancerImage=pages"
    )
    service.ok("env", "export", "blog", "-o", tmp_path / "blog.json")
    service.ok("env", "destroy", "--yes", "blog")
    service.ok("image", "delete", "--yes", *first.values())
    second = images()
    service.ok("env", "import", tmp_path / "blog.json")
    store, site, tiers = service.json("env", "show", "blog")["services"]
    assert store["instance"]["image"] == second["plain"]
    assert site["instance"]["image"] == second["pages"]
    assert site["server"] == store["?"]["id"]
    assert [one["image"] for one in tiers["servers"]] == [second["plain"]] * 2
    assert tiers["balancer"]["image"] == second["pages"]
    service.ok("env", "destroy", "--yes", "blog")
    service.ok("image", "delete", "--yes", *second.values())
