"""What changing values in place asks of the run (`runtime.run.Run`)."""

from __future__ import annotations

from typing import Protocol

from vetro.muranopl.classes.objects import MuranoObject
from vetro.muranopl.classes.types import MuranoType
from vetro.muranopl.contracts.running import ContractRun
from vetro.muranopl.values.containers import Value

from .properties import GrowingProperty


class AssigningRun(Protocol):
    """What assignments need of a run: how it reads and writes members of objects."""

    @property
    def max_items(self) -> int:
        """The largest number of elements of a list."""
        ...

    def read_property_or_unset(self, target: object, name: str, scope: MuranoType) -> object:
        """A property's value; UNSET when it was never assigned."""
        ...

    def is_unassigned_static(self, target: object, name: str, scope: MuranoType | None) -> bool:
        """True for a static property that has neither a value nor a default."""
        ...

    def may_grow_in_place(self, target: object, name: str) -> bool:
        """True when the property's contract accepts a map after any key was set in it."""
        ...

    def write_property(
        self, target: object, name: str, value: Value, scope: MuranoType | None
    ) -> None:
        """Assign a property."""
        ...


class GrowingRun(ContractRun, Protocol):
    """What properties that grow ask of the run."""

    building: int
    """Constructors in progress."""

    def growing_property(self, target: MuranoObject, name: str) -> GrowingProperty | None:
        """How a property may grow; None when it may not now."""
        ...
