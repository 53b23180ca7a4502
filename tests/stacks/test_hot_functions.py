"""HOT's functions and conditions since 2015, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from vetro.stacks import StackStatus, TemplateError
from vetro.stacks.memory import MemoryStacks

NEWEST = "2021-04-16"
FULL = {"letters": ["a", "b"], "numbers": [1, 2], "net": {"k": "v"}}

VALUES: list[tuple[Any, Any]] = [
    ({"digest": ["sha256", "x"]},
     "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
    ({"repeat": {"for_each": {"%a%": ["x", "y"]}, "template": {"name": "n-%a%", "v": "%a%"}}},
     [{"name": "n-x", "v": "x"}, {"name": "n-y", "v": "y"}]),
    ({"repeat": {"for_each": {"A": ["1", "2"], "B": ["x", "y"]}, "template": "A-B"}},
     ["1-x", "1-y", "2-x", "2-y"]),
    ({"repeat": {"for_each": {"A": ["1", "2"], "B": ["x", "y"]}, "template": "A-B",
                 "permutations": False}}, ["1-x", "2-y"]),
    ({"repeat": {"for_each": {"A": {"get_param": "letters"}}, "template": {"A": 1}}},
     [{"a": 1}, {"b": 1}]),
    ({"map_merge": [{"a": 1, "b": 1}, {"b": 2}, {"get_param": "net"}]}, {"a": 1, "b": 2, "k": "v"}),
    ({"map_replace": [{"k1": "v1", "k2": "v2"}, {"keys": {"k1": "K1"}, "values": {"v2": "V2"}}]},
     {"K1": "v1", "k2": "V2"}),
    ({"filter": [["a"], ["a", "b", "a", "c"]]}, ["b", "c"]),
    ({"list_concat": [["a"], ["b", "a"]]}, ["a", "b", "a"]),
    ({"list_concat_unique": [["a"], ["b", "a"]]}, ["a", "b"]),
    ({"contains": ["a", {"get_param": "letters"}]}, True),
    ({"contains": ["z", ["a"]]}, False),
    ({"yaql": {"expression": "$.data.where($ > 1).select($ * 10)", "data": {"get_param": "numbers"}}},
     [20]),
    ({"make_url": {"scheme": "http", "host": "example.com", "port": 80, "path": "foo/bar",
                   "query": {"a": "b c"}}}, "http://example.com:80/foo/bar?a=b+c"),
    ({"make_url": {"scheme": "https", "username": "u", "password": "p@", "host": "::1"}},
     "https://u:p%40@[::1]"),
    ({"str_replace_strict": {"template": "a-X", "params": {"X": "1"}}}, "a-1"),
    ({"str_split": [",", "a,b,c", 1]}, "b"),
    ({"list_join": [",", ["a"], ["b", {"k": 1}]]}, 'a,b,{"k": 1}'),
    ({"Fn::MemberListToMap": ["Name", "Value", [".member.0.Name=k", ".member.0.Value=v"]]},
     {"k": "v"}),
    ({"if": [{"equals": [{"get_param": "size"}, "big"]}, 1, 2]}, 1),
    ({"if": ["small", 1, 2]}, 2),
    ({"if": [{"not": "small"}, {"get_param": "size"}, 2]}, "big"),
    ({"if": [{"and": ["large", {"not": "small"}]}, 1, 2]}, 1),
    ({"if": [{"or": ["small", False]}, 1, 2]}, 2),
    ([{"if": ["small", "x"]}, "y"], ["y"]),
    ({"get_attr": ["net", "name"]}, "n"),
]  # fmt: skip

REFUSED: list[tuple[Any, str]] = [
    ({"digest": ["nothing", "x"]}, "digest knows no 'nothing'"),
    ({"repeat": {"template": "x"}}, "repeat takes"),
    ({"repeat": {"for_each": {"a": [1, 2], "b": [1]}, "template": "x", "permutations": False}},
     "same length"),
    ({"repeat": {"for_each": {"a": list(range(400)), "b": list(range(400))}, "template": "x"}},
     "160000 elements"),
    ({"map_merge": ["x"]}, "list of maps"),
    ({"map_replace": [{"a": 1, "b": 2}, {"keys": {"a": "b"}}]}, "in the map already"),
    ({"str_replace_strict": {"template": "a", "params": {"X": "1"}}}, "the text has no 'X'"),
    ({"str_replace_vstrict": {"template": "aX", "params": {"X": ""}}}, "'X' is empty"),
    ({"make_url": {"port": 70000}}, "the port"),
    ({"yaql": {"expression": "$.(", "data": 1}}, "yaql"),
    ({"if": ["nowhere", 1, 2]}, "no condition 'nowhere'"),
    ({"if": [{"equals": [1]}, 1, 2]}, "equals takes"),
    ({"if": ["large"]}, "if takes"),
    ({"equals": [1]}, "equals takes"),
]  # fmt: skip


def template(value: Any, **more: Any) -> dict[str, Any]:
    """A template whose one output is the value."""
    return {
        "heat_template_version": NEWEST,
        "parameters": {
            "size": {"type": "string", "default": "big"},
            "letters": {"type": "json", "default": FULL["letters"]},
            "numbers": {"type": "json", "default": FULL["numbers"]},
            "net": {"type": "json", "default": FULL["net"]},
        },
        "conditions": {
            "small": {"equals": [{"get_param": "size"}, "small"]},
            "large": {"not": "small"},
        },
        "resources": {"net": {"type": "OS::Neutron::Net", "properties": {"name": "n"}}},
        "outputs": {"it": {"value": value}},
        **more,
    }


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=[str(one)[:50] for one, _ in VALUES])
async def test_values(value: Any, expected: Any) -> None:
    """A call in an output has this value."""
    stack = await MemoryStacks().create("p", "s", template(value))
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    assert stack.outputs["it"] == expected


@pytest.mark.parametrize(("value", "words"), REFUSED, ids=[str(one)[:50] for one, _ in REFUSED])
async def test_refusals(value: Any, words: str) -> None:
    """A wrong call in a property fails the resource, or the template, with the function's words."""
    given = template(1)
    given["resources"]["config"] = {
        "type": "OS::Heat::CloudConfig",
        "properties": {"cloud_config": {"x": value}},
    }
    stacks = MemoryStacks()
    try:
        reason = (await stacks.create("p", "s", given)).reason
    except TemplateError as error:
        reason = str(error)
    assert words in reason


async def test_resources_and_outputs_under_conditions() -> None:
    """What does not hold is not made, references to it are null, dependencies on it go; a change of
    the parameter makes it and removes it again."""
    given = template({"get_resource": "more"}, outputs={
        "more": {"value": {"get_resource": "more"}},
        "hidden": {"value": 1, "condition": "small"},
    })  # fmt: skip
    given["resources"]["more"] = {
        "type": "OS::Neutron::Net",
        "condition": "small",
        "properties": {"name": "m"},
    }
    given["resources"]["net"]["depends_on"] = ["more"]
    stacks = MemoryStacks()
    stack = await stacks.create("p", "s", given)
    assert (set(stack.resources), stack.outputs) == ({"net"}, {"more": None})
    stack = await stacks.update("p", "s", given, parameters={"size": "small"})
    assert set(stack.resources) == {"net", "more"}
    assert stack.outputs["hidden"] == 1
    stack = await stacks.update("p", "s", given, parameters={"size": "big"})
    assert set(stack.resources) == {"net"}


async def test_what_later_versions_call_is_data_in_earlier_ones() -> None:
    """A map with one key `filter` in a template of 2013 is a map."""
    given = template({"filter": [["a"], ["a"]]}, heat_template_version="2013-05-23", conditions={})
    assert (await MemoryStacks().create("p", "s", given)).outputs["it"] == {
        "filter": [["a"], ["a"]]
    }


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({"a": "b", "b": {"not": "a"}}, "circle: a → b → a"),
        ({"a": {"equals": [{"get_attr": ["net", "name"]}, 1]}}, "Condition 'a'"),
        ({"a": {"equals": [{"get_resource": "net"}, 1]}}, "Condition 'a'"),
        ({"a": {"and": [True]}}, "at least two"),
        ({"a": 3}, "not a condition"),
        ({"a": {"equals": [{"get_param": "nothing"}, 1]}}, "nothing"),
    ],
)
async def test_wrong_conditions(conditions: Any, words: str) -> None:
    """They fail the template, before anything is made, with the condition's name."""
    with pytest.raises(TemplateError) as refused:
        await MemoryStacks().create("p", "s", template(1, conditions=conditions))
    assert words in str(refused.value)


async def test_versions_by_name_and_unknown_ones() -> None:
    """`wallaby` is a version; the refusal of an unknown one names the newest."""
    given = template({"if": ["small", 1, 2]}, heat_template_version="wallaby")
    assert (await MemoryStacks().create("p", "s", given)).outputs["it"] == 2
    with pytest.raises(TemplateError, match="2021-04-16"):
        await MemoryStacks().create("p", "s", template(1, heat_template_version="2099-01-01"))


async def test_conditions_of_cfn() -> None:
    """`Conditions`, `Fn::If`, `Fn::Equals` and `Condition` of resources."""
    given = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Parameters": {"size": {"Type": "String", "Default": "big"}},
        "Conditions": {"small": {"Fn::Equals": [{"Ref": "size"}, "small"]},
                       "large": {"Fn::Not": [{"Condition": "small"}]}},
        "Resources": {
            "a": {"Type": "OS::Neutron::Net", "Condition": "small"},
            "b": {"Type": "OS::Neutron::Net", "Condition": "large",
                  "Properties": {"name": {"Fn::If": ["small", "s", "l"]}}},
        },
        "Outputs": {"name": {"Value": {"Fn::GetAtt": ["b", "name"]}}},
    }  # fmt: skip
    stack = await MemoryStacks().create("p", "s", given)
    assert (set(stack.resources), stack.outputs) == ({"b"}, {"name": "l"})
