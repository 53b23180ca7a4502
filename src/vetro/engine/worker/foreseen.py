"""What a refused deployment would have lost after its first refusal, as far as two models tell it.

Each push of a program is judged by itself, and what follows a refused one is never run. So who gives three
machines another image would be asked three times. The models before and after the change say which machines
that a stack has leave, get another name or are made of something else; the back end says what goes with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from vetro.engine.services import EngineServices
from vetro.engine.system.owners import INSTANCE, REGION
from vetro.environments import EngineTask, Machine, machines
from vetro.json_values import Json, JsonObject
from vetro.stacks import ChangedProperty, Loss, LossHow, LossKind, LossRefused, StackBusy, unnamed

_GENERATED = "generatedStackName"
_MADE_OF = {"image": ("image", "image"), "keyname": ("key_name", "key pair")}
"""Properties whose change replaces a machine: that of its resource, and the word."""


@dataclass(frozen=True)
class _Going:
    """A machine that leaves its stack, or is replaced there."""

    server: str
    """Its resource."""
    resources: list[str]
    """All that leaves with it."""
    changes: tuple[ChangedProperty, ...] = ()
    """Why it is replaced; none: it leaves."""


async def with_foreseen(
    refused: LossRefused, services: EngineServices, task: EngineTask
) -> LossRefused:
    """The refusal with what else the changes of the task would lose of the machines of the home region."""
    said = {one.key: one for one in refused.losses}
    for name in _stacks(task.model):
        try:
            lost = await _lost(services, task.model, name)
        except (StackBusy, ConnectionError):
            continue  # what was refused is known
        for one in lost:
            if one.changes or one.key not in said:
                said[one.key] = one
    more = unnamed(list(said.values()), services.may_lose)
    return LossRefused(refused.stack, more, begun=refused.begun)


async def _lost(services: EngineServices, model: JsonObject, name: str) -> list[Loss]:
    """What the changes of a model would lose of one stack."""
    stack = await services.stacks.get(services.project_id, name)
    going = [] if stack is None else list(_going(model, stack.template))
    if not going:
        return []
    resources = [resource for one in going for resource in one.resources]
    changes = {one.server: one.changes for one in going if one.changes}
    return [
        replace(one, how=LossHow.REPLACED, changes=changes[one.resource])
        if one.kind is LossKind.MACHINE and one.resource in changes
        else one
        for one in await services.stacks.would_lose(services.project_id, name, resources)
    ]


def _stacks(model: JsonObject) -> list[str]:
    """The stacks of the environment's regions, as `CloudRegion` names them."""
    rows = cast("list[list[Any]]", model.get("Attributes") or [])
    return [
        f"murano-{value}" for _, kind, name, value in rows if (kind, name) == (REGION, _GENERATED)
    ]


def _going(model: JsonObject, template: JsonObject) -> Iterator[_Going]:
    """The machines that the changes of a model take from the stack of a template, or replace there."""
    bodies = cast("JsonObject", template.get("resources") or template.get("Resources") or {})
    kept = _kept(model)
    wanted = {one.id: one for one in machines(model.get("Objects"))}
    for one in machines(model.get("ObjectsCopy")):
        had = kept.get(one.id, {})
        server: Json = had.get("serverName")
        if not isinstance(server, str) or server not in bodies:
            continue
        new = wanted.get(one.id)
        resources: list[str] = [server, *(had.get("instanceResources") or [])]
        if new is None:
            yield _Going(server, [*resources, *(f"vol-{id_}" for id_ in _inside(one))])
            continue
        made = _made_of_others(one, new, bodies[server])
        if new.name != one.name:
            renamed = ChangedProperty("host name", one.name, new.name)
            yield _Going(server, resources, (renamed, *made))
        elif made:
            yield _Going(server, [server], (*made,))


def _made_of_others(old: Machine, new: Machine, body: Json) -> list[ChangedProperty]:
    """What a machine is made of and is another one; a class that writes something else is not believed."""
    properties = cast("JsonObject", cast("JsonObject", body).get("properties") or {})
    return [
        ChangedProperty(word, str(was), str(new.node[name]))
        for name, (key, word) in _MADE_OF.items()
        if (was := old.node.get(name))
        and new.node.get(name)
        and new.node[name] != was
        and properties.get(key) == was
    ]


def _kept(model: JsonObject) -> dict[str, dict[str, Any]]:
    """What instances keep beside their properties, by their ids."""
    found: dict[str, dict[str, Any]] = {}
    for id_, class_name, name, value in cast("list[list[Any]]", model.get("Attributes") or []):
        if class_name == INSTANCE:
            found.setdefault(id_, {})[name] = value
    return found


def _inside(machine: Machine) -> Iterator[str]:
    """The ids of the objects that a machine owns."""
    waiting: list[Json] = [one for key, one in machine.node.items() if key != "?"]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            node = cast("JsonObject", value)
            header = node.get("?")
            if isinstance(header, dict):
                yield str(cast("JsonObject", header).get("id"))
            waiting += [one for key, one in node.items() if key != "?"]
        elif isinstance(value, list):
            waiting += cast("list[Json]", value)
