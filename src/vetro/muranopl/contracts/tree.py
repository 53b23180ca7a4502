"""Contracts: their parts, and how they are applied to a value (muranopl.md section 7).

A contract becomes a tree of the classes below. Each has two operations:

- `apply` transforms or validates a value; its error names the path of the violation;
- `guard` writes Python source of a condition that is true when `apply` would return the value as
  it is. Generated code tests the guard in place and calls `apply` only when it fails, so a valid
  value costs a few type comparisons.

Modes: `TRANSFORM` for properties and arguments, `VALIDATE` for the declarations of base classes
(nothing is converted), `CHECK` for receivers of extension methods (types only, no error texts).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vetro.muranopl.values.containers import (
    Map,
    Value,
    empty_map,
    freeze,
    is_iterator,
    make_map,
    materialise,
    preview,
)
from vetro.muranopl.values.errors import (
    ContractViolationException,
    DslContractSyntaxError,
    MuranoError,
    Position,
)
from vetro.muranopl.values.records import record

if TYPE_CHECKING:
    from vetro.muranopl.classes.objects import MuranoObject

    from .running import ContractRun, Load


class Mode(Enum):
    TRANSFORM = "transform"
    VALIDATE = "validate"
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class ForwardReference:
    """An object id that the model being loaded has not defined yet."""

    object_id: str


@record
class Setting:
    """Where a contract is applied.

    `this`: the object or type that declares it. `owner`: the owner of objects made from maps.
    """

    this: Value
    run: ContractRun
    mode: Mode = Mode.TRANSFORM
    owner: MuranoObject | None = None
    transaction: Load | None = None


class Guard(NamedTuple):
    """Collects what a guard's source needs: constants by name, and fresh names."""

    constant: Callable[[object], str]
    fresh: Callable[[], str]
    plain: set[Any]
    """Classes of values that are settled as they are."""


class Violation(ContractViolationException):
    """A violation whose path is still being put together."""

    def __init__(self, message: str, *, value: object = None) -> None:
        super().__init__(message)
        self.path: list[str] = []
        self.value = value

    def at(self, step: str) -> Violation:
        self.path.insert(0, step)
        return self

    def located(self, place: str, closing: str, position: Position | None) -> MuranoError:
        """The exception programs see: `[Class.property<path>] message`."""
        return ContractViolationException(
            f"[{place}{''.join(self.path)}{closing}] {self.message}", position=position
        )


class Contract(ABC):
    """A node of a contract."""

    @abstractmethod
    def apply(self, value: Value, setting: Setting) -> object:
        """The value after the contract. Raises Violation."""

    def guard_of_all(self, name: str, tools: Guard) -> str | None:
        """Source of the test that every element of a tuple passes, by their classes alone; else None.

        Lists of objects are checked again at every insertion or removal, so the test is one pass
        in C.
        """
        return None

    def guard(self, name: str, tools: Guard) -> str | None:
        """Source of a condition under which `name` passes unchanged; None when there is none."""
        return None

    @property
    def tolerates_growth(self) -> bool:
        """True when a map or list that has passed still passes after an element is added or set."""
        return False

    @property
    def element_contract(self) -> Contract | None:
        """The contract of an element that is appended to a list that has passed.

        None: the whole list has to be checked again.
        """
        return None

    @property
    def entry_contracts(self) -> tuple[Contract, Contract] | None:
        """The same for the key and the value of an entry that is put into a map."""
        return None

    @property
    def tolerates_removal(self) -> bool:
        """True when a map or list that has passed still passes after any removal."""
        return False

    @property
    def plain_class(self) -> type[object] | None:
        """The class all of whose instances pass unchanged, when there is one."""
        return None

    @property
    def is_stable(self) -> bool:
        """True when a value that has passed always passes, whatever the program does meanwhile."""
        return False

    @property
    def makes_objects(self) -> bool:
        """True when applying it may create or look up objects."""
        return False

    def object_maps(self, value: object) -> Iterator[Mapping[str, object]]:
        """The objects in a value of a saved model. Templates look like them and are none."""
        return object_maps(value)

    @property
    def made_of_null(self) -> object:
        """The empty map or list that it always makes of null; else null."""
        return None


class Anything(Contract):
    """`$`"""

    def apply(self, value: Value, setting: Setting) -> object:
        return settled(value, setting)

    def guard(self, name: str, tools: Guard) -> str | None:
        return f"{name}.__class__ in {tools.constant(tools.plain)}"

    @property
    def tolerates_growth(self) -> bool:
        return True

    @property
    def is_stable(self) -> bool:
        return True


@record
class Constant(Contract):
    """A scalar: the value must be equal; booleans are not numbers."""

    value: Value

    def apply(self, value: Value, setting: Setting) -> object:
        if isinstance(value, bool) is isinstance(self.value, bool) and value == self.value:
            return value
        raise Violation(f"Value {preview(value)} is not equal to {preview(self.value)}")


@record
class MapOf(Contract):
    """`{}`, `{k: c}`, `{k: c, <expr>: c2}`."""

    fixed: dict[Any, Contract]
    other: tuple[Contract, Contract] | None
    """Contracts of the remaining keys and of their values."""
    open: bool
    """True for `{}`: any map."""

    def apply(self, value: Value, setting: Setting) -> object:
        value = settled(value, setting)
        if value is None:
            value = empty_map()
        if not isinstance(value, Mapping):
            raise Violation(f"Value {preview(value)} is not of a dictionary type")
        given = cast("Mapping[object, object]", value)
        if self.open:
            return freeze(given)
        validate = setting.mode is not Mode.TRANSFORM
        result: dict[object, object] = {}
        for key, contract in self.fixed.items():
            try:
                result[key] = contract.apply(given.get(key), setting)
            except Violation as error:
                raise error.at(f"[{key!r}]") from None
        if self.other is not None:
            key_contract, value_contract = self.other
            for key, item in given.items():
                if key in self.fixed:
                    continue
                try:
                    made = key_contract.apply(key, setting)
                    result[made] = value_contract.apply(item, setting)
                except Violation as error:
                    raise error.at(f"[{key!r}]") from None
        return given if validate else make_map(result)

    def guard(self, name: str, tools: Guard) -> str | None:
        is_map = f"{name}.__class__ is {tools.constant(Map)}"
        if self.open:
            return is_map
        if self.other is not None and self.fixed:
            return None
        if self.other is not None:
            key, item = tools.fresh(), tools.fresh()
            conditions = [
                part.guard(var, tools) for part, var in zip(self.other, (key, item), strict=True)
            ]
            if None in conditions:
                return None
            inner = " and ".join(f"({c})" for c in conditions if c != "True")
            return f"{is_map} and all([{inner or 'True'} for {key}, {item} in {name}.items()])"
        parts = [is_map, f"len({name}) == {len(self.fixed)}"]
        for key, contract in self.fixed.items():
            item = tools.fresh()
            text = tools.constant(key) if not isinstance(key, (str, int)) else repr(key)
            condition = contract.guard(item, tools)
            if condition is None:
                return None
            parts.append(f"(({item} := {name}.get({text}, {tools.constant(MISSING)})) is {item})")
            parts.append(f"({condition})")
            parts.append(f"{item} is not {tools.constant(MISSING)}")
        return " and ".join(parts)

    @property
    def made_of_null(self) -> object:
        return None if self.fixed else empty_map()

    @property
    def tolerates_growth(self) -> bool:
        return self.open

    @property
    def tolerates_removal(self) -> bool:
        return not self.fixed and (self.open or self.entry_contracts is not None)

    @property
    def entry_contracts(self) -> tuple[Contract, Contract] | None:
        if self.fixed or self.other is None or not all(part.is_stable for part in self.other):
            return None
        return self.other

    @property
    def is_stable(self) -> bool:
        return all(part.is_stable for part in (*self.fixed.values(), *(self.other or ())))

    @property
    def makes_objects(self) -> bool:
        parts = [*self.fixed.values(), *(self.other or ())]
        return any(part.makes_objects for part in parts)

    def object_maps(self, value: object) -> Iterator[Mapping[str, object]]:
        if self.open or not isinstance(value, Mapping):
            yield from object_maps(value)
            return
        for key, item in cast("Mapping[object, object]", value).items():
            part = self.fixed.get(key, self.other and self.other[1])
            yield from part.object_maps(item) if part else object_maps(item)


@record
class ListOf(Contract):
    """`[]`, `[c1, …, cn]`, with optional bounds of length."""

    items: list[Contract]
    minimum: int = 0
    maximum: int | None = None
    lenient: bool = False
    """Accept fewer elements than there are contracts (class config `contracts.lenient_lists`)."""

    def apply(self, value: Value, setting: Setting) -> object:
        value = settled(value, setting)
        if value is None:
            given: tuple[object, ...] = ()
        elif isinstance(value, (tuple, list, frozenset, set)):
            given = tuple(cast("Sequence[object]", value))
        elif setting.mode is Mode.CHECK:
            raise Violation("not a list")
        else:
            given = (value,)
        length = len(given)
        if self.maximum is not None:
            if not self.minimum <= length <= self.maximum:
                raise Violation(
                    f"Array length {length} is not within [{self.minimum}..{self.maximum}] range"
                )
        elif length < self.minimum:
            raise Violation(f"Array length {length} must not be less than {self.minimum}")
        if len(self.items) > 1 and length < len(self.items) and not self.lenient:
            raise Violation(f"Array length {length} must not be less than {len(self.items)}")
        if not self.items:
            return freeze(given)
        last = len(self.items) - 1
        result: list[object] = []
        for index, item in enumerate(given):
            try:
                result.append(self.items[min(index, last)].apply(item, setting))
            except Violation as error:
                raise error.at(f"[{index}]") from None
        return tuple(result)

    def guard(self, name: str, tools: Guard) -> str | None:
        is_list = f"{name}.__class__ is tuple"
        if self.minimum:
            is_list += f" and len({name}) >= {self.minimum}"
        if self.maximum is not None:
            is_list += f" and len({name}) <= {self.maximum}"
        if not self.items:
            return is_list
        if len(self.items) > 1:
            return None
        together = self.items[0].guard_of_all(name, tools)
        if together is not None:
            return f"{is_list} and {together}"
        item = tools.fresh()
        condition = self.items[0].guard(item, tools)
        if condition is None:
            return None
        if condition == "True":
            return is_list
        return f"{is_list} and all([{condition} for {item} in {name}])"

    @property
    def made_of_null(self) -> object:
        return None if self.minimum or (len(self.items) > 1 and not self.lenient) else ()

    @property
    def tolerates_growth(self) -> bool:
        return not self.items and self.maximum is None

    @property
    def tolerates_removal(self) -> bool:
        return not self.minimum and (not self.items or self.element_contract is not None)

    @property
    def element_contract(self) -> Contract | None:
        if len(self.items) != 1 or self.maximum is not None or not self.items[0].is_stable:
            return None
        return self.items[0]

    @property
    def is_stable(self) -> bool:
        return all(item.is_stable for item in self.items)

    @property
    def makes_objects(self) -> bool:
        return any(part.makes_objects for part in self.items)

    def object_maps(self, value: object) -> Iterator[Mapping[str, object]]:
        if not self.items:
            yield from object_maps(value)
            return
        items = cast("Sequence[object]", value if isinstance(value, (list, tuple)) else [value])
        for index, item in enumerate(items):
            yield from self.items[min(index, len(self.items) - 1)].object_maps(item)


def object_maps(value: object) -> Iterator[Mapping[str, object]]:
    """The outermost maps with an object's header in a value of a saved model."""
    if isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        if isinstance(table.get("?"), Mapping):
            yield table
        else:
            for item in table.values():
                yield from object_maps(item)
    elif isinstance(value, (list, tuple)):
        for item in cast("Sequence[object]", value):
            yield from object_maps(item)


def settled(value: object, setting: Setting) -> Value:
    """Convert lazy sequences to lists before a contract is applied."""
    return materialise(value, setting.run) if is_iterator(value) else value


def check_list_shape(numbers: list[int], position: Position) -> tuple[int, int | None]:
    """The length bounds given by the trailing integers of a list contract."""
    if len(numbers) > 2:
        raise DslContractSyntaxError(
            "a list contract can end with at most two numbers: the minimum and maximum length",
            position=position,
        )
    if not numbers:
        return 0, None
    if len(numbers) == 2 and numbers[0] > numbers[1]:
        raise DslContractSyntaxError(
            f"the minimum length {numbers[0]} is greater than the maximum length {numbers[1]}",
            position=position,
        )
    return numbers[0], numbers[1] if len(numbers) == 2 else None


class _Missing:
    """Marks an absent value where null counts as a value."""

    def __repr__(self) -> str:
        return "<missing>"

    def __bool__(self) -> bool:
        return False


MISSING: object = _Missing()
