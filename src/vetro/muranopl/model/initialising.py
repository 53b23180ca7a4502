"""Set property values: at construction, and by assignment (muranopl.md section 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from vetro.muranopl.classes.objects import MuranoObject, unset_property
from vetro.muranopl.contracts.arguments import makes_default_object
from vetro.muranopl.contracts.tree import MISSING, Contract, Guard, Mode, Setting, Violation
from vetro.muranopl.values.containers import FINAL_TYPES, Value, empty_map, freeze
from vetro.muranopl.values.errors import (
    MuranoError,
    NoWriteAccessError,
    UninitializedPropertyAccessError,
)

from .loading import Made, Transaction, fill_in_order, holds_forward_reference

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import MuranoType, Property

    from .running import ModelRun

Chain = list[tuple["Property", Contract]]


class ConstantScope(Protocol):
    """Where generated code keeps its constants."""

    def constant(self, value: object) -> str: ...


def apply_chain(chain: Chain, value: object, setting: Setting) -> object:
    """Transform by the first contract, validate by the others. Raises MuranoError."""
    for index, (declaration, contract) in enumerate(chain):
        setting.mode = Mode.TRANSFORM if index == 0 else Mode.VALIDATE
        try:
            made = contract.apply(value, setting)
        except Violation as error:
            place = f"{declaration.declaring_type.name}.{declaration.name}"
            raise error.located(place, "", declaration.position) from None
        if index == 0:
            value = made
    return value


def is_unset(error: Exception) -> bool:
    """True when an error says that a property was read before it had a value."""
    if isinstance(error, AttributeError):
        return unset_property(error) is not None
    return isinstance(error, UninitializedPropertyAccessError)


class PropertyInitialiser:
    """The slow path of construction for one property of one class."""

    __slots__ = (
        "chain",
        "config_value",
        "constant",
        "default",
        "from_model",
        "makes_object",
        "name",
        "runtime",
        "slot",
        "type",
    )

    def __init__(self, type_: MuranoType, declaration: Property, chain: Chain) -> None:
        self.type = type_
        self.name = declaration.name
        self.slot = "p_" + declaration.name
        self.chain = chain
        self.from_model = declaration.is_stored
        self.runtime = declaration.usage == "Runtime"
        code = declaration.declaring_type.own_code()
        self.default: Callable[[Value, ModelRun], Value] | None = code.defaults.get(self.name)
        self.constant: object = code.constant_defaults.get(self.name, MISSING)
        config = type_.class_config()
        self.config_value = config.get(self.name, MISSING)
        if self.config_value is not MISSING:
            self.constant, self.default = freeze(self.config_value), None
        self.makes_object = (
            self.constant is MISSING and self.default is None and makes_default_object(chain[0][1])
        )

    # -- straight-line code --------------------------------------------------------------------

    def guard(self, tools: Guard) -> str | None:
        """A condition under which the value may be stored at once; None: always the slow path."""
        if not self.from_model or len(self.chain) > 1:
            return None
        return self.chain[0][1].guard("v", tools)

    def default_source(self, scope: ConstantScope, missing: str) -> str:
        """Source of the value of an absent key, before the guard is applied."""
        if self.constant is not MISSING:
            value = self.constant
        elif self.default is None and not self.makes_object:
            value = None
        else:
            return missing
        if value is None:
            value = self.chain[0][1].made_of_null
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        return scope.constant(value)

    # -- slow path -----------------------------------------------------------------------------

    def __call__(
        self,
        made: MuranoObject,
        run: ModelRun,
        given: Mapping[str, object],
        transaction: Transaction,
        blocked: list[str] | None,
    ) -> list[str] | None:
        """Set the property; a default that needs another property is deferred."""
        try:
            self.initialise(made, run, given, transaction)
        except (UninitializedPropertyAccessError, AttributeError) as error:
            if self.default is None or not is_unset(error):
                raise
            blocked = blocked or []
            blocked.append(self.name)
        return blocked

    def initialise(
        self,
        made: MuranoObject,
        run: ModelRun,
        given: Mapping[str, object],
        transaction: Transaction,
    ) -> None:
        """Set the property from the model or its default."""
        if transaction.depth == 1 and self.name in transaction.excluded:
            return
        value = given.get(self.name, MISSING) if self.from_model else MISSING
        if value is not MISSING:
            self._store(made, run, value, transaction, True)
            return
        if self.default is not None:
            value = self.default(made, run)
        elif self.constant is not MISSING:
            value = self.constant
        elif self.makes_object:
            value = empty_map()
        elif self.runtime:
            return
        else:
            value = None
        try:
            self._store(made, run, value, transaction, False)
        except MuranoError:
            if not self.runtime:
                raise

    def _store(
        self,
        made: MuranoObject,
        run: ModelRun,
        value: object,
        transaction: Transaction,
        from_model: bool,
    ) -> None:
        setting = Setting(made, run, owner=made, transaction=transaction)
        if self._makes_objects:
            around, made_here = transaction.made_here, list[Made]()
            transaction.made_here = made_here
            try:
                result = apply_chain(self.chain, value, setting)
            finally:
                transaction.made_here = around
            if transaction.open and holds_forward_reference(result):
                transaction.forward.append((made, self.name, value, made_here))
        else:
            if from_model and type(value) not in FINAL_TYPES:
                value = freeze(value)
            result = apply_chain(self.chain, value, setting)
        made.__dict__[self.slot] = result

    def refill(
        self, made: MuranoObject, run: ModelRun, value: object, transaction: Transaction
    ) -> None:
        """Apply the contract again, when all ids are known."""
        setting = Setting(made, run, owner=made, transaction=transaction)
        made.__dict__[self.slot] = apply_chain(self.chain, value, setting)

    @property
    def _makes_objects(self) -> bool:
        return any(contract.makes_objects for _, contract in self.chain)


def retry_blocked(
    made: MuranoObject,
    run: ModelRun,
    given: Mapping[str, object],
    transaction: Transaction,
    blocked: list[str],
) -> None:
    """Initialise the properties that waited for others."""
    initialisers = made.type.assembly.initialisers

    def initialise(name: str) -> None:
        initialisers[name].initialise(made, run, given, transaction)

    fill_in_order(made, blocked, initialise)


class PropertyWriter:
    """Assignment to a property, for code that has access to it."""

    def __init__(self, name: str, chain: Chain, declarations: Sequence[Property]) -> None:
        self.name = name
        self.chain = chain
        self.read_only = any(not item.is_writable for item in declarations)

    @property
    def function(self) -> Callable[[MuranoObject, ModelRun, Value], None]:
        """`w_NAME` without straight-line code."""
        slot = "p_" + self.name

        def write(this: MuranoObject, run: ModelRun, value: object) -> None:
            if self.read_only and not run.building:
                self.refuse(this)
            this.__dict__[slot] = self.write(this, run, value)

        return write

    def write(self, this: MuranoObject, run: ModelRun, value: object) -> Value:
        """The value after the contracts. Raises MuranoError."""
        return apply_chain(self.chain, value, Setting(this, run, owner=this))

    def refuse(self, this: MuranoObject) -> None:
        """Raise NoWriteAccessError."""
        usage = self.chain[0][0].usage
        raise NoWriteAccessError(
            f'Property "{self.name}" is immutable to the caller',
            hint=f"{this.type.name}.{self.name} has Usage {usage}: "
            "it is writable while the object is constructed",
        )
