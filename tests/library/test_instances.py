"""Instances: their place in the stack, their boot, what becomes known of them (§5.2, §5.3, §10)."""

from __future__ import annotations

import base64
import re
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest

from vetro.compute.client import SECURITY_GROUPS
from vetro.compute.wire import Image, NewSecurityGroup
from vetro.engine.signing import PlanSigner

APP = """
Name: Shop
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:Instance)}
  more: {Contract: [$.class(res:Instance).notNull()], Default: []}
  network: {Contract: $.class(res:Network)}
Methods:
  deploy:
    Body:
      - $environment: $this.find(std:Environment)
      - $rules:
          - {FromPort: 80, ToPort: 80, IpProtocol: tcp, External: true}
      - $manager: $environment.securityGroupManager
      - If: $manager != null
        Then:
          - $manager.addGroupIngress($rules)
      - $environment.reporter.report($this, 'Creating the machine')
      - If: $.instance != null
        Then:
          - $.instance.deploy()
      - $.more.pselect($.deploy())
      - If: $.instance != null and not $this.getAttr(deployed, false)
        Then:
          - $environment.reporter.report($this, 'Installing')
          - conf:Linux.runCommand($.instance.agent, 'install the shop')
          - $this.setAttr(deployed, true)
"""


def shop(
    lab: Any, *, networks: Any = None, env: dict[str, Any] | None = None, **properties: Any
) -> Any:
    """An environment with one application and its instance."""
    lab.add_class(APP)
    properties.setdefault("instance", lab.instance())
    app = lab.application("shop", "test.Shop", **properties)
    return lab.environment(app, networks=networks, **(env or {}))


def vm_of(model: Any) -> Any:
    """The instance of the application."""
    return model["Objects"]["applications"][0]["instance"]


async def test_the_order_of_effects_of_one_linux_application(lab: Any) -> None:
    """First the network, then the machine, then the agent; a second deployment does nothing (§10)."""
    after = await lab.deploy(shop(lab))
    wanted = ("stack.p", "agent.s", "report", "track")
    effects = [kind for kind in lab.kinds() if kind.startswith(wanted)]
    assert effects == ["report", "stack.push", "stack.push", "track", "report", "agent.send"]
    assert lab.texts() == ["Creating the machine", "Installing"]
    calls = lab.calls()
    first, second = calls[: calls.index("create_port")], calls[calls.index("create_port") :]
    assert {"create_network", "create_subnet", "add_router_interface"} <= set(first)
    assert "create_security_group" in first
    assert "create_server" in second
    assert len(lab.cloud.transport.plans) == 1
    vm = vm_of(after)
    assert vm["openstackId"] in lab.cloud.compute.server_list
    assert len(vm["ipAddresses"]) == 1

    again = await lab.deploy(after)
    assert lab.calls() == []
    assert "stack.push" not in lab.kinds()
    assert len(lab.cloud.transport.plans) == 1
    assert again["Objects"] == after["Objects"]
    assert lab.texts("warning") == []

    await lab.destroy(again)
    assert lab.kinds().count("stack.delete") == 1
    assert "stack.push" not in lab.kinds()
    assert not lab.cloud.compute.server_list
    assert not lab.cloud.stacks.store.stacks


async def test_the_template_of_a_machine(lab: Any) -> None:
    """Port, addresses, user data and server are named as packages know them (§9)."""
    await lab.deploy(
        shop(lab, instance=lab.instance(assignFloatingIp=True, keyname="k")), fails=True
    )
    template = await lab.template()
    assert set(template["resources"]) >= {
        "web", "port-net-web", "fip-net-web", "boot_config-web", "boot_script_web", "user_data-web",
    }  # fmt: skip
    assert set(template["outputs"]) >= {"web-id", "addresses-web-net", "web-floatingIPaddress"}
    server = template["resources"]["web"]
    assert server["type"] == "OS::Nova::Server"
    assert server["properties"] == {
        "name": "web", "flavor": "m1.small", "image": "debian", "availability_zone": "nova",
        "user_data": {"get_resource": "user_data-web"}, "user_data_format": "RAW",
        "key_name": "k", "metadata": {}, "networks": [{"port": {"get_resource": "port-net-web"}}],
    }  # fmt: skip
    assert template["resources"]["fip-net-web"]["depends_on"] == ["ri-net"]
    port = template["resources"]["port-net-web"]["properties"]
    assert port["replacement_policy"] == "AUTO"
    assert port["fixed_ips"] == [{"subnet": {"get_resource": "subnet-net"}}]


async def test_the_floating_address_comes_last_and_stays(lab: Any) -> None:
    """It is in `ipAddresses` once, at the end, and redeploying does not lose it."""
    model = await lab.deploy(shop(lab, instance=lab.instance(assignFloatingIp=True)))
    vm = vm_of(model)
    assert vm["floatingIpAddress"].startswith("192.0.2.")
    assert vm["ipAddresses"][-1] == vm["floatingIpAddress"]
    assert len(vm["ipAddresses"]) == len(set(vm["ipAddresses"])) == 2
    assert [one["ipList"] for one in vm["joinedNetworks"]]
    lab.calls()
    assert vm_of(await lab.deploy(model))["floatingIpAddress"] == vm["floatingIpAddress"]
    assert lab.calls() == []
    assert len(lab.cloud.compute.floating_list) == 1


async def test_what_an_instance_does_not_want_any_more_goes(lab: Any) -> None:
    """A floating address that is switched off is given back; the machine stays."""
    model = await lab.deploy(shop(lab, instance=lab.instance(assignFloatingIp=True, keyname=None)))
    vm = vm_of(model)["openstackId"]
    vm_of(model)["assignFloatingIp"] = False
    after = await lab.deploy(model)
    assert lab.cloud.compute.floating_list == {}
    assert vm_of(after)["floatingIpAddress"] is None
    assert vm_of(after)["openstackId"] == vm


@pytest.mark.parametrize(
    ("properties", "name", "message"),
    [
        (
            {"image": None},
            "io.murano.resources.ResourceNotFound",
            "Neither image nor bootable volumes is specified for instance web",
        ),
        (
            {
                "blockDevices": [
                    {
                        "volume": {
                            "?": {"id": "v", "type": "io.murano.resources.CinderVolume"},
                            "size": 1,
                        }
                    }
                ]
            },
            "io.murano.resources.ResourceConflict",
            "Both image and list of bootable volumes are specified",
        ),
    ],
)
async def test_a_machine_boots_from_one_thing(
    lab: Any, properties: dict[str, Any], name: str, message: str
) -> None:
    """Image or bootable volumes, not neither nor both; nothing is touched before."""
    text = f"""
- Try:
    - $.vm.deploy()
  Catch:
    With: '{name}'
    As: e
    Do:
      - Return: $e.message
"""
    assert await lab.probe(text, vm=lab.instance(**properties)) == message
    assert lab.calls() == []


async def test_releasing_removes_exactly_its_own(lab: Any) -> None:
    """Of two machines one goes, with port, address and user data; the rest is untouched."""
    model = shop(lab, instance=lab.instance(assignFloatingIp=True), more=[lab.instance("db", "db")])
    model = await lab.deploy(model)
    before = await lab.template()
    model["Objects"]["applications"][0]["instance"] = None
    lab.cloud.reports.untracked.clear()
    after = await lab.deploy(model)
    template = await lab.template()
    gone = set(before["resources"]) - set(template["resources"])
    assert gone == {
        "web", "port-net-web", "fip-net-web", "boot_config-web", "boot_script_web", "user_data-web",
    }  # fmt: skip
    assert {key for key in template["outputs"] if "web" in key} == set()
    assert {key: template["resources"][key] for key in template["resources"]} == {
        key: before["resources"][key] for key in template["resources"]
    }
    assert [one.spec.name for one in lab.cloud.compute.server_list.values()] == ["db"]
    assert lab.cloud.reports.untracked == ["vm"]
    assert all(row[0] != "vm" for row in after["Attributes"])


async def test_machines_made_side_by_side_are_few_updates(lab: Any) -> None:
    """Ten machines deployed in parallel join each other's pushes."""
    more = [lab.instance(f"vm{n}", f"node{n}") for n in range(10)]
    await lab.deploy(shop(lab, instance=None, more=more))
    assert len(lab.cloud.compute.server_list) == 10
    assert lab.kinds().count("stack.push") <= 4


async def test_custom_networks_and_groups_of_the_project(lab: Any) -> None:
    """Every network gives a port in order; existing groups are used instead of new ones."""
    networks = {
        "useEnvironmentNetwork": True, "useFlatNetwork": False, "primaryNetwork": "own",
        "customNetworks": ["own"],
    }  # fmt: skip
    instance = lab.instance(networks=networks, assignFloatingIp=True, securityGroups=["there"])
    group = NewSecurityGroup(uuid="g", project_id="project", name="there")
    await lab.cloud.compute.create(SECURITY_GROUPS, group)
    model = await lab.deploy(shop(lab, instance=instance, network=lab.network("own", name="own")))
    template = await lab.template()
    assert template["resources"]["web"]["properties"]["networks"] == [
        {"port": {"get_resource": "port-net-web"}}, {"port": {"get_resource": "port-own-web"}},
    ]  # fmt: skip
    for port in ("port-net-web", "port-own-web"):
        assert template["resources"][port]["properties"]["security_groups"] == ["there"]
    assert "fip-own-web" in template["resources"]
    assert "fip-net-web" not in template["resources"]
    joined = vm_of(model)["joinedNetworks"]
    assert [
        one["network"] if isinstance(one["network"], str) else one["network"]["?"]["id"]
        for one in joined
    ] == ["net", "own"]


async def test_metadata_of_the_model_reaches_the_server(lab: Any) -> None:
    """The machine's own always; its owners' where it is said to apply, the nearest counts."""

    class Definitions:
        async def namespaces(self, resource_type: str, region: str | None) -> Any:
            assert resource_type == "OS::Nova::Server"
            return [{"namespace": "ns"}]

        async def objects(self, namespace: str, region: str | None) -> Any:
            return [{"properties": {"tier": {}}}]

    instance = lab.instance()
    instance["?"]["metadata"] = {"own": "1"}
    model = shop(lab, instance=instance)
    app = model["Objects"]["applications"][0]
    app["?"]["metadata"] = {"tier": "front", "unknown": "x"}
    model["Objects"]["?"]["metadata"] = {"tier": "all"}
    await lab.deploy(model)
    properties = (await lab.template())["resources"]["web"]["properties"]
    assert properties["metadata"] == {"own": "1"}
    lab.cloud.metadefs = Definitions()
    await lab.deploy(lab.reply.model)
    properties = (await lab.template())["resources"]["web"]["properties"]
    assert properties["metadata"] == {"own": "1", "tier": "front"}
    (server,) = lab.cloud.compute.server_list.values()
    assert server.spec.metadata == {"own": "1", "tier": "front"}


@pytest.mark.parametrize(
    ("affinity", "hosts", "fails"), [(True, 1, False), (False, 1, True), (False, 2, False)]
)
async def test_an_affinity_group_places_its_machines(
    lab: Any, affinity: bool, hosts: int, fails: bool
) -> None:
    """Machines are near each other or apart; if that is impossible, the deployment says so."""
    lab.cloud.compute.hosts = hosts
    group = {
        "?": {"id": "g", "type": "io.murano.resources.InstanceAffinityGroup"}, "affinity": affinity,
    }  # fmt: skip
    model = shop(
        lab,
        instance=lab.instance(instanceAffinityGroup=group),
        more=[lab.instance("db", "db", instanceAffinityGroup="g")],
    )
    model = await lab.deploy(model, fails=fails)
    resources = (await lab.template())["resources"]
    policy = "affinity" if affinity else "anti-affinity"
    assert resources["NovaServerGroup-g"]["properties"]["policies"] == [policy]
    assert resources["web"]["properties"]["scheduler_hints"] == {
        "group": {"get_resource": "NovaServerGroup-g"}
    }
    if fails:
        assert any("No server has enough free resources" in text for text in lab.texts("warning"))
    else:
        assert len(set(lab.cloud.compute.placed.values())) == (1 if affinity else 2)
        lab.calls()
        await lab.deploy(model)
        assert lab.calls() == []


# User data


def parts(lab: Any, name: str = "web") -> dict[str, str]:
    """The parts of a server's user data by type."""
    (server,) = [one for one in lab.cloud.compute.server_list.values() if one.spec.name == name]
    mail = message_from_string(server.spec.customer_metadata["user-data"])
    found: dict[str, str] = {}
    for part in mail.walk():
        if not part.is_multipart():
            content = part.get_payload(decode=True)
            assert isinstance(content, bytes)
            found[part.get_content_subtype()] = content.decode()
    return found


def embedded(script: str, target: str) -> str:
    """A file that a script writes from base64."""
    written = rf"echo '([A-Za-z0-9+/=]*)' \| base64 -d > \"?(?:\$root)?{re.escape(target)}"
    found = re.search(written, script)
    assert found
    return base64.b64decode(found[1]).decode()


async def test_the_agents_configuration_is_complete(lab: Any, tmp_path: Path) -> None:
    """No placeholder is left; key, mailbox and queues are the machine's; flags are words."""
    lab.cloud.signer = PlanSigner.load_or_create(tmp_path / "k.pem")
    await lab.deploy(shop(lab))
    found = parts(lab)
    script = found["x-shellscript"]
    config = embedded(script, "/etc/murano/agent.conf")
    for text in (script, config, found["cloud-config"]):
        assert not re.search(r"%[A-Z][A-Z0-9_]+%", text)
    assert "\n\t-----END RSA PUBLIC KEY-----" in config
    lines = dict(re.findall(r"^(\w+) = (.*)$", config, re.M))
    assert lines["url"] == "http://mailbox.example:8082"
    assert lines["token"] == lab.cloud.transport.credentials["eenv-hvm"]
    assert lines["input_queue"] == "eenv-hvm"
    assert lines["result_routing_key"] == "-execution-results--env"
    assert lines["host"] == "mailbox.example"
    assert (lines["ssl"], lines["insecure"]) == ("false", "false")
    assert "web" in found["cloud-config"]


async def test_a_certificate_of_the_broker_reaches_the_guest(lab: Any, tmp_path: Path) -> None:
    """The file of the setting is written where the agent looks."""
    (tmp_path / "ca.pem").write_text("the certificate\n")
    lab.cloud.options["rabbitmq.ca_certs"] = str(tmp_path / "ca.pem")
    await lab.deploy(shop(lab))
    script = parts(lab)["x-shellscript"]
    found = re.search(r"^ca='([^']*)'$", script, re.M)
    assert found
    assert base64.b64decode(found[1]).decode() == "the certificate\n"


@pytest.mark.parametrize(
    ("type_", "image", "port", "format_", "said"),
    [
        ("LinuxInstance", "debian", 22, "HEAT_CFNTOOLS", None),
        ("WindowsInstance", "debian", 3389, "HEAT_CFNTOOLS", "WindowsAgent.exe.config"),
        ("LinuxMuranoInstance", "debian", 22, "RAW", "agent.conf"),
        ("ConfLangInstance", "debian", 22, "RAW", "agent.conf"),
        ("LinuxUDInstance", "debian", 22, "HEAT_CFNTOOLS", None),
        # Of this very class as the first release did: by a letter of the image's name.
        ("Instance", "debian", 22, "RAW", "agent.conf"),
        ("Instance", "Win2012", 3389, "HEAT_CFNTOOLS", "WindowsAgent.exe.config"),
    ],
)
async def test_the_kinds_of_machines(
    lab: Any, type_: str, image: str, port: int, format_: str, said: str | None
) -> None:
    """Which port is opened, and how the agent gets its configuration."""
    lab.cloud.compute.images[image] = Image(
        uuid=f"00000000-0000-4000-8000-0000000000{len(image):02}", name=image
    )
    await lab.deploy(
        shop(lab, instance=lab.instance(type_=f"io.murano.resources.{type_}", image=image))
    )
    template = await lab.template()
    assert template["resources"]["web"]["properties"]["user_data_format"] == format_
    (group,) = [one for one in template["resources"].values() if "SecurityGroup" in one["type"]]
    opened = [one.get("port_range_min") for one in group["properties"]["rules"]]
    assert port in opened
    (server,) = lab.cloud.compute.server_list.values()
    user_data = server.spec.customer_metadata.get("user-data", "")
    assert (said or "") in user_data
    assert "%" not in re.sub(r"[^%A-Z_]", "", user_data) or not re.search(
        r"%[A-Z_0-9]+%", user_data
    )


async def test_conflang_machines_have_chef_and_puppet(lab: Any) -> None:
    """Their three resources go with them, too."""
    instance = lab.instance(type_="io.murano.resources.ConfLangInstance")
    model = await lab.deploy(shop(lab, instance=instance, more=[lab.instance("db", "db")]))
    assert "chef" in parts(lab)["cloud-config"]
    assert "boot_config_web" in (await lab.template())["resources"]
    model["Objects"]["applications"][0]["instance"] = None
    await lab.deploy(model)
    assert not [key for key in (await lab.template())["resources"] if "web" in key]


async def test_user_data_of_ones_own(lab: Any) -> None:
    """`setCustomUserData` is taken as it is."""
    text = "- $.vm.setCustomUserData('#!/bin/sh')\n- $.vm.deploy()"
    await lab.probe(
        text,
        lab.environment(),
        vm=lab.instance(type_="io.murano.resources.LinuxUDInstance"),
    )
    (server,) = lab.cloud.compute.server_list.values()
    assert server.spec.customer_metadata["user-data"] == "#!/bin/sh"


OLD = """
Name: Old
Extends: res:Instance
Methods:
  prepareUserData:
    Body:
      - Return: '#!/bin/sh old'
  joinNet:
    Arguments:
      - net: {Contract: $.class(res:Network)}
      - group: {Contract: $.string()}
    Body:
      - $this.find(std:Environment).reporter.report($this, format('joins {0}', $net.name))
      - $this.cast(res:Instance).joinNet($net, $group)
  destroy:
    Body:
      - $this.find(std:Environment).reporter.report($this, 'destroyed')
---
""" + APP.lstrip()


async def test_overrides_written_for_the_first_release(lab: Any) -> None:
    """User data as text, joinNet with two arguments, destroy beside our own (§5.2.3)."""
    lab.add_class(OLD)
    app = lab.application("shop", "test.Shop", instance=lab.instance(type_="test.Old"))
    model = await lab.deploy(lab.environment(app))
    (server,) = lab.cloud.compute.server_list.values()
    assert server.spec.customer_metadata["user-data"] == "#!/bin/sh old"
    assert "joins env-network" in lab.texts()
    model["Objects"]["applications"] = []
    await lab.deploy(model)
    assert "destroyed" in lab.texts()
    assert lab.cloud.compute.server_list == {}


HOOKED = """
Name: Hooked
Extends: res:LinuxInstance
Methods:
  prepareStackTemplate:
    Arguments:
      - template: {Contract: {}}
    Body:
      - $extra:
          resources:
            key: {type: 'OS::Nova::KeyPair', properties: {name: k, public_key: 'ssh-rsa x'}}
      - Return: $template.mergeWith($extra)
---
""" + APP.lstrip()


async def test_the_templates_hook(lab: Any) -> None:
    """What a class adds to the template is made, and redeploying changes nothing."""
    lab.add_class(HOOKED)
    app = lab.application("shop", "test.Shop", instance=lab.instance(type_="test.Hooked"))
    model = await lab.deploy(lab.environment(app))
    assert ("project", "k") in lab.cloud.compute.keypair_list
    lab.calls()
    await lab.deploy(model)
    assert lab.calls() == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("murano-agent", "pip3 install 'murano-agent'"),
        ("https://index.example/agent.whl", "pip3 install 'https://index.example/agent.whl'"),
        ("http://v.example/a.pyz", "python3 - 'http://v.example/a.pyz' '' "),
        (f"http://v.example/a.pyz#sha256={'0a' * 32}", f"'http://v.example/a.pyz' '{'0a' * 32}' "),
        (
            "http://v.example/a.pyz#sha256=short",
            "pip3 install 'http://v.example/a.pyz#sha256=short'",
        ),
    ],
)
async def test_where_a_machine_has_its_agent_from(lab: Any, source: str, expected: str) -> None:
    """An address of an archive is fetched, and compared with the checksum behind it; all else is pip's."""
    lab.cloud.options["engine.agent_source"] = source
    await lab.deploy(shop(lab))
    template = await lab.template()
    script = template["resources"]["boot_script_web"]["properties"]["config"]
    assert expected in script
    assert "%" not in script.replace("%s", "").replace('"%', "").replace('"$@"', "").replace(
        " % ", ""
    )
