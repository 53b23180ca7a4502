"""Networks, routers, security groups, shared addresses (core-library.md §3.6-3.7, §4.8-4.9, §5.5)."""

from __future__ import annotations

from typing import Any

import pytest

from vetro.compute.client import NETWORKS, ROUTERS, SUBNETS
from vetro.compute.wire import NewNetwork, NewRouter, NewSubnet, Subnet
from vetro.stacks import AddressRangeTaken, ResourceFailure
from vetro.stacks.memory import EXTERNAL_NETWORK

N1, S1, R1 = (f"00000000-0000-4000-8000-00000000010{number}" for number in range(3))


def subnet(cidr: str, network: str = "other", project: str = "another") -> Subnet:
    """A subnet of somebody else."""
    return Subnet(
        uuid=f"s-{cidr}",
        network_uuid=network,
        name="s",
        project_id=project,
        cidr=cidr,
        gateway=None,
    )


async def test_a_network_is_made_once(lab: Any) -> None:
    """Range, router and name servers are found; a second deployment pushes nothing."""
    lab.cloud.options["network.default_dns"] = ["192.0.2.53", "2001:db8::53", "no address"]
    text = """
    - $.net.deploy()
    - $.net.deploy()
    - Return: [$.net.openstackId, $.net.subnetCidr, $.net.externalRouterId, $.net.dnsNameservers]
    """
    id_, cidr, router, dns = await lab.probe(text, net=lab.network())
    assert id_ in lab.cloud.compute.network_list
    assert cidr.startswith("10.0.")
    assert cidr.endswith(".0/24")
    assert lab.cloud.compute.router_list[router].external_network == EXTERNAL_NETWORK
    assert dns == ["192.0.2.53"]
    assert lab.kinds().count("stack.push") == 1
    resources = (await lab.template())["resources"]
    assert resources["network-net"]["properties"] == {"name": "env-network-net"}
    assert resources["ri-net"]["properties"]["router_id"] == router


async def test_a_network_describes_itself(lab: Any) -> None:
    """The keys that packages read; references are those of the template."""
    text = "- $.net.deploy()\n- Return: $.net.describe()"
    found = await lab.probe(text, net=lab.network())
    assert found == {
        "provider": "Neutron",
        "netName": "env-network-net",
        "netId": {"get_resource": "network-net"},
        "subnetId": {"get_resource": "subnet-net"},
        "cidr": found["cidr"],
        "dns": [],
        "gateway": None,
        "floatingIpNetId": EXTERNAL_NETWORK,
    }
    assert found["cidr"]


async def test_releasing_a_network_leaves_nothing(lab: Any) -> None:
    """Resources and outputs go, and it can be made again."""
    text = "- $.net.deploy()\n- $.net.releaseResources()\n- Return: $.net.openstackId"
    assert await lab.probe(text, net=lab.network()) is None
    assert not lab.cloud.stacks.store.stacks
    assert lab.cloud.compute.subnet_list == {}
    again = "- $.net.deploy()\n- Return: $.net.openstackId"
    assert await lab.probe(again, net=...) in lab.cloud.compute.network_list


async def test_a_network_nobody_refers_to_goes(lab: Any) -> None:
    """Its resources leave the stack with the object."""
    await lab.probe("- $.net.deploy()\n- $.vm.deploy()", net=lab.network(), vm=lab.instance(
        networks={"useEnvironmentNetwork": False, "useFlatNetwork": False, "customNetworks": ["net"]}
    ))  # fmt: skip
    assert lab.cloud.compute.subnet_list
    await lab.probe("- Return: 1", net=None, vm=None)
    assert lab.cloud.compute.subnet_list == {}
    assert lab.cloud.compute.server_list == {}
    assert not lab.cloud.stacks.store.stacks


async def test_a_range_that_somebody_else_took_meanwhile(lab: Any) -> None:
    """Of two deployments that chose the same range, the second takes the next range."""
    taken: list[str] = []

    def race(call: str) -> None:
        if call == "create_subnet" and not taken:
            chosen = next(iter(lab.cloud.stacks.store.stacks.values())).template
            cidr = chosen["resources"]["subnet-net"]["properties"]["cidr"]
            taken.append(cidr)
            lab.cloud.compute.subnet_list["theirs"] = subnet(cidr)

    lab.cloud.compute.before = race
    text = "- $.net.deploy()\n- Return: $.net.subnetCidr"
    cidr = await lab.probe(text, net=lab.network())
    assert taken
    assert cidr not in taken
    assert cidr in {one.cidr for one in lab.cloud.compute.subnet_list.values()}
    assert lab.texts("error") == []
    lab.calls()
    await lab.deploy(lab.model)
    assert lab.calls() == []


async def test_a_range_of_the_users_own_is_not_replaced(lab: Any) -> None:
    """The conflict is reported to the user, who has to solve it."""
    lab.cloud.compute.subnet_list["theirs"] = subnet("10.9.0.0/24")
    said = await lab.probe(
        "- $.net.deploy()", net=lab.network(subnetCidr="10.9.0.0/24"), fails=True
    )
    assert "overlaps 10.9.0.0/24" in said


async def test_trying_other_ranges_has_an_end(lab: Any) -> None:
    """When every range is refused, the refusal is reported."""
    lab.cloud.compute.fail["create_subnet"] = AddressRangeTaken("taken")
    assert "taken" in await lab.probe("- $.net.deploy()", net=lab.network(), fails=True)
    assert 2 < lab.kinds().count("stack.push") <= 20


async def test_other_failures_are_not_tried_again(lab: Any) -> None:
    """Only a range can be chosen again."""
    lab.cloud.compute.fail["create_subnet"] = ResourceFailure("broken")
    assert "broken" in await lab.probe("- $.net.deploy()", net=lab.network(), fails=True)
    assert lab.kinds().count("stack.push") == 1


async def test_when_every_range_is_used(lab: Any) -> None:
    """The network is named, and what can be done."""
    lab.cloud.options.update({"network.max_environments": 2, "network.max_hosts": 250})
    for number in range(2):
        lab.cloud.compute.subnet_list[str(number)] = subnet(f"10.0.{number}.0/24")
    said = await lab.probe("- $.net.deploy()", net=lab.network(), fails=True)
    assert "no free address range for the network env-network" in said


async def test_networks_of_one_deployment_do_not_meet(lab: Any) -> None:
    """Made side by side they have ranges of their own."""
    lab.cloud.options.update({"network.max_environments": 4, "network.max_hosts": 250})
    properties = {f"n{number}": lab.network(f"n{number}", name=f"n{number}") for number in range(4)}
    text = """
    - $nets: list($.n0, $.n1, $.n2, $.n3)
    - $nets.pselect($.deploy())
    - Return: $nets.select($.subnetCidr).toList()
    """
    found = await lab.probe(text, **properties)
    assert sorted(found) == [f"10.0.{number}.0/24" for number in range(4)]


async def test_networks_of_the_first_release(lab: Any) -> None:
    """`NewNetwork` takes one name server, is made once, and can be without any."""
    lab.cloud.options["network.default_dns"] = ["192.0.2.53", "192.0.2.54"]
    kind = "io.murano.lib.networks.neutron.NewNetwork"

    def new(id_: str, **properties: Any) -> Any:
        return lab.application(id_, kind, name=id_, **properties)

    text = """
    - $nets: list($.a, $.b, $.c)
    - $nets.select($.deploy()).toList()
    - $.a.ensureNetworkConfigured()
    - Return: $nets.select(list($.dnsNameserver, $.dnsNameservers)).toList()
    """
    found = await lab.probe(
        text, a=new("a"), b=new("b", dnsNameserver="192.0.2.1"), c=new("c", useDefaultDns=False)
    )
    assert found == [["192.0.2.53", ["192.0.2.53"]], ["192.0.2.1", ["192.0.2.1"]], [None, []]]
    assert len(lab.cloud.compute.network_list) == 4


async def test_without_uplink_there_is_no_router(lab: Any) -> None:
    """Without an uplink the network has no router and no floating addresses."""
    text = "- $.net.deploy()\n- Return: [$.net.externalRouterId, $.net.describe().floatingIpNetId]"
    assert await lab.probe(text, net=lab.network(autoUplink=False)) == [None, None]
    assert lab.cloud.compute.router_list == {}


# Networks that exist


async def existing(lab: Any, project: str = "project") -> None:
    """A network with a subnet and a router to the outside."""
    compute = lab.cloud.compute
    await compute.create(NETWORKS, NewNetwork(uuid=N1, project_id=project, name="there"))
    subnet = NewSubnet(
        uuid=S1, project_id=project, network_uuid=N1, name="sub", cidr="10.7.0.0/24",
        gateway="10.7.0.1", dns=["192.0.2.9"],
    )  # fmt: skip
    await compute.create(SUBNETS, subnet)
    router = NewRouter(uuid=R1, project_id=project, name="r", external_network=EXTERNAL_NETWORK)
    await compute.create(ROUTERS, router)
    await compute.add_router_interface(R1, S1)
    compute.calls.clear()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"internalNetworkName": "there", "internalSubnetworkName": "sub"},
        {
            "internalNetworkName": N1,
            "internalSubnetworkName": S1,
            "externalNetworkName": "ext-net",
        },
    ],
)
async def test_a_network_that_exists_is_found(lab: Any, given: dict[str, str]) -> None:
    """By nothing, by names, by ids; a machine joins it and nothing else is made."""
    await existing(lab)
    networks = {
        "?": {"id": "net", "type": "io.murano.resources.ExistingNeutronNetwork"}, **given,
    }  # fmt: skip
    text = "- $.vm.deploy()\n- Return: $region.defaultNetworks.environment.describe()"
    vm = lab.instance(assignFloatingIp=True, securityGroups=[])
    found = await lab.probe(text, lab.environment(networks=networks), vm=vm)
    assert found == {
        "provider": "Neutron", "netName": "there", "netId": N1, "subnetId": S1,
        "cidr": "10.7.0.0/24", "dns": ["192.0.2.9"], "gateway": "10.7.0.1",
        "floatingIpNetId": EXTERNAL_NETWORK,
    }  # fmt: skip
    assert not {"create_network", "create_subnet", "create_router"} & set(lab.calls())
    port = (await lab.template())["resources"]["port-net-web"]["properties"]
    assert (port["network"], port["fixed_ips"]) == (N1, [{"subnet": S1}])
    assert port["security_groups"]
    (vm_model,) = [one for one in lab.model["Objects"]["applications"] if one["?"]["id"] == "probe"]
    assert vm_model["vm"]["floatingIpAddress"].startswith("192.0.2.")
    assert vm_model["vm"]["ipAddresses"][0].startswith("10.7.0.")


async def test_a_shared_networks_subnet_is_not_named(lab: Any) -> None:
    """It belongs to another project; the service chooses."""
    await existing(lab)
    network = lab.cloud.compute.network_list[N1]
    lab.cloud.networks = Shared(lab.cloud.networks, network.uuid)
    text = "- $.net.deploy()\n- Return: $.net.describe().subnetId"
    net = {"?": {"id": "x", "type": "io.murano.resources.ExistingNeutronNetwork"}}
    assert await lab.probe(text, net=net) is None


class Shared:
    """A directory in which a network belongs to another project."""

    def __init__(self, inner: Any, network: str) -> None:
        self.inner = inner
        self.network = network

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def list_networks(self, project_id: str) -> Any:
        """The networks, one of them another's."""
        found = await self.inner.list_networks(project_id)
        return [
            {**one, "tenant_id": "another"} if one["id"] == self.network else one for one in found
        ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"internalNetworkName": "none"}, "There is no network none"),
        ({"internalSubnetworkName": "none"}, "no subnet none"),
        ({"externalNetworkName": "none"}, "no external network none"),
    ],
)
async def test_a_network_that_does_not_exist_is_named(
    lab: Any, given: dict[str, str], said: str
) -> None:
    """What was looked for is in the message."""
    await existing(lab)
    net = {"?": {"id": "x", "type": "io.murano.resources.ExistingNeutronNetwork"}, **given}
    assert said in await lab.probe("- $.net.deploy()", net=net, fails=True)


async def test_machines_on_nova_networks(lab: Any) -> None:
    """Old clouds: a group by name, an address by association, addresses of all networks."""
    net = {"?": {"id": "nova", "type": "io.murano.resources.NovaNetwork"}}
    vm = lab.instance(assignFloatingIp=True)
    text = """
    - $.vm.beginDeploy()
    - Return: [$stack.current(), $region.defaultNetworks.environment.describe()]
    """
    template, described = await lab.probe(text, lab.environment(networks=net), vm=vm)
    assert described == {"provider": "NovaNetwork"}
    group = "MuranoSecurityGroup-env"
    resources = template["resources"]
    assert resources[group]["type"] == "AWS::EC2::SecurityGroup"
    assert resources[group]["properties"]["SecurityGroupIngress"] == [
        {"FromPort": "-1", "ToPort": "-1", "IpProtocol": "icmp", "CidrIp": "0.0.0.0/0"},
        {"FromPort": "22", "ToPort": "22", "IpProtocol": "tcp", "CidrIp": "0.0.0.0/0"},
    ]
    assert resources["web"]["properties"]["security_groups"] == [{"get_resource": group}]
    assert resources["fip-nn-web"]["type"] == "OS::Nova::FloatingIP"
    assert resources["fip-nn-webAssignment"]["properties"] == {
        "floating_ip": {"get_resource": "fip-nn-web"}, "server_id": {"get_resource": "web"},
    }  # fmt: skip
    assert template["outputs"]["web-assigned-ips"]["value"] == {"get_attr": ["web", "networks"]}


# Security groups

RULE = "{FromPort => 80, ToPort => 81, IpProtocol => tcp, External => %s, Ethertype => %s}"


async def test_the_default_group_exists_without_rules(lab: Any) -> None:
    """Named after environment and region, with a word about the environment and ICMP."""
    text = "- Return: $stack.current()"
    template = await lab.probe(text, lab.environment())
    assert template["resources"]["MuranoSecurityGroup-env"] == {
        "type": "OS::Neutron::SecurityGroup",
        "properties": {
            "description": "Composite security group of Murano environment shop",
            "rules": [{"protocol": "icmp", "remote_ip_prefix": "0.0.0.0/0"}],
        },
    }


@pytest.mark.parametrize(
    ("method", "external", "ethertype", "expected"),
    [
        ("addGroupIngress", "true", "null", ("IPv4", "ingress", "0.0.0.0/0")),
        ("addGroupIngress", "true", "IPv6", ("IPv6", "ingress", "::/0")),
        ("addGroupEgress", "true", "IPv4", ("IPv4", "egress", "0.0.0.0/0")),
        ("addGroupIngress", "false", "null", ("IPv4", "ingress", None)),
    ],
)
async def test_rules(
    lab: Any, method: str, external: str, ethertype: str, expected: tuple[str, str, str | None]
) -> None:
    """Each kind as the back end reads it; the same rule twice is one."""
    call = f"- $env.securityGroupManager.{method}([{RULE % (external, ethertype)}], mine)"
    text = f"{call}\n{call}\n- Return: $stack.current().resources.mine.properties.rules"
    rules = await lab.probe(text, lab.environment())
    version, direction, prefix = expected
    rule = {
        "port_range_min": 80, "port_range_max": 81, "protocol": "tcp", "ethertype": version,
        "direction": direction,
    }  # fmt: skip
    rule |= {"remote_ip_prefix": prefix} if prefix else {"remote_mode": "remote_group_id"}
    assert rules[1:] == [rule]


async def test_a_manager_made_for_an_environment(lab: Any) -> None:
    """As the first release did: named after the environment, on its stack."""
    text = f"""
    - $m: new(sys:SecurityGroupManager, environment => $env)
    - $m.addGroupIngress([{RULE % ("true", "null")}])
    - $m.addGroupIngress([{RULE % ("true", "null")}])
    - Return: [$m.defaultGroupName, $stack.current().resources.get('MuranoSecurityGroup-shop')]
    """
    name, group = await lab.probe(text)
    assert name == "MuranoSecurityGroup-shop"
    assert len(group["properties"]["rules"]) == 2


async def test_ipv6_has_no_place_in_old_groups(lab: Any) -> None:
    """Reported and thrown, with the name packages catch."""
    text = f"""
    - $m: new(sys:AwsSecurityGroupManager, $region)
    - Try:
        - $m.addGroupEgress([{RULE % ("true", "IPv6")}])
      Catch:
        With: 'io.murano.system.UnsupportedPropertyValue'
        As: e
        Do:
          - Return: $e.message
    """
    said = await lab.probe(text)
    assert said == "Unable to add security group. IPv6 is not supported."
    assert lab.texts("error") == [said]


async def test_clouds_without_security_groups(lab: Any) -> None:
    """A warning once, no group, ports without any."""
    lab.cloud.networks = NoGroups(lab.cloud.networks)
    text = "- $.vm.beginDeploy()\n- Return: $stack.current()"
    template = await lab.probe(text, lab.environment(), vm=lab.instance())
    assert lab.texts() == ["Warning! Security groups are disabled!"]
    assert not [one for one in template["resources"].values() if "SecurityGroup" in one["type"]]
    assert "security_groups" not in template["resources"]["port-net-web"]["properties"]


class NoGroups:
    """A directory of a network service without the extension."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def list_neutron_extensions(self, project_id: str) -> Any:
        """Other extensions."""
        return [{"alias": "router"}]


async def test_port_security_can_be_switched_off(lab: Any) -> None:
    """Then the port has neither groups nor guards."""
    text = (
        "- $.vm.beginDeploy()\n- Return: $stack.current().resources.get('port-net-web').properties"
    )
    networks = lab.network(port_security_disable=True)
    port = await lab.probe(text, lab.environment(networks=networks), vm=lab.instance())
    assert port["port_security_enabled"] is False
    assert "security_groups" not in port


# Shared addresses


async def test_a_shared_address(lab: Any) -> None:
    """Made once; machines may answer on it; released it can be made again (§3.6)."""
    shared = {"?": {"id": "ip", "type": "io.murano.SharedIp"}, "assignFloatingIp": True}
    text = """
    - $.vm.deploy()
    - $.shared.deploy()
    - Return: [$.shared.virtualIp, $.shared.floatingIpAddress, $.shared.getSharedIpRef()]
    """
    vm = lab.instance(sharedIps=["ip"])
    virtual, floating, ref = await lab.probe(text, lab.environment(), shared=shared, vm=vm)
    assert virtual.startswith("10.0.")
    assert floating.startswith("192.0.2.")
    assert ref == {"get_attr": ["AllowedAddressPairsPort-ip", "fixed_ips", 0, "ip_address"]}
    port = (await lab.template())["resources"]["port-net-web"]["properties"]
    assert port["allowed_address_pairs"] == [{"ip_address": f"{virtual}/32"}]
    assert lab.texts()[:3] == [
        "Allocating shared ip address",
        f"Shared IP allocated at {virtual}",
        f"Floating shared IP is {floating}",
    ]
    text = (
        "- $.shared.releaseResources()\n- Return: [$.shared.virtualIp, $.shared.floatingIpAddress]"
    )
    assert await lab.probe(text, shared=..., vm=vm | {"sharedIps": []}) == [None, None]
    assert len(lab.cloud.compute.floating_list) == 0
    text = "- $.shared.deploy()\n- Return: $.shared.virtualIp"
    assert (await lab.probe(text, shared=..., vm=...)).startswith("10.0.")


async def test_a_shared_ipv6_address(lab: Any) -> None:
    """Machines may answer on it alone, not on the network around it."""
    shared = {"?": {"id": "ip", "type": "io.murano.SharedIp"}}
    network = lab.network(ipVersion=6, subnetCidr="fd7e::/64")
    vm = lab.instance(sharedIps=["ip"])
    await lab.probe("- $.vm.deploy()", lab.environment(networks=network), shared=shared, vm=vm)
    port = (await lab.template())["resources"]["port-net-web"]["properties"]
    assert port["allowed_address_pairs"] == [{"ip_address": "fd7e::2/128"}]


async def test_a_range_of_shared_addresses(lab: Any) -> None:
    """A subnet of the network; the pair is the range as it is (§3.7)."""
    shared = {"?": {"id": "ip", "type": "io.murano.SharedIpRange"}, "cidr": "10.99.0.0/24"}
    text = """
    - $.vm.deploy()
    - $before: list($.shared.virtualIp, $.shared.cidr, $.shared.getSharedIpRef())
    - $.shared.releaseResources()
    - Return: list($before, $.shared.virtualIp, $.shared.cidr)
    """
    vm = lab.instance(sharedIps=["ip"])
    before, virtual, cidr = await lab.probe(text, lab.environment(), shared=shared, vm=vm)
    ref = {"get_attr": ["AllowedAddressPairsSubnet-ip", "cidr"]}
    assert before == ["10.99.0.0/24", "10.99.0.0/24", ref]
    port = (await lab.template())["resources"]["port-net-web"]["properties"]
    assert port["allowed_address_pairs"] == [{"ip_address": "10.99.0.0/24"}]
    assert (virtual, cidr) == (None, "10.99.0.0/24")
    assert [one.cidr for one in lab.cloud.compute.subnet_list.values()] != ["10.99.0.0/24"]


# Networks written for other releases

OLD_NETWORK = """
Name: OldNetwork
Extends: res:Network
Methods:
  addHostToNetwork:
    Arguments:
      - instance: {Contract: $.class(res:Instance).notNull()}
      - assignFloatingIp: {Contract: $.bool().notNull(), Default: false}
      - securityGroupName: {Contract: $.string(), Default: null}
    Body:
      - $stack: $this.find(std:Environment).stack
      - $port: $instance.name + '-port-to-' + $.id()
      - $fip: $instance.name + '-FloatingIP-' + $.id()
      - $stack.updateTemplate({Resources => {
          'old-net' => {Type => 'OS::Neutron::Net'},
          'old-sub' => {Type => 'OS::Neutron::Subnet',
            Properties => {network_id => {Ref => 'old-net'}, cidr => '10.3.0.0/24'}},
          $port => {Type => 'OS::Neutron::Port', Properties => {network_id => {Ref => 'old-net'}}},
          $instance.name => {Properties => {NetworkInterfaces => [{Ref => $port}]}}}})
      - If: $assignFloatingIp
        Then:
          - $out: $instance.name + '-FloatingIPaddress'
          - $stack.updateTemplate({
              Resources => {$fip => {Type => 'OS::Neutron::FloatingIP', Properties => {
                floating_network_id => 'ext-net', port_id => {Ref => $port}}}},
              Outputs => {$out => {Value => {'Fn::GetAtt' => [$fip, floating_ip_address]}}}})
---
Name: ThreeArguments
Extends: res:Network
Methods:
  joinInstance:
    Arguments:
      - instance: {Contract: $.class(res:Instance).notNull()}
      - securityGroupName: {Contract: $.string()}
      - assignFloatingIp: {Contract: $.bool().notNull()}
    Body:
      - $this.find(std:Environment).reporter.report($this, format('joined {0}', $instance.name))
      - Return: {}
  generateSecurityGroupManager:
    Body:
      - Return: new(sys:DummySecurityGroupManager, $this)
"""


async def test_networks_of_two_generations_are_reached(lab: Any) -> None:
    """A network that writes into the template itself still gives its machines ports (§5.5)."""
    lab.extra = OLD_NETWORK
    net = lab.application("old", "test.OldNetwork")
    vm = lab.instance(assignFloatingIp=True, type_="io.murano.resources.LinuxInstance")
    lab.model = lab.environment(networks=net)
    for given in (vm, ...):
        await lab.probe("- $.vm.deploy()", vm=given)
        found = await lab.probe("- Return: $stack.inHot()", vm=...)
        assert found["resources"]["web"]["properties"]["networks"] == [
            {"port": {"get_resource": "web-port-to-old"}}
        ]
        (server,) = lab.cloud.compute.server_list.values()
        assert len(server.spec.ports) == 1
        (probe,) = lab.model["Objects"]["applications"]
        assert probe["vm"]["floatingIpAddress"].startswith("192.0.2.")
    assert lab.calls().count("create_server") == 1
    await lab.probe("- Return: 1", vm=None)
    found = await lab.probe("- Return: $stack.inHot()")
    assert set(found["resources"]) == {"old-net", "old-sub"}


async def test_arguments_a_network_does_not_declare_are_left_out(lab: Any) -> None:
    """So networks written before there were group lists and shared addresses go on working."""
    lab.extra = OLD_NETWORK
    net = lab.application("old", "test.ThreeArguments")
    vm = lab.instance(type_="io.murano.resources.LinuxInstance")
    await lab.probe("- $.vm.beginDeploy()", lab.environment(networks=net), vm=vm)
    assert lab.texts() == ["joined web"]


async def test_programs_of_the_first_release_add_hosts_to_our_networks(lab: Any) -> None:
    """`addHostToNetwork` writes port, interface and address into the template."""
    text = """
    - $net: $region.defaultNetworks.environment
    - $result: $net.addHostToNetwork($.vm, true, $env.securityGroupManager.defaultGroupName)
    - Return: $stack.current()
    """
    template = await lab.probe(text, lab.environment(), vm=lab.instance())
    interfaces = template["resources"]["web"]["properties"]["NetworkInterfaces"]
    assert interfaces == [{"get_resource": "port-net-web"}]
    assert template["outputs"]["web-FloatingIPaddress"] == {
        "value": {"get_attr": ["fip-net-web", "floating_ip_address"]}
    }
