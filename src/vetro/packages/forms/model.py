"""What a form was filled with (B10), and from values to the application's object (B8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, cast

from vetro.packages.forms.definition import Definition, Page
from vetro.packages.forms.errors import FormError
from vetro.packages.forms.expressions import Budget, Ingredients, Scope
from vetro.packages.forms.offers import Offers
from vetro.packages.forms.settling import settled

STORAGE_KEY = "_26411a1861294160833743e45d0eaad9"
"""Of the ``?`` block: where front ends keep the package's display name."""
_USED = {"ram": "memory", "vcpus": "vcpus"}


def build_object(
    definition: Definition,
    pages: Mapping[str, Mapping[str, object]],
    parameters: Mapping[str, Any],
    *,
    name: str | None,
    title: str,
    offers: Offers,
    ingredients: Ingredients | None = None,
) -> dict[str, object]:
    """The object of the ``Application`` section. Errors: ``FormError`` with the place.

    ``ingredients``: its ``name`` and ``templates`` are set here.
    """
    data = {page: dict(values) for page, values in pages.items()}
    variables = {**definition.templates, **parameters, "forms": data}
    ingredients = ingredients or Ingredients()
    ingredients.name, ingredients.templates = name, definition.templates
    scope = Scope(data, variables, ingredients, Budget())
    application = definition.application
    made = cast("dict[str, object]", scope.value(application))
    header = made.get("?")
    if isinstance(header, dict):
        root = cast("dict[str, Any]", header)
        if name is not None and definition.asks_name:
            root["name"] = name
        root[STORAGE_KEY] = {"name": title}
        root["resourceUsages"] = resource_usages(definition.pages, data, offers, scope)
    return deepcopy(made)


def resource_usages(
    pages: Sequence[Page], data: Mapping[str, Mapping[str, object]], offers: Offers, scope: Scope
) -> dict[str, dict[str, int]]:
    """``ram``, ``vcpus`` and ``instances`` by region: the sum over the fields that name a flavor."""
    known = {str(one.value): one.details for one in offers.choices("flavors") or []}
    usages: dict[str, dict[str, int]] = {}
    for page in pages:
        region = region_of(page, scope) or offers.region
        for one in page.fields:
            chosen = data.get(page.name, {}).get(one.name)
            if one.type != "flavor" or not chosen:
                continue
            sizes = known.get(str(chosen), {})
            total = usages.setdefault(region, {"ram": 0, "vcpus": 0, "instances": 0})
            total["instances"] += 1
            for key, name in _USED.items():
                size = sizes.get(name)
                total[key] += size if isinstance(size, int) else 0
    return usages or {offers.region: {"ram": 0, "vcpus": 0, "instances": 0}}


def region_of(page: Page, scope: Scope) -> str | None:
    """The region of a page, if it has one."""
    value = settled(page.region, scope)
    return value if isinstance(value, str) and value else None


@dataclass
class State:
    """What a form was filled with: plain JSON, so that it survives a restart.

    ``pages``: values by page and field of pages that were submitted, in order. ``entered``: what
    was typed, also on a page that was refused. ``parameters``: evaluated once (B8). ``problem``: why
    those of a static action are missing; no page is accepted as long. ``opened``: the values that a
    component had when its form was opened again. ``kept``: paths of fields whose value could not be
    read from it; ``inactive``: of parts that it did not have."""

    pages: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    entered: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    parameters: dict[str, Any] | None = None
    problem: str | None = None
    opened: dict[str, dict[str, Any]] | None = None
    kept: list[str] = field(default_factory=list[str])
    inactive: list[str] = field(default_factory=list[str])

    def as_json(self) -> dict[str, object]:
        """The state as JSON."""
        known: dict[str, object] = {
            "pages": self.pages,
            "entered": self.entered,
            "parameters": self.parameters,
        }
        known["problem"] = self.problem
        if self.opened is not None:
            known |= {"opened": self.opened, "kept": self.kept, "inactive": self.inactive}
        return deepcopy(known)

    @classmethod
    def of_json(cls, given: object) -> State:
        """The state of ``as_json``. Errors: ``FormError`` for anything else."""
        if not isinstance(given, dict):
            raise FormError("The state of a form is a map")
        body = deepcopy(cast("dict[str, Any]", given))
        return cls(
            body.get("pages") or {},
            body.get("entered") or {},
            body.get("parameters"),
            body.get("problem"),
            body.get("opened"),
            body.get("kept") or [],
            body.get("inactive") or [],
        )
