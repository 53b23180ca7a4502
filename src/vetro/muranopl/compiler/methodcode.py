"""Statements to Python source (muranopl.md sections 9-11).

After this phase there is one Python function per method. Variables are Python locals, loops are
Python loops, `Try` is `try`; every line of source is mapped to its statement. A
`FunctionWriter` writes the expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from vetro.muranopl.runtime.caught import exception_object, exception_without_trace
from vetro.muranopl.runtime.control_flow import match_key, paid_elements, paid_turns, run_parallel
from vetro.muranopl.runtime.destruction import ELEMENTS
from vetro.muranopl.runtime.throwing import match_handler, shorten, thrown
from vetro.muranopl.runtime.traces import CodeUnit
from vetro.muranopl.syntax import statements as st
from vetro.muranopl.syntax.blocks import assigned_names, describe, flatten, loop_names
from vetro.muranopl.syntax.yamltree import Node, Scalar
from vetro.muranopl.values.errors import Position
from vetro.yaql.comparing import hashable
from vetro.yaql.values import SCALAR_TYPES

from .functionwriter import FunctionWriter
from .structures import structure_source


class BodyWriter:
    """Writes the statements of one method."""

    def __init__(self, unit: CodeUnit, writer: FunctionWriter, indent: int) -> None:
        self.unit = unit
        self.writer = writer
        self.indent = indent
        self.caught: list[str] = []
        """Names that hold the exceptions being handled, innermost last."""
        self.untraced: set[str] = set()
        """Variables whose exceptions are never asked for a trace (`untraced_variables`)."""
        self._fresh = 0
        self._locals_of_branch: list[set[str]] = []
        self._branch_depth = 0
        self._loops: list[int] = [0]
        """Loops written inside each nested function, innermost last."""
        self.probe: Callable[[Position], str] | None = None
        """Source that records that a statement was reached (coverage)."""

    # -- lines ---------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.unit.write(text, self.indent)

    @contextmanager
    def block(self) -> Any:
        self.indent += 1
        yield
        self.indent -= 1

    def fresh(self, prefix: str) -> str:
        self._fresh += 1
        return f"{prefix}_{self._fresh}"

    def at(self, position: Position, instruction: str | Callable[[], str]) -> None:
        self.unit.at(position, instruction)

    # -- values --------------------------------------------------------------------------------

    def structure(self, node: Node) -> str:
        """Source of the value of a structure with expressions in its keys and values."""
        return structure_source(node, self.writer)

    def condition(self, node: Node) -> str:
        if isinstance(node, Scalar) and node.is_expression:
            return self.writer.condition(node)
        return self.structure(node)

    # -- statements ----------------------------------------------------------------------------

    def write(self, body: Sequence[st.Statement]) -> None:
        """Write a block; an empty one becomes `pass`."""
        if not body:
            self.line("pass")
        for statement in body:
            self.at(statement.position, partial(describe, statement))
            if self.probe is not None:
                self.line(self.probe(statement.position))
            _WRITERS[type(statement)](self, statement)

    def evaluate(self, statement: st.Evaluate) -> None:
        self.line(self.writer.drained(statement.expression))

    def assign(self, statement: st.Assign) -> None:
        lines = self.writer.growth(statement.target, statement.value)
        if lines is None:
            value = self.structure(statement.value)
            lines = self.writer.assignment(statement.target, value)
        for line in lines:
            self.line(line)

    def return_(self, statement: st.Return) -> None:
        value = "None" if statement.value is None else self.structure(statement.value)
        self.line(self._leaving("return", value))

    def _leaving(self, how: str, value: str = "None") -> str:
        """`return`, `break` or `continue`; in a branch of Parallel a signal to its parent."""
        if self._branch_depth == 0 or (how != "return" and self._loops[-1] > 0):
            return f"return {value}" if how == "return" else how
        return f"return ({how!r}, {value})"

    def if_(self, statement: st.If) -> None:
        self.line(f"if {self.condition(statement.condition)}:")
        with self.block():
            self.write(statement.then)
        if statement.otherwise:
            self.line("else:")
            with self.block():
                self.write(statement.otherwise)

    @contextmanager
    def _loop(self) -> Any:
        self._loops[-1] += 1
        with self.block():
            if self._branch_depth:
                self.line("S.fuel -= 1")
                self.line("if S.fuel < 0: S.refuel()")
            else:
                # A local counts the turns of all loops of the method; they are charged in bulk.
                self.line("turns += 1")
                self.line("if turns > 250: turns = S.charge(251) or 0")
            yield
        self._loops[-1] -= 1

    @contextmanager
    def _paid_loop(self) -> Any:
        """A loop whose turns were charged when it began."""
        self._loops[-1] += 1
        with self.block():
            yield
        self._loops[-1] -= 1

    def while_(self, statement: st.While) -> None:
        self.line(f"while {self.writer.condition(statement.condition)}:")
        with self._loop():
            self.write(statement.body)

    def for_(self, statement: st.For) -> None:
        collection = statement.collection
        if isinstance(collection, Scalar) and collection.is_expression:
            items = self.writer.items(collection)
        else:
            items = f"{self.writer.constant(paid_elements)}(S, {self.structure(collection)})"
        variable = self.writer.variable(statement.variable)
        if self._locals_of_branch:
            self._locals_of_branch[-1].add(variable)
        # Keeps the remaining elements from being collected while the loop runs (`live_values`).
        held = self.fresh(ELEMENTS[:-1])
        self.line(f"{held} = {items}")
        self.line(f"for {variable} in {held}:")
        with self._paid_loop():
            self.write(statement.body)
        self.line(f"{held} = None")

    def repeat(self, statement: st.Repeat) -> None:
        count = self.structure(statement.count)
        turn = self.fresh("turn")
        self.line(f"for {turn} in {self.writer.constant(paid_turns)}(S, {count}):")
        with self._paid_loop():
            self.write(statement.body)

    def break_(self, statement: st.Break) -> None:
        self.line(self._leaving("break"))

    def continue_(self, statement: st.Continue) -> None:
        self.line(self._leaving("continue"))

    def match(self, statement: st.Match) -> None:
        table = {
            match_key(key): index for index, (key, _) in reversed([*enumerate(statement.cases)])
        }
        chosen = self.fresh("case")
        value = self.structure(statement.value)
        table_name = self.writer.constant(table)
        self.line(f"{chosen} = {value}")
        plain, pay = self.writer.constant(SCALAR_TYPES), self.writer.constant(hashable)
        self.line(f"if {chosen}.__class__ not in {plain}: {pay}({chosen}, S)")
        self.line(f"{chosen} = {table_name}.get(({chosen}.__class__ is bool, {chosen}), -1)")
        keyword = "if"
        for index, (_, body) in enumerate(statement.cases):
            self.line(f"{keyword} {chosen} == {index}:")
            with self.block():
                self.write(body)
            keyword = "elif"
        if statement.default is not None:
            self.line("else:" if statement.cases else "if True:")
            with self.block():
                self.write(statement.default)

    def switch(self, statement: st.Switch) -> None:
        matched = self.fresh("matched")
        self.line(f"{matched} = False")
        for condition, body in statement.cases:
            self.at(condition.position, "")
            self.line(f"if {self.condition(condition)}:")
            with self.block():
                self.line(f"{matched} = True")
                self.write(body)
        if statement.default is not None:
            self.line(f"if not {matched}:")
            with self.block():
                self.write(statement.default)

    def do(self, statement: st.Block) -> None:
        self.write(statement.body)

    def parallel(self, statement: st.Parallel) -> None:
        if not statement.branches:
            return
        limit = "None" if statement.limit is None else self.structure(statement.limit)
        # Python's compiler handles each name of a function again in each function nested in it, so
        # all statements share these few names; each branch is a function with names of its own.
        width, branches, outcome = "limit_", "branches_", "outcome_"
        self.line(f"{width} = {limit}")
        self.line(f"{branches} = []")
        for branch in statement.branches:
            self._branch("branch_", branch)
            self.line(f"{branches}.append(branch_)")
        run = self.writer.constant(run_parallel)
        self.line(f"{outcome} = {run}(S, {branches}, {width})")
        self.line(f"if {outcome} is not None:")
        with self.block():
            returned = f"{outcome}[1]"
            if self._branch_depth == 0:
                if self._loops[-1] > 0:
                    self.line(f"if {outcome}[0] == 'break': break")
                    self.line(f"if {outcome}[0] == 'continue': continue")
                self.line(f"return {returned}")
            elif self._loops[-1] > 0:
                self.line(f"if {outcome}[0] == 'break': break")
                self.line(f"if {outcome}[0] == 'continue': continue")
                self.line(f"return {outcome}")
            else:
                self.line(f"return {outcome}")

    def _branch(self, name: str, body: Sequence[st.Statement]) -> None:
        """A nested function; the variables it assigns are those of the method."""
        flat = flatten(body)
        loops = loop_names(flat)
        shared = sorted(self.writer.variable(item) for item in assigned_names(flat) - loops)
        self.line(f"def {name}():")
        self._branch_depth += 1
        self._loops.append(0)
        self._locals_of_branch.append(set())
        with self.block():
            if shared:
                self.line(f"nonlocal {', '.join(shared)}")
            for item in sorted(loops):
                self.line(f"{self.writer.variable(item)} = None")
            self.write(body)
        self._locals_of_branch.pop()
        self._loops.pop()
        self._branch_depth -= 1

    def try_(self, statement: st.Try) -> None:
        if statement.final:
            self.line("try:")
            with self.block():
                self._try_catch(statement)
            error = self.fresh("error")
            self.line(f"except BaseException as {error}:")
            with self.block():
                self.line(f"{self.writer.constant(shorten)}({error})")
                self.line("raise")
            self.line("finally:")
            with self.block():
                self.write(statement.final)
        else:
            self._try_catch(statement)

    def _try_catch(self, statement: st.Try) -> None:
        if not statement.handlers:
            self.write(statement.body)
            if statement.otherwise:
                self.write(statement.otherwise)
            return
        error, kept, chosen = self.fresh("error"), self.fresh("caught"), self.fresh("handler")
        self.line("try:")
        with self.block():
            self.write(statement.body)
        self.at(statement.position, partial(describe, statement))
        self.line(f"except Exception as {error}:")
        with self.block():
            table = tuple(
                None if handler.names is None else tuple(handler.names)
                for handler in statement.handlers
            )
            match = self.writer.constant(match_handler)
            self.line(f"{chosen} = {match}({error}, {self.writer.constant(table)})")
            self.line(f"if {chosen} is None: raise")
            self.line(f"{kept} = {error}")
            self.caught.append(kept)
            keyword = "if"
            for index, handler in enumerate(statement.handlers):
                self.line(f"{keyword} {chosen}[0] == {index}:")
                keyword = "elif"
                with self.block():
                    if handler.variable is not None:
                        plain = handler.variable in self.untraced
                        make = self.writer.constant(
                            exception_without_trace if plain else exception_object
                        )
                        variable = self.writer.variable(handler.variable)
                        self.line(f"{variable} = {make}(S, {kept}, {chosen}[1])")
                    self.write(handler.body)
            self.caught.pop()
            self.line(f"{kept} = None")
        if statement.otherwise:
            self.line("else:")
            with self.block():
                self.write(statement.otherwise)

    def throw(self, statement: st.Throw) -> None:
        make = self.writer.constant(thrown)
        parts = [
            "None" if part is None else self.structure(part)
            for part in (statement.message, statement.extra, statement.cause)
        ]
        current = self.caught[-1] if self.caught else "None"
        names = self.writer.constant(tuple(statement.names))
        self.line(f"raise {make}(S, {names}, {', '.join(parts)}, {current})")

    def rethrow(self, statement: st.Rethrow) -> None:
        if self.caught:
            self.line(f"raise {self.caught[-1]}")
        else:
            self.line('raise TypeError("Rethrow must be inside Catch")')


_WRITERS: dict[type[st.Statement], Callable[[BodyWriter, Any], None]] = {
    st.Evaluate: BodyWriter.evaluate,
    st.Assign: BodyWriter.assign,
    st.Return: BodyWriter.return_,
    st.If: BodyWriter.if_,
    st.While: BodyWriter.while_,
    st.For: BodyWriter.for_,
    st.Repeat: BodyWriter.repeat,
    st.Break: BodyWriter.break_,
    st.Continue: BodyWriter.continue_,
    st.Match: BodyWriter.match,
    st.Switch: BodyWriter.switch,
    st.Parallel: BodyWriter.parallel,
    st.Block: BodyWriter.do,
    st.Try: BodyWriter.try_,
    st.Throw: BodyWriter.throw,
    st.Rethrow: BodyWriter.rethrow,
}
