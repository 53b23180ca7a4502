"""Every property of Heat's resource types, as its own plug-ins list them (tools/heat_oracle.py)."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import vetro.stacks
from vetro.stacks import MemoryStacks, TemplateError
from vetro.stacks.resources import resource_type
from vetro.stacks.resources.registry import TYPES

HEAT = json.loads((Path(__file__).parent / "heat_properties.json").read_text(encoding="utf-8"))
ROOM = Path(vetro.stacks.__file__).parent


def _texts() -> Counter[str]:
    """How often each text stands in the room's code."""
    files = [*(ROOM / "resources").glob("*.py"), *(ROOM / "template").glob("*.py")]
    trees = [ast.parse(one.read_text(encoding="utf-8")) for one in (*files, ROOM / "native.py")]
    return Counter(
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@pytest.mark.parametrize("name", sorted(HEAT))
def test_every_property_of_heat_is_known(name: str) -> None:
    """It is served, is accepted for a reason, or is refused with one."""
    missing = set(HEAT[name]) - set(resource_type(name, "it").properties)
    assert missing == set()


def test_no_property_is_ignored_without_a_reason() -> None:
    """What is neither ignored for a reason nor refused is read somewhere beside its declaration."""
    texts = _texts()
    declared = Counter(
        key for name in sorted(TYPES) for key in resource_type(name, "it").properties
    )
    silent = {
        (name, key)
        for name in sorted(TYPES)
        for key, one in resource_type(name, "it").properties.items()
        if not one.ignored and not one.refused and texts[key] <= min(declared[key], 1)
    }
    # Its change replaces the resource, which is all that it is for.
    assert silent == {("OS::Heat::RandomString", "salt")}


@pytest.mark.parametrize(
    ("kind", "properties", "words"),
    [
        ("Neutron::Net", {"shared": True}, "belongs to one project"),
        ("Neutron::Net", {"admin_state_up": "false"}, "always up"),
        ("Neutron::Net", {"qos_policy": "q"}, "not limited"),
        ("Neutron::Subnet", {"host_routes": [{"destination": "10.0.0.0/8"}]}, "gateway only"),
        ("Neutron::Port", {"value_specs": {"a": "b"}}, "extensions"),
        ("Neutron::Port", {"binding:vnic_type": "direct"}, "virtual"),
        ("Nova::KeyPair", {"type": "x509"}, "SSH"),
    ],
)
def test_what_would_have_no_effect_is_refused(
    kind: str, properties: dict[str, Any], words: str
) -> None:
    """A value that asks for something else than what is the case here."""
    with pytest.raises(TemplateError, match=words):
        resource_type(f"OS::{kind}", "it").check("it", properties)


async def test_tags_are_kept_and_shown() -> None:
    """Of every type that has them; other tags make no other resource."""
    stacks = MemoryStacks()

    def template(*tags: str) -> dict[str, Any]:
        net, port = {"get_resource": "net"}, {"get_resource": "port"}
        given: dict[str, dict[str, Any]] = {
            "net": {"type": "OS::Neutron::Net"},
            "sub": {
                "type": "OS::Neutron::Subnet",
                "properties": {"network": net, "cidr": "10.9.0.0/24"},
            },
            "router": {"type": "OS::Neutron::Router"},
            "port": {
                "type": "OS::Neutron::Port",
                "properties": {"network": net},
                "depends_on": "sub",
            },
            "vm": {
                "type": "OS::Nova::Server",
                "properties": {
                    "flavor": "m1.nano",
                    "image": "debian",
                    "networks": [{"port": port}],
                },
            },
        }
        for one in given.values():
            one["properties"] = {**one.get("properties", {}), "tags": list(tags)}
        shown = {name: {"value": {"get_attr": [name, "show", "tags"]}} for name in given}
        return {"heat_template_version": "2016-10-14", "resources": given, "outputs": shown}

    stack = await stacks.create("p", "s", template("web", "blue"))
    assert stack.reason == ""
    assert list(stack.outputs.values()) == [["web", "blue"]] * 5
    before = {name: one.physical_id for name, one in stack.resources.items()}
    stack = await stacks.update("p", "s", template("green"))
    assert list(stack.outputs.values()) == [["green"]] * 5
    assert {name: one.physical_id for name, one in stack.resources.items()} == before
