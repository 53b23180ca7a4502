"""The generated Python module of a class: its text, its constants and its YAQL slots."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, cast

from vetro.muranopl.classes.objects import MuranoObject
from vetro.muranopl.classes.types import MuranoType
from vetro.muranopl.contracts.chains import set_predicate_inliner
from vetro.muranopl.contracts.tree import Guard, Setting
from vetro.muranopl.runtime import budgets, inline_caches
from vetro.muranopl.runtime.traces import UNIT, CodeUnit
from vetro.muranopl.syntax.yamltree import Node, Scalar
from vetro.muranopl.values.errors import DslSyntaxError, MuranoError
from vetro.yaql import ast
from vetro.yaql.kinds import INTEGER, STRING, Kind
from vetro.yaql.slots import PRELUDE, Emitter, bind_slot

from .functionwriter import FunctionWriter
from .structures import structure_source

if TYPE_CHECKING:
    from vetro.muranopl.contracts.running import ContractRun
    from vetro.muranopl.values.errors import MuranoError
    from vetro.yaql.library import Library


DEEP = " " * 64
"""A function indented this deep is compiled at once: Python allows twenty nested blocks."""
LONG = 20_000
"""A function with a line of this many characters is compiled at once."""


class Section:
    """One function of a module: its name and its lines, `start` to `end`, counted from 0.

    Python's compiler takes more time for a class than all earlier steps (reading, checking and writing
    the source), and a run calls few of a class's methods. So each function of a module begins as a stub
    (`defer`). The first call compiles the lines of that function and puts the code into the same function
    object. All references to it (in a class, a call site, a table) then run the compiled code, at no
    extra cost per call.

    Errors in a class are not delayed: writing the source has already parsed and resolved everything.
    Functions that only Python's compiler could refuse (blocks nested too deep) are compiled at once.
    """

    __slots__ = ("compiled", "end", "function", "name", "refuse", "start")

    def __init__(
        self, name: str, start: int, refuse: Callable[[MuranoError], None] | None = None
    ) -> None:
        self.name = name
        self.refuse = refuse
        """Called when it cannot be compiled; None if the class cannot work without it."""
        self.start = self.end = start
        self.function: Any = None
        self.compiled = False

    def text(self, lines: list[str]) -> str:
        """The section's source; its line numbers are those of the whole module."""
        return "\n" * self.start + "\n".join(lines[self.start : self.end]) + "\n"

    def may_be_refused(self, lines: list[str]) -> bool:
        """True when Python's compiler might find the lines too deeply nested."""
        section = lines[self.start : self.end]
        return DEEP in "\n".join(section) or max(map(len, section), default=0) > LONG

    def defer(
        self, namespace: dict[str, object], compile_: Callable[[Section], Callable[..., object]]
    ) -> None:
        """Make the stub, which calls `compile_` on its first call."""
        made = FunctionType(_first_call.__code__, namespace, self.name)
        made.__qualname__ = self.name  # the name in Python's errors about wrong arguments
        made.__kwdefaults__ = {"y_section": self, "y_compile": compile_}
        self.function = made
        namespace[self.name] = made

    def adopt(self, real: Callable[..., Any]) -> None:
        """Give the stub the code and defaults of `real`. Other threads may be calling it."""
        made, found = cast(FunctionType, self.function), cast(FunctionType, real)
        # Defaults first: a call of the new code without its defaults would lack arguments.
        made.__defaults__ = found.__defaults__
        made.__code__ = found.__code__
        made.__kwdefaults__ = found.__kwdefaults__
        self.compiled = True


def _first_call(
    *args: object,
    y_section: Section,
    y_compile: Callable[[Section], Callable[..., object]],
    **named: object,
) -> object:
    return y_compile(y_section)(*args, **named)


def global_names(code: CodeType) -> set[str]:
    """Names that a piece of code and the functions in it look up in their module."""
    found: set[str] = set()
    stack = [code]
    while stack:
        item = stack.pop()
        found.update(item.co_names)
        stack.extend(part for part in item.co_consts if isinstance(part, CodeType))
    return found


_CALL_GUARDS = {
    function.__name__: function
    for function in (
        budgets.begin_call,
        budgets.end_call,
        budgets.enter_call,
        budgets.enter_unlocked,
    )
}
"""What generated methods call when they begin and end."""


class Deferred:
    """A function of a generated module, callable once the module has been executed."""

    __slots__ = ("name", "scope")

    def __init__(self, scope: ClassScope, name: str) -> None:
        self.scope = scope
        self.name = name

    def __call__(self, *args: object) -> Any:
        return self.scope.namespace[self.name](*args)


class Refusal:
    """Raises a fresh copy of a method's error at each call: an error carries one call's trace."""

    __slots__ = ("error",)

    def __init__(self, error: MuranoError) -> None:
        self.error = error

    def __call__(self) -> None:
        raise self.error.fresh()


class ClassScope:
    """One generated module: source, constants, slots."""

    def __init__(self, type_: MuranoType, unit: CodeUnit) -> None:
        self.type = type_
        self.unit = unit
        self.library: Library = type_.runtime.library_for(type_.package)
        self.emitter = Emitter(runtime="S")
        self.namespace: dict[str, Any] = {}
        self.lenient_lists = bool(type_.class_config().get("contracts.lenient_lists", False))
        self._names: dict[int, str] = {}
        self._kept: list[object] = []
        self._fresh = 0
        self._functions: set[str] = set()
        self._sections: list[Section] = []
        self.refuse: Callable[[MuranoError], None] | None = None
        """While a method is written: called when a function of it cannot be compiled."""
        self.shared: dict[str, CodeType] | None = None
        """Compiled forms of texts that several modules have;"""
        self.static = False
        """True while code is compiled whose `$this` is the class, not an object."""
        self.direct_properties: dict[str, set[type[Any]]] = {}
        """The same for properties that the class's code may read directly."""
        self.direct: dict[str, set[type[Any]]] = {}
        """By method name: Python classes whose method may be called directly."""

    # -- names ---------------------------------------------------------------------------------

    def constant(self, value: object) -> str:
        """The name of the module global that holds the object."""
        known = self._names.get(id(value))
        if known is not None:
            return known
        if isinstance(value, Deferred):
            if value.scope is self:
                return value.name
            value = value.scope.namespace.get(value.name, value)
        name = f"k{len(self._names)}"
        self._names[id(value)] = name
        self._kept.append(value)
        self.namespace[name] = value
        return name

    def fresh(self) -> str:
        """A local name that nothing else uses."""
        self._fresh += 1
        return f"e{self._fresh}"

    def fresh_function(self, name: str) -> str:
        """A function's name that nothing else uses."""
        while name in self._functions:
            self._fresh += 1
            name = f"{name}_{self._fresh}"
        self._functions.add(name)
        return name

    def slot(self, attribute: str) -> str:
        """A Python attribute of objects, as it can be written in source after a dot."""
        if attribute.isascii() and attribute.isidentifier():
            return attribute
        return f"__dict__[{attribute!r}]"

    # -- functions -----------------------------------------------------------------------------

    def _define(self, prefix: str, parameters: str, body: Callable[[], str]) -> Deferred:
        name = self.fresh_function(prefix)
        text = body()
        # Written at module level: nested functions would see each other's variables.
        line = f"def {name}({parameters}): return {text}"
        self.pending.append((name, line, self._place(), self.refuse))
        return Deferred(self, name)

    @property
    def pending(self) -> list[tuple[str, str, Any, Callable[[MuranoError], None] | None]]:
        """Functions to be written before the module is executed."""
        return self.__dict__.setdefault("_pending", [])

    def _place(self) -> Any:
        return self._current

    _current: object = None

    def function(self, node: ast.Expression, scalar: Scalar) -> Deferred:
        """An expression over `$` = value as `(this, run, value)`."""
        self._current = (scalar.position, str(scalar.value))
        writer = FunctionWriter(self, dollar="v", static=self.static)
        return self._define("p", "this, S, v", lambda: writer.codegen.final(node).text)

    def computed(
        self, node: ast.Expression, scalar: Scalar
    ) -> Callable[[Any, Any, Any, Setting], Any]:
        """An expression in which contract functions are called as methods of values."""
        self._current = (scalar.position, str(scalar.value))
        writer = FunctionWriter(self, dollar="v", contract=True, scalar=scalar, static=self.static)
        return self._define("p", "this, S, v, T", lambda: writer.codegen.final(node).text)

    def structure_function(self, node: Node, title: str) -> Callable[[object, ContractRun], object]:
        """A structure as `(this, run)`."""
        self._current = (node.position, title)
        writer = FunctionWriter(self, static=self.static)
        return self._define("d", "this, S", lambda: structure_source(node, writer))

    def detached(self) -> ClassScope:
        """A separate scope for code that is compiled after this module."""
        made = ClassScope(self.type, CodeUnit.create(self.type, self.type.full_name))
        made.static = True
        return made

    def begin(self, name: str) -> None:
        """Begin the function `name`: the lines that follow belong to it."""
        self._end_section()
        self._sections.append(Section(name, len(self.unit.lines), self.refuse))

    def _end_section(self) -> None:
        if self._sections and self._sections[-1].function is None:
            self._sections[-1].end = len(self.unit.lines)

    def mark(self) -> tuple[int, ...]:
        """The current end of the module, for `return_to`."""
        sizes = map(len, (self.unit.lines, self.emitter.slots, self._sections, self.pending))
        return tuple(sizes)

    def return_to(self, mark: tuple[int, ...]) -> None:
        """Remove what was written since the mark, which cannot be compiled."""
        written: tuple[list[Any], ...] = (
            self.unit.lines,
            self.emitter.slots,
            self._sections,
            self.pending,
        )
        for items, size in zip(written, mark, strict=True):
            del items[size:]
        for line in [line for line in self.unit.table if line > mark[0]]:
            del self.unit.table[line]
        self.static = False

    def refusal(self, error: MuranoError) -> str:
        """The global name of a function that raises an error."""
        return self.constant(Refusal(error))

    def execute(self) -> None:
        """Make the module's functions; those in sections are compiled on their first call.

        Raises DslSyntaxError when a function is nested deeper than Python can take.
        """
        unit = self.unit
        unit.method = ""
        for name, text, place, refuse in self.pending:
            self.refuse = refuse
            self.begin(name)
            unit.method = place[1] if place else ""
            unit.at(place[0] if place else None, place[1] if place else "")
            unit.write(text)
        self._end_section()
        self.pending.clear()
        self.refuse = None
        unit.method = ""
        namespace = self.namespace
        namespace.update(PRELUDE)
        namespace.update(_CALL_GUARDS)
        namespace["y_FINAL"] = self.type.runtime.final_types
        namespace["range"] = range
        namespace["all"] = all
        namespace["isinstance"] = isinstance
        namespace["y_Object"] = MuranoObject
        namespace[UNIT] = unit
        for number, slot in enumerate(self.emitter.slots):
            if slot.kind not in _BOUND_WHEN_COMPILED:
                self._bind(number)
        for section in self._sections:
            section.defer(namespace, self._compile_section)
        first = self._sections[0].start if self._sections else len(unit.lines)
        if first:
            self._run("\n".join(unit.lines[:first]) + "\n")
        for section in self._sections:
            if section.may_be_refused(unit.lines):
                self._try_section(section)

    def _try_section(self, section: Section) -> None:
        """Compile a section that Python might refuse; only the methods at fault are refused."""
        if section.compiled:
            return
        try:
            self._compile_section(section)
        except DslSyntaxError:
            for item in self._sections:
                if not item.compiled and item.may_be_refused(self.unit.lines):
                    self._probe(item)
            self._compile_section(section)

    def _probe(self, section: Section) -> None:
        """Replace a section that does not compile by one that raises the reason."""
        try:
            self._compiled(section.text(self.unit.lines), kept=False)
        except DslSyntaxError as error:
            if section.refuse is None:
                raise
            section.refuse(error)
            line = f"def {section.name}(*given, **named): {self.refusal(error)}()"
            blank = [""] * (section.end - section.start - 1)
            self.unit.lines[section.start : section.end] = [line, *blank]

    def complete(self) -> None:
        """Compile every function that has not been called yet."""
        left = [section for section in self._sections if not section.compiled]
        if not left or len(left) < len(self._sections):
            for section in left:
                self._run(section.text(self.unit.lines))
            return
        first, text = left[0].start, self.unit.text
        if first:  # the lines before were already executed
            text = "\n" * first + "\n".join(self.unit.lines[first:]) + "\n"
        self._run(text)

    def _compile_section(self, section: Section) -> Callable[..., object]:
        if section.compiled:
            pass
        elif self.type.runtime.code_cache is None:
            self._run(section.text(self.unit.lines))
        else:
            self.complete()  # the cache holds whole modules
        return section.function

    def _run(self, text: str) -> None:
        """Compile source of this module and take the functions it makes."""
        code = self._compiled(text)
        if self.shared is not None:
            self.shared[text] = code
        for name in global_names(code):
            if name not in self.namespace and _SLOT.match(name):
                self._bind(int(name[1:]))
        made: dict[str, Any] = {}
        exec(code, self.namespace, made)  # noqa: S102 - written here from a checked tree
        for section in self._sections:
            real = made.pop(section.name, None)
            if real is not None:
                section.adopt(real)
        self.namespace.update(made)

    def _compiled(self, text: str, *, kept: bool = True) -> CodeType:
        filename, cache = self.unit.filename, self.type.runtime.code_cache
        if self.shared is not None and text in self.shared:
            return self.shared[text]
        try:
            if cache is not None and kept:
                return cache.code(text, filename)
            return compile(text, filename, "exec", dont_inherit=True)
        except (SyntaxError, RecursionError, MemoryError) as error:
            line = self.unit.table.get(getattr(error, "lineno", None) or 0)
            raise DslSyntaxError(
                f"a method of {self.type.name} is nested too deep: {error.args[0]}",
                position=None if line is None else line.position,
                hint="move the inner blocks to a method of their own",
            ) from error

    def _bind(self, number: int) -> None:
        slot, library = self.emitter.slots[number], self.library
        if slot.kind == "property":
            direct = self.direct_properties.setdefault(slot.data[0], set())
            site = inline_caches.property_site(self.type, slot.data[0], library, direct)
        elif slot.kind == "method":
            site = inline_caches.method_site(self, library, slot)
        else:
            site = bind_slot(slot, library)
            if slot.kind == "operator":
                site = inline_caches.operator_site(site, slot.data[0])
        if self.type.package.legacy:
            site = inline_caches.in_legacy(site, slot.kind)
        self.namespace[f"{self.emitter.prefix}{number}"] = site


_SLOT = re.compile(r"s\d+\Z")
_BOUND_WHEN_COMPILED = frozenset(("operator", "unary", "property", "function", "method"))
"""Kinds of slots whose binding cannot fail: bound only when code that names them is compiled."""
_KINDS: dict[str, Kind] = {"int": INTEGER, "str": STRING}


def _inline_predicate(node: Any, name: str, kind: str | None, tools: Guard) -> str | None:
    """A predicate over a value of known type, written in place."""
    scope = getattr(tools.constant, "__self__", None)
    if kind not in _KINDS or not isinstance(scope, ClassScope):
        return None
    if any(isinstance(item, (ast.MethodCall, ast.Call, ast.Arrow)) and not _is_list(item)
           for item in ast.walk(node)):  # fmt: skip
        return None
    writer = FunctionWriter(scope, dollar=name)
    writer.codegen.dollar_kinds = _KINDS[kind]
    return writer.codegen.condition(node)


def _is_list(node: ast.Node) -> bool:
    return isinstance(node, ast.Call) and node.name == "list"


set_predicate_inliner(_inline_predicate)
