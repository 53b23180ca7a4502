"""Functions of the language beyond YAQL (muranopl.md sections 8.2, 14, 20, 24).

Functions that depend on the calling class take `(run, class, this, …)` and are compiled to direct
calls (`inline_caches.ScopedFunction`); the others (`engine_functions`) are in a YAQL library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from vetro.muranopl.classes.objects import CastView, MuranoObject, as_object, unwrap
from vetro.muranopl.classes.types import MuranoType
from vetro.muranopl.contracts.tree import MISSING
from vetro.muranopl.model.serializing import FORMS, Serializer
from vetro.muranopl.syntax.versions import version_spec
from vetro.muranopl.values.containers import Map, Value, freeze, preview
from vetro.muranopl.values.errors import AmbiguousClassName, MuranoError, NoClassFound
from vetro.yaql.comparing import afford
from vetro.yaql.dynamic import call_by_name
from vetro.yaql.errors import NoMatchingFunctionException
from vetro.yaql.kinds import LAZY, LIST, MAPPING, NULL, SET, STRING
from vetro.yaql.library import Library
from vetro.yaql.values import FINAL_TYPES, finalize, kind_of

from . import engine_functions, inline_caches
from .control_flow import parallel_map
from .inline_caches import ScopedFunction

if TYPE_CHECKING:
    from .run import Run


# -- objects -------------------------------------------------------------------------------------


def new(
    run: Run, scope: MuranoType, this: object, what: object, /, *args: object, **properties: object
) -> MuranoObject:
    """`new(type, …)`, `new(type, map, …)`, `new(model, owner)`

    After a map, `owner`, `objectName` and `extra` may be given by name; without a map, names are
    properties.
    """
    if what.__class__ is Map or (what.__class__ is not MuranoType and isinstance(what, Mapping)):
        if properties or len(args) != 1:
            args = tuple(_options("new(model, …)", ("owner",), args, properties))
        return run.load_graph(cast("Mapping[object, object]", what), _owner(args[0]), scope)
    type_ = what if isinstance(what, MuranoType) else run.as_type(what, scope)
    given: Mapping[str, object] = properties
    named: Mapping[str, object] = {}
    if args and isinstance(args[0], Mapping):
        given, named, args = cast("Mapping[str, object]", args[0]), properties, args[1:]
        title = "new(type, properties, …)"
    else:
        title = "new(type, …)"
    owner, name, extra = _options(title, ("owner", "objectName", "extra"), args, named)
    return run.create(
        type_,
        given,
        _owner(owner),
        name,
        _designer_data(extra),
        scope,
    )


def _options(
    title: str, names: tuple[str, ...], args: Sequence[object], named: Mapping[str, object]
) -> list[object]:
    """Values of the parameters after the first, given by position or by name; null if absent."""
    if len(args) > len(names):
        raise NoMatchingFunctionException(
            f"{title} takes {', '.join(names)} after its first argument, not {len(args)} values"
        )
    values: list[object] = [None if value is MISSING else value for value in args]
    values += [None] * (len(names) - len(args))
    for key, value in named.items():
        if key not in names:
            raise NoMatchingFunctionException(
                f"{title} has no parameter {key!r}",
                hint="give the properties as a map or by name, not both"
                if "objectName" in names
                else None,
            )
        place = names.index(key)
        if place < len(args):
            raise NoMatchingFunctionException(f"{title} got {key} twice")
        values[place] = value
    return values


def _owner(value: object) -> MuranoObject | None:
    if value is None or isinstance(value, MuranoObject):
        return value
    return None if value is MISSING else as_object(value, "the owner of new()")


def _designer_data(extra: object) -> dict[str, object] | None:
    if not isinstance(extra, Mapping):
        return None
    items = cast("Mapping[str, object]", extra).items()
    return {key: value for key, value in items if key.startswith("_")} or None


def object_id(run: Run, scope: MuranoType, this: object, value: object) -> Value:
    """`id(object)`"""
    if isinstance(value, MuranoObject):
        return value.id
    return None if value is None else as_object(value, "id()").id


def object_name(run: Run, scope: MuranoType, this: object, value: object) -> object:
    """`name(object)`"""
    return None if value is None else as_object(value, "name()").name


def object_metadata(run: Run, scope: MuranoType, this: object, value: object) -> object:
    """`metadata(object)`"""
    return None if value is None else as_object(value, "metadata()").metadata


def find(run: Run, scope: MuranoType, this: object, value: object, type_: object) -> Value:
    """`find(object, type)`"""
    wanted = run.as_type(type_, scope)
    owner = as_object(value, "find()").owner
    while owner is not None and not inline_caches.is_instance(run, scope, owner, wanted):
        owner = owner.owner
    return owner


def require(run: Run, scope: MuranoType, this: object, value: object) -> object:
    """`require(value)`"""
    if value is None:
        raise ValueError("Required value is missing")
    return value


def type_of(run: Run, scope: MuranoType, this: object, value: object) -> object:
    """`type(name)`, `type(object)`"""
    if value is None:
        return None
    if isinstance(value, MuranoType):
        return value
    if isinstance(value, (MuranoObject, CastView)):
        found = value.type
        return found.name if scope.package.format < (1, 3) else found
    return run.as_type(value, scope)


def typeinfo(run: Run, scope: MuranoType, this: object, value: object) -> object:
    """`typeinfo(object or type)`"""
    if value is None:
        return None
    if isinstance(value, (MuranoObject, CastView)):
        value = value.type
    from .reflection import class_info

    return class_info(run.as_type(value, scope))


def cast_to(
    run: Run,
    scope: MuranoType,
    this: object,
    value: object,
    type_: object,
    versionSpec: object = None,
) -> CastView:
    """`cast(object, type[, versionSpec])`"""
    target = as_object(value, "cast()")
    wanted = run.as_type(type_, scope)
    versions = (
        version_spec(str(versionSpec))
        if versionSpec is not None
        else scope.package.requirement_for(wanted.package)
    )
    found = [
        item
        for item in target.type.ancestors
        if (versionSpec is None and item is wanted)
        or (item.name == wanted.name and item.package.semantic_version in versions)
    ]
    if not found:
        raise NoClassFound(
            f'Class "{wanted.name}" ({versions}) is not among the ancestors of {target.type.name}'
        )
    if len(found) > 1:
        raise AmbiguousClassName(
            f'Class "{wanted.name}" is among the ancestors of {target.type.name} in versions '
            + ", ".join(item.version for item in found),
            hint="give cast() a versionSpec",
        )
    return CastView(target, found[0])


def _parents(scope: MuranoType, value: object) -> list[CastView]:
    target = as_object(value, "super()")
    return [CastView(target, parent) for parent in scope.parents]


def call_super(
    run: Run,
    scope: MuranoType,
    this: object,
    value: object,
    each: Callable[[object], object] | None = None,
) -> tuple[object, ...]:
    """`super(object[, lambda])`"""
    views = _parents(scope, value)
    if each is None:
        return tuple(views)
    return tuple([finalize(each(view), run) for view in views])


def call_psuper(
    run: Run,
    scope: MuranoType,
    this: object,
    value: object,
    each: Callable[[object], object] | None = None,
) -> tuple[object, ...]:
    """`psuper(object, lambda)`"""
    views = _parents(scope, value)
    return tuple(views) if each is None else parallel_map(run, each, views)


def call_named(
    run: Run,
    scope: MuranoType,
    this: object,
    name: Value,
    args: Value = (),
    kwargs: object = None,
    receiver: Value = MISSING,
) -> object:
    """`call(name, args, kwargs, receiver)`"""
    _check_call(name, args, kwargs)
    if not kwargs:
        function = inline_caches.plain_method(receiver, name)
        if function is not None:
            return function(run, *(args or ()))
    positional = list(cast("Sequence[Value]", args or ()))
    given = cast("Mapping[object, object]", kwargs or {})
    named = {str(key): value for key, value in given.items()}
    if receiver is not MISSING and receiver is not None:
        return inline_caches.dynamic_call(run, scope, receiver, name, positional, named)
    scoped = inline_caches.SCOPED_FUNCTIONS.get(name)
    if scoped is not None:
        return scoped.function(run, scope, this, *positional, **named)
    return finalize(call_by_name(run, name, positional, named), run)


def _check_call(name: object, args: object, kwargs: object) -> None:
    """Refuse invalid arguments of `call`. Raises NoMatchingFunctionException."""
    if name.__class__ is str and args.__class__ is tuple and kwargs.__class__ is Map:
        return
    for what, value, kinds in (
        ("the name must be text", name, STRING),
        ("args must be a list", args, LIST | LAZY | SET | NULL),
        ("kwargs must be a map", kwargs, MAPPING | NULL),
    ):
        if not kind_of[type(value)] & kinds:
            raise NoMatchingFunctionException(
                f"call(name, args, kwargs, receiver): {what}, not {preview(value)}"
            )


def dump(
    run: Run,
    scope: MuranoType,
    this: object,
    value: object,
    serializationType: object = "Serializable",
    ignoreUpcasts: object = True,
) -> object:
    """`dump(object, serializationType, ignoreUpcasts)`"""
    if serializationType not in FORMS:
        raise ValueError(
            f"serializationType {preview(serializationType)} must be one of {', '.join(FORMS)}"
        )
    if value is None:
        return None
    target = as_object(value, "dump()")
    serializer = Serializer(
        run,
        keep_references=True,
        honour_reference_meta=True,
        form=serializationType,
        actions=False,
    )
    if not ignoreUpcasts and isinstance(value, CastView):
        serializer.cast_types[target] = value.type
        return freeze(serializer.value(value))
    return freeze(serializer.value(target))


def is_object(run: Run, scope: MuranoType, this: object, value: object) -> bool:
    """`isObject(value)`"""
    return isinstance(value, (MuranoObject, CastView, MuranoType))


def sleep(run: Run, scope: MuranoType, this: object, seconds: object) -> None:
    """`sleep(seconds)`"""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"sleep() takes a number of seconds, not {preview(seconds)}")
    run.session.effects.sleep(float(seconds))


def _attribute_class(run: Run, scope: MuranoType, owner: Value) -> str:
    if owner.__class__ is MuranoType:
        return owner.name
    return scope.name if owner is None else run.as_type(owner, scope).name


def get_attr(
    run: Run,
    scope: MuranoType,
    this: object,
    value: object,
    name: Value,
    default: object = None,
    owner: Value = None,
) -> object:
    """`object.getAttr(name, default, owner)`"""
    target = value if isinstance(value, MuranoObject) else as_object(value, "getAttr()")
    key = owner.name if owner.__class__ is MuranoType else _attribute_class(run, scope, owner)
    if name.__class__ is not str:
        name = str(afford(name, run))
    of_object = run.attributes.by_object.get(target.id)
    found = None if of_object is None else of_object.get((key, name))
    if found is None:
        found = default
    return found if found.__class__ in FINAL_TYPES else afford(freeze(found), run)


def set_attr(
    run: Run,
    scope: MuranoType,
    this: object,
    target: object,
    name: Value,
    value: Value,
    owner: Value = None,
) -> None:
    """`object.setAttr(name, value, owner)`"""
    holder = target if isinstance(target, MuranoObject) else as_object(target, "setAttr()")
    key = owner.name if owner.__class__ is MuranoType else _attribute_class(run, scope, owner)
    if name.__class__ is not str:
        name = str(afford(name, run))
    if value.__class__ not in _STORED_AS_THEY_ARE:
        value = _stored(afford(value, run))
    run.attributes.set(holder.id, key, name, value)


def _stored(value: object) -> object:
    """A value as the attribute store keeps it: plain data, objects as their ids."""
    if value.__class__ in _STORED_AS_THEY_ARE:
        return value
    value = unwrap(value)
    if isinstance(value, MuranoObject):
        return value.id
    if isinstance(value, MuranoType):
        return value.full_name
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): _stored(item) for key, item in items}
    if isinstance(value, (tuple, list, frozenset, set)):
        return [_stored(item) for item in cast("Sequence[object]", value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise MuranoError(
        f"an attribute can hold only plain data and objects, not {preview(value)}",
        names=("ValueError",),
    )


_STORED_AS_THEY_ARE = frozenset((bool, int, float, str, type(None)))


def logger(run: Run, scope: MuranoType, this: object, name: object) -> MuranoObject:
    """`logger(name)`"""
    if isinstance(name, MuranoType):
        name = name.name
    return run.create(
        run.session.runtime.logger_type, {"name": str(afford(name, run))}, None, None, None, scope
    )


def _scoped(function: Callable[..., object], types: str = "", lambdas: str = "") -> ScopedFunction:
    return ScopedFunction(
        function,
        frozenset(int(digit) for digit in lambdas),
        frozenset(int(digit) for digit in types),
    )


inline_caches.SCOPED_FUNCTIONS.update(
    {
        "new": _scoped(new, "0"),
        "id": _scoped(object_id),
        "name": _scoped(object_name),
        "metadata": _scoped(object_metadata),
        "find": _scoped(find, "1"),
        "require": _scoped(require),
        "type": _scoped(type_of, "0"),
        "typeinfo": _scoped(typeinfo, "0"),
        "cast": _scoped(cast_to, "1"),
        "super": _scoped(call_super, lambdas="1"),
        "psuper": _scoped(call_psuper, lambdas="1"),
        "call": _scoped(call_named),
        "dump": _scoped(dump),
        "isObject": _scoped(is_object),
        "sleep": _scoped(sleep),
        "getAttr": _scoped(get_attr, "3"),
        "setAttr": _scoped(set_attr, "3"),
        "logger": _scoped(logger),
    }
)
inline_caches.SCOPED_METHODS.update(
    {
        "id": _scoped(object_id),
        "name": _scoped(object_name),
        "metadata": _scoped(object_metadata),
        "find": _scoped(find, "1"),
        "require": _scoped(require),
        "type": _scoped(type_of),
        "cast": _scoped(cast_to, "1"),
        "super": _scoped(call_super, lambdas="1"),
        "psuper": _scoped(call_psuper, lambdas="1"),
        "getAttr": _scoped(get_attr, "3"),
        "setAttr": _scoped(set_attr, "3"),
    }
)


_LEGACY_PLAIN = (
    *("toLower", "toUpper", "trim", "join", "split"),
    *("startsWith", "endsWith", "matches", "replace", "flatten"),
)


def engine_library(parent: Library) -> Library:
    """The library layer of the functions in `engine_functions`, for one flavour."""
    library = parent.child()
    library.register(engine_functions.base64encode, method=True)
    library.register(engine_functions.base64decode, method=True)
    library.register(engine_functions.pselect, method=True)
    library.register(engine_functions.bind, method=True)
    library.register(engine_functions.patch, method=True)
    library.register(engine_functions.random_name)
    library.register(engine_functions.decrypt_data)
    if parent.is_legacy:
        library.register(engine_functions.substr, method=True)
        library.register(engine_functions.first_or_default, method=True)
        for name in _LEGACY_PLAIN:
            for overloads in parent.layers(name, True):
                for overload in overloads:
                    if not overload.is_function:
                        library.add(replace(overload, is_function=True, is_method=False))
    return library
