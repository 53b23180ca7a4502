"""Evaluate a template's values against the existing resources.

Functions are evaluated synchronously, but attributes come from the compute service: so the
attributes a value refers to are fetched first (`prefetch`), then the value is evaluated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from vetro.stacks.model import Json
from vetro.stacks.template.functions import (
    PSEUDO_PARAMETERS,
    Reference,
    Unknown,
    function_of,
    in_mapping,
    resolve,
)
from vetro.stacks.template.spelling import without_nulls
from vetro.stacks.template.templates import Template


class Evaluation:
    """The `Context` of a template in an operation or in a plan."""

    def __init__(
        self,
        template: Template,
        *,
        stack_id: str,
        stack_name: str,
        project_id: str,
        reference: Callable[[str], Json],
        attribute: Callable[[str, str], Awaitable[Json]],
    ) -> None:
        self._template = template
        self._pseudo = {
            "id": stack_id,
            "name": stack_name,
            "project": project_id,
            "region": "",
            "partition": "aws",
        }
        self._reference = reference
        self._attribute = attribute
        self._fetched: dict[tuple[str, str], Json] = {}

    async def value(self, value: Json, references: Iterable[Reference]) -> Json:
        """`value` with functions evaluated and nulls dropped."""
        for reference in references:
            if reference.kind == "attribute":
                key = (reference.name, str(reference.path[0]))
                self._fetched[key] = await self._attribute(*key)
        return self.known(value)

    def known(self, value: Json) -> Json:
        """`value` likewise, when it uses no attributes that are not fetched.

        Templates hold no nulls: only functions give some.
        """
        if function_of(value) is not None:
            return without_nulls(resolve(value, self))
        if isinstance(value, dict):
            entries: dict[str, Json] = _any(value)
            kept = {
                key: one if isinstance(one, str) else self.known(one)
                for key, one in entries.items()
            }
            if None in kept.values():
                return {key: one for key, one in kept.items() if one is not None}
            return kept
        if isinstance(value, list):
            items = [self.known(one) for one in list[Json](_any(value))]
            return [one for one in items if one is not None]
        return value

    # --- the Context protocol ----------------------------------------------------------

    def parameter(self, name: str) -> Json:
        if name in self._template.parameters:
            return self._template.parameters[name]
        return self._pseudo[PSEUDO_PARAMETERS[name]]

    def reference_id(self, resource: str) -> Json:
        if resource not in self._template.resources:
            raise KeyError(resource)
        return self._reference(resource)

    def attribute(self, resource: str, name: str) -> Json:
        return self._fetched.get((resource, name), Unknown(f"{resource}.{name}"))

    def file(self, name: str) -> str:
        return self._template.files[name]

    def mapping(self, name: str, first: str, second: str) -> Json:
        return in_mapping(self._template.mappings, name, first, second)


def _any(value: Any) -> Any:
    return value
