"""The same stacks on every cloud: what is made, what the outputs are, and that nothing is left."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.stacks.conformance.cases import CASES, SERVER, Case, Json, at, made, ref

from vetro.stacks import MemoryStacks, StackStatus, TemplateError
from vetro.stacks.resources import TYPES
from vetro.stacks.template.balancers import BALANCING

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("case", CASES, ids=[re.sub(r"\W+", "-", one.says) for one in CASES])
async def test_a_stack(cloud: Any, case: Case) -> None:
    """Every step settles, outputs are the same everywhere, repeating changes nothing."""
    project = cloud.new_project()

    def template(resources: Mapping[str, Json]) -> dict[str, Any]:
        given = {"resources": resources, "outputs": case.outputs}
        return {"heat_template_version": case.version, **at(given, cloud.subnet)}

    more = {"parameters": case.parameters, "files": case.files}
    stack = await cloud.stacks.create(project, "s", template(case.resources), **more)
    try:
        assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
        _check(case, stack.outputs, cloud.subnet)
        before = {name: one.physical_id for name, one in stack.resources.items()}
        steps = (case.resources, *case.then)
        for resources in steps:
            stack = await cloud.stacks.update(project, "s", template(resources), **more)
            assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, "")
            _check(case, stack.outputs, cloud.subnet)
        after = {name: one.physical_id for name, one in stack.resources.items()}
        assert {name: after[name] for name in case.kept} == {n: before[n] for n in case.kept}
        assert not {name for name in case.replaced if after[name] == before[name]}
        plan = await cloud.stacks.plan(project, "s", template(steps[-1]), **more)
        assert plan.empty, [change for change in plan.changes if change.kind != "keep"]
    finally:
        left = await cloud.stacks.delete(project, "s")
    assert left is None, left.reason


REFUSED: list[tuple[Json, str]] = [
    (made("AWS::ElasticLoadBalancing::LoadBalancer"), "has Neutron's load balancers"),
    (made("OS::Trove::Instance"), "this back end has no such resources"),
    (made("OS::Nova::Servers"), "did you mean OS::Nova::Server?"),
    (made("OS::Neutron::Net", colour="red"), "OS::Neutron::Net has no property 'colour'"),
    (made("OS::Neutron::Net", shared=True), "a network belongs to one project"),
    (made("OS::Neutron::Subnet", network="n", cidr="10.0.0.1/24"), "the property 'cidr' is"),
    (
        made("OS::Neutron::Subnet", network="n", cidr="fd7e::/64", ipv6_ra_mode="slaac"),
        "instances get their IPv6 addresses with their configuration",
    ),
    (made("OS::Nova::ServerGroup", policies=["odd"]), "use one of affinity"),
    (made("OS::Cinder::Volume", size="large"), "'size' is not an integer"),
    (made("OS::Heat::RandomString", length=0), "length"),
    (made("OS::Heat::WaitCondition", handle="h", timeout=99_999_999), "timeout"),
    (
        made("OS::Heat::SoftwareDeployment", config="c", server=ref("vm")),
        "user_data_format",
    ),
    (made("OS::Neutron::HealthMonitor", type="PING", delay=1, timeout=1, max_retries=1), "use TCP"),
    (made("OS::Neutron::FloatingIP"), "OS::Neutron::FloatingIP needs floating_network"),
]


@pytest.mark.parametrize(("resource", "reason"), REFUSED)
async def test_what_no_cloud_has_is_refused(cloud: Any, resource: Json, reason: str) -> None:
    """With its name and the reason when the template is validated; there is no stack then."""
    project = cloud.new_project()
    template = {
        "heat_template_version": "2013-05-23",
        "resources": at({**SERVER, "odd": resource}, cloud.subnet),
    }
    with pytest.raises(TemplateError) as error:
        await cloud.stacks.create(project, "s", template)
    assert (error.value.resource, reason in str(error.value)) == ("odd", True), error.value
    assert await cloud.stacks.get(project, "s") is None


NAMED = (
    *("nova.flavor", "nova.keypair", "nova.server", "glance.image", "cinder.volume"),
    *(f"neutron.{one}" for one in ("network", "subnet", "router", "port", "security_group")),
)


async def test_what_a_parameter_names_is_looked_up_on_every_cloud(cloud: Any) -> None:
    """A name of another stack's network and its id will do; what is not there is refused, of each kind."""
    project = cloud.new_project()
    net = {
        "heat_template_version": "2013-05-23",
        "resources": {"net": made("OS::Neutron::Net", name="n")},
    }
    before = await cloud.stacks.create(project, "before", net)

    def asking(kind: str) -> Json:
        declared = {"type": "string", "constraints": [{"custom_constraint": kind}]}
        return {
            "heat_template_version": "2013-05-23",
            "parameters": {"p": declared},
            "resources": {},
        }

    names = ("n", before.resources["net"].physical_id)
    for kind, value in (*(("neutron.network", one) for one in names), ("glance.image", "debian")):
        await cloud.stacks.plan(project, "s", asking(kind), parameters={"p": value})
    for kind in NAMED:
        with pytest.raises(TemplateError, match="The parameter 'p' is 'absent'"):
            await cloud.stacks.create(project, "s", asking(kind), parameters={"p": "absent"})
    with pytest.raises(TemplateError, match="no network"):
        await cloud.stacks.plan(
            cloud.new_project(), "s", asking("neutron.network"), parameters={"p": "n"}
        )
    await cloud.stacks.delete(project, "before")


async def test_every_type_has_a_case(cloud: Any) -> None:
    """Whatever a template may have is tried on every cloud, here or in a module beside this one."""
    tried = "".join(one.read_text() for one in Path(__file__).parent.glob("*.py"))
    assert [one for one in sorted(TYPES) if f'"{one}"' not in tried and one != BALANCING] == []


async def test_every_cloud_offers_the_same(cloud: Any) -> None:
    """What a package may use in its tests it may use on nodes."""
    assert cloud.offers == await MemoryStacks().offers()


def _check(case: Case, outputs: Mapping[str, Any], subnet: str) -> None:
    for name, expected in at(dict(case.expected), subnet).items():
        if callable(expected):
            assert expected(outputs[name]), (name, outputs[name])
        else:
            assert outputs[name] == expected, name
