"""Host names in forms: a name that another machine has is not offered, and is refused beside its field.

The change of the model refuses it as well (`machine_names`), when the form is closed already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, cast

from vetro.environments.machine_names import PLACE, Machine, host_name, machines, next_name
from vetro.environments.model import Json, object_id
from vetro.json_values import JsonObject
from vetro.packages.forms import Form, Offers, State


class HostNames(Set[str]):
    """Names as guests have them: ``web_1`` is in it when ``Web-1`` is."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(map(host_name, names))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and host_name(name) in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class Hosts:
    """The fields of a form that name machines of the environment's own region, and what has names there."""

    fields: Set[str]
    """Their paths: ``page.field``."""
    holders: Mapping[str, Machine]
    """The machines of other components, by host name."""
    leaving: Set[str]
    """Host names of machines that are deployed: they may leave, and are not offered before."""

    def offered(self, form: Form, state: State, offers: Offers) -> Offers:
        """The offers, with the next free name for each field whose own text another machine has."""
        scope = form.scope({}, state)
        found: JsonObject = {}
        for source in form.fields:
            text = source.settle(scope).preselected(offers) if source.path in self.fields else None
            if isinstance(text, str) and PLACE not in text and self._is_taken(text):
                found[source.path] = next_name(text, self._is_taken)
        return replace(offers, preselected={**offers.preselected, **found}) if found else offers

    def refused(
        self, page: str, values: Mapping[str, object], state: State
    ) -> dict[str, list[str]]:
        """What is wrong with names of a page, by field; one that the component has had is not."""
        opened = (state.opened or {}).get(page, {})
        return {
            name: [
                f"{holder} has the machine {holder.name}. Choose another name, or"
                f" {next_name(text, self._is_taken)}"
            ]
            for name, text in values.items()
            if f"{page}.{name}" in self.fields
            and isinstance(text, str)
            and text != opened.get(name)
            and PLACE not in text
            and (holder := self.holders.get(host_name(text))) is not None
        }

    def _is_taken(self, name: str) -> bool:
        return host_name(name) in self.holders or host_name(name) in self.leaving


def hosts_of(
    fields: Set[str], objects: Mapping[str, Any], deployed: Json, component: str | None
) -> Hosts:
    """For a form whose component comes into a model, or is in it.

    ``objects``: the root as the session has it; ``deployed``: as it was deployed.
    """
    services = cast("list[Json]", objects.get("services") or [])
    others = [one for one in services if component is None or object_id(one) != component]
    given = objects.get("region")
    home = given if isinstance(given, str) else ""
    here = [one for one in machines({**objects, "services": others}) if one.region == home]
    there = [one for one in machines(deployed) if one.region == home] if component is None else []
    return Hosts(
        fields,
        {host_name(one.name): one for one in here},
        {host_name(one.name) for one in there},
    )
