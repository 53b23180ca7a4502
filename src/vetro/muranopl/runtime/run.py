"""The state that generated code and the library use while a session runs.

One `Run` belongs to one session. It is the session's YAQL `Evaluation` as well, so that
expressions and methods draw on the same budgets (`budgets`).
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from vetro.muranopl.classes.objects import CastView, MuranoObject
from vetro.muranopl.classes.types import MuranoType, Property
from vetro.muranopl.contracts.tree import Setting
from vetro.muranopl.inplace.assigning import UNSET
from vetro.muranopl.inplace.properties import GrowingProperty
from vetro.muranopl.model.attributes import AttributeStore
from vetro.muranopl.model.initialising import apply_chain
from vetro.muranopl.model.loading import Transaction
from vetro.muranopl.syntax.findings import did_you_mean
from vetro.muranopl.syntax.names import argument_slot
from vetro.muranopl.threads.greenthreads import GreenThread
from vetro.muranopl.threads.locks import LockTable
from vetro.muranopl.threads.scheduler import Scheduler
from vetro.muranopl.values.containers import Value, preview
from vetro.muranopl.values.errors import (
    LimitExceeded,
    NoMethodFound,
    NoWriteAccessError,
    PropertyWriteError,
    UninitializedPropertyAccessError,
)
from vetro.yaql.errors import (
    NoMethodRegisteredException,
    legacy_names,
)
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.evaluation import Limits as YaqlLimits

from . import inline_caches
from .budgets import StepBudget
from .legacy_run import LegacyRun, PortRandom
from .metadata import constant_values
from .reflection import Info
from .traces import calling_type

if TYPE_CHECKING:
    from vetro.muranopl.classes.objects import IdSource
    from vetro.muranopl.contracts.running import Load
    from vetro.muranopl.host.session import Session

_FAR = 1 << 60


class Run(Evaluation):
    """The running state of a session."""

    __slots__ = (
        "_legacy",
        "_random",
        "attributes",
        "batch",
        "building",
        "contested",
        "floor",
        "held",
        "locks",
        "main",
        "max_room",
        "names_made",
        "new_id",
        "objects",
        "room",
        "scheduler",
        "session",
        "statics",
        "steps",
        "thread",
        "threads",
        "transaction",
    )

    def __init__(self, session: Session) -> None:
        limits = session.limits
        super().__init__(
            session.runtime.library("current"),
            YaqlLimits(
                collection_items=limits.collection_items,
                string_length=limits.string_length,
                steps=limits.steps,
                seconds=None,
            ),
        )
        self.final_types = session.runtime.final_types
        self.session = session
        self.steps = StepBudget(limits.steps)
        self.fuel = 0
        self.max_room = self.room = limits.depth
        self.floor = 1
        self.scheduler = Scheduler(max_threads=limits.green_threads, switched=self._switched)
        self.threads = self.scheduler.threads
        self.thread: GreenThread | None = None
        """The running thread."""
        self.locks = LockTable(self.threads)
        self.held = self.locks.held
        self.contested = self.locks.contested
        self.main = self
        self.building = 0
        """Constructors in progress: while there are, In and Const properties may be written."""
        self._legacy: LegacyRun | None = None
        self._random = PortRandom(session.effects)
        self.names_made = 0
        self.statics: dict[Property, object] = {}
        self.objects: dict[str, MuranoObject] = {}
        self.attributes = AttributeStore()
        self.transaction: Load | None = None
        """The load whose constructors run now."""
        self.batch: frozenset[MuranoObject] = frozenset()
        """Objects that are being destroyed."""
        self.new_id: IdSource = session.effects.new_id

    # -- bounds --------------------------------------------------------------------------------

    def begin_host_call(self) -> None:
        """Fresh budgets for a call from the host."""
        self.steps.renew()
        self.fuel = 0
        self.room = self.max_room
        self.building = 0

    def refuel(self) -> None:
        """Check the budgets; called every few thousand steps."""
        self.threads.check()
        granted = self.steps.grant(max(-self.fuel, 0))
        if granted is not None:
            self.fuel += granted
            return
        self.fuel = 0
        self.threads.request_abort(
            LimitExceeded(f"the program took more than {self.steps.total} steps", limit="steps")
        )
        self.threads.check()

    def _switched(self, old: GreenThread | None, new: GreenThread | None) -> None:
        if old is not None:
            old.depth = self.max_room - self.room
        if new is not None:
            self.room = self.max_room - new.depth
            self.thread = new
        self.floor = _FAR if self.threads.alive > 1 else 1

    @property
    def legacy(self) -> LegacyRun:
        """The view of this run that code of formats 1.0 and 1.1 gives to the library."""
        if self._legacy is None:
            self._legacy = LegacyRun(self)
        return self._legacy

    # -- construction --------------------------------------------------------------------------

    @contextmanager
    def construction(self) -> Generator[None]:
        """While inside, In and Const properties may be written (section 6.1)."""
        self.building += 1
        try:
            yield
        finally:
            self.building -= 1

    # -- objects -------------------------------------------------------------------------------

    def find_object(self, object_id: str) -> MuranoObject | None:
        """A published object."""
        return self.objects.get(object_id)

    def publish(self, made: MuranoObject) -> None:
        """Register an object under its id."""
        self.objects[made.id] = made

    def create(
        self,
        type_: MuranoType,
        given: Mapping[str, object],
        owner: MuranoObject | None,
        name: object = None,
        header: dict[str, object] | None = None,
        scope: MuranoType | None = None,
    ) -> MuranoObject:
        """A new object, constructed and published."""
        transaction = Transaction(self, keep_ids=False, scope=scope)
        made = type_.python_class(
            self, self.new_id(), owner, None if name is None else str(name), None, header
        )
        transaction.fill(made, given)
        transaction.finish()
        return made

    def load_graph(
        self, model: Mapping[object, object], owner: MuranoObject | None, scope: MuranoType | None
    ) -> MuranoObject:
        """The objects of a model given to `new`."""
        transaction = Transaction(self, keep_ids=False, scope=scope)
        made = transaction.make(model, owner, None)
        transaction.finish()
        return made

    def object_from_map(
        self, value: Mapping[object, object], default: MuranoType, setting: Setting
    ) -> MuranoObject:
        """The object made of a map in a `class()` contract."""
        transaction = setting.transaction
        if transaction is not None and transaction.open:
            return transaction.make(value, setting.owner, default)
        if transaction is not None:
            known = transaction.made_of(value)
            if known is not None:
                return known
        own = Transaction(self, keep_ids=False, scope=self.scope_of(setting.this))
        made = own.make(value, setting.owner, default)
        own.finish()
        return made

    def template_of(
        self,
        value: Value,
        wanted: MuranoType,
        default: MuranoType,
        excluded: Sequence[str],
        setting: Setting,
    ) -> Value:
        """The template that `template()` makes of a map or an object (section 7)."""
        from vetro.muranopl.model.templates import template_value

        return template_value(self, value, wanted, default, excluded, setting)

    def scope_of(self, this: object) -> MuranoType | None:
        """The class of an object, or the type itself."""
        if isinstance(this, MuranoType):
            return this
        return this.type if isinstance(this, MuranoObject) else None

    # -- types ---------------------------------------------------------------------------------

    def as_type(self, value: object, scope: MuranoType | None) -> MuranoType:
        """The class of a value: a type, a reflection object, an object, or a class name."""
        if isinstance(value, MuranoType):
            return value
        if isinstance(value, str):
            if scope is None:
                return self.session.runtime.type(value)
            return inline_caches.named_type(scope, value)()
        if isinstance(value, (MuranoObject, CastView)):
            return value.type
        if isinstance(value, Info):
            found = value.as_type()
            if found is not None:
                return found
        raise TypeError(f"{preview(value)} is not a class")

    def is_type_key(self, key: object) -> bool:
        """True for the key of an inline object that names its class (section 13)."""
        return isinstance(key, MuranoType) or (isinstance(key, str) and ":" in key)

    def resolve_type_key(self, key: str, scope: MuranoType | None) -> MuranoType | str:
        """The class of such a key."""
        if scope is None:
            return key.rpartition(":")[2]
        return inline_caches.named_type(scope, key)()

    def type_for_model(
        self, name: str, version: str | None, package: str | None, scope: MuranoType | None
    ) -> MuranoType:
        """The class a model names."""
        return self.session.runtime.classes.type_from_model(
            name, version, package, scope, self.session.info.project_id
        )

    # -- properties ----------------------------------------------------------------------------

    def static_value(self, declaration: Property) -> object:
        """A static property; its default is evaluated when it is first read."""
        if declaration in self.statics:
            return self.statics[declaration]
        owner = declaration.declaring_type
        code = owner.own_code()
        default = code.defaults.get(declaration.name)
        config = owner.class_config()
        if declaration.name in config:
            value: object = config[declaration.name]
        elif default is not None:
            value = default(owner, self)
        elif declaration.name in code.constant_defaults:
            value = code.constant_defaults[declaration.name]
        else:
            return None
        return self.write_static(declaration, value)

    def is_unassigned_static(self, target: object, name: str, scope: MuranoType | None) -> bool:
        """Whether a name means a static property that has neither a value nor a default."""
        type_ = inline_caches.receiver_type(target)
        seen_from = scope if scope is not None and type_.is_compatible(scope) else type_
        found = seen_from.find_property(name)
        return found is not None and found.is_static and found not in self.statics

    def write_static(self, declaration: Property, value: object) -> object:
        """Assign a static property; the value after its contract."""
        owner = declaration.declaring_type
        chain = [(declaration, owner.own_code().contracts[declaration.name])]
        made = apply_chain(chain, value, Setting(owner, self))
        self.statics[declaration] = made
        return made

    def write_property(
        self, target: Value, name: str, value: Value, scope: MuranoType | None
    ) -> None:
        """Assignment by the rules of section 6.2; `scope` is the class whose code writes."""
        type_ = inline_caches.receiver_type(target)
        seen_from = scope if scope is not None and type_.is_compatible(scope) else None
        found = (seen_from or type_).find_property(name)
        if found is not None and found.is_static:
            self.write_static(found, value)
            return
        if isinstance(target, MuranoType):
            raise inline_caches.NoPropertyFound(
                f'Property "{name}" is not found in type "{type_.name}"',
                hint=did_you_mean(name, type_.property_names()),
            )
        holder = target.target if isinstance(target, CastView) else target
        if found is None:
            if seen_from is None:
                raise PropertyWriteError(
                    f'Property "{name}" in class "{type_.name}" cannot be written',
                    hint=did_you_mean(name, type_.property_names()),
                )
            holder.__dict__[f"q{seen_from.index}_{name}"] = value
            return
        if seen_from is None and not self._is_being_built(holder):
            raise NoWriteAccessError(
                f'Property "{name}" is immutable to the caller',
                hint=f"only code of {type_.name} and its ancestors may write it",
            )
        getattr(holder, "w_" + name)(self, value)

    def is_reference_property(self, declaration: Property) -> bool:
        """True when dumps hold only the id of the property's object (section 15.1)."""
        values = constant_values(declaration, "io.murano.metadata.engine.Serialize")
        return values is not None and values.get("as") == "reference"

    def read_property_or_unset(self, target: object, name: str, scope: MuranoType) -> object:
        """A property's value; UNSET when it was never assigned."""
        try:
            return inline_caches.read_member(self, target, name, scope)
        except UninitializedPropertyAccessError:
            return UNSET

    def _is_being_built(self, holder: MuranoObject) -> bool:
        """True while constructors run for the load that the object belongs to (section 6.2)."""
        if not self.building:
            return False
        return not holder.initialised or (
            self.transaction is not None and self.transaction.constructs(holder)
        )

    def may_grow_in_place(self, target: object, name: str) -> bool:
        """True when the property's contract accepts a map after any key was set in it."""
        type_ = inline_caches.receiver_type(target)
        declarations = type_.all_declarations(name)
        if len(declarations) != 1:
            return not declarations
        declaration = declarations[0]
        if declaration.native is not None:
            return False
        contract = declaration.declaring_type.own_code().contracts[name]
        return contract.tolerates_growth and (declaration.is_writable or self.building > 0)

    def growing_property(self, target: MuranoObject, name: str) -> GrowingProperty | None:
        """How a property may grow; None when it is not writable now, or when its contract
        must check the whole value."""
        known = target.type.growing_properties.get(name)
        if known is None:
            declarations = target.type.all_declarations(name)
            declaration = declarations[0]
            contract = None
            if len(declarations) == 1 and declaration.native is None:
                contract = declaration.declaring_type.own_code().contracts[name]
            known = GrowingProperty(declaration, contract)
            target.type.growing_properties[name] = known
        if known.never or not (known.is_writable or self.building):
            return None
        return known

    # -- calls ---------------------------------------------------------------------------------

    def invoke(
        self,
        receiver: object,
        name: str,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Value:
        """Call a method by name with values; the result is a program's value."""
        named = {argument_slot(key): value for key, value in (kwargs or {}).items()}
        if inline_caches.find_bound(receiver, name, None, self) is None:
            self.missing_method(receiver, inline_caches.receiver_type(receiver), name)
        return inline_caches.invoke_bound(self, receiver, name, args, named)

    def call_as(
        self,
        target: MuranoObject,
        type_: MuranoType,
        name: str,
        args: Sequence[object],
        named: Mapping[str, object],
    ) -> object:
        """Call what a name means in an ancestor's view of an object."""
        if target.destroyed:
            getattr(target, "m_" + name)
        function = getattr(type_.python_class, "m_" + name)
        method = type_.find_method(name)
        if method is not None and method.is_static:
            return function(self, *args, **named)
        return function(target, self, *args, **named)

    def call_static(
        self, type_: MuranoType, name: str, args: Sequence[object], named: Mapping[str, object]
    ) -> object:
        """Call a static or extension method of a class."""
        return getattr(type_.python_class, "m_" + name)(self, *args, **named)

    def missing_method(self, receiver: object, type_: MuranoType, name: str) -> NoReturn:
        """Raise the error of a call of an unknown method."""
        if isinstance(receiver, MuranoObject) and receiver.destroyed:
            getattr(receiver, "m_" + name)
        names = (*NoMethodFound("").names, *legacy_names(NoMethodRegisteredException("")))
        if type_.find_method(name) is not None:
            raise NoMethodFound(
                f"method {name!r} of {type_.name} cannot be called this way",
                names=names,
                hint="call it on an object"
                if isinstance(receiver, MuranoType)
                else "call an extension method on an object that it extends",
            )
        raise NoMethodFound(
            f"class {type_.name} has no method {name!r}",
            names=names,
            hint=did_you_mean(name, type_.method_names()),
        )

    # -- hooks of YAQL -------------------------------------------------------------------------

    def now(self) -> datetime.datetime:
        return self.session.effects.now()

    def random(self) -> random.Random:
        return self._random

    def host_property(self, receiver: object, name: str) -> object:
        if isinstance(receiver, (MuranoObject, CastView, MuranoType)):
            return inline_caches.read_member(self, receiver, name, calling_type())
        if isinstance(receiver, Info):
            return receiver.read(self, name)
        return super().host_property(receiver, name)

    def host_method(
        self, receiver: object, name: str, args: Sequence[object], kwargs: dict[str, object]
    ) -> object:
        if isinstance(receiver, (MuranoObject, CastView, MuranoType)):
            return inline_caches.dynamic_call(self, calling_type(), receiver, name, args, kwargs)
        if isinstance(receiver, Info):
            return receiver.call(self, name, args, kwargs)
        hint = inline_caches.hint_for_list(receiver, name)
        if hint is not None:
            raise NoMethodRegisteredException(
                f'Unknown method "{name}" for receiver {preview(receiver)}', hint=hint
            )
        return super().host_method(receiver, name, args, kwargs)

    def is_host_method_receiver(self, receiver: object) -> bool:
        return isinstance(receiver, (MuranoObject, CastView, MuranoType, Info))

    def host_text(self, value: object) -> str:
        if isinstance(value, MuranoType):
            return value.name
        if isinstance(value, Info):
            return str(value)
        return repr(value) if isinstance(value, (MuranoObject, CastView)) else "<value>"
