"""What an operation on a stack would take from its user: machines, load balancers, volumes and addresses.

A caller that guards its data gives `may_lose` to `Stacks.create` and `Stacks.update`. What the operation
would replace or remove and the caller did not name there is refused before it begins (core-library.md §4.4).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vetro.json_values import Json
from vetro.stacks.errors import StackError


class LossKind(StrEnum):
    """What is lost."""

    MACHINE = "machine"
    BALANCER = "load balancer"
    VOLUME = "volume"
    ADDRESS = "address"


WITH_DATA = (LossKind.MACHINE, LossKind.VOLUME)
"""What is lost with its data. The other kinds have none, and others know where they are."""


class LossHow(StrEnum):
    """What happens to it."""

    REPLACED = "replaced"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class ChangedProperty:
    """Why something is replaced: a property in the words of people, with both values; secrets are masked."""

    name: str
    old: str
    new: str

    @property
    def text(self) -> str:
        """``host name a → b``; where both look the same, as masked ones: ``another password``."""
        return (
            f"another {self.name}"
            if self.old == self.new
            else f"{self.name} {self.old} → {self.new}"
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that an operation would replace or remove."""

    kind: LossKind
    name: str
    """As people know it: a host name, a volume's name, an address; else the name of the resource."""
    how: LossHow
    resource: str
    """Its resource in the template."""
    changes: tuple[ChangedProperty, ...] = ()
    """Of something that is replaced."""

    @property
    def key(self) -> str:
        """How a request names it in `may_lose`: ``machine web-1``."""
        return f"{self.kind} {self.name}"

    @property
    def text(self) -> str:
        """``replaces machine web-1, its data is lost: host name a → b``."""
        verb = "replaces" if self.how is LossHow.REPLACED else "removes"
        lost = ", its data is lost" if self.kind in WITH_DATA else ""
        why = ", ".join(one.text for one in self.changes)
        return f"{verb} {self.key}{lost}" + (f": {why}" if why else "")

    def as_json(self) -> dict[str, Json]:
        """As results of deployments and the API give it."""
        return {
            "key": self.key,
            "kind": self.kind.value,
            "name": self.name,
            "how": self.how.value,
            "text": self.text,
            "changes": [{"name": x.name, "old": x.old, "new": x.new} for x in self.changes],
        }


class LossRefused(StackError):
    """The operation would lose what its request did not name. Nothing was begun or changed.

    `begun`: other resources were changed before it turned out. What would be lost was kept. `is_action`: no
    changes were deployed that could be dropped.
    """

    def __init__(
        self,
        stack: str,
        losses: Sequence[Loss],
        *,
        begun: bool = False,
        is_action: bool = False,
    ) -> None:
        kept = "It was stopped before the loss" if begun else "Nothing was changed"
        todo = "Deploy again and say that this may be lost, or drop the changes"
        if is_action:
            todo = "Call the action again and say that this may be lost"
        elif begun:
            todo += ". A deployment without them takes back what was begun"
        super().__init__(
            f"{kept}, because this " + "; ".join(one.text for one in losses) + f". {todo}"
        )
        self.stack = stack
        self.losses = list(losses)
        self.begun = begun


def unnamed(losses: Sequence[Loss], may_lose: Collection[str] | None) -> list[Loss]:
    """The losses that a request did not name; none for a request that does not guard (`may_lose` is None)."""
    return [] if may_lose is None else [one for one in losses if one.key not in may_lose]
