"""Advice about classes that install something once: the guard has to count more than properties.

Many packages have an `If` about `getAttr(installed)` around a call of a guest, and `setAttr` after
it. Another version of the package runs nothing then, and neither does a machine that was made anew. What
counts is whether that which decides about the call depends on the version or on the scripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from vetro.muranopl.syntax import statements as st
from vetro.muranopl.syntax.blocks import blocks_of, expressions_of, flatten, values_of
from vetro.muranopl.syntax.declarations import ClassDeclaration
from vetro.muranopl.syntax.findings import Finding
from vetro.muranopl.syntax.statements import Statement
from vetro.muranopl.syntax.targets import parse_target
from vetro.muranopl.syntax.yamltree import Node
from vetro.muranopl.values.errors import Position
from vetro.yaql import ast

from .guardflow import RIGHT, ClassFlow, Source, Where, attribute_call, own_call
from .guardvalues import UNSURE, unset_value

MESSAGE = (
    "what this installs is not installed again by another version of the package, nor when the machine was"
    " made anew: guard it with io.murano.system.Installation"
)
_EXITS = (st.Return, st.Throw, st.Rethrow, st.Break, st.Continue)
_OF_LOOPS = (st.Break, st.Continue)
_FILTERS = frozenset(["where", "filter", "takeWhile", "skipWhile"])


class _Guard(NamedTuple):
    """A condition on which a statement runs."""

    position: Position
    where: Where
    holds: bool
    """False: the statement runs when the condition does not hold."""
    in_loop: bool = False
    """It left a loop: what is behind the loop runs anyway."""


class _Site(NamedTuple):
    """A statement that calls a guest, or writes what is kept, with all its guards."""

    guards: list[_Guard]
    after: list[Statement]
    """What runs with it or after it."""
    around: set[str]
    """The methods that run in one go with it."""


def check_guards(declaration: ClassDeclaration) -> list[Finding]:
    """W212 for each guard around calls of a guest that counts neither version nor machine."""
    check = _Check(ClassFlow(declaration))
    return [Finding("W212", MESSAGE, place) for place in dict.fromkeys(check.wrong())]


class _Check:
    """The guards of one class."""

    def __init__(self, flow: ClassFlow) -> None:
        self.flow = flow
        self.sites: list[_Site] = []
        self.reset: set[Source] = set()
        """What is kept, and set back when the version is another one."""
        if flow.installing:
            for method, body in flow.bodies.items():
                self._walk(method, body, [], [])

    def wrong(self) -> Iterator[Position]:
        """The places of guards that forget the version."""
        for site in self.sites:
            # The answer of a guard that is right may be narrowed by a count of attempts.
            is_right = any(self._is_right(one) for one in site.guards)
            for guard in site.guards:
                flags = [
                    flag
                    for part in self._conjuncts(guard)
                    if not self._is_right(part) and self._passes_at_first(part)
                    for flag in self._flags(part, site)
                ]
                if any(not (is_right and self._counts(flag)) for flag in flags):
                    yield guard.position

    # -- statements ----------------------------------------------------------------------------

    def _walk(
        self, method: str, body: Sequence[Statement], guards: list[_Guard], after: list[Statement]
    ) -> list[_Guard]:
        """Collect the sites of a block; the guards of what is behind it."""
        left: list[_Guard] = []
        begin = 0
        for index, one in enumerate(body):
            here = [*guards, *left]
            if not here:
                begin = index
            rest = [*flatten(body[begin:]), *after]
            for node in values_of(one):
                for expression in expressions_of(node):
                    self._look(method, one, expression, here, rest)
            self._look_at_reset(one, here)
            for block, more in self._blocks(method, one):
                inner = self._walk(method, block, [*here, *more], rest)
                if isinstance(one, (st.For, st.While, st.Repeat)):
                    inner = [guard for guard in inner if not guard.in_loop]
                left += inner
                exits = next((item for item in block if isinstance(item, _EXITS)), None)
                if exits is not None:
                    in_loop = isinstance(exits, _OF_LOOPS)
                    left += [item._replace(holds=not item.holds, in_loop=in_loop) for item in more]
        return left

    def _blocks(
        self, method: str, one: Statement
    ) -> Iterator[tuple[list[Statement], list[_Guard]]]:
        """The blocks within a statement, each with the guards that the statement adds."""

        def guards(node: Node, holds: bool = True) -> list[_Guard]:
            return [
                _Guard(one.position, Where(method, found), holds) for found in expressions_of(node)
            ]

        match one:
            case st.If():
                yield one.then, guards(one.condition)
                yield one.otherwise, guards(one.condition, False)
            case st.While():
                yield one.body, guards(one.condition)
            case st.For():
                found = [part for item in expressions_of(one.collection) for part in ast.walk(item)]
                predicates = self._predicates([Where(method, part) for part in found])
                yield one.body, [_Guard(one.position, where, True) for where in predicates]
            case st.Switch():
                for condition, block in one.cases:
                    yield block, guards(condition)
                yield (
                    one.default or [],
                    [part for key, _ in one.cases for part in guards(key, False)],
                )
            case st.Match():
                cases = [_cases_of(guards(one.value), value) for value, _ in one.cases]
                for (_, block), added in zip(one.cases, cases, strict=True):
                    yield block, added
                others = [part._replace(holds=False) for added in cases for part in added]
                yield one.default or [], others
            case _:
                for block in blocks_of(one):
                    yield block, []

    def _look(
        self,
        method: str,
        one: Statement,
        expression: ast.Node,
        guards: list[_Guard],
        after: list[Statement],
    ) -> None:
        """Collect the calls of a guest in an expression, with the guards within it."""
        pending: list[tuple[ast.Node, list[_Guard]]] = [(expression, guards)]
        while pending:
            part, around = pending.pop()
            if self.flow.installs(Where(method, part)):
                self.sites.append(_Site(around, after, self.flow.around(method)))
            for child in part.children():
                more = [
                    _Guard(one.position, where, holds)
                    for where, holds in self._inner_guards(Where(method, part), child)
                ]
                pending.append((child, [*around, *more]))

    def _inner_guards(self, around: Where, child: ast.Node) -> Iterator[tuple[Where, bool]]:
        """What a part of an expression makes the evaluation of a child depend on."""
        method, part = around
        match part:
            case ast.Binary(operator=("and" | "or") as operator, left=left, right=right):
                if child is right:
                    yield Where(method, left), operator == "and"
            case ast.Pair(key=key, value=value):
                if child is value:
                    yield Where(method, key), True
            case ast.MethodCall(target=target):
                if child is not target:
                    for found in self._predicates([Where(method, one) for one in ast.walk(target)]):
                        yield found, True
            case _:
                pass

    def _predicates(self, parts: Sequence[Where]) -> Iterator[Where]:
        """By which elements of a collection are chosen, also where a variable stands for it."""
        pending = [*parts]
        seen: set[int] = set()
        while pending:
            where = pending.pop()
            if id(where.node) in seen:
                continue
            seen.add(id(where.node))
            if isinstance(where.node, ast.MethodCall) and where.node.name in _FILTERS:
                for given in where.node.arguments[:1]:
                    yield Where(where.method, given)
            found = self.flow.single(where)
            if found is not None:
                pending += [Where(found.method, part) for part in ast.walk(found.node)]

    def _look_at_reset(self, one: Statement, guards: list[_Guard]) -> None:
        """Note what is set back where the version is known to be another one."""
        if not any(self._is_right(guard) for guard in guards):
            return
        for node in values_of(one):
            for part in (part for found in expressions_of(node) for part in ast.walk(found)):
                written = attribute_call(part, "setAttr")
                if written is not None and (len(written) < 2 or _is_nothing(written[1])):
                    where = Where(guards[0].where.method, part)
                    self.reset |= self.flow.attributes(where, written[0])
        if isinstance(one, st.Assign):
            target = parse_target(one.target)
            value = getattr(one.value, "value", None)
            if target.is_this and len(target.path) == 1 and not value:
                self.reset.add(Source("property", str(target.path[0].value)))

    # -- conditions ----------------------------------------------------------------------------

    def _is_right(self, guard: _Guard) -> bool:
        return RIGHT in self.flow.sources(guard.where)

    def _conjuncts(self, guard: _Guard) -> Iterator[_Guard]:
        """The conditions that have to hold all together."""
        pending = [guard]
        seen: set[int] = set()
        while pending:
            one = pending.pop()
            method, part = one.where
            if id(part) in seen:
                continue
            seen.add(id(part))
            same = self.flow.single(one.where)
            if same is not None:
                pending.append(one._replace(where=same))
            elif isinstance(part, ast.Unary) and part.operator == "not":
                pending.append(one._replace(where=Where(method, part.operand), holds=not one.holds))
            elif isinstance(part, ast.Binary) and part.operator == ("and" if one.holds else "or"):
                pending += [
                    one._replace(where=Where(method, side)) for side in (part.left, part.right)
                ]
            else:
                yield one

    def _passes_at_first(self, guard: _Guard) -> bool:
        """Whether it may let pass when nothing is noted yet; else it is for what is there already."""
        value = unset_value(self.flow, guard.where)
        return value is UNSURE or bool(value) == guard.holds

    def _flags(self, guard: _Guard, site: _Site) -> Iterator[Source]:
        """What a condition depends on that the class writes, and that nothing sets back."""
        assigned = self._assigned(site.after)
        for source in self.flow.sources(guard.where):
            if source in self.reset:
                continue
            if source.kind == "property":
                if source.name in assigned:
                    yield source
            # What only an action writes, as a pause, is not what is installed.
            elif any(one.method in site.around for one in self.flow.writes_to(source) or ()):
                yield source

    def _assigned(self, statements: Sequence[Statement]) -> set[str]:
        """The properties that statements assign, by methods of the class as well."""
        found: set[str] = set()
        seen: set[str] = set()
        pending = [*statements]
        while pending:
            one = pending.pop()
            if isinstance(one, st.Assign):
                target = parse_target(one.target)
                if target.is_this and target.path:
                    found.add(str(target.path[0].value))
            for node in values_of(one):
                for part in (part for item in expressions_of(node) for part in ast.walk(item)):
                    called = own_call(part)
                    if called is not None and called.name not in seen:
                        seen.add(called.name)
                        pending += flatten(self.flow.bodies.get(called.name, []))
        return found

    def _counts(self, flag: Source) -> bool:
        """Whether it counts up: what is written depends on what is there."""
        return any(flag in self.flow.sources(one) for one in self.flow.writes_to(flag) or ())


def _cases_of(guards: list[_Guard], value: object) -> list[_Guard]:
    """That a value is the one of a case of `Match`."""
    found: list[_Guard] = []
    for guard in guards:
        method, node = guard.where
        case = ast.Constant(node.start, node.end, cast("str", value))
        equal = ast.Binary(
            node.start, node.end, "=", cast("ast.Expression", node), case, node.start
        )
        found.append(guard._replace(where=Where(method, equal)))
    return found


def _is_nothing(node: ast.Node) -> bool:
    return isinstance(node, ast.Constant) and not node.value
