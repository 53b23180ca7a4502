"""Misfortunes of applications: an engine that is killed while it releases servers, volumes that are
elsewhere, mistakes that are mended, templates that are circles.

What else may happen has its test where it belongs: servers that never boot, that are gone or are lost,
pools that are empty, two actions at once (test_framework.py); an engine that dies at any other effect
(test_faults.py); values against every kind of constraint (tests/packages/test_hot.py); bundles with missing
or circular requirements, files and images with other hashes (tests/cli/service/test_packages.py); a volume
that is full (tests/server/test_samples.py).
"""

from __future__ import annotations

import copy
from typing import Any

from vetro.engine.system.memory import MemoryCloud
from vetro.engine.system.template_parts import without_unmade
from vetro.stacks import ResourceFailure
from vetro.stacks.memory import MemoryCompute

from .test_faults import DyingEffects
from .test_framework import Framework, app_of, framework
from .test_heat_packages import hot, model
from .test_volumes import volume

__all__ = ["framework", "hot"]


async def test_an_engine_killed_between_begin_and_end_of_a_release(
    framework: Framework, tmp_path: Any
) -> None:
    """The same action again, on the model of before, ends as if nothing had happened: whatever the
    killed engine had done, the same servers are left, and the next ones are new."""
    # One runtime for every run, as an engine's workers have it.
    runtime = framework.make()
    for package in [*framework.libraries, *framework.packages]:
        runtime.add_package(package)
    framework.make, framework.libraries, framework.packages = (lambda: runtime), [], []
    scale = {"object_id": "app", "method": "scaleIn", "args": {}}
    before = await framework.deploy(framework.web(3, "Draining", scaleFactor=2))
    reply = await framework.run(before, scale)
    assert not reply.is_exception, reply.details
    expected = app_of(reply.model)["servers"]
    # Of the whole action only its release: from the last word of who leaves to the stack without them.
    kinds = framework.kinds()
    release = range(kinds.index("stack.push"), len(kinds) - kinds[::-1].index("stack.push") + 2)
    assert len(release) < len(kinds)
    for number in release:
        framework.cloud = MemoryCloud(tmp_path, MemoryCompute())
        before = await framework.deploy(framework.web(3, "Draining", scaleFactor=2))
        session = framework.session()
        session.effects = DyingEffects(number, after=False)
        await session.run_task_async({"action": scale, "model": copy.deepcopy(before)})
        reply = await framework.run(before, scale)
        assert not reply.is_exception, reply.details
        assert framework.names() == ["web-1"]
        assert app_of(reply.model)["servers"]["numItems"] == expected["numItems"] == 1
        assert app_of(reply.model)["servers"]["provider"]["allocated"] == 1
        await framework.call(reply.model, "app", "scaleOut")
        assert framework.names() == ["web-1", "web-2", "web-3"]
        framework.counted()


async def test_a_volume_that_is_attached_elsewhere(lab: Any) -> None:
    """The machine that comes second fails with the name of the one that has it; when that one lets go
    of it, the next deployment attaches it."""
    first = lab.instance("one", "one", volumes={"/data": volume(lab)})
    second = lab.instance("two", "two", volumes={"/data": "v"})
    text = "- $.one.deploy()\n- $.two.deploy()"
    said = await lab.probe(text, lab.environment(), one=first, two=second, fails=True)
    (made,) = lab.cloud.compute.volume_list.values()
    holder = made.vm_uuid
    assert f"volume {made.uuid} is attached to VM {holder}: detach it there first" in said
    assert lab.cloud.compute.server_list[holder].spec.name == "one"
    probe = lab.model["Objects"]["applications"][0]
    probe["two"]["volumes"] = probe["one"].pop("volumes")
    await lab.probe(text, one=..., two=...)
    (made,) = lab.cloud.compute.volume_list.values()
    assert lab.cloud.compute.server_list[made.vm_uuid].spec.name == "two"


async def test_a_mistake_is_mended_whoever_is_deployed_first(lab: Any) -> None:
    """A machine of an image that does not exist fails the deployment; with another image the next one
    succeeds, although another machine's update of the stack comes before the mended one's."""
    machines = [lab.instance(name, name) for name in ("one", "two", "three")]
    machines[1]["image"] = "nope"
    text = "- $.one.deploy()\n- $.two.deploy()\n- $.three.deploy()"
    given = dict(zip(("one", "two", "three"), machines, strict=True))
    said = await lab.probe(text, lab.environment(), fails=True, **given)
    assert "There is no image 'nope'" in said
    (stack,) = lab.cloud.stacks.store.stacks.values()
    assert stack.snapshot().unmade == ["two"]
    before = [one.spec.name for one in lab.cloud.compute.server_list.values()]
    assert before == ["one"]
    lab.model["Objects"]["applications"][0]["two"]["image"] = "debian"
    await lab.probe(text, one=..., two=..., three=...)
    names = sorted(one.spec.name for one in lab.cloud.compute.server_list.values())
    assert names == ["one", "three", "two"]


async def test_what_was_not_made_can_still_be_read(lab: Any) -> None:
    """A program finds in the template of a failed stack what it has put there; pushed by others it is
    left out, asked for in the same words it is made."""
    lab.cloud.compute.fail["create_security_group"] = ResourceFailure("full")
    group = (
        "- $stack.updateTemplate({resources => {g => {type => 'OS::Neutron::SecurityGroup'}}})\n"
    )
    net = "- $stack.updateTemplate({resources => {n => {type => 'OS::Neutron::Net'}}})\n"
    push = "- $stack.push()\n"
    await lab.probe(net + push)
    await lab.probe(group + push, fails=True)
    lab.cloud.compute.fail.clear()
    found = await lab.probe(net + push + "- Return: $stack.current().resources.keys().toList()")
    assert found == ["n", "g"]
    assert lab.cloud.compute.group_list == {}
    await lab.probe(group + push)
    assert len(lab.cloud.compute.group_list) == 1


def test_what_needs_each_other_is_left_out_together() -> None:
    """What was not made goes with its outputs; what a made resource needs stays, and what that needs."""
    template = {
        "resources": {
            "made": {"type": "T", "properties": {"x": {"get_attr": ["needed", "y"]}}},
            "needed": {"type": "T", "depends_on": "deeper"},
            "deeper": {"type": "T"},
            "failed": {"type": "T"},
            "never": {"type": "T", "properties": {"x": {"get_resource": "failed"}}},
        },
        "outputs": {"a": {"value": {"get_resource": "never"}}, "b": {"value": 1}},
    }
    left = without_unmade(template, ["needed", "deeper", "failed", "never"])
    assert list(left["resources"]) == ["made", "needed", "deeper"]
    assert list(left["outputs"]) == ["b"]
    assert without_unmade(template, []) is template
    # A push of nothing would be the end of the stack.
    assert without_unmade(template, template["resources"]) is template


CIRCLE = """\
heat_template_version: 2013-05-23
resources:
  a: {type: 'OS::Heat::Value', properties: {value: {get_attr: [b, value]}}}
  b: {type: 'OS::Heat::Value', properties: {value: {get_attr: [c, value]}}}
  c: {type: 'OS::Heat::Value', properties: {value: {get_attr: [a, value]}}}
  net: {type: 'OS::Neutron::Net', properties: {name: n}}
"""


async def test_a_template_whose_resources_need_each_other(hot: Any) -> None:
    """The circle is named in its order, and nothing is made."""
    lab = hot(CIRCLE)
    given = model(lab)
    del given["Objects"]["applications"][0]["templateParameters"]
    said = await lab.failure(given)
    assert "Resources have circular dependencies: " in said
    for name in "abc":
        assert name in said.rpartition(":")[2]
    assert "net" not in said.rpartition(":")[2]
    assert lab.calls() == []
