"""Every class, property and method of core-library.md sections 3 to 7 is there, under its name."""

from __future__ import annotations

from typing import Any

import pytest

from vetro.engine.services import library_path
from vetro.engine.system import system_runtime
from vetro.muranopl import enable_testing
from vetro.packages import open_package

RESOURCES = "io.murano.resources."
SYSTEM = "io.murano.system."
# Class: its properties, then its methods (own or inherited; seed-only names included).
TABLE: dict[str, tuple[str, str]] = {
    "io.murano.Application": ("", "reportDeployed reportDestroyed deploy"),
    "io.murano.CloudResource": ("regionName", "getRegion"),
    "io.murano.CloudRegion": (
        "name agentListener stack defaultNetworks securityGroupManager",
        "getConfig",
    ),
    "io.murano.Environment": (
        "name applications agentListener stack instanceNotifier securityGroupManager reporter"
        " defaultNetworks regionConfigs region homeRegionName regions",
        "deploy",
    ),
    "io.murano.SharedIp": (
        "assignFloatingIp virtualIp floatingIpAddress network",
        "deployNetwork deploy getSharedIpRef releaseResources",
    ),
    "io.murano.SharedIpRange": ("cidr virtualIp", "deploy getSharedIpRef releaseResources"),
    "io.murano.File": ("base64Content mimeType filename", ""),
    "io.murano.Exception": ("name message stackTrace extra nativeException cause", "toString"),
    "io.murano.StackTrace": ("frames", "toString"),
    "io.murano.User": ("id name domain email extra", "getCurrent getEnvironmentOwner"),
    "io.murano.Project": ("id name domain description extra", "getCurrent getEnvironmentOwner"),
    f"{SYSTEM}Resources": ("", "string json yaml"),
    f"{SYSTEM}Agent": (
        "enabled",
        "call send callRaw sendRaw isReady waitReady queueName signingKey prepare",
    ),
    f"{SYSTEM}AgentListener": ("enabled", "start stop subscribe unsubscribe queueName"),
    f"{SYSTEM}HeatStack": (
        "",
        "current parameters reload setTemplate setParameters setFiles setHotEnvironment"
        " updateTemplate push output delete setResource removeResource",
    ),
    f"{SYSTEM}InstanceNotifier": (
        "",
        "trackApplication untrackApplication trackCloudInstance untrackCloudInstance",
    ),
    f"{SYSTEM}StatusReporter": ("", "report report_error reportError"),
    f"{SYSTEM}Logger": ("", "trace debug info warning error critical exception"),
    f"{SYSTEM}NetworkExplorer": (
        "",
        "getDefaultRouter getAvailableCidr getDefaultDns getExternalNetworkIdForRouter"
        " getExternalNetworkIdForNetwork listNetworks listSubnetworks listPorts"
        " listNeutronExtensions",
    ),
    f"{SYSTEM}SecurityGroupManager": (
        "defaultGroupName environment",
        "addGroupIngress addGroupEgress",
    ),
    **{
        f"{SYSTEM}{kind}SecurityGroupManager": (
            "defaultGroupName",
            "addGroupIngress addGroupEgress",
        )
        for kind in ("Neutron", "Aws", "Dummy")
    },
    f"{SYSTEM}MistralClient": ("", "upload run"),
    f"{SYSTEM}MetadefBrowser": ("", "getNamespaces getObjects canBeAppliedTo"),
    f"{SYSTEM}GC": (
        "",
        "subscribeDestruction unsubscribeDestruction collect isDoomed isDestroyed",
    ),
    "io.murano.configuration.Linux": ("", "runCommand putFile"),
    f"{RESOURCES}MetadataAware": (
        "checkApplicability",
        "getMetadata getResourceType getMetadefBrowser",
    ),
    f"{RESOURCES}Instance": (
        "name flavor image keyname openstackId floatingIpAddress availabilityZone agent ipAddresses"
        " networks assignFloatingIp securityGroupName securityGroups sharedIps volumes blockDevices"
        " joinedNetworks instanceAffinityGroup regionName checkApplicability",
        "deploy beginDeploy endDeploy prepareStackTemplate setSharedIps prepareUserData"
        " createDefaultInstanceSecurityGroupRules joinNet attachVolume validateBootSource"
        " detectPrimaryNetwork ensureNetworksDeployed ensureSharedIpsDeployed"
        " beginReleaseResources endReleaseResources releaseResources isDeployed getRef"
        " getResourceType",
    ),
    f"{RESOURCES}LinuxInstance": ("name", "createDefaultInstanceSecurityGroupRules"),
    f"{RESOURCES}WindowsInstance": (
        "name",
        "createDefaultInstanceSecurityGroupRules prepareUserData",
    ),
    f"{RESOURCES}LinuxMuranoInstance": (
        "name",
        "prepareUserData generateCloudConfig generateUserData beginReleaseResources",
    ),
    f"{RESOURCES}ConfLangInstance": ("name", "generateCloudConfig beginReleaseResources"),
    f"{RESOURCES}LinuxUDInstance": ("name", "setCustomUserData prepareUserData"),
    **{
        f"{RESOURCES}{kind}": (
            "name",
            "addStructuredConfig addSoftwareConfig prepareStackTemplate prepareUserData"
            " releaseResources",
        )
        for kind in ("HeatSWConfigInstance", "HeatSWConfigLinuxInstance")
    },
    f"{RESOURCES}Network": (
        "regionName",
        "deploy joinInstance generateSecurityGroupManager describe getInstanceIpList"
        " addHostToNetwork",
    ),
    f"{RESOURCES}NeutronNetworkBase": (
        "port_security_disable",
        "joinInstanceToNetwork generateSecurityGroupManager getInstanceIpList",
    ),
    f"{RESOURCES}NeutronNetwork": (
        "name ipVersion externalRouterId autoUplink autogenerateSubnet openstackId subnetCidr"
        " dnsNameservers",
        "deploy joinInstance describe releaseResources",
    ),
    f"{RESOURCES}ExistingNeutronNetwork": (
        "internalNetworkName internalSubnetworkName externalNetworkName",
        "deploy joinInstance describe",
    ),
    f"{RESOURCES}NovaNetwork": (
        "",
        "deploy joinInstance describe getInstanceIpList generateSecurityGroupManager",
    ),
    "io.murano.lib.networks.neutron.NewNetwork": (
        "name externalRouterId autoUplink autogenerateSubnet subnetCidr dnsNameserver useDefaultDns",
        "deploy addHostToNetwork ensureNetworkConfigured",
    ),
    f"{RESOURCES}Volume": ("openstackId", "deploy getRef releaseResources attachTo"),
    f"{RESOURCES}CinderVolume": (
        "name size availabilityZone readOnly sourceImage sourceVolume sourceSnapshot"
        " sourceVolumeBackup attachments",
        "deploy releaseResources getRef getResourceName getResourceType setAttachments",
    ),
    f"{RESOURCES}ExistingCinderVolume": ("openstackId", "getRef"),
    f"{RESOURCES}CinderVolumeSnapshot": ("openstackId", "validate"),
    f"{RESOURCES}CinderVolumeBackup": ("openstackId", "validate"),
    f"{RESOURCES}InstanceAffinityGroup": ("affinity", "deploy getRef"),
    "io.murano.metadata.Title": ("text", ""),
    "io.murano.metadata.Description": ("text", ""),
    "io.murano.metadata.HelpText": ("text", ""),
    "io.murano.metadata.ModelBuilder": ("enabled", ""),
    "io.murano.metadata.forms.Hidden": ("visible", ""),
    "io.murano.metadata.forms.Position": ("index section", ""),
    "io.murano.metadata.forms.Section": ("name title index", ""),
    "io.murano.metadata.engine.Serialize": ("as", ""),
    "io.murano.metadata.engine.Synchronize": ("onThis onArgs", ""),
    "io.murano.test.TestFixture": (
        "",
        "setUp tearDown load startEnv finishEnv assertEqual assertTrue assertFalse assertIn"
        " assertNotIn",
    ),
    "io.murano.test.TestFixtureWithEnvironment": ("environment", "setUp"),
    "io.murano.test.DummyNetwork": ("", "joinInstance describe generateSecurityGroupManager"),
}


@pytest.fixture(scope="module")
def runtime() -> Any:
    """The class library as the engine has it, with the classes of `vetro test`."""
    made = system_runtime()
    enable_testing(made)
    made.add_package(open_package(library_path() / "io.murano"))
    return made


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_class_has_what_the_specification_says(runtime: Any, name: str) -> None:
    """Names of properties and methods, inherited ones included."""
    properties, methods = (set(names.split()) for names in TABLE[name])
    type_ = runtime.type(name)
    found = {member for one in type_.ancestors for member in one.properties}
    assert properties - found == set()
    found = {member for one in type_.ancestors for member in one.methods}
    assert methods - found == set()


def test_the_manifest_names_no_class_that_the_table_lacks() -> None:
    """A class that is added to the library is added to the table."""
    declared = set(open_package(library_path() / "io.murano").classes)
    assert declared - set(TABLE) == set()


FILES = (
    "Agent-v2.template Agent-v1.template linux-init.sh murano-init.sh murano-init.conf conflang.conf"
    " windows-init.ps1 murano-agent murano-agent.service murano-agent.conf RunCommand.template"
    " PutFile.template scripts/putFile.sh"
)


@pytest.mark.parametrize("file", FILES.split())
def test_the_library_has_its_resource_files(file: str) -> None:
    """The files of section 8, none empty."""
    assert open_package(library_path() / "io.murano").read_resource(file).strip()


async def test_objects_have_the_methods_of_object(lab: Any) -> None:
    """`id`, `getAttr` and `setAttr` of section 3.1, which every class has."""
    found = await lab.probe("""
    - $env.setAttr(one, 1)
    - Return: list($env.id(), $env.getAttr(one), $env.getAttr(none), $env.getAttr(none, 2))
    """)
    assert found == ["env", 1, None, 2]
