"""The change that one resource needs: compares its applied properties with the wanted ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vetro.stacks.errors import brief
from vetro.stacks.model import ChangeKind, Json, StackStatus
from vetro.stacks.resources.base import (
    Property,
    ResourceContext,
    ResourceType,
    flag,
    text,
    unknown_in,
)
from vetro.stacks.state.records import ResourceRow
from vetro.stacks.template.functions import Unknown


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and because of which properties."""

    kind: ChangeKind
    reason: str
    changed: frozenset[str] = frozenset()
    resume: bool = False
    """An interrupted creation continues with the same row and the same physical id."""
    kept: frozenset[str] = frozenset()
    """The properties that differ and keep the values that the resource was made with."""

    def settled(self, row: ResourceRow, properties: Mapping[str, Json]) -> dict[str, Json]:
        """The wanted properties, with what is kept as `row` has it."""
        stored = {key: value for key, value in row.properties.items() if key in self.kept}
        return {key: one for key, one in properties.items() if key not in self.kept} | stored


def decide(
    row: ResourceRow | None,
    type_name: str,
    kind: ResourceType,
    properties: Mapping[str, Json],
    renamed: frozenset[str] = frozenset(),
) -> Decision:
    """Compare a resource's row with its evaluated properties.

    `properties` may hold `Unknown` values (when planning); those count as different. `renamed`: properties
    that are known to name what the resource has.
    """
    if row is None:
        return Decision(ChangeKind.CREATE, "it is new")
    if row.type != type_name:
        return Decision(ChangeKind.REPLACE, f"its type was {row.type}")
    if row.status is StackStatus.CREATE_FAILED:
        return Decision(ChangeKind.REPLACE, f"its creation had failed: {row.reason}")
    different = changed_properties(kind, row.properties, properties)
    kept = kind.kept(different, row.properties, properties) | (different & renamed)
    changed = different - kept
    if row.status is StackStatus.CREATE_IN_PROGRESS:
        if changed:
            return Decision(ChangeKind.REPLACE, "its creation was interrupted", changed)
        return Decision(
            ChangeKind.CREATE, "its creation was interrupted and is continued", resume=True
        )
    if not changed and row.status in (
        StackStatus.UPDATE_FAILED,
        StackStatus.UPDATE_IN_PROGRESS,
    ):
        # It is unknown how much of the failed change was applied: apply everything again.
        again = frozenset(key for key in properties if kind.properties[key].update)
        return Decision(ChangeKind.UPDATE, "its last change failed", again, kept=kept)
    if not changed and kept:
        at_first = all(kind.properties[key].first_start for key in kept)
        why = "read at the first start only" if at_first else "the resource has it already"
        return Decision(ChangeKind.KEEP, f"{_list(kept)}: {why}", kept=kept)
    if not changed:
        return Decision(ChangeKind.KEEP, "nothing changed")
    reason = _because(row.properties, properties, changed)
    # What the resource uses and did not make (`claim` is None) is not changed.
    if kind.changed_in_place(changed) and row.claim is not None:
        return Decision(ChangeKind.UPDATE, reason, changed, kept=kept)
    return Decision(ChangeKind.REPLACE, reason, changed)


async def judge(
    row: ResourceRow | None,
    type_name: str,
    kind: ResourceType,
    properties: Mapping[str, Json],
    context: Callable[[ResourceRow], ResourceContext],
) -> Decision:
    """`decide`, with a look at what is named: nothing is replaced because its image, its network or its key
    pair is named by the id instead of the name."""
    decision = decide(row, type_name, kind, properties)
    if row is None or decision.kind is not ChangeKind.REPLACE or not decision.changed:
        return decision
    renamed = await kind.renamed(context(row), decision.changed, row.properties, properties)
    return decide(row, type_name, kind, properties, renamed) if renamed else decision


def _list(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def changed_properties(
    kind: ResourceType, old: Mapping[str, Json], new: Mapping[str, Json]
) -> frozenset[str]:
    """The properties with different values, without those that have no effect.

    Another spelling of the same is no difference: nothing is lost because a template is written anew.
    """
    different: set[str] = set()
    for key in set(old) | set(new):
        known = kind.properties.get(key)
        if known is not None and known.ignored:
            continue
        if known is not None and _means_the_same(known, old.get(key), new.get(key)):
            continue
        if key not in old or key not in new or not _same(old[key], new[key]):
            different.add(key)
    for key, name in kind.spelled.items():
        before, after = old.get(name, old.get(key)), new.get(name, new.get(key))
        if {key, name} <= different and _same(before, after):
            different -= {key, name}
    return frozenset(different)


def _means_the_same(known: Property, old: Json, new: Json) -> bool:
    """Whether two values of one property are spellings of one value; None: it is not given."""
    if isinstance(old, Unknown) or isinstance(new, Unknown):
        return False
    if known.kind in ("list", "map"):
        return not old and not new
    if known.kind == "boolean":
        return None not in (old, new) and flag(old, False) is flag(new, False)
    if known.kind not in ("string", "integer"):
        return False
    if known.update or known.tells_empty:
        return None not in (old, new) and text(old) == text(new)
    return text(old) == text(new)


def _same(old: object, new: object) -> bool:
    """Equality in which true is not 1 and an unknown value never equals another."""
    if isinstance(new, dict) and isinstance(old, dict):
        left: dict[Any, Any] = _any(old)
        right: dict[Any, Any] = _any(new)
        return left.keys() == right.keys() and all(
            _same(value, right[key]) for key, value in left.items()
        )
    if isinstance(new, list) and isinstance(old, list):
        first: list[Any] = _any(old)
        second: list[Any] = _any(new)
        return len(first) == len(second) and all(map(_same, first, second))
    return isinstance(old, bool) is isinstance(new, bool) and bool(old == new)


def _any(value: Any) -> Any:
    return value


def _because(old: Mapping[str, Json], new: Mapping[str, Json], changed: frozenset[str]) -> str:
    parts: list[str] = []
    for key in sorted(changed):
        unknown = unknown_in(new.get(key))
        if unknown is not None:
            parts.append(f"{key} depends on {unknown.reason}")
        elif key not in old:
            parts.append(f"{key} is given")
        elif key not in new:
            parts.append(f"{key} is no longer given")
        else:
            parts.append(f"{key} changes from {brief(old[key], 40)} to {brief(new[key], 40)}")
    return "; ".join(parts)
