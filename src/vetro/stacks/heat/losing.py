"""What an operation on a stack at Heat would take from its user: machines, volumes and addresses.

Heat previews an update, but it has no values for what uses another resource then: it calls a port replaced
because it uses a network. So a resource counts as replaced only if there is a reason for it: a property
that cannot be changed in place (Heat's own schema says which) differs between the template that Heat has
kept and the new one, or uses something that is replaced. What Heat calls unchanged or updated is kept.

Members of groups and nested templates are judged likewise, from both templates written out. Where that is
not possible (groups that Heat alone has) they count as lost when their group changes, and the text says so.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from vetro.stacks.heat.client import HeatClient, StackItem
from vetro.stacks.heat.first_start import POLICY, SERVER
from vetro.stacks.heat.named import Named
from vetro.stacks.heat.written_out import Definition, WrittenOut
from vetro.stacks.losses import ChangedProperty, Loss, LossHow, LossKind
from vetro.stacks.model import Json
from vetro.stacks.operations.losing import SHARED_RANGE, WORDS, changed, joined, shown, within
from vetro.stacks.template.functions import Unknown, used_by

PORT = "OS::Neutron::Port"
SUBNET = "OS::Neutron::Subnet"
"""Those that are ranges of shared addresses."""
REMOTE = "OS::Heat::Stack"
ELASTIC = "AWS::ElasticLoadBalancing::LoadBalancer"
"""A balancer that Heat makes of a machine in a stack of its own."""
_KINDS = {
    SERVER: LossKind.MACHINE,
    "AWS::EC2::Instance": LossKind.MACHINE,
    "OS::Trove::Instance": LossKind.MACHINE,
    "OS::Trove::Cluster": LossKind.MACHINE,
    "OS::Sahara::Cluster": LossKind.MACHINE,
    "OS::Magnum::Cluster": LossKind.MACHINE,
    "OS::Neutron::Pool": LossKind.BALANCER,
    "OS::Neutron::LBaaS::LoadBalancer": LossKind.BALANCER,
    "OS::Octavia::LoadBalancer": LossKind.BALANCER,
    ELASTIC: LossKind.BALANCER,
    "OS::Cinder::Volume": LossKind.VOLUME,
    "AWS::EC2::Volume": LossKind.VOLUME,
    "OS::Manila::Share": LossKind.VOLUME,
    "OS::Neutron::FloatingIP": LossKind.ADDRESS,
    "OS::Nova::FloatingIP": LossKind.ADDRESS,
    "AWS::EC2::EIP": LossKind.ADDRESS,
    PORT: LossKind.ADDRESS,
    SUBNET: LossKind.ADDRESS,
}
_AT_NOVA = (SERVER, "AWS::EC2::Instance")
_AT_ONCE = 8
_NAMES = ("name",)
_GONE = ("", "DELETED", "SOFT_DELETED")
_NEVER_RAN = ("ERROR", "BUILD", "UNKNOWN")
_BROKEN = ("ERROR", "DELETING", *_GONE)
"""States in which Heat makes a failed resource anew."""
_ALIKE = ("image", "flavor", "block_device_mapping_v2", "ImageId", "InstanceType")
"""Properties that a machine under another name has in common with the one it takes the place of."""
_POLICIES = (
    ("flavor", "flavor_update_policy", "RESIZE"),
    ("image", "image_update_policy", "REBUILD"),
    ("user_data", POLICY, "REPLACE"),
)
"""Properties of servers for which a template chooses whether their change makes another one; the default."""
_IN_PLACE = {SERVER: ("image",), "OS::Cinder::Volume": ("backup_id",)}
"""Properties whose change keeps the resource, and writes over what it has."""
_FIRST_START = ("user_data", "UserData", "personality")
"""Properties that are not shown: programs, which may hold secrets."""
_UNSEEN = "definition of"

Changes = dict[str, tuple[Json, Json]]
"""Why something is lost: old and new values by property."""


@dataclass(eq=False, repr=False)
class Losing:
    """Names what is lost of one stack."""

    client: HeatClient
    place: str
    """The stack's address below ``/stacks``."""
    id: str
    old: WrittenOut
    """What Heat has kept."""
    gone: Collection[str] = ()
    """Resources that somebody has removed by hand, and that the update makes again."""
    names: Named = field(init=False)
    _lost: dict[str, Changes] = field(default_factory=dict[str, Changes], init=False)
    """Why, by resource: what is replaced, and what is written over."""
    _moved: set[str] = field(default_factory=set[str], init=False)
    """Resources that are other ones afterwards."""
    _altered: set[str] = field(default_factory=set[str], init=False)
    """Those, and the ones whose attributes may change."""
    _in_place: dict[str, frozenset[str]] = field(
        default_factory=dict[str, frozenset[str]], init=False
    )

    def __post_init__(self) -> None:
        self.names = Named(self.client.session)

    async def look(self, new: WrittenOut) -> None:
        """Before what `of_update` has named goes: raises `TemplateError` when something is not there that
        what comes in its place would be made of."""
        await self.names.look(
            new,
            [one for one in new.resources if one in self._lost or one not in self.old.resources],
        )

    async def of_all(self) -> list[Loss]:
        """What removing the stack would lose."""
        return await self._named(WrittenOut({}, None), {})

    async def of_removal(self, resources: Collection[str], known: Collection[str]) -> list[Loss]:
        """What removing these of the template's resources would lose. ``known``: the names of all."""
        kept = {
            path: one
            for path, one in self.old.resources.items()
            if not within(path, resources, known)
        }
        return await self._named(replace(self.old, resources=kept), {})

    async def of_update(
        self, new: WrittenOut, preview: Mapping[str, list[dict[str, Json]]]
    ) -> list[Loss]:
        """What an update would lose. ``preview``: what Heat says of it."""
        new = await self.names.as_before(self.old, new)
        verdicts = {
            str(one["resource_name"]): verdict
            for verdict, rows in preview.items()
            for one in rows
            if not one.get("parent_resource")
        }
        for name, after in new.resources.items():
            before = self.old.resources.get(name)
            if before is not None:
                await self._judge(name, before, after, verdicts.get(name))
        kept = {
            (str(one["parent_resource"]), str(one["resource_name"]))
            for one in preview.get("unchanged", [])
            if one.get("parent_resource")
        }
        return await self._named(new, verdicts, kept)

    # --- what becomes of a resource ---------------------------------------------------

    async def _judge(
        self, name: str, before: Definition, after: Definition, verdict: str | None
    ) -> None:
        """Decide on a resource that is in both templates. ``verdict``: Heat's, of one that it previews."""
        changed = before.changed(after)
        if before.type != after.type:
            self._replaced(name, {"type": (before.type, after.type)})
            return
        if name in self.gone:
            self._replaced(name, {"state": ("removed by hand", "made again")})
            return
        if why := await self._reasons(before, after, changed, verdict):
            self._replaced(name, why)
            return
        over = set(_IN_PLACE.get(after.type, ())) & changed
        if after.type == SERVER and after.properties.get(POLICY) == "REBUILD":
            over |= {"user_data"} & changed
        if over:
            self._lost[name] = _between(before, after, over)
        if changed - {"user_data", POLICY} or self._touches(after.properties):
            self._altered.add(name)

    def _replaced(self, name: str, why: Changes) -> None:
        self._lost[name] = why
        self._moved.add(name)
        self._altered.add(name)

    def _touches(self, properties: Mapping[str, Json]) -> bool:
        return any(self._other(one) for one in properties.values())

    def _other(self, value: Json) -> str:
        """The first resource that is another one afterwards of those that a value uses; empty: none."""
        found = [one for one in used_by(value, False) if one in self._moved]
        found += [one for one in used_by(value, True) if one in self._altered]
        return found[0] if found else ""

    async def _reasons(
        self, before: Definition, after: Definition, changed: frozenset[str], verdict: str | None
    ) -> Changes:
        """The properties for which a resource is replaced."""
        always = after.properties.get("replacement_policy") == "REPLACE_ALWAYS"
        if not (changed or always or self._touches(after.properties)):
            return {}
        in_place = await self._changed_in_place(after.type) - _anew_by_policy(after)
        fixed = {key: one for key, one in after.properties.items() if key not in in_place}
        using = {key for key, one in fixed.items() if _uses(one)}
        hard = set(changed - in_place) | ({"replacement_policy"} if always else set[str]())
        if verdict in ("unchanged", "updated"):
            # Heat knows defaults and spellings. But the name that it takes for an id may be the id of before.
            hard &= using
        why = _between(before, after, hard)
        for key in using - hard:
            if other := self._other(fixed[key]):
                why[key] = (before.properties.get(key), Unknown(other))
        if not why and verdict == "replaced" and not using:
            # Heat may know a reason that its schema does not say; what it has no value for is none.
            return _between(before, after, changed)
        return why

    async def _changed_in_place(self, type_: str) -> frozenset[str]:
        if type_ not in self._in_place:
            self._in_place[type_] = await self.client.changed_in_place(type_)
        return self._in_place[type_]

    # --- what is lost with it ---------------------------------------------------------

    async def _named(
        self,
        new: WrittenOut,
        verdicts: Mapping[str, str],
        kept: Collection[tuple[str, str]] = (),
    ) -> list[Loss]:
        items = await self.client.all_resources(self.place, self.id)
        # Heat lists the name that an environment has for a type, if it has one.
        known = self.old.resources
        items = [
            replace(one, type=known[one.path].type) if one.path in known else one for one in items
        ]
        there = [*items, *self._in_remote_stacks(items)]
        elastic = tuple(f"{one.path}." for one in items if one.type == ELASTIC)
        there = [
            one
            for one in there
            if _is_kept(one) and one.physical_id and not one.path.startswith(elastic)
        ]
        slots = asyncio.Semaphore(_AT_ONCE)

        async def fate(item: StackItem) -> tuple[StackItem, LossHow, Changes] | None:
            async with slots:
                return await self._fate(item, new, verdicts, kept)

        lost = [one for one in await asyncio.gather(*map(fate, there)) if one is not None]
        machines = {
            item.physical_id for item, _, _ in lost if _KINDS[item.type] is LossKind.MACHINE
        }
        renamed = self._renamed([item for item, how, _ in lost if how is LossHow.REMOVED], new)
        wished = {
            address
            for name, one in new.resources.items()
            if one.type == PORT and (name not in self.old.resources or name in self._lost)
            for address in _addresses(one)
        }

        async def named(item: StackItem, how: LossHow, why: Changes) -> list[Loss]:
            async with slots:
                names = await self._names(item, machines, wished, new.resources.get(item.path))
            changes = tuple(_change(key, *pair) for key, pair in sorted(why.items()))
            kind = _KINDS[item.type]
            if kind is LossKind.MACHINE and item.path in renamed:
                other = renamed[item.path]
                return [
                    Loss(kind, one, LossHow.REPLACED, item.path,
                         (ChangedProperty(WORDS["name"], one, other),) if other != one else ())
                    for one in names
                ]  # fmt: skip
            told = [Loss(kind, one, how, item.path, changes) for one in names]
            if kind is LossKind.BALANCER and names:
                lost = await self._virtual_address(item, new.resources.get(item.path))
                told += [Loss(LossKind.ADDRESS, one, how, item.path, changes) for one in lost]
            return told

        found = [
            loss for one in await asyncio.gather(*(named(*one) for one in lost)) for loss in one
        ]
        found += [
            loss
            for item in there
            if item.type == SERVER and item.physical_id not in machines
            for loss in self._interfaces(item, new)
        ]
        names = Counter(
            (_KINDS[one.type], given)
            for one in there
            if (given := _given_name(self.old.resources.get(one.path)))
        )
        told = [
            replace(one, name=f"{one.name} ({one.resource})")
            if names[one.kind, one.name] > 1
            else one
            for one in found
        ]
        return sorted(told, key=lambda loss: ([*LossKind].index(loss.kind), loss.name))

    def _in_remote_stacks(self, items: Iterable[StackItem]) -> list[StackItem]:
        """What stacks in stacks of their own have: Heat does not list it, only templates say it."""
        return [
            StackItem(name, one.type, "CREATE_COMPLETE", "?", "")
            for item in items
            if item.type == REMOTE and item.physical_id
            for name, one in self.old.resources.items()
            if name.startswith(f"{item.path}.")
        ]

    async def _fate(
        self,
        item: StackItem,
        new: WrittenOut,
        verdicts: Mapping[str, str],
        kept: Collection[tuple[str, str]],
    ) -> tuple[StackItem, LossHow, Changes] | None:
        """Whether and why something that there is will be lost."""
        before = self.old.resources.get(item.path)
        if before is None:
            return self._fate_of_member(item, new, verdicts, kept)
        if before.retain or item.path in self.gone:
            return None
        after = new.resources.get(item.path)
        if after is None:
            return item, LossHow.REMOVED, {}
        if item.path in self._lost:
            return item, LossHow.REPLACED, self._lost[item.path]
        if item.type == PORT and (released := _released(before, after)):
            return item, LossHow.REPLACED, released
        if item.status.endswith("_FAILED") and not item.status.startswith("CREATE"):
            state = await self._state(item)
            if item.status == "CHECK_FAILED" or state.upper() in _BROKEN:
                return item, LossHow.REPLACED, {"state": (state or item.status, "made anew")}
        return None

    def _fate_of_member(
        self,
        item: StackItem,
        new: WrittenOut,
        verdicts: Mapping[str, str],
        kept: Collection[tuple[str, str]],
    ) -> tuple[StackItem, LossHow, Changes] | None:
        """The same for what only Heat knows the definition of."""
        parts = item.path.split(".")
        above = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
        name = next((one for one in above if one in self.old.resources), parts[0])
        before, after = self.old.resources.get(name), new.resources.get(name)
        if before is not None and before.retain:
            return None
        if after is None:
            return item, LossHow.REMOVED, {}
        if before is not None and name not in self._moved:
            same = not before.changed(after) and self.old.surroundings == new.surroundings
            if (same and not self._touches(after.properties)) or verdicts.get(name) == "unchanged":
                return None
        if len(parts) > 1 and (parts[-2], parts[-1]) in kept:
            return None
        unseen = "another one (Heat does not show what becomes of its members)"
        return item, LossHow.REPLACED, {f"{_UNSEEN} {name}": ("the present one", unseen)}

    def _interfaces(self, item: StackItem, new: WrittenOut) -> list[Loss]:
        """The addresses of a machine that is kept and leaves networks; those of ports are the ports'."""
        before, after = self.old.resources.get(item.path), new.resources.get(item.path)
        if before is None or after is None or "networks" not in before.changed(after):
            return []
        left = [one for one in _rows(before, "networks") if "port" not in one]
        machine = _given_name(before) or item.path
        changes = (
            _change(
                "networks", before.properties.get("networks"), after.properties.get("networks")
            ),
        )
        return [
            Loss(
                LossKind.ADDRESS,
                str(one.get("fixed_ip") or f"of {machine} in {shown('network', one)}"),
                LossHow.REMOVED,
                item.path,
                changes,
            )
            for one in left
            if one not in _rows(after, "networks")
        ]

    async def _state(self, item: StackItem) -> str:
        if item.type in _AT_NOVA:
            return await self.client.server_state(item.physical_id)
        return str((await self.client.attributes(item)).get("status") or "")

    def _renamed(self, removed: Iterable[StackItem], new: WrittenOut) -> dict[str, str]:
        """The new names of machines that go while one that is like them comes."""
        gone: dict[str, list[str]] = {}
        come: dict[str, list[str]] = {}
        for item in removed:
            before = self.old.resources.get(item.path)
            if before is not None and item.type in _AT_NOVA:
                gone.setdefault(_likeness(before), []).append(item.path)
        for name, one in new.resources.items():
            if name not in self.old.resources and one.type in _AT_NOVA:
                come.setdefault(_likeness(one), []).append(name)
        return {
            gone[like][0]: _given_name(new.resources[come[like][0]]) or come[like][0]
            for like in gone.keys() & come.keys()
            if len(gone[like]) == len(come[like]) == 1
        }

    async def _names(
        self,
        item: StackItem,
        machines: Collection[str],
        wished: Collection[str],
        after: Definition | None,
    ) -> list[str]:
        """What is lost with a resource, as people know it; nothing when there is nothing."""
        before = self.old.resources.get(item.path)
        given, kind = _given_name(before), _KINDS[item.type]
        if not item.place:
            return [given or item.path]
        unmade = item.status.startswith("CREATE") and not item.status.endswith("_COMPLETE")
        if item.type in _AT_NOVA:
            state = await self.client.server_state(item.physical_id)
            if state in _GONE or (unmade and state in _NEVER_RAN):
                return []
        elif unmade:
            return []
        if kind is LossKind.MACHINE and given:
            return [given]
        said = await self.client.attributes(item)
        if kind is not LossKind.ADDRESS:
            return [given or str(said.get("name") or said.get("display_name") or item.path)]
        if item.type != PORT:
            shown = (said.get(one) for one in ("floating_ip_address", "ip", "cidr"))
            return [next((str(one) for one in shown if one), item.path)]
        device = said.get("device_id")
        if device in machines or (not device and self._is_of_a_machine(item.path)):
            return []  # it goes with its machine; or the machine was never made, or is gone
        rows = cast("list[dict[str, Json]]", said.get("fixed_ips") or [])
        has = [str(one["ip_address"]) for one in rows if one.get("ip_address")]
        again = {*wished, *(_addresses(after) if after is not None else ())}
        return [one for one in has if one not in again]

    def _is_of_a_machine(self, port: str) -> bool:
        """Whether a port was made for a machine: without one an address that was not chosen is nobody's."""
        before = self.old.resources.get(port)
        return before is None or (
            not _addresses(before)
            and any(
                port in joined({"type": one.type, "properties": one.properties})
                for one in self.old.resources.values()
            )
        )

    async def _virtual_address(self, item: StackItem, after: Definition | None) -> list[str]:
        """The address that a balancer is reached at, unless the one that comes has it again."""
        said = await self.client.attributes(item)
        vip = cast("dict[str, Json]", said["vip"]) if isinstance(said.get("vip"), dict) else said
        has = vip.get("vip_address") or vip.get("address")
        wanted: Json = after.properties if after is not None else {}
        if isinstance(wanted.get("vip"), dict):
            wanted = wanted["vip"]
        again = wanted.get("vip_address") or wanted.get("address")
        return [str(has)] if has and has != again else []


def _is_kept(item: StackItem) -> bool:
    """Whether something is lost with a resource."""
    name = item.path.rpartition(".")[2]
    return item.type in _KINDS and (item.type != SUBNET or name.startswith(SHARED_RANGE))


def _uses(value: Json) -> bool:
    """Whether a value uses a resource."""
    return any((*used_by(value, False), *used_by(value, True)))


def _anew_by_policy(definition: Definition) -> set[str]:
    """The properties whose change makes a server anew because its template says so."""
    given = definition.properties
    found = {one for one, policy, default in _POLICIES if given.get(policy, default) == "REPLACE"}
    return found if definition.type == SERVER else set()


def _between(before: Definition, after: Definition, names: Iterable[str]) -> Changes:
    return {key: (before.properties.get(key), after.properties.get(key)) for key in names}


def _change(key: str, old: Json, new: Json) -> ChangedProperty:
    word = WORDS.get(key) or key.replace("_", " ")
    if key.startswith(_UNSEEN):
        return ChangedProperty(key, str(old), str(new))
    if key in _FIRST_START and not isinstance(new, Unknown):
        return ChangedProperty(word, "as it was", "another")
    return changed(key, old, new)


def _given_name(definition: Definition | None) -> str:
    if definition is None or definition.type == PORT:
        return ""
    names = [definition.properties.get(key) for key in _NAMES]
    return next((one for one in names if isinstance(one, str) and one), "")


def _rows(definition: Definition, key: str) -> list[dict[str, Json]]:
    given: Json = definition.properties.get(key)
    rows = cast("list[Json]", given) if isinstance(given, list) else []
    return [cast("dict[str, Json]", one) for one in rows if isinstance(one, dict)]


def _addresses(definition: Definition) -> set[str]:
    """The addresses that a port's definition asks for."""
    wanted = [one.get("ip_address") for one in _rows(definition, "fixed_ips")]
    return {one for one in wanted if isinstance(one, str)}


def _released(before: Definition, after: Definition) -> Changes:
    """Why a port that is kept gives up addresses; a list that is empty or left out changes none."""
    changed = before.changed(after)
    why = {"fixed_ips"} & changed if _rows(after, "fixed_ips") else set[str]()
    if after.properties.get("no_fixed_ips") in (True, "true", "True"):
        why |= {"no_fixed_ips"} & changed
    return _between(before, after, why)


def _likeness(definition: Definition) -> str:
    return repr((definition.type, [definition.properties.get(key) for key in _ALIKE]))
