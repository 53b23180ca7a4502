"""Schemas of answers that are made from the types of what is sent."""

from __future__ import annotations

from typing import NotRequired, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from vetro.http import shape_of


class Part(TypedDict):
    """A part of a thing."""

    size: int | None


class Thing(TypedDict):
    """A thing with parts."""

    id: str
    parts: list[Part]
    note: NotRequired[str]
    seen: str


class Sent(msgspec.Struct, rename="camel"):
    """A struct as it is sent."""

    is_open: bool
    part: Part | None
    last_word: str | UnsetType = UNSET


def test_typed_dictionaries_become_schemas() -> None:
    """Fields keep their order; those that are not required may be absent; a field's own schema wins."""
    made = shape_of(Thing, "Other", ["seen"], seen={})
    part = {
        "type": "object",
        "properties": {"size": {"type": ["integer", "null"]}},
        "required": ["size"],
    }
    assert made.name == "Other"
    assert list(made["properties"]) == ["id", "parts", "note", "seen"]
    assert made["properties"]["parts"] == {"type": "array", "items": part}
    assert made["properties"]["seen"] == {}
    assert made["required"] == ["id", "parts"]


def test_structs_become_schemas() -> None:
    """Fields have the names that are sent; those that can be unset may be absent; null stays."""
    made = shape_of(Sent)
    assert made.name == "Sent"
    assert made["required"] == ["isOpen", "part"]
    assert made["properties"]["lastWord"] == {"type": "string"}
    assert [*made["properties"]["part"]] == ["anyOf"]
