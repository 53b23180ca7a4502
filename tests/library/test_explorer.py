"""`NetworkExplorer`, workflows and metadata definitions (core-library.md §4.8, §4.10)."""

from __future__ import annotations

from typing import Any

import pytest

from vetro.compute.client import ROUTERS
from vetro.compute.wire import Router, RouterChange
from vetro.stacks import ComputeNetworkDirectory, RouterWithoutGateway, choose_cidr
from vetro.stacks.memory import EXTERNAL_NETWORK, MemoryCompute

EXPLORER = "- $e: new(sys:NetworkExplorer)\n"


async def test_the_default_router_is_made_once(lab: Any) -> None:
    """With a gateway; the same again; and it says which network is behind it."""
    text = """
    - $router: $e.getDefaultRouter()
    - Return: [$router, $router = $e.getDefaultRouter(), $e.getExternalNetworkIdForRouter($router)]
    """
    router, same, external = await lab.probe(EXPLORER + text.replace("\n    ", "\n"))
    assert same
    assert external == EXTERNAL_NETWORK
    assert lab.cloud.compute.router_list[router].name == "murano-default-router"
    assert lab.calls() == ["create_router"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"network.create_router": False}, "Router murano-default-router was not found"),
        (
            {"network.external_network": "none"},
            "Router murano-default-router could not be created, no external network found",
        ),
    ],
)
async def test_a_router_that_cannot_be_had(lab: Any, options: dict[str, Any], said: str) -> None:
    """The exception is a KeyError with the text packages know."""
    lab.cloud.options.update(options)
    text = """- Try:
    - $e.getDefaultRouter()
  Catch:
    With: py:KeyError
    As: error
    Do:
      - Return: $error.message
"""
    assert said in await lab.probe(EXPLORER + text)


async def test_a_router_without_gateway_is_waited_for(lab: Any) -> None:
    """For half a minute; then the exception has the name packages catch."""
    compute: MemoryCompute = lab.cloud.compute
    compute.router_list["r"] = Router(
        uuid="r", name="murano-default-router", project_id="project", external_network=None
    )
    clock = [0.0]

    async def pause(seconds: float) -> None:
        clock[0] += seconds

    lab.cloud.networks = ComputeNetworkDirectory(compute, pause=pause, monotonic=lambda: clock[0])
    text = """- Try:
    - $e.getDefaultRouter()
  Catch:
    With: 'murano.common.exceptions.RouterInfoException'
    As: error
    Do:
      - Return: $error.message
"""
    said = await lab.probe(EXPLORER + text)
    assert said == "Please set external gateway for the router murano-default-router "
    assert 20 < clock[0] <= 30


async def test_a_gateway_that_comes_meanwhile(lab: Any) -> None:
    """Is taken."""
    compute: MemoryCompute = lab.cloud.compute
    router = Router(uuid="r", name="d", project_id="p", external_network=None)
    compute.router_list["r"] = router

    async def pause(seconds: float) -> None:
        await compute.change(ROUTERS, "r", RouterChange(external_network=EXTERNAL_NETWORK))

    directory = ComputeNetworkDirectory(compute, pause=pause, monotonic=lambda: 0.0)
    found = await directory.default_router("p", name="d", create=True, external_network="ext-net")
    assert found == "r"
    compute.router_list["r"] = router
    late = ComputeNetworkDirectory(compute, pause=pause, monotonic=iter([0.0, 31.0]).__next__)
    with pytest.raises(RouterWithoutGateway):
        await late.default_router("p", name="d", create=True, external_network="ext-net")


async def test_a_networks_range_is_stable_and_free(lab: Any) -> None:
    """The same id begins at the same place; what is used is passed by; at last there is none."""
    text = "- Return: list($e.getAvailableCidr(null, n1), $e.getAvailableCidr(null, n1))"
    first, again = await lab.probe(EXPLORER + text)
    assert first == again == choose_cidr("n1", [])
    taken = [f"10.0.{number}.0/24" for number in range(256)]
    assert choose_cidr("n1", [one for one in taken if one != "10.0.7.0/24"]) == "10.0.7.0/24"
    assert choose_cidr("n1", taken) is None
    upper = choose_cidr("n1", ["10.0.0.0/17"]) or ""
    assert upper.startswith(tuple(f"10.0.{n}." for n in range(128, 256)))
    small = choose_cidr("n", [], template="172.16.0.0", max_environments=4, max_hosts=14) or ""
    assert small.endswith("/28")


async def test_ranges_of_version_six_are_mapped(lab: Any) -> None:
    """As IPv4 addresses in IPv6 form."""
    four, six = await lab.probe(
        EXPLORER + "- Return: list($e.getAvailableCidr(null, n1), $e.getAvailableCidr(null, n1, 6))"
    )
    import ipaddress

    base = ipaddress.IPv6Network(six)
    assert base.network_address.ipv4_mapped == ipaddress.IPv4Network(four).network_address
    assert base.prefixlen == 120


@pytest.mark.parametrize(("version", "expected"), [(4, ["192.0.2.53"]), (6, ["2001:db8::53"])])
async def test_name_servers_of_a_version(lab: Any, version: int, expected: list[str]) -> None:
    """Those of the other version and text that is not an address are left out."""
    lab.cloud.options["network.default_dns"] = ["192.0.2.53", "2001:db8::53", "nonsense"]
    assert await lab.probe(EXPLORER + f"- Return: $e.getDefaultDns({version})") == expected


async def test_name_servers_for_packages_of_the_first_formats(lab: Any) -> None:
    """They assign it to a text."""
    lab.format = "1.0"
    lab.cloud.options["network.default_dns"] = ["192.0.2.53", "192.0.2.54"]
    assert await lab.probe(EXPLORER + "- Return: $e.getDefaultDns()") == "192.0.2.53"
    lab.cloud.options["network.default_dns"] = []
    assert await lab.probe(EXPLORER + "- Return: $e.getDefaultDns()") is None


async def test_what_there_is(lab: Any) -> None:
    """Maps with Neutron's keys."""
    text = """
    - $.net.deploy()
    - $e: new(sys:NetworkExplorer)
    - Return: [$e.listNetworks(), $e.listSubnetworks(), $e.listPorts(), $e.listNeutronExtensions(),
        $e.getExternalNetworkIdForNetwork($.net.openstackId)]
    """
    networks, subnets, ports, extensions, external = await lab.probe(text, net=lab.network())
    outside = next(one for one in networks if one["router:external"])
    assert outside["id"] == EXTERNAL_NETWORK == external
    assert {"id", "name", "tenant_id", "router:external"} <= set(networks[0])
    assert {"id", "name", "network_id", "cidr", "gateway_ip", "dns_nameservers"} <= set(subnets[0])
    assert ports == []
    assert {"alias": "security-group"} in extensions


# Workflows and metadata


class Workflows:
    """A Mistral that needs some polls."""

    def __init__(self, *states: tuple[str, Any]) -> None:
        self.states = list(states)
        self.started: list[Any] = []
        self.uploaded: list[str] = []

    async def upload(self, definition: str, region: str | None) -> None:
        """Keep it."""
        self.uploaded.append(definition)

    async def start(self, name: str, inputs: Any, params: Any, region: str | None) -> str:
        """Keep it."""
        self.started.append((name, inputs, params, region))
        return "x-1"

    async def execution(self, id_: str, region: str | None) -> tuple[str, Any]:
        """The next state."""
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


async def test_a_workflow_is_run_to_its_end(lab: Any) -> None:
    """Its output without what Mistral adds; it is asked every two seconds."""
    output = '{"a": 1, "openstack": 2, "__execution": 3, "task": 4}'
    lab.cloud.workflows = Workflows(("RUNNING", None), ("RUNNING", None), ("SUCCESS", output))
    text = """
    - $m: new(sys:MistralClient, regionName => r)
    - $m.upload('def')
    - Return: $m.run(flow, 600, {x => 1}, {y => 2})
    """
    assert await lab.probe(text) == {"a": 1}
    assert lab.cloud.workflows.started == [("flow", {"x": 1}, {"y": 2}, "r")]
    assert lab.cloud.workflows.uploaded == ["def"]
    assert lab.cloud.pauses == [2.0, 2.0]


@pytest.mark.parametrize(
    ("states", "timeout", "said"),
    [
        (
            [("ERROR", "why")],
            600,
            "Mistral execution completed with ERROR. Execution id: x-1. Output: why",
        ),
        ([("RUNNING", None)], 4, "Mistral run timed out. Execution id: x-1."),
    ],
)
async def test_a_workflow_that_does_not_end_well(
    lab: Any, states: list[Any], timeout: int, said: str
) -> None:
    """The exception has the old name and the exact text."""
    lab.cloud.workflows = Workflows(*states)
    text = f"""- Try:
    - new(sys:MistralClient).run(flow, {timeout})
  Catch:
    With: 'murano.engine.system.workflowclient.MistralError'
    As: e
    Do:
      - Return: $e.message
"""
    assert await lab.probe(text) == said


async def test_a_workflow_need_not_be_waited_for(lab: Any) -> None:
    """With no time to wait the execution's id is the answer."""
    lab.cloud.workflows = Workflows(("RUNNING", None))
    assert await lab.probe("- Return: new(sys:MistralClient).run(flow, 0)") == "x-1"
    assert lab.cloud.pauses == []


async def test_without_a_workflow_service(lab: Any) -> None:
    """Creating the client is not an error, using it is; both names catch it."""
    text = """- $m: new(sys:MistralClient)
- Try:
    - $m.run(flow)
  Catch:
    With: py:ImportError
    As: e
    Do:
      - Return: $e.message
"""
    assert "Workflows cannot be run" in await lab.probe(text)


class Definitions:
    """A catalog of metadata definitions that counts."""

    def __init__(self) -> None:
        self.asked = 0

    async def namespaces(self, resource_type: str, region: str | None) -> Any:
        """One."""
        self.asked += 1
        return [{"namespace": "ns"}] if resource_type == "OS::Nova::Server" else []

    async def objects(self, namespace: str, region: str | None) -> Any:
        """One with one property."""
        self.asked += 1
        return [{"name": "o", "properties": {"tier": {}}}]


@pytest.mark.parametrize(("cache", "asked"), [("true", 2), ("false", 4)])
async def test_where_metadata_applies(lab: Any, cache: str, asked: int) -> None:
    """To resource types whose definitions have the property; answers are remembered if wanted."""
    lab.cloud.metadefs = Definitions()
    text = f"""
    - $b: new(sys:MetadefBrowser, cache => {cache})
    - $first: $b.canBeAppliedTo(tier, 'OS::Nova::Server')
    - Return: list($first, $b.canBeAppliedTo(other, 'OS::Nova::Server'))
    """
    assert await lab.probe(text) == [True, False]
    assert lab.cloud.metadefs.asked == asked


async def test_without_definitions_nothing_applies(lab: Any) -> None:
    """That is not an error."""
    text = "- Return: new(sys:MetadefBrowser).canBeAppliedTo(tier, 'OS::Nova::Server')"
    assert await lab.probe(text) is False
