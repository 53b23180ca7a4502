"""Objects that leave a model while others, which stay, still use what they have made (decision 0530)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vetro.engine.system.template_parts import with_needed

CINDER = "io.murano.resources.CinderVolume"
CLASSES = """
Name: App
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:Instance)}
  other: {Contract: $.class(std:Object)}
  idle: {Contract: $.bool(), Default: false}
Methods:
  deploy:
    Body:
      - If: $.instance != null and not $.idle
        Then:
          - $.instance.deploy()
---
# Pushes before the others are deployed, something else each time.
Name: Early
Extends: std:Application
Methods:
  deploy:
    Body:
      - $stack: $this.find(std:Environment).stack
      - $stack.setResource(marker, {type => 'OS::Heat::Value', properties => {value => str(random())}})
      - $stack.push()
"""


def environment(lab: Any, **app: Any) -> Any:
    """An environment whose first application pushes, and whose second has a machine."""
    lab.add_class(CLASSES)
    return lab.environment(
        lab.application("early", "test.Early"), lab.application("app", "test.App", **app)
    )


def volume(id_: str = "v", **properties: Any) -> Any:
    """A volume."""
    return {"?": {"id": id_, "type": CINDER}, "size": 1, **properties}


def with_a_group(lab: Any) -> Any:
    group = {"?": {"id": "g", "type": "io.murano.resources.InstanceAffinityGroup"}}
    return environment(lab, instance=lab.instance(instanceAffinityGroup="g"), other=group)


def without_the_group(app: Any) -> None:
    app["instance"]["instanceAffinityGroup"] = app["other"] = None


def with_a_network(lab: Any) -> Any:
    networks = {
        "useEnvironmentNetwork": True,
        "useFlatNetwork": False,
        "customNetworks": [lab.network("second", name="second")],
        "primaryNetwork": None,
    }
    return environment(lab, instance=lab.instance(networks=networks))


def without_the_network(app: Any) -> None:
    app["instance"]["networks"]["customNetworks"] = []


def with_a_boot_volume(lab: Any) -> Any:
    device = {"volume": volume(sourceImage="debian"), "deviceName": "vda", "bootIndex": 0}
    return environment(lab, instance=lab.instance(image=None, blockDevices=[device]))


def without_the_boot_volume(app: Any) -> None:
    app["instance"].update(image="debian", blockDevices=[])


def with_a_source(lab: Any) -> Any:
    given = {"/data": volume(sourceVolume=volume("source"))}
    return environment(lab, instance=lab.instance(volumes=given))


def without_the_source(app: Any) -> None:
    app["instance"]["volumes"]["/data"]["sourceVolume"] = None


LEAVING = [
    (with_a_group, without_the_group, ["NovaServerGroup-g"]),
    (with_a_network, without_the_network, ["network-second", "subnet-second", "ri-second"]),
    (with_a_boot_volume, without_the_boot_volume, ["vol-v"]),
    (with_a_source, without_the_source, ["vol-source"]),
]


@pytest.mark.parametrize(("make", "take", "names"), LEAVING)
async def test_what_a_machine_uses_is_taken_out(
    lab: Any, make: Callable[[Any], Any], take: Callable[[Any], None], names: list[str]
) -> None:
    """It goes when the machine has let go of it, although another application pushes before."""
    model = await lab.deploy(make(lab))
    assert set(names) <= (await lab.template())["resources"].keys()
    take(model["Objects"]["applications"][1])
    model = await lab.deploy(model)
    resources = (await lab.template())["resources"]
    assert "web" in resources
    assert not set(names) & resources.keys()
    assert lab.texts("error") == lab.texts("warning") == []
    assert "leaving" not in str(model["Attributes"])


async def test_what_is_still_used_stays_until_a_later_session(lab: Any) -> None:
    """The user is told who uses it; unchanged nothing is pushed; it goes when the machine is deployed."""
    model = await lab.deploy(with_a_group(lab))
    app = model["Objects"]["applications"][1]
    without_the_group(app)
    app["idle"] = True
    model = await lab.deploy(model)
    assert "NovaServerGroup-g" in (await lab.template())["resources"]
    told = [text for text in lab.texts("warning") if "NovaServerGroup-g was removed" in text]
    assert [text.rpartition("until ")[2] for text in told] == ["web no longer uses it"]
    model["Objects"]["applications"][0] = lab.application("app2", "test.App")
    model = await lab.deploy(model)
    kept = (await lab.template())["resources"]
    assert "marker" in kept  # nobody removes what a program has put there without an object
    before = len(lab.effects)
    model = await lab.deploy(model)
    assert "stack.push" not in lab.kinds(before)
    model["Objects"]["applications"][1]["idle"] = False
    model = await lab.deploy(model)
    assert "NovaServerGroup-g" not in (await lab.template())["resources"]
    assert "leaving" not in str(model["Attributes"])


async def test_what_could_not_be_removed_goes_with_a_later_deployment(lab: Any) -> None:
    """When every update of a session fails, what its objects removed is not forgotten."""
    model = environment(lab, instance=lab.instance(), other=None)
    model = await lab.deploy(model)
    model["Objects"]["applications"][1]["instance"] = None
    away = ConnectionError("the cloud is away")

    async def refuse(*_args: Any, **_options: Any) -> Any:
        raise away

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab.cloud.stacks, "update", refuse)
        model = await lab.deploy(model, fails=True)
    assert len(lab.cloud.compute.server_list) == 1
    model = await lab.deploy(model)
    assert lab.cloud.compute.server_list == {}
    resources = (await lab.template())["resources"]
    assert not [name for name in resources if "web" in name]
    assert not [name for name in (await lab.template())["outputs"] if "web" in name]
    assert "leaving" not in str(model["Attributes"])


async def test_what_never_was_is_not_invented(lab: Any) -> None:
    """A whole template that refers to what it does not have is refused, even if it was there before."""
    net = "{type => 'OS::Neutron::Net'}"
    value = "{type => 'OS::Heat::Value', properties => {value => {get_resource => n}}}"
    await lab.probe(
        f"- $stack.updateTemplate({{resources => {{n => {net}, v => {value}}}}})\n- $stack.push()"
    )
    said = await lab.probe(
        f"- $stack.setTemplate({{resources => {{v => {value}}}}})\n- $stack.push()", fails=True
    )
    assert "there is no resource 'n'" in said


@pytest.mark.parametrize(
    ("template", "key"),
    [
        ({"resources": {"a": {"type": "T", "depends_on": ["b"]}}}, "resources"),
        ({"Resources": {"a": {"Type": "T", "Properties": {"x": {"Ref": "b"}}}}}, "Resources"),
    ],
)
def test_what_is_needed_comes_in_the_templates_spelling(template: Any, key: str) -> None:
    """With what it needs itself; the rest does not come back."""
    leaving = {
        "b": {"type": "T", "properties": {"y": {"get_attr": ["c", "z"]}}},
        "c": {"type": "T"},
        "d": {"type": "T"},
    }
    found = with_needed(template, leaving)
    assert set(found) == {key}
    assert set(found[key]) == {"a", "b", "c"}
    type_ = "type" if key == "resources" else "Type"
    assert {body[type_] for body in found[key].values()} == {"T"}
    assert with_needed(template, {"d": {}}) is template
