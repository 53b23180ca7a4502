"""Environments and templates are taken to where the same names have other ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.serving import Service

SAMPLE = Path(__file__).resolve().parents[3] / "library" / "HelloScript"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBmSOIKVJdnPTyI8uwn0EUIInxQ1UOqkz8cQTXl8Qmwt mine"


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
