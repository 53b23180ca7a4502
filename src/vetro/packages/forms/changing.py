"""What a form that was opened again changes in its component: only what was entered.

The object is built twice, with the values as the form opened and as they are now. Where the two are
the same, the component stays as it is, whatever it has; where they differ, it gets the new value.
Ids, and values that were generated, are those that the component has.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from difflib import SequenceMatcher
from typing import Any, cast

from vetro.json_values import JsonObject
from vetro.packages.forms.errors import FormError
from vetro.packages.forms.expressions import KEPT, UNKNOWN

_ABSENT: Any = object()


def patched(
    before: JsonObject,
    after: JsonObject,
    component: JsonObject,
    *,
    generated: Collection[object],
    labels: Mapping[str, str],
) -> JsonObject:
    """The component with what differs between two objects of its form.

    ``generated``: the values that ids and generating expressions gave to the two. ``labels``: of fields by
    their paths. Errors: ``FormError`` when a changed value needs one that could
    not be read from the component.
    """
    renamed: dict[str, str] = {}
    _same(before, component, renamed)
    return cast("JsonObject", _Patch(renamed, generated, labels).value(before, after, component))


class _Patch:
    def __init__(
        self, renamed: dict[str, str], generated: Collection[object], labels: Mapping[str, str]
    ) -> None:
        self.renamed = renamed
        self.generated = {one for one in generated if isinstance(one, str)}
        self.labels = labels

    def value(self, before: Any, after: Any, there: Any) -> Any:
        """``there`` with the differences between two values at its place."""
        if before == after:
            return there
        if (
            isinstance(before, str)
            and before.startswith(UNKNOWN)
            and isinstance(there, (dict, list))
        ):
            _same(after, there, self.renamed)
            return self._carried(after, there)
        each: tuple[Any, Any, Any] = (before, after, there)
        if all(isinstance(one, dict) for one in each):
            if len({_class(one) for one in each}) == 1:
                return self._map(*each)
        elif all(isinstance(one, list) for one in each):
            lists = cast("tuple[list[Any], list[Any], list[Any]]", each)
            if any(isinstance(one, dict) for one in [*lists[1], *lists[2]]):
                return self._list(*lists)
        return self._new(after)

    def _carried(self, after: Any, there: Any) -> Any:
        """A value whose former one could not be built: objects that are there stay the same objects."""
        if isinstance(after, dict) and isinstance(there, dict):
            new, old = cast("JsonObject", after), cast("JsonObject", there)
            if _class(new) != _class(old):
                return self._new(new)
            return {**old, **{key: self._carried(one, old.get(key)) for key, one in new.items()}}
        if isinstance(after, list) and isinstance(there, list):
            items, known = cast("list[Any]", after), cast("list[Any]", there)
            return [
                self._carried(one, known[place]) if place < len(known) else self._new(one)
                for place, one in enumerate(items)
            ]
        is_generated = isinstance(after, str) and after in self.generated
        return there if is_generated and there is not None else self._new(after)

    def _map(self, before: JsonObject, after: JsonObject, there: JsonObject) -> JsonObject:
        made = dict(there)
        for key in {**before, **after}:
            was, now = before.get(key, _ABSENT), after.get(key, _ABSENT)
            if now is _ABSENT:
                made.pop(key, None)
            elif was is _ABSENT or key not in there:
                if was != now:
                    made[key] = self._new(now)
            else:
                made[key] = self.value(was, now, there[key])
        return made

    def _list(self, before: list[Any], after: list[Any], there: list[Any]) -> list[Any]:
        """Elements that stay are those that are there, also when one before them went."""
        made: list[Any] = []
        known = [[_bare(one) for one in part] for part in (before, after)]
        matcher = SequenceMatcher(None, *known, autojunk=False)
        for word, start, end, first, last in matcher.get_opcodes():
            if word == "equal":
                made += there[start:end]
                continue
            for place in range(first, last):
                old = start + place - first
                if old < end and old < len(there):
                    made.append(self.value(before[old], after[place], there[old]))
                else:
                    made.append(self._new(after[place]))
        return made + there[len(before) :]

    def _new(self, value: Any) -> Any:
        """A value that the form makes; it refers to the objects that are there."""
        if isinstance(value, str):
            if "\0" in value:
                raise self._missing(value)
            return self.renamed.get(value, value)
        if isinstance(value, dict):
            made = {key: self._new(one) for key, one in cast("JsonObject", value).items()}
            header = cast("JsonObject", value).get("?")
            if isinstance(header, dict) and cast("JsonObject", header).get("id") in self.renamed:
                # Its place was that of an object that is there, which is not this one.
                made["?"]["id"] = uuid.uuid4().hex
            return made
        if isinstance(value, list):
            return [self._new(one) for one in cast("list[Any]", value)]
        return value

    def _missing(self, value: str) -> FormError:
        names = [label for path, label in self.labels.items() if f"{KEPT}{path}" in value]
        which = " and ".join(names or self.labels.values()) or "every field"
        return FormError(
            f"What was changed is made together with {which}, whose present value cannot be read from"
            " the component: enter it as well"
        )


def _class(value: object) -> str | None:
    header = cast("JsonObject", value).get("?")
    if not isinstance(header, dict):
        return None
    return str(cast("JsonObject", header).get("type")).partition("/")[0]


def _bare(value: Any) -> str:
    """A value without the ids of its objects, to compare."""
    return json.dumps(_without_ids(value), sort_keys=True, default=str)


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        node = cast("JsonObject", value)
        header = node.get("?")
        rest = {key: _without_ids(one) for key, one in node.items() if key != "?"}
        if isinstance(header, dict):
            block = cast("JsonObject", header)
            rest["?"] = {key: one for key, one in block.items() if key != "id"}
        return rest
    if isinstance(value, list):
        return [_without_ids(one) for one in cast("list[Any]", value)]
    return value


def _same(before: Any, there: Any, renamed: dict[str, str]) -> None:
    """Note the ids of the component's objects beside those of the same objects as the form builds them."""
    if isinstance(before, dict) and isinstance(there, dict):
        old, own = cast("JsonObject", before), cast("JsonObject", there)
        for key, one in old.items():
            if key in own:
                _same(one, own[key], renamed)
        if "?" in old and _class(old) == _class(own):
            ids = [cast("JsonObject", one["?"]).get("id") for one in (old, own)]
            if isinstance(ids[0], str) and isinstance(ids[1], str):
                renamed[ids[0]] = ids[1]
    elif isinstance(before, list) and isinstance(there, list):
        for one, own in zip(cast("list[Any]", before), cast("list[Any]", there), strict=False):
            _same(one, own, renamed)
