"""What a call runs in: its scope of variables, the rule, the mutes of its file (§5, §6)."""

from __future__ import annotations

from dataclasses import dataclass

from vetro.workflows.errors import Place
from vetro.workflows.values import Json


class Scope:
    """The variables of one active call; lookup goes outward."""

    __slots__ = ("parent", "values")

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.values: dict[str, Json] | None = None

    def get(self, name: str) -> Json:
        """A variable of this scope or of one around it; ``None`` if there is none."""
        scope: Scope | None = self
        while scope is not None:
            if scope.values is not None and name in scope.values:
                return scope.values[name]
            scope = scope.parent
        return None

    def put(self, name: str, value: Json) -> None:
        """Set a variable here."""
        if self.values is None:
            self.values = {}
        self.values[name] = value

    def above(self, up: int | None) -> Scope:
        """The scope some levels out; ``None``: the outermost."""
        scope = self
        while scope.parent is not None and up != 0:
            scope = scope.parent
            up = None if up is None else up - 1
        return scope

    def snapshot(self) -> Scope:
        """A copy of this scope and those around it; the values are the same objects (§5)."""
        copy = Scope(None if self.parent is None else self.parent.snapshot())
        copy.values = None if self.values is None else dict(self.values)
        return copy

    def visible(self) -> dict[str, Json]:
        """All variables that can be read here."""
        known = {} if self.parent is None else self.parent.visible()
        known.update(self.values or {})
        return known


@dataclass(frozen=True, slots=True)
class RuleMark:
    """A rule that is running. ``id``: the full id, steps joined by ``/``. ``chain``: for errors."""

    id: str
    place: Place
    description: str
    parent: RuleMark | None = None

    def chain(self) -> tuple[str, ...]:
        """All rules from the outermost, as errors show them."""
        above = () if self.parent is None else self.parent.chain()
        return (*above, f"rule {self.id.rpartition('/')[2]!r} at {self.place}")


class Mutes:
    """Which objects the rules of one file skip: by full rule id and object id (§6.2)."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, bool]] = {}

    def is_muted(self, rule: str, object_id: str) -> bool:
        """Whether a rule skips an object, muted by its chain of ids or by its last id."""
        known = self._known.get(rule)
        if not known:
            return False
        return object_id in known or (
            "/" in object_id and known.get(object_id.rpartition("/")[2], False)
        )

    def mute_for_round(self, rule: str, object_id: str) -> None:
        """The automatic mute; a permanent one stays permanent."""
        self._known.setdefault(rule, {}).setdefault(object_id, False)

    def mute(self, rule: str, object_id: str) -> None:
        """A permanent mute."""
        self._known.setdefault(rule_key(rule), {})[object_id] = True

    def unmute(self, rule: str, object_id: str) -> None:
        """Remove either kind."""
        known = self._known.get(rule_key(rule))
        if not known:
            return
        known.pop(object_id, None)
        if "/" in object_id:
            known.pop(object_id.rpartition("/")[2], None)
        else:
            ending = f"/{object_id}"
            for one in [one for one in known if one.endswith(ending)]:
                del known[one]

    def permanent(self) -> dict[str, list[str]]:
        """What stays muted until the end of the task: object ids by full rule id."""
        kept = {
            rule: [one for one, permanent in known.items() if permanent]
            for rule, known in self._known.items()
        }
        return {rule: objects for rule, objects in kept.items() if objects}

    def restore(self, permanent: dict[str, list[str]]) -> None:
        """Take over what ``permanent()`` gave in a process that is gone."""
        self._known = {rule: dict.fromkeys(objects, True) for rule, objects in permanent.items()}

    def next_round(self) -> None:
        """Forget the automatic mutes."""
        for rule, known in self._known.items():
            self._known[rule] = {one: True for one, permanent in known.items() if permanent}


def rule_key(rule: str) -> str:
    """A full rule id with one separator: the guide joins by ``.``, later files by ``/``."""
    return rule.replace(".", "/")
