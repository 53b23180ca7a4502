"""Volumes, their attachments, and software configurations (core-library.md §5.4, §5.6)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clouds import is_empty

CINDER = "io.murano.resources.CinderVolume"


def volume(lab: Any, id_: str = "v", **properties: Any) -> Any:
    """A volume of one GiB."""
    return lab.application(id_, CINDER, size=1, **properties)


def source(kind: str) -> Any:
    """What a volume is made of."""
    return {"?": {"id": "s", "type": f"io.murano.resources.{kind}"}, "openstackId": "x"}


async def test_a_volume_is_made_once(lab: Any) -> None:
    """Unchanged it is not pushed; a larger size grows it in place."""
    text = "- $.v.deploy()\n- Return: $.v.openstackId"
    first = await lab.probe(text, v=volume(lab, name="data", availabilityZone="nova"))
    made = lab.cloud.compute.volume_list[first]
    assert (made.name, made.size, made.read_only) == ("data", 1, False)
    lab.calls()
    assert await lab.probe(text, v=...) == first
    assert lab.calls() == []
    assert "stack.push" not in lab.kinds()
    lab.model["Objects"]["applications"][0]["v"]["size"] = 2
    assert await lab.probe(text, v=...) == first
    assert [one.size for one in lab.cloud.compute.volume_list.values()] == [2]
    properties = (await lab.template())["resources"]["vol-v"]["properties"]
    assert properties == {"size": 2, "metadata": {}, "availability_zone": "nova", "name": "data"}


async def test_a_property_of_a_volume_can_go(lab: Any) -> None:
    """The entry is replaced, not merged."""
    text = "- $.v.deploy()"
    await lab.probe(text, v=volume(lab, name="data", readOnly=True))
    lab.model["Objects"]["applications"][0]["v"].update(name=None, readOnly=False)
    await lab.probe(text, v=...)
    properties = (await lab.template())["resources"]["vol-v"]["properties"]
    assert properties == {"size": 1, "metadata": {}}


async def test_sources(lab: Any) -> None:
    """Another volume is made first; snapshots and backups must exist; one source at most."""
    lab.cloud.snapshots.add("snap")
    lab.cloud.backups.add("back")
    snapshot = lab.application("s", "io.murano.resources.CinderVolumeSnapshot", openstackId="snap")
    backup = lab.application("b", "io.murano.resources.CinderVolumeBackup", openstackId="back")
    text = "- list($.a, $.b, $.c, $.d).select($.deploy()).toList()"
    await lab.probe(
        text,
        a=volume(lab, "va", sourceVolume=volume(lab, "inner")),
        b=volume(lab, "vb", sourceSnapshot=snapshot),
        c=volume(lab, "vc", sourceVolumeBackup=backup),
        d=volume(lab, "vd", sourceImage="debian"),
    )
    resources = (await lab.template())["resources"]
    assert resources["vol-va"]["properties"]["source_volid"] == {"get_resource": "vol-inner"}
    assert resources["vol-vb"]["properties"]["snapshot_id"] == "snap"
    assert resources["vol-vc"]["properties"]["backup_id"] == "back"
    assert resources["vol-vd"]["properties"]["image"] == "debian"


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"sourceSnapshot": source("CinderVolumeSnapshot")}, "There is no volume snapshot x"),
        ({"sourceVolumeBackup": source("CinderVolumeBackup")}, "There is no volume backup x"),
        (
            {"sourceImage": "debian", "sourceVolume": source("ExistingCinderVolume")},
            "more than one source",
        ),
    ],
)
async def test_a_source_that_does_not_exist_is_found_before_anything_is_made(
    lab: Any, properties: dict[str, Any], said: str
) -> None:
    """The message names it."""
    assert said in await lab.probe("- $.v.deploy()", v=volume(lab, **properties), fails=True)
    assert lab.calls() == []


async def test_sources_are_looked_for_in_the_region_of_the_volume(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A region with a block storage of its own is asked, and no other one."""
    lab.cloud.backups.add("back")
    asked: list[tuple[str, str]] = []

    class Elsewhere:
        async def exists(self, project_id: str, kind: str, id_: str) -> bool:
            asked.append((kind, id_))
            return id_ == "snap"

    regions: list[str] = []

    def of_region(region: str) -> Elsewhere:
        regions.append(region)
        return Elsewhere()

    services = lab.cloud.services

    def with_regions(*given: Any, **named: Any) -> Any:
        made = services(*given, **named)
        made.volumes_elsewhere = of_region
        return made

    monkeypatch.setattr(lab.cloud, "services", with_regions)
    snapshot = lab.application("s", "io.murano.resources.CinderVolumeSnapshot", openstackId="snap")
    backup = lab.application("b", "io.murano.resources.CinderVolumeBackup", openstackId="back")
    await lab.probe("- $.v.deploy()", v=volume(lab, "va", sourceSnapshot=snapshot))
    refused = volume(lab, "vb", sourceVolumeBackup=backup)
    said = await lab.probe("- $.v.deploy()", v=refused, fails=True)
    assert "There is no volume backup back" in said
    assert asked == [("snapshot", "snap"), ("backup", "back")]
    assert len(set(regions)) == 1


async def test_volumes_of_a_machine(lab: Any) -> None:
    """Made and existing ones are attached where they are to be mounted."""
    lab.cloud.compute.volume_list.clear()
    vm = lab.instance(volumes={"/data": volume(lab)})
    text = "- $.vm.deploy()"
    await lab.probe(text, lab.environment(), vm=vm)
    template = await lab.template()
    attachment = template["resources"]["vol-attachment-v-web"]
    assert attachment == {
        "type": "OS::Cinder::VolumeAttachment",
        "properties": {
            "instance_uuid": {"get_resource": "web"}, "mountpoint": "/data",
            "volume_id": {"get_resource": "vol-v"},
        },
    }  # fmt: skip
    (made,) = lab.cloud.compute.volume_list.values()
    assert made.device == "/data"
    lab.calls()
    await lab.probe(text, vm=...)
    assert lab.calls() == []


async def test_a_volume_that_is_taken_away_is_detached_first(lab: Any) -> None:
    """The machine lets go of it before it is removed, and stays."""
    await lab.probe(
        "- $.vm.deploy()", lab.environment(), vm=lab.instance(volumes={"/d": volume(lab)})
    )
    server = list(lab.cloud.compute.server_list)
    lab.calls()
    lab.model["Objects"]["applications"][0]["vm"]["volumes"] = {}
    await lab.probe("- $.vm.deploy()", vm=...)
    calls = lab.calls()
    assert calls.index("detach_volume") < calls.index("delete_volume")
    assert "delete_server" not in calls
    assert list(lab.cloud.compute.server_list) == server
    assert lab.cloud.compute.volume_list == {}
    assert not [key for key in (await lab.template())["resources"] if key.startswith("vol-")]


async def test_a_machine_with_its_volume_goes(lab: Any) -> None:
    """Detached, then both removed; the environment's deletion finds nothing left."""
    await lab.probe(
        "- $.vm.deploy()", lab.environment(), vm=lab.instance(volumes={"/d": volume(lab)})
    )
    lab.calls()
    await lab.probe("- Return: 1", vm=None)
    calls = lab.calls()
    assert calls.index("detach_volume") < min(
        calls.index("delete_volume"), calls.index("delete_server")
    )
    assert lab.cloud.compute.volume_list == lab.cloud.compute.server_list == {}


async def test_booting_from_a_volume(lab: Any) -> None:
    """The volume is made of an image; what it is attached to becomes known."""
    devices = [
        {"volume": volume(lab, sourceImage="debian"), "deviceName": "vda", "deviceType": "disk",
         "bootIndex": 0},
    ]  # fmt: skip
    vm = lab.instance(image=None, blockDevices=devices)
    await lab.probe("- $.vm.deploy()", lab.environment(), vm=vm)
    properties = (await lab.template())["resources"]["web"]["properties"]
    assert properties["block_device_mapping_v2"] == [
        {"device_name": "vda", "volume_id": {"get_resource": "vol-v"}, "device_type": "disk", "boot_index": 0}
    ]  # fmt: skip
    assert "image" not in properties
    (server,) = lab.cloud.compute.server_list.values()
    assert server.spec.image.name == "debian"
    device = lab.model["Objects"]["applications"][0]["vm"]["blockDevices"][0]
    assert device["volume"]["attachments"][0]["device"] == "vda"


async def test_releasing_a_volume(lab: Any) -> None:
    """The resource and both outputs go, and it can be made again."""
    text = "- $.v.deploy()\n- $.v.releaseResources()\n- Return: $.v.openstackId"
    assert await lab.probe(text, v=volume(lab)) is None
    assert is_empty(lab.cloud.compute)
    assert await lab.probe("- $.v.deploy()\n- Return: $.v.openstackId", v=...)


async def test_without_block_storage_a_volume_is_refused(lab: Any) -> None:
    """Nothing is touched; the message names type and reason."""
    lab.cloud.compute.offers = frozenset()
    said = await lab.probe("- $.v.deploy()", v=volume(lab), fails=True)
    assert "OS::Cinder::Volume is not supported: this back end has no block storage" in said
    assert lab.calls() == []


# Software configurations

SOFTWARE = "io.murano.resources.HeatSWConfigLinuxInstance"


async def test_software_configurations(lab: Any) -> None:
    """Plain and structured ones with their deployments; what they printed can be read."""
    text = """
    - $.vm.addSoftwareConfig(install, 'apt install', {a => 1}, 'script', signalTransport => HEAT_SIGNAL)
    - $.vm.addStructuredConfig(setup, {x => {get_input => y}}, {y => 2})
    - $.vm.deploy()
    - Return: $.vm.getConfigOutput(install)
    """
    vm = lab.instance(type_=SOFTWARE)
    assert (await lab.probe(text, lab.environment(), vm=vm))["stdout"].startswith("ran ")
    resources = (await lab.template())["resources"]
    assert resources["web"]["properties"]["user_data_format"] == "SOFTWARE_CONFIG"
    assert resources["web-install"] == {
        "type": "OS::Heat::SoftwareConfig",
        "properties": {"group": "script", "config": "apt install"},
    }
    assert resources["web-install-deployment"] == {
        "type": "OS::Heat::SoftwareDeployment",
        "properties": {
            "config": {"get_resource": "web-install"}, "server": {"get_resource": "web"},
            "signal_transport": "HEAT_SIGNAL", "input_values": {"a": 1},
        },
    }  # fmt: skip
    assert resources["web-setup"]["type"] == "OS::Heat::StructuredConfig"
    assert resources["web-setup"]["properties"]["config"] == {
        "x": {"get_input": "y"}, "completion-signal": {"get_input": "deploy_signal_id"},
    }  # fmt: skip
    assert resources["web-setup-deployment"]["type"] == "OS::Heat::StructuredDeployment"
    ran = {one["name"]: one for one in lab.cloud.stacks.guests.ran.values()}
    assert ran["web-install-deployment"]["config"] == "apt install"
    assert {"name": "a", "value": 1} in ran["web-install-deployment"]["inputs"]
    assert ran["web-setup-deployment"]["config"]["x"] == 2
    rules = next(one for one in resources.values() if "SecurityGroup" in one["type"])
    assert 22 in [one.get("port_range_min") for one in rules["properties"]["rules"]]

    text = "- $.vm.addSoftwareConfig(other, 'x')\n- $.vm.deploy()"
    await lab.probe(text, vm=...)
    resources = (await lab.template())["resources"]
    assert "web-install" not in resources
    assert "web-other" in resources
    await lab.probe("- $.vm.releaseResources()", vm=...)
    resources = (await lab.template())["resources"]
    assert not [key for key in resources if key.startswith("web")]
