"""Networks, what is in them, and key pairs: objects of the service, and the bodies that change them.

Three structs describe a kind: the object as the service shows it (its fields in the order of the
answer), the body that creates one (``New…``: a field with its default is not sent) and the body that
changes one (``…Change``: a field that is ``UNSET`` stays as it is; ``None`` empties it).
"""

from __future__ import annotations

from typing import TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from vetro.compute.wire.vms import Json

#: A rule of a security group as it was given: with the keys of `SecurityRule`, and any others.
Rule = dict[str, Json]


class Uplink(TypedDict, total=False):
    """The machines' own interface that carries a network: a NIC tag, and a VLAN (0: untagged)."""

    nic_tag: str
    vlan_id: int


class Network(msgspec.Struct, kw_only=True):
    """A network. ``external``: shared, the pool of floating addresses. ``subnets``: their uuids."""

    uuid: str
    name: str
    project_id: str
    external: bool = False
    mtu: int | None = None
    uplink: Uplink | None = None
    subnets: list[str] = []


class NewObject(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What every body that creates an object has; '' in ``uuid`` lets the service choose."""

    uuid: str = ""
    project_id: str = ""
    name: str = ""


class NewNetwork(NewObject, kw_only=True):
    """``uplink``: on the machines' own wire instead of a tunnel (operators)."""

    mtu: int | None = None
    uplink: Uplink | None = None


class NameChange(msgspec.Struct, kw_only=True):
    """Another name."""

    name: str | UnsetType = UNSET


class Subnet(msgspec.Struct, kw_only=True):
    """A range of addresses in a network."""

    uuid: str
    network_uuid: str
    name: str
    project_id: str
    cidr: str
    gateway: str | None = None
    dns: list[str] = []


class NewSubnet(NewObject, kw_only=True):
    """``gateway``: by default the first address.

    ``replaces``: subnets of the same project that are being removed, whose addresses may be reused.
    """

    network_uuid: str
    cidr: str
    gateway: str | None = None
    dns: list[str] | None = None
    replaces: list[str] | None = None


class SubnetChange(NameChange, kw_only=True):
    """Another name, other name servers."""

    dns: list[str] | UnsetType = UNSET


class Router(msgspec.Struct, kw_only=True):
    """A router, the external network it leads to, and the subnets that it joins."""

    uuid: str
    name: str
    project_id: str
    external_network: str | None = None
    subnets: list[str] = []


class NewRouter(NewObject, kw_only=True):
    """``external_network``: by name or uuid."""

    external_network: str | None = None


class RouterChange(NameChange, kw_only=True):
    """Another name, another way out (``None``: none)."""

    external_network: str | UnsetType | None = UNSET


class SecurityRule(msgspec.Struct, kw_only=True):
    """A rule of a security group, as Vetro writes it.

    ``remote_group_id``: the members of that group; ``remote_ip_prefix``: a range of addresses.
    """

    direction: str
    ethertype: str = "IPv4"
    protocol: str | None = None
    port_range_min: int | None = None
    port_range_max: int | None = None
    remote_ip_prefix: str | None = None
    remote_group_id: str | None = None

    def body(self) -> Rule:
        """The rule as it is sent and kept."""
        return msgspec.structs.asdict(self)


class SecurityGroup(msgspec.Struct, kw_only=True):
    """A security group. The service keeps rules as they are given, with further keys."""

    uuid: str
    name: str
    project_id: str
    description: str = ""
    rules: list[Rule] = []


class NewSecurityGroup(NewObject, kw_only=True):
    """A group with its rules."""

    description: str = ""
    rules: list[Rule] | None = None


class SecurityGroupChange(NameChange, kw_only=True):
    """``rules``: in place of all that there are."""

    description: str | UnsetType = UNSET
    rules: list[Rule] | UnsetType = UNSET


class Port(msgspec.Struct, kw_only=True):
    """A connection point. ``fixed_ips``: (subnet uuid, address); ``device_uuid``: the VM that uses it."""

    uuid: str
    network_uuid: str
    project_id: str
    name: str
    mac: str
    fixed_ips: list[tuple[str, str]]
    security_groups: list[str] = []
    port_security: bool = True
    allowed_addresses: list[str] = []
    device_uuid: str | None = None
    device_owner: str | None = ""


class AddressWish(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The subnet and the address that a port is to have; what is absent is chosen."""

    subnet_uuid: str | None = None
    ip: str | None = None


class NewPort(NewObject, kw_only=True):
    """``port_security`` false: neither groups nor checks of addresses."""

    network_uuid: str
    fixed_ips: list[AddressWish] | None = None
    security_groups: list[str] | None = None
    port_security: bool = True
    allowed_addresses: list[str] | None = None


class PortChange(NameChange, kw_only=True):
    """What replaces what was there."""

    security_groups: list[str] | UnsetType = UNSET
    port_security: bool | UnsetType = UNSET
    allowed_addresses: list[str] | UnsetType = UNSET


class FloatingIp(msgspec.Struct, kw_only=True):
    """An address of the external network. It leads to a port, at ``fixed_ip``, or nowhere."""

    uuid: str
    address: str
    network_uuid: str
    project_id: str
    port_uuid: str | None = None
    fixed_ip: str | None = None


class NewFloatingIp(msgspec.Struct, kw_only=True, omit_defaults=True):
    """``network_uuid``: the external network, by name or uuid; by default the only one."""

    uuid: str = ""
    project_id: str = ""
    network_uuid: str | None = None
    port_uuid: str | None = None


class FloatingIpChange(msgspec.Struct, kw_only=True):
    """``port_uuid``: where it leads from now on (``None``: nowhere).

    ``made_by``: the caller's mark. Where it leads by another mark it stays.
    """

    port_uuid: str | UnsetType | None = UNSET
    made_by: str | UnsetType = UNSET


class Keypair(msgspec.Struct, kw_only=True):
    """A public key under a name."""

    name: str
    project_id: str
    public_key: str


class NewKeypair(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The body that keeps a public key.

    ``made_by``: the caller's mark. A key pair with another mark is refused, even with the same key.
    """

    public_key: str
    project_id: str = ""
    made_by: str | UnsetType = UNSET
