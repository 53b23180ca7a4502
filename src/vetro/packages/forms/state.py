"""What a form was filled with: plain JSON, so that it survives a restart (B10)."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, cast

from vetro.packages.forms.errors import FormError


@dataclass
class State:
    """``pages``: values by page and field of pages that were submitted, in order. ``entered``: what
    was typed, also on a page that was refused. ``parameters``: evaluated once (B8). ``problem``: why
    those of a static action are missing; no page is accepted as long."""

    pages: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    entered: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])
    parameters: dict[str, Any] | None = None
    problem: str | None = None

    def as_json(self) -> dict[str, object]:
        """The state as JSON."""
        known = {"pages": self.pages, "entered": self.entered, "parameters": self.parameters}
        return deepcopy({**known, "problem": self.problem})

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
        )
