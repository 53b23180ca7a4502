"""Call sites: a call's overload is chosen once per combination of argument types, then cached.

A site is a plain closure `site(rt, *arguments)`. `shape` describes the written arguments of the
call, one text each: "" positional, "-" left out, else the keyword; arguments left out are not
passed. The choice depends only on the Python types of the arguments, so a later call needs only a
dictionary from types to the chosen function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from vetro.yaql.values import Value

from .errors import (
    AmbiguousFunctionException,
    AmbiguousMethodException,
    NoFunctionRegisteredException,
    NoMatchingFunctionException,
    NoMatchingMethodException,
    NoMethodRegisteredException,
    ResolutionError,
    described_function,
)
from .evaluation import Evaluation
from .kinds import CONTEXT, HOST
from .library import Library
from .signatures import Overload, Parameter
from .values import Context, describe, kind_of, preview

Shape: TypeAlias = tuple[str, ...]
Site: TypeAlias = Callable[..., Value]


def function_site(library: Library, name: str, shape: Shape, position: int) -> Site:
    """`name(arguments)`."""
    layers = library.layers(name, False)
    if not layers:
        return _unknown_function(library, name, shape, position)

    def choose(arguments: tuple[object, ...]) -> Site:
        return _choose(layers, name, False, shape, arguments, position)

    return _caching(choose, len([item for item in shape if item != "-"]))


def operator_site(
    library: Library, name: str, shape: Shape, built_in: Site | None, position: int
) -> Site:
    """An operator: a meaning that a host registered for the operands, else the built-in one."""
    if built_in is None:
        return function_site(library, name, shape, position)
    if not library.is_overridden(name, False):
        return built_in
    layers = library.layers(name, False)
    standard: Site = built_in

    def choose(arguments: tuple[object, ...]) -> Site:
        try:
            return _choose(layers, name, False, shape, arguments, position)
        except NoMatchingFunctionException:
            return standard

    return _caching(choose, len(shape))


def method_site(
    library: Library,
    name: str,
    shape: Shape,
    lazy: tuple[int, ...],
    position: int,
    cache: dict[Any, Site] | None = None,
) -> Site:
    """`receiver.name(arguments)`: called as `site(rt, receiver, outer, *arguments)`.

    `lazy` lists the arguments that are callables; `outer` is the `$` around the call, with which
    the arguments of host receivers are evaluated. `cache` receives the choices, for a host that
    reads it itself: by the class of the receiver, or a tuple of the classes of receiver and
    arguments.
    """
    layers = library.layers(name, True)
    full_shape = ("", *shape)
    if cache is None:
        cache = {}
    known = cache.get

    def choose(rt: Evaluation, key: Any, receiver: Value, outer: Any, *arguments: Value) -> object:
        kind = kind_of[type(receiver)]
        if not layers or (kind == HOST and rt.is_host_method_receiver(receiver)):
            values = [
                argument(outer) if index in lazy else argument
                for index, argument in enumerate(arguments)
            ]
            positional, keywords = by_shape(shape, values)
            try:
                return rt.host_method(receiver, name, positional, keywords)
            except NoMethodRegisteredException as error:
                _explain(error, library.suggest(name, True), position)
                raise
        try:
            chosen = _choose(layers, name, True, full_shape, (receiver, *arguments), position)
        except NoMatchingMethodException:
            if kind & (HOST | CONTEXT):
                raise NoMethodRegisteredException(
                    f'Unknown method "{name}" for receiver {preview(receiver)}', position=position
                ) from None
            raise
        cache[key] = chosen
        return chosen(rt, receiver, *arguments)

    # One function for each number of arguments: building the key is the main cost.

    def call_none(rt: Evaluation, receiver: object, outer: object) -> object:
        chosen = known(type(receiver))
        if chosen is not None:
            return chosen(rt, receiver)
        return choose(rt, type(receiver), receiver, outer)

    def call_one(rt: Evaluation, receiver: object, outer: object, one: object) -> object:
        key: object = (type(receiver), type(one))
        chosen = known(key)
        if chosen is not None:
            return chosen(rt, receiver, one)
        return choose(rt, key, receiver, outer, one)

    def call_two(
        rt: Evaluation, receiver: object, outer: object, one: object, two: object
    ) -> object:
        key: object = (type(receiver), type(one), type(two))
        chosen = known(key)
        if chosen is not None:
            return chosen(rt, receiver, one, two)
        return choose(rt, key, receiver, outer, one, two)

    def call_many(rt: Evaluation, receiver: object, outer: object, *arguments: object) -> object:
        key: object = (type(receiver), *map(type, arguments))
        chosen = known(key)
        if chosen is not None:
            return chosen(rt, receiver, *arguments)
        return choose(rt, key, receiver, outer, *arguments)

    count = len([item for item in shape if item != "-"])
    return (call_none, call_one, call_two)[count] if count < 3 else call_many


def _unknown_function(library: Library, name: str, shape: Shape, position: int) -> Site:
    def call(rt: Evaluation, *arguments: object) -> Value:
        positional, keywords = by_shape(shape, arguments)
        try:
            return rt.host_function(name, positional, keywords)
        except NoFunctionRegisteredException as error:
            _explain(error, library.suggest(name, False), position)
            raise

    return call


def existing_function(library: Library, name: str, position: int) -> Site:
    """A check for a function before its arguments are computed: `site(rt, *contexts)` returns `rt`.

    `contexts`: contexts that may define the function, which the library lacks.
    """

    def look(rt: Evaluation, *contexts: Context) -> Evaluation:
        if not rt.has_host_function(name) and not any(name in item.functions for item in contexts):
            error = NoFunctionRegisteredException(f'Unknown function "{name}"')
            _explain(error, library.suggest(name, False), position)
            raise error
        return rt

    return look


def _explain(error: ResolutionError, hint: str | None, position: int) -> None:
    if error.hint is None:
        error.hint = hint
    if error.position is None:
        error.position = position


def by_shape(shape: Shape, arguments: Sequence[object]) -> tuple[list[Value], dict[str, Value]]:
    """Positional and keyword arguments of a call."""
    positional: list[object] = []
    keywords: dict[str, object] = {}
    values = iter(arguments)
    for item in shape:
        if item == "-":
            positional.append(None)
        elif item:
            keywords[item] = next(values)
        else:
            positional.append(next(values))
    return positional, keywords


def _caching(choose: Callable[[tuple[object, ...]], Site], count: int) -> Site:
    cache: dict[object, Site] = {}
    known = cache.get

    if count == 1:

        def call_one(rt: Evaluation, one: object) -> object:
            chosen = known(type(one))
            if chosen is None:
                chosen = cache[type(one)] = choose((one,))
            return chosen(rt, one)

        return call_one
    if count == 2:

        def call_two(rt: Evaluation, one: object, two: object) -> object:
            chosen = known((type(one), type(two)))
            if chosen is None:
                chosen = cache[type(one), type(two)] = choose((one, two))
            return chosen(rt, one, two)

        return call_two

    def call_many(rt: Evaluation, *arguments: object) -> object:
        key = (*map(type, arguments),)
        chosen = known(key)
        if chosen is None:
            chosen = cache[key] = choose(arguments)
        return chosen(rt, *arguments)

    return call_many


def _choose(
    layers: list[list[Overload]],
    name: str,
    method: bool,
    shape: Shape,
    arguments: tuple[object, ...],
    position: int,
) -> Site:
    """The function that the arguments select; raises a `ResolutionError` when there is none."""
    for overloads in layers:
        matching: list[tuple[Overload, list[Parameter]]] = []
        for overload in overloads:
            bound = bind(overload, shape)
            if isinstance(bound, list) and all(
                parameter.accepts(argument)
                for parameter, argument in zip(bound, arguments, strict=True)
            ):
                matching.append((overload, bound))
        if matching:
            chosen = _most_specific(matching)
            if chosen is None:
                kind = AmbiguousMethodException if method else AmbiguousFunctionException
                signatures = "; ".join(str(overload) for overload, _ in matching)
                raise kind(
                    f'Ambiguous call of {"method" if method else "function"} "{name}": {signatures}',
                    position=position,
                )
            return _caller(chosen[0], chosen[1], shape)
    raise _no_match(layers, name, method, shape, arguments, position)


def bind(overload: Overload, shape: Shape, method: bool = False) -> list[Parameter] | str:
    """The parameter of each argument that is passed, or why the call does not fit.

    `method`: the first of `shape` is the receiver.
    """
    bound: list[Parameter] = []
    given: set[str] = set()
    words: set[str] = set()
    index = 0
    positional = [p for p in overload.parameters if not p.keyword_only]
    for item in shape:
        if item and item != "-":
            found = overload.named(item)
            if found is None:
                return f"it takes no argument named {item}"
            seen = words if found is overload.keywords else given
            if item in seen:
                return f"{item} is given twice"
            seen.add(item)
            bound.append(found)
            continue
        if index < len(positional):
            parameter = positional[index]
            given.add(parameter.name) if item != "-" else None
        elif overload.rest is not None:
            parameter = overload.rest
        else:
            most = len(positional) - method
            return f"it takes at most {most} argument{'' if most == 1 else 's'}"
        if item != "-":
            bound.append(parameter)
        elif parameter.required:
            return f"{parameter.name} is missing"
        index += 1
    for parameter in overload.parameters:
        if parameter.required and parameter.name not in given:
            return f"{parameter.name} is missing"
    return bound


def _most_specific(
    matching: list[tuple[Overload, list[Parameter]]],
) -> tuple[Overload, list[Parameter]] | None:
    best = matching
    if len(best) > 1:
        best = [
            one
            for one in matching
            if all(one is other or _is_as_specific(one[1], other[1]) for other in matching)
        ]
    return best[0] if len(best) == 1 else None


def _is_as_specific(one: list[Parameter], other: list[Parameter]) -> bool:
    strictly = False
    for first, second in zip(one, other, strict=True):
        if first.classes and second.classes:
            if not all(issubclass(cls, second.classes) for cls in first.classes):
                return False
            strictly = strictly or first.classes != second.classes
        elif first.classes and second.kinds & HOST:
            strictly = True
        elif first.kinds & ~second.kinds:
            return False
        strictly = strictly or first.kinds != second.kinds
    return strictly


def _caller(overload: Overload, bound: list[Parameter], shape: Shape) -> Site:
    implementation = overload.implementation
    if all(item == "" for item in shape):
        if overload.takes_evaluation:
            return implementation
        return _without_evaluation(implementation, len(shape))
    # Omitted arguments get their defaults; keywords come after all positional arguments.
    positional = [parameter for parameter in overload.parameters if not parameter.keyword_only]
    gaps: list[tuple[int, object]] = []
    keyword_names: list[str] = []
    count = 0
    for index, item in enumerate(shape):
        if item == "-":
            gaps.append((index, positional[index].default if index < len(positional) else None))
        elif item:
            parameter = bound[count]
            keyword_names.append(item if parameter is overload.keywords else parameter.python_name)
            count += 1
        else:
            count += 1
    plain = count - len(keyword_names)
    takes_evaluation = overload.takes_evaluation

    def call(rt: Evaluation, *arguments: object) -> Value:
        values = list(arguments[:plain])
        for index, default in gaps:
            values.insert(index, default)
        keywords = dict(zip(keyword_names, arguments[plain:], strict=True))
        if takes_evaluation:
            return implementation(rt, *values, **keywords)
        return implementation(*values, **keywords)

    return call


def _without_evaluation(implementation: Site, count: int) -> Site:
    def call_one(rt: Evaluation, one: object) -> object:
        return implementation(one)

    def call_two(rt: Evaluation, one: object, two: object) -> object:
        return implementation(one, two)

    def call_many(rt: Evaluation, *arguments: object) -> object:
        return implementation(*arguments)

    return call_one if count == 1 else call_two if count == 2 else call_many


def _no_match(
    layers: list[list[Overload]],
    name: str,
    method: bool,
    shape: Shape,
    arguments: tuple[object, ...],
    position: int,
) -> ResolutionError:
    reasons: list[str] = []
    for overloads in layers:
        for overload in overloads:
            bound = bind(overload, shape, method)
            if isinstance(bound, str):
                reasons.append(f"{overload}: {bound}")
                continue
            for parameter, argument in zip(bound, arguments, strict=True):
                if not parameter.accepts(argument):
                    reasons.append(f"{overload}: {parameter.name} is {describe(argument)}")
                    break
    detail = "; ".join(reasons[:6]) + ("; …" if len(reasons) > 6 else "")
    if method:
        return NoMatchingMethodException(
            f'No method "{name}" for receiver {preview(arguments[0])} matches supplied arguments: '
            f"{detail}",
            position=position,
        )
    return NoMatchingFunctionException(
        f"No {described_function(name)} matches supplied arguments: {detail}", position=position
    )
