"""What is kept is kept: each property of each class that makes machines, volumes or addresses, and each
source of a difference. Nothing is lost that the user did not ask for in this deployment (core-library.md
§4.4)."""

from __future__ import annotations

import copy
import functools
import json
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.library.house import (
    BESIDE,
    OWN,
    SPARE,
    SYSTEMS,
    THERE,
    Seen,
    applications,
    environment,
    found,
    losses,
    made_of,
    objects,
    prepare,
    thing,
    volume,
)

from vetro.compute.client.calls import NETWORKS, SUBNETS
from vetro.compute.wire import Image, Network, NewNetwork, NewSubnet
from vetro.engine.services import library_path
from vetro.engine.settings import EngineSettings
from vetro.engine.signing import PlanSigner
from vetro.engine.system import system_runtime
from vetro.engine.system.memory import MemoryCloud
from vetro.engine.worker.foreseen import refused_before
from vetro.environments import EngineTask
from vetro.muranopl import describe_class
from vetro.packages import open_package
from vetro.stacks import DEFAULT_FLAVORS, InvalidProperty, LossRefused


@dataclass(frozen=True)
class Edit:
    """One property of one object gets another value; what the deployment after that does."""

    app: str
    object: str
    value: Any
    does: str
    """`keep`: nothing. `update`: something is changed in place. `replace`: `loses` go."""
    loses: tuple[str, ...] = ()
    """Machines, volumes; `address` for addresses beside those of lost machines."""
    says: str = ""
    """Part of what the guard says."""


#: By `Class.property`, with the class that declares it.
EDITS: dict[str, Edit] = {
    "MetadataAware.checkApplicability": Edit("site", "web", False, "keep"),
    "CloudResource.regionName": Edit("plain", "alone", "south", "replace", ("machine alone",)),
    "SharedIp.assignFloatingIp": Edit("site", "shared", False, "keep"),
    "SharedIp.network": Edit("site", "shared", None, "update"),
    "SharedIpRange.cidr": Edit("site", "range", "10.98.0.0/24", "update"),
    "Environment.name": Edit("site", "env", "other", "update"),
    "Environment.applications": Edit("site", "env", [], "replace", ("address", "machine web", "volume data")),
    "Environment.defaultNetworks": Edit(
        "plain", "env", {"environment": thing("net", "ExistingNeutronNetwork"), "flat": None},
        "replace", ("machine alone",),
    ),
    "Environment.region": Edit("plain", "env", "south", "replace", ("machine alone",)),
    "NeutronNetworkBase.port_security_disable": Edit("nets", "own", True, "update"),
    "NeutronNetwork.name": Edit("nets", "own", "other", "update"),
    "NeutronNetwork.ipVersion": Edit("nets", "own", 6, "keep"),
    "NeutronNetwork.externalRouterId": Edit("nets", "own", made_of(BESIDE, "router"), "keep"),
    "NeutronNetwork.autoUplink": Edit("nets", "own", False, "keep"),
    "NeutronNetwork.autogenerateSubnet": Edit("nets", "own", False, "keep"),
    "NeutronNetwork.subnetCidr": Edit("nets", "own", "10.200.0.0/24", "keep"),
    "NeutronNetwork.dnsNameservers": Edit("nets", "own", ["192.0.2.55"], "keep"),
    "ExistingNeutronNetwork.internalNetworkName": Edit(
        "nets", "there", "beside", "replace", ("machine joined",)
    ),
    "ExistingNeutronNetwork.internalSubnetworkName": Edit("nets", "there", "there", "keep"),
    "ExistingNeutronNetwork.externalNetworkName": Edit("nets", "there", None, "keep"),
    "NewNetwork.dnsNameserver": Edit("nets", "new", "192.0.2.56", "keep"),
    "NewNetwork.useDefaultDns": Edit("nets", "new", False, "keep"),
    "Instance.name": Edit(
        "site", "web", "shop", "replace", ("address", "machine web"), "host name web → shop"
    ),
    "Instance.flavor": Edit("site", "web", "m1.medium", "update"),
    "Instance.image": Edit(
        "plain", "alone", "other", "replace", ("machine alone",), "image debian → other"
    ),
    "Instance.keyname": Edit("site", "web", "other", "replace", ("machine web",), "mine → other"),
    "Instance.availabilityZone": Edit("site", "web", "other", "keep"),
    "Instance.networks": Edit(
        "site", "web", {**OWN, "customNetworks": [thing("n2", "NeutronNetwork", name="n2")]},
        "replace", ("address", "machine web"),
    ),
    "Instance.assignFloatingIp": Edit("site", "web", False, "replace", ("address",)),
    "Instance.securityGroupName": Edit("plain", "alone", "own", "update"),
    "Instance.securityGroups": Edit("plain", "alone", ["byhand"], "update"),
    "Instance.sharedIps": Edit("site", "web", ["shared"], "update"),
    "Instance.volumes": Edit("site", "web", {}, "replace", ("volume data",)),
    "Instance.blockDevices": Edit(
        "storage", "booted", [{"volume": volume("boot2", sourceImage="debian"), "bootIndex": 0}],
        "replace", ("machine booted", "volume boot"),
    ),
    "Instance.instanceAffinityGroup": Edit("site", "web", None, "replace", ("machine web",)),
    "InstanceAffinityGroup.name": Edit("site", "near", "far", "keep"),
    "InstanceAffinityGroup.affinity": Edit("site", "near", False, "replace", ("machine web",)),
    "CinderVolume.name": Edit("site", "data", "other", "update"),
    "CinderVolume.size": Edit("site", "data", 3, "update"),
    "CinderVolume.availabilityZone": Edit("site", "data", "other", "keep"),
    "CinderVolume.readOnly": Edit("site", "data", True, "update"),
    "CinderVolume.sourceImage": Edit(
        "storage", "boot", "other", "replace", ("machine booted", "volume boot")
    ),
    "CinderVolume.sourceVolume": Edit(
        "storage", "copy", None, "replace", ("volume copy", "volume first")
    ),
    "CinderVolume.sourceSnapshot": Edit("storage", "snap", None, "replace", ("volume snap",)),
    "CinderVolume.sourceVolumeBackup": Edit("storage", "back", None, "replace", ("volume back",)),
    "ExistingCinderVolume.openstackId": Edit("storage", "kept", SPARE, "update"),
    "CinderVolumeSnapshot.openstackId": Edit("storage", "s", "snap2", "replace", ("volume snap",)),
    "CinderVolumeBackup.openstackId": Edit("storage", "b", "back2", "replace", ("volume back",)),
}  # fmt: skip
#: What is taken out is asked for when the program has run: it may have kept it.
UNFORESEEN = ("Environment.applications", "Instance.volumes")
#: Properties that no edit of a model reaches, and why.
UNREACHED = {
    "Environment.regionConfigs": "the operator's; it is among the settings",
    "Environment.regions": "the service's own: objects of regions, which a deployment makes",
    "CloudRegion.name": "as above",
    "CloudRegion.defaultNetworks": "the networks of the environment, copied",
    "SecurityGroupManager.environment": "made at each deployment, in no model",
    "SecurityGroupManager.defaultGroupName": "as above",
}
#: Classes that make nothing in a stack.
IDLE = ("io.murano.Application", "io.murano.File", "io.murano.User", "io.murano.Project")


def declared() -> Iterator[str]:
    """The properties of the core library's classes that a model can give."""
    runtime = system_runtime()
    package = open_package(library_path() / "io.murano")
    runtime.add_package(package)
    for name in package.classes:
        if name not in IDLE and ".test" not in name:
            for one in describe_class(runtime.type(name)).properties:
                if one.usage in ("In", "InOut", "Config"):
                    yield f"{name.rpartition('.')[2]}.{one.name}"


def test_every_property_of_the_core_library_is_in_the_table() -> None:
    """A property that is added to a class gets a row, or a reason why no edit reaches it."""
    assert set(declared()) == {*EDITS, *UNREACHED}


def test_the_house_has_objects_of_every_class() -> None:
    """What the sources of differences are tried on leaves no class out that can be in a model."""
    there = {one["?"]["type"] for one in objects({**applications()})}
    package = open_package(library_path() / "io.murano")
    abstract = {"Network", "NeutronNetworkBase", "Volume", "MetadataAware"}
    wanted = {
        name
        for name in package.classes
        if name.startswith(("io.murano.resources.", "io.murano.lib.", "io.murano.SharedIp"))
        and name.rpartition(".")[2] not in abstract
    }
    assert wanted == there
    assert all(f"io.murano.resources.{one}" in there for one in SYSTEMS)


async def built(lab: Any, *apps: str) -> Any:
    """The house, deployed; deployed again nothing of it changes."""
    await prepare(lab)
    lab.cloud.compute.images["other"] = Image(
        uuid="00000000-0000-4000-8000-000000000009", name="other"
    )
    return await lab.deploy(environment(lab, *apps))


def edited(model: Any, name: str) -> Any:
    """The model with a property of the table changed."""
    changed = copy.deepcopy(model)
    found(changed, EDITS[name].object)[name.partition(".")[2]] = EDITS[name].value
    return changed


def kinds(lost: Iterable[str]) -> list[str]:
    """What was lost; of addresses, which others than people choose, that there were any."""
    return sorted({"address" if one.startswith("address ") else one for one in lost})


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("name", sorted(EDITS))
async def test_an_edit_loses_what_the_table_says_and_nothing_that_was_not_named(
    lab: Any, name: str
) -> None:
    """Refused, a deployment changes nothing of it, and says why; with what it named it loses just that."""
    edit = EDITS[name]
    model = edited(await built(lab, edit.app), name)
    seen = Seen(lab)
    known = await foreseen(lab, model)
    named: dict[str, str] = {}
    changed: list[str] = []
    while True:
        lab.may_lose = [*named]
        reply = await lab.run(model, {"object_id": "env", "method": "deploy", "args": {}})
        refused, did = lab.services.refused, changes(lab)
        changed += did
        if refused is None:
            break
        # What was made before it was refused is kept, as what it is refused to lose.
        assert named or all(one.startswith(MADE) for one in did)
        assert set(losses(lab, seen)) <= named.keys()
        news = {one.key: one.text for one in refused.losses}
        assert not news.keys() <= named.keys()
        named |= news
        # As the service keeps it: what was not begun leaves the model as it was.
        model = reply.model if did else model
    assert not reply.is_exception, reply.details
    assert sorted(losses(lab, seen)) == sorted(named)
    assert kinds(named) == sorted(edit.loses)
    assert edit.says in "; ".join(named.values())
    # What is known before it begins is all of it.
    assert (
        {one.key for one in known.losses} == named.keys()
        if known
        else name in UNFORESEEN or not named
    )
    assert edit.does == ("replace" if named else "update" if changed else "keep")


async def foreseen(lab: Any, model: Any) -> LossRefused | None:
    """What is known of a deployment before it begins; looking changes nothing."""
    lab.services.may_lose = []
    action: Any = {"object_id": "env", "method": "deploy", "args": {}}
    task = EngineTask("task", "env", "", "project", "", action, model, may_lose=[])
    known = await refused_before(lab.services, task)
    assert changes(lab) == []
    return known


@pytest.mark.parametrize(
    ("app", "object_", "name", "value"),
    [
        ("plain", "alone", "image", "nowhere"),
        ("plain", "alone", "keyname", "nobody's"),
    ],
)
async def test_what_cannot_be_made_takes_nothing_away_and_the_way_back_asks_nothing(
    lab: Any, app: str, object_: str, name: str, value: Any
) -> None:
    """Also with all that may be lost: what is missing is looked up before the former one goes."""
    model = await built(lab, app)
    before, seen = copy.deepcopy(model), Seen(lab)
    found(model, object_)[name] = value
    known = await foreseen(lab, model)
    assert known is not None
    lab.may_lose = [one.key for one in known.losses]
    reply = await lab.run(model, {"object_id": "env", "method": "deploy", "args": {}})
    assert reply.is_exception
    assert losses(lab, seen) == []
    failed = reply.model
    found(failed, object_)[name] = found(before, object_)[name]
    await nothing_is_lost(lab, failed)


async def test_a_network_that_is_named_twice_is_joined_once(lab: Any) -> None:
    """It costs no machine, and nobody is asked for one."""
    model = await built(lab, "nets")
    found(model, "joined")["networks"]["customNetworks"].append("any")
    await nothing_is_lost(lab, model)


async def test_an_address_that_machines_share_is_named_before_it_goes(lab: Any) -> None:
    """Its own and the floating one, when it is taken out and the machines stay."""
    model = await built(lab, "site")
    (site,) = model["Objects"]["applications"]
    (shared,) = [one for one in site["others"] if one["?"]["id"] == "shared"]
    site["others"].remove(shared)
    site["machines"][0]["sharedIps"] = ["range"]
    lab.may_lose = []
    await lab.run(model, {"object_id": "env", "method": "deploy", "args": {}})
    keys = {one.key for one in lab.services.refused.losses}
    assert keys == {f"address {shared[one]}" for one in ("virtualIp", "floatingIpAddress")}
    lab.may_lose = [*keys]
    await lab.deploy(model)


async def test_a_range_that_machines_share_is_named_before_it_goes(lab: Any) -> None:
    """When it is taken out and the machines stay."""
    model = await built(lab, "site")
    (site,) = model["Objects"]["applications"]
    site["others"] = [one for one in site["others"] if one["?"]["id"] != "range"]
    site["machines"][0]["sharedIps"] = ["shared"]
    lab.may_lose = []
    await lab.run(model, {"object_id": "env", "method": "deploy", "args": {}})
    assert [one.key for one in lab.services.refused.losses] == ["address 10.99.0.0/24"]
    lab.may_lose = ["address 10.99.0.0/24"]
    await lab.deploy(model)


def changes(lab: Any) -> list[str]:
    """What was changed in the cloud since this was asked before."""
    return [one for one in lab.calls() if one not in ("place", "release", "wait_turn")]


#: Calls that take nothing from anybody.
MADE = ("create_", "add_router_interface", "ensure_image")


# Sources of a difference that the user did not ask for

#: Values of settings that are not like any other text.
OTHERS: dict[str, Any] = {
    "mailbox_url": "https://elsewhere.example:9443/agents",
    "engine.agent_source": "https://elsewhere.example/vetro-guest.pyz#sha256=" + 64 * "0",
    "network.external_cidr": "172.25.4.0/24",
    "network.env_ip_template": "10.128.0.0",
    "network.default_dns": ["192.0.2.99"],
    "rabbitmq.host": "broker.example",
    "rabbitmq.management_url": "https://broker.example:15671",
    "rabbitmq.ca_certs": __file__,
}
DEFAULTS = EngineSettings(
    database_url="sqlite:a",
    data_dir=Path("a"),
    compute_url="http://compute.example",
    service_key="key",
    mailbox_url="http://mailbox.example:8082",
    package_dir=Path("a"),
)


def other(name: str, value: Any) -> Any:
    """Another value for a setting."""
    if name in OTHERS:
        return OTHERS[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, list):
        return ["other"]
    if isinstance(value, dict):
        return {"other": "other"}
    if isinstance(value, str):
        return f"{value}other"
    return Path("other")


def settings(of: Any = DEFAULTS, before: str = "") -> Iterator[tuple[str, Any]]:
    """All settings that an engine has, with other values: it hears of the service by nothing else."""
    for one in fields(of):
        value, name = getattr(of, one.name), before + one.name
        if is_dataclass(value):
            yield from settings(value, name + ".")
        else:
            yield name, other(name, value)


SETTINGS = dict(settings())
RESOURCE_FILES = library_path() / "io.murano" / "Resources"
RELEASED = [
    str(one.relative_to(RESOURCE_FILES.parent))
    for one in sorted(RESOURCE_FILES.rglob("*"))
    if one.is_file()
]


def configure(lab: Any, names: Any) -> None:
    """Give the service other settings."""
    made = lab.cloud.settings()
    for name in names:
        section, _, option = name.rpartition(".")
        if section:
            changed = replace(getattr(made, section), **{option: SETTINGS[name]})
            made = replace(made, **{section: changed})
        else:
            made = replace(made, **{option: SETTINGS[name]})
    lab.cloud.settings = lambda: made


def release(lab: Any, directory: Path, names: Any) -> None:
    """Another release of Vetro, in which these files of the core library are others."""
    at = directory / "io.murano"
    shutil.copytree(library_path() / "io.murano", at)
    for name in names:
        with (at / name).open("a") as file:
            file.write("\n# of another release\n")

    lab.make = functools.partial(lab.runtimes.new, at)


async def nothing_is_lost(lab: Any, model: Any) -> None:
    """Deployed, guarded: refused is nothing, and everything is there as it was."""
    seen = Seen(lab)
    assert await foreseen(lab, model) is None
    lab.may_lose = ()
    model = await lab.deploy(model)
    assert (lab.services.refused, losses(lab, seen)) == (None, [])
    lab.calls()
    await lab.deploy(model)
    assert changes(lab) == []


async def test_no_settings_of_the_service_change_a_machine(lab: Any) -> None:
    """All of them at once; the next test says which one it was."""
    model = await built(lab)
    configure(lab, SETTINGS)
    await nothing_is_lost(lab, model)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(SETTINGS))
async def test_no_setting_of_the_service_changes_a_machine(lab: Any, name: str) -> None:
    """Each alone: where a mailbox is, who logs in at the broker, what an agent is installed from."""
    model = await built(lab, "plain")
    configure(lab, [name])
    await nothing_is_lost(lab, model)


async def test_no_new_release_changes_a_machine(lab: Any, tmp_path: Path) -> None:
    """Every file that gets into user data is another one, and so the core library."""
    model = await built(lab)
    release(lab, tmp_path, RELEASED)
    await nothing_is_lost(lab, model)


async def image_again(lab: Any, model: Any) -> Any:
    """The operator builds the image again, under the same name."""
    for number, name in enumerate(("debian", "other")):
        made = Image(uuid=f"00000000-0000-4000-8000-00000000009{number}", name=name)
        lab.cloud.compute.images[name] = made
    return model


async def image_gone(lab: Any, model: Any) -> Any:
    """The image is deleted: only new machines need it."""
    del lab.cloud.compute.images["debian"]
    return model


async def flavor_changed(lab: Any, model: Any) -> Any:
    """The operator makes the flavor larger."""
    lab.cloud.flavors["m1.small"] = replace(DEFAULT_FLAVORS["m1.small"], memory=4096, disk=80)
    return model


async def flavor_gone(lab: Any, model: Any) -> Any:
    """The operator offers the flavor no more."""
    del lab.cloud.flavors["m1.small"]
    return model


async def key_changed(lab: Any, model: Any) -> Any:
    """The key pair is another one of the same name."""
    lab.cloud.compute.keypair_list[lab.cloud.project_id, "mine"] = "ssh-rsa another"
    return model


async def tokens_rotated(lab: Any, model: Any) -> Any:
    """Every guest's credential is a new one."""
    for queue in list(lab.cloud.transport.queues):
        await lab.cloud.transport.rotate_credential(queue)
    return model


async def signer_changed(lab: Any, model: Any) -> Any:
    """Plans are signed with another key."""
    lab.cloud.signer = PlanSigner.load_or_create(lab.cloud.directory / "other.pem")
    return model


async def region_moved(lab: Any, model: Any) -> Any:
    """The region has another broker."""
    lab.class_configs = copy.deepcopy(lab.class_configs)
    regions = lab.class_configs["io.murano.Environment"]["regionConfigs"]
    regions[""] = {"agentRabbitMq": {"host": "north.example", "login": "l", "password": "p"}}
    return model


async def networks_come(lab: Any, model: Any) -> Any:
    """Others make a network and a subnet that are listed before those taken for want of a name."""
    compute, project = lab.cloud.compute, lab.cloud.project_id
    first = str(uuid.uuid4())
    await compute.create(NETWORKS, NewNetwork(uuid=first, project_id=project, name="first"))
    for number, network in enumerate((first, THERE)):
        subnet = NewSubnet(
            uuid=str(uuid.uuid4()), project_id=project, network_uuid=network, name=f"first-{number}",
            cidr=f"10.8.{number}.0/24",
        )  # fmt: skip
        await compute.create(SUBNETS, subnet)
    for listed in (compute.network_list, compute.subnet_list):
        # The newest first, as a cloud may list them.
        newest = dict(reversed(listed.items()))
        listed.clear()
        listed.update(newest)
    return model


async def gateway_changed(lab: Any, model: Any) -> Any:
    """The routers lead to another external network."""
    compute = lab.cloud.compute
    uplink = Network(uuid=str(uuid.uuid4()), name="uplink", project_id="", external=True)
    compute.network_list[uplink.uuid] = uplink
    for key, one in compute.router_list.items():
        compute.router_list[key] = msgspec.structs.replace(one, external_network=uplink.uuid)
    return model


async def package_changed(lab: Any, model: Any) -> Any:
    """The applications are of a new version of their package."""
    lab.packages[0].version = "2.0.0"
    moved = json.dumps(model).replace("test.App/0.0.0@test", "test.App/2.0.0@test")
    return json.loads(moved.replace('"test": ["0.0.0"]', '"test": ["2.0.0"]'))


async def restored(lab: Any, model: Any) -> Any:
    """The model is an older one: its machine was given another size and its network another name since."""
    newer = copy.deepcopy(model)
    found(newer, "web")["flavor"] = "m1.medium"
    found(newer, "data")["name"] = "renamed"
    await lab.deploy(newer)
    return model


async def outputs_lost(lab: Any, model: Any) -> Any:
    """What deployments have written is not in the model, as in a template or an export."""
    written = {
        "openstackId", "floatingIpAddress", "ipAddresses", "joinedNetworks", "attachments", "virtualIp",
    }  # fmt: skip
    for one in objects(model["Objects"]):
        if not re.search("Existing|Snapshot|Backup", one["?"]["type"]):
            for name in written & one.keys():
                del one[name]
    return model


async def never_kept(lab: Any, model: Any) -> Any:
    """The engine died before it kept the model: it is the one that was given to the first deployment."""
    return environment(lab)


SOURCES: list[Callable[[Any, Any], Any]] = [
    image_again, image_gone, flavor_changed, flavor_gone, key_changed, tokens_rotated, signer_changed,
    region_moved, networks_come, gateway_changed, package_changed, restored, outputs_lost, never_kept,
]  # fmt: skip


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("source", SOURCES, ids=lambda one: one.__name__)
async def test_no_source_but_the_user_changes_a_machine(
    lab: Any, tmp_path: Path, source: Callable[[Any, Any], Any]
) -> None:
    """What operators, releases and accidents change costs no machine, volume or address."""
    lab.cloud = MemoryCloud(tmp_path, flavors=dict(DEFAULT_FLAVORS))
    lab.cloud.signer = PlanSigner.load_or_create(tmp_path / "key.pem")
    model = await built(lab)
    await nothing_is_lost(lab, await source(lab, json.loads(json.dumps(model))))


# Properties of what is made in a stack

#: What another value of a property does with its resource.
RESOURCES: dict[str, dict[str, str]] = {
    "OS::Nova::Server": {
        "keep": "availability_zone user_data user_data_format",
        "update": "flavor metadata name security_groups",
        "replace": "block_device_mapping_v2 image key_name networks scheduler_hints",
    },
    "OS::Cinder::Volume": {
        "keep": "availability_zone",
        "update": "metadata name read_only size",
        "replace": "backup_id image snapshot_id source_volid",
    },
    "OS::Neutron::FloatingIP": {
        "update": "port_id",
        "replace": "floating_network floating_network_id",
    },
    "OS::Nova::FloatingIP": {},
    "OS::Neutron::Port": {
        "update": "allowed_address_pairs port_security_enabled security_groups",
        "keep": "replacement_policy",
        "replace": "fixed_ips network network_id",
    },
    "OS::Cinder::VolumeAttachment": {"replace": "instance_uuid mountpoint volume_id"},
    "OS::Nova::FloatingIPAssociation": {"replace": "floating_ip server_id"},
    "OS::Neutron::Net": {"update": "name"},
    "OS::Neutron::Subnet": {
        "keep": "enable_dhcp",
        "update": "dns_nameservers",
        "replace": "cidr ip_version network",
    },
    "OS::Neutron::RouterInterface": {"replace": "router_id subnet"},
    "OS::Neutron::SecurityGroup": {"update": "description rules"},
    "AWS::EC2::SecurityGroup": {"update": "GroupDescription SecurityGroupIngress"},
    "OS::Nova::ServerGroup": {"update": "name", "replace": "policies"},
    "OS::Heat::CloudConfig": {"replace": "cloud_config"},
    "OS::Heat::MultipartMime": {"replace": "parts"},
    "OS::Heat::SoftwareConfig": {"replace": "config group"},
    "OS::Heat::StructuredConfig": {"replace": "config group"},
    "OS::Heat::SoftwareDeployment": {
        "update": "config input_values signal_transport", "replace": "server"
    },
    "OS::Heat::StructuredDeployment": {"update": "config input_values", "replace": "server"},
}  # fmt: skip
#: Which edit of the table above a user asks with for the replacement of what has data, or of an address.
ASKED = {
    "OS::Nova::Server block_device_mapping_v2": "Instance.blockDevices",
    "OS::Nova::Server image": "Instance.image",
    "OS::Nova::Server key_name": "Instance.keyname",
    "OS::Nova::Server networks": "Instance.networks",
    "OS::Nova::Server scheduler_hints": "Instance.instanceAffinityGroup",
    "OS::Cinder::Volume backup_id": "CinderVolume.sourceVolumeBackup",
    "OS::Cinder::Volume image": "CinderVolume.sourceImage",
    "OS::Cinder::Volume snapshot_id": "CinderVolume.sourceSnapshot",
    "OS::Cinder::Volume source_volid": "CinderVolume.sourceVolume",
    "OS::Neutron::Port fixed_ips": "Environment.defaultNetworks",
    "OS::Neutron::Port network": "ExistingNeutronNetwork.internalNetworkName",
}
#: What no edit changes once it is made.
SETTLED = (
    "OS::Neutron::FloatingIP floating_network",
    "OS::Neutron::FloatingIP floating_network_id",
    "OS::Neutron::Port network_id",
)
#: Values that are refused unless they are among these.
CHOICES: dict[str, tuple[Any, Any]] = {
    "user_data_format": ("RAW", "HEAT_CFNTOOLS"),
    "replacement_policy": ("AUTO", "REPLACE_ALWAYS"),
    "signal_transport": ("HEAT_SIGNAL", "CFN_SIGNAL"),
    "cidr": ("10.240.0.0/24", "10.241.0.0/24"),
    "ip_version": (4, 6),
}
#: What goes with another value of a property.
TOGETHER: dict[str, dict[str, Any]] = {"ip_version": {"cidr": "fd7e:9::/64"}}


def another(key: str, value: Any) -> Any:
    """Another value of a property."""
    if key in CHOICES:
        return next(one for one in CHOICES[key] if one != value)
    if isinstance(value, dict):
        return str(uuid.uuid4()) if "get_resource" in value else {"other": "other"}
    return [] if isinstance(value, list) else other("", value)


async def test_every_property_of_what_is_made_keeps_is_updated_or_replaces_as_the_table_says(
    lab: Any,
) -> None:
    """One that a class begins to write, or a type that it begins to make, is in no row and is found."""
    await prepare(lab)
    everything = await lab.deploy(environment(lab))
    found(everything, "own")["port_security_disable"] = True
    await lab.deploy(everything)
    old = environment(lab, "old")
    old["Objects"]["?"]["id"] = "env2"
    old["Objects"]["defaultNetworks"]["environment"] = thing("net2", "NovaNetwork")
    reply = await lab.run(old, {"object_id": "env2", "method": "deploy", "args": {}})
    assert not reply.is_exception, reply.details
    does: dict[str, set[str]] = {}
    stacks = lab.cloud.stacks
    for stack in list(stacks.store.stacks.values()):
        for name, body in stack.template["resources"].items():
            does.setdefault(body["type"], set())
            for key, value in body.get("properties", {}).items():
                template = copy.deepcopy(stack.template)
                # Once is enough; and what nothing is in is of no known kind.
                if value == [] or any(one.endswith(f" {key}") for one in does[body["type"]]):
                    continue
                wanted = template["resources"][name]["properties"]
                wanted |= {key: another(key, value), **TOGETHER.get(key, {})}
                try:
                    plan = await stacks.plan(stack.project_id, stack.name, template)
                except InvalidProperty:
                    continue  # what is refused changes nothing
                kind = next(one.kind for one in plan.changes if one.resource == name)
                does[body["type"]].add(f"{kind} {key}")
    assert does == {
        type_: {f"{kind} {key}" for kind, keys in its.items() for key in keys.split()}
        for type_, its in RESOURCES.items()
    }


def test_every_type_that_the_core_library_makes_is_in_the_table() -> None:
    """As its classes write them."""
    text = "".join(one.read_text() for one in RESOURCE_FILES.parent.glob("Classes/**/*.yaml"))
    kinds = text.replace("'OS::Heat::' + $kind + 'Config'", "OS::Heat::SoftwareConfig").replace(
        "'OS::Heat::' + $kind + 'Deployment'", "OS::Heat::SoftwareDeployment"
    )
    assert {*re.findall(r"(?:OS|AWS)::\w+::\w+", kinds)} <= RESOURCES.keys()


def test_only_what_a_user_asks_for_replaces_what_has_data() -> None:
    """Each property that replaces a machine, a volume or an address belongs to an edit of the table."""
    having = (
        "OS::Nova::Server",
        "OS::Cinder::Volume",
        "OS::Neutron::FloatingIP",
        "OS::Neutron::Port",
    )
    replacing = {
        f"{type_} {key}" for type_ in having for key in RESOURCES[type_]["replace"].split()
    }
    assert replacing == {*ASKED, *SETTLED}
    assert all(EDITS[edit].does == "replace" for edit in ASKED.values())
