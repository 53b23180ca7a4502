"""Misfortunes of applications: an engine that is killed while it releases servers, volumes that are
elsewhere, templates that are circles.

What else may happen has its test where it belongs: servers that never boot, that are gone or are lost,
pools that are empty, two actions at once (test_framework.py); an engine that dies at any other effect
(test_faults.py); values against every kind of constraint (tests/packages/test_hot.py); bundles with missing
or circular requirements, files and images with other hashes (tests/cli/test_client.py); a volume that is
full (tests/server/test_samples.py).
"""

from __future__ import annotations

import copy
from typing import Any

from vetro.engine.system.memory import MemoryCloud
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
    """The machine that comes second fails with the name of the one that has it. Without the wish it
    deploys, and when the first lets go of the volume, it has it."""
    first = lab.instance("one", "one", volumes={"/data": volume(lab)})
    second = lab.instance("two", "two", volumes={"/data": "v"})
    text = "- $.one.deploy()\n- $.two.deploy()"
    said = await lab.probe(text, lab.environment(), one=first, two=second, fails=True)
    (made,) = lab.cloud.compute.volume_list.values()
    (holder,) = made.attachments
    assert f"volume {made.uuid} is attached to VM {holder}: detach it there first" in said
    assert lab.cloud.compute.server_list[holder].spec.name == "one"
    lab.model["Objects"]["applications"][0]["two"]["volumes"] = {}
    await lab.probe("- $.two.deploy()\n- $.one.deploy()", one=..., two=...)
    assert list(made.attachments) == [holder]
    probe = lab.model["Objects"]["applications"][0]
    probe["two"]["volumes"] = probe["one"].pop("volumes")
    await lab.probe(text, one=..., two=...)
    (made,) = lab.cloud.compute.volume_list.values()
    (holder,) = made.attachments
    assert lab.cloud.compute.server_list[holder].spec.name == "two"


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
