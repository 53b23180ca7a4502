"""The attribute store: values that classes keep beside an object's properties (section 20)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any


class AttributeStore:
    """Values by (object id, class name, attribute name). Values are JSON-like."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], Any] = {}

    def load(self, rows: Iterable[list[Any]]) -> None:
        """Take `[[objectId, className, name, value], …]`."""
        for object_id, class_name, name, value in rows:
            self._values[(str(object_id), str(class_name), str(name))] = value

    def get(self, object_id: str, class_name: str, name: str, default: Any = None) -> Any:
        """The value; `default` when it is missing or null."""
        value = self._values.get((object_id, class_name, name))
        return default if value is None else value

    def set(self, object_id: str, class_name: str, name: str, value: Any) -> None:
        """Store a value; None removes it."""
        key = (object_id, class_name, name)
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def forget(self, object_id: str) -> None:
        """Drop everything kept for an object."""
        for key in [key for key in self._values if key[0] == object_id]:
            del self._values[key]

    def dump(self, object_ids: Collection[str]) -> list[list[Any]]:
        """Rows of the given objects, ordered."""
        return [
            [*key, value]
            for key, value in sorted(self._values.items(), key=lambda item: item[0])
            if key[0] in object_ids
        ]
