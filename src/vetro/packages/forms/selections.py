"""Which of the things that the platform offers a field lets people choose (B3, B4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from vetro.packages.forms.offers import Choice

Attributes = Mapping[str, Any]


def selected(kind: str, attributes: Attributes, found: list[Choice]) -> list[Choice]:
    """The choices that fit the attributes of a field of a type."""
    selection = _SELECTIONS.get(kind)
    return found if selection is None else selection(attributes, found)


_SIZES = {"vcpus": "vcpus", "disk": "disk", "memory_mb": "memory"}


def _flavors(attributes: Attributes, found: list[Choice]) -> list[Choice]:
    """Those within ``requirements``, by name; a size that is not known refuses nothing."""
    wanted = attributes.get("requirements")
    kept: list[Choice] = []
    for one in sorted(found, key=lambda choice: choice.label):
        fits = True
        for name, key in _SIZES.items():
            size = one.details.get(key)
            if not isinstance(wanted, dict) or not isinstance(size, (int, float)):
                continue
            limits = cast("dict[str, object]", wanted)
            least, most = limits.get(f"min_{name}"), limits.get(f"max_{name}")
            if isinstance(least, (int, float)) and size < least:
                fits = False
            if isinstance(most, (int, float)) and size > most:
                fits = False
        if fits:
            kept.append(one)
    return kept


def _images(attributes: Attributes, found: list[Choice]) -> list[Choice]:
    """Those of ``imageType`` (``linux``: also ``linux.*``), by title."""
    wanted = attributes.get("image_type")
    kept: list[Choice] = []
    for one in found:
        type_ = one.details.get("type")
        if wanted is not None and one.details:
            if not isinstance(type_, str):
                continue  # marked without a type
            if type_ != wanted and not type_.startswith(f"{wanted}."):
                continue
        kept.append(one)
    return sorted(kept, key=lambda choice: choice.label)


def _security_groups(_attributes: Attributes, found: list[Choice]) -> list[Choice]:
    return [one for one in found if not one.label.startswith("murano--")]


def _volumes(attributes: Attributes, found: list[Choice]) -> list[Choice]:
    kept: list[Choice] = []
    for one in found:
        is_snapshot = one.details.get("kind") == "snapshot"
        attribute = "include_snapshots" if is_snapshot else "include_volumes"
        available = one.details.get("status", "available") == "available"
        if available and attributes.get(attribute) is not False:
            kept.append(one)
    return kept


_SELECTIONS: dict[str, Callable[[Attributes, list[Choice]], list[Choice]]] = {
    "flavor": _flavors,
    "image": _images,
    "securitygroup": _security_groups,
    "volume": _volumes,
}
