"""Servers: find room, take a ticket, have the image, create, wait until it runs.

The ports of a server are resources of their own (the template gives them) or, for a network
given directly, ports that belong to the server; those have ids derived from the server's, so
that they are found again whatever happened in between.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import replace

from vetro.compute.client.calls import FLOATING_IPS, NETWORKS, PORTS, SUBNETS
from vetro.compute.wire import AddressWish, Image, NewPort, PortChange
from vetro.stacks.compute_service.port import BLOCK_STORAGE, ServerChange, ServerSpec
from vetro.stacks.errors import ResourceFailure
from vetro.stacks.flavors import find_flavor
from vetro.stacks.resources.base import (
    Json,
    PlacementGroup,
    Property,
    ResourceContext,
    entries,
    items,
    not_served,
    text,
    unknown_in,
)
from vetro.stacks.resources.configs import rewritten, with_authorized_key, with_config
from vetro.stacks.resources.machines import (
    UNKNOWN,
    Machine,
    group_of,
    image_named,
    label_of,
    remove,
)
from vetro.stacks.resources.networks import find_network, network_named
from vetro.stacks.resources.ports import find_groups, groups_named, without_ipv4
from vetro.stacks.template.functions import Unknown

USER_DATA_KEY = "user-data"
AUTHORIZED_KEYS_KEY = "root_authorized_keys"
AGENT_FILE = "/etc/murano/agent.conf"
FOR_DEPLOYMENTS = "SOFTWARE_CONFIG"
_STATUSES = {"running": "ACTIVE", UNKNOWN: "UNKNOWN"}
"""States in Nova's words; others are `SHUTOFF`."""
_NO_VOLUMES = "use block_device_mapping_v2"


async def _flavor(context: ResourceContext, wanted: Json, made: bool) -> Json:
    """A flavor, which has a name only."""
    find_flavor(context.flavors, text(wanted))
    return text(wanted)


async def _key(context: ResourceContext, wanted: Json, made: bool) -> Json:
    """The public key of a key pair."""
    key = await context.compute.public_key(text(wanted), project_id=context.project_id)
    if key is None:
        raise ResourceFailure(f"There is no key pair {text(wanted)!r}")
    return key


async def _subnet(context: ResourceContext, wanted: Json, made: bool) -> Json:
    """The network of a subnet."""
    found = await context.compute.find(SUBNETS, text(wanted))
    if found is None:
        raise ResourceFailure(f"There is no subnet {text(wanted)!r}")
    return found.network_uuid


async def _networks(context: ResourceContext, wanted: Json, made: bool) -> Json:
    """What a server is plugged into: ports, or networks with the addresses that are asked for."""
    found: list[Json] = []
    for one in map(entries, items(wanted)):
        named = one.get("network", one.get("uuid"))
        if one.get("port"):
            if await context.compute.find(PORTS, text(one["port"])) is None:
                raise ResourceFailure(f"There is no port {text(one['port'])!r}")
            found.append(text(one["port"]))
            continue
        subnet = text(one.get("subnet"))
        if named is None:
            named = await _subnet(context, subnet, made)
        network = await network_named(context, named, made)
        found.append([network, subnet, text(one.get("fixed_ip"))])
    return found


async def _hints(context: ResourceContext, wanted: Json, made: bool) -> Json:
    """The hints, whose server group is one of the stack."""
    group_of(context, {"scheduler_hints": wanted})
    return wanted


class Server(Machine):
    """`OS::Nova::Server`."""

    name = "OS::Nova::Server"
    properties = {
        "name": Property(update=True),
        "flavor": Property(update=True),
        "image": Property(),
        "user_data": Property("any", first_start=True),
        "user_data_format": Property(
            allowed=("HEAT_CFNTOOLS", "RAW", "SOFTWARE_CONFIG"), first_start=True
        ),
        "key_name": Property(),
        "metadata": Property("map", update=True),
        "networks": Property("list"),
        "security_groups": Property("list", update=True),
        "availability_zone": Property(ignored="all nodes are one zone"),
        "scheduler_hints": Property("map"),
        "config_drive": Property("boolean", ignored="user data reaches instances without one"),
        "admin_pass": Property(refused="give a key pair"),
        "block_device_mapping": Property("list", refused=_NO_VOLUMES),
        "block_device_mapping_v2": Property("list", needs=BLOCK_STORAGE),
        "personality": Property("map", refused="use user_data"),
        "software_config_transport": Property(ignored="agents have mailboxes"),
        "flavor_update_policy": Property(ignored="another size is given in place"),
        "image_update_policy": Property(ignored="another image is another server"),
        "user_data_update_policy": Property(update=True, allowed=("REPLACE", "IGNORE")),
        "tags": Property("list", update=True),
    }
    properties |= not_served("admin_user", "reservation_id", "diskConfig", "deployment_swift_data")
    required = (("flavor",), ("image", "block_device_mapping_v2"))
    named = {
        ("image",): image_named,
        ("flavor",): _flavor,
        ("key_name",): _key,
        ("networks",): _networks,
        ("security_groups",): groups_named,
        ("scheduler_hints",): _hints,
    }
    attributes = frozenset(
        {
            "addresses",
            "networks",
            "first_address",
            "name",
            "instance_name",
            "accessIPv4",
            "accessIPv6",
            "status",
        }
    )

    def kept(
        self, changed: frozenset[str], old: Mapping[str, Json], new: Mapping[str, Json]
    ) -> frozenset[str]:
        """User data is kept for the server's life, unless the template itself says that other user data is
        another server, or the agent for software deployments comes or goes with it."""
        if new.get("user_data_update_policy") == "REPLACE":
            return frozenset()
        kept = super().kept(changed, old, new)
        same_agent = _takes_deployments(old) is _takes_deployments(new)
        return kept if same_agent else kept - {"user_data_format"}

    def group(
        self, context: ResourceContext, properties: Mapping[str, Json]
    ) -> PlacementGroup | None:
        return group_of(context, properties)

    async def specify(self, context: ResourceContext, properties: Mapping[str, Json]) -> ServerSpec:
        flavor = find_flavor(context.flavors, text(properties["flavor"]))
        image = await _image(context, properties)
        name = label_of(context, properties)
        customer = await _customer_metadata(
            context, properties.get("user_data"), properties.get("key_name")
        )
        if _takes_deployments(properties) and context.doors.guests is not None:
            agent = {
                "path": AGENT_FILE,
                "permissions": "0600",
                "content": await context.doors.guests.configuration(context.physical_id),
            }
            customer[USER_DATA_KEY] = with_config(
                customer.get(USER_DATA_KEY, ""),
                {"write_files": [agent]},
                "agent",
                f"{context.physical_id}-agent",
            )
        groups = await find_groups(context, properties.get("security_groups"))
        ports = await _ports(context, items(properties.get("networks")), groups)
        said = customer.get(USER_DATA_KEY, "")
        other = rewritten(said, context.doors.over_ipv6)
        if other != said and await without_ipv4(context, ports):
            customer[USER_DATA_KEY] = other
        return ServerSpec(
            uuid=context.physical_id,
            project_id=context.project_id,
            name=name,
            hostname=hostname_of(name),
            image=image,
            memory=flavor.memory,
            disk=flavor.disk,
            cpu=flavor.cpu,
            ports=ports,
            metadata=_texts(properties.get("metadata")),
            customer_metadata=customer,
            volumes=_devices(properties),
            later_volumes=context.volumes(),
        )

    async def asks(
        self, context: ResourceContext, properties: Mapping[str, Json]
    ) -> ServerSpec | None:
        known = _known(properties)
        if "flavor" not in known or ("image" in properties and "image" not in known):
            return None
        if not (known.get("image") or known.get("block_device_mapping_v2")):
            return None
        flavor = find_flavor(context.flavors, text(known["flavor"]))
        name = label_of(context, known)
        networks = properties.get("networks")
        listed = [] if isinstance(networks, Unknown) else items(networks)
        ports = [text(port) for one in listed if (port := _known(entries(one)).get("port"))]
        return ServerSpec(
            uuid=context.physical_id,
            project_id=context.project_id,
            name=name,
            hostname=hostname_of(name),
            image=await _image(context, known),
            memory=flavor.memory,
            disk=flavor.disk,
            cpu=flavor.cpu,
            ports=[one for one in ports if await context.compute.find(PORTS, one) is not None],
            metadata={},
            customer_metadata={},
            volumes=_devices(known),
            later_volumes=context.volumes(),
        )

    async def update(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        wanted = ServerChange()
        if "name" in context.changed:
            wanted = replace(wanted, name=label_of(context, properties))
        if "metadata" in context.changed:
            wanted = replace(wanted, metadata=_texts(properties.get("metadata")))
        if "flavor" in context.changed:
            flavor = find_flavor(context.flavors, text(properties["flavor"]))
            wanted = replace(wanted, memory=flavor.memory, disk=flavor.disk, cpu=flavor.cpu)
        if wanted != ServerChange():
            await context.compute.update_server(context.physical_id, wanted)
        if "security_groups" in context.changed:
            groups = await find_groups(context, properties.get("security_groups"))
            for port in items(context.data.get("own_ports")):
                change = PortChange(security_groups=groups)
                await context.compute.change(PORTS, text(port), change)

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await remove(context)
        if _takes_deployments(properties) and context.doors.guests is not None:
            await context.doors.guests.forget(context.physical_id)

    async def attribute(
        self, context: ResourceContext, properties: Mapping[str, Json], name: str
    ) -> Json:
        return await _describe(context, properties, name)


class AwsInstance(Machine):
    """`AWS::EC2::Instance`."""

    name = "AWS::EC2::Instance"
    properties = {
        "ImageId": Property(),
        "InstanceType": Property(),
        "UserData": Property("any", first_start=True),
        "KeyName": Property(),
        "AvailabilityZone": Property(ignored="all nodes are one zone"),
        "SecurityGroups": Property("list"),
        "SecurityGroupIds": Property("list"),
        "NetworkInterfaces": Property("list"),
        "SubnetId": Property(),
        "Tags": Property("list", update=True),
        "Volumes": Property("list", refused=_NO_VOLUMES),
        "BlockDeviceMappings": Property("list", refused=_NO_VOLUMES),
    }
    properties |= not_served(
        "DisableApiTermination", "KernelId", "Monitoring", "PlacementGroupName", "PrivateIpAddress",
        "RamDiskId", "SourceDestCheck", "NovaSchedulerHints", "Tenancy",
    )  # fmt: skip
    required = (("ImageId",), ("InstanceType",))
    named = {
        ("ImageId",): image_named,
        ("InstanceType",): _flavor,
        ("KeyName",): _key,
        ("SubnetId",): _subnet,
        ("SecurityGroups",): groups_named,
        ("SecurityGroupIds",): groups_named,
    }
    attributes = frozenset(
        {
            "PublicIp",
            "PrivateIp",
            "PublicDnsName",
            "PrivateDnsName",
            "AvailabilityZone",
        }
    )

    async def specify(self, context: ResourceContext, properties: Mapping[str, Json]) -> ServerSpec:
        return await Server().specify(context, self._as_server(properties))

    async def asks(
        self, context: ResourceContext, properties: Mapping[str, Json]
    ) -> ServerSpec | None:
        known = _known(properties)
        if not {"InstanceType", "ImageId"} <= known.keys():
            return None
        return await Server().asks(context, self._as_server(known))

    async def update(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        change = ServerChange(metadata=_texts(self._as_server(properties)["metadata"]))
        await context.compute.update_server(context.physical_id, change)

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await remove(context)

    async def attribute(
        self, context: ResourceContext, properties: Mapping[str, Json], name: str
    ) -> Json:
        if name == "AvailabilityZone":
            return "nova"
        addresses = await _addresses(context)
        fixed = [one["addr"] for one in addresses if one["OS-EXT-IPS:type"] == "fixed"]
        floating = [one["addr"] for one in addresses if one["OS-EXT-IPS:type"] == "floating"]
        private = fixed[0] if fixed else "0.0.0.0"  # noqa: S104 what EC2's words call "none yet"
        public = floating[0] if floating else private
        shown: dict[str, Json] = {
            "PublicIp": public,
            "PublicDnsName": public,
            "PrivateIp": private,
            "PrivateDnsName": private,
        }
        return shown if name == "show" else shown.get(name)

    def _as_server(self, properties: Mapping[str, Json]) -> dict[str, Json]:
        networks: list[Json] = []
        for one in items(properties.get("NetworkInterfaces")):
            interface = {"NetworkInterfaceId": one} if isinstance(one, str) else entries(one)
            networks.append({"port": interface.get("NetworkInterfaceId")})
        if properties.get("SubnetId"):
            networks.append({"subnet": properties["SubnetId"]})
        tags = [entries(one) for one in items(properties.get("Tags"))]
        groups = items(properties.get("SecurityGroupIds")) + items(properties.get("SecurityGroups"))
        return {
            "flavor": properties["InstanceType"],
            "image": properties["ImageId"],
            "user_data": properties.get("UserData"),
            "key_name": properties.get("KeyName"),
            "networks": networks,
            "security_groups": groups,
            "metadata": {text(tag.get("Key")): tag.get("Value") for tag in tags},
        }


async def _image(context: ResourceContext, properties: Mapping[str, Json]) -> Image:
    """What the server boots from."""
    if properties.get("image"):
        return await context.compute.image(context.project_id, text(properties["image"]))
    devices = [entries(one) for one in items(properties.get("block_device_mapping_v2"))]
    # A negative index: never booted from.
    bootable = [one for one in devices if int(text(one.get("boot_index"), "0")) >= 0]
    boot = sorted(bootable, key=lambda one: int(text(one.get("boot_index"), "0")))
    if not boot:
        raise ResourceFailure("The server has neither an image nor a volume to boot from")
    return await context.compute.volume_image(context.project_id, text(boot[0].get("volume_id")))


def _devices(properties: Mapping[str, Json]) -> dict[str, str]:
    devices = [entries(one) for one in items(properties.get("block_device_mapping_v2"))]
    return {text(one.get("volume_id")): text(one.get("device_name")) for one in devices}


def _known(properties: Mapping[str, Json]) -> dict[str, Json]:
    """The properties that are wholly known."""
    return {key: value for key, value in properties.items() if unknown_in(value) is None}


def _takes_deployments(properties: Mapping[str, Json]) -> bool:
    """Whether the server's agent is set up for software deployments."""
    return properties.get("user_data_format") == FOR_DEPLOYMENTS


def hostname_of(name: str) -> str:
    """A host name made of a server's name: letters, digits and dashes, at most 63."""
    cleaned = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    return cleaned[:63].strip("-") or "server"


async def _ports(context: ResourceContext, networks: list[Json], groups: list[str]) -> list[str]:
    """The uuids of the server's ports; makes those that only it has."""
    if not networks:
        networks = [{"network": await _only_network(context)}]
    own = [
        str(uuid.uuid5(uuid.UUID(context.physical_id), f"port-{number}"))
        for number, one in enumerate(networks)
        if not entries(one).get("port")
    ]
    if own != items(context.data.get("own_ports")):
        await context.save({**context.data, "own_ports": own})
    names = await _subnet_networks(context, networks)
    left = iter(own)
    result: list[str] = []
    for one in networks:
        entry = entries(one)
        if entry.get("port"):
            result.append(text(entry["port"]))
            continue
        port = next(left)
        subnet = entry.get("subnet")
        wanted = entry.get("network", entry.get("uuid")) or names.get(text(subnet))
        wish = AddressWish(subnet_uuid=subnet, ip=entry.get("fixed_ip"))
        new = NewPort(
            uuid=port,
            project_id=context.project_id,
            network_uuid=await find_network(context, text(wanted)),
            name=f"{context.stack_name}-{context.name}",
            fixed_ips=[wish],
            security_groups=groups,
        )
        await context.compute.create(PORTS, new)
        result.append(port)
    return result


async def _subnet_networks(context: ResourceContext, networks: list[Json]) -> dict[str, str]:
    if not any(entries(one).get("subnet") for one in networks):
        return {}
    subnets = await context.compute.all(SUBNETS, context.project_id)
    return {subnet.uuid: subnet.network_uuid for subnet in subnets}


async def _only_network(context: ResourceContext) -> str:
    networks = await context.compute.all(NETWORKS, context.project_id)
    own = [one.uuid for one in networks if not one.external]
    if len(own) == 1:
        return own[0]
    if own:
        raise ResourceFailure("The server names no network, and the project has several: name one")
    raise ResourceFailure("The server names no network, and the project has none: create one")


async def _customer_metadata(
    context: ResourceContext, user_data: Json, key_name: Json
) -> dict[str, str]:
    result: dict[str, str] = {}
    if user_data:
        given = user_data if isinstance(user_data, str) else text(user_data)
        result[USER_DATA_KEY] = await context.config_text(given)
    if key_name:
        key = text(await _key(context, key_name, False))
        result[AUTHORIZED_KEYS_KEY] = key
        result[USER_DATA_KEY] = with_authorized_key(
            result.get(USER_DATA_KEY, ""), key, context.physical_id
        )
    return result


async def _addresses(context: ResourceContext) -> list[dict[str, Json]]:
    floating = await context.compute.all(FLOATING_IPS, context.project_id)
    networks = {
        one.uuid: one.name for one in await context.compute.all(NETWORKS, context.project_id)
    }
    server = await context.compute.server(context.physical_id)
    answers_at: Mapping[str, str] = server.answers_at if server is not None else {}
    result: list[dict[str, Json]] = []
    for port in await context.compute.ports_of(context.project_id, context.physical_id):
        addresses = [(answers_at.get(address, address), "fixed") for _, address in port.fixed_ips]
        addresses += [
            (answers_at.get(one.fixed_ip or "", one.address), "floating")
            for one in floating
            if one.port_uuid == port.uuid
        ]
        for address, kind in addresses:
            result.append(
                {
                    "addr": address,
                    "version": 6 if ":" in address else 4,
                    "OS-EXT-IPS:type": kind,
                    "OS-EXT-IPS-MAC:mac_addr": port.mac,
                    "port": port.uuid,
                    "network": networks.get(port.network_uuid, port.network_uuid),
                    "network_uuid": port.network_uuid,
                }
            )
    return result


async def _describe(context: ResourceContext, properties: Mapping[str, Json], name: str) -> Json:
    """A server's attributes. Networks are keys by name and by id, as templates use both."""
    label = label_of(context, properties)
    if name in ("name", "instance_name"):
        return label
    addresses = await _addresses(context)
    by_network: dict[str, list[dict[str, Json]]] = {}
    for one in addresses:
        shown = {key: value for key, value in one.items() if key not in ("network", "network_uuid")}
        for key in (one["network"], one["network_uuid"]):
            by_network.setdefault(text(key), []).append(shown)
    if name == "addresses":
        return by_network
    if name == "networks":
        return {key: [one["addr"] for one in some] for key, some in by_network.items()}
    first = addresses[0]["addr"] if addresses else ""
    if name == "first_address":
        return first
    if name in ("accessIPv4", "accessIPv6"):
        family = int(name[-1])
        return next((one["addr"] for one in addresses if one["version"] == family), "")
    server = await context.compute.server(context.physical_id)
    state = _STATUSES.get((server.state if server is not None else None) or "", "SHUTOFF")
    if name == "status":
        return state
    return {
        "id": context.physical_id,
        "name": label,
        "status": state,
        "addresses": by_network,
        "tags": items(properties.get("tags")),
        "OS-EXT-SRV-ATTR:host": server.server_uuid if server is not None else None,
    }


def _texts(value: Json) -> dict[str, str]:
    return {str(key): text(item) for key, item in entries(value).items()}
