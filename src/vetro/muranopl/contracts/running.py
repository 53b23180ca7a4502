"""What contracts ask of the run that they are applied in, and of a load in progress.

Later phases implement these protocols: `model.loading.Transaction` and `runtime.run.Run`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from vetro.muranopl.classes.objects import MuranoObject, ObjectRun
from vetro.muranopl.classes.types import MuranoType
from vetro.muranopl.values.containers import Value

from .tree import Setting


class Load(Protocol):
    """What contracts ask of the load whose objects are being made (`model.loading.Transaction`)."""

    @property
    def open(self) -> bool:
        """True while an unknown id may still be defined later in the model."""
        ...

    @property
    def is_open(self) -> bool:
        """The same, in this load or in one that encloses it."""
        ...

    @property
    def scope(self) -> MuranoType | None:
        """The class whose code names the classes of the model."""
        ...

    def find(self, object_id: str) -> MuranoObject | None:
        """An object of the load, by the id its model gave it."""
        ...

    def make(
        self, model: Mapping[Value, Value], owner: MuranoObject | None, default: MuranoType | None
    ) -> MuranoObject:
        """The object of an inline definition: created, its properties evaluated."""
        ...

    def constructs(self, made: MuranoObject) -> bool:
        """True for an object of this load while the load's constructors run."""
        ...

    def made_of(self, model: Mapping[object, object]) -> MuranoObject | None:
        """The object that a map became when the contract was applied before."""
        ...


class ContractRun(ObjectRun, Protocol):
    """What contracts ask of the run that they are applied in (`runtime.run.Run`)."""

    transaction: Load | None
    """The load whose constructors run now."""

    def find_object(self, object_id: str) -> MuranoObject | None:
        """A published object."""
        ...

    def as_type(self, value: object, scope: MuranoType | None) -> MuranoType:
        """The class of a value: a type, a reflection object, an object, or a class name."""
        ...

    def object_from_map(
        self, value: Mapping[object, object], default: MuranoType, setting: Setting
    ) -> MuranoObject:
        """The object made of a map in a `class()` contract."""
        ...

    def template_of(
        self,
        value: object,
        wanted: MuranoType,
        default: MuranoType,
        excluded: Sequence[str],
        setting: Setting,
    ) -> Value:
        """The template that `template()` makes of a map or an object (section 7)."""
        ...
