"""What a form's fields can choose from: flavors, images, networks, components … (B4, B10).

`Offers` is data, which the service that shows a form gathers first (from a compute service, a session, a
test). A kind that is ``None`` is not known: its fields take any text. A kind that is an empty list offers
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from vetro.packages.forms.errors import FormError
from vetro.packages.forms.expressions import matches

KINDS = (
    *("flavors", "images", "keypairs", "azones", "networks", "volumes"),
    *("security_groups", "dns_zones"),
)
#: What a flavor gives a machine: cores, MiB of memory, GiB of disk.
SIZES = ("vcpus", "memory", "disk")
ANY_CLASS = "*"
"""The type of a component that fits every field (form-case)."""
_ITEM = re.compile(r"""\s*(?:u?'([^']*)'|u?"([^"]*)"|([^\s,'"()\[\]]+))\s*""")


@dataclass(frozen=True)
class Choice:
    """One thing to choose. ``value`` is what the form stores; texts are plain, never markup."""

    value: Any
    label: str
    enabled: bool = True
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def as_json(self) -> dict[str, object]:
        """``value`` and ``label``; ``enabled`` when it cannot be chosen now; ``size`` of a flavor."""
        shown: dict[str, object] = {"value": self.value, "label": self.label}
        if {"vcpus", "memory"} <= self.details.keys():
            shown["size"] = {name: self.details[name] for name in SIZES if name in self.details}
        return shown if self.enabled else {**shown, "enabled": False}


@dataclass(frozen=True)
class Component:
    """An object of the environment. ``classes``: its class and, where known, those it inherits."""

    id: str
    name: str
    type: str
    classes: tuple[str, ...] = ()

    @property
    def class_name(self) -> str:
        """Its class, without version and package."""
        return self.type.partition("/")[0].partition("@")[0]

    def fits(self, wanted: Sequence[str]) -> bool:
        """Whether a field of these classes can name it."""
        own = self.class_name
        return own == ANY_CLASS or any(one == own or one in self.classes for one in wanted)


@dataclass(frozen=True)
class PackageOffer:
    """A package with classes that a field wants: a component of it can be created."""

    id: str
    full_name: str
    name: str
    version: str
    classes: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """As it is described; ``class``: the one that fits."""
        return {
            "id": self.id,
            "fully_qualified_name": self.full_name,
            "name": self.name,
            "version": self.version,
        }


@dataclass(frozen=True)
class Offers:
    """What there is to choose from. ``kinds``: `KINDS`; an item is a `Choice` or, for networks, a map.

    ``components`` ``None``: not known. ``region``: of the environment. ``preselected``: values that
    fields have before anything is chosen, by field, type or kind. ``warnings``: sources that failed.
    """

    kinds: Mapping[str, Sequence[object] | None] = field(default_factory=dict[str, Any])
    components: Sequence[Component] | None = None
    packages: Sequence[PackageOffer] = ()
    environments: Sequence[str] = ()
    region: str = "RegionOne"
    preselected: Mapping[str, object] = field(default_factory=dict[str, Any])
    warnings: Sequence[str] = ()

    def choices(self, kind: str) -> list[Choice] | None:
        """The choices of a kind; ``None`` when it is not known."""
        items = self.kinds.get(kind)
        return None if items is None else [_choice(one) for one in items]

    def of_classes(self, classes: Sequence[str]) -> list[Choice] | None:
        """The components that fit; ``None`` when they are not known."""
        if self.components is None:
            return None
        return [
            Choice(one.id, one.name or one.id, details={"type": one.type})
            for one in self.components
            if one.fits(classes)
        ]

    def makers(self, classes: Sequence[str]) -> list[dict[str, object]]:
        """The packages that have a class of these."""
        return [
            {**one.as_json(), "class": next(name for name in classes if name in one.classes)}
            for one in self.packages
            if not set(classes).isdisjoint(one.classes)
        ]


NO_OFFERS = Offers()


def _choice(item: object) -> Choice:
    if isinstance(item, Choice):
        return item
    if isinstance(item, (list, tuple)):
        pair = cast("Sequence[object]", item)
        value: object = pair[0] if pair else ""
        more: object = pair[2] if len(pair) > 2 else None
        details = cast("dict[str, object]", more) if isinstance(more, dict) else {}
        return Choice(value, str(pair[1]) if len(pair) > 1 else str(value), details=details)
    if isinstance(item, dict):
        given = cast("dict[str, object]", item)
        value = given.get("value", given.get("id", given.get("name", "")))
        label = given.get("label", given.get("name", value))
        return Choice(value, str(label), given.get("enabled") is not False, given)
    return Choice(item, str(item))


def network_pair(raw: object) -> list[object] | None:
    """``[network, subnet]`` of a list, or of a text such as ``(None, None)``; ``None``: it is neither."""
    if isinstance(raw, (list, tuple)):
        pair = list(cast("Sequence[object]", raw))
        if len(pair) != 2 or any(one is not None and not isinstance(one, str) for one in pair):
            return None
        return [one or None for one in pair]
    if not isinstance(raw, str) or len(raw) > 1000:
        return None
    text = raw.strip()
    if not (text.startswith(("(", "[")) and text.endswith((")", "]"))):
        return None
    first, comma, second = text[1:-1].partition(",")
    found: list[object] = []
    for part in (first, second):
        item = _ITEM.fullmatch(part)
        if item is None:
            return None
        quoted = item[1] if item[1] is not None else item[2]
        bare = None if item[3] in ("None", "null") else item[3]
        found.append(quoted or None if quoted is not None else bare)
    return found if comma else None


def network_choices(offers: Offers, settings: Mapping[str, object]) -> list[Choice] | None:
    """The choices of a network field (B4). Errors: ``FormError`` for unknown ``murano_networks``.

    ``settings``: the field's attributes ``filter``, ``murano_networks``, ``allow_auto``,
    ``include_subnets``.
    """
    items = offers.kinds.get("networks")
    if items is None:
        return None
    if not all(isinstance(one, dict) and "subnets" in one for one in items):
        return [_pair_choice(_choice(one)) for one in items]  # ready to use
    mode = settings.get("murano_networks")
    if mode not in (None, "exclude", "translate"):
        raise FormError(f"murano_networks is 'exclude' or 'translate', not {mode!r:.60}")
    pattern = settings.get("filter")
    with_subnets = settings.get("include_subnets") is not False
    made: list[Choice] = []
    if settings.get("allow_auto") is not False:
        made.append(Choice([None, None], "Auto"))
    for network in cast("Sequence[dict[str, object]]", items):
        name = str(network.get("name") or network.get("id"))
        if network.get("external") or (pattern and not _starts(str(pattern), name)):
            continue
        subnets = cast("list[dict[str, object]]", network.get("subnets") or [])
        owner = next(
            (one for one in offers.environments if name.startswith(f"{one}-network")), None
        )
        if owner is not None and mode == "exclude":
            continue
        if owner is not None and mode == "translate" and len(subnets) == 1:
            pair = [network["id"], subnets[0]["id"] if with_subnets else None]
            made.append(Choice(pair, f"Network of '{owner}'"))
            continue
        if with_subnets:
            for one in subnets:
                label = f"{name}: {one.get('cidr', '')} {one.get('name') or ''}".rstrip()
                made.append(Choice([network["id"], one["id"]], label))
        made.append(Choice([network["id"], None], f"{name}: random subnet"))
    return made or [Choice([None, None], "No network")]


def _pair_choice(choice: Choice) -> Choice:
    pair = network_pair(choice.value)
    return Choice(choice.value if pair is None else pair, choice.label, choice.enabled)


def _starts(pattern: str, name: str) -> bool:
    return matches(f"^(?:{pattern})", name)


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
