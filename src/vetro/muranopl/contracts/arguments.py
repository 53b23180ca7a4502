"""Handle arguments that do not pass their contract's guard (muranopl.md section 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vetro.muranopl.classes.objects import MuranoObject
from vetro.muranopl.syntax.names import argument_name
from vetro.muranopl.values.containers import Map, Value, empty_map

from .chains import Chain, OfClass
from .tree import MISSING, Anything, Contract, Mode, Setting, Violation

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import Argument

    from .running import ContractRun


@dataclass(slots=True, eq=False)
class Fallback:
    """What arguments have to say about themselves when one does not hold its contract."""

    contract: Contract
    place: str
    argument: Argument


@dataclass(slots=True, eq=False)
class ArgumentFallback(Fallback):
    """Makes the value of a plain argument by default or conversion, or raises the error."""

    constant: object
    default: Callable[[object, ContractRun], object] | None
    owned: bool
    """True for `.init`: objects made from maps belong to the object."""

    def __call__(self, this: Value, run: ContractRun, value: Value) -> Value:
        if value is MISSING:
            if self.default is not None:
                value = self.default(this, run)
            elif self.argument.default is not None:
                value = self.constant
            else:
                value = empty_map() if makes_default_object(self.contract) else None
        setting = Setting(this, run)
        if self.owned and isinstance(this, MuranoObject):
            setting.owner = this
            setting.transaction = run.transaction
        try:
            return self.contract.apply(value, setting)
        except Violation as error:
            raise error.located(self.place, ")", self.argument.position) from None


class RestFallback(Fallback):
    """The list of a VarArgs argument; the contract holds for each element."""

    __slots__ = ()

    def __call__(
        self, this: Value, run: ContractRun, values: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        if self.contract.__class__ is Anything and run.final_types.issuperset(map(type, values)):
            return values
        setting = Setting(this, run)
        made: list[object] = []
        for index, value in enumerate(values):
            try:
                made.append(self.contract.apply(value, setting))
            except Violation as error:
                located = error.at(f"[{index}]")
                raise located.located(self.place, ")", self.argument.position) from None
        return tuple(made)


class KeywordFallback(Fallback):
    """The map of a KwArgs argument; the contract holds for each value."""

    __slots__ = ()

    def __call__(self, this: Value, run: ContractRun, values: Mapping[str, Value]) -> Map:
        setting = Setting(this, run)
        made: dict[str, object] = {}
        for python_name, value in values.items():
            name = argument_name(python_name)
            try:
                made[name] = self.contract.apply(value, setting)
            except Violation as error:
                located = error.at(f"[{name!r}]")
                raise located.located(self.place, ")", self.argument.position) from None
        return Map(made)


def makes_default_object(contract: Contract) -> bool:
    """True for `class(A, B)`, whose absent values are new objects (section 7)."""
    return isinstance(contract, Chain) and any(
        isinstance(step, OfClass) and step.has_default for step in contract.steps
    )


def accepts_receiver(contract: Contract, value: object, this: object, run: ContractRun) -> bool:
    """True when an extension method with this contract on its first argument extends the value."""
    try:
        contract.apply(value, Setting(this, run, Mode.CHECK))
    except Violation:
        return False
    return True
