"""Every class, property and method of core-library.md sections 3 to 7 and of application-framework.md is
there as `members.yaml` has it: under its name, with its contract, usage, default and arguments."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from tests.tables import read_table

from vetro.engine.services import library_path
from vetro.engine.system import system_runtime
from vetro.muranopl import describe_class, enable_testing
from vetro.muranopl.tools.describing import ArgumentDescription
from vetro.packages import open_package

TABLE: dict[str, dict[str, Any]] = {
    f"{namespace}.{name}": said
    for namespace, classes in read_table(Path(__file__).parent / "members.yaml").items()
    for name, said in classes.items()
}
PACKAGES = ("io.murano", "io.murano.applications")
#: Names of `describe_class`.
SPELLED = {".init": "initialize", ".destroy": "destroy"}


@pytest.fixture(scope="module")
def runtime() -> Any:
    """The class libraries as the engine has them, with the classes of `vetro test`."""
    made = system_runtime()
    enable_testing(made)
    for name in PACKAGES:
        made.add_package(open_package(library_path() / name))
    return made


def written(value: Any) -> str:
    """A contract or default of the table on one line, as `describe_class` has it."""
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return "{" + ", ".join(f"{written(k)}: {written(v)}" for k, v in pairs) + "}"
    if isinstance(value, list):
        return f"[{', '.join(written(item) for item in cast('list[Any]', value))}]"
    if isinstance(value, str) and (value.startswith("$") or re.fullmatch(r"[\w.][\w. /-]*", value)):
        return value
    return json.dumps(value)


def bare(text: str) -> str:
    """A contract without what tells where its classes are."""
    return re.sub(r"\b(class|template)\('?(?:\w+:|(?:\w+\.)+)?(\w+)'?", r"\1(\2", text)


def found_properties(type_: Any) -> dict[str, Any]:
    """The properties of a class, inherited ones included."""
    found: dict[str, Any] = {}
    for one in type_.ancestors:
        found = {item.name: item for item in describe_class(one).properties} | found
    return found


def found_methods(type_: Any) -> dict[str, Any]:
    """The methods of a class, inherited ones included."""
    found: dict[str, Any] = {}
    for one in type_.ancestors:
        found = {item.name: item for item in describe_class(one).methods} | found
    return found


def differences_of_arguments(where: str, said: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """What is wrong with the arguments of a method; ours may have more, with defaults."""
    wrong = [f"{where}: no argument {name}" for name in said.keys() - found.keys()]
    kept = [name for name in found if name in said]
    if kept != [name for name in said if name in found]:
        wrong.append(f"{where}: arguments in the order {kept}")
    for name, item in found.items():
        if name not in said:
            if item.default is None:
                wrong.append(f"{where}: argument {name} that the specification lacks is required")
            continue
        contract, *default = said[name] or [None]
        if contract is not None and item.contract and bare(item.contract) != written(contract):
            wrong.append(f"{where}: contract of {name} is {item.contract}")
        if default and item.default != written(default[0]):
            wrong.append(f"{where}: default of {name} is {item.default}")
    return wrong


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_class_is_what_the_specification_says(runtime: Any, name: str) -> None:
    """Parents, properties with contract, usage and default, methods with their arguments."""
    said, type_ = TABLE[name], runtime.type(name)
    wrong: list[str] = []
    parents = {one.name.rpartition(".")[2] for one in type_.ancestors[1:]}
    wrong += [f"does not extend {one}" for one in {*said.get("extends", ())} - parents]
    declaration = type_.declaration
    assert type_.usage == said.get("Usage", "Class")
    if type_.usage == "Meta":
        assert declaration.inherited
        assert declaration.cardinality == said.get("Cardinality", "One")
        assert declaration.applies - {"All"} == set(
            said.get("Applies", declaration.applies - {"All"})
        )
    properties = found_properties(type_)
    for member, its in said.get("properties", {}).items():
        item = properties.get(member)
        if item is None:
            wrong.append(f"no property {member}")
            continue
        if item.usage != its.get("usage", "In"):
            wrong.append(f"usage of {member} is {item.usage}")
        if "contract" in its and bare(item.contract) != written(its["contract"]):
            wrong.append(f"contract of {member} is {item.contract}")
        if "default" in its and (item.default or "null") != written(its["default"]):
            wrong.append(f"default of {member} is {item.default}")
    methods = found_methods(type_)
    ancestors = [TABLE[one.name] for one in type_.ancestors if one.name in TABLE]
    static = {member for one in ancestors for member in one.get("static", ())}
    for member, its in said.get("methods", {}).items():
        item = methods.get(SPELLED.get(str(member), str(member)))
        if item is None:
            wrong.append(f"no method {member}")
            continue
        arguments = {one.name: one for one in item.arguments}
        wrong += differences_of_arguments(member, its, arguments)
        if (item.usage == "Static") is not (member in static):
            wrong.append(f"usage of {member} is {item.usage}")
        if item.is_action is not (member in said.get("actions", ())):
            wrong.append(f"{member} is an action: {item.is_action}")
    if "made_with" in said:
        given = inspect.signature(type_.native.python_class).parameters
        arguments = {
            name: ArgumentDescription(
                name,
                default=None
                if given[parameter].default is inspect.Parameter.empty
                else json.dumps(given[parameter].default),
            )
            for name, parameter in type_.native.constructor.parameters.items()
        }
        wrong += differences_of_arguments("new", said["made_with"], arguments)
    assert wrong == []


def test_the_manifests_name_no_class_that_the_table_lacks() -> None:
    """A class that is added to a library is added to the table, or said to be an inside of it."""
    declared = {
        one
        for name in PACKAGES
        for one in open_package(library_path() / name).classes
        if ".tests." not in one
    }
    # What several workflows share, and a group that no model names.
    inside = {f"io.murano.applications.{name}" for name in ("Workflow", "Turns", "OwnServerGroup")}
    assert declared - set(TABLE) == inside


FILES = (
    "Agent-v2.template Agent-v1.template linux-init.sh murano-init.sh murano-init.conf conflang.conf"
    " windows-init.ps1 murano-agent murano-agent.service murano-agent.conf RunCommand.template"
    " PutFile.template scripts/putFile.sh"
)


@pytest.mark.parametrize("file", FILES.split())
def test_the_library_has_its_resource_files(file: str) -> None:
    """The files of section 8, none empty."""
    assert open_package(library_path() / "io.murano").read_resource(file).strip()


async def test_objects_have_the_methods_of_object(lab: Any) -> None:
    """`id`, `getAttr` and `setAttr` of section 3.1, which every class has."""
    found = await lab.probe("""
    - $env.setAttr(one, 1)
    - $env.setAttr(name => two, value => 2, owner => 'io.murano.Environment')
    - $two: $env.getAttr(name => two, default => 3, owner => 'io.murano.Environment')
    - Return: list($env.id(), $env.getAttr(one), $env.getAttr(none), $env.getAttr(none, 2), $two)
    """)
    assert found == ["env", 1, None, 2, 2]
