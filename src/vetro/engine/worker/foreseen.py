"""What the changes of a deployment would lose, as far as two models and the template tell it.

Each push of a program is judged by itself. Those before the refused one were done, and those after it are
never run: who gives three machines another image would be asked three times, and a network would be made for
a machine that is not to be replaced. So the models before and after the change are compared first: machines
that leave, get another name, or are made of something else; volumes and addresses. The back end says what
goes with them (decision 0814).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

from vetro.engine.services import EngineServices, logger
from vetro.engine.system.owners import INSTANCE, REGION
from vetro.engine.system.template_spelling import section
from vetro.engine.worker.asked_of_stacks import (
    FLOATING,
    NETWORK,
    Side,
    changes,
    group_name,
    is_existing,
    written,
)
from vetro.environments import EngineTask, Machine
from vetro.json_values import Json, JsonObject
from vetro.stacks import ChangedProperty, Loss, LossHow, LossKind, LossRefused, unnamed

_GENERATED = "generatedStackName"


@dataclass(frozen=True)
class _Going:
    """Something that leaves its stack, or is replaced there."""

    resources: list[str]
    """All that leaves; what is replaced is the first one."""
    changes: tuple[ChangedProperty, ...] = ()
    """Why it is replaced; none: it leaves."""
    stays: bool = True
    """Whether its object is in both models. What a program has made is in the later one only if it is kept
    there; the engine may know better."""
    written: JsonObject = field(default_factory=dict[str, Json])
    """The new values of the properties that are changed, if each of them is a name or an id."""


@dataclass
class _Foreseen:
    """What is lost of some stacks."""

    losses: dict[str, Loss] = field(default_factory=dict[str, Loss])
    certain: set[str] = field(default_factory=set[str])
    """The keys of what objects lose that stay."""
    stack: str = ""


async def with_foreseen(
    refused: LossRefused, services: EngineServices, task: EngineTask
) -> LossRefused:
    """The refusal with what else the changes of the task would lose of the machines of the home region."""
    said = {one.key: one for one in refused.losses}
    for key, one in (await _foreseen(services, task.model)).losses.items():
        if one.changes or key not in said:
            said[key] = one
    more = unnamed(list(said.values()), services.may_lose)
    return LossRefused(refused.stack, more, begun=refused.begun)


async def refused_before(services: EngineServices, task: EngineTask) -> LossRefused | None:
    """The refusal of a deployment before it begins; ``None``: nothing is known that it would lose."""
    found = await _foreseen(services, task.model)
    lost = unnamed([*found.losses.values()], services.may_lose)
    certain = any(one.key in found.certain for one in lost)
    return LossRefused(found.stack, lost) if certain else None


async def _foreseen(services: EngineServices, model: JsonObject) -> _Foreseen:
    found = _Foreseen()
    models = _Models(model, services.settings.engine.home_region)
    for name in models.stacks if models.differ else ():
        try:
            await _add_lost(found, services, models, name)
        except Exception as error:  # noqa: BLE001 - the program comes to it as well, and says it better
            logger(__name__).warning("losses_not_foreseen", stack=name, error=str(error))
    return found


async def _add_lost(found: _Foreseen, services: EngineServices, models: _Models, name: str) -> None:
    """Add what the changes would lose of one stack."""
    stack = await services.stacks.get(services.project_id, name)
    if stack is None:
        return
    there: JsonObject = stack.template
    bodies = section(there, "resources")
    networks = await _named_networks(services, models)
    going = [*models.going(bodies, networks)]
    if same := await _renamed(going, services, name, there):
        # A machine does not go with a volume that is only named in other words.
        going = [
            one for one in models.going(bodies, networks, same) if one.resources[0] not in same
        ]
    if stack.status.failed:
        # Its template was wished, and what is there may be as before: a change may lead back to that.
        going = [one for one in going if not one.changes]
    if not going:
        return
    why = {one.resources[0]: one.changes for one in going if one.changes}
    certain = {resource for one in going if one.stays for resource in one.resources}
    resources = [resource for one in going for resource in one.resources]
    for one in await services.stacks.would_lose(services.project_id, name, resources):
        if one.kind in (LossKind.MACHINE, LossKind.VOLUME) and one.resource in why:
            one = replace(one, how=LossHow.REPLACED, changes=why[one.resource])
        found.losses[one.key] = one
        if one.resource in certain:
            found.certain.add(one.key)
            found.stack = name


async def _renamed(
    going: list[_Going], services: EngineServices, name: str, template: JsonObject
) -> set[str]:
    """What has already what it is to have: its image or key pair is named in other words."""
    if not any(one.written for one in going):
        return set()
    key = "resources" if "resources" in template else "Resources"
    wanted = dict(cast("JsonObject", template[key]))
    for one in going:
        if one.written:
            body = cast("JsonObject", wanted[one.resources[0]])
            old = cast("JsonObject", body["properties"])
            wanted[one.resources[0]] = {**body, "properties": {**old, **one.written}}
    changed = {**template, key: wanted}
    found = await services.stacks.would_lose_with(services.project_id, name, changed)
    lost = {loss.resource for loss in found}
    return {one.resources[0] for one in going if one.written} - lost


async def _named_networks(services: EngineServices, models: _Models) -> dict[str, str]:
    """The ids of the project's networks by id and name, if a change names another one."""
    if not models.renamed_networks:
        return {}
    rows = await services.directory.list_networks(services.project_id)
    # As `ExistingNeutronNetwork` looks: the first one of an id or a name.
    return {str(one[key]): str(one["id"]) for one in reversed(rows) for key in ("name", "id")}


class _Models:
    """A model before and after the change."""

    def __init__(self, model: JsonObject, home: str) -> None:
        rows = cast("list[list[Any]]", model.get("Attributes") or [])
        keys = {id_: value for id_, kind, name, value in rows if (kind, name) == (NETWORK, "key")}
        self.stacks = [
            f"murano-{value}"
            for _, kind, name, value in rows
            if (kind, name) == (REGION, _GENERATED)
        ]
        """Of the environment's regions, as `CloudRegion` names them."""
        self.before = Side(model.get("ObjectsCopy"), keys)
        self.after = Side(model.get("Objects"), keys)
        self.differ = model.get("ObjectsCopy") != model.get("Objects")
        self._home = home
        self._kept: dict[str, dict[str, Any]] = {}
        for id_, kind, name, value in rows:
            if kind == INSTANCE:
                self._kept.setdefault(id_, {})[name] = value

    @property
    def renamed_networks(self) -> list[tuple[str, str]]:
        """The keys of networks that are to be other existing ones, and what those are called."""
        return [
            (self.before.key(one), str(new["internalNetworkName"]))
            for id_, one in self.before.objects.items()
            if is_existing(one)
            and (new := self.after.objects.get(id_, {})).get("internalNetworkName")
            and new["internalNetworkName"] != one.get("internalNetworkName")
        ]

    def going(
        self, bodies: JsonObject, networks: dict[str, str], same: Collection[str] = ()
    ) -> Iterator[_Going]:
        """What the change takes from the stack of a template, or replaces there; ``same``: what stays."""
        volumes = [*self._volumes(bodies)]
        replaced = {one.resources[0] for one in volumes if one.changes}.difference(same)
        replaced |= {*self._groups(bodies), *self._ports(bodies, networks)}
        yield from volumes
        for machine in self.before.machines.values():
            yield from self._machine(machine, bodies, replaced)

    def _machine(self, old: Machine, bodies: JsonObject, replaced: set[str]) -> Iterator[_Going]:
        had = self._kept.get(old.id, {})
        # After a refusal that came late it may have a name that no resource has yet.
        names: list[str] = [had.get("serverName", old.name), old.name]
        server = next((one for one in names if one in bodies), None)
        if server is None:
            return
        floating = self.before.floating(old) & bodies.keys()
        own = cast("list[str]", had.get("instanceResources") or [])
        resources = [server, *(one for one in own if one in bodies)]
        resources += floating.difference(resources)
        new = self.after.machines.get(old.id)
        if new is None:
            yield _Going(resources, stays=False)
            return
        named = replace(new, node={**new.node, "name": old.name})
        parts = self.before.machine(old), self.after.machine(named)
        why = changes(*parts, bodies[server], replaced)
        moved = False
        places = [one.region or self._home for one in (old, new)]
        if places[0] != places[1]:
            why.insert(0, ChangedProperty("region", *(one or "home" for one in places)))
            moved = True
        if new.name != old.name and _property(bodies[server], "name") == old.name:
            why.insert(0, ChangedProperty("host name", old.name, new.name))
            moved = True
        lost = [one for one in floating if one not in self.after.floating(named)]
        lost = [one for one in lost if bodies[one].get("type") in FLOATING]
        if why:
            new_values = {} if moved or lost else written(*parts)
            yield _Going(resources if moved else [server, *lost], (*why,), written=new_values)
        elif lost:
            yield _Going(lost)

    def _volumes(self, bodies: JsonObject) -> Iterator[_Going]:
        for id_, node in self.before.objects.items():
            resource = f"vol-{id_}"
            if resource not in bodies:
                continue
            new = self.after.objects.get(id_)
            if new is None:
                yield _Going([resource], stays=False)
                continue
            parts = self.before.volume(node), self.after.volume(new)
            why = changes(*parts, bodies[resource])
            if why:
                yield _Going([resource], (*why,), written=written(*parts))

    def _groups(self, bodies: JsonObject) -> Iterator[str]:
        """The server groups that are to have another policy."""
        for id_, node in self.before.objects.items():
            new = self.after.objects.get(id_)
            resource = group_name(node)
            if new is not None and resource in bodies:
                policies = [self.before.policy(node)]
                if _property(bodies[resource], "policies") == policies != [self.after.policy(new)]:
                    yield resource

    def _ports(self, bodies: JsonObject, networks: dict[str, str]) -> Iterator[str]:
        """The ports that are to be in other networks."""
        wanted = {
            key: networks[called] for key, called in self.renamed_networks if called in networks
        }
        for id_, one in self.before.objects.items():
            key = self.before.key(one)
            known = f"port-{key}-"
            other = is_existing(one) != is_existing(self.after.objects.get(id_, one))
            for name, body in bodies.items() if other or key in wanted else ():
                if name.startswith(known) and (other or _property(body, "network") != wanted[key]):
                    yield name


def _property(body: Json, name: str) -> Json:
    properties: JsonObject = cast("JsonObject", body).get("properties") or {}
    return properties.get(name)
