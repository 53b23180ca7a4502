"""What the objects of a model ask of a stack's template, as the classes of the core library write it.

Only what cannot be changed in place: of machines what they are made of and joined to, of volumes what they
are made from (core-library.md §5). Two models and the template that belongs to the first say what a change
would replace. Where the template has something else, a class has written it, and nothing is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from vetro.environments import Machine, machines, walk
from vetro.json_values import Json, JsonObject
from vetro.stacks import ChangedProperty

NETWORK = "io.murano.resources.NeutronNetworkBase"
FLOATING = ("OS::Neutron::FloatingIP", "OS::Nova::FloatingIP")
_WORDS = {
    "image": "image",
    "key_name": "key pair",
    "networks": "network",
    "scheduler_hints": "placement",
    "block_device_mapping_v2": "volume",
    "source_volid": "source volume",
    "snapshot_id": "snapshot",
    "backup_id": "backup",
}
_POLICIES = {False: "anti-affinity", True: "affinity"}


@dataclass(frozen=True)
class Item:
    """A value of a property of a resource, or one of several."""

    value: Json
    """As the template has it."""
    text: str
    """As people know it."""

    @property
    def resource(self) -> str:
        """The resource that it refers to; empty without one."""
        node = _map(self.value)
        return str(_map(node.get("volume_id", node)).get("get_resource", ""))


Parts = dict[str, list[Item]]
"""By the property of the resource."""


class Side:
    """One of the two models: ``Objects``, or ``ObjectsCopy``."""

    def __init__(self, root: Json, keys: Mapping[str, str]) -> None:
        """``keys``: what the names of a network's resources end with, where it is not the network's id."""
        self._root = _map(root)
        self._keys = keys
        self.objects = {str(one["?"].get("id")): one for one in walk(self._root)}
        self.machines = {one.id: one for one in machines(root)}

    def machine(self, machine: Machine) -> Parts:
        """What a machine asks for."""
        node = machine.node
        group = self._object(node.get("instanceAffinityGroup"))
        return {
            "image": _texts(node.get("image")),
            "key_name": _texts(node.get("keyname")),
            "networks": [
                Item(_ref(f"port-{self.key(one)}-{machine.name}"), _called(one))
                for one in self._networks(node)
            ],
            "scheduler_hints": [
                Item(_ref(group_name(group)), f"{self.policy(group)} {_called(group)}")
            ]
            if group
            else [],
            "block_device_mapping_v2": [*self._devices(node.get("blockDevices"))],
        }

    def volume(self, node: JsonObject) -> Parts:
        """What a volume is made from."""
        source = self._object(node.get("sourceVolume"))
        return {
            "image": _texts(node.get("sourceImage")),
            "source_volid": [Item(_volume(source), _called(source))] if source else [],
            "snapshot_id": _texts(self._object(node.get("sourceSnapshot")).get("openstackId")),
            "backup_id": _texts(self._object(node.get("sourceVolumeBackup")).get("openstackId")),
        }

    def floating(self, machine: Machine) -> set[str]:
        """The names that the resource of a machine's floating address may have."""
        if not machine.node.get("assignFloatingIp"):
            return set()
        networks = self._networks(machine.node)
        chosen = _map(machine.node.get("networks")).get("primaryNetwork")
        primary = self._object(chosen) or (networks[0] if networks else {})
        return {f"fip-{self.key(primary)}-{machine.name}", f"fip-nn-{machine.name}"}

    def policy(self, group: JsonObject) -> str:
        """That of a server group."""
        return _POLICIES[bool(group.get("affinity"))]

    def key(self, network: JsonObject) -> str:
        """What the names of a network's resources end with."""
        id_ = str(_map(network.get("?")).get("id"))
        return self._keys.get(id_, id_)

    def _object(self, value: Json) -> JsonObject:
        """An object that is owned, or referred to by its id; empty without one."""
        if isinstance(value, str):
            return self.objects.get(value, {})
        return _map(value)

    def _networks(self, node: JsonObject) -> list[JsonObject]:
        """Those that a machine joins, in their order."""
        given = _map(node.get("networks")) or {"useEnvironmentNetwork": True}
        ours = _map(self._root.get("defaultNetworks"))
        found: list[Json] = []
        if given.get("useEnvironmentNetwork"):
            found.append(ours.get("environment"))
        if given.get("useFlatNetwork"):
            found.append(ours.get("flat"))
        found += _list(given.get("customNetworks"))
        joined: list[JsonObject] = []
        for one in map(self._object, found):
            if one and one not in joined:  # a second time it is joined as before
                joined.append(one)
        return joined

    def _devices(self, given: Json) -> Iterator[Item]:
        for one in map(_map, _list(given)):
            volume = self._object(one.get("volume"))
            body = {
                "device_name": one.get("deviceName"),
                "volume_id": _volume(volume),
                "device_type": one.get("deviceType"),
                "boot_index": one.get("bootIndex"),
            }
            yield Item({key: x for key, x in body.items() if x is not None}, _called(volume))


def is_existing(network: JsonObject) -> bool:
    """Whether a network was there before, and is not made for the environment."""
    return "ExistingNeutronNetwork" in str(_map(network.get("?")).get("type"))


def group_name(group: JsonObject) -> str:
    """The resource of a server group."""
    return f"NovaServerGroup-{_map(group.get('?')).get('id')}"


def changes(
    old: Parts, new: Parts, body: Json, replaced: Collection[str] = ()
) -> list[ChangedProperty]:
    """Why a resource of the template is to be replaced; none: nothing of it is known to be another one.

    ``replaced``: resources that are replaced themselves, and with them what refers to them.
    """
    properties = _map(_map(body).get("properties"))
    found: list[ChangedProperty] = []
    for key, items in old.items():
        if (properties.get(key) or None) != _template(key, items):
            continue
        wanted = new[key]
        before = [one for one in items if one.resource in replaced]
        after = [one for one in wanted if one.resource in replaced]
        if [one.value for one in items] != [one.value for one in wanted]:
            there = [one.value for one in items]
            kept = [one.value for one in wanted]
            before = [one for one in items if one.value not in kept]
            after = [one for one in wanted if one.value not in there]
            if not before and not after:
                before, after = items, wanted  # in another order
        if before or after:
            found.append(ChangedProperty(_WORDS[key], _said(before), _said(after)))
    return found


def written(old: Parts, new: Parts) -> JsonObject:
    """The new values of what differs, by property, if all of it is names or ids before and after: two words
    may name one thing."""
    changed = {key: (items, new[key]) for key, items in old.items() if items != new[key]}
    plain = all(
        items and isinstance(items[0].value, str) for both in changed.values() for items in both
    )
    return {key: wanted[0].value for key, (_, wanted) in changed.items()} if plain else {}


def _template(key: str, items: list[Item]) -> Json:
    """The value of a property; ``None`` without one."""
    if not items:
        return None
    if key == "networks":
        return [{"port": one.value} for one in items]
    if key == "block_device_mapping_v2":
        return [one.value for one in items]
    return {"group": items[0].value} if key == "scheduler_hints" else items[0].value


def _map(value: Json) -> JsonObject:
    """A map; of what a class of its own has in the place of one, an empty one."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return cast("list[Json]", value) if isinstance(value, list) else []


def _said(items: list[Item]) -> str:
    return ", ".join(one.text for one in items) or "none"


def _texts(value: Json) -> list[Item]:
    return [Item(value, value)] if isinstance(value, str) and value else []


def _ref(resource: str) -> JsonObject:
    return {"get_resource": resource}


def _volume(node: JsonObject) -> Json:
    """How a template names a volume: one that is there by its id, another one by its resource."""
    header = _map(node.get("?"))
    if "ExistingCinderVolume" in str(header.get("type")):
        return node.get("openstackId")
    return _ref(f"vol-{header.get('id')}")


def _called(node: JsonObject) -> str:
    """What people call an object."""
    for one in (node.get("name"), node.get("internalNetworkName"), node.get("openstackId")):
        if isinstance(one, str) and one:
            return one
    return str(_map(node.get("?")).get("id"))
