"""The worker's side of upgrades: what moving objects to other package versions changes and breaks.

The classes of both versions are compared property by property, and the changed model is loaded.
Loading constructs objects, so code of packages runs (`.init`); here the effects port refuses
effects on the outside, and time does not pass.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import cast

from vetro.engine.services import ATTRIBUTE_KEPT
from vetro.environments import (
    ComparedApplication,
    Comparison,
    MovePlan,
    MoveView,
    PropertyChange,
    make_moves,
)
from vetro.json_values import JsonObject
from vetro.muranopl import (
    DirectEffects,
    Json,
    MappingNode,
    MuranoError,
    MuranoType,
    ScalarNode,
    SequenceNode,
    Session,
)
from vetro.packages import did_you_mean, missing_arguments, value_problems
from vetro.secrecy import Cover, secrets_in

#: Effects that only read, or keep something in a model, which a preview discards.
READING = frozenset(
    {
        *("identity.user", "identity.project", "network.cidr", "network.external"),
        *("stack.get", "stack.output", "volume.exists", ATTRIBUTE_KEPT),
    }
)
READING_PREFIX = "network.list_"
MakeSession = Callable[[DirectEffects], Session]


class RefusedEffects(DirectEffects):
    """An effects port that executes only reads, and records the effects that it refused."""

    def __init__(self) -> None:
        super().__init__(start=datetime.now(UTC))
        self.refused: list[str] = []

    def perform(self, kind: str, request: Json, execute: Callable[[], Awaitable[Json]]) -> Json:
        if kind in READING or kind.startswith(READING_PREFIX):
            return super().perform(kind, request, execute)
        self.refused.append(kind)
        raise MuranoError(f"a preview must not have effects, but the program asks for one: {kind}")


async def compare(make_session: MakeSession, arguments: JsonObject) -> Comparison:
    """The answer of ``CallStore.compare``."""
    model: JsonObject = arguments["model"]
    plans: list[MovePlan] = arguments["plans"]
    cover = Cover(secrets_in([model, plans]))
    found: dict[str, ComparedApplication] = {}
    for plan in plans:
        changes: dict[str, list[PropertyChange]] = {}
        wrong: list[str] = []
        notes: list[str] = []
        nodes = _objects_of(_moved(model, [plan]))
        for move in plan["moves"]:
            node = nodes.get(move["id"])
            if node is None:
                continue  # the object is not in the new value
            session = make_session(RefusedEffects())
            try:
                listed, said, noted = await session.in_green_thread_async(
                    lambda s=session, m=move, n=node: _compared(s, m, n)
                )
            finally:
                await session.close_async()
            changes[move["id"]] = listed
            wrong += said
            notes += noted
        found[plan["id"]] = {"changes": changes, "problems": wrong, "notes": notes}
    sound = [plan for plan in plans if not found[plan["id"]]["problems"]]
    together = await load_problem(make_session, _moved(model, sound)) if sound else ("", "")
    general: list[str] = []
    if together[0]:
        # Load each move alone to find the one that fails.
        alone = {one["id"]: await load_problem(make_session, _moved(model, [one])) for one in sound}
        for id_, (error, _) in alone.items():
            if error:
                found[id_]["problems"].append(error)
        if not any(error for error, _ in alone.values()):
            general.append(together[0])
    if together[1]:
        for plan in sound:
            found[plan["id"]]["notes"].append(together[1])
    for one in found.values():
        one["problems"] = [cover(text) for text in dict.fromkeys(one["problems"])]
        one["notes"] = [cover(text) for text in dict.fromkeys(one["notes"])]
    return {"applications": found, "problems": [cover(text) for text in general]}


def _moved(model: Mapping[str, object], plans: list[MovePlan]) -> dict[str, object]:
    """A copy of a model with the moves of some applications applied."""
    objects = copy.deepcopy(model.get("Objects"))
    properties = {plan["id"]: plan["properties"] for plan in plans if plan["properties"]}
    make_moves(objects, [move for plan in plans for move in plan["moves"]], properties)
    return {**model, "Objects": objects}


def _objects_of(model: Mapping[str, object]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    waiting: list[object] = [model["Objects"]]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(cast("list[object]", value))
        elif isinstance(value, dict):
            node = cast("dict[str, object]", value)
            block = node.get("?")
            if isinstance(block, dict):
                found[str(cast("dict[str, object]", block).get("id"))] = node
            waiting.extend(item for key, item in node.items() if key != "?")
    return found


async def load_problem(make_session: MakeSession, model: dict[str, object]) -> tuple[str, str]:
    """Why a model cannot be loaded, and what could not be checked; empty texts when all is well."""
    effects = RefusedEffects()
    session = make_session(effects)
    try:
        await session.check_async(model)
    except MuranoError as error:
        text = f"{error.message}; {error.hint}" if error.hint else error.message
        if effects.refused:
            kinds = ", ".join(dict.fromkeys(effects.refused))
            return (
                "",
                f"the construction of objects could not be previewed completely: it needs {kinds}",
            )
        return text, ""
    finally:
        await session.close_async()
    return "", ""


def _compared(
    session: Session, move: MoveView, node: Mapping[str, object]
) -> tuple[list[PropertyChange], list[str], list[str]]:
    """The differences between the class versions of an object, the problems with the object's
    values, and notes on what could not be compared."""
    try:
        new = _type(session, move, move["to"])
        after = _properties(new)
        schema = session.runtime.schema(
            new.name,
            [""],
            version_spec=f"={new.package.semantic_version}",
            package=new.package.name,
        )[""]["properties"]
    except MuranoError as error:
        return [], [f"{move['class']} {move['to']}: {error.message}"], []
    wrong: list[str] = []
    known = cast("dict[str, dict[str, object]]", schema)
    for name, value in node.items():
        if name in known:
            wrong += value_problems(value, known[name], f"{move['class']}.{name}")
    wrong += [f"{move['class']}.{name} is required" for name in missing_arguments(node, known)]
    if move["from"] is None:
        return [], wrong, [f"the former version of {move['class']} is not known"]
    try:
        before = _properties(_type(session, move, move["from"]))
    except MuranoError as error:
        return [], wrong, [f"not compared with {move['from']}: {error.message}"]
    # A name that neither version has is a mistake in the new values.
    for name in node:
        if name != "?" and name not in before and name not in after:
            wrong.append(f"{move['class']} takes no {name}{did_you_mean(name, after)}")
    return _differences(before, after), wrong, []


def _type(session: Session, move: MoveView, version: str) -> MuranoType:
    return session.runtime.classes.type_from_model(
        move["class"], f"=={version}", move["package"], None, session.info.project_id
    )


def _properties(type_: MuranoType) -> dict[str, dict[str, object]]:
    """The stored properties of a class as they are written."""
    found: dict[str, dict[str, object]] = {}
    for name in type_.property_names():
        declaration = type_.property_declarations(name)[0]
        if not declaration.is_stored:
            continue
        one: dict[str, object] = {
            "usage": declaration.usage,
            "contract": written(declaration.contract),
        }
        if declaration.default is not None:
            one["default"] = written(declaration.default)
        found[name] = one
    return found


def _differences(
    before: dict[str, dict[str, object]], after: dict[str, dict[str, object]]
) -> list[PropertyChange]:
    rows: list[PropertyChange] = []
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        change, aspects = "added" if old is None else "removed", list[str]()
        if old is not None and new is not None:
            change = "changed"
            aspects = [
                one
                for one in ("contract", "default", "usage")
                if (one in old, old.get(one)) != (one in new, new.get(one))
            ]
        rows.append(
            {"property": name, "change": change, "aspects": aspects, "from": old, "to": new}
        )
    return rows


def written(node: object) -> Json:
    """A contract or a default as the class file has it, as JSON."""
    if isinstance(node, SequenceNode):
        return [written(item) for item in node.items]
    if isinstance(node, MappingNode):
        return {str(written(key)): written(value) for key, value in node.pairs}
    value = cast("ScalarNode", node).value
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
