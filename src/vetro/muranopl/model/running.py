"""What loading and saving ask of the run that holds the objects (`runtime.run.Run`)."""

from __future__ import annotations

from typing import Protocol

from vetro.muranopl.classes.objects import MuranoObject
from vetro.muranopl.classes.types import MuranoType, Property
from vetro.muranopl.contracts.running import ContractRun


class ModelRun(ContractRun, Protocol):
    """The objects of a session, and how a model names classes."""

    building: int
    """Constructors in progress."""
    objects: dict[str, MuranoObject]

    def publish(self, made: MuranoObject) -> None:
        """Register an object under its id."""
        ...

    def scope_of(self, this: object) -> MuranoType | None:
        """The class of an object, or the type itself."""
        ...

    def is_type_key(self, key: object) -> bool:
        """True for the key of an inline object that names its class (section 13)."""
        ...

    def resolve_type_key(self, key: str, scope: MuranoType | None) -> MuranoType | str:
        """The class of such a key."""
        ...

    def type_for_model(
        self, name: str, version: str | None, package: str | None, scope: MuranoType | None
    ) -> MuranoType:
        """The class a model names."""
        ...

    def is_reference_property(self, declaration: Property) -> bool:
        """True when dumps hold only the id of the property's object (section 15.1)."""
        ...
