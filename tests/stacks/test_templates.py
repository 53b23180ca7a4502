"""Templates in both spellings, functions, parameters (core-library.md §9)."""

from __future__ import annotations

from typing import Any

import pytest

from vetro.stacks import TemplateError, UnresolvedReference
from vetro.stacks.template.evaluation import Evaluation
from vetro.stacks.template.functions import Unknown
from vetro.stacks.template.templates import parse

NET = "OS::Neutron::Net"


async def _value(value: Any, **template: Any) -> Any:
    """A template value, evaluated with resources r1, r2 whose ids and attributes are known."""
    document: dict[str, Any] = {
        "heat_template_version": "2013-05-23",
        "resources": {"r1": {"type": NET}, "r2": {"type": NET}},
        "outputs": {"o": {"value": value}},
    }
    arguments = {key: template.pop(key) for key in ("parameters", "files") if key in template}
    document.update(template.pop("document", {}))
    parsed = parse(document, **arguments)
    attributes = {
        "addresses": {"net": [{"addr": "10.0.0.2"}, {"addr": "10.0.0.3"}], "7": "seven"},
        "name": "the name",
        "none": None,
    }

    async def attribute(resource: str, name: str) -> Any:
        return attributes[name]

    evaluation = Evaluation(
        parsed,
        stack_id="stack-id",
        stack_name="stack-name",
        project_id="project",
        reference=lambda name: f"id-{name}",
        attribute=attribute,
    )
    output = parsed.outputs["o"]
    return await evaluation.value(output.value, output.references)


PARAMETERS = {
    "document": {
        "parameters": {
            "text": {"type": "string"},
            "list": {"type": "comma_delimited_list", "default": "a, b"},
            "map": {"type": "json", "default": '{"k": [1, 2]}'},
            "number": {"type": "number", "default": "3"},
            "flag": {"type": "boolean", "default": "yes"},
        }
    },
    "parameters": {"text": "hello"},
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"get_resource": "r1"}, "id-r1"),
        ({"Ref": "r1"}, "id-r1"),
        ({"get_attr": ["r1", "name"]}, "the name"),
        ({"Fn::GetAtt": ["r1", "name"]}, "the name"),
        ({"Fn::GetAtt": "r1.name"}, "the name"),
        ({"get_attr": ["r1", "addresses", "net", 1, "addr"]}, "10.0.0.3"),
        ({"get_attr": ["r1", "addresses", "net", "1", "addr"]}, "10.0.0.3"),
        ({"get_attr": ["r1", "addresses", 7]}, "seven"),
        ({"get_attr": ["r1", "addresses", "net", 5, "addr"]}, None),
        ({"get_attr": ["r1", "addresses", "absent", 0]}, None),
        ({"get_attr": ["r1", "addresses", {"get_param": "text"}]}, None),
        ({"get_param": "text"}, "hello"),
        ({"Ref": "text"}, "hello"),
        ({"get_param": ["map", "k", 1]}, 2),
        ({"get_param": "list"}, ["a", " b"]),
        ({"get_param": "number"}, 3),
        ({"get_param": "flag"}, True),
        ({"get_param": "OS::stack_name"}, "stack-name"),
        ({"Ref": "AWS::StackId"}, "stack-id"),
        (
            {
                "str_replace": {
                    "template": "$a and $ab",
                    "params": {"$a": "$ab", "$ab": {"get_resource": "r2"}},
                }
            },
            "$ab and id-r2",
        ),
        (
            {"str_replace": {"template": "x=$n", "params": {"$n": {"get_param": "map"}}}},
            'x={"k": [1, 2]}',
        ),
        ({"Fn::Replace": [{"%a%": "b"}, "<%a%>"]}, "<b>"),
        ({"list_join": [",", ["a", {"get_resource": "r1"}]]}, "a,id-r1"),
        ({"Fn::Join": ["", ["a", 1, True]]}, "a1true"),
        ({"Fn::Select": ["1", ["a", "b"]]}, "b"),
        ({"Fn::Select": ["k", {"k": "v"}]}, "v"),
        ({"Fn::Select": [9, ["a"]]}, None),
        ({"Fn::Select": [0, {"Fn::Split": [".", "a.b"]}]}, "a"),
        ({"Fn::Split": [",", "a,b"]}, ["a", "b"]),
        ({"Fn::Base64": "#!/bin/sh"}, "#!/bin/sh"),
        ({"Fn::Base64": {"Fn::Join": ["\n", ["a", "b"]]}}, "a\nb"),
        ({"get_input": "deploy_signal_id"}, {"get_input": "deploy_signal_id"}),
        ([{"get_attr": ["r1", "name"]}], ["the name"]),
        ({"a": None, "b": [None, 1], "c": {"Ref": None}}, {"b": [1]}),
        ({"get_resource": "r1", "other": 1}, {"get_resource": "r1", "other": 1}),
    ],
)
async def test_functions(value: Any, expected: Any) -> None:
    """Each function of HOT and CFN, alone and within another."""
    assert await _value(value, **PARAMETERS) == expected


async def test_files_and_mappings() -> None:
    """get_file reads the files given along, Fn::FindInMap the template's maps."""
    assert await _value({"get_file": "a.sh"}, files={"a.sh": "text"}) == "text"
    mappings = {"Mappings": {"M": {"one": {"two": "three"}}}}
    assert await _value({"Fn::FindInMap": ["M", "one", "two"]}, document=mappings) == "three"
    with pytest.raises(TemplateError, match=r"M\.one\.none"):
        await _value({"Fn::FindInMap": ["M", "one", "none"]}, document=mappings)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"get_resource": "r3"}, "there is no resource 'r3'"),
        ({"get_attr": ["nowhere", "name"]}, "no resource 'nowhere'"),
        ({"get_param": "tex"}, "no parameter 'tex'; did you mean 'text'"),
        ({"Ref": "nothing"}, "no resource 'nothing'"),
        ({"get_file": "b.sh"}, "no file 'b.sh'"),
        ({"a": [{"list_join": [",", [{"get_resource": "deep"}]]}]}, "no resource 'deep'"),
    ],
)
async def test_dangling_references_are_named(value: Any, said: str) -> None:
    """A reference to something absent says to what, from where, and what was perhaps meant."""
    with pytest.raises(UnresolvedReference, match=said) as caught:
        await _value(value, **PARAMETERS)
    assert "Output 'o'" in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        {"get_attr": "r1"},
        {"get_resource": ["r1"]},
        {"get_param": {"a": 1}},
        {"str_replace": {"template": 1, "params": {}}},
        {"str_replace": {"template": "a"}},
        {"list_join": [",", "text"]},
        {"Fn::Join": "text"},
        {"Fn::Select": ["a", ["x"]]},
        {"Fn::Select": [0, "text"]},
        {"Fn::Split": [",", 5]},
        {"Fn::FindInMap": ["a"]},
        {"resource_facade": "metadata"},
    ],
)
async def test_misused_functions_are_template_errors(value: Any) -> None:
    """Wrong arguments never crash."""
    with pytest.raises(TemplateError):
        await _value(value, **PARAMETERS)


async def test_unknown_values_stay_unknown() -> None:
    """What depends on something that is not known yet is not known either."""
    parsed = parse(
        {
            "resources": {"r1": {"type": NET}},
            "outputs": {"o": {"value": {"list_join": ["", ["a", {"get_resource": "r1"}]]}}},
        }
    )

    async def attribute(resource: str, name: str) -> Any:
        return None

    evaluation = Evaluation(
        parsed,
        stack_id="",
        stack_name="",
        project_id="",
        reference=Unknown,
        attribute=attribute,
    )
    output = parsed.outputs["o"]
    assert isinstance(await evaluation.value(output.value, output.references), Unknown)


def test_both_spellings_make_one_template() -> None:
    """Sections and keys of HOT and CFN in one document are put together."""
    parsed = parse(
        {
            "Resources": {
                "a": {"Type": NET, "Properties": {"name": "x"}, "DependsOn": "b"},
                "c": {"Type": NET, "DeletionPolicy": "Retain"},
            },
            "resources": {
                "b": {"type": NET},
                "a": {"properties": {"shared": True}},
            },
            "Outputs": {"o": {"Value": {"Ref": "a"}, "Description": "d"}},
            "outputs": {"p": {"value": 1}},
            "Parameters": {"q": {"Type": "Number", "Default": 5}},
        }
    )
    assert set(parsed.resources) == {"a", "b", "c"}
    assert parsed.resources["a"].properties == {"name": "x", "shared": True}
    assert parsed.resources["a"].requires == {"b"}
    assert parsed.resources["c"].retain
    assert set(parsed.outputs) == {"o", "p"}
    assert parsed.parameters == {"q": 5}


@pytest.mark.parametrize(
    ("declared", "given", "said"),
    [
        ({}, {"x": 1}, "no parameter 'x'"),
        ({"x": {"type": "string"}}, {}, "'x' is not given"),
        ({"x": {"type": "number"}}, {"x": "many"}, "'x' is 'many', which is not a number"),
        ({"x": {"type": "boolean"}}, {"x": "maybe"}, "not a boolean"),
        ({"x": {"type": "json"}}, {"x": "{"}, "not JSON"),
        ({"x": {"type": "string"}}, {"x": {}}, "is a text"),
        (
            {"x": {"type": "string", "constraints": [{"allowed_values": ["a"]}]}},
            {"x": "b"},
            "one of",
        ),
        (
            {
                "x": {
                    "type": "string",
                    "constraints": [{"allowed_pattern": "[a-z]+", "description": "only letters"}],
                }
            },
            {"x": "1"},
            "only letters",
        ),
        (
            {"x": {"type": "number", "constraints": [{"range": {"min": 1, "max": 5}}]}},
            {"x": 6},
            "at most 5",
        ),
        (
            {"x": {"type": "string", "constraints": [{"length": {"min": 2}}]}},
            {"x": "a"},
            "at least",
        ),
        ({"x": {"Type": "Number", "MaxValue": 3}}, {"x": 4}, "at most 3"),
        ({"x": {"Type": "String", "AllowedValues": ["a"]}}, {"x": "b"}, "one of"),
    ],
)
def test_bad_parameters_are_named(declared: Any, given: Any, said: str) -> None:
    """Missing, strange and forbidden values are refused by name."""
    with pytest.raises(TemplateError, match=said):
        parse({"parameters": declared, "resources": {}}, parameters=given)


def test_environment_documents() -> None:
    """A HOT environment gives parameters (which callers may override) and type aliases."""
    environment = "parameters:\n  x: 1\n  y: 2\nresource_registry:\n  My::Net: OS::Neutron::Net\n"
    template = {
        "parameters": {"x": {"type": "number"}, "y": {"type": "number"}},
        "resources": {"a": {"type": "My::Net"}},
    }
    parsed = parse(template, environment=environment, parameters={"y": 3})
    assert parsed.parameters == {"x": 1, "y": 3}
    assert parsed.resources["a"].type == NET
    with pytest.raises(TemplateError, match="not YAML"):
        parse(template, environment="{")


def test_the_version_is_checked() -> None:
    """A version that Heat does not have is refused with the newest one there is."""
    with pytest.raises(TemplateError, match=r"no heat_template_version '1999-01-01'.*2021-04-16"):
        parse({"heat_template_version": "1999-01-01", "resources": {}})
