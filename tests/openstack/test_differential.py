"""The same templates at a real Heat and at the native back end: statuses, outputs and errors are alike."""

import secrets
from typing import Any

import pytest

from vetro.stacks import MemoryStacks, StackError
from vetro.stacks.heat import HeatStacks

from .cloud import Cloud

pytestmark = pytest.mark.openstack
P = "p"


def hot(resources: dict[str, Any], outputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A template of these resources and output values."""
    return {
        "heat_template_version": more.pop("version", "2018-08-31"),
        "resources": resources,
        "outputs": {name: {"value": value} for name, value in outputs.items()},
        **more,
    }


def value(given: Any, kind: str = "") -> dict[str, Any]:
    """A resource that is a value."""
    typed = {"type": kind} if kind else {}
    return {"type": "OS::Heat::Value", "properties": {"value": given, **typed}}


NET = {
    "net": {"type": "OS::Neutron::Net"},
    "sub": {
        "type": "OS::Neutron::Subnet",
        "properties": {"network": {"get_resource": "net"}, "cidr": "10.91.0.0/24"},
    },
}
PORT = {
    "port": {
        "type": "OS::Neutron::Port",
        "depends_on": "sub",
        "properties": {
            "network": {"get_resource": "net"},
            "fixed_ips": [{"ip_address": "10.91.0.77"}],
        },
    }
}
TEMPLATES: dict[str, dict[str, Any]] = {
    "values": hot({"a": value([1, {"b": "c"}])}, {"a": {"get_attr": ["a", "value"]}}),
    "paths": hot({"a": value({"b": ["x", "y"]})}, {"y": {"get_attr": ["a", "value", "b", 1]}}),
    "functions": hot(
        {"a": value("n")},
        {
            "join": {"list_join": ["-", ["a", {"get_attr": ["a", "value"]}]]},
            "replace": {"str_replace": {"template": "x $v", "params": {"$v": [1, 2]}}},
            "split": {"str_split": [",", "p,q", 1]},
            "merge": {"map_merge": [{"a": 1, "b": 2}, {"b": 3}]},
            "digest": {"digest": ["sha256", "x"]},
            "repeat": {"repeat": {"template": "r%i%", "for_each": {"%i%": ["1", "2"]}}},
            "contains": {"contains": [2, [1, 2]]},
            "yaql": {"yaql": {"expression": "$.data.sum()", "data": [1, 2, 3]}},
        },
    ),
    "parameters": hot(
        {"a": value({"get_param": "p"})},
        {"a": {"get_attr": ["a", "value"]}, "list": {"get_param": ["l", 1]}},
        parameters={
            "p": {"type": "string", "default": "d"},
            "l": {"type": "comma_delimited_list", "default": "x, y"},
        },
    ),
    "a condition": hot(
        {"a": {**value(1), "condition": "never"}, "b": value(2)},
        {"b": {"if": ["never", 1, {"get_attr": ["b", "value"]}]}},
        conditions={"never": {"equals": [1, 2]}},
    ),
    "a subnet": hot(
        NET,
        {
            "cidr": {"get_attr": ["sub", "cidr"]},
            "gateway": {"get_attr": ["sub", "gateway_ip"]},
            "pools": {"get_attr": ["sub", "allocation_pools"]},
        },
    ),
    "a port": hot({**NET, **PORT}, {"ip": {"get_attr": ["port", "fixed_ips", 0, "ip_address"]}}),
    "a random text": hot(
        {"a": {"type": "OS::Heat::RandomString", "properties": {"length": 7}}},
        {"length": {"yaql": {"expression": "len($.data)", "data": {"get_attr": ["a", "value"]}}}},
    ),
}
REFUSED: dict[str, dict[str, Any]] = {
    "an unknown type": hot({"a": {"type": "OS::No::Thing"}}, {}),
    "an unknown property": hot({"a": {"type": "OS::Neutron::Net", "properties": {"nam": 1}}}, {}),
    "a missing property": hot({"a": {"type": "OS::Neutron::Subnet"}}, {}),
    "an unknown resource": hot({"a": value({"get_resource": "b"})}, {}),
    "a cycle": hot({"a": value({"get_resource": "b"}), "b": value({"get_resource": "a"})}, {}),
    "a parameter without a value": hot(
        {"a": value({"get_param": "p"})}, {}, parameters={"p": {"type": "string"}}
    ),
    "an unknown parameter": hot({"a": value({"get_param": "p"})}, {}),
    "a broken constraint": hot(
        {"a": value({"get_param": "p"})},
        {},
        parameters={"p": {"type": "number", "default": 7, "constraints": [{"range": {"max": 3}}]}},
    ),
}


async def outcome(stacks: Any, template: dict[str, Any]) -> Any:
    """Status and outputs of a stack from its creation to its removal, or the kind of its refusal."""
    name = f"d{secrets.token_hex(4)}"
    try:
        made = await stacks.create(P, name, template)
        again = await stacks.update(P, name, template)
        return (made.status, made.outputs, again.status, again.outputs)
    except StackError as error:
        return type(error)
    finally:
        await stacks.delete(P, name)


@pytest.mark.parametrize("name", [*TEMPLATES, *REFUSED])
async def test_heat_and_the_native_back_end_agree(cloud: Cloud, name: str) -> None:
    """A template has the same statuses and outputs at both, or is refused by both with one kind of error."""
    template = {**TEMPLATES, **REFUSED}[name]
    async with cloud.session("demo") as session:
        real = await outcome(HeatStacks(session), template)
    assert await outcome(MemoryStacks(), template) == real
    assert isinstance(real, tuple) is (name in TEMPLATES)
