"""Arguments of intercepted calls: bound as the original binds them, then chosen for the mock."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vetro.muranopl.classes.types import Argument, Method
from vetro.muranopl.contracts.arguments import ArgumentFallback, KeywordFallback, RestFallback
from vetro.muranopl.contracts.plan import build_contract
from vetro.muranopl.contracts.tree import MISSING
from vetro.muranopl.syntax.blocks import constant_value, is_constant
from vetro.muranopl.syntax.names import argument_name, argument_slot
from vetro.muranopl.values.containers import Map, Value, freeze
from vetro.yaql import (
    NoMatchingMethodException,
)

if TYPE_CHECKING:
    from vetro.muranopl.runtime.run import Run


@dataclass(slots=True)
class BoundArguments:
    """The arguments of an intercepted call, after the original's contracts."""

    standard: dict[str, object]
    rest: tuple[Value, ...] = ()
    keywords: dict[str, object] = field(default_factory=dict[str, object])
    rest_name: str | None = None
    keywords_name: str | None = None

    @property
    def positional(self) -> list[Value]:
        """The values of `$2`, `$3`, … in expression mocks."""
        return [*self.standard.values(), *self.rest]

    @property
    def named(self) -> dict[str, Value]:
        """The named values in expression mocks."""
        found = {**self.keywords, **self.standard}
        if self.rest_name is not None:
            found[self.rest_name] = self.rest
        if self.keywords_name is not None:
            found[self.keywords_name] = Map(self.keywords)
        return found


class SignatureBinder:
    """Binds the arguments of a call as the method would, without running the method."""

    def __init__(self, method: Method) -> None:
        self.method = method
        owner = method.declaring_type
        self.title = f"{owner.name}.{method.name}"
        self._plain: list[tuple[str, ArgumentFallback]] = []
        self._rest: tuple[str, RestFallback] | None = None
        self._keywords: tuple[str, KeywordFallback] | None = None
        scope = owner.own_code().scope.detached()
        if method.error is not None:
            raise method.error.fresh()
        scope.static = method.is_static
        for item in method.arguments or []:
            contract = build_contract(item.contract, scope)
            place = f"{owner.name}::{method.name}({item.name}"
            if item.usage == "VarArgs":
                self._rest = item.name, RestFallback(contract, place, item)
            elif item.usage == "KwArgs":
                self._keywords = item.name, KeywordFallback(contract, place, item)
            else:
                make: object = None
                constant: object = None
                if item.default is not None and is_constant(item.default):
                    constant = constant_value(item.default)
                elif item.default is not None:
                    make = scope.structure_function(item.default, f"default of {item.name}")
                fallback = ArgumentFallback(
                    contract, place, item, constant, make, method.name == ".init"
                )
                self._plain.append((item.name, fallback))
        scope.execute()

    def bind(
        self, this: object, run: Run, args: Sequence[object], named: Mapping[str, object]
    ) -> BoundArguments:
        """Bind arguments. Raises the errors of a call of the original with wrong arguments."""
        if self.method.native is not None:
            return _bind_native(self.method, args, named)
        left = {argument_name(key): value for key, value in named.items()}
        given = list(args)
        raw: dict[str, object] = {}
        for index, (name, _) in enumerate(self._plain):
            if index < len(given):
                if name in left:
                    self._refuse(f"got the argument {name!r} twice")
                raw[name] = given[index]
            else:
                raw[name] = left.pop(name, MISSING)
        surplus = given[len(self._plain) :]
        if surplus and self._rest is None:
            self._refuse(
                f"takes at most {len(self._plain)} positional arguments, {len(given)} were given"
            )
        if left and self._keywords is None:
            self._refuse(f"has no argument {next(iter(left))!r}")
        bound = BoundArguments({name: make(this, run, raw[name]) for name, make in self._plain})
        if self._rest is not None:
            bound.rest_name, make_rest = self._rest
            bound.rest = make_rest(this, run, tuple(surplus))
        if self._keywords is not None:
            bound.keywords_name, make_keywords = self._keywords
            bound.keywords = dict(
                make_keywords(this, run, {argument_slot(key): value for key, value in left.items()})
            )
        return bound

    def _refuse(self, what: str) -> None:
        raise NoMatchingMethodException(f"method {self.method.name!r} of {self.title} {what}")


def _bind_native(
    method: Method, args: Sequence[object], named: Mapping[str, object]
) -> BoundArguments:
    native = method.native
    assert native is not None
    left = {argument_name(key): value for key, value in named.items()}
    parameters = inspect.signature(native.function).parameters
    title = f"{method.declaring_type.name}.{method.name}"
    standard: dict[str, object] = {}
    missing: list[str] = []
    given = list(args)
    for name, python_name in native.parameters.items():
        default = parameters[python_name].default
        if given:
            if name in left:
                raise NoMatchingMethodException(f"{title} got the argument {name!r} twice")
            standard[name] = given.pop(0)
        elif name in left:
            standard[name] = left.pop(name)
        elif default is not inspect.Parameter.empty:
            standard[name] = freeze(default)
        else:
            missing.append(name)
    if missing:
        raise NoMatchingMethodException(f"{title} needs {', '.join(missing)}")
    if given and native.positional >= 0:
        raise NoMatchingMethodException(
            f"{title} takes at most {native.positional} arguments, {len(args)} were given"
        )
    if left and not native.takes_keywords:
        raise NoMatchingMethodException(f"{title} has no argument {next(iter(left))!r}")
    return BoundArguments(standard, tuple(given), left)


def arguments_of_mock(
    declared: Sequence[Argument], bound: BoundArguments
) -> tuple[list[object], dict[str, object]]:
    """The arguments of an intercepted call that a mock method declares.

    Arguments are matched by name first. A mock's argument whose name the original lacks gets the
    next unmatched value, because mocks often use other names. The last ones may be the mock's
    VarArgs and KwArgs.
    """
    known = bound.named
    plain = [item.name for item in declared if item.usage == "Standard"]
    usages = {item.usage for item in declared}
    left = {key: value for key, value in bound.standard.items() if key not in plain}
    others = {key: value for key, value in known.items() if key not in plain}
    rest = [] if bound.rest_name in plain else list(bound.rest)
    positional: list[object] = []
    for item in plain:
        if item in known:
            positional.append(known[item])
        elif left:
            taken = next(iter(left))
            positional.append(left.pop(taken))
            del others[taken]
        else:
            positional.append(rest.pop(0) if rest else MISSING)
    if "VarArgs" in usages:
        positional += rest if "KwArgs" in usages else [*left.values(), *rest]
    return positional, others if "KwArgs" in usages else {}
