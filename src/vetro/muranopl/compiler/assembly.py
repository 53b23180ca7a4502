"""The Python class of a class's objects, and the steps that construct them.

All members of a class, inherited ones included, become attributes of one Python class; here are also
the functions that fill the properties of a new object and run its constructors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from vetro.muranopl.classes.objects import DestroyedObject, MuranoObject
from vetro.muranopl.classes.types import Method, MuranoType, Property
from vetro.muranopl.contracts.tree import MISSING, Guard
from vetro.muranopl.inplace.properties import settle_properties
from vetro.muranopl.model.initialising import (
    Chain,
    PropertyInitialiser,
    PropertyWriter,
    retry_blocked,
)
from vetro.muranopl.runtime.nativecalls import (
    NativeCall,
    StaticAttribute,
)
from vetro.muranopl.runtime.traces import CodeUnit
from vetro.muranopl.syntax.names import argument_slot
from vetro.muranopl.values.containers import Value, freeze
from vetro.muranopl.values.errors import AmbiguousMethodName, DslSyntaxError

from .classscope import ClassScope

if TYPE_CHECKING:
    from vetro.muranopl.model.loading import Transaction
    from vetro.muranopl.model.running import ModelRun


Step = Callable[["MuranoObject", "ModelRun", Mapping[str, Value], "Transaction"], None]


@dataclass(slots=True)
class Assembly:
    """A class with everything it inherits, ready to make objects."""

    python_class: type[MuranoObject]
    destroyed_class: type[MuranoObject]
    stored_slots: list[tuple[str, str, Property]]
    """Name, Python attribute and declaration of the properties that models carry."""
    initialisers: dict[str, PropertyInitialiser]
    fill: Step
    construction: ClassScope
    """The module of `fill`."""
    construction_steps: list[Step]
    destruction_methods: list[Method]
    action_headers: dict[str, dict[str, object]]


def assemble(type_: MuranoType) -> Assembly:
    """Make the Python class of a type and the data that loading and saving need."""
    for item in reversed(type_.ancestors):
        item.own_code()
    attributes: dict[str, object] = {"type": type_, "__module__": "vetro.muranopl.classes.objects"}
    for name in type_.method_names():
        attributes["m_" + name] = _method_attribute(type_, name)
    for alias, name in (("initialize", ".init"), ("destroy", ".destroy")):
        if "m_" + alias not in attributes:
            found = bool(type_.method_declarations(name))
            attributes["m_" + alias] = _method_attribute(type_, name) if found else _nothing
    initialisers: list[PropertyInitialiser] = []
    shadowed = _shadowed_by_init(type_)
    names = type_.property_names()
    chosen = {name: type_.property_declarations(name)[0] for name in names}
    for name in sorted(names, key=lambda name: chosen[name].usage != "Config"):
        declaration = chosen[name]
        if declaration.is_static:
            continue
        if declaration.native is not None:
            attributes["p_" + name] = _native_property(declaration)
            continue
        chain = _contract_chain(type_, name)
        attributes["w_" + name] = _writer(type_, name, chain)
        if name not in shadowed:
            initialisers.append(PropertyInitialiser(type_, declaration, chain))
    construction = _construction(type_, initialisers)
    python_class = type(type_.name, (MuranoObject,), attributes)
    type_.runtime.final_types.add(python_class)
    gone = {"type": type_, "__module__": "vetro.muranopl.classes.objects"}
    return Assembly(
        python_class,
        type(type_.name, (DestroyedObject,), gone),
        [(name, "p_" + name, item) for name, item in chosen.items() if item.is_stored],
        {item.name: item for item in initialisers},
        construction.namespace["fill"],
        construction,
        _construction_steps(type_),
        [item.methods[".destroy"] for item in type_.ancestors if ".destroy" in item.methods],
        type_.runtime.action_headers(type_),
    )


def _writer(type_: MuranoType, name: str, chain: Chain) -> Callable[..., None]:
    """`w_NAME`: that of the declaring class, unless other declarations apply here too."""
    declaring = chain[0][0].declaring_type
    ready = declaring.own_code().writers.get(name)
    if ready is not None and len(chain) == 1:
        return ready
    return PropertyWriter(name, chain, type_.all_declarations(name)).function


def _method_attribute(type_: MuranoType, name: str) -> object:
    found = type_.method_declarations(name)
    if len(found) > 1:
        return staticmethod(functools.partial(_ambiguous, type_, name))
    method = found[0]
    function = method.function
    if function is None:
        raise DslSyntaxError(f"method {name} of {type_.name} was not compiled")
    if method.native is not None and method.is_static:
        return StaticAttribute(function)
    if method.is_static:  # a bare partial becomes a method of the instance from Python 3.14 on
        return staticmethod(functools.partial(function, method.declaring_type))
    return function


def _nothing(_this: MuranoObject, _run: ModelRun) -> None:
    """`initialize` and `destroy` of `io.murano.Object`, which overrides call through `super`."""


def _ambiguous(type_: MuranoType, name: str, *_args: object, **_named: object) -> object:
    try:
        type_.find_method(name)
    except AmbiguousMethodName as error:
        raise error from None
    raise AssertionError("the method was ambiguous when the class was built")


def _native_property(declaration: Property) -> property:
    native = declaration.native
    assert native is not None
    owner = declaration.declaring_type

    def read(this: MuranoObject) -> Value:
        return freeze(native.getter(this.native_part(owner)))

    return property(read)


def _contract_chain(type_: MuranoType, name: str) -> Chain:
    """The contracts that a value must satisfy: the chosen declaration's, then the others'."""
    declarations = type_.property_declarations(name)
    everything = [item for item in type_.all_declarations(name) if item not in declarations]
    chain = [*declarations, *everything]
    return [
        (item, item.declaring_type.own_code().contracts[name])
        for item in chain
        if item.native is None
    ]


def _shadowed_by_init(type_: MuranoType) -> set[str]:
    """Properties whose value is passed to an argument of the same name of their class's `.init`."""
    names: set[str] = set()
    for item in type_.ancestors:
        init = item.methods.get(".init")
        if init is not None and init.arguments:
            names.update(a.name for a in init.arguments if a.name in item.properties)
    return names


def _construction(type_: MuranoType, initialisers: list[PropertyInitialiser]) -> ClassScope:
    """The module of `fill`, straight-line code that gives a new object its properties."""
    unit = CodeUnit.create(type_, f"construction of {type_.full_name}")
    scope = ClassScope(type_, unit)
    scope.shared = type_.runtime.construction_code
    scope.begin("fill")
    unit.write("def fill(this, S, given, X):")
    unit.write("B = None", 1)
    missing = scope.constant(MISSING)
    for item in initialisers:
        slow = scope.constant(item)
        condition = item.guard(Guard(scope.constant, scope.fresh, type_.runtime.final_types))
        if condition is None:
            unit.write(f"B = {slow}(this, S, given, X, B)", 1)
            continue
        unit.write(f"v = given.get({item.name!r}, {item.default_source(scope, missing)})", 1)
        unit.write(f"if {condition}: this.{scope.slot('p_' + item.name)} = v", 1)
        unit.write(f"else: B = {slow}(this, S, given, X, B)", 1)
    unit.write(f"if B: {scope.constant(retry_blocked)}(this, S, given, X, B)", 1)
    scope.execute()
    return scope


def _construction_steps(type_: MuranoType) -> list[Step]:
    steps: list[Step] = []
    visited: set[MuranoType] = set()
    first: dict[str, MuranoType] = {}
    for item in type_.ancestors:
        first.setdefault(item.name, item)

    def visit(part: MuranoType) -> None:
        # If a class occurs in several versions, only the first one found is part of the object.
        if part in visited or first[part.name] is not part:
            return
        visited.add(part)
        if part.native is not None:
            steps.append(_native_constructor(part))
        for parent in part.parents:
            visit(parent)
        init = part.methods.get(".init")
        if init is not None:
            steps.append(_init_step(part, init))

    visit(type_)
    return steps


def _native_constructor(part: MuranoType) -> Step:
    native = part.native
    assert native is not None
    python_class = native.python_class
    call = None if native.constructor is None else NativeCall(native.constructor, part.name)
    names = [] if native.constructor is None else list(native.constructor.parameters)

    def construct(
        made: MuranoObject, run: ModelRun, given: Mapping[str, object], transaction: Transaction
    ) -> None:
        if made.natives is None:
            made.natives = {}
        for known in made.natives.values():
            if isinstance(known, python_class):
                made.natives[part] = known
                return
        instance: object = object.__new__(python_class)
        made.natives[part] = instance
        if call is None:
            return
        values: dict[str, object] = {}
        for name in names:
            slot = "p_" + name
            if slot in settle_properties(made):
                values[name] = made.__dict__[slot]
            elif name in given:
                values[name] = transaction.resolve_plain(given[name])
        call.call_with_values(run, made, instance, values)

    return construct


def _init_step(part: MuranoType, init: Method) -> Step:
    names = [
        (item.name, argument_slot(item.name))
        for item in init.arguments or []
        if item.usage == "Standard"
    ]
    keywords = any(item.usage == "KwArgs" for item in init.arguments or [])

    def initialise(
        made: MuranoObject, run: ModelRun, given: Mapping[str, object], transaction: Transaction
    ) -> None:
        function = cast("Callable[..., object]", init.function)
        if not names and not keywords:
            function(made, run)
            return
        values = {
            python: transaction.argument(given[name]) for name, python in names if name in given
        }
        if keywords:
            known = {name for name, _ in names}
            values.update(
                {
                    argument_slot(k): transaction.argument(v)
                    for k, v in given.items()
                    if k not in known
                }
            )
        function(made, run, **values)

    return initialise
