"""Groups of resources and nested templates."""

from __future__ import annotations

from typing import Any

import pytest

from vetro.stacks import StackStatus, TemplateError
from vetro.stacks.memory import MemoryStacks

Json = Any
INNER = """
heat_template_version: 2016-10-14
parameters:
  size: {type: number, default: 1, constraints: [{range: {min: 1, max: 3}}]}
  label: {type: string}
  twice: {type: boolean, default: false}
conditions:
  is_twice: {get_param: twice}
resources:
  text:
    type: OS::Heat::Value
    properties: {value: {word: {list_join: ["-", [{get_param: label}, {get_param: size}]]}}}
  again:
    type: OS::Heat::Value
    condition: is_twice
    depends_on: text
    properties: {value: {get_attr: [text, value]}}
outputs:
  text: {value: {get_attr: [text, value]}}
  shouted: {value: {str_replace: {template: "X!", params: {X: {get_attr: [text, value, word]}}}}}
"""


def made(type_: str, /, **properties: Any) -> Json:
    """A resource."""
    return {"type": type_, "properties": properties}


def value(given: Json) -> Json:
    """A resource that is a value."""
    return made("OS::Heat::Value", value=given)


def group(count: Json, definition: Json, **more: Any) -> Json:
    """A group."""
    return made("OS::Heat::ResourceGroup", count=count, resource_def=definition, **more)


def attr(*path: Any) -> Json:
    """``get_attr``."""
    return {"get_attr": list(path)}


async def outputs_of(
    resources: dict[str, Json],
    outputs: dict[str, Json],
    files: dict[str, str] | None = None,
    **more: Any,
) -> tuple[dict[str, Json], set[str]]:
    """The outputs of a stack, and the names of its resources."""
    stacks = MemoryStacks()
    template = {
        "heat_template_version": "2016-10-14",
        "resources": resources,
        "outputs": {name: {"value": one} for name, one in outputs.items()},
    }
    stack = await stacks.create("p", "s", template, files=files, **more)
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    assert (await stacks.plan("p", "s", template, files=files, **more)).empty
    assert await stacks.delete("p", "s") is None
    return dict(stack.outputs), set(stack.resources)


async def test_a_group_has_members_and_their_attributes() -> None:
    """By index, as a list, as a map; what depends on the group depends on every member."""
    outputs, names = await outputs_of(
        {
            "web": group(3, value({"at": "n%index%", "of": ["%index%"]})),
            "after": {**value("x"), "depends_on": "web"},
        },
        {
            "all": attr("web", "value", "at"),
            "one": attr("web", "resource.1.value", "of", 0),
            "map": attr("web", "attributes", "value", "at"),
            "ref": attr("web", "resource.2"),
            "refs": attr("web", "refs"),
            "last": attr("web", "refs", 2),
            "name": {"get_resource": "web"},
        },
    )
    assert names == {"web.0", "web.1", "web.2", "after"}
    assert outputs["all"] == ["n0", "n1", "n2"]
    assert outputs["one"] == "1"
    assert outputs["map"] == {"0": "n0", "1": "n1", "2": "n2"}
    assert outputs["ref"] == outputs["refs"][2] == outputs["last"]
    assert outputs["name"] == "s-web"


async def test_scaling_a_group_touches_only_the_difference() -> None:
    """More members are new ones, fewer go from the end or are the ones that are named."""
    stacks = MemoryStacks()

    async def ids(count: int, **more: Any) -> dict[str, str | None]:
        wanted = {"resources": {"g": group(count, made("OS::Heat::RandomString"), **more)}}
        call = stacks.update if await stacks.get("p", "s") else stacks.create
        stack = await call("p", "s", wanted)
        return {name: one.physical_id for name, one in stack.resources.items()}

    two, three = await ids(2), await ids(3)
    assert two.items() <= three.items()
    less = await ids(2, removal_policies=[{"resource_list": ["0"]}])
    assert less == {name: three[name] for name in ("g.1", "g.2")}
    assert await ids(0) == {}


@pytest.mark.parametrize("spelling", ["file", "registry", "stack", "stack text", "cfn"])
async def test_nested_templates(spelling: str) -> None:
    """Parameters may be attributes of other resources, outputs are attributes."""
    given = {"label": attr("name", "value"), "size": 2}
    shouted, files, environment = ["app", "shouted"], {"in.yaml": INNER}, None
    app: Json = made("in.yaml", **given)
    if spelling == "registry":
        app = made("My::App", **given)
        environment = "resource_registry: {'My::App': in.yaml}"
    elif spelling.startswith("stack"):
        template = {"get_file": "in.yaml"} if spelling == "stack" else INNER
        app, shouted = made("OS::Heat::Stack", template=template, parameters=given), [
            "app", "outputs", "shouted"]  # fmt: skip
    elif spelling == "cfn":
        app = made("AWS::CloudFormation::Stack", TemplateURL="in.yaml", Parameters=given)
        shouted = ["app", "Outputs.shouted"]
    outputs, names = await outputs_of(
        {"name": value("me"), "app": app},
        {"said": attr(*shouted)},
        files,
        environment=environment,
    )
    assert names == {"name", "app.text"}
    assert outputs["said"] == "me-2!"


async def test_a_group_of_nested_templates() -> None:
    """Members have outputs, with paths into them, and conditions of their own."""
    outputs, names = await outputs_of(
        {"apps": group(2, made("in.yaml", label="a%index%", twice=True))},
        {
            "words": attr("apps", "text", "word"),
            "second": attr("apps", "resource.1.shouted"),
            "inside": attr("apps", "resource.0", "resource.again.value", "word"),
        },
        {"in.yaml": INNER},
    )
    assert names == {f"apps.{index}.{name}" for index in (0, 1) for name in ("text", "again")}
    assert outputs == {"words": ["a0-1", "a1-1"], "second": "a1-1!", "inside": "a0-1"}


CIRCLE = "heat_template_version: 2016-10-14\nresources: {a: {type: in.yaml}}\n"


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"g": group(attr("v", "value"), value(1)), "v": value(1)}, "cannot depend on a resource"),
        ({"g": group(-1, value(1))}, "from 0 to 1000"),
        ({"g": group(10**9, value(1))}, "from 0 to 1000"),
        ({"g": made("OS::Heat::ResourceGroup", count=1)}, "needs a type"),
        ({"g": group(1, value(1), odd=1)}, "no property 'odd'"),
        ({"g": group(1, value(1)), "g.0": value(1)}, "has this name too"),
        ({"g": group(1, value(1)), "v": value(attr("g", "resource.1"))}, "no resource '1' in it"),
        ({"g": group(1, made("X::Y"))}, "X::Y is not supported"),
        ({"a": made("absent.yaml")}, "no file 'absent.yaml'"),
        ({"a": made("in.yaml")}, "'label' is not given"),
        ({"a": made("in.yaml", label="x", odd=1)}, "no parameter 'odd'"),
        ({"a": made("in.yaml", label="x", size=9)}, "size"),
        ({"a": made("in.yaml", label="x"), "v": value(attr("a", "none"))}, "no output 'none'"),
        ({"a": made("in.yaml", label=attr("a", "shouted"))}, "circular"),
        ({"a": made("in.yaml", label="x", twice=attr("v", "value")), "v": value(1)}, "twice"),
        ({"a": made("circle.yaml")}, "contain itself"),
        ({"a": made("list.yaml")}, "not a map"),
        ({"a": made("broken.yaml")}, "cannot be read"),
    ],
)
async def test_what_cannot_be_nested_is_refused(resources: dict[str, Json], words: str) -> None:
    """Before anything is made, with the resource and what to do."""
    stacks = MemoryStacks()
    files = {
        "in.yaml": INNER,
        "circle.yaml": CIRCLE.replace("in.yaml", "circle.yaml"),
        "list.yaml": "[1]",
        "broken.yaml": "{",
    }
    template = {"heat_template_version": "2016-10-14", "resources": resources}
    with pytest.raises(TemplateError, match=words):
        await stacks.create("p", "s", template, files=files)
    assert await stacks.get("p", "s") is None


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (group(100, group(100, group(100, group(0, value(1))))), "more than 10000 resources"),
        (value("%index%" * 100_000), "more than 67108864 characters"),
        (
            made("OS::Heat::ResourceGroup", count=1, resource_def=value("x"), index_var=""),
            "is empty",
        ),
    ],
)
async def test_a_small_template_does_not_become_a_large_one(definition: Json, words: str) -> None:
    """Groups of empty groups, and an index that is written into long texts, are bounded."""
    with pytest.raises(TemplateError, match=words):
        await outputs_of({"web": group(1000, definition)}, {})
