"""The generated Python module of a class: its text, its constants and its YAQL slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vetro.yaql import ast
from vetro.yaql.codegen import Emitter
from vetro.yaql.slots import PRELUDE, Slot, bind_slot, bind_slots
from vetro.yaql.values import INTEGER, STRING, Kind

from . import sites
from .contractchains import set_predicate_inliner
from .contracts import Guard, Setting
from .functionwriter import FunctionWriter
from .methodcode import structure_source
from .traces import UNIT, CodeUnit
from .types import MuranoType
from .yamltree import Node, Scalar

if TYPE_CHECKING:
    from vetro.yaql.library import Library

    from .run import Run


class Deferred:
    """A function of a generated module, callable once the module was executed."""

    __slots__ = ("name", "scope")

    def __init__(self, scope: ClassScope, name: str) -> None:
        self.scope = scope
        self.name = name

    def __call__(self, *args: Any) -> Any:
        return self.scope.namespace[self.name](*args)


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
        self._kept: list[Any] = []
        self._fresh = 0
        self._functions: set[str] = set()
        self.static = False
        """True while something is compiled whose `$this` is the class, not an object."""
        self.direct_properties: dict[str, set[type[Any]]] = {}
        """The same for properties that the class's code may read at once."""
        self.direct: dict[str, set[type[Any]]] = {}
        """By method name: Python classes whose method may be called at once."""

    # -- names ---------------------------------------------------------------------------------

    def constant(self, value: Any) -> str:
        """The global name of an object."""
        if isinstance(value, Deferred) and value.scope is self:
            return value.name
        known = self._names.get(id(value))
        if known is not None:
            return known
        if isinstance(value, Deferred) and value.name in value.scope.namespace:
            value = value.scope.namespace[value.name]
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
        # Written where no other function is open: nested ones would see each other's variables.
        self.pending.append((f"def {name}({parameters}): return {text}", self._place()))
        return Deferred(self, name)

    @property
    def pending(self) -> list[tuple[str, Any]]:
        """Functions to be written before the module is executed."""
        return self.__dict__.setdefault("_pending", [])

    def _place(self) -> Any:
        return self._current

    _current: Any = None

    def function(self, node: ast.Expression, scalar: Scalar) -> Deferred:
        """An expression over `$` = value as `(this, run, value)`."""
        self._current = (scalar.position, str(scalar.value))
        writer = FunctionWriter(self, dollar="v", static=self.static)
        return self._define("p", "this, S, v", lambda: writer.codegen.final(node).text)

    def computed(
        self, node: ast.Expression, scalar: Scalar
    ) -> Callable[[Any, Any, Any, Setting], Any]:
        """An expression in which the contract functions are methods of its values."""
        self._current = (scalar.position, str(scalar.value))
        writer = FunctionWriter(self, dollar="v", contract=True, scalar=scalar, static=self.static)
        return self._define("p", "this, S, v, T", lambda: writer.codegen.final(node).text)

    def structure_function(self, node: Node, title: str) -> Callable[[Any, Run], Any]:
        """A structure as `(this, run)`."""
        self._current = (node.position, title)
        writer = FunctionWriter(self, static=self.static)
        return self._define("d", "this, S", lambda: structure_source(node, writer))

    def detached(self) -> ClassScope:
        """A scope of its own for something compiled after this module."""
        made = ClassScope(self.type, CodeUnit.create(self.type, self.type.full_name))
        made.static = True
        return made

    def execute(self) -> None:
        """Compile the module's text and run it."""
        unit = self.unit
        unit.method = ""
        for text, place in self.pending:
            unit.method = place[1] if place else ""
            unit.at(place[0] if place else None, place[1] if place else "")
            unit.write(text)
        self.pending.clear()
        unit.method = ""
        namespace = self.namespace
        namespace.update(PRELUDE)
        namespace["y_FINAL"] = self.type.runtime.final_types
        namespace["range"] = range
        namespace["all"] = all
        namespace["isinstance"] = isinstance
        binders = {
            "property": self._bind_property,
            "method": self._bind_method,
            "operator": self._bind_operator,
        }
        namespace.update(bind_slots(self.emitter.slots, self.library, binders=binders))
        if self.type.package.legacy:
            for number, slot in enumerate(self.emitter.slots):
                name = f"s{number}"
                namespace[name] = sites.in_legacy(namespace[name], slot.kind)
        namespace[UNIT] = unit
        cache = self.type.runtime.code_cache
        if cache is None:
            code = compile(unit.text, unit.filename, "exec", dont_inherit=True)
        else:
            code = cache.code(unit.text, unit.filename)
        exec(code, namespace)  # noqa: S102 - the text was generated here from a checked tree

    def _bind_property(self, slot: Slot) -> Any:
        name = slot.data[0]
        direct = self.direct_properties.setdefault(name, set())
        return sites.property_site(self.type, name, self.library, direct)

    def _bind_operator(self, slot: Slot) -> Any:
        return sites.operator_site(bind_slot(slot, self.library), slot.data[0])

    def _bind_method(self, slot: Slot) -> Any:
        return sites.method_site(self, self.library, slot)


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
