"""What templates name at Glance, Nova and Neutron: written in other words it is the same, or it is not there.

Heat finds names itself when it updates, but its preview compares the words (decision 0816). Where a service
cannot say, words count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import cast
from urllib.parse import quote

import structlog

from vetro.openstack import OpenStackError, Session
from vetro.stacks.errors import TemplateError
from vetro.stacks.heat.offers import COMPUTE, rows_of
from vetro.stacks.heat.written_out import Definition, WrittenOut, has_call, plain
from vetro.stacks.model import Json
from vetro.stacks.resources.base import entries, hidden, is_uuid
from vetro.stacks.resources.ports import is_as_good

_TYPES = ("OS::Nova::", "OS::Neutron::", "OS::Cinder::", "AWS::EC2::")
_SPELLED = {
    "network_id": "network",
    "uuid": "network",
    "subnet_id": "subnet",
    "router_id": "router",
    "floating_network_id": "floating_network",
}
"""Other names of properties, and of what is in them."""
_KINDS = {
    "image": "image",
    "ImageId": "image",
    "flavor": "flavor",
    "InstanceType": "flavor",
    "key_name": "key pair",
    "KeyName": "key pair",
    "network": "network",
    "networks": "network",
    "floating_network": "network",
    "subnet": "subnet",
    "SubnetId": "subnet",
    "router": "router",
    "security_groups": "security group",
    "SecurityGroups": "security group",
    "SecurityGroupIds": "security group",
}
"""What properties name."""
_GIVEN = ("name", "flavorid", "id")
"""Properties by which a template gives what it makes a name, or an id."""
_HOLDING = frozenset(
    {
        "networks",
        "block_device_mapping",
        "block_device_mapping_v2",
        "fixed_ips",
        "external_gateway_info",
        "external_fixed_ips",
        "vip",
    }
)
"""Properties whose entries name something; in the maps of others (``metadata``) words have other meanings."""
_AT_NEUTRON = {
    "network": "networks",
    "subnet": "subnets",
    "router": "routers",
    "security group": "security-groups",
}
log = structlog.get_logger(__name__)


@dataclass
class Named:
    """The names and ids in one project."""

    session: Session
    _found: dict[tuple[str, str], frozenset[str] | None] = field(
        default_factory=dict[tuple[str, str], "frozenset[str] | None"]
    )

    async def as_before(self, old: WrittenOut, new: WrittenOut) -> WrittenOut:
        """The new templates, in the words of the old ones where they name the same."""
        result = dict(new.resources)
        for name, after in new.resources.items():
            before = old.resources.get(name)
            if before is not None and before.type == after.type and before.changed(after):
                result[name] = await self._alike(before, after)
        return replace(new, resources=result)

    async def look(self, new: WrittenOut, names: Collection[str]) -> None:
        """Raises `TemplateError` when resources of these names would be made of what is not there. What has
        its name from the templates themselves may be made before it is needed."""
        given = (one.properties.get(key) for one in new.resources.values() for key in _GIVEN)
        made = {one for one in given if isinstance(one, str)}
        for name in names:
            kind, properties = new.resources[name].type, dict(new.resources[name].properties)
            if kind.startswith(_TYPES) and not kind.endswith("Quota"):  # theirs are numbers
                for key, value in entries(hidden(properties, made)).items():
                    await self._look(name, key, value)

    async def _look(self, resource: str, key: str, value: Json) -> None:
        if isinstance(value, list):
            for one in cast("list[Json]", value):
                await self._look(resource, key, one)
        elif isinstance(value, dict) and key in _HOLDING and not has_call(value):
            for inner, one in cast("dict[str, Json]", value).items():
                await self._look(resource, inner, one)
        kind = _KINDS.get(_SPELLED.get(key, key))
        if kind and isinstance(value, str) and value:
            found = await self._ids(kind, value)
            if found is not None and not found:
                raise TemplateError(
                    f"there is no {kind} {value!r}. Nothing was changed, and no machine is lost for it",
                    resource=resource,
                )

    async def _alike(self, before: Definition, after: Definition) -> Definition:
        if not after.type.startswith(_TYPES):
            return after
        properties = dict(after.properties)
        had, wants = _by_word(before.properties), _by_word(after.properties)
        for word in had.keys() & wants.keys():
            (old_key, old), (key, new) = had[word], wants[word]
            if (old_key, plain(old)) == (key, plain(new)):
                continue
            same = await self._same(word, old, new)
            if same or (word == "fixed_ips" and _are_as_good(old, new)):
                del properties[key]
                properties[old_key] = old
        return replace(after, properties=properties)

    async def _same(self, word: str, old: Json, new: Json) -> bool:
        if plain(old) == plain(new):
            return True
        if isinstance(old, list) and isinstance(new, list):
            pairs = [*zip(cast("list[Json]", old), cast("list[Json]", new), strict=False)]
            alike = [await self._same(word, *pair) for pair in pairs]
            return len(cast("list[Json]", old)) == len(cast("list[Json]", new)) and all(alike)
        if isinstance(old, dict) and isinstance(new, dict) and word in _HOLDING:
            had = _by_word(cast("dict[str, Json]", old))
            wants = _by_word(cast("dict[str, Json]", new))
            if had.keys() != wants.keys():
                return False
            return all([await self._same(key, had[key][1], wants[key][1]) for key in had])
        kind = _KINDS.get(word)
        if kind is None or not (isinstance(old, str) and isinstance(new, str)):
            return False
        found = await self._ids(kind, old), await self._ids(kind, new)
        return found[0] == found[1] and found[0] is not None and len(found[0]) == 1

    async def _ids(self, kind: str, value: str) -> frozenset[str] | None:
        """The ids of what is called so, or has this id; None: nobody can say."""
        key = kind, value
        if key not in self._found:
            try:
                self._found[key] = frozenset(await self._ask(kind, value))
            except (OpenStackError, KeyError, TypeError, ValueError) as error:
                log.info("name_not_looked_up", kind=kind, name=value, error=str(error))
                self._found[key] = None
        return self._found[key]

    async def _ask(self, kind: str, value: str) -> list[str]:
        if kind == "image":
            version = "" if (await self.session.endpoint("image")).endswith("/v2") else "/v2"
            if is_uuid(value):
                path = f"{version}/images/{quote(value)}"
                found = await self.session.request("image", "GET", path, absent=(404,))
                return [] if found is None else [value]
            rows = await rows_of(self.session, "image", f"{version}/images", "images", name=value)
        elif kind == "flavor":
            rows = await rows_of(self.session, COMPUTE, "/flavors", "flavors")
        elif kind == "key pair":
            answer = await self.session.request(COMPUTE, "GET", "/os-keypairs")
            assert answer is not None
            rows = [{"id": one["keypair"]["name"]} for one in answer.json()["keypairs"]]
        else:
            path, asked = _AT_NEUTRON[kind], {"id" if is_uuid(value) else "name": value}
            version = "" if (await self.session.endpoint("network")).endswith("/v2.0") else "/v2.0"
            rows = await rows_of(
                self.session, "network", f"{version}/{path}", path.replace("-", "_"), **asked
            )
        return [str(one["id"]) for one in rows if value in (one["id"], one.get("name"))]


def _by_word(properties: Mapping[str, Json]) -> dict[str, tuple[str, Json]]:
    """Properties with their spelling and value, by the word that all spellings mean; of two the main one."""
    given = sorted(properties.items(), key=lambda one: one[0] not in _SPELLED)
    return {_SPELLED.get(key, key): (key, value) for key, value in given}


def _are_as_good(old: Json, new: Json) -> bool:
    """Whether the addresses of a port are what is asked for: Neutron keeps one of the same subnet."""
    had = cast("list[Json]", old) if isinstance(old, list) else []
    wanted = cast("list[Json]", new) if isinstance(new, list) else []
    return len(had) == len(wanted) and all(map(is_as_good, had, wanted))
