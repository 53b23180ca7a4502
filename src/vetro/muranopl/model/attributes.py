"""The attribute store: values that classes keep beside an object's properties (section 20)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from vetro.muranopl.values.containers import Value


class AttributeStore:
    """Values by (object id, class name, attribute name). Values are JSON-like."""

    def __init__(self) -> None:
        self.by_object: dict[str, dict[tuple[str, str], object]] = {}
        """Values by class and attribute name, of each object."""

    def load(self, rows: Iterable[list[object]]) -> None:
        """Take `[[objectId, className, name, value], …]`."""
        for object_id, class_name, name, value in rows:
            self.set(str(object_id), str(class_name), str(name), value)

    def get(self, object_id: str, class_name: str, name: str, default: object = None) -> Value:
        """The value; `default` when it is missing or null."""
        value = self.by_object.get(object_id, {}).get((class_name, name))
        return default if value is None else value

    def set(self, object_id: str, class_name: str, name: str, value: object) -> None:
        """Store a value; None removes it."""
        if value is not None:
            self.by_object.setdefault(object_id, {})[class_name, name] = value
        elif object_id in self.by_object:
            self.by_object[object_id].pop((class_name, name), None)

    def forget(self, object_id: str) -> None:
        """Drop everything kept for an object."""
        self.by_object.pop(object_id, None)

    def dump(self, object_ids: Collection[str]) -> list[list[object]]:
        """Rows of the given objects, ordered."""
        return [
            [object_id, *key, value]
            for object_id, values in sorted(self.by_object.items())
            if object_id in object_ids
            for key, value in sorted(values.items(), key=lambda item: item[0])
        ]
