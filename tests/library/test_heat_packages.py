"""Heat packages deployed: the stack, its outputs, files and environments, and its end (A6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vetro.packages import open_package

TEMPLATE = """\
heat_template_version: 2013-05-23
parameters:
  title: {type: string, default: none, constraints: [{length: {max: 8}}]}
  size: {type: number, default: 1}
  names: {type: comma_delimited_list, default: [a, b]}
  data: {type: json, default: {a: 1}}
  flag: {type: boolean, default: false}
  fixed: {type: string, default: x, immutable: true}
resources:
  net: {type: 'OS::Neutron::Net', properties: {name: {get_param: title}}}
outputs:
  id: {value: {get_resource: net}}
  size: {value: {get_param: size}}
  names: {value: {get_param: names}}
  data: {value: {get_param: data}}
  flag: {value: {get_param: flag}}
"""
MANIFEST = "Format: Heat.HOT/1.0\nType: Application\nFullName: org.acme.Hot\nDescription: d\n"
REPORTS = [
    "Application deployment has started",
    "Stack creation has started",
    "Stack was successfully created",
    "Application deployment has finished",
]


@pytest.fixture
def hot(lab: Any, tmp_path: Path) -> Any:
    """The laboratory; `hot(template, **files)` makes the package in it."""

    def make(template: str = TEMPLATE, **files: str) -> Any:
        for name, text in {"manifest.yaml": MANIFEST, "template.yaml": template, **files}.items():
            path = tmp_path / "package" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        lab.packages = [open_package(tmp_path / "package")]
        return lab

    return make


def model(lab: Any, **parameters: Any) -> Any:
    """An environment without networks of its own, with the application."""
    app = lab.application("app", "org.acme.Hot", name="a", templateParameters=parameters)
    return lab.environment(app, networks={})


def application(given: Any) -> Any:
    """The application in a model."""
    return given["Objects"]["applications"][0]


async def test_a_template_becomes_a_stack_with_outputs(hot: Any) -> None:
    """One stack, named for the application and the environment; texts out of numbers; reports."""
    lab = hot()
    after = await lab.deploy(
        model(lab, title="shop", size=3, names="x,y", data='{"b": 2}', flag=True)
    )
    assert lab.calls() == ["create_network"]
    assert lab.texts() == REPORTS
    app = application(after)
    assert app["generatedHeatStackName"] == "hot-app_env"
    (network,) = (one for one in lab.cloud.compute.network_list.values() if one.name == "shop")
    assert app["templateOutputs"] == {
        "id": network.uuid,
        "size": "3",
        "names": ["x", "y"],
        "data": {"b": 2},
        "flag": "true",
    }


async def test_parameters_that_are_not_given_have_the_templates_defaults(hot: Any) -> None:
    """Also lists and JSON."""
    lab = hot()
    app = application(await lab.deploy(model(lab)))
    assert app["templateOutputs"]["names"] == ["a", "b"]
    assert app["templateOutputs"]["data"] == {"a": 1}


async def test_deploying_again_changes_nothing(hot: Any) -> None:
    """An unchanged model asks for no update, a changed parameter for one."""
    lab = hot(**{"Resources/HotFiles/a/b.txt": "text"})
    after = await lab.deploy(model(lab))
    after = await lab.deploy(after)
    assert "stack.push" not in lab.kinds()
    application(after)["templateParameters"]["size"] = 5
    after = await lab.deploy(after)
    assert "stack.push" in lab.kinds()
    assert application(after)["templateOutputs"]["size"] == "5"


async def test_an_immutable_parameter_cannot_be_changed(hot: Any) -> None:
    """The deployment ends before the stack is touched."""
    lab = hot()
    after = await lab.deploy(model(lab, fixed="y"))
    application(after)["templateParameters"]["fixed"] = "z"
    assert "cannot be changed: fixed" in await lab.failure(after)
    assert "stack.push" not in lab.kinds()


async def test_files_and_environments_go_with_the_template(hot: Any) -> None:
    """`get_file` finds files below HotFiles; a chosen environment sets parameters, another unsets."""
    template = """\
heat_template_version: 2013-05-23
parameters:
  title: {type: string, default: none}
resources:
  net: {type: 'OS::Neutron::Net', properties: {name: {get_param: title}}}
outputs:
  text: {value: {get_file: sub/a.txt}}
  title: {value: {get_param: title}}
"""
    lab = hot(
        template,
        **{
            "Resources/HotFiles/sub/a.txt": "hello",
            "Resources/HotEnvironments/big.yaml": "parameters: {title: big}\n",
        },
    )
    before = model(lab)
    application(before)["hotEnvironment"] = "big.yaml"
    after = await lab.deploy(before)
    assert application(after)["templateOutputs"] == {"text": "hello", "title": "big"}
    application(after)["hotEnvironment"] = None
    after = await lab.deploy(after)
    assert application(after)["templateOutputs"]["title"] == "none"
    application(after)["hotEnvironment"] = "../HotFiles/../../manifest.yaml"
    assert "manifest.yaml" in await lab.failure(after)


async def test_a_stack_that_fails_is_reported_and_made_later(hot: Any) -> None:
    """The error is a report and the deployment's; the next deployment goes on with the stack."""
    lab = hot(TEMPLATE.replace("OS::Neutron::Net", "OS::Neutron::Nett"))
    message = await lab.failure(model(lab))
    assert "did you mean OS::Neutron::Net" in message
    assert lab.texts("error") == [message]
    assert lab.texts("info") == REPORTS[:2]
    lab = hot()
    await lab.deploy(lab.reply.model)
    assert lab.texts("info")[-1] == REPORTS[-1]


async def test_parameters_are_refused_before_anything_is_made(hot: Any) -> None:
    """A value against a constraint does not even load; one that is missing is named."""
    lab = hot()
    assert "templateParameters" in await lab.failure(model(lab, title="much too long"))
    lab = hot("parameters:\n  p: {type: string}\nresources: {n: {type: 'OS::Neutron::Net'}}\n")
    assert "The parameter 'p' is not given" in await lab.failure(model(lab))
    size = "{type: string, constraints: [{custom_constraint: nova.flavor}]}"
    lab = hot(f"parameters:\n  p: {size}\nresources: {{n: {{type: 'OS::Neutron::Net'}}}}\n")
    assert "There is no flavor 'm9'" in await lab.failure(model(lab, p="m9"))
    assert lab.calls() == []


async def test_what_is_removed_takes_its_stack_along(hot: Any) -> None:
    """An application taken out of the model, and an environment deleted, leave no stack."""
    lab = hot()
    after = await lab.deploy(model(lab))
    lab.calls()
    after["ObjectsCopy"] = after["Objects"]
    after["Objects"] = {**after["Objects"], "applications": []}
    await lab.deploy(after)
    assert lab.calls() == ["delete_network"]
    assert not lab.cloud.stacks.store.stacks

    await lab.destroy(await lab.deploy(model(lab)))
    assert not lab.cloud.stacks.store.stacks


async def test_an_application_that_was_never_deployed_has_no_stack_to_remove(hot: Any) -> None:
    """Its end asks for nothing."""
    lab = hot()
    await lab.destroy(model(lab))
    assert lab.calls() == []
